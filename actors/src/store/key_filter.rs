//! Idempotency keys that memory does not hold: which of the store's slices may hold one.

use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;

/// The first 8 bytes of a key's hash: by these it stands in memory. The row, which has all of it,
/// decides.
pub type ShortKey = u64;

/// What memory knows a key by.
pub fn short_key(hash: &KeyHash) -> ShortKey {
    hash.first_chunk()
        .map_or(0, |first| u64::from_le_bytes(*first))
}

/// Which keys a slice may hold: a Bloom filter of 10 bits a key, wrong for about 1 in 100 keys that
/// it does not hold.
#[derive(Debug)]
pub struct KeyFilter(Vec<u8>);

const FILTER_BITS_PER_KEY: usize = 10;

const FILTER_PROBES: u64 = 7;

impl KeyFilter {
    /// An empty one for so many keys.
    pub fn sized(keys: usize) -> Self {
        KeyFilter(vec![0; (keys * FILTER_BITS_PER_KEY).div_ceil(8).max(1)])
    }

    /// How many keys it is made for.
    pub fn keys(&self) -> usize {
        self.0.len() * 8 / FILTER_BITS_PER_KEY
    }

    /// Takes in a key: it may be held from then on.
    pub fn add(&mut self, key: ShortKey) {
        for (byte, bit) in self.places(key) {
            if let Some(byte) = self.0.get_mut(byte) {
                *byte |= bit;
            }
        }
    }

    /// A filter out of the bytes in which it was kept.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        KeyFilter(bytes)
    }

    /// The bytes in which it is kept.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// False only if the key is not among them.
    pub fn may_hold(&self, key: ShortKey) -> bool {
        self.places(key)
            .into_iter()
            .all(|(byte, bit)| self.0.get(byte).is_some_and(|held| held & bit != 0))
    }

    /// The bits that stand for a key: keys are hashes already, so two halves of one give all of
    /// them.
    fn places(&self, key: ShortKey) -> impl Iterator<Item = (usize, u8)> + use<> {
        let bits = u64::try_from(self.0.len())
            .unwrap_or(0)
            .saturating_mul(8)
            .max(1);
        let step = key.rotate_left(32) | 1;
        (0..FILTER_PROBES).map(move |probe| {
            let place = key.wrapping_add(step.wrapping_mul(probe)) % bits;
            (usize::try_from(place / 8).unwrap_or(0), 1 << (place % 8))
        })
    }
}

/// A key, and where its answer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPosition {
    /// The key, as memory holds it.
    pub key: ShortKey,
    /// The position of the row that keeps its answer.
    pub position: Position,
}

/// Keys that the store holds and memory does not.
#[derive(Debug)]
pub struct KeySlice {
    /// The entity as the store names it.
    pub number: i64,
    /// The filter that says which keys it may hold.
    pub filter: KeyFilter,
    /// What has just been put there and leaves memory.
    pub keys: Vec<KeyPosition>,
}
