//! Allowances of one limit by key, asked synchronously by many threads: a table for each of a few
//! locks.

use std::hash::{BuildHasher, Hash, RandomState};

use parking_lot::{Mutex, MutexGuard};

use super::state::Limits;
use super::table::AllowanceTable;

/// Enough that HTTP threads seldom meet at one lock.
const SHARDS: usize = 16;
/// Of more keys than this the oldest are forgotten: a flood of keys must not fill the memory (about
/// 35 MB).
const KEYS_MAX: usize = 100_000;

/// What each key may still do in a minute. Rate and burst are the same number: no more than that in
/// any minute.
pub(super) struct MinuteLimiter<K> {
    limits: Limits,
    hasher: RandomState,
    shards: [Mutex<AllowanceTable<K>>; SHARDS],
}

impl<K: Copy + Eq + Hash> MinuteLimiter<K> {
    /// Every key may do `per_minute` (at least 1).
    pub(super) fn new(per_minute: u32) -> Self {
        Self {
            limits: Limits::new(per_minute, per_minute),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::new(AllowanceTable::new(KEYS_MAX / SHARDS))),
        }
    }

    /// The seconds after which the key may go on, if it may not now. Costs nothing.
    pub(super) fn blocked(&self, key: K, now_unix_ms: i64) -> Option<u64> {
        self.shard(key)
            .peek(key, self.limits, now_unix_ms)
            .retry_after_seconds
    }

    /// Counts one request, or, like [`Self::blocked`], tells how long to wait: both in one step, so
    /// that requests that come together can't slip through between.
    pub(super) fn take(&self, key: K, now_unix_ms: i64) -> Option<u64> {
        self.shard(key)
            .take(key, self.limits, 1, now_unix_ms)
            .retry_after_seconds
    }

    /// How many keys are remembered.
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
