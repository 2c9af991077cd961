//! Two texts compared as `git diff` does, and their changes grouped with the lines around them.
//! Knows no format.

use std::ops::Range;

use gix_imara_diff::Interner;

use crate::budget::StepBudget;
use crate::lines::{Change, Lines, compare_to_show, estimate};

/// Git leaves equal ends out in pieces of this size where it shows no lines around a change.
const TAIL_BYTES: usize = 1_024;

/// Two texts, and the changes that lead from one to the other.
#[derive(Debug)]
pub(super) struct Compared<'a> {
    pub(super) old: Lines<'a>,
    pub(super) new: Lines<'a>,
    changes: Vec<Change>,
    context: usize,
}

/// Changes that lie close together, with the lines around and between them.
#[derive(Debug)]
pub(super) struct Group<'c> {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
    changes: &'c [Change],
}

/// A part of a group: lines that both texts have, or lines that took the place of others.
#[derive(Debug)]
pub(super) enum Part {
    /// They stand in both: lines of the old text.
    Kept(Range<usize>),
    /// Lines of the old text were replaced by lines of the new one; either may be none.
    Replaced(Change),
}

impl<'a> Compared<'a> {
    /// Compares; `context` is how many lines are shown around a change.
    pub(super) fn new(old: &'a str, new: &'a str, context: usize, budget: &StepBudget) -> Self {
        let (old, new) = if context == 0 {
            without_tail(old, new)
        } else {
            (old, new)
        };
        let mut interner = Interner::new(estimate(old));
        let (old, new) = (
            Lines::cut(old, &mut interner),
            Lines::cut(new, &mut interner),
        );
        let changes = compare_to_show(
            old.tokens(0..old.len()),
            new.tokens(0..new.len()),
            &interner,
            budget,
        );
        Self {
            old,
            new,
            changes,
            context,
        }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Changes with at most twice the context between them are one group.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let near =
            |one: &Change, next: &Change| next.before.start - one.before.end <= 2 * self.context;
        self.changes.chunk_by(near).filter_map(|changes| {
            let (first, last) = (changes.first()?, changes.last()?);
            let above = first.before.start.min(self.context);
            let below = (self.old.len() - last.before.end).min(self.context);
            Some(Group {
                old: first.before.start - above..last.before.end + below,
                new: first.after.start - above..last.after.end + below,
                changes,
            })
        })
    }
}

impl Group<'_> {
    /// What the group consists of, from its first line to its last: lines that both texts have, and
    /// changes.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let mut done = self.old.start;
        let last = self.changes.last().map_or(done, |change| change.before.end);
        let between = self.changes.iter().flat_map(move |change| {
            let kept = done..change.before.start;
            done = change.before.end;
            [Part::Kept(kept), Part::Replaced(change.clone())]
        });
        between.chain([Part::Kept(last..self.old.end)])
    }

    /// Where lines stand, as patches count: from 1, and the line above where there are none.
    pub(super) fn start(lines: &Range<usize>) -> usize {
        if lines.is_empty() {
            lines.start
        } else {
            lines.start + 1
        }
    }
}

/// Both texts without the whole lines at their ends that git leaves out of a comparison without
/// context.
fn without_tail<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    let pieces = old
        .as_bytes()
        .rchunks_exact(TAIL_BYTES)
        .zip(new.as_bytes().rchunks_exact(TAIL_BYTES));
    let equal = TAIL_BYTES * pieces.take_while(|(one, other)| one == other).count();
    let tail = old.as_bytes().get(old.len() - equal..).unwrap_or_default();
    let left = tail
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(equal, |line_end| line_end + 1);
    let cut = |text: &'a str| text.get(..text.len() - (equal - left)).unwrap_or(text);
    (cut(old), cut(new))
}
