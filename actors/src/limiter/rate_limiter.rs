//! The rate limiter by key: tables of allowances on the HTTP workers' threads, each with the keys
//! whose hash falls to it.

use std::sync::Arc;

use super::allowance::RateLimitStatus;
use super::allowance_table::{AllowanceTable, Spent};
use super::messages::{LimitKey, LimiterRequest, PeekPermit, TakePermit};
use colloquy_model::time::Timestamp;
use colloquy_runtime::SupervisedKind;
use colloquy_runtime::shard::{ArbiterHandle, Registered, Shard, ShardError, Shards};
use tokio::sync::mpsc::unbounded_channel;

/// Keys in one shard (about 170 MB). Only a flood of keys can reach this, since a key that has
/// spent nothing in the last minutes is not stored.
const KEYS_PER_SHARD_MAX: usize = 500_000;

/// The rate limiter by key. Clones share the shards.
#[derive(Clone)]
pub struct RateLimiter {
    shards: Arc<Shards<AllowanceTable<LimitKey>>>,
}

impl RateLimiter {
    /// Starts a shard on each of `arbiters`, of which there may be none yet.
    #[must_use]
    pub fn new(arbiters: Vec<ArbiterHandle>) -> Self {
        Self {
            shards: Arc::new(Shards::new(arbiters, || {
                AllowanceTable::new(KEYS_PER_SHARD_MAX)
            })),
        }
    }

    /// The same, of which other nodes are told what was spent.
    #[must_use]
    pub fn shared(arbiters: Vec<ArbiterHandle>) -> Self {
        Self {
            shards: Arc::new(Shards::new(arbiters, || {
                AllowanceTable::shared(KEYS_PER_SHARD_MAX)
            })),
        }
    }

    /// What was spent since this was asked last, on all shards.
    pub(super) async fn take_spent(&self) -> Vec<Spent<LimitKey>> {
        let (tell, mut told) = unbounded_channel();
        self.shards.visit_all(move |table| {
            let spent = table.take_spent();
            if !spent.is_empty() {
                // Whoever asked may have left.
                let _ = tell.send(spent);
            }
        });
        let mut all = Vec::new();
        while let Some(spent) = told.recv().await {
            all.extend(spent);
        }
        all
    }

    /// Counts what keys have spent at another node.
    pub(super) fn spend_elsewhere(&self, spent: Vec<Spent<LimitKey>>, now: Timestamp) {
        for spent in spent {
            let hash = spent.key.shard_hash();
            self.shards
                .visit(hash, move |table| table.spend_elsewhere(spent, now));
        }
    }

    /// The shards, as operators see and steer them.
    #[must_use]
    pub fn supervised(&self) -> Arc<dyn SupervisedKind> {
        Arc::clone(&self.shards) as Arc<dyn SupervisedKind>
    }

    /// Registers an HTTP worker's arbiter; called as the worker starts. One that comes after the
    /// first request only replaces one that has ended.
    pub fn register(&self, arbiter: ArbiterHandle) -> Registered {
        self.shards.register(arbiter)
    }

    /// Counts a request if it may pass: see [`RateLimitStatus::allowed`].
    ///
    /// # Errors
    /// [`ShardError`]: no answer came. The permit may have been taken or not, so the request must
    /// not be let through.
    pub async fn take(&self, take: TakePermit) -> Result<RateLimitStatus, ShardError> {
        let hash = take.key.shard_hash();
        let taken = self.shards.ask(hash, LimiterRequest::Take(take)).await;
        if taken == Err(ShardError::Lost) {
            self.shards.count_refused();
        }
        taken
    }

    /// Reads the numbers of a key without counting anything.
    ///
    /// # Errors
    /// [`ShardError`]: no answer came.
    pub async fn peek(&self, peek: PeekPermit) -> Result<RateLimitStatus, ShardError> {
        let hash = peek.key.shard_hash();
        self.shards.ask(hash, LimiterRequest::Peek(peek)).await
    }
}

impl Shard for AllowanceTable<LimitKey> {
    type Ask = LimiterRequest;
    type Answer = RateLimitStatus;
    const KIND: &'static str = "limiter";

    fn bytes(&self) -> usize {
        AllowanceTable::bytes(self)
    }

    fn repair(&mut self) {
        AllowanceTable::repair(self);
    }

    fn asked_at(request: &LimiterRequest) -> Timestamp {
        match request {
            LimiterRequest::Take(take) => take.now,
            LimiterRequest::Peek(peek) => peek.now,
        }
    }

    fn handle(&mut self, request: LimiterRequest) -> RateLimitStatus {
        match request {
            LimiterRequest::Take(take) => self.take(take.key, take.limits, take.permits, take.now),
            LimiterRequest::Peek(peek) => self.peek(peek.key, peek.limits, peek.now),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use uuid::Uuid;

    use super::*;
    use crate::limiter::allowance::Limits;
    use colloquy_runtime::shard::among_arbiters;

    fn take(key: LimitKey) -> TakePermit {
        TakePermit {
            key,
            limits: Limits::new(100, 150),
            permits: 1,
            now: Timestamp(1_000),
        }
    }

    #[test]
    fn each_key_has_its_own_allowance_on_whichever_shard() {
        among_arbiters(3, |arbiters| async {
            let limits = RateLimiter::new(arbiters);
            let keys = (0..50_u128)
                .map(|id| LimitKey::from(Uuid::from_u128((id << 64) | (id * 7_919))))
                .collect::<Vec<_>>();
            for round in 1..=150 {
                for key in &keys {
                    let permit = limits.take(take(*key)).await.unwrap();
                    assert!(permit.allowed);
                    assert_eq!(permit.burst_remaining, 150 - round);
                }
            }
            for key in &keys {
                let peek = PeekPermit {
                    key: *key,
                    limits: Limits::new(100, 150),
                    now: Timestamp(1_000),
                };
                let shown = limits.peek(peek).await.unwrap();
                assert_eq!(limits.take(take(*key)).await, Ok(shown));
                assert!(!shown.allowed);
            }
        });
    }

    #[test]
    fn ids_of_one_moment_spread_over_the_shards() {
        let mut per_shard = [0_u32; 8];
        for chance in 0..8_000_u128 {
            let id = 0x0198_7654_3210_7000_8000_0000_0000_0000
                | (chance.wrapping_mul(0x0123_4567_89AB_CDEF) & 0x3FFF_FFFF_FFFF_FFFF);
            let eighth =
                usize::try_from(LimitKey::from(Uuid::from_u128(id)).shard_hash() >> 61).unwrap();
            *per_shard.get_mut(eighth).unwrap() += 1;
        }
        assert!(
            per_shard.iter().all(|keys| (800..1_200).contains(keys)),
            "{per_shard:?}"
        );
    }

    #[test]
    fn an_unanswered_ask_is_an_error_and_not_a_permit() {
        among_arbiters(0, |_| async {
            let limits = RateLimiter::new(Vec::new());
            assert_eq!(
                limits.take(take(LimitKey::from(Uuid::nil()))).await,
                Err(ShardError::Lost)
            );
        });
    }
}
