//! A stand-in for the façade, so that the edge compiles until the actors are finished. To be replaced.
#![expect(
    missing_docs,
    clippy::unused_async,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "a stand-in, to be replaced"
)]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::accounts::*;
use crate::answer::{Answer, Invalid, Precondition};
use crate::caller::{Caller, Scope};
use crate::conversation::messages::*;
use crate::id::*;
use crate::idempotency::{Keys, Looked, Reservation};
use crate::page::{Page, Paging};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError<R> {
    Refused(R),
    Unavailable { cause: Cause, retry_after: Duration },
    Crashed,
    TimedOut,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    #[error("mailbox full")]
    MailboxFull,
    #[error("backing off")]
    BackingOff,
    #[error("quarantined")]
    Quarantined,
    #[error("draining")]
    Draining,
    #[error("store away")]
    StoreAway,
    #[error("timed out before its turn")]
    TimedOut,
    #[error("conflict")]
    Conflict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    NotFound,
    Precondition,
    Taken { field: &'static str },
    InUse { reason: &'static str },
    Invalid(Invalid),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListFailure {
    NotFound,
    Invalid(Invalid),
    TooSlow,
    Away,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub mailbox_places: u32,
    pub turn_budget: u32,
    pub ask_timeout: Duration,
    pub active_max: usize,
    pub bytes_max: usize,
    pub idle: Duration,
    pub sweep: Duration,
    pub loads_max: usize,
    pub crashes_max: u32,
    pub window: Duration,
    pub backoff_first: Duration,
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    pub jitter: f64,
    pub quarantine: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRates {
    pub rate_per_minute: u32,
    pub burst_per_minute: u32,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub store_path: PathBuf,
    pub operator_token: Option<String>,
    pub basic: PlanRates,
    pub pro: PlanRates,
    pub auth_failures_per_minute: u32,
    /// By kind: `conversation`, `account`, `key`, `user`, `customer`.
    pub policies: BTreeMap<&'static str, Policy>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

pub struct Opened {
    pub system: Arc<System>,
    pub first_start: Option<FirstStart>,
}

#[derive(Debug)]
pub struct FirstStart {
    pub test_key: String,
    pub production_key: String,
    pub read_key: String,
    pub customer_id: String,
    pub operator_token: String,
}

pub struct System {
    pub identity: Arc<Identity>,
    pub conversations: Conversations,
    pub accounts: Records<Account>,
    pub keys: Records<Key>,
    pub users: Records<User>,
    pub customers: Records<Customer>,
    pub idempotency: Idempotency,
    pub limiter: Limiter,
    pub addresses: AddressLimiter,
    token: SecretHash,
}

const KEY: &str = "sk_test_stand_in";

impl System {
    pub fn open(settings: Settings) -> Result<Opened, OpenError> {
        let identity = Arc::new(Identity::default());
        let now = Timestamp::now();
        let account_id = AccountId::new(now.0);
        let view = AccountView {
            account_id,
            name: "First".into(),
            plan: Plan::Basic,
            rate_per_minute: settings.basic.rate_per_minute,
            burst_per_minute: settings.basic.burst_per_minute,
            monthly_quota: 0,
            allowed_ips: vec![],
            auto_close_after_minutes: None,
            created_at: now,
            updated_at: now,
        };
        identity.put_account(KnownAccount { view, number: 1 });
        let view = KeyView {
            key_id: KeyId::new(now.0),
            account_id,
            kind: KeyType::Test,
            name: None,
            prefix: "sk_test_".into(),
            last4: "d_in".into(),
            scopes: None,
            allowed_ips: vec![],
            expires_at: None,
            user_id: None,
            require_signature: false,
            created_at: now,
            last_used_at: None,
            revoked_at: None,
            key: None,
        };
        identity.put_key(KnownKey { view, account: 1, last_used_ms: Arc::default() }, &[(secret_hash(KEY), None)]);
        let token = settings.operator_token.unwrap_or_else(|| "op_stand_in_0123456789".into());
        let system = System {
            identity,
            conversations: Conversations,
            accounts: Records(PhantomData),
            keys: Records(PhantomData),
            users: Records(PhantomData),
            customers: Records(PhantomData),
            idempotency: Idempotency(Arc::default()),
            limiter: Limiter,
            addresses: AddressLimiter,
            token: secret_hash(&token),
        };
        let first_start = Some(FirstStart {
            test_key: KEY.into(),
            production_key: "sk_prod_stand_in".into(),
            read_key: "sk_read_stand_in".into(),
            customer_id: CustomerId::new(now.0).to_string(),
            operator_token: token,
        });
        Ok(Opened { system: Arc::new(system), first_start })
    }
    pub fn register_worker(&self) {}
    pub fn ready(&self) -> bool {
        true
    }
    pub fn drain(&self) {}
    pub async fn drained(&self, _deadline: Duration) {}
    pub fn close(&self) {}
    pub fn operator_token_hash(&self) -> SecretHash {
        self.token
    }
    pub fn metrics(&self) -> String {
        String::new()
    }
}

fn away<R>() -> AskError<R> {
    AskError::Unavailable { cause: Cause::StoreAway, retry_after: Duration::from_secs(1) }
}

#[derive(Debug, Clone)]
pub struct ConversationList {
    pub status: Option<Status>,
    pub customer: Option<CustomerId>,
    pub channel: Option<Channel>,
    pub priority: Option<Priority>,
    pub assignee: Option<UserId>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    pub by_update: bool,
    pub paging: Paging,
}

#[derive(Debug, Clone)]
pub struct MessageList {
    pub paging: Paging,
    pub after_seq: Option<u64>,
    pub before_seq: Option<u64>,
    pub sender_type: Option<SenderType>,
}

type Reply = Result<Answer, AskError<ConversationError>>;

pub struct Conversations;
impl Conversations {
    pub async fn create(&self, _: Caller, _: CreateConversation, _: Option<Reservation>) -> Reply {
        Err(away())
    }
    pub async fn ask(
        &self,
        _: ConversationId,
        _: Caller,
        _: Option<Precondition>,
        _: Option<Reservation>,
        _: Request,
    ) -> Reply {
        Err(away())
    }
    pub async fn list(&self, _: Scope, _: ConversationList) -> Result<Page, ListFailure> {
        Ok(empty())
    }
    pub async fn messages(&self, _: Scope, _: ConversationId, _: MessageList) -> Result<Page, ListFailure> {
        Ok(empty())
    }
    pub async fn message(&self, _: Scope, _: ConversationId, _: MessageId) -> Reply {
        Err(away())
    }
    pub async fn revisions(&self, _: Scope, _: ConversationId, _: MessageId, _: Paging) -> Result<Page, ListFailure> {
        Ok(empty())
    }
}

fn empty() -> Page {
    Page { data: Bytes::from_static(b"[]"), count: 0, total: 0, first: None, last: None, before: false, after: false }
}

pub trait Record {
    type Id;
    type Request;
}
pub struct Account;
pub struct Key;
pub struct User;
pub struct Customer;
#[derive(Debug)]
pub enum AccountRequest {
    Create(CreateAccount),
    Read,
    Change(ChangeAccount),
}
#[derive(Debug)]
pub enum KeyRequest {
    Create(CreateKey, AccountId),
    Read,
    Change(ChangeKey),
    Revoke,
    Rotate(RotateKey),
}
#[derive(Debug)]
pub enum UserRequest {
    Create(CreateUser),
    Read,
    Change(ChangeUser),
    Delete,
}
#[derive(Debug)]
pub enum CustomerRequest {
    Create(CreateCustomer),
    Read,
    Change(ChangeCustomer),
    Delete,
}
impl Record for Account {
    type Id = AccountId;
    type Request = AccountRequest;
}
impl Record for Key {
    type Id = KeyId;
    type Request = KeyRequest;
}
impl Record for User {
    type Id = UserId;
    type Request = UserRequest;
}
impl Record for Customer {
    type Id = CustomerId;
    type Request = CustomerRequest;
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub email: Option<String>,
    pub external_id: Option<String>,
}

pub struct Records<R>(PhantomData<fn() -> R>);
impl<R: Record> Records<R> {
    pub async fn ask(
        &self,
        _: R::Id,
        _: Caller,
        _: Option<Precondition>,
        _: Option<Reservation>,
        _: R::Request,
    ) -> Result<Answer, AskError<RecordError>> {
        Err(away())
    }
    pub async fn list(&self, _: Scope, _: Filter, _: Paging) -> Result<Page, ListFailure> {
        Ok(empty())
    }
}

#[derive(Debug)]
pub enum Known {
    Fresh(Reservation),
    Running,
    Reused,
    Replay(Answer),
}

pub struct Idempotency(Arc<Keys>);
impl Idempotency {
    pub async fn look(
        &self,
        scope: Scope,
        key: &str,
        request: [u8; 16],
    ) -> Result<Known, AskError<std::convert::Infallible>> {
        Ok(match self.0.look(Keys::hash(scope, key), request) {
            Looked::Fresh(reservation) => Known::Fresh(reservation),
            Looked::Running => Known::Running,
            Looked::Done { .. } => Known::Reused,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    pub allowed: bool,
    pub limit: u32,
    pub burst: u32,
    pub remaining: u32,
    pub burst_remaining: u32,
    pub reset_unix_seconds: i64,
    pub reset_after_seconds: u64,
    pub burst_reset_after_seconds: u64,
    pub retry_after_seconds: Option<u64>,
}

pub struct Limiter;
impl Limiter {
    pub async fn take(&self, _key: u64, rate: u32, burst: u32, permits: u32, now_ms: i64) -> Option<Permit> {
        Some(Permit {
            allowed: true,
            limit: rate,
            burst,
            remaining: rate - permits,
            burst_remaining: burst - permits,
            reset_unix_seconds: now_ms / 1000 + 60,
            reset_after_seconds: 60,
            burst_reset_after_seconds: 60,
            retry_after_seconds: None,
        })
    }
    pub async fn peek(&self, key: u64, rate: u32, burst: u32, now_ms: i64) -> Option<Permit> {
        self.take(key, rate, burst, 0, now_ms).await
    }
}

pub struct AddressLimiter;
impl AddressLimiter {
    pub fn blocked(&self, _: IpAddr, _: i64) -> Option<u64> {
        None
    }
    pub fn failed(&self, _: IpAddr, _: i64) {}
}

/// What `colloquy check` found wrong; empty: nothing.
pub fn check(_settings: &Settings) -> Result<Vec<String>, OpenError> {
    Ok(vec![])
}
