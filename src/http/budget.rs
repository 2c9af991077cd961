//! Bytes that are in memory on behalf of callers: so many in all, and of these a share for each, so
//! that no one takes them from all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use colloquy_actors::accounts::Principal;
use parking_lot::Mutex;

/// An account may hold one part in so many.
const ACCOUNT_SHARE: usize = 4;
/// An address that calls without a credential may hold one part in so many, and all of them
/// together half.
const ADDRESS_SHARE: usize = 16;

/// Who pays for bytes in memory: each owner has a share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BudgetOwner {
    /// An account, by its identifier's bits.
    Account(u128),
    /// Whoever has the operator token.
    Operator,
    /// Callers without a credential, by address; of IPv6 by its /64.
    Address(u128),
}

impl BudgetOwner {
    /// The account of whoever has come with a credential.
    pub(crate) fn of(principal: &Principal) -> Self {
        BudgetOwner::Account(principal.account.view.account_id.bits())
    }

    /// Whoever calls from this address without a credential.
    pub(crate) fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => BudgetOwner::Address(u128::from(v4.to_bits())),
            IpAddr::V6(v6) => BudgetOwner::Address(v6.to_bits() >> 64 << 64),
        }
    }
}

/// How much may be held beyond the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slack {
    /// Nothing: what does not fit is not done.
    None,
    /// As much again: it is done already, and its caller should see it.
    Twice,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    without_credential: usize,
    by_owner: HashMap<BudgetOwner, usize>,
}

/// The bound, and what is held of it.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: usize,
    held: Mutex<Usage>,
}

/// Bytes that are held; dropped, they are free again.
#[derive(Debug)]
pub(crate) struct BytesPermit {
    budget: Arc<Budget>,
    owner: BudgetOwner,
    bytes: usize,
}

impl BytesPermit {
    /// How many bytes it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Budget {
    /// At most so many bytes at once.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Budget {
            bytes_max,
            held: Mutex::default(),
        })
    }

    /// Holds bytes, if they fit. A holder of nothing gets more than its share where only that is in
    /// the way.
    pub(crate) fn take(
        self: &Arc<Self>,
        owner: BudgetOwner,
        bytes: usize,
        slack: Slack,
    ) -> Option<BytesPermit> {
        let most = match slack {
            Slack::None => self.bytes_max,
            Slack::Twice => self.bytes_max.saturating_mul(2),
        };
        let mut held = self.held.lock();
        let mine = held.by_owner.get(&owner).copied().unwrap_or(0);
        let (share, stranger) = match owner {
            BudgetOwner::Account(_) | BudgetOwner::Operator => (most / ACCOUNT_SHARE, false),
            BudgetOwner::Address(_) => (most / ADDRESS_SHARE, true),
        };
        let fits =
            |before: usize, bound: usize| before == 0 || before.saturating_add(bytes) <= bound;
        if !fits(held.total, most)
            || !fits(mine, share)
            || stranger && !fits(held.without_credential, most / 2)
        {
            return None;
        }
        held.total = held.total.saturating_add(bytes);
        if stranger {
            held.without_credential = held.without_credential.saturating_add(bytes);
        }
        held.by_owner.insert(owner, mine.saturating_add(bytes));
        Some(BytesPermit {
            budget: Arc::clone(self),
            owner,
            bytes,
        })
    }

    /// Whether nothing more fits for this holder.
    pub(crate) fn is_spent(self: &Arc<Self>, owner: BudgetOwner) -> bool {
        self.take(owner, 1, Slack::None).is_none()
    }

    /// How much of the bound is held; beyond 1 where more than that is.
    pub(crate) fn share(&self) -> f64 {
        self.held_bytes() as f64 / self.bytes_max.max(1) as f64
    }

    /// How many bytes are held by all together.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.lock().total
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        let mut held = self.budget.held.lock();
        held.total = held.total.saturating_sub(self.bytes);
        if matches!(self.owner, BudgetOwner::Address(_)) {
            held.without_credential = held.without_credential.saturating_sub(self.bytes);
        }
        if let Some(mine) = held.by_owner.get_mut(&self.owner) {
            *mine = mine.saturating_sub(self.bytes);
            if *mine == 0 {
                held.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn address(text: &str) -> BudgetOwner {
        BudgetOwner::at(text.parse().unwrap())
    }

    #[test]
    fn each_has_a_share_and_all_have_the_whole() {
        let budget = Budget::new(160);
        let take = |owner, bytes| budget.take(owner, bytes, Slack::None);
        let mut held: Vec<BytesPermit> = (0..4)
            .map(|n| take(BudgetOwner::Account(n), 40).unwrap())
            .collect();
        assert!(
            take(BudgetOwner::Account(0), 1).is_none()
                && take(BudgetOwner::Account(5), 1).is_none()
        );
        assert!(budget.is_spent(BudgetOwner::Account(0)) && budget.is_spent(BudgetOwner::Operator));
        assert!(
            budget
                .take(BudgetOwner::Account(5), 80, Slack::Twice)
                .is_some(),
            "what is done already"
        );
        held.pop();
        assert!(
            take(BudgetOwner::Account(0), 1).is_none(),
            "its share is spent all the same"
        );
        assert!(
            take(BudgetOwner::Account(5), 40).is_some()
                && !budget.is_spent(BudgetOwner::Account(3))
        );
        held.clear();
        let left = budget.held.lock();
        assert_eq!((left.total, left.by_owner.len()), (0, 0));
    }

    #[test]
    fn one_alone_is_let_in_whatever_its_share() {
        let budget = Budget::new(160);
        let large = budget.take(address("192.0.2.1"), 100, Slack::None).unwrap();
        assert!(budget.take(address("192.0.2.1"), 1, Slack::None).is_none());
        drop(large);
        assert!(
            budget
                .take(BudgetOwner::Operator, 1_000, Slack::None)
                .is_some()
        );
    }

    #[test]
    fn callers_without_a_credential_have_half_together_and_a_network_is_one() {
        let budget = Budget::new(160);
        let held: Vec<Option<BytesPermit>> = (0..16)
            .map(|n| budget.take(address(&format!("192.0.2.{n}")), 10, Slack::None))
            .collect();
        assert_eq!(held.iter().flatten().count(), 8);
        assert!(
            budget
                .take(BudgetOwner::Account(1), 40, Slack::None)
                .is_some()
        );
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
