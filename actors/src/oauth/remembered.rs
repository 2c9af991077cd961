//! Tokens whose signature is remembered to be good: a signature costs more than all else of a request
//! that reads.

use std::collections::HashMap;
use std::sync::Arc;

use colloquy_model::access_token::AccessToken;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;

/// Beyond so many, all are forgotten.
const TOKENS_MAX: usize = 10_000;

/// By the hash of the whole token.
#[derive(Default)]
pub(super) struct Remembered(Mutex<HashMap<SecretHash, Arc<AccessToken>>>);

impl Remembered {
    pub(super) fn get(&self, hash: &SecretHash) -> Option<Arc<AccessToken>> {
        self.0.lock().get(hash).cloned()
    }

    pub(super) fn put(&self, hash: SecretHash, token: &Arc<AccessToken>, now: Timestamp) {
        let mut tokens = self.0.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.retain(|_, token| token.ends_at > now);
        }
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(hash, Arc::clone(token));
    }
}
