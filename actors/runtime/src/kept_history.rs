//! What is remembered of entities that have left memory, so that leaving it forgives no crash, skips
//! no trial and ends no drill. Memory is bounded: of many, those that left first are forgotten.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Of how many entities of a kind something is remembered.
const ENTITIES_MAX: usize = 10_000;
/// How many crashes of an entity are remembered, the latest.
const CRASHES_MAX: usize = 1_000;

/// What an entity that has left memory finds again when it comes back. Times are milliseconds of the
/// runtime's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptHistory {
    /// The crashes that still counted, oldest first.
    pub(super) crashes_ms: Vec<u64>,
    /// When its trial began, where that still counted.
    pub(super) trial_since_ms: Option<u64>,
    /// When the quarantine ended of which the trial is still to come.
    pub(super) trial_due_ms: Option<u64>,
    /// Whether its next command is to crash it.
    pub(super) has_drill: bool,
}

/// The histories of a kind's entities that have left memory.
pub(super) struct KeptHistories<I> {
    by_id: HashMap<I, Entry>,
    /// The ids in the order in which the entities left.
    ids: BTreeMap<u64, I>,
    /// The place in that order of whoever leaves next.
    next: u64,
}

struct Entry {
    place: u64,
    history: KeptHistory,
}

impl<I: Copy + Eq + Hash> KeptHistories<I> {
    /// Remembers nothing yet.
    pub(super) fn new() -> Self {
        Self {
            by_id: HashMap::new(),
            ids: BTreeMap::new(),
            next: 0,
        }
    }

    /// Remembers the history of an entity that leaves memory; too many, and the first one that left
    /// is forgotten.
    pub(super) fn put(&mut self, id: I, mut history: KeptHistory) {
        let too_many = history.crashes_ms.len().saturating_sub(CRASHES_MAX);
        history.crashes_ms.drain(..too_many);
        let place = self.next;
        self.next += 1;
        self.ids.insert(place, id);
        if let Some(before) = self.by_id.insert(id, Entry { place, history }) {
            self.ids.remove(&before.place);
        }
        if self.ids.len() > ENTITIES_MAX
            && let Some((_, first)) = self.ids.pop_first()
        {
            self.by_id.remove(&first);
        }
    }

    /// Gives the history of an entity that comes into memory, and forgets it.
    pub(super) fn take(&mut self, id: I) -> Option<KeptHistory> {
        if self.by_id.is_empty() {
            return None;
        }
        let Entry { place, history } = self.by_id.remove(&id)?;
        self.ids.remove(&place);
        Some(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drill(crashes: u64) -> KeptHistory {
        KeptHistory {
            crashes_ms: (0..crashes).collect(),
            trial_since_ms: None,
            trial_due_ms: None,
            has_drill: true,
        }
    }

    #[test]
    fn of_too_many_the_first_that_left_is_forgotten() {
        let mut kept = KeptHistories::new();
        for id in 0..ENTITIES_MAX {
            kept.put(id, drill(0));
        }
        kept.put(0, drill(1));
        kept.put(ENTITIES_MAX, drill(2));
        assert_eq!(
            (kept.ids.len(), kept.by_id.len()),
            (ENTITIES_MAX, ENTITIES_MAX)
        );
        assert_eq!(kept.take(1), None, "it left before all others");
        assert_eq!(kept.take(0), Some(drill(1)), "it left again");
        assert_eq!(kept.take(0), None, "it is given once");
        assert_eq!(kept.take(ENTITIES_MAX), Some(drill(2)));
        assert_eq!(
            (kept.ids.len(), kept.by_id.len()),
            (ENTITIES_MAX - 2, ENTITIES_MAX - 2)
        );
    }

    #[test]
    fn of_too_many_crashes_the_latest_are_remembered() {
        let mut kept = KeptHistories::new();
        kept.put(1, drill(CRASHES_MAX as u64 + 5));
        let crashes = kept.take(1).map(|history| history.crashes_ms);
        let latest: Vec<u64> = (5..CRASHES_MAX as u64 + 5).collect();
        assert_eq!(crashes, Some(latest));
    }
}
