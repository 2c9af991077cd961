//! The first start: one account with a test key, a production key and a read-only key, committed
//! like anything else.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::accounts::record::{Record, RecordCommand, RecordRequest, RecordSpec};
use crate::accounts::{Account, CreateAccount, CreateKey, IssueKey, Key, OpenAccount};
use crate::store::CommitLog;
use crate::views::Views;
use colloquy_model::account::AccountNumber;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::{AccountId, Id, KeyId};
use colloquy_model::key::KeyType;
use colloquy_model::text::Name;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Command, Decision, Entity, Incarnation};

/// The secrets that a first start made; they are shown once, and nowhere again. Of nodes that start
/// together one may have made the one and another the other.
#[derive(Debug)]
pub struct FirstStart {
    /// The keys of the first account, where it was made here.
    pub keys: Option<FirstKeys>,
    /// The operators' token, where it was made here.
    pub operator_token: Option<String>,
}

/// The secrets of the first account's keys.
#[derive(Debug)]
pub struct FirstKeys {
    /// A key for test data.
    pub test: String,
    /// A key for live data.
    pub production: String,
    /// A key that reads live data.
    pub read: String,
}

/// That the first account could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the first account could not be made; is the disk full, or the database away?")]
pub struct NoFirstAccount;

/// Makes the first account, under this number, and its keys. One that an earlier first start has made
/// and nobody has seen gets further keys in its place: however often a start fails, there is one.
///
/// # Errors
/// The store did not take them.
pub(crate) fn first_account(
    store: &dyn CommitLog,
    views: &Views,
    number: AccountNumber,
) -> Result<FirstKeys, NoFirstAccount> {
    let creation = Creation { store, views };
    let unseen = views.identity.account_ids().into_iter().min();
    let (number, account) = match unseen {
        Some((number, account)) => (AccountNumber(number), account),
        None => (number, creation.account(number)?),
    };
    let now = Timestamp::now();
    let key = |kind: KeyType, name: &str| {
        let name = Some(Name::new(name).map_err(|_| NoFirstAccount)?);
        let new = CreateKey {
            kind,
            name,
            scopes: None,
            allowed_ips: Vec::new(),
            expires_at: None,
            user_id: None,
            require_signature: false,
        };
        let request = IssueKey { new, account };
        let (id, tenant) = (KeyId::new(now), Tenant::account(number.0));
        let answer = creation.of::<Key, _>(id, tenant, request)?;
        let shown: serde_json::Value =
            serde_json::from_slice(&answer.body).map_err(|_| NoFirstAccount)?;
        shown
            .get("key")
            .and_then(|key| key.as_str())
            .map(str::to_owned)
            .ok_or(NoFirstAccount)
    };
    Ok(FirstKeys {
        test: key(KeyType::Test, "First test key")?,
        production: key(KeyType::Prod, "First production key")?,
        read: key(KeyType::Read, "First read-only key")?,
    })
}

/// Creates records before there is any entity: straight in the store.
#[derive(Clone, Copy)]
struct Creation<'s> {
    store: &'s dyn CommitLog,
    views: &'s Views,
}

impl Creation<'_> {
    /// Creates the account.
    fn account(self, number: AccountNumber) -> Result<AccountId, NoFirstAccount> {
        let account = AccountId::new(Timestamp::now());
        let new = CreateAccount {
            name: Name::new("Default account").map_err(|_| NoFirstAccount)?,
            plan: None,
            rate_per_minute: None,
            burst_per_minute: None,
            monthly_quota: None,
            allowed_ips: Vec::new(),
            auto_close_after_minutes: None,
            domains: Vec::new(),
            cors_origins: None,
            retention_days: None,
        };
        let request = OpenAccount { new, number };
        self.of::<Account, _>(account, Tenant::OPERATORS, request)?;
        Ok(account)
    }

    /// Creates a record, and waits until it is durable.
    fn of<R: RecordSpec, Q: RecordRequest<R>>(
        self,
        id: Id<R::Named>,
        tenant: Tenant,
        request: Q,
    ) -> Result<Q::Reply, NoFirstAccount> {
        let caller = Caller {
            tenant,
            actor: Actor::server("first start"),
        };
        let command = RecordCommand {
            meta: CommandMeta::new(caller),
            request,
            identity: Arc::clone(&self.views.identity),
        };
        let Decision::Change { commit, reply, .. } =
            command.decide(&Record::<R>::vacant(id), None, Timestamp::now())
        else {
            return Err(NoFirstAccount);
        };
        let (settled, outcome) = sync_channel(1);
        let settle = Box::new(move |outcome: Result<(), _>| {
            // Whoever waits is in the next line.
            let _ = settled.send(outcome.is_ok());
        });
        self.store.submit(Incarnation::next(), commit, settle);
        if outcome.recv().unwrap_or(false) {
            Ok(reply)
        } else {
            Err(NoFirstAccount)
        }
    }
}
