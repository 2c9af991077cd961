//! Tests of the version graph against a brute-force reading of all ancestors.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The parents of version `n + 1` at place `n`.
type Graph = Vec<Vec<u64>>;

fn parents<'g>(graph: &'g Graph) -> impl Fn(u64) -> &'g [u64] {
    |version| &graph[usize::try_from(version).unwrap() - 1]
}

fn ancestors(graph: &Graph, version: u64) -> BTreeSet<u64> {
    let mut found = BTreeSet::from([version]);
    for parent in parents(graph)(version) {
        found.extend(ancestors(graph, *parent));
    }
    found
}

/// A first version, and up to 13 more with one or two parents each.
fn graphs() -> impl Strategy<Value = Graph> {
    prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(any::<prop::sample::Index>())), 0..13)
        .prop_map(|rest| {
            let mut graph = vec![Vec::new()];
            for (one, two) in rest {
                let pick = |index: prop::sample::Index| u64::try_from(index.index(graph.len())).unwrap() + 1;
                let mut parents = vec![pick(one)];
                parents.extend(two.map(pick).filter(|two| *two != parents[0]));
                graph.push(parents);
            }
            graph
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_bases_are_the_common_ancestors_above_which_there_is_no_other(graph in graphs()) {
        let newest = u64::try_from(graph.len()).unwrap();
        for first in 1..=newest {
            for second in 1..=newest {
                let (of_first, of_second) = (ancestors(&graph, first), ancestors(&graph, second));
                let common: BTreeSet<u64> = of_first.intersection(&of_second).copied().collect();
                let is_below = |one: &u64| common.iter().any(|other| other != one && ancestors(&graph, *other).contains(one));
                let best: Vec<u64> = common.iter().copied().filter(|one| !is_below(one)).rev().collect();
                prop_assert_eq!(&merge_bases(first, second, parents(&graph)), &best);
                prop_assert_eq!(merge_base(first, second, parents(&graph)), best.first().copied());
                prop_assert_eq!(contains(first, second, parents(&graph)), of_first.contains(&second));
            }
        }
    }
}

#[test]
fn of_two_side_lines_merged_crosswise_the_newer_ancestor_is_the_base() {
    // 2 and 3 come from 1; 4 and 5 both merge 2 and 3.
    let graph: Graph = vec![vec![], vec![1], vec![1], vec![2, 3], vec![3, 2]];
    assert_eq!(merge_bases(4, 5, parents(&graph)), [3, 2]);
    assert_eq!(merge_base(4, 5, parents(&graph)), Some(3));
    assert_eq!(merge_base(5, 4, parents(&graph)), Some(3));
}

#[test]
fn versions_without_a_common_ancestor_have_no_base() {
    let graph: Graph = vec![vec![], vec![]];
    assert_eq!(merge_base(1, 2, parents(&graph)), None);
    assert!(!contains(2, 1, parents(&graph)));
}

#[test]
fn a_parent_that_is_no_older_runs_nobody_in_circles() {
    let graph: Graph = vec![vec![2], vec![1, 2]];
    assert_eq!(merge_bases(1, 2, parents(&graph)), [1]);
    assert!(contains(2, 1, parents(&graph)));
}

#[test]
fn ten_thousand_versions_in_a_row_are_walked() {
    let graph: Graph = (0..10_000).map(|before| if before == 0 { vec![] } else { vec![before] }).collect();
    assert_eq!(merge_base(10_000, 1, parents(&graph)), Some(1));
    assert!(contains(10_000, 1, parents(&graph)));
}
