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
    prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            prop::option::of(any::<prop::sample::Index>()),
        ),
        0..13,
    )
    .prop_map(|rest| {
        let mut graph = vec![Vec::new()];
        for (one, two) in rest {
            let pick =
                |index: prop::sample::Index| u64::try_from(index.index(graph.len())).unwrap() + 1;
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
                let planned = plan(first, second, parents(&graph));
                let base = match best[..] {
                    [] => Base::Empty,
                    [base] => Base::Version(base),
                    [..] => Base::Merged(planned.merges.len() - 1),
                };
                prop_assert_eq!(planned.base, base);
                prop_assert!(best.len() > 1 || planned.merges.is_empty());
                prop_assert_eq!(contains(first, second, parents(&graph)), of_first.contains(&second));
            }
        }
    }
}

/// 2 and 3 come from 1, 4 and 5 both merge 2 and 3, 6 and 7 both merge 4 and 5, and so on.
fn ladder(rungs: u64) -> Graph {
    let mut graph: Graph = vec![vec![], vec![1], vec![1]];
    for rung in 1..=rungs {
        graph.extend([vec![2 * rung, 2 * rung + 1], vec![2 * rung + 1, 2 * rung]]);
    }
    graph
}

#[test]
fn ancestors_of_lines_that_were_merged_crosswise_are_merged_first() {
    let graph = ladder(1);
    assert_eq!(merge_bases(4, 5, parents(&graph)), [3, 2]);
    let merge = BaseMerge {
        base: Base::Version(1),
        ours: Base::Version(2),
        theirs: 3,
        depth: 1,
    };
    let planned = Plan {
        merges: vec![merge],
        base: Base::Merged(0),
    };
    assert_eq!(plan(4, 5, parents(&graph)), planned);
    assert_eq!(
        plan(5, 4, parents(&graph)),
        planned,
        "the same in both directions"
    );
}

#[test]
fn what_their_merge_starts_from_is_merged_before_it() {
    let inner = BaseMerge {
        base: Base::Version(1),
        ours: Base::Version(2),
        theirs: 3,
        depth: 2,
    };
    let outer = BaseMerge {
        base: Base::Merged(0),
        ours: Base::Version(4),
        theirs: 5,
        depth: 1,
    };
    let planned = Plan {
        merges: vec![inner, outer],
        base: Base::Merged(1),
    };
    assert_eq!(plan(6, 7, parents(&ladder(2))), planned);
}

#[test]
fn of_three_ancestors_the_third_is_merged_with_what_the_others_came_to() {
    // 4 comes from 2, 5 and 6 from 3: what 4 and 5 came to goes apart from 6 at 3.
    let graph: Graph = vec![
        vec![],
        vec![1],
        vec![1],
        vec![2],
        vec![3],
        vec![3],
        vec![4, 5, 6],
        vec![6, 5, 4],
    ];
    assert_eq!(merge_bases(7, 8, parents(&graph)), [6, 5, 4]);
    let first = BaseMerge {
        base: Base::Version(1),
        ours: Base::Version(4),
        theirs: 5,
        depth: 1,
    };
    let second = BaseMerge {
        base: Base::Version(3),
        ours: Base::Merged(0),
        theirs: 6,
        depth: 1,
    };
    assert_eq!(
        plan(7, 8, parents(&graph)),
        Plan {
            merges: vec![first, second],
            base: Base::Merged(1)
        }
    );
}

#[test]
fn a_plan_has_an_end_and_what_it_has_no_room_for_starts_from_nothing() {
    let rungs = 2 * u64::try_from(PLANNED_MERGES_MAX).unwrap();
    let planned = plan(2 * rungs + 2, 2 * rungs + 3, parents(&ladder(rungs)));
    assert_eq!(
        (planned.merges.len(), planned.base),
        (PLANNED_MERGES_MAX, Base::Merged(PLANNED_MERGES_MAX - 1))
    );
    assert_eq!(
        (planned.merges[0].base, planned.merges[0].depth),
        (Base::Empty, PLANNED_MERGES_MAX)
    );
    // So many lines come from 1, and both of the last two hold all of them.
    let lines = u64::try_from(PLANNED_MERGES_MAX).unwrap() + 2;
    let mut wide: Graph = vec![vec![]];
    wide.extend((0..lines).map(|_| vec![1]));
    wide.extend([(2..2 + lines).collect(), (2..2 + lines).collect()]);
    assert_eq!(
        plan(lines + 2, lines + 3, parents(&wide)),
        Plan {
            merges: vec![],
            base: Base::Empty
        }
    );
}

#[test]
fn versions_without_a_common_ancestor_have_no_base() {
    let graph: Graph = vec![vec![], vec![]];
    assert_eq!(
        plan(1, 2, parents(&graph)),
        Plan {
            merges: vec![],
            base: Base::Empty
        }
    );
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
    let graph: Graph = (0..10_000)
        .map(|before| if before == 0 { vec![] } else { vec![before] })
        .collect();
    assert_eq!(plan(10_000, 1, parents(&graph)).base, Base::Version(1));
    assert!(contains(10_000, 1, parents(&graph)));
}
