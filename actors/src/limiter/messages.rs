//! The protocol of the rate limiter. Requests about one key are answered in the order in which they
//! come. A refused [`TakePermit`] costs nothing and may be repeated; a [`PeekPermit`] never costs
//! anything.

use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::allowance::Limits;

/// The owner of an allowance: an API key, with all its secrets together, or a token's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LimitKey(u128);

impl LimitKey {
    /// The hash that chooses the shard by its upper bits. The ids are UUIDv7, with the time in the
    /// upper and chance in the lower bits, so both halves are folded and mixed upwards.
    pub(super) fn shard_hash(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        let folded = (self.0 >> 64) as u64 ^ self.0 as u64;
        folded.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl From<u128> for LimitKey {
    fn from(id: u128) -> Self {
        Self(id)
    }
}

impl From<Uuid> for LimitKey {
    fn from(id: Uuid) -> Self {
        Self(id.as_u128())
    }
}

/// Counts a request if the key's limits let it pass.
#[derive(Debug, Clone, Copy)]
pub struct TakePermit {
    /// The key that spends the permits.
    pub key: LimitKey,
    /// The key's limits from this request on.
    pub limits: Limits,
    /// How many requests this counts as; all pass or none. 0 counts as 1.
    pub permits: u32,
    /// When the request came, by the wall clock.
    pub now: Timestamp,
}

/// Reads the numbers of a key, for a request that is refused for another reason.
#[derive(Debug, Clone, Copy)]
pub struct PeekPermit {
    /// The key whose numbers are read.
    pub key: LimitKey,
    /// The key's limits from this request on.
    pub limits: Limits,
    /// When the request came, by the wall clock.
    pub now: Timestamp,
}

/// A message to a shard of the rate limiter.
#[derive(Debug, Clone, Copy)]
pub(super) enum LimiterRequest {
    /// Counts one request against the limit, if it may be made.
    Take(TakePermit),
    /// Reads how much is left, and counts nothing.
    Peek(PeekPermit),
}
