//! Secrets that have to be read again (what signs webhooks, tokens and requests), encrypted wherever
//! they are stored.
//!
//! - `master_key.rs` the master key, which the settings give or the store keeps
//! - `store_key.rs` the store key, which the store keeps, wrapped under the master key
//! - `files.rs` files of any size, sealed under the master key
//! - `chunks.rs` files of which any part is read by itself, each under a key of its own
//! - `derivation.rs` what is derived from either; `cipher.rs` what encrypts
//!
//! A sealed text is `sealed:<name of the store key>:<base64 of nonce and ciphertext>`. Its key is
//! derived from the store key, and so is every other key that is needed for a purpose of its own.

mod chunks;
mod cipher;
mod derivation;
mod files;
mod master_key;
mod store_key;
pub mod texts;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

pub use chunks::{CHUNK_BYTES, CHUNK_OVERHEAD, ChunkKey, DamagedChunk};
use cipher::Cipher;
use derivation::KEY_BYTES;
pub use files::{SealedFileError, SealedReader, SealedWriter};
pub use master_key::{GivenKeys, KeyFileError, MasterKey, MasterKeySource, MasterKeySources};
pub use store_key::{MasterKeys, StoreKey, UnwrapError, WrappedKey};

/// What a sealed text begins with.
const MARK: &str = "sealed:";
/// What the key that seals is derived for.
const SEALS: &str = "sealed secrets";

/// Why a sealed text can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// It was sealed under another store's key.
    #[error("it is sealed under the key named {sealed}, and this store's is named {used}")]
    OtherKey {
        /// The name of the key under which it was sealed.
        sealed: String,
        /// The name of the store's.
        used: String,
    },
    /// It is not what was sealed.
    #[error("it is damaged: it is not what was sealed")]
    Damaged,
    /// No store is open yet.
    #[error("there is no store key at hand")]
    NoKey,
}

/// A store key ready to seal, with its name.
struct Sealer {
    key: StoreKey,
    name: String,
    cipher: Cipher,
}

/// The process's one store key: records are read and written by types that know nothing of what
/// surrounds them.
static SEALER: ArcSwapOption<Sealer> = ArcSwapOption::const_empty();

/// Seals and unseals with this store key from now on.
pub fn use_store_key(key: StoreKey) {
    let sealer = Sealer {
        name: key.name(),
        cipher: Cipher::new(&key.derived(SEALS)),
        key,
    };
    SEALER.store(Some(Arc::new(sealer)));
}

/// The key that is derived from the store key for this purpose.
///
/// # Errors
/// There is no store key.
pub fn derived_key(purpose: &'static str) -> Result<[u8; KEY_BYTES], UnsealError> {
    Ok(sealer()?.key.derived(purpose))
}

fn sealer() -> Result<Arc<Sealer>, UnsealError> {
    // Unit tests have no start that gives one.
    #[cfg(test)]
    if SEALER.load().is_none() {
        use_store_key(StoreKey::generate());
    }
    SEALER.load_full().ok_or(UnsealError::NoKey)
}

/// Seals a text; `purpose` says what it is, and what is sealed as one thing can't be read as another.
///
/// # Errors
/// There is no store key.
pub fn seal(purpose: &'static str, text: &str) -> Result<String, UnsealError> {
    let sealer = sealer()?;
    let whole = sealer.cipher.encrypt(purpose.as_bytes(), text.as_bytes());
    let whole = whole.ok_or(UnsealError::Damaged)?;
    Ok(format!(
        "{MARK}{}:{}",
        sealer.name,
        BASE64_STANDARD.encode(whole)
    ))
}

/// Reads what [`seal`] gave for the same purpose.
///
/// # Errors
/// It was sealed under another key, or is damaged.
pub fn unseal(purpose: &'static str, sealed: &str) -> Result<String, UnsealError> {
    let sealer = sealer()?;
    let parts = sealed
        .strip_prefix(MARK)
        .and_then(|rest| rest.split_once(':'));
    let (name, text) = parts.ok_or(UnsealError::Damaged)?;
    if name != sealer.name {
        return Err(UnsealError::OtherKey {
            sealed: name.to_owned(),
            used: sealer.name.clone(),
        });
    }
    let opened = BASE64_STANDARD
        .decode(text)
        .ok()
        .and_then(|whole| sealer.cipher.decrypt(purpose.as_bytes(), &whole))
        .ok_or(UnsealError::Damaged)?;
    String::from_utf8(opened).map_err(|_| UnsealError::Damaged)
}

/// The name of the key under which the first text in this JSON is sealed; none where none is.
#[must_use]
pub fn sealed_under(json: &str) -> Option<&str> {
    let (_, sealed) = json.split_once("\"sealed:")?;
    sealed.split(':').next()
}

/// Whether a text is sealed.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

/// For `#[serde(with)]`: a secret that is plain in memory and sealed in what is written. One that an
/// earlier version has written plain is read as it stands.
macro_rules! sealed_text {
    ($module:ident, $purpose:literal, $what:literal) => {
        #[doc = concat!("For `#[serde(with)]`: ", $what, ", plain in memory and sealed where it is stored.")]
        pub mod $module {
            use serde::{Deserialize, Deserializer, Serializer, de, ser};

            #[expect(missing_docs, reason = "serde names it")]
            pub fn serialize<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
                let sealed = $crate::sealing::seal($purpose, text);
                to.serialize_str(&sealed.map_err(ser::Error::custom)?)
            }

            #[expect(missing_docs, reason = "serde names it")]
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
                let text = String::deserialize(from)?;
                // What an earlier version has written.
                if !$crate::sealing::is_sealed(&text) {
                    return Ok(text);
                }
                $crate::sealing::unseal($purpose, &text).map_err(de::Error::custom)
            }
        }
    };
}

sealed_text!(
    webhook_secret,
    "webhook secret",
    "what signs deliveries to an endpoint"
);
sealed_text!(
    signing_secret,
    "signing secret",
    "what signs requests with a key"
);
sealed_text!(
    text_key,
    "text key",
    "what encrypts the texts of an account"
);

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde::{Deserialize, Serialize};

    #[test]
    fn what_is_sealed_is_read_again_for_its_purpose_alone() {
        let sealed = seal("a", "whsec_text").unwrap();
        assert!(is_sealed(&sealed) && !sealed.contains("whsec_text"));
        assert_eq!(unseal("a", &sealed).unwrap(), "whsec_text");
        assert_eq!(unseal("b", &sealed), Err(UnsealError::Damaged));
        assert_ne!(sealed, seal("a", "whsec_text").unwrap(), "nonces differ");
    }

    /// One text sealed as each kind of secret that is stored.
    #[derive(Serialize, Deserialize)]
    struct Secrets {
        #[serde(with = "webhook_secret")]
        webhook: String,
        #[serde(with = "signing_secret")]
        signing: String,
        #[serde(with = "text_key")]
        text_key: String,
    }

    #[test]
    fn a_secret_of_one_kind_is_read_as_no_other() {
        let same = || "secret".to_owned();
        let secrets = Secrets {
            webhook: same(),
            signing: same(),
            text_key: same(),
        };
        let stored = serde_json::to_value(&secrets).unwrap();
        assert!(serde_json::from_value::<Secrets>(stored.clone()).is_ok());
        let fields = stored.as_object().unwrap();
        for (field, other) in fields
            .keys()
            .flat_map(|one| fields.keys().map(move |other| (one, other)))
        {
            let mut moved = fields.clone();
            moved.insert(field.clone(), stored.get(other).unwrap().clone());
            let read = serde_json::from_value::<Secrets>(moved.into());
            assert_eq!(
                read.is_ok(),
                field == other,
                "{other} in the place of {field}"
            );
        }
    }

    #[test]
    fn a_changed_character_is_found() {
        let sealed = seal("a", "secret").unwrap();
        let last = sealed.len() - 1;
        for place in MARK.len() + 17..last {
            let mut changed = sealed.clone().into_bytes();
            if let Some(byte) = changed.get_mut(place) {
                *byte = if *byte == b'A' { b'B' } else { b'A' };
            }
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(unseal("a", &changed), Err(UnsealError::Damaged), "{place}");
        }
    }

    #[test]
    fn another_key_is_told_by_its_name() {
        let other = StoreKey::from_bytes([9; KEY_BYTES]).name();
        let sealed = seal("a", "secret").unwrap();
        let used = sealer().unwrap().name.clone();
        let renamed = sealed.replacen(&used, &other, 1);
        let expected = UnsealError::OtherKey {
            sealed: other,
            used,
        };
        assert_eq!(unseal("a", &renamed), Err(expected));
    }
}
