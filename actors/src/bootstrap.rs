//! The first start: one account with a test key, a production key and a read-only key, committed
//! like anything else.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::accounts::record::{Record, RecordCommand, RecordRequest, RecordSpec};
use crate::accounts::{Account, CreateAccount, CreateKey, IssueKey, Key, OpenAccount};
use crate::store::CommitLog;
use crate::store::sqlite::OpenError;
use crate::views::Views;
use colloquy_model::account::AccountNumber;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::{AccountId, Id, KeyId};
use colloquy_model::key::KeyType;
use colloquy_model::text::Name;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Command, Decision, Entity, Incarnation};

/// The secrets that a first start made; they are shown once, and nowhere again.
#[derive(Debug)]
pub struct FirstStart {
    /// A key for test data.
    pub test_key: String,
    /// A key for live data.
    pub production_key: String,
    /// A key that reads live data.
    pub read_key: String,
    /// The operators' token, where none was set.
    pub operator_token: Option<String>,
}

/// Makes the first account and its keys.
///
/// # Errors
/// The store did not take them.
pub(crate) fn first_start(
    store: &dyn CommitLog,
    views: &Views,
    operator_token: Option<String>,
) -> Result<FirstStart, OpenError> {
    let now = Timestamp::now();
    let account = AccountId::new(now);
    let name = Name::new("Default account").map_err(|_| OpenError::FirstStart)?;
    let new = CreateAccount {
        name,
        plan: None,
        rate_per_minute: None,
        burst_per_minute: None,
        allowed_ips: Vec::new(),
        auto_close_after_minutes: None,
    };
    let number = AccountNumber(1);
    let creation = Creation { store, views };
    let request = OpenAccount { new, number };
    creation.of::<Account, _>(account, Tenant::OPERATORS, request)?;
    let key = |kind: KeyType, name: &str| {
        let name = Some(Name::new(name).map_err(|_| OpenError::FirstStart)?);
        let new = CreateKey {
            kind,
            name,
            scopes: None,
            allowed_ips: Vec::new(),
            expires_at: None,
            user_id: None,
        };
        let request = IssueKey { new, account };
        let (id, tenant) = (KeyId::new(now), Tenant::account(number.0));
        let answer = creation.of::<Key, _>(id, tenant, request)?;
        let shown: serde_json::Value =
            serde_json::from_slice(&answer.body).map_err(|_| OpenError::FirstStart)?;
        shown
            .get("key")
            .and_then(|key| key.as_str())
            .map(str::to_owned)
            .ok_or(OpenError::FirstStart)
    };
    Ok(FirstStart {
        test_key: key(KeyType::Test, "First test key")?,
        production_key: key(KeyType::Prod, "First production key")?,
        read_key: key(KeyType::Read, "First read-only key")?,
        operator_token,
    })
}

/// Creates records before there is any entity: straight in the store.
#[derive(Clone, Copy)]
struct Creation<'s> {
    store: &'s dyn CommitLog,
    views: &'s Views,
}

impl Creation<'_> {
    /// Creates a record, and waits until it is durable.
    fn of<R: RecordSpec, Q: RecordRequest<R>>(
        self,
        id: Id<R::Named>,
        tenant: Tenant,
        request: Q,
    ) -> Result<Q::Reply, OpenError> {
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
            return Err(OpenError::FirstStart);
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
            Err(OpenError::FirstStart)
        }
    }
}
