//! Merges against the real `git merge-file`, and what a merge promises beyond it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};

use super::*;
use crate::arbitrary::documents;
use crate::git::Git;

const LABELS: Labels<'static> = Labels {
    ours: "target",
    base: "base",
    theirs: "source",
};
const STYLES: [(MergeStyle, &[&str]); 3] = [
    (MergeStyle::Merge, &[]),
    (MergeStyle::Diff3, &["--diff3"]),
    (MergeStyle::Zdiff3, &["--zdiff3"]),
];
/// What settles every conflict.
const SIDES: [(MergeStrategy, &[&str]); 3] = [
    (MergeStrategy::Ours, &["--ours"]),
    (MergeStrategy::Theirs, &["--theirs"]),
    (MergeStrategy::Union, &["--union"]),
];

fn options(style: MergeStyle, strategy: MergeStrategy) -> MergeOptions<'static> {
    MergeOptions {
        style,
        strategy,
        labels: LABELS,
        depth: 0,
        conflict_bytes_max: usize::MAX,
    }
}

fn three_way(
    [base, ours, theirs]: [&str; 3],
    options: &MergeOptions<'_>,
) -> Result<Merged, TooManyConflicts> {
    let texts = Texts { base, ours, theirs };
    merge(texts, options, &StepBudget::new(u64::MAX))
}

/// Asks git for the merge of the files `base`, `ours`, `theirs`: how many conflicts, and the text.
fn git_merges(git: &Git, flags: &[&[&str]]) -> (usize, String) {
    let fixed = [
        "merge-file",
        "-p",
        "-q",
        "-L",
        "target",
        "-L",
        "base",
        "-L",
        "source",
    ];
    let arguments: Vec<&str> = fixed
        .iter()
        .chain(flags.iter().copied().flatten())
        .chain(&["ours", "base", "theirs"])
        .copied()
        .collect();
    let (conflicts, text) = git.run(&arguments);
    (usize::try_from(conflicts).unwrap(), text)
}

fn same_as_git(git: &Git, texts: &[String]) -> Result<(), TestCaseError> {
    let [base, ours, theirs] = texts else {
        return Err(TestCaseError::fail("three texts"));
    };
    git.write("base", base);
    git.write("ours", ours);
    git.write("theirs", theirs);
    // Asking git costs a process: each triple is asked for in every style, and in one of them with
    // one strategy.
    let turn = base.len() + ours.len() + theirs.len();
    for (number, (style, style_flags)) in STYLES.into_iter().enumerate() {
        let merged = three_way([base, ours, theirs], &options(style, MergeStrategy::Fail)).unwrap();
        let (conflicts, text) = git_merges(git, &[style_flags]);
        prop_assert_eq!(&merged.text, &text, "{:?}", style);
        prop_assert_eq!(merged.conflicts.len(), conflicts, "{:?}", style);
        for (strategy, strategy_flags) in SIDES {
            let settled = three_way([base, ours, theirs], &options(style, strategy)).unwrap();
            prop_assert!(settled.conflicts.is_empty());
            if conflicts == 0 {
                prop_assert_eq!(&settled.text, &merged.text, "{:?} {:?}", style, strategy);
            } else if turn % STYLES.len() == number
                && SIDES[turn / STYLES.len() % SIDES.len()].0 == strategy
            {
                let (conflicts, text) = git_merges(git, &[style_flags, strategy_flags]);
                prop_assert_eq!(conflicts, 0);
                prop_assert_eq!(&settled.text, &text, "{:?} {:?}", style, strategy);
            }
        }
        blocks_are_what_they_say(&merged, [base, ours, theirs], style)?;
    }
    Ok(())
}

/// The conflicts say what stands between the markers, and where; resolved with a side's lines they
/// give what that strategy gives.
fn blocks_are_what_they_say(
    merged: &Merged,
    texts: [&str; 3],
    style: MergeStyle,
) -> Result<(), TestCaseError> {
    let [base, ours, theirs] = texts;
    let lines: Vec<&str> = merged.text.split_inclusive('\n').collect();
    for (number, conflict) in merged.conflicts.iter().enumerate() {
        prop_assert_eq!(conflict.index, number);
        prop_assert_eq!(lines[conflict.start_line - 1].trim_end(), "<<<<<<< target");
        let after = lines[conflict.start_line..].concat();
        prop_assert!(
            after.starts_with(&conflict.ours),
            "{:?} {:?}",
            after,
            conflict
        );
    }
    prop_assert_eq!(
        merged.text.matches("<<<<<<< target").count(),
        merged.conflicts.len()
    );
    for strategy in [MergeStrategy::Ours, MergeStrategy::Theirs] {
        let side = |conflict: &Conflict| {
            if strategy == MergeStrategy::Ours {
                conflict.ours.clone()
            } else {
                conflict.theirs.clone()
            }
        };
        let contents: Vec<String> = merged.conflicts.iter().map(side).collect();
        let resolutions: Vec<(usize, &str)> = contents
            .iter()
            .map(String::as_str)
            .enumerate()
            .rev()
            .collect();
        let resolved = resolve(
            Texts { base, ours, theirs },
            &options(style, MergeStrategy::Fail),
            &StepBudget::new(u64::MAX),
            &resolutions,
        )
        .unwrap();
        prop_assert_eq!(
            resolved,
            three_way([base, ours, theirs], &options(style, strategy))
                .unwrap()
                .text
        );
    }
    Ok(())
}

fn many_triples_merge_as_in_git(cases: u32, lines: std::ops::Range<usize>) {
    let git = Git::new();
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    if let Err(error) = runner.run(&documents(2, lines), |texts| same_as_git(&git, &texts)) {
        assert_eq!(error.to_string(), "", "git merge-file says otherwise");
    }
}

#[test]
fn short_documents_merge_byte_for_byte_as_in_git() {
    many_triples_merge_as_in_git(2_500, 0..12);
}

#[test]
fn longer_documents_merge_byte_for_byte_as_in_git() {
    many_triples_merge_as_in_git(2_500, 8..60);
}
