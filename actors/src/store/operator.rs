//! How operators are known to a store.

use colloquy_model::key::SecretHash;

/// How operators are known: by the hash of their token.
#[derive(Debug)]
pub struct Operator {
    /// The hash of the operators' token.
    pub hash: SecretHash,
    /// The token, where it has just been made.
    pub fresh: Option<String>,
}
