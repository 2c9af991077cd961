//! Where a change that can slide is shown, as git chooses: where the indentation around its first and
//! its last line looks most like the edge of a block. The weights are those that git learned from
//! changes that people had placed by hand (git's `xdiff/xdiffi.c`, "indent heuristic"). For example, a
//! function that is added between two others is shown from its first line to its closing brace.
//!
//! Knows lines and how far they are indented, and nothing of how changes are found.

use std::cmp::Ordering;
use std::ops::{Add, Range};

use gix_imara_diff::{Interner, SliderHeuristic, Token};

/// How far a tab indents, as git counts.
const TAB_COLUMNS: i32 = 8;
/// Columns from which on lines count as indented equally far.
const COLUMNS_MAX: i32 = 200;
/// So many blank lines in a row are looked over for the nearest line that is not blank; behind so many
/// its indentation counts as 0, whatever it is.
const BLANKS_MAX: i32 = 20;
/// The farthest that a change slides up from its lowest place.
const SLIDE_LINES_MAX: u32 = 100;

/// What one comparison of indentation counts against the penalties, which have the same unit.
const INDENT_WEIGHT: i32 = 60;

/// Chooses between the places of a change as git's indent heuristic does. The library's own differs
/// from git where only blank lines or none follow a line that is indented less than the one above,
/// where exactly [`BLANKS_MAX`] of them begin or end a text, and in that a form feed is blank.
pub(crate) struct ByIndent<'i, 'a> {
    lines: &'i Interner<&'a str>,
}

impl<'i, 'a> ByIndent<'i, 'a> {
    pub(crate) fn new(lines: &'i Interner<&'a str>) -> Self {
        ByIndent { lines }
    }

    fn score(&self, tokens: &[Token], change: Range<u32>) -> Score {
        let edge = |line: u32| Edge::above(tokens, line as usize, |token| self.columns(token));
        edge(change.start).score() + edge(change.end).score()
    }

    /// How far a line is indented; none if it is blank.
    fn columns(&self, token: Token) -> Option<i32> {
        let mut columns = 0;
        for byte in self.lines[token].bytes() {
            match byte {
                b' ' => columns += 1,
                b'\t' => columns += TAB_COLUMNS - columns % TAB_COLUMNS,
                b'\r' | b'\n' => {}
                _ => return Some(columns),
            }
            if columns >= COLUMNS_MAX {
                return Some(COLUMNS_MAX);
            }
        }
        None
    }
}

impl SliderHeuristic for ByIndent<'_, '_> {
    fn best_slider_end(&mut self, tokens: &[Token], lowest: Range<u32>, highest_end: u32) -> u32 {
        let lines = lowest.end - lowest.start;
        // Git looks no farther up than one line more than the change is long: the lines that it slides
        // over repeat themselves.
        let highest_end = highest_end
            .max(lowest.start.saturating_sub(1))
            .max(lowest.end.saturating_sub(SLIDE_LINES_MAX));
        (highest_end..=lowest.end)
            .map(|end| (end, self.score(tokens, end - lines..end)))
            // From the highest down, each with the best so far: "better" is not transitive.
            .reduce(|best, next| {
                if next.1.is_at_least_as_good_as(best.1) {
                    next
                } else {
                    best
                }
            })
            .map_or(lowest.end, |(end, _)| end)
    }
}

/// What lies around a place between two lines.
struct Edge {
    /// How far the line below is indented; none if it is blank or there is none.
    below: Option<i32>,
    /// The same of the nearest line above that is not blank.
    above: Option<i32>,
    blanks_above: i32,
    /// The same of the nearest line under the one below that is not blank.
    after: Option<i32>,
    blanks_after: i32,
    is_end_of_text: bool,
}

impl Edge {
    /// The place above this line.
    fn above(tokens: &[Token], line: usize, columns: impl Fn(Token) -> Option<i32>) -> Self {
        let (over, under) = tokens.split_at_checked(line).unwrap_or((tokens, &[]));
        let mut under = under.iter().map(|token| columns(*token));
        let first = under.next();
        let (blanks_above, above) = nearest(over.iter().rev().map(|token| columns(*token)));
        let (blanks_after, after) = nearest(under);
        Edge {
            below: first.flatten(),
            above,
            blanks_above,
            after,
            blanks_after,
            is_end_of_text: first.is_none(),
        }
    }

    fn score(&self) -> Score {
        let blanks_below = if self.below.is_none() {
            self.blanks_after + 1
        } else {
            0
        };
        let blanks = self.blanks_above + blanks_below;
        let mut penalty = -30 * blanks + 6 * blanks_below;
        if self.above.is_none() && self.blanks_above == 0 {
            penalty += 1;
        }
        if self.is_end_of_text {
            penalty += 21;
        }
        let indent = self.below.or(self.after);
        if let (Some(indent), Some(above)) = (indent, self.above) {
            penalty += match indent.cmp(&above) {
                Ordering::Greater if blanks > 0 => 10,
                Ordering::Greater => -4,
                Ordering::Equal => 0,
                Ordering::Less if blanks > 0 => 17,
                // It may begin a block of its own, where the next line is indented more, or end the
                // one above.
                Ordering::Less if self.after.is_some_and(|after| after > indent) => 24,
                Ordering::Less => 23,
            };
        }
        Score {
            indent: indent.unwrap_or(-1),
            penalty,
        }
    }
}

/// How many blank lines come first, and how far the line after them is indented, if there is one.
fn nearest(lines: impl Iterator<Item = Option<i32>>) -> (i32, Option<i32>) {
    let mut blanks = 0;
    for columns in lines {
        if columns.is_some() {
            return (blanks, columns);
        }
        blanks += 1;
        if blanks == BLANKS_MAX {
            return (blanks, Some(0));
        }
    }
    (blanks, None)
}

/// How good a place is for an edge of a change, or for both: lower is better.
#[derive(Clone, Copy)]
struct Score {
    indent: i32,
    penalty: i32,
}

impl Score {
    fn is_at_least_as_good_as(self, other: Self) -> bool {
        // It counts which of them is indented less, not by how much.
        let indented_more = (self.indent - other.indent).signum();
        INDENT_WEIGHT * indented_more + self.penalty - other.penalty <= 0
    }
}

impl Add for Score {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Score {
            indent: self.indent + other.indent,
            penalty: self.penalty + other.penalty,
        }
    }
}
