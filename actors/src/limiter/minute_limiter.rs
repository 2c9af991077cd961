//! A limit of requests a minute by key, asked by many threads without an actor: a few tables, each
//! behind its lock.

use std::hash::{BuildHasher, Hash, RandomState};

use colloquy_model::time::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::allowance::Limits;
use super::allowance_table::{AllowanceTable, Spent};

/// Enough tables that HTTP threads seldom wait for a lock.
const SHARDS: usize = 16;
/// Keys in all tables (about 35 MB). Beyond this the oldest are forgotten, so that a flood of keys
/// can't fill the memory.
const KEYS_MAX: usize = 100_000;

/// A limit of requests in any minute, for each key.
pub struct MinuteLimiter<K> {
    limits: Limits,
    hasher: RandomState,
    shards: [Mutex<AllowanceTable<K>>; SHARDS],
}

impl<K: Copy + Eq + Hash> MinuteLimiter<K> {
    /// Lets every key make `per_minute` requests (at least 1).
    #[must_use]
    pub fn new(per_minute: u32) -> Self {
        Self::of(per_minute, || AllowanceTable::new(KEYS_MAX / SHARDS))
    }

    /// The same, of which other nodes are told what was spent.
    #[must_use]
    pub fn shared(per_minute: u32) -> Self {
        Self::of(per_minute, || AllowanceTable::shared(KEYS_MAX / SHARDS))
    }

    fn of(per_minute: u32, table: impl Fn() -> AllowanceTable<K>) -> Self {
        Self {
            limits: Limits::of_rate(per_minute),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::new(table())),
        }
    }

    /// What was spent since this was asked last.
    pub(super) fn take_spent(&self) -> Vec<Spent<K>> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| shard.lock().take_spent()).collect()
    }

    /// Counts what keys have spent at another node.
    pub(super) fn spend_elsewhere(&self, spent: Vec<Spent<K>>, now: Timestamp) {
        for spent in spent {
            self.shard(spent.key).spend_elsewhere(spent, now);
        }
    }

    /// The seconds after which the key may try again; `None` when it may now. Counts nothing.
    pub fn blocked(&self, key: impl Into<K>, now: Timestamp) -> Option<u64> {
        let key = key.into();
        self.shard(key)
            .peek(key, self.limits, now)
            .retry_after_seconds
    }

    /// Counts a request if it may pass, otherwise returns the seconds after which the key may try
    /// again. Both happen in one step, so that requests that come together can't pass in between.
    pub fn take(&self, key: impl Into<K>, now: Timestamp) -> Option<u64> {
        let key = key.into();
        self.shard(key)
            .take(key, self.limits, 1, now)
            .retry_after_seconds
    }

    /// How many keys are stored.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[expect(clippy::indexing_slicing, reason = "below the length by the remainder")]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the lower bits choose"
    )]
    fn shard(&self, key: K) -> MutexGuard<'_, AllowanceTable<K>> {
        self.shards[self.hasher.hash_one(key) as usize % SHARDS].lock()
    }
}
