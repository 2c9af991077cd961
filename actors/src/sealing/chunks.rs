//! The content of a file, encrypted in chunks under a key of its own, so that any part of it can be
//! read without the others. Each chunk is bound to its place and to whether it is the last one.

use super::cipher::Cipher;
use super::derivation::KEY_BYTES;
use super::master_key::MasterKey;

/// Bytes of content in each chunk but the last.
pub const CHUNK_BYTES: usize = 1 << 16;
/// What a chunk is longer than its content: nonce and tag.
pub const CHUNK_OVERHEAD: usize = 12 + 16;

/// A chunk is not what was encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of it is not what was encrypted: it is damaged")]
pub struct DamagedChunk;

/// The key of one file.
pub struct ChunkKey {
    bytes: [u8; KEY_BYTES],
    cipher: Cipher,
}

impl ChunkKey {
    /// A key that was never used.
    #[must_use]
    pub fn generate() -> Self {
        Self::of(MasterKey::generate().bytes())
    }

    /// The key that [`ChunkKey::hex`] wrote; none where it did not.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = |at: usize| u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..hex.len().div_ceil(2)).map(digits).collect();
        Some(Self::of(bytes?.try_into().ok()?))
    }

    fn of(bytes: [u8; KEY_BYTES]) -> Self {
        ChunkKey {
            cipher: Cipher::new(&bytes),
            bytes,
        }
    }

    /// The key, to be kept in secret.
    #[must_use]
    pub fn hex(&self) -> String {
        self.bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Encrypts the chunk at this place, counted from 0.
    ///
    /// # Errors
    /// It is longer than any cipher takes.
    pub fn seal(&self, place: (u64, bool), plain: &[u8]) -> Result<Vec<u8>, DamagedChunk> {
        let bound = bound_to(place);
        self.cipher.encrypt(&bound, plain).ok_or(DamagedChunk)
    }

    /// Opens the chunk at this place.
    ///
    /// # Errors
    /// It is not the one that was encrypted there.
    pub fn open(&self, place: (u64, bool), sealed: &[u8]) -> Result<Vec<u8>, DamagedChunk> {
        let bound = bound_to(place);
        self.cipher.decrypt(&bound, sealed).ok_or(DamagedChunk)
    }
}

fn bound_to((chunk, is_last): (u64, bool)) -> [u8; 9] {
    let mut bound = [0; 9];
    bound[..8].copy_from_slice(&chunk.to_be_bytes());
    bound[8] = u8::from(is_last);
    bound
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_chunk_opens_at_its_place_and_under_its_key_only() {
        let key = ChunkKey::generate();
        let sealed = key.seal((1, true), b"text").unwrap();
        assert_eq!(sealed.len(), 4 + CHUNK_OVERHEAD);
        let again = ChunkKey::from_hex(&key.hex()).unwrap();
        assert_eq!(again.open((1, true), &sealed).unwrap(), b"text");
        for place in [(0, true), (1, false)] {
            assert_eq!(key.open(place, &sealed), Err(DamagedChunk));
        }
        let other = ChunkKey::generate();
        assert_eq!(other.open((1, true), &sealed), Err(DamagedChunk));
        assert!(ChunkKey::from_hex("00").is_none() && ChunkKey::from_hex("x").is_none());
    }
}
