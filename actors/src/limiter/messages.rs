//! What the rate limiter may be asked, and what it answers.
//!
//! Each ask is answered at once, from memory. Asks about one key are answered in the order in which
//! they arrive. A refused [`TakePermit`] costs nothing and may be repeated; [`PeekPermit`] never
//! costs anything. Where no answer came ([`LimiterError::Unavailable`]) the permit may have been
//! taken or not: the request must not be let through.

use uuid::Uuid;

pub use super::state::{Limits, Permit};

/// Who spends: an API key (all its secrets together) or a token's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitKey(u128);

impl LimitKey {
    /// Its place among the shards. The ids are UUIDv7: time above, chance below, so both halves are
    /// folded and mixed upwards.
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

/// Asks for a request to be let in, and counts it if it is.
#[derive(Debug, Clone, Copy)]
pub struct TakePermit {
    /// Who spends.
    pub key: LimitKey,
    /// What the key may spend as of this request.
    pub limits: Limits,
    /// How many requests this counts for, all or none; 0 counts as 1.
    pub permits: u32,
    /// When the request came.
    pub now_unix_ms: i64,
}

/// Asks for the numbers as they stand, for a request that is refused for another reason.
#[derive(Debug, Clone, Copy)]
pub struct PeekPermit {
    /// Whose numbers.
    pub key: LimitKey,
    /// What the key may spend as of this request.
    pub limits: Limits,
    /// When the request came.
    pub now_unix_ms: i64,
}

/// What a shard of the limiter takes from its mailbox.
#[derive(Debug, Clone, Copy)]
pub enum LimiterAsk {
    /// Counts.
    Take(TakePermit),
    /// Only looks.
    Peek(PeekPermit),
}

/// Why there is no [`Permit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimiterError {
    /// The key's shard gave no answer.
    #[error("the rate limiter gave no answer")]
    Unavailable,
}
