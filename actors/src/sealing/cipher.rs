//! AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits, which stands before the ciphertext.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::derivation::KEY_BYTES;

/// A key that encrypts and decrypts.
pub(super) struct Cipher(LessSafeKey);

impl Cipher {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key);
        let key = key.unwrap_or_else(|_| unreachable!("the key has the cipher's length"));
        Cipher(LessSafeKey::new(key))
    }

    /// The nonce and what is encrypted; none unless the text is shorter than the cipher's bound of 64 GiB.
    pub(super) fn encrypt(&self, associated: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        colloquy_model::random::fill(&mut nonce);
        let mut encrypted = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(unique, Aad::from(associated), &mut encrypted)
            .ok()?;
        Some([nonce.as_slice(), &encrypted].concat())
    }

    /// What was encrypted with the same associated data; none where anything of it was changed.
    pub(super) fn decrypt(&self, associated: &[u8], whole: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(associated), &mut rest)
            .ok()?;
        Some(opened.to_vec())
    }
}
