//! The graph of a document's versions: which contain which, and from where two of them went apart.
//! Pure; knows numbers only.
//!
//! A version is known by its number, and its parents were there before it: their numbers are lower.
//! A parent that breaks this is no parent here, so that nothing can run in circles.

use std::collections::{BTreeMap, BTreeSet};

/// Merges that a plan may be made of; what would need more has the empty text as its base.
const PLANNED_MERGES_MAX: usize = 256;

/// Reached from the first side.
const FIRST: u8 = 1;
/// Reached from the second side.
const SECOND: u8 = 2;
/// Below a best common ancestor, so not a best one itself.
const BELOW: u8 = 4;

/// The best common ancestors of two versions: those that are no ancestor of another common one.
/// Newest first.
///
/// Two branches that were merged into each other crosswise have several; versions that nothing
/// connects have none.
pub fn merge_bases<'g>(first: u64, second: u64, parents: impl Fn(u64) -> &'g [u64]) -> Vec<u64> {
    best_common(&[first], second, &parents)
}

/// The same for what any of several versions contains on the first side.
fn best_common<'g>(first: &[u64], second: u64, parents: impl Fn(u64) -> &'g [u64]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut ahead = Ahead::default();
    for version in first {
        ahead.reach(*version, FIRST);
    }
    ahead.reach(second, SECOND);
    while let Some((version, mut from)) = ahead.next() {
        if from == FIRST | SECOND {
            found.push(version);
            from |= BELOW;
        }
        for parent in parents(version).iter().filter(|parent| **parent < version) {
            ahead.reach(*parent, from);
        }
    }
    found
}

/// Versions whose turn will come, and from where they were reached.
#[derive(Default)]
struct Ahead {
    reached: BTreeMap<u64, u8>,
    /// How many of them may still lead to something new.
    open: usize,
}

impl Ahead {
    fn reach(&mut self, version: u64, from: u8) {
        let is_open = |from: u8| usize::from(from != 0 && from & BELOW == 0);
        let held = self.reached.entry(version).or_default();
        self.open -= is_open(*held);
        *held |= from;
        self.open += is_open(*held);
    }

    /// The newest: once its turn comes, all that can reach it have had theirs. None when the rest
    /// is below what was found.
    fn next(&mut self) -> Option<(u64, u8)> {
        if self.open == 0 {
            return None;
        }
        let (version, from) = self.reached.pop_last()?;
        self.open -= usize::from(from & BELOW == 0);
        Some((version, from))
    }
}

/// The text that a merge starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The empty text.
    Empty,
    /// A version's content.
    Version(u64),
    /// What the merge at this place of the plan gives.
    Merged(usize),
}

/// A merge of common ancestors, of which another merge starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseMerge {
    /// The text that its sides started from.
    pub base: Base,
    /// The older ancestors.
    pub ours: Base,
    /// The next ancestor.
    pub theirs: u64,
    /// How deep it stands inside the merge that is asked for, from 1.
    pub depth: usize,
}

/// What must be merged before two versions can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Each needs only those before it.
    pub merges: Vec<BaseMerge>,
    /// What the two versions started from.
    pub base: Base,
}

/// Plans the base of a merge, as git's recursive strategy does.
///
/// One best common ancestor is the base itself. Several are merged with each other first, the
/// oldest with the next one and so on, each of these merges from the common ancestors of its own
/// sides; the result is the base, with the conflicts that it leaves in it: so what the sides
/// decided in different ways conflicts again, and no side's decision wins unseen. What a plan has
/// no room for starts from the empty text: more conflicts, never fewer.
pub fn plan<'g>(first: u64, second: u64, parents: impl Fn(u64) -> &'g [u64]) -> Plan {
    let mut planner = Planner {
        parents,
        merges: Vec::new(),
        known: BTreeMap::new(),
        left: PLANNED_MERGES_MAX,
    };
    let base = planner.base(&[first], second, 0);
    Plan {
        merges: planner.merges,
        base,
    }
}

struct Planner<P> {
    parents: P,
    merges: Vec<BaseMerge>,
    /// The merges by their sides and depth: equal ones are made once.
    known: BTreeMap<(Vec<u64>, u64, usize), Base>,
    /// How many merges there is still room for.
    left: usize,
}

impl<'g, P: Fn(u64) -> &'g [u64]> Planner<P> {
    /// The base of a merge of all `first` with `second`.
    fn base(&mut self, first: &[u64], second: u64, depth: usize) -> Base {
        let mut bases = best_common(first, second, &self.parents);
        bases.reverse();
        let Some((oldest, newer)) = bases.split_first() else {
            return Base::Empty;
        };
        // Taken before any of them asks for room: those of the outer merges go first.
        let Some(left) = self.left.checked_sub(newer.len()) else {
            return Base::Empty;
        };
        self.left = left;
        let mut base = Base::Version(*oldest);
        for (place, next) in newer.iter().enumerate() {
            let merged = bases.get(..=place).unwrap_or_default();
            base = self.merge(merged, base, *next, depth + 1);
        }
        base
    }

    /// Plans the merge of `theirs` into `ours`, which the versions `merged` were merged into,
    /// unless it is planned already.
    fn merge(&mut self, merged: &[u64], ours: Base, theirs: u64, depth: usize) -> Base {
        let key = (merged.to_vec(), theirs, depth);
        if let Some(known) = self.known.get(&key) {
            self.left += 1;
            return *known;
        }
        let base = self.base(merged, theirs, depth);
        let place = Base::Merged(self.merges.len());
        self.merges.push(BaseMerge {
            base,
            ours,
            theirs,
            depth,
        });
        self.known.insert(key, place);
        place
    }
}

/// Whether `target` is `source` or comes after it: then a merge would bring nothing.
pub fn contains<'g>(target: u64, source: u64, parents: impl Fn(u64) -> &'g [u64]) -> bool {
    let mut ahead = BTreeSet::from([target]);
    while let Some(version) = ahead.pop_last() {
        if version <= source {
            return version == source;
        }
        ahead.extend(
            parents(version)
                .iter()
                .filter(|parent| **parent < version)
                .copied(),
        );
    }
    false
}

#[cfg(test)]
#[path = "version_graph_tests.rs"]
mod tests;
