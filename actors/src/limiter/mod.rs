//! How much a key or an address may ask for. It decides; it knows neither headers nor plans, and
//! nothing of it outlives a restart.
//!
//! - `state.rs`: the rule, pure, and what "to a resolution of one second" means.
//! - `table.rs`: allowances by key, forgotten when whole again.
//! - `messages.rs`, `actor.rs`: the rate limiter by key, an actor per HTTP worker.
//! - `shards.rs`: the limiter that threads ask without an actor; `address.rs`: by client address;
//!   `link.rs`: of share links.
//! - here: the handle that the edge holds.

mod actor;
mod address;
mod link;
mod messages;
mod shards;
mod state;
mod table;

use std::sync::Arc;

use crate::runtime::shard::{ArbiterHandle, Registered, Shards};

pub use self::actor::RateLimiter;
pub use self::address::AddressLimiter;
pub use self::link::{LinkLimiter, LinkRefusal};
pub use self::messages::{
    LimitKey, LimiterAsk, LimiterError, Limits, PeekPermit, Permit, TakePermit,
};

/// The way to the rate limiter's shards. Cloned freely.
#[derive(Clone)]
pub struct RateLimits {
    shards: Arc<Shards<RateLimiter>>,
}

impl RateLimits {
    /// Starts a shard on each of `arbiters`; they may be none yet.
    #[must_use]
    pub fn new(arbiters: Vec<ArbiterHandle>) -> Self {
        Self {
            shards: Arc::new(Shards::new(arbiters, RateLimiter::new)),
        }
    }

    /// Makes an HTTP worker's arbiter known as the worker starts. One that comes after the first
    /// ask only replaces a dead one.
    pub fn register(&self, arbiter: ArbiterHandle) -> Registered {
        self.shards.register(arbiter)
    }

    /// Counts a request, or refuses it: see [`Permit::allowed`].
    ///
    /// # Errors
    /// [`LimiterError::Unavailable`] where the shard gave no answer.
    pub async fn take(&self, take: TakePermit) -> Result<Permit, LimiterError> {
        self.ask(take.key, LimiterAsk::Take(take)).await
    }

    /// Shows the numbers as they stand.
    ///
    /// # Errors
    /// [`LimiterError::Unavailable`] where the shard gave no answer.
    pub async fn peek(&self, peek: PeekPermit) -> Result<Permit, LimiterError> {
        self.ask(peek.key, LimiterAsk::Peek(peek)).await
    }

    async fn ask(&self, key: LimitKey, ask: LimiterAsk) -> Result<Permit, LimiterError> {
        self.shards
            .ask(key.shard_hash(), ask)
            .await
            .map_err(|_| LimiterError::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use uuid::Uuid;

    use super::*;
    use crate::runtime::shard::among_arbiters;

    fn take(key: LimitKey) -> TakePermit {
        TakePermit {
            key,
            limits: Limits::new(100, 150),
            permits: 1,
            now_unix_ms: 1_000,
        }
    }

    #[test]
    fn each_key_has_its_own_allowance_on_whichever_shard() {
        among_arbiters(3, |arbiters| async {
            let limits = RateLimits::new(arbiters);
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
                    now_unix_ms: 1_000,
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
            let limits = RateLimits::new(Vec::new());
            assert_eq!(
                limits.take(take(LimitKey::from(Uuid::nil()))).await,
                Err(LimiterError::Unavailable)
            );
        });
    }
}
