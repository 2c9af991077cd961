//! Chance from a seed: a test that fails rolls the same again.

/// xorshift64*, which is enough for tests.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number from 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    /// Text that no compression makes much smaller.
    pub(crate) fn noise(&mut self, bytes: usize) -> String {
        (0..bytes)
            .map(|_| char::from(b'!' + u8::try_from(self.below(90)).unwrap()))
            .collect()
    }
}
