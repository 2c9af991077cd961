//! Nonces of signed requests: each lets one request in, at whichever node and across restarts.

use super::{Later, ReadError};
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;

/// A nonce of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce {
    /// The hash of the key and of the nonce.
    pub hash: SecretHash,
    /// The instant from which on it lets nothing in whoever spends it, so that it can be forgotten.
    pub ends_at: Timestamp,
}

/// The nonces that have been spent.
pub trait SpentNonces: Send + Sync + 'static {
    /// Spends a nonce, durably; false where it was spent before. Of all who try, at all nodes, one is
    /// told true.
    fn spend(&self, nonce: Nonce) -> Later<Result<bool, ReadError>>;
}
