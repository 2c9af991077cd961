//! Tells accounts of their limits: what was found since the last look becomes events, each in one
//! commit with the record of what the account was told. The record's fence makes it once, whatever
//! crashes and whichever node was first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::alerts::{Alert, QuotaUse, Refusal, Told};
use super::monthly_requests::QuotaShare;
use crate::accounts::Identity;
use crate::limiter::Limits;
use crate::store::{Store, Stored};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AccountId, KeyId};
use colloquy_model::json;
use colloquy_model::key::KeyType;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::CommitFailure;

/// How often a commit is tried again when another node's came first.
const TRIES_MAX: usize = 3;
/// Keys of which a refusal may wait to be told; more are left out.
const WAITING_MAX: usize = 10_000;
/// Numbers below this are those of records that a store has one of.
const NUMBERS_FROM: i64 = 16;

/// What is found and not told yet, and what accounts were told.
pub(super) struct Alerts {
    identity: Arc<Identity>,
    store: Arc<dyn Store>,
    /// The most that accounts have used of their quota in a month, by their number.
    used: BTreeMap<u32, Used>,
    /// The first refusal of keys.
    refused: BTreeMap<KeyId, Timestamp>,
    /// The records that were read or written, with their sequences.
    known: HashMap<Tenant, (Sequence, Told)>,
}

/// How much of a quota was used in a month.
#[derive(Clone, Copy)]
struct Used {
    month: Timestamp,
    shares: [QuotaShare; 2],
}

/// What one account is to be told in one mode.
struct Due {
    account: AccountId,
    quota: Vec<QuotaUse>,
    refusals: Vec<Refusal>,
}

/// It is not known to be told: it is tried again.
struct NotTold;

impl Alerts {
    /// Tells accounts of this identity, and keeps what they were told in this store.
    pub(super) fn new(identity: Arc<Identity>, store: Arc<dyn Store>) -> Self {
        Alerts {
            identity,
            store,
            used: BTreeMap::new(),
            refused: BTreeMap::new(),
            known: HashMap::new(),
        }
    }

    /// Takes note of what accounts have used of their quota in a month …
    pub(super) fn note_used(&mut self, month: Timestamp, used: Vec<(u32, [QuotaShare; 2])>) {
        let used = used.into_iter();
        let used = used.map(|(account, shares)| (account, Used { month, shares }));
        self.used.extend(used);
    }

    /// … and of the first refusal of keys since they were asked for last.
    pub(super) fn note_refused(&mut self, refused: Vec<(KeyId, Timestamp)>) {
        for (key, at) in refused {
            if self.refused.len() < WAITING_MAX {
                self.refused.entry(key).or_insert(at);
            }
        }
    }

    /// Tells whoever is to be told. What can't be written now is kept for the next time.
    pub(super) async fn tell(&mut self, now: Timestamp) {
        let (used, refused) = (
            std::mem::take(&mut self.used),
            std::mem::take(&mut self.refused),
        );
        let mut due: HashMap<Tenant, Due> = HashMap::new();
        for (number, used) in &used {
            for mode in [Mode::Live, Mode::Test] {
                self.add_quota(&mut due, Tenant::of(*number, mode), *used);
            }
        }
        for (key, at) in &refused {
            self.add_refusal(&mut due, *key, *at);
        }
        for (tenant, due) in due {
            if self.tell_one(tenant, &due, now).await.is_ok() {
                continue;
            }
            let number = tenant.account_number();
            if let Some(used) = used.get(&number).filter(|_| !due.quota.is_empty()) {
                self.used.entry(number).or_insert(*used);
            }
            let refusals = due.refusals.into_iter();
            self.refused.extend(refusals.map(|one| (one.key, one.at)));
        }
    }

    fn add_quota(&self, due: &mut HashMap<Tenant, Due>, tenant: Tenant, used: Used) {
        let Some(account) = self.identity.account_numbered(tenant.account_number()) else {
            return;
        };
        let quota = used.shares.map(|share| QuotaUse {
            month: used.month,
            used: share.used,
            limit: match share.limit {
                0 => account.monthly_quota(),
                limit => limit,
            },
        });
        let due = due_of(due, tenant, account.view.account_id);
        due.quota.extend(quota);
    }

    fn add_refusal(&self, due: &mut HashMap<Tenant, Due>, key: KeyId, at: Timestamp) {
        let Some(known) = self.identity.key(key) else {
            return;
        };
        let Some(account) = self.identity.account_numbered(known.account) else {
            return;
        };
        let mode = match known.view.kind {
            KeyType::Test => Mode::Test,
            KeyType::Prod | KeyType::Read => Mode::Live,
        };
        let (rate, burst) = account.rates();
        let refusal = Refusal {
            key,
            at,
            limits: Limits::new(rate, burst),
        };
        let tenant = Tenant::of(known.account, mode);
        due_of(due, tenant, account.view.account_id)
            .refusals
            .push(refusal);
    }

    async fn tell_one(&mut self, tenant: Tenant, due: &Due, now: Timestamp) -> Result<(), NotTold> {
        for _ in 0..TRIES_MAX {
            let (sequence, mut told) = match self.known.get(&tenant) {
                Some(known) => known.clone(),
                None if !is_any_due(due) => return Ok(()),
                None => self.read(tenant).await?,
            };
            let alerts = alerts(&mut told, due);
            if alerts.is_empty() {
                self.known.insert(tenant, (sequence, told));
                return Ok(());
            }
            let last = sequence.plus(alerts.len());
            let commit = commit_of(tenant, sequence, (&told, alerts), now);
            let committed = self.store.commit(commit).await;
            match committed {
                Ok(()) => {
                    self.known.insert(tenant, (last, told));
                    return Ok(());
                }
                // What stands there now is read with the next try.
                Err(CommitFailure::Conflict) => drop(self.known.remove(&tenant)),
                Err(_) => {
                    self.known.remove(&tenant);
                    return Err(NotTold);
                }
            }
        }
        Err(NotTold)
    }

    /// What the account was told, as it is committed.
    async fn read(&self, tenant: Tenant) -> Result<(Sequence, Told), NotTold> {
        match self.store.reload(subject(tenant)).await {
            Ok(Some(Stored::Record(record))) => match serde_json::from_str(&record.body) {
                Ok(told) => Ok((record.sequence, told)),
                Err(error) => {
                    let account = tenant.account_number();
                    tracing::error!(%error, account, "what an account was told of its limits can't be read: it may be told again");
                    Ok((record.sequence, Told::default()))
                }
            },
            Ok(_) => Ok((Sequence::ZERO, Told::default())),
            Err(_) => Err(NotTold),
        }
    }
}

/// What this account is to be told in this mode.
fn due_of(due: &mut HashMap<Tenant, Due>, tenant: Tenant, account: AccountId) -> &mut Due {
    due.entry(tenant).or_insert_with(|| Due {
        account,
        quota: Vec::new(),
        refusals: Vec::new(),
    })
}

/// Whether somebody who was told nothing would be told something: it need not be read else.
fn is_any_due(due: &Due) -> bool {
    !alerts(&mut Told::default(), due).is_empty()
}

/// What is due of this, with what was told; that is noted there.
fn alerts(told: &mut Told, due: &Due) -> Vec<Alert> {
    let quota = due.quota.iter();
    let quota = quota.flat_map(|quota| told.add_quota(due.account, *quota));
    let mut alerts: Vec<Alert> = quota.collect();
    let refusals = due.refusals.iter();
    alerts.extend(refusals.filter_map(|refusal| told.add_refusal(due.account, *refusal)));
    alerts
}

fn commit_of(
    tenant: Tenant,
    expected: Sequence,
    (told, alerts): (&Told, Vec<Alert>),
    now: Timestamp,
) -> Commit {
    let caller = Caller {
        tenant,
        actor: Actor::server("alerts"),
    };
    let mut commit = Commit::new(subject(tenant), expected, caller, now);
    let rows = alerts.into_iter();
    let rows = rows.map(|alert| NewRow::new(alert.kind, alert.data));
    commit.rows.extend(rows);
    commit.header = Header::Record {
        new: expected == Sequence::ZERO,
        name: "alerts".to_owned(),
        body: json::text(told),
        names: Vec::new(),
    };
    commit
}

/// The record of what an account was told in a mode. Its number is made of theirs: so small that no
/// identifier with a time in it has it.
fn subject(tenant: Tenant) -> Subject {
    let number = tenant.number().saturating_add(NUMBERS_FROM);
    Subject {
        kind: Kind::Alerts,
        number: EntityNumber(u64::try_from(number).unwrap_or(0)),
        tail: 0,
    }
}
