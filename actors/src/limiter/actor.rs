//! The rate limiter's shard: the allowances of the keys that fall to it. Only order; the rules are
//! in `state.rs`.

use super::messages::{LimitKey, LimiterAsk};
use super::state::Permit;
use super::table::AllowanceTable;
use crate::runtime::shard::Shard;

/// A key that nobody used for a while takes no place, so only a flood of keys at once can reach
/// this (about 170 MB a shard).
const KEYS_PER_SHARD_MAX: usize = 500_000;

/// One shard of the limiter.
pub struct RateLimiter {
    allowances: AllowanceTable<LimitKey>,
}

impl RateLimiter {
    /// Nobody has spent anything.
    #[must_use]
    pub fn new() -> Self {
        Self {
            allowances: AllowanceTable::new(KEYS_PER_SHARD_MAX),
        }
    }
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self::new()
    }
}

impl Shard for RateLimiter {
    type Ask = LimiterAsk;
    type Answer = Permit;

    fn handle(&mut self, ask: LimiterAsk) -> Permit {
        match ask {
            LimiterAsk::Take(take) => {
                self.allowances
                    .take(take.key, take.limits, take.permits, take.now_unix_ms)
            }
            LimiterAsk::Peek(peek) => self
                .allowances
                .peek(peek.key, peek.limits, peek.now_unix_ms),
        }
    }
}
