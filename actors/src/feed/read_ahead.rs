//! What the readers of each account have read from the store and not taken yet. A reader holds it for as
//! long as whoever it reads for takes nothing, and an account may have a million readers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Bytes that wait for all readers of one account, at most, or a page more.
const ACCOUNT_BYTES_MAX: usize = 8 << 20;

/// The bytes by account; of none where nothing waits.
#[derive(Debug, Default)]
pub(super) struct ReadAhead(Mutex<HashMap<u32, usize>>);

/// Bytes that wait for one reader, until this is dropped.
#[derive(Debug)]
pub(super) struct HeldAhead {
    of: Arc<ReadAhead>,
    account: u32,
    bytes: usize,
}

impl ReadAhead {
    /// Whether an account's readers may read nothing but what is taken at once.
    pub(super) fn is_full(&self, account: u32) -> bool {
        let held = self.0.lock();
        held.get(&account)
            .is_some_and(|held| *held >= ACCOUNT_BYTES_MAX)
    }

    /// Holds so many bytes; none where the account is full.
    pub(super) fn hold(self: &Arc<Self>, account: u32, bytes: usize) -> Option<HeldAhead> {
        let mut held = self.0.lock();
        let sum = held.get(&account).copied().unwrap_or(0);
        // As in `is_full`: what there is no room for is not read either.
        if sum >= ACCOUNT_BYTES_MAX {
            return None;
        }
        held.insert(account, sum + bytes);
        Some(HeldAhead {
            of: Arc::clone(self),
            account,
            bytes,
        })
    }
}

impl Drop for HeldAhead {
    fn drop(&mut self) {
        let mut held = self.of.0.lock();
        if let Some(sum) = held.get_mut(&self.account) {
            *sum = sum.saturating_sub(self.bytes);
            if *sum == 0 {
                held.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_its_own_bound_and_leaves_nothing_behind() {
        let ahead = Arc::new(ReadAhead::default());
        let some = ahead.hold(1, ACCOUNT_BYTES_MAX - 10);
        assert!(some.is_some() && !ahead.is_full(1));
        let rest = ahead.hold(1, 11);
        assert!(rest.is_some() && ahead.is_full(1));
        assert!(ahead.hold(1, 1).is_none());
        let others = ahead.hold(2, 11);
        assert!(others.is_some() && !ahead.is_full(2));
        drop(some);
        assert!(!ahead.is_full(1) && ahead.hold(1, 11).is_some());
        drop((rest, others));
        assert!(ahead.0.lock().is_empty());
    }
}
