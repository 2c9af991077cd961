//! An account's requests of this month: what this node has let in, and what it knows of the others.
//! Pure rules; knows no clock.

/// An account's requests of this month.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MonthlyRequests {
    /// What this node has let in, and what it may let in yet.
    here: u64,
    /// How many of these are not decided.
    open: u64,
    /// What each other node is known to have let in, by the rest of its identifier.
    elsewhere: Vec<(u64, u64)>,
    /// The sum of these.
    elsewhere_total: u64,
    /// Whether other nodes have not been told of all that was let in here.
    untold: bool,
    /// What nobody has looked at yet of what they are of a quota.
    unchecked: Option<QuotaShare>,
}

/// How many requests there were when one of them was held against a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotaShare {
    pub(super) used: u64,
    /// 0: against whichever holds when that is looked at.
    pub(super) limit: u64,
}

impl QuotaShare {
    /// Whether it is more of its quota than another one.
    fn exceeds(self, other: QuotaShare) -> bool {
        let across = |used: u64, limit: u64| u128::from(used) * u128::from(limit);
        self.limit > 0
            && (other.limit == 0 || across(self.used, other.limit) > across(other.used, self.limit))
    }
}

impl MonthlyRequests {
    /// How many there were at all nodes.
    pub(super) fn used(&self) -> u64 {
        self.here.saturating_add(self.elsewhere_total)
    }

    /// How many there were that are decided.
    pub(super) fn let_in(&self) -> u64 {
        self.used().saturating_sub(self.open)
    }

    /// Counts one more, if there were fewer than the quota; 0: no quota.
    pub(super) fn take(&mut self, quota: u64) -> bool {
        if quota > 0 && self.used() >= quota {
            return false;
        }
        self.here += 1;
        self.open += 1;
        self.untold = true;
        true
    }

    /// One that was counted is let in.
    pub(super) fn decide(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Takes back one that was counted and not let in after all.
    pub(super) fn give_back(&mut self) {
        self.here = self.here.saturating_sub(1);
        self.open = self.open.saturating_sub(1);
        self.untold = true;
    }

    /// Takes in what this node is stored to have let in.
    pub(super) fn recover(&mut self, requests: u64) {
        self.here = self.here.max(requests);
    }

    /// Takes in what another node has let in. It never becomes less.
    pub(super) fn learn(&mut self, node: u64, requests: u64) {
        match self.elsewhere.iter_mut().find(|(known, _)| *known == node) {
            Some((_, known)) => *known = requests.max(*known),
            None => self.elsewhere.push((node, requests)),
        }
        let all = self.elsewhere.iter().map(|(_, requests)| *requests);
        self.elsewhere_total = all.fold(0, u64::saturating_add);
    }

    /// They are to be looked at, as they are of this quota now (0: of whichever holds then). Whether
    /// that was not known.
    pub(super) fn mark_unchecked(&mut self, limit: u64) -> bool {
        let used = self.let_in();
        let share = QuotaShare { used, limit };
        let before = self.unchecked;
        if before.is_none_or(|before| share.exceeds(before)) {
            self.unchecked = Some(share);
        }
        before.is_none()
    }

    /// The most that they were of a quota since they were looked at last, and what they are now.
    pub(super) fn take_unchecked(&mut self) -> Option<[QuotaShare; 2]> {
        let most = self.unchecked.take()?;
        let now = QuotaShare {
            used: self.let_in(),
            limit: 0,
        };
        Some([most, now])
    }

    /// What this node has let in, if the others have not been told of all of it.
    pub(super) fn take_untold(&mut self) -> Option<u64> {
        std::mem::take(&mut self.untold).then_some(self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_holds_for_all_nodes_together() {
        let mut requests = MonthlyRequests::default();
        requests.recover(3);
        requests.learn(7, 4);
        requests.learn(8, 1);
        assert!(requests.take(9), "the ninth");
        assert!(!requests.take(9));
        assert!(requests.take(10), "a quota that was raised");
        assert!(!requests.take(1), "one that was lowered");
        assert!(requests.take(0), "none");
        assert_eq!((requests.used(), requests.let_in()), (11, 8));
        requests.give_back();
        assert_eq!((requests.used(), requests.let_in()), (10, 8));
        requests.decide();
        assert_eq!((requests.used(), requests.let_in()), (10, 9));
    }

    #[test]
    fn what_is_known_of_a_node_never_becomes_less_and_is_told_once() {
        let mut requests = MonthlyRequests::default();
        requests.learn(7, 4);
        requests.learn(7, 2);
        assert_eq!(requests.used(), 4);
        assert_eq!(requests.take_untold(), None);
        assert!(requests.take(0));
        assert_eq!(requests.take_untold(), Some(1));
        assert_eq!(requests.take_untold(), None);
        requests.recover(1);
        assert_eq!(requests.used(), 5, "it was counted before it was stored");
    }

    #[test]
    fn the_largest_share_of_a_quota_is_kept_until_somebody_looks() {
        let mut requests = MonthlyRequests::default();
        let shares = |used, limit, now| {
            let now = QuotaShare {
                used: now,
                limit: 0,
            };
            Some([QuotaShare { used, limit }, now])
        };
        requests.recover(3);
        assert!(requests.mark_unchecked(0));
        assert!(!requests.mark_unchecked(4), "known");
        requests.recover(5);
        assert!(!requests.mark_unchecked(1_000), "raised");
        assert!(!requests.mark_unchecked(0));
        assert_eq!(requests.take_unchecked(), shares(3, 4, 5));
        assert_eq!(requests.take_unchecked(), None);
        assert!(requests.mark_unchecked(1 << 53));
        assert_eq!(requests.take_unchecked(), shares(5, 1 << 53, 5));
    }
}
