//! Narrows conflicts down, each style in its way: rules 4 to 6. Knows lines, no markers.

use std::ops::Range;

use gix_imara_diff::Token;

use super::regions::{ChangedBy, Region};
use super::{MergeOptions, MergeStyle};
use crate::budget::StepBudget;
use crate::lines::{Change, Lines, compare};

/// Conflicts with at most this many lines between them are one.
const JOINED_LINES_MAX: usize = 3;

/// The two sides of a merge, and how each differs from the base.
pub(super) struct Sides<'a> {
    pub(super) ours: Lines<'a>,
    pub(super) theirs: Lines<'a>,
    pub(super) our_changes: Vec<Change>,
    pub(super) their_changes: Vec<Change>,
    /// How many different lines there are in all texts.
    pub(super) tokens: usize,
}

/// Narrows the conflicts among `regions` down.
pub(super) fn refine(
    regions: Vec<Region>,
    sides: &Sides<'_>,
    options: &MergeOptions<'_>,
    budget: &StepBudget,
) -> Vec<Region> {
    match options.style {
        MergeStyle::Merge => {
            let wordless = if options.depth == 0 {
                OverWordless::Join
            } else {
                OverWordless::KeepApart
            };
            join(split(regions, sides, budget), &sides.ours, wordless)
        }
        MergeStyle::Diff3 => regions,
        MergeStyle::Zdiff3 => regions
            .into_iter()
            .map(|region| trim(region, sides))
            .collect(),
    }
}

/// Compares the two sides of each conflict: the lines that they have in common are taken out of it,
/// and where the sides are equal it is no conflict.
fn split(regions: Vec<Region>, sides: &Sides<'_>, budget: &StepBudget) -> Vec<Region> {
    let mut found = Vec::with_capacity(regions.len());
    let mut renumbered = Renumbered::new(sides.tokens);
    for region in regions {
        if region.by != ChangedBy::Both || region.ours.is_empty() || region.theirs.is_empty() {
            found.push(region);
            continue;
        }
        let ours = renumbered.dense(sides.ours.tokens(region.ours.clone()));
        let theirs = renumbered.dense(sides.theirs.tokens(region.theirs.clone()));
        renumbered.forget();
        let changes = compare(&ours, &theirs, budget);
        if changes.is_empty() {
            found.push(Region {
                by: ChangedBy::Alike,
                ..region
            });
        } else {
            found.extend(changes.iter().map(|change| part(change, &region, sides)));
        }
    }
    found
}

/// The part of a conflict in which its sides differ, with the base lines that either side changed
/// there.
fn part(change: &Change, whole: &Region, sides: &Sides<'_>) -> Region {
    let moved = |range: &Range<usize>, by: usize| range.start + by..range.end + by;
    let ours = moved(&change.before, whole.ours.start);
    let theirs = moved(&change.after, whole.theirs.start);
    let of_ours = source(&sides.our_changes, &ours);
    let of_theirs = source(&sides.their_changes, &theirs);
    let start = of_ours
        .start
        .min(of_theirs.start)
        .clamp(whole.base.start, whole.base.end);
    let end = of_ours.end.max(of_theirs.end).clamp(start, whole.base.end);
    Region {
        by: ChangedBy::Both,
        base: start..end,
        ours,
        theirs,
    }
}

/// The base lines that a side's lines come from. A change counts whole, unless the lines begin
/// after or end before it.
fn source(changes: &[Change], lines: &Range<usize>) -> Range<usize> {
    let before = |line: usize| changes.partition_point(|change| change.after.end < line);
    let place = |line: usize| {
        changes
            .get(before(line))
            .filter(|change| change.after.start <= line)
    };
    let unchanged = |line: usize| {
        let last = before(line)
            .checked_sub(1)
            .and_then(|last| changes.get(last));
        last.map_or(line, |change| {
            (line + change.before.end).saturating_sub(change.after.end)
        })
    };
    let start = place(lines.start).map_or_else(
        || unchanged(lines.start),
        |change| {
            let after = change.after.end <= lines.start && !change.after.is_empty();
            if after {
                change.before.end
            } else {
                change.before.start
            }
        },
    );
    let end = place(lines.end).map_or_else(
        || unchanged(lines.end),
        |change| {
            let before = lines.end <= change.after.start && !change.after.is_empty();
            if before {
                change.before.start
            } else {
                change.before.end
            }
        },
    );
    start..end.max(start)
}

/// Whether two conflicts are joined over any number of lines without a letter or a digit: `git
/// merge-file` does, `git merge` does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverWordless {
    Join,
    KeepApart,
}

/// Joins conflicts that a reader would see as one: few lines between them, or none with a letter or
/// a digit.
fn join(regions: Vec<Region>, ours: &Lines<'_>, wordless: OverWordless) -> Vec<Region> {
    let mut found: Vec<Region> = Vec::with_capacity(regions.len());
    for region in regions {
        let both = |last: &&mut Region| last.by == ChangedBy::Both && region.by == ChangedBy::Both;
        match found.last_mut().filter(both) {
            Some(last) if is_slight(last.ours.end..region.ours.start, ours, wordless) => {
                last.base =
                    last.base.start.min(region.base.start)..last.base.end.max(region.base.end);
                last.ours.end = region.ours.end;
                last.theirs.end = region.theirs.end;
            }
            Some(_) | None => found.push(region),
        }
    }
    found
}

fn is_slight(between: Range<usize>, lines: &Lines<'_>, wordless: OverWordless) -> bool {
    let has_words = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphanumeric());
    between.len() <= JOINED_LINES_MAX
        || wordless == OverWordless::Join && !has_words(lines.text(between))
}

/// Cuts off the first and last lines that both sides of a conflict have in common; the base stays
/// whole.
fn trim(region: Region, sides: &Sides<'_>) -> Region {
    if region.by != ChangedBy::Both {
        return region;
    }
    let Region {
        by,
        base,
        mut ours,
        mut theirs,
    } = region;
    let alike = |pair: &(&Token, &Token)| pair.0 == pair.1;
    let (our_tokens, their_tokens) = (
        sides.ours.tokens(ours.clone()),
        sides.theirs.tokens(theirs.clone()),
    );
    let first = our_tokens
        .iter()
        .zip(their_tokens)
        .take_while(alike)
        .count();
    (ours.start, theirs.start) = (ours.start + first, theirs.start + first);
    let (our_tokens, their_tokens) = (
        sides.ours.tokens(ours.clone()),
        sides.theirs.tokens(theirs.clone()),
    );
    let last = our_tokens
        .iter()
        .rev()
        .zip(their_tokens.iter().rev())
        .take_while(alike)
        .count();
    (ours.end, theirs.end) = (ours.end - last, theirs.end - last);
    Region {
        by,
        base,
        ours,
        theirs,
    }
}

/// Numbers a few of many tokens afresh from 0: the engine keeps a counter for every number up to
/// the greatest, which for each of many small conflicts would be every line of the document.
struct Renumbered {
    numbers: Vec<Option<Token>>,
    used: Vec<Token>,
}

impl Renumbered {
    fn new(tokens: usize) -> Self {
        Self {
            numbers: vec![None; tokens],
            used: Vec::new(),
        }
    }

    fn dense(&mut self, tokens: &[Token]) -> Vec<Token> {
        let mut numbered = Vec::with_capacity(tokens.len());
        for token in tokens {
            let Some(place) = self.numbers.get_mut(token.0 as usize) else {
                continue;
            };
            numbered.push(*place.get_or_insert_with(|| {
                self.used.push(*token);
                Token(u32::try_from(self.used.len() - 1).unwrap_or(u32::MAX))
            }));
        }
        numbered
    }

    fn forget(&mut self) {
        for token in self.used.drain(..) {
            if let Some(place) = self.numbers.get_mut(token.0 as usize) {
                *place = None;
            }
        }
    }
}
