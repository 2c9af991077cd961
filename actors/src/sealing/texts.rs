//! What people write, encrypted wherever it is stored: each account has keys of its own, which stand
//! in its record, sealed. Without them its texts can be read by nobody, so that an account is erased
//! by destroying its keys.
//!
//! An encrypted text is a JSON string, `"~<account>.<key>:<base64 of nonce and ciphertext>"`, so that
//! it can stand wherever JSON may. Encrypted bytes begin with account and key, in 4 bytes each,
//! the least significant first, and go on with nonce and ciphertext. The cipher is AES-256-GCM (NIST
//! SP 800-38D) with random nonces of 96 bits, of which one key may see 2³²; a new key for the account
//! begins anew. What must be found by its value is encrypted so that equal texts of an account are
//! equal in the store, or stands there as a hash (HMAC-SHA256) only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::RwLock;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;

use colloquy_model::account::TextKeys;

/// What an encrypted text begins with. No other JSON that is stored is a string.
const MARK: &str = "\"~";
/// Bytes of account and key before encrypted bytes.
const HEAD_BYTES: usize = 8;
const KEY_BYTES: usize = 32;
/// The number under which stands what must be found.
const TO_BE_FOUND: u32 = 0;
/// Bound to each ciphertext, so that nothing else that a key might encrypt is taken for a text.
const TEXTS: &[u8] = b"text";
/// For what the keys of hashes and of texts that must be found are derived.
const NAMES: &[u8] = b"names";
const FOUND: &[u8] = b"texts that are found";

/// Whether texts are encrypted in this process's store.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Texts are encrypted from now on: every account that is made has keys.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Whether texts are encrypted.
#[must_use]
pub fn are_encrypted() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// The keys with which an account begins; none, where texts are not encrypted.
#[must_use]
pub fn first_keys() -> TextKeys {
    if are_encrypted() {
        with_a_new_key(TextKeys::default())
    } else {
        TextKeys::default()
    }
}

/// These keys and one more, which encrypts from now on.
#[must_use]
pub fn with_a_new_key(mut keys: TextKeys) -> TextKeys {
    let mut key = [0; KEY_BYTES];
    colloquy_model::random::fill(&mut key);
    keys.0.push(key);
    keys
}

/// Whether there is no key among them.
pub(crate) fn is_none(keys: &TextKeys) -> bool {
    keys.0.is_empty()
}

/// For `#[serde(with)]`: an account's keys, sealed where they are stored.
pub(crate) mod text_keys {
    use base64::Engine;
    use serde::{Deserializer, Serializer, de};

    use super::{BASE64, KEY_BYTES, TextKeys};
    use crate::sealing::text_key;

    pub(crate) fn serialize<S: Serializer>(keys: &TextKeys, to: S) -> Result<S::Ok, S::Error> {
        text_key::serialize(&BASE64.encode(keys.0.concat()), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TextKeys, D::Error> {
        let bytes = BASE64.decode(text_key::deserialize(from)?);
        let bytes = bytes.map_err(de::Error::custom)?;
        let (keys, rest) = bytes.as_chunks::<KEY_BYTES>();
        match rest {
            [] => Ok(TextKeys(keys.to_vec())),
            [_, ..] => Err(de::Error::custom("a key of texts is cut off")),
        }
    }
}

/// Why a text can't be encrypted or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The account was forgotten: its keys are no more.
    #[error("its account was forgotten")]
    Forgotten,
    /// There is no such key.
    #[error("its account has no key for it")]
    NoKey,
    /// It is not what was encrypted.
    #[error("it is damaged: it is not what was encrypted")]
    Damaged,
}

/// The keys of one account, ready to be used.
struct AccountKeys {
    /// 1, 2, 3 …; the last one encrypts.
    ciphers: Vec<(u32, LessSafeKey)>,
    /// Encrypts what must be found; always the first key's, so that equal texts stay equal.
    found: LessSafeKey,
    names: Hmac<Sha256>,
}

impl AccountKeys {
    fn new(TextKeys(keys): &TextKeys) -> Option<Self> {
        let first = keys.first()?;
        Some(AccountKeys {
            ciphers: (1..).zip(keys.iter().map(cipher)).collect(),
            found: cipher(&derived(first, FOUND)),
            names: hmac(&derived(first, NAMES)),
        })
    }

    fn cipher(&self, number: u32) -> Option<&LessSafeKey> {
        if number == TO_BE_FOUND {
            return Some(&self.found);
        }
        let mut ciphers = self.ciphers.iter();
        ciphers
            .find(|(known, _)| *known == number)
            .map(|(_, cipher)| cipher)
    }
}

fn hmac(key: &[u8; KEY_BYTES]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("a key may have any length"))
}

fn derived(key: &[u8; KEY_BYTES], purpose: &[u8]) -> [u8; KEY_BYTES] {
    hmac(key)
        .chain_update(purpose)
        .finalize()
        .into_bytes()
        .into()
}

fn cipher(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key);
    LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("the key has the cipher's length")))
}

/// The keys of all accounts that have any, by account, and none of those that were forgotten: what is
/// written and read knows only its account.
static KEYRING: LazyLock<RwLock<HashMap<u32, Option<Arc<AccountKeys>>>>> =
    LazyLock::new(RwLock::default);

/// These are an account's keys from now on; none: it is forgotten.
pub fn set_keys(account: u32, keys: &TextKeys) {
    let keys = AccountKeys::new(keys).map(Arc::new);
    KEYRING.write().insert(account, keys);
}

/// Whether the account has keys of its texts, or had them until it was forgotten.
#[must_use]
pub fn has_keys(account: u32) -> bool {
    KEYRING.read().contains_key(&account)
}

/// Whether the account was forgotten.
#[must_use]
pub fn is_forgotten(account: u32) -> bool {
    KEYRING.read().get(&account).is_some_and(Option::is_none)
}

fn keys(account: u32) -> Result<Arc<AccountKeys>, TextError> {
    let keyring = KEYRING.read();
    let keys = keyring.get(&account).ok_or(TextError::NoKey)?;
    keys.clone().ok_or(TextError::Forgotten)
}

/// Encrypts a text of an account.
///
/// # Errors
/// The account has no keys.
pub fn encrypt(account: u32, text: &[u8]) -> Result<String, TextError> {
    let keys = keys(account)?;
    let (number, cipher) = keys.ciphers.last().ok_or(TextError::NoKey)?;
    let sealed = sealed(cipher, random_nonce(), text, Vec::new())?;
    Ok(written(account, *number, &sealed))
}

/// Encrypts a text of an account so that equal texts are equal: it can be searched for.
///
/// # Errors
/// The account has no keys.
pub fn encrypt_to_be_found(account: u32, text: &str) -> Result<String, TextError> {
    let keys = keys(account)?;
    let hash = keys
        .names
        .clone()
        .chain_update(text)
        .finalize()
        .into_bytes();
    let mut nonce = [0; NONCE_LEN];
    nonce.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    let sealed = sealed(&keys.found, nonce, text.as_bytes(), Vec::new())?;
    Ok(written(account, TO_BE_FOUND, &sealed))
}

/// What stands for a value by which something is found, and can't be read again: 64 hex digits.
///
/// # Errors
/// The account has no keys.
pub fn hashed(account: u32, field: &str, value: &str) -> Result<String, TextError> {
    let mac = keys(account)?.names.clone();
    let mac = mac
        .chain_update(field)
        .chain_update([0])
        .chain_update(value);
    let hash = mac.finalize().into_bytes();
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Encrypts bytes of an account.
///
/// # Errors
/// The account has no keys.
pub fn encrypt_bytes(account: u32, bytes: &[u8]) -> Result<Vec<u8>, TextError> {
    let keys = keys(account)?;
    let (number, cipher) = keys.ciphers.last().ok_or(TextError::NoKey)?;
    let head = [account.to_le_bytes(), number.to_le_bytes()].concat();
    sealed(cipher, random_nonce(), bytes, head)
}

/// A text as it is stored of an account: encrypted, where the account has keys. Of one that was
/// forgotten nothing stays.
#[must_use]
pub fn kept(account: u32, text: String) -> String {
    match encrypt(account, text.as_bytes()) {
        Ok(encrypted) => encrypted,
        Err(TextError::NoKey) => text,
        Err(TextError::Forgotten | TextError::Damaged) => String::new(),
    }
}

/// Whether a text is encrypted.
#[must_use]
pub fn is_encrypted(text: &[u8]) -> bool {
    text.starts_with(MARK.as_bytes())
}

/// A text as it was before it was encrypted; one that is not stays as it is.
///
/// # Errors
/// Its account has no key for it any more, or it is damaged.
pub fn opened(text: &[u8]) -> Result<Cow<'_, [u8]>, TextError> {
    let Some(rest) = text.strip_prefix(MARK.as_bytes()) else {
        return Ok(Cow::Borrowed(text));
    };
    let read = || {
        let (head, sealed) = str::from_utf8(rest)
            .ok()?
            .strip_suffix('"')?
            .split_once(':')?;
        let (account, number) = head.split_once('.')?;
        let sealed = BASE64.decode(sealed).ok()?;
        Some((account.parse().ok()?, number.parse().ok()?, sealed))
    };
    let (account, number, sealed) = read().ok_or(TextError::Damaged)?;
    unsealed(account, number, sealed).map(Cow::Owned)
}

/// The same of a text that is written as one.
///
/// # Errors
/// Its account has no key for it any more, or it is damaged.
pub fn opened_text(text: &str) -> Result<Cow<'_, str>, TextError> {
    Ok(match opened(text.as_bytes())? {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(text) => String::from_utf8(text)
            .map(Cow::Owned)
            .map_err(|_| TextError::Damaged)?,
    })
}

/// What [`encrypt_bytes`] made of them.
///
/// # Errors
/// Their account has no key for them any more, or they are damaged.
pub fn opened_bytes(bytes: &[u8]) -> Result<Vec<u8>, TextError> {
    let (head, sealed) = bytes
        .split_at_checked(HEAD_BYTES)
        .ok_or(TextError::Damaged)?;
    let (account, number) = head.split_at_checked(4).ok_or(TextError::Damaged)?;
    let number_of = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes);
    let account = number_of(account).map_err(|_| TextError::Damaged)?;
    let number = number_of(number).map_err(|_| TextError::Damaged)?;
    unsealed(account, number, sealed.to_vec())
}

fn random_nonce() -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    colloquy_model::random::fill(&mut nonce);
    nonce
}

fn written(account: u32, number: u32, sealed: &[u8]) -> String {
    let mut text = format!("{MARK}{account}.{number}:");
    BASE64.encode_string(sealed, &mut text);
    text.push('"');
    text
}

/// Nonce and ciphertext, behind a head.
fn sealed(
    cipher: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    text: &[u8],
    mut head: Vec<u8>,
) -> Result<Vec<u8>, TextError> {
    let mut sealed = text.to_vec();
    cipher
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(TEXTS),
            &mut sealed,
        )
        .map_err(|_| TextError::Damaged)?;
    head.extend_from_slice(&nonce);
    head.append(&mut sealed);
    Ok(head)
}

/// What nonce and ciphertext were made of.
fn unsealed(account: u32, number: u32, mut sealed: Vec<u8>) -> Result<Vec<u8>, TextError> {
    let keys = keys(account)?;
    let cipher = keys.cipher(number).ok_or(TextError::NoKey)?;
    let nonce = sealed.get(..NONCE_LEN).ok_or(TextError::Damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| TextError::Damaged)?;
    let text = cipher
        .open_within(nonce, Aad::from(TEXTS), &mut sealed, NONCE_LEN..)
        .map_err(|_| TextError::Damaged)?;
    let length = text.len();
    sealed.truncate(length);
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;

    /// Gives an account so many keys.
    fn account(account: u32, keys: usize) -> TextKeys {
        let held = (0..keys).fold(TextKeys::default(), |held, _| with_a_new_key(held));
        set_keys(account, &held);
        held
    }

    proptest! {
        #[test]
        fn what_is_encrypted_is_read_again(text in ".*", bytes: Vec<u8>) {
            account(1_000_001, 2);
            let encrypted = encrypt(1_000_001, text.as_bytes()).unwrap();
            prop_assert!(serde_json::from_str::<String>(&encrypted).is_ok());
            prop_assert_eq!(&*opened_text(&encrypted).unwrap(), &text);
            let found = encrypt_to_be_found(1_000_001, &text).unwrap();
            prop_assert_eq!(&*opened_text(&found).unwrap(), &text);
            prop_assert_eq!(&encrypt_to_be_found(1_000_001, &text).unwrap(), &found);
            let encrypted = encrypt_bytes(1_000_001, &bytes).unwrap();
            prop_assert_eq!(opened_bytes(&encrypted).unwrap(), bytes);
        }
    }

    #[test]
    fn equal_texts_differ_unless_they_must_be_found_and_differ_between_accounts() {
        account(1_000_002, 1);
        account(1_000_003, 1);
        let text = b"a text";
        assert_ne!(encrypt(1_000_002, text), encrypt(1_000_002, text));
        let found = |account| encrypt_to_be_found(account, "a text").unwrap();
        assert_ne!(found(1_000_002), found(1_000_003));
        let hash = |account| hashed(account, "email", "a@example.com").unwrap();
        assert_eq!(hash(1_000_002), hash(1_000_002));
        assert_ne!(hash(1_000_002), hash(1_000_003));
    }

    #[test]
    fn older_keys_read_on_and_those_that_are_gone_do_not() {
        let keys = account(1_000_004, 1);
        let text = encrypt(1_000_004, b"a text").unwrap();
        let found = encrypt_to_be_found(1_000_004, "main").unwrap();
        set_keys(1_000_004, &with_a_new_key(keys));
        assert_eq!(&*opened(text.as_bytes()).unwrap(), b"a text");
        assert_eq!(encrypt_to_be_found(1_000_004, "main").unwrap(), found);
        assert!(
            encrypt(1_000_004, b"")
                .unwrap()
                .starts_with("\"~1000004.2:")
        );
        set_keys(1_000_004, &TextKeys::default());
        assert_eq!(opened(text.as_bytes()), Err(TextError::Forgotten));
        assert_eq!(encrypt(1_000_004, b""), Err(TextError::Forgotten));
        assert_eq!(encrypt(1_000_000, b""), Err(TextError::NoKey));
    }

    #[test]
    fn a_changed_character_is_found() {
        account(1_000_005, 1);
        let text = encrypt(1_000_005, b"a text").unwrap();
        for place in "\"~1000005.1:".len()..text.len() - 1 {
            let mut changed = text.clone().into_bytes();
            if let Some(byte) = changed.get_mut(place) {
                *byte = if *byte == b'A' { b'B' } else { b'A' };
            }
            assert_eq!(opened(&changed), Err(TextError::Damaged), "{place}");
        }
    }

    #[test]
    fn what_is_not_encrypted_stays() {
        assert_eq!(&*opened(b"{\"a\":1}").unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn keys_are_sealed_and_not_shown() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Holder {
            #[serde(with = "super::text_keys")]
            keys: TextKeys,
        }
        let keys = account(1_000_006, 2);
        assert_eq!(format!("{keys:?}"), "TextKeys(2)");
        let stored = serde_json::to_string(&Holder { keys: keys.clone() }).unwrap();
        assert!(
            !stored.contains(&BASE64.encode(keys.0.concat())),
            "{stored}"
        );
        let read: Holder = serde_json::from_str(&stored).unwrap();
        assert_eq!(read.keys, keys);
    }
}
