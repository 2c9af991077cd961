//! Comparisons against the real git where its rules for settling decide, and what a comparison
//! promises whatever it may cost.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write;

use gix_imara_diff::Interner;
use proptest::prelude::*;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::arbitrary::documents;
use crate::diff::{DiffOptions, FileNames, unified};
use crate::git::Git;
use crate::lines::Lines;

/// Numbers below `different`, the same for the same seed.
fn numbers(seed: u64, different: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % different
    })
}

/// A text of so many lines, of which so many are different.
fn text(lines: usize, seed: u64, different: u64) -> String {
    numbers(seed, different)
        .take(lines)
        .fold(String::new(), |mut text, number| {
            writeln!(text, "{number}").unwrap();
            text
        })
}

/// The text with so many in a thousand of its lines replaced, taken away or doubled.
fn edited(text: &str, seed: u64, per_mille: u64, different: u64) -> String {
    let mut dice = numbers(seed, 1 << 30);
    let mut next = || dice.next().unwrap();
    let mut edited = String::new();
    for line in text.split_inclusive('\n') {
        if next() % 1_000 >= per_mille {
            edited += line;
            continue;
        }
        match next() % 3 {
            0 => writeln!(edited, "{}", next() % different).unwrap(),
            1 => edited.extend([line, line]),
            _ => {}
        }
    }
    edited
}

fn marks(old: &str, new: &str, budget: &StepBudget) -> Marks {
    let mut interner = Interner::new(16);
    let (old, new) = (
        Lines::cut(old, &mut interner),
        Lines::cut(new, &mut interner),
    );
    Marks::of(old.tokens(0..old.len()), new.tokens(0..new.len()), budget)
}

/// What is left of a text without the lines that are marked.
fn kept<'t>(text: &'t str, marks: &[bool]) -> Vec<&'t str> {
    text.split_inclusive('\n')
        .zip(marks)
        .filter(|(_, changed)| !**changed)
        .map(|(line, _)| line)
        .collect()
}

fn assert_shown_as_in_git(git: &Git, old: &str, new: &str, of_what: &str) {
    git.write("old", old);
    git.write("new", new);
    let (_, printed) = git.run(&["diff", "--no-index", "--no-color", "--text", "old", "new"]);
    let theirs = printed.find("--- a/").map_or("", |place| &printed[place..]);
    let options = DiffOptions {
        context_lines: 3,
        bytes_max: usize::MAX,
        budget: StepBudget::new(u64::MAX),
    };
    let ours = unified(
        old,
        new,
        &FileNames {
            old: "a/old",
            new: "b/new",
        },
        &options,
    )
    .unwrap();
    let differs = ours
        .lines()
        .zip(theirs.lines())
        .position(|(our, their)| our != their);
    assert!(
        ours == theirs,
        "{of_what}: line {differs:?} of {} and {}",
        ours.lines().count(),
        theirs.lines().count()
    );
}

#[test]
fn texts_with_very_many_changes_are_shown_as_git_shows_them() {
    let git = Git::new();
    for different in [2, 3, 10, 60, 500, 100_000] {
        for (seed, per_mille) in [(1, 60), (2, 200), (3, 450), (4, 1_000)] {
            let old = text(3_000, seed, different);
            let new = edited(&old, seed + 10, per_mille, different);
            assert_shown_as_in_git(
                &git,
                &old,
                &new,
                &format!("{different} different lines, {per_mille} ‰ changed"),
            );
        }
    }
    // So many that more changes than the least are looked for.
    let old = text(35_000, 5, 400);
    assert_shown_as_in_git(&git, &old, &edited(&old, 6, 300, 400), "35,000 lines");
}

#[test]
fn the_worst_texts_take_few_steps_more_than_they_may() {
    const LINES: usize = 60_000;
    const MAX: u64 = 100_000;
    let (old, new) = (text(LINES, 1, 2), text(LINES, 2, 2));
    let unbounded = StepBudget::new(u64::MAX);
    let fewest = marks(&old, &new, &unbounded);
    assert!(
        unbounded.taken() > 100 * MAX,
        "{} steps: not the worst",
        unbounded.taken()
    );
    let bounded = StepBudget::new(MAX);
    let found = marks(&old, &new, &bounded);
    assert!(
        bounded.taken() < MAX + 60 * LINES as u64,
        "{} steps",
        bounded.taken()
    );
    assert_eq!(kept(&old, &found.removed), kept(&new, &found.added));
    let changes = |marks: &Marks| marks.removed.iter().filter(|changed| **changed).count();
    assert!(
        changes(&found) < 2 * changes(&fewest),
        "{} in place of {}",
        changes(&found),
        changes(&fewest)
    );
    assert_eq!(
        marks(&old, &new, &StepBudget::new(MAX)),
        found,
        "the same each time"
    );
    let left = StepBudget::cancelled_by(u64::MAX, Arc::new(AtomicBool::new(true)));
    marks(&old, &new, &left);
    assert!(
        left.taken() < 60 * LINES as u64,
        "{} steps for nobody",
        left.taken()
    );
}

proptest! {
    #[test]
    fn what_is_not_marked_is_the_same_on_both_sides_whatever_it_may_cost(
        texts in documents(1, 0..120), max in 0..3_000_u64,
    ) {
        let [old, new] = texts.as_slice() else { return Err(TestCaseError::fail("two texts")) };
        let found = marks(old, new, &StepBudget::new(max));
        prop_assert_eq!(kept(old, &found.removed), kept(new, &found.added));
    }
}
