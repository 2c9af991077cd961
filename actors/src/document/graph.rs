//! The graph of a document's versions: which contain which, and from where two of them went apart. Pure; knows numbers only.
//!
//! A version is known by its number, and its parents were there before it: their numbers are lower. A parent that breaks this
//! is no parent here, so that nothing can run in circles.

use std::collections::{BTreeMap, BTreeSet};

/// Reached from the first version.
const FIRST: u8 = 1;
/// Reached from the second version.
const SECOND: u8 = 2;
/// Below a best common ancestor, so not a best one itself.
const BELOW: u8 = 4;

/// The best common ancestors of two versions: those that are no ancestor of another common one. Newest first.
///
/// Two side lines that were merged into each other crosswise have several. The merge takes the newest by number as its base,
/// so the same two versions always merge from the same one. None at all: the base is the empty text.
pub fn merge_bases<'g>(first: u64, second: u64, parents: impl Fn(u64) -> &'g [u64]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut reached = BTreeMap::from([(first, FIRST)]);
    *reached.entry(second).or_default() |= SECOND;
    // Newest first: once a version's turn comes, all that can reach it have had theirs.
    while reached.values().any(|from| from & BELOW == 0) {
        let Some((version, mut from)) = reached.pop_last() else { break };
        if from == FIRST | SECOND {
            found.push(version);
            from |= BELOW;
        }
        for parent in parents(version).iter().filter(|parent| **parent < version) {
            *reached.entry(*parent).or_default() |= from;
        }
    }
    found
}

/// The version that a merge starts from: the newest of the best common ancestors.
pub fn merge_base<'g>(first: u64, second: u64, parents: impl Fn(u64) -> &'g [u64]) -> Option<u64> {
    merge_bases(first, second, parents).first().copied()
}

/// Whether `target` is `source` or comes after it: then a merge would bring nothing.
pub fn contains<'g>(target: u64, source: u64, parents: impl Fn(u64) -> &'g [u64]) -> bool {
    let mut ahead = BTreeSet::from([target]);
    while let Some(version) = ahead.pop_last() {
        if version <= source {
            return version == source;
        }
        ahead.extend(parents(version).iter().filter(|parent| **parent < version).copied());
    }
    false
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
