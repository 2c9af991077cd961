//! The store key, from which everything is derived that seals and signs in a store, and how the store
//! keeps it: wrapped under a master key, so that another master key changes this one text alone.
//!
//! A wrapped key is `wrapped:<name of the master key>:<base64 of nonce and ciphertext>`, by a key
//! that is derived from the master key. What it is bound to is the store key's name, which stands
//! beside it.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use super::cipher::Cipher;
use super::derivation::{self, KEY_BYTES};
use super::master_key::{GivenKeys, MasterKey};

/// What a wrapped key begins with.
const MARK: &str = "wrapped:";
/// What the key that wraps is derived for; what is wrapped is bound to it, too.
const WRAPS: &str = "wrapped store key";

/// The key from which all others of a store are derived.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreKey([u8; KEY_BYTES]);

impl StoreKey {
    /// Its name, which what is sealed names.
    pub(super) fn name(&self) -> String {
        derivation::name(&self.0)
    }

    /// The key that is derived from it for this purpose.
    pub(super) fn derived(&self, purpose: &'static str) -> [u8; KEY_BYTES] {
        derivation::derived(&self.0, purpose)
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        StoreKey(bytes)
    }

    /// A new one.
    #[cfg(not(test))]
    fn generate() -> Self {
        StoreKey(MasterKey::generate().bytes())
    }

    /// That of all stores of unit tests: a process has one, and they share one.
    #[cfg(test)]
    pub(super) fn generate() -> Self {
        StoreKey([7; KEY_BYTES])
    }

    fn wrap(&self, master: &MasterKey) -> WrappedKey {
        let name = self.name();
        let cipher = Cipher::new(&master.derived(WRAPS));
        let whole = cipher.encrypt(bound_to(&name).as_bytes(), &self.0);
        let whole = whole.unwrap_or_else(|| unreachable!("32 bytes can be encrypted"));
        WrappedKey {
            wrapped: format!("{MARK}{}:{}", master.name(), BASE64_STANDARD.encode(whole)),
            name,
        }
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreKey").field(&self.name()).finish()
    }
}

fn bound_to(name: &str) -> String {
    format!("{WRAPS} {name}")
}

/// A store key as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrappedKey {
    /// The store key's name.
    pub name: String,
    /// The store key, wrapped under a master key.
    pub wrapped: String,
}

impl WrappedKey {
    /// The name of the master key under which it is wrapped; none where it is damaged.
    #[must_use]
    pub fn master_key(&self) -> Option<&str> {
        Some(self.parts()?.0)
    }

    fn parts(&self) -> Option<(&str, &str)> {
        self.wrapped.strip_prefix(MARK)?.split_once(':')
    }

    fn open(&self, master: &MasterKey) -> Option<StoreKey> {
        let whole = BASE64_STANDARD.decode(self.parts()?.1).ok()?;
        let cipher = Cipher::new(&master.derived(WRAPS));
        let opened = cipher.decrypt(bound_to(&self.name).as_bytes(), &whole)?;
        Some(StoreKey(opened.try_into().ok()?))
    }
}

/// Why a store key can't be unwrapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnwrapError {
    /// It is wrapped under another master key.
    #[error(
        "the store is under the master key named {wrapped}, and at hand is {given}: give the right one by [encryption] \
         master_key_file or COLLOQUY__ENCRYPTION__MASTER_KEY, or, where another is to take its place, as previous_master_key; \
         nothing was changed"
    )]
    OtherKey {
        /// The name of the master key under which it is wrapped.
        wrapped: String,
        /// The names of those at hand.
        given: String,
    },
    /// It is not what was wrapped.
    #[error(
        "the store's key is damaged: it is not what was wrapped under the master key; go back to a backup"
    )]
    Damaged,
}

/// The master keys at hand where a store is opened.
#[derive(Debug, Clone)]
pub struct MasterKeys {
    present: MasterKey,
    /// Others under which the store key may still be wrapped.
    others: Vec<MasterKey>,
    is_kept_with_store: bool,
}

impl MasterKeys {
    /// What the settings give, with the key that is kept with the store; none where there is neither.
    #[must_use]
    pub fn at_hand(given: &GivenKeys, kept: Option<MasterKey>) -> Option<Self> {
        let Some(present) = given.present.clone() else {
            return kept.map(Self::kept);
        };
        let others = given.previous.clone().into_iter().chain(kept);
        Some(MasterKeys {
            others: others.filter(|other| *other != present).collect(),
            present,
            is_kept_with_store: false,
        })
    }

    /// The key that is kept with the store, and no other.
    #[must_use]
    pub fn kept(kept: MasterKey) -> Self {
        MasterKeys {
            present: kept,
            others: Vec::new(),
            is_kept_with_store: true,
        }
    }

    /// The master key under which the store key is to be.
    #[must_use]
    pub fn present(&self) -> &MasterKey {
        &self.present
    }

    /// The one whose place it takes.
    #[must_use]
    pub fn previous(&self) -> Option<&MasterKey> {
        self.others.first()
    }

    /// Whether the master key is the one that is kept with the store.
    #[must_use]
    pub fn is_kept_with_store(&self) -> bool {
        self.is_kept_with_store
    }

    fn named(&self, name: &str) -> Result<&MasterKey, UnwrapError> {
        let mut all = std::iter::once(&self.present).chain(&self.others);
        let found = all.find(|key| key.name() == name);
        found.ok_or_else(|| UnwrapError::other(name, Some(self)))
    }

    /// The store key that a store begins with. One of an earlier version, whose secrets are sealed
    /// under the master key of this name itself, goes on with that as its store key.
    ///
    /// # Errors
    /// That master key is not at hand.
    pub fn first_store_key(&self, sealed_under: Option<&str>) -> Result<WrappedKey, UnwrapError> {
        let Some(name) = sealed_under else {
            return Ok(StoreKey::generate().wrap(&self.present));
        };
        let master = self.named(name)?;
        Ok(StoreKey(master.bytes()).wrap(master))
    }

    /// The store key.
    ///
    /// # Errors
    /// It is wrapped under a master key that is not at hand, or damaged.
    pub fn unwrap_key(&self, wrapped: &WrappedKey) -> Result<StoreKey, UnwrapError> {
        let under = wrapped.master_key().ok_or(UnwrapError::Damaged)?;
        let master = self.named(under)?;
        wrapped.open(master).ok_or(UnwrapError::Damaged)
    }

    /// Unwraps the store key, seals with it from now on, and logs under which master key it was.
    ///
    /// # Errors
    /// It is wrapped under a master key that is not at hand, or damaged.
    pub fn open(&self, wrapped: &WrappedKey) -> Result<(), UnwrapError> {
        super::use_store_key(self.unwrap_key(wrapped)?);
        let (present, under) = (self.present.name(), wrapped.master_key());
        if under == Some(&*present) {
            tracing::info!(master_key = present, "the store is under this master key");
        } else {
            tracing::warn!(
                master_key = under,
                next = present,
                "the store is still under the previous master key: `colloquy encryption rotate` puts the next one in its place"
            );
        }
        Ok(())
    }

    /// The same store key, wrapped under the present master key.
    ///
    /// # Errors
    /// It is wrapped under a master key that is not at hand, or damaged.
    pub fn rewrapped(&self, wrapped: &WrappedKey) -> Result<WrappedKey, UnwrapError> {
        Ok(self.unwrap_key(wrapped)?.wrap(&self.present))
    }
}

impl UnwrapError {
    /// The store is under the master key of this name; at hand are these, if any.
    #[must_use]
    pub fn other(name: &str, keys: Option<&MasterKeys>) -> Self {
        let all = keys.map(|keys| std::iter::once(&keys.present).chain(&keys.others));
        let names: Vec<String> = all.into_iter().flatten().map(MasterKey::name).collect();
        UnwrapError::OtherKey {
            wrapped: name.to_owned(),
            given: match names.as_slice() {
                [] => "none".to_owned(),
                names => names.join(", "),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn key(byte: u8) -> MasterKey {
        MasterKey::from_bytes(&[byte; KEY_BYTES]).unwrap()
    }

    fn given(present: u8, previous: Option<u8>) -> MasterKeys {
        let given = GivenKeys {
            present: Some(key(present)),
            previous: previous.map(key),
        };
        MasterKeys::at_hand(&given, None).unwrap()
    }

    #[test]
    fn another_master_key_takes_over_with_the_one_before_and_then_stands_alone() {
        let before = given(1, None);
        let wrapped = before.first_store_key(None).unwrap();
        let store_key = before.unwrap_key(&wrapped).unwrap();
        let refused = given(2, None).unwrap_key(&wrapped);
        let names = UnwrapError::OtherKey {
            wrapped: key(1).name(),
            given: key(2).name(),
        };
        assert_eq!(refused, Err(names));
        let both = given(2, Some(1));
        assert_eq!(both.unwrap_key(&wrapped).unwrap(), store_key);
        let rewrapped = both.rewrapped(&wrapped).unwrap();
        assert_eq!(rewrapped.master_key(), Some(&*key(2).name()));
        assert_eq!(given(2, None).unwrap_key(&rewrapped).unwrap(), store_key);
        assert!(before.unwrap_key(&rewrapped).is_err());
    }

    #[test]
    fn a_changed_character_of_a_wrapped_key_or_of_its_name_is_found() {
        let keys = given(1, None);
        let wrapped = keys.first_store_key(None).unwrap();
        for place in 0..wrapped.wrapped.len() {
            let mut changed = wrapped.clone();
            let other = match changed.wrapped.get(place..=place) {
                Some("A") => "B",
                _ => "A",
            };
            changed.wrapped.replace_range(place..=place, other);
            assert!(keys.unwrap_key(&changed).is_err(), "{place}");
        }
        let renamed = WrappedKey {
            name: key(3).name(),
            ..wrapped
        };
        assert_eq!(keys.unwrap_key(&renamed), Err(UnwrapError::Damaged));
    }

    #[test]
    fn a_key_that_is_given_takes_the_place_of_the_kept_one() {
        let kept = MasterKeys::kept(key(1));
        let wrapped = kept.first_store_key(None).unwrap();
        let given = GivenKeys {
            present: Some(key(2)),
            previous: None,
        };
        let both = MasterKeys::at_hand(&given, Some(key(1))).unwrap();
        assert_eq!(both.previous(), Some(&key(1)));
        assert!(both.unwrap_key(&wrapped).is_ok() && !both.is_kept_with_store());
        assert!(MasterKeys::at_hand(&GivenKeys::NONE, None).is_none());
    }

    #[test]
    fn secrets_of_an_earlier_version_keep_their_key_as_the_store_key() {
        let (keys, name) = (given(2, Some(1)), key(1).name());
        let wrapped = keys.first_store_key(Some(&name)).unwrap();
        let store_key = keys.unwrap_key(&wrapped).unwrap();
        assert_eq!((store_key.name(), store_key.0), (name, key(1).bytes()));
        assert!(given(2, None).first_store_key(Some("another")).is_err());
    }
}
