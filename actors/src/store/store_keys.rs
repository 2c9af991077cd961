//! The key under which the secrets of a store are sealed, as the store keeps it.

use super::{Later, ReadError};
use crate::sealing::{MasterKeys, WrappedKey};

/// A store key that is to be kept in another way.
#[derive(Debug, Clone)]
pub struct Rewrap {
    /// As it is kept.
    pub from: WrappedKey,
    /// As it is to be.
    pub to: WrappedKey,
}

/// Where the store key is kept, and the master keys that unwrap it.
pub trait StoreKeys: Send + Sync + 'static {
    /// The master keys that were at hand when the store was opened.
    fn master_keys(&self) -> &MasterKeys;

    /// The store key as it is kept.
    fn store_key(&self) -> Later<Result<WrappedKey, ReadError>>;

    /// Keeps the store key in another way, durably and at once; false, and nothing is changed, where
    /// it is not kept as this says any more.
    fn rewrap(&self, change: Rewrap) -> Later<Result<bool, ReadError>>;
}
