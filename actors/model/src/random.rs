//! Random bits from the operating system, fetched in blocks: one system call serves many
//! identifiers.

use std::cell::RefCell;

const BLOCK: usize = 512;

struct Pool {
    bytes: [u8; BLOCK],
    used: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; BLOCK], used: BLOCK }) };
}

/// Fills `into` with bits that can't be guessed.
///
/// # Panics
/// If the operating system has no randomness to give: nothing safe can be done then.
pub fn fill(into: &mut [u8]) {
    POOL.with_borrow_mut(|pool| {
        for byte in into {
            if pool.used == BLOCK {
                #[expect(
                    clippy::expect_used,
                    reason = "without randomness no secret and no identifier is safe"
                )]
                getrandom::fill(&mut pool.bytes).expect("the operating system gives random bytes");
                pool.used = 0;
            }
            if let Some(fresh) = pool.bytes.get_mut(pool.used) {
                *byte = std::mem::take(fresh);
            }
            pool.used += 1;
        }
    });
}

/// 64 random bits, fit for secrets as those of [`fill`] are.
#[must_use]
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
