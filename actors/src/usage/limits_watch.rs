//! The keys that come near to their limits, and those that are refused most: what operators watch.

use super::key_rates::KeyHour;
use super::writing::Usage;
use crate::limiter::{LimitKey, Limits, PeekPermit, RateLimitStatus, RateLimiter};
use colloquy_model::time::Timestamp;

/// Keys that operators are shown of each sort.
const SHOWN_MAX: usize = 20;
/// Keys whose limits are looked at to find those: the ones that asked most of what they may.
const LOOKED_AT_MAX: usize = 200;

/// Gives the limits of each key of an account.
pub type FindLimits<'f> = dyn Fn(u32) -> Option<Limits> + Sync + 'f;

/// A key, what is left of its limits, and its last hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedKey {
    /// Whose they are, and the hour.
    pub hour: KeyHour,
    /// What is left of them.
    pub status: RateLimitStatus,
}

impl WatchedKey {
    /// How much of its burst is spent, in millionths.
    fn spent(&self) -> u64 {
        let RateLimitStatus {
            burst,
            burst_remaining,
            ..
        } = self.status;
        let spent = u64::from(burst.saturating_sub(burst_remaining));
        spent * 1_000_000 / u64::from(burst.max(1))
    }
}

impl Usage {
    /// The keys that have spent the largest part of what they may spend at once, nearest first.
    pub async fn nearest_to_limits(
        &self,
        limiter: &RateLimiter,
        find: &FindLimits<'_>,
        now: Timestamp,
    ) -> Vec<WatchedKey> {
        let part = |hour: &KeyHour| {
            let burst = find(hour.who.account).map_or(1, Limits::burst);
            u64::from(hour.lately()) * 1_000_000 / u64::from(burst.max(1))
        };
        let busiest = self.rates.highest(LOOKED_AT_MAX, now, part);
        let mut nearest = watched(busiest, limiter, find, now).await;
        nearest.retain(|key| key.spent() > 0);
        nearest.sort_by_key(|key| std::cmp::Reverse(key.spent()));
        nearest.truncate(SHOWN_MAX);
        nearest
    }

    /// The keys that were refused for their limits most often in the last hour, most often first.
    pub async fn refused_most(
        &self,
        limiter: &RateLimiter,
        find: &FindLimits<'_>,
        now: Timestamp,
    ) -> Vec<WatchedKey> {
        let refused = |hour: &KeyHour| u64::from(hour.sum().refused());
        let most = self.rates.highest(SHOWN_MAX, now, refused);
        watched(most, limiter, find, now).await
    }
}

/// These keys with what is left of their limits; without those of accounts that are no more.
async fn watched(
    hours: Vec<KeyHour>,
    limiter: &RateLimiter,
    find: &FindLimits<'_>,
    now: Timestamp,
) -> Vec<WatchedKey> {
    let mut watched = Vec::with_capacity(hours.len());
    for hour in hours {
        let Some(limits) = find(hour.who.account) else {
            continue;
        };
        let peek = PeekPermit {
            key: LimitKey::from(hour.who.credential.limit_bits()),
            limits,
            now,
        };
        // A limiter that does not answer has nothing to show of this key.
        if let Ok(status) = limiter.peek(peek).await {
            watched.push(WatchedKey { hour, status });
        }
    }
    watched
}
