//! Looks up what proves domains: soon after one is asked for, again and again while it is missing, and
//! at once when an operator says so. A nameserver that says nothing holds up its own account's domains
//! and nobody else's.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::AccountId;
use colloquy_runtime::threads::BackgroundThread;
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::account::{Account, ProveDomain};
use super::domain::TxtAnswer;
use super::hosts::PendingDomain;
use super::identity::Identity;
use super::records::Records;
use crate::store::Later;

/// Names that are looked up at once …
const LOOKUPS_MAX: usize = 32;
/// … and how many of them may be one account's.
const ACCOUNT_LOOKUPS_MAX: usize = 2;

/// Looks up TXT records; bounded in time by whoever implements it.
pub trait TxtRecords: Send + Sync {
    /// What the records of this name hold.
    fn look_up(&self, name: String) -> Later<TxtAnswer>;
}

/// When a domain is looked up again whose record is missing.
#[derive(Debug, Clone, Copy)]
pub struct ProofSettings {
    /// The first time; doubled with each that follows.
    pub retry_min: Duration,
    /// The longest pause.
    pub retry_max: Duration,
}

/// A domain that is being looked up, by the value that proves it: that one is never used again.
type Key = (AccountId, String);

/// When a domain is looked up next.
#[derive(Debug, Clone, Copy)]
struct Next {
    at: Instant,
    pause: Duration,
    is_running: bool,
}

/// Proves domains by their TXT records.
pub struct DomainProofs {
    pub(crate) accounts: Arc<Records<Account>>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) source: Arc<dyn TxtRecords>,
    pub(crate) settings: ProofSettings,
}

impl DomainProofs {
    /// What the TXT record of a host name holds.
    pub async fn look_up(&self, txt_name: &str) -> TxtAnswer {
        self.source.look_up(txt_name.to_owned()).await
    }

    /// Starts the thread that looks after domains that are to be proven.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<BackgroundThread> {
        let proofs = Arc::clone(self);
        BackgroundThread::start_with_connections("domains", move || {
            let proofs = Arc::clone(&proofs);
            async move { proofs.look_after_all().await }
        })
    }

    async fn look_after_all(&self) {
        let mut changes = self.identity.hosts.changes();
        let mut schedule: HashMap<Key, Next> = HashMap::new();
        let mut running: FuturesUnordered<LocalBoxFuture<'_, (Key, bool)>> =
            FuturesUnordered::new();
        let mut pending = Vec::new();
        changes.mark_changed();
        loop {
            let due = next_due(&schedule);
            let is_idle = running.is_empty();
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pending = self.identity.hosts.pending();
                    self.reschedule(&mut schedule, &pending);
                }
                Some((key, is_settled)) = running.next(), if !is_idle => {
                    self.looked_up(&mut schedule, &key, is_settled);
                }
                () = wait_until(due), if due.is_some() => {}
            }
            for domain in startable(&schedule, &pending) {
                if let Some(next) = schedule.get_mut(&key_of(domain)) {
                    next.is_running = true;
                }
                running.push(Box::pin(self.look_at(domain.clone())));
            }
        }
    }

    /// Those that have come are due at once, those that have gone are forgotten.
    fn reschedule(&self, schedule: &mut HashMap<Key, Next>, pending: &[PendingDomain]) {
        let keys: Vec<Key> = pending.iter().map(key_of).collect();
        schedule.retain(|key, next| next.is_running || keys.contains(key));
        for key in keys {
            schedule.entry(key).or_insert_with(|| Next {
                at: Instant::now(),
                pause: self.settings.retry_min,
                is_running: false,
            });
        }
    }

    fn looked_up(&self, schedule: &mut HashMap<Key, Next>, key: &Key, is_settled: bool) {
        if is_settled {
            schedule.remove(key);
        } else if let Some(next) = schedule.get_mut(key) {
            next.is_running = false;
            next.at = Instant::now() + next.pause;
            next.pause = (next.pause * 2).min(self.settings.retry_max);
        }
    }

    /// Looks a domain up, and takes note if it is proven; whether nothing is left to be done.
    async fn look_at(&self, pending: PendingDomain) -> (Key, bool) {
        let key = key_of(&pending);
        let PendingDomain { account, domain } = pending;
        let found = self.look_up(&domain.txt_name).await;
        if found.proves(&domain).is_err() {
            return (key, false);
        }
        let caller = Caller {
            tenant: Tenant::OPERATORS,
            actor: Actor::server("domains"),
        };
        let prove = ProveDomain {
            host: domain.host,
            found,
        };
        let meta = CommandMeta::new(caller);
        let proven = self.accounts.ask::<ProveDomain>(account, meta, prove).await;
        // Refused because another account was first, it stays pending: that one may give it up.
        (key, proven.map(|_: Answer| ()).is_ok())
    }
}

fn key_of(pending: &PendingDomain) -> Key {
    (pending.account, pending.domain.txt_value.clone())
}

fn next_due(schedule: &HashMap<Key, Next>) -> Option<Instant> {
    let waiting = schedule.values().filter(|next| !next.is_running);
    // What is due and finds no room waits for one that runs, not for the clock.
    let now = Instant::now();
    waiting.map(|next| next.at).filter(|at| *at > now).min()
}

async fn wait_until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}

/// The domains that may be looked up now: those first that were looked up least often.
fn startable<'p>(
    schedule: &HashMap<Key, Next>,
    pending: &'p [PendingDomain],
) -> Vec<&'p PendingDomain> {
    let now = Instant::now();
    let mut of_account: HashMap<AccountId, usize> = HashMap::new();
    let mut running = 0;
    for ((account, _), _) in schedule.iter().filter(|(_, next)| next.is_running) {
        running += 1;
        *of_account.entry(*account).or_default() += 1;
    }
    let due = |domain: &&PendingDomain| {
        let next = schedule.get(&key_of(domain));
        next.is_some_and(|next| !next.is_running && next.at <= now)
    };
    let mut due: Vec<&PendingDomain> = pending.iter().filter(due).collect();
    due.sort_by_key(|domain| {
        schedule
            .get(&key_of(domain))
            .map(|next| (next.pause, next.at))
    });
    due.retain(|domain| {
        let own = of_account.entry(domain.account).or_default();
        let may = running < LOOKUPS_MAX && *own < ACCOUNT_LOOKUPS_MAX;
        if may {
            running += 1;
            *own += 1;
        }
        may
    });
    due
}

#[cfg(test)]
mod tests {
    use colloquy_model::domain::{DomainState, DomainView, txt_name};
    use colloquy_model::time::Timestamp;

    use super::*;

    fn pending(account: AccountId, host: &str) -> PendingDomain {
        PendingDomain {
            account,
            domain: DomainView {
                host: host.to_owned(),
                state: DomainState::Pending,
                txt_name: txt_name(host),
                txt_value: host.to_owned(),
                proven_at: None,
            },
        }
    }

    #[tokio::test]
    async fn an_account_whose_nameserver_is_silent_leaves_room_for_the_others() {
        let (silent, other) = (AccountId::new(Timestamp(1)), AccountId::new(Timestamp(2)));
        let mut all: Vec<_> = (0..20)
            .map(|number| pending(silent, &format!("{number}.silent.example")))
            .collect();
        all.push(pending(other, "chat.shop.example"));
        let next = Next {
            at: Instant::now(),
            pause: Duration::from_secs(1),
            is_running: false,
        };
        let mut schedule: HashMap<Key, Next> = all.iter().map(|one| (key_of(one), next)).collect();
        let first = startable(&schedule, &all);
        let of = |account| first.iter().filter(|one| one.account == account).count();
        assert_eq!((of(silent), of(other)), (ACCOUNT_LOOKUPS_MAX, 1));
        for domain in first {
            if let Some(next) = schedule.get_mut(&key_of(domain)) {
                next.is_running = true;
            }
        }
        assert_eq!(startable(&schedule, &all), Vec::<&PendingDomain>::new());
    }
}
