//! Nonces of signed requests: a key's are spent one by one, and none twice.

use std::sync::Arc;

use crate::store::{Nonce, ReadError, SpentNonces};
use colloquy_model::id::KeyId;
use colloquy_model::key::secret_hash;
use colloquy_model::time::Timestamp;

/// The nonces of all keys, kept by the store, so that they are spent at every node and after a
/// restart too.
pub struct Nonces(Arc<dyn SpentNonces>);

impl Nonces {
    /// Kept by this store.
    #[must_use]
    pub fn new(store: Arc<dyn SpentNonces>) -> Self {
        Nonces(store)
    }

    /// Spends a nonce of this key, which lets nothing in from `ends_at` on; false where it was spent
    /// before.
    ///
    /// # Errors
    /// The store does not answer: it may be spent.
    pub async fn spend(
        &self,
        key: KeyId,
        nonce: &str,
        ends_at: Timestamp,
    ) -> Result<bool, ReadError> {
        let hash = secret_hash(&format!("{key} {nonce}"));
        self.0.spend(Nonce { hash, ends_at }).await
    }
}
