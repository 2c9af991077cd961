//! Which master key the store key is wrapped under, and how another one takes its place while the
//! server runs: one small write, whatever the store holds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::sealing::{MasterKey, UnwrapError, texts};
use crate::store::{ReadError, Rewrap, Store};

/// Writes that are tried where other nodes rotate at the same moment.
const TRIES: usize = 3;

/// How a store is encrypted, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct EncryptionView {
    /// Whether texts are encrypted, too; secrets always are.
    pub enabled: bool,
    /// The name of the master key that this node was started with.
    pub master_key: String,
    /// The name of the master key under which the store key is wrapped.
    pub wrapped_under: String,
    /// The name of the master key whose place that one takes.
    pub previous_master_key: Option<String>,
    /// Whether the master key is one that is kept with the store.
    pub kept_with_store: bool,
}

/// What came of a rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RotationView {
    /// The name of the master key under which the store key is wrapped now.
    pub master_key: String,
    /// The name of the one under which it was before; the same where nothing was to be done.
    pub was: String,
}

impl RotationView {
    /// Whether anything was to be done.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.master_key != self.was
    }
}

/// Why the master key was not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The store can't be asked.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// The store key is wrapped under a key that this node has not.
    #[error(transparent)]
    MasterKey(#[from] UnwrapError),
    /// Other nodes rotate at the same moment, again and again.
    #[error("other nodes rotate the master key at the same time")]
    Contended,
}

/// The store key of an open store.
pub struct KeyRotation {
    store: Arc<dyn Store>,
}

impl KeyRotation {
    /// Of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        KeyRotation { store }
    }

    /// How the store is encrypted.
    ///
    /// # Errors
    /// The store can't be asked.
    pub async fn view(&self) -> Result<EncryptionView, ReadError> {
        let kept = self.store.store_key().await?;
        let keys = self.store.master_keys();
        Ok(EncryptionView {
            enabled: texts::are_encrypted(),
            master_key: keys.present().name(),
            wrapped_under: kept.master_key().ok_or(ReadError::Unreadable)?.to_owned(),
            previous_master_key: keys.previous().map(MasterKey::name),
            kept_with_store: keys.is_kept_with_store(),
        })
    }

    /// Wraps the store key under the master key that this node was started with.
    ///
    /// # Errors
    /// The store can't be asked, or the store key is wrapped under a key that is not at hand.
    pub async fn rotate(&self) -> Result<RotationView, RotationError> {
        let keys = self.store.master_keys();
        let present = keys.present().name();
        for _ in 0..TRIES {
            let from = self.store.store_key().await?;
            let was = from.master_key().ok_or(UnwrapError::Damaged)?.to_owned();
            let rotated = RotationView {
                master_key: present.clone(),
                was,
            };
            // What could not be unwrapped must not be called done.
            let to = keys.rewrapped(&from)?;
            if !rotated.is_change() || self.store.rewrap(Rewrap { from, to }).await? {
                return Ok(rotated);
            }
        }
        Err(RotationError::Contended)
    }
}
