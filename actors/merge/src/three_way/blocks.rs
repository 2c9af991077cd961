//! The merged text in pieces: what stands, and the conflicts between. Rule 7 is here; the markers
//! are not.

use gix_imara_diff::Interner;

use super::refine::{Sides, refine};
use super::regions::{ChangedBy, Region, regions};
use super::{MergeOptions, MergeStrategy, Texts};
use crate::budget::StepBudget;
use crate::lines::{Change, Lines, compare, estimate};

/// A piece of the merged text.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Text without a conflict.
    Text(&'a str),
    /// A conflict, with the texts of its sides.
    Block(Block<'a>),
}

/// The texts of a conflict, of each side and of the base.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) base: &'a str,
    pub(super) ours: &'a str,
    pub(super) theirs: &'a str,
    /// What ends a line around here.
    pub(super) line_end: &'static str,
}

/// Merges three texts into pieces, in their order.
pub(super) fn pieces<'a>(
    texts: Texts<'a>,
    options: &MergeOptions<'_>,
    budget: &StepBudget,
) -> Vec<Piece<'a>> {
    let Texts { base, ours, theirs } = texts;
    if ours == base || ours == theirs {
        return vec![Piece::Text(theirs)];
    }
    if theirs == base {
        return vec![Piece::Text(ours)];
    }
    let mut interner = Interner::new(estimate(base));
    let base = Lines::cut(base, &mut interner);
    let (ours, theirs) = (
        Lines::cut(ours, &mut interner),
        Lines::cut(theirs, &mut interner),
    );
    let everything = |lines: &Lines<'_>| 0..lines.len();
    let changes = |side: &Lines<'_>| {
        compare(
            base.tokens(everything(&base)),
            side.tokens(everything(side)),
            budget,
        )
    };
    let (our_changes, their_changes) = (changes(&ours), changes(&theirs));
    let tokens = interner.num_tokens() as usize;
    let sides = Sides {
        ours,
        theirs,
        our_changes,
        their_changes,
        tokens,
    };
    let same = |our: &Change, their: &Change| {
        sides.ours.tokens(our.after.clone()) == sides.theirs.tokens(their.after.clone())
    };
    let regions = refine(
        regions(&sides.our_changes, &sides.their_changes, same),
        &sides,
        options,
        budget,
    );
    assemble(&regions, &base, &sides, options.strategy)
}

/// Our text, with each region in its place.
fn assemble<'a>(
    regions: &[Region],
    base: &Lines<'a>,
    sides: &Sides<'a>,
    strategy: MergeStrategy,
) -> Vec<Piece<'a>> {
    let mut pieces = Vec::with_capacity(2 * regions.len() + 1);
    let mut done = 0;
    for region in regions {
        let (our_lines, their_lines) = (
            sides.ours.text(region.ours.clone()),
            sides.theirs.text(region.theirs.clone()),
        );
        match region.by {
            ChangedBy::Alike | ChangedBy::Ours => continue,
            ChangedBy::Theirs => pieces
                .extend([sides.ours.text(done..region.ours.start), their_lines].map(Piece::Text)),
            ChangedBy::Both => {
                pieces.push(Piece::Text(sides.ours.text(done..region.ours.start)));
                let line_end = line_end(region, base, sides);
                match strategy {
                    MergeStrategy::Fail => pieces.push(Piece::Block(Block {
                        base: base.text(region.base.clone()),
                        ours: our_lines,
                        theirs: their_lines,
                        line_end,
                    })),
                    MergeStrategy::Ours => pieces.push(Piece::Text(our_lines)),
                    MergeStrategy::Theirs => pieces.push(Piece::Text(their_lines)),
                    MergeStrategy::Union => {
                        let ended = our_lines.is_empty() || our_lines.ends_with('\n');
                        let between = if ended { "" } else { line_end };
                        pieces.extend([our_lines, between, their_lines].map(Piece::Text));
                    }
                }
            }
        }
        done = region.ours.end;
    }
    pieces.push(Piece::Text(sides.ours.text(done..sides.ours.len())));
    pieces
}

/// CRLF if the lines around a region say so in ours, theirs, and the base's first line; what can't
/// be told speaks for neither.
fn line_end(region: &Region, base: &Lines<'_>, sides: &Sides<'_>) -> &'static str {
    let above = |start: usize| start.saturating_sub(1);
    let told = [
        ends_with_crlf(&sides.ours, above(region.ours.start)),
        ends_with_crlf(&sides.theirs, above(region.theirs.start)),
        ends_with_crlf(base, 0),
    ];
    match told {
        [Some(false), _, _] | [_, Some(false), _] | [_, _, Some(false) | None] => "\n",
        [_, _, Some(true)] => "\r\n",
    }
}

/// Whether a line ends with CRLF; a last line without a line end is judged by the one above it.
fn ends_with_crlf(lines: &Lines<'_>, line: usize) -> Option<bool> {
    let text = lines.line(line);
    if text.ends_with('\n') {
        return Some(text.ends_with("\r\n"));
    }
    line.checked_sub(1)
        .map(|above| lines.line(above).ends_with("\r\n"))
}
