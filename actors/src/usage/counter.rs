//! What is counted of requests, in memory: asked with each request by many threads without an actor,
//! a few tables, each behind its lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::calendar::{Calendar, Turn};
use super::monthly_requests::{MonthlyRequests, QuotaShare};
use crate::store::{AccountUsage, NodeRequests, UsageQuery};
use colloquy_model::id::KeyId;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

/// Enough tables that HTTP threads seldom wait for a lock.
const SHARDS: usize = 16;

/// Whose requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Who {
    /// The account's small number.
    pub account: u32,
    /// The credential that the request came with.
    pub credential: CountedCredential,
}

/// The account's quota of this month is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaSpent {
    /// When the next month begins.
    pub resets_at: Timestamp,
}

/// How much of its quota an account has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaStatus {
    /// Requests of this month, as far as this node knows.
    pub used: u64,
    /// When the next month begins.
    pub resets_at: Timestamp,
}

/// What one account, one day and one credential counts under.
type CountedUnder = (u32, Timestamp, CountedCredential);

/// What is counted of some accounts.
struct Table {
    calendar: Calendar,
    /// The requests of this month, by account.
    accounts: HashMap<u32, MonthlyRequests>,
    /// What was counted and is not handed to the store.
    counted: HashMap<CountedUnder, UsageCounts>,
    /// Accounts of which nobody has looked how much of their quota is used by now.
    unchecked: Vec<u32>,
    /// When keys were refused first for their limits since that was asked for last.
    refused: HashMap<KeyId, Timestamp>,
}

impl Table {
    /// The account's requests of the month that this instant falls into.
    fn requests(&mut self, account: u32) -> &mut MonthlyRequests {
        self.accounts.entry(account).or_default()
    }

    /// Notes that somebody is to look how much of its quota an account has used.
    fn mark_unchecked(&mut self, account: u32, quota: u64) {
        if self.requests(account).mark_unchecked(quota) {
            self.unchecked.push(account);
        }
    }

    fn count(&mut self, who: Who, now: Timestamp, counts: UsageCounts) {
        let under = (who.account, self.calendar.day_of(now), who.credential);
        *self.counted.entry(under).or_default() += counts;
    }
}

/// What is counted of all accounts at this node.
pub struct UsageCounter {
    shards: [Mutex<Table>; SHARDS],
    /// Whether a month began whose requests the store may know more of.
    turned: AtomicBool,
}

impl UsageCounter {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let table = || Table {
            calendar: Calendar::at(now),
            accounts: HashMap::new(),
            counted: HashMap::new(),
            unchecked: Vec::new(),
            refused: HashMap::new(),
        };
        UsageCounter {
            shards: std::array::from_fn(|_| Mutex::new(table())),
            turned: AtomicBool::new(false),
        }
    }

    /// Takes one request out of the account's quota (0: it has none), until it is let in or not.
    ///
    /// # Errors
    /// The quota of this month is spent; that is counted.
    pub fn reserve(
        &self,
        who: Who,
        quota: u64,
        now: Timestamp,
    ) -> Result<QuotaPermit<'_>, QuotaSpent> {
        let mut table = self.table(who.account, now);
        if table.requests(who.account).take(quota) {
            return Ok(QuotaPermit {
                counter: self,
                who,
                now,
                month: table.calendar.month(),
                quota,
                is_open: true,
            });
        }
        let refused = UsageCounts {
            quota_exceeded: 1,
            ..UsageCounts::default()
        };
        table.count(who, now, refused);
        // The quota may have been lowered.
        table.mark_unchecked(who.account, quota);
        Err(QuotaSpent {
            resets_at: table.calendar.next_month(),
        })
    }

    /// Counts what came of a request.
    pub fn count(&self, who: Who, now: Timestamp, counts: UsageCounts) {
        self.table(who.account, now).count(who, now, counts);
    }

    /// Counts an attempt to deliver to a webhook endpoint of the account: no credential made it.
    pub fn count_delivery(&self, account: u32, now: Timestamp) {
        let who = Who {
            account,
            credential: CountedCredential::NONE,
        };
        let counts = UsageCounts {
            deliveries: 1,
            ..UsageCounts::default()
        };
        self.count(who, now, counts);
    }

    /// How much of its quota an account has used.
    #[must_use]
    pub fn quota(&self, account: u32, now: Timestamp) -> QuotaStatus {
        let table = self.table(account, now);
        let requests = table.accounts.get(&account);
        QuotaStatus {
            used: requests.map_or(0, MonthlyRequests::used),
            resets_at: table.calendar.next_month(),
        }
    }

    /// What was counted since this was asked last.
    pub(super) fn take_counted(&self) -> Vec<AccountUsage> {
        let taken = self.shards.iter().flat_map(|shard| {
            let counted = std::mem::take(&mut shard.lock().counted);
            counted.into_iter().map(account_usage)
        });
        taken.collect()
    }

    /// What was counted of an account on these days and not taken yet.
    pub(super) fn counted(&self, query: UsageQuery) -> Vec<DayUsage> {
        let table = self.shard(query.account).lock();
        let counted = table.counted.iter().filter(|((account, day, _), _)| {
            *account == query.account && (query.from..query.to).contains(day)
        });
        counted
            .map(|(under, counts)| account_usage((*under, *counts)).used)
            .collect()
    }

    /// The requests that each account has made here this month, where other nodes do not know all of
    /// them.
    pub(super) fn take_untold(&self, month: Timestamp) -> Vec<(u32, u64)> {
        let mut untold = Vec::new();
        for shard in &self.shards {
            let mut table = shard.lock();
            if table.calendar.month() != month {
                continue;
            }
            let accounts = table.accounts.iter_mut();
            untold.extend(accounts.filter_map(|(account, requests)| {
                let here = requests.take_untold()?;
                Some((*account, here))
            }));
        }
        untold
    }

    /// The accounts that have used more of this month's quota since this was asked last: the most that
    /// this was of the quota of then, and what it is now.
    pub(super) fn take_unchecked(&self, month: Timestamp) -> Vec<(u32, [QuotaShare; 2])> {
        let mut used = Vec::new();
        for shard in &self.shards {
            let mut table = shard.lock();
            if table.calendar.month() != month {
                continue;
            }
            for account in std::mem::take(&mut table.unchecked) {
                let shares = table.requests(account).take_unchecked();
                used.extend(shares.map(|shares| (account, shares)));
            }
        }
        used
    }

    /// The keys that were refused for their limits since this was asked last, with when that was
    /// first.
    pub(super) fn take_refused(&self) -> Vec<(KeyId, Timestamp)> {
        let taken = self
            .shards
            .iter()
            .flat_map(|shard| std::mem::take(&mut shard.lock().refused));
        taken.collect()
    }

    /// Takes in what nodes have let in since this month began; `own` is this node.
    pub(super) fn learn(&self, month: Timestamp, own: u64, known: &[NodeRequests]) {
        for NodeRequests {
            account,
            node,
            requests,
        } in known
        {
            let mut table = self.shard(*account).lock();
            if table.calendar.month() != month {
                continue;
            }
            let of_account = table.requests(*account);
            match *node == own {
                true => of_account.recover(*requests),
                false => of_account.learn(*node, *requests),
            }
            table.mark_unchecked(*account, 0);
        }
    }

    /// Goes on to this instant. Whether a month began since this was asked last.
    pub(super) fn has_turned(&self, now: Timestamp) -> bool {
        for shard in &self.shards {
            self.turn(&mut shard.lock(), now);
        }
        self.turned.swap(false, Ordering::Relaxed)
    }

    fn table(&self, account: u32, now: Timestamp) -> MutexGuard<'_, Table> {
        let mut table = self.shard(account).lock();
        self.turn(&mut table, now);
        table
    }

    fn turn(&self, table: &mut Table, now: Timestamp) {
        if table.calendar.turn_to(now) == Turn::OtherMonth {
            table.accounts.clear();
            table.unchecked.clear();
            self.turned.store(true, Ordering::Relaxed);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "below the length by the remainder")]
    fn shard(&self, account: u32) -> &Mutex<Table> {
        &self.shards[account as usize % SHARDS]
    }
}

fn account_usage(
    ((account, day, credential), counts): (CountedUnder, UsageCounts),
) -> AccountUsage {
    AccountUsage {
        account,
        used: DayUsage {
            day,
            credential,
            counts,
        },
    }
}

/// One request that was taken out of a quota. Dropped before it is let in, it goes back.
#[must_use]
pub struct QuotaPermit<'c> {
    counter: &'c UsageCounter,
    who: Who,
    now: Timestamp,
    month: Timestamp,
    quota: u64,
    is_open: bool,
}

impl QuotaPermit<'_> {
    /// The request is let in: it counts.
    pub fn spend(mut self) {
        self.is_open = false;
        let let_in = UsageCounts {
            requests: 1,
            ..UsageCounts::default()
        };
        let Who { account, .. } = self.who;
        let mut table = self.counter.table(account, self.now);
        if table.calendar.month() == self.month {
            table.requests(account).decide();
            if self.quota > 0 {
                table.mark_unchecked(account, self.quota);
            }
        }
        table.count(self.who, self.now, let_in);
    }

    /// The rate limit refuses the request: that is what counts.
    pub fn refuse(self) {
        let refused = UsageCounts {
            rate_limited: 1,
            ..UsageCounts::default()
        };
        let mut table = self.counter.table(self.who.account, self.now);
        table.count(self.who, self.now, refused);
        if let Some(key) = self.who.credential.key() {
            table.refused.entry(key).or_insert(self.now);
        }
    }
}

impl Drop for QuotaPermit<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let mut table = self.counter.shard(self.who.account).lock();
        if table.calendar.month() == self.month {
            table.requests(self.who.account).give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or(Timestamp::MIN)
    }

    fn who() -> Who {
        Who {
            account: 1,
            // Of no later day than today: identifiers of the whole process come behind it.
            credential: KeyId::new(Timestamp(1)).into(),
        }
    }

    #[test]
    fn a_quota_lets_in_as_many_requests_as_it_has_and_the_next_month_as_many_again() {
        let now = at("2026-11-30T23:59:58Z");
        let (counter, who) = (UsageCounter::new(now), who());
        for _ in 0..3 {
            assert!(counter.reserve(who, 3, now).map(QuotaPermit::spend).is_ok());
        }
        let spent = counter.reserve(who, 3, now).map(drop);
        let resets_at = at("2026-12-01T00:00:00Z");
        assert_eq!(spent, Err(QuotaSpent { resets_at }));
        assert!(
            counter
                .reserve(who, 3, resets_at)
                .map(QuotaPermit::spend)
                .is_ok()
        );
        assert_eq!(counter.quota(1, resets_at).used, 1);
        assert!(counter.has_turned(resets_at));
        let mut days = counter.take_counted();
        days.sort_unstable_by_key(|usage| usage.used.day);
        let counted: Vec<_> = days
            .iter()
            .map(|usage| (usage.used.counts.requests, usage.used.counts.quota_exceeded))
            .collect();
        assert_eq!(counted, [(3, 1), (1, 0)]);
    }

    #[test]
    fn what_the_rate_limit_refuses_or_nobody_waits_for_goes_back() {
        let now = at("2026-11-15T12:00:00Z");
        let (counter, who) = (UsageCounter::new(now), who());
        assert!(counter.reserve(who, 1, now).map(drop).is_ok());
        assert!(
            counter
                .reserve(who, 1, now)
                .map(QuotaPermit::refuse)
                .is_ok()
        );
        assert_eq!(counter.quota(1, now).used, 0);
        let counted = counter.take_counted();
        let rate_limited: u64 = counted.iter().map(|one| one.used.counts.rate_limited).sum();
        assert_eq!(rate_limited, 1);
    }

    #[test]
    fn what_is_used_of_a_quota_is_to_be_looked_at_when_it_is_let_in() {
        let now = at("2026-11-15T12:00:00Z");
        let month = at("2026-11-01T00:00:00Z");
        let (counter, who) = (UsageCounter::new(now), who());
        let permit = counter.reserve(who, 2, now);
        assert!(counter.take_unchecked(month).is_empty());
        let spent = permit.map(QuotaPermit::spend);
        assert!(spent.is_ok(), "the first of two");
        let refused = counter.reserve(who, 2, now).map(QuotaPermit::refuse);
        assert!(refused.is_ok());
        let share = |used, limit| {
            let most = QuotaShare { used, limit };
            [(1, [most, QuotaShare { used, limit: 0 }])]
        };
        assert_eq!(counter.take_unchecked(month), share(1, 2));
        assert!(counter.take_unchecked(month).is_empty());
        let unbounded = counter.reserve(who, 0, now).map(QuotaPermit::spend);
        assert!(unbounded.is_ok());
        assert!(counter.take_unchecked(month).is_empty(), "without a quota");
        assert!(counter.reserve(who, 2, now).is_err());
        assert_eq!(counter.take_unchecked(month), share(2, 2));
    }

    #[test]
    fn a_keys_first_refusal_is_told_once() {
        let now = at("2026-11-15T12:00:00Z");
        let (counter, who) = (UsageCounter::new(now), who());
        let second = Timestamp(now.0 + 5);
        for at in [now, second] {
            let refused = counter.reserve(who, 0, at).map(QuotaPermit::refuse);
            assert!(refused.is_ok());
        }
        let refused = counter.take_refused();
        assert_eq!(refused.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [now]);
        assert!(counter.take_refused().is_empty());
    }

    #[test]
    fn what_other_nodes_say_of_another_month_is_let_be() {
        let now = at("2026-11-15T12:00:00Z");
        let counter = UsageCounter::new(now);
        let known = [NodeRequests {
            account: 1,
            node: 7,
            requests: 5,
        }];
        counter.learn(at("2026-12-01T00:00:00Z"), 0, &known);
        assert_eq!(counter.quota(1, now).used, 0);
        counter.learn(at("2026-11-01T00:00:00Z"), 0, &known);
        assert_eq!(counter.quota(1, now).used, 5);
    }
}
