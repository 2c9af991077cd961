//! Merges three texts by the rules that the crate's documentation lists.
//!
//! `regions` finds where the sides left the base and who did (rules 1 to 3), `refine` narrows
//! conflicts down (rules 4 to 6), `blocks` chooses the texts (rule 7), this file writes them.

mod blocks;
mod refine;
mod regions;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use blocks::{Block, Piece, pieces};

use crate::budget::StepBudget;

/// How conflicts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeStyle {
    /// Both sides, narrowed down to what differs between them.
    #[default]
    Merge,
    /// Both sides and the base, whole.
    Diff3,
    /// Both sides and the base, without the first and last lines that both sides have in common.
    Zdiff3,
}

/// How a merge takes a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MergeStrategy {
    /// The conflict stays in the text, between markers.
    #[default]
    Fail,
    /// Our lines win.
    Ours,
    /// Their lines win.
    Theirs,
    /// Both stay, ours first.
    Union,
}

/// The three texts of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    /// What both sides began with.
    pub base: &'a str,
    /// The text that the changes are merged into.
    pub ours: &'a str,
    /// The text whose changes since the base are merged.
    pub theirs: &'a str,
}

/// The names that the markers give the three texts. Each is one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<'a> {
    /// After `<<<<<<<`.
    pub ours: &'a str,
    /// After `|||||||`.
    pub base: &'a str,
    /// After `>>>>>>>`.
    pub theirs: &'a str,
}

/// How to merge, and how much of conflicts may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeOptions<'a> {
    /// How a conflict is shown.
    pub style: MergeStyle,
    /// How a conflict is taken.
    pub strategy: MergeStrategy,
    /// The names that the markers give the three texts.
    pub labels: Labels<'a>,
    /// How many merges deep this one is: 0 for a merge of its own, 1 for one that makes the base of
    /// such a merge, and so on. Markers are two signs longer for each level, so that they are told
    /// from those around them.
    pub depth: usize,
    /// The most bytes of all conflicts together, in [`Merged::conflicts`] and between their
    /// markers.
    pub conflict_bytes_max: usize,
}

/// The conflicts are longer than [`MergeOptions::conflict_bytes_max`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the conflicts are longer than they may be")]
pub struct TooManyConflicts;

/// Bytes that are counted for a conflict beside its texts.
const CONFLICT_BYTES: usize = 160;

/// Signs in a marker of a merge of depth 0.
const MARKER_SIGNS: usize = 7;

/// One block of markers in a merged text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Conflict {
    /// Its place in the list, from 0; a resolution names it.
    pub index: usize,
    /// The base's lines that a side changed there. Blocks that style `merge` narrowed down may
    /// share them.
    pub base: String,
    /// Our lines.
    pub ours: String,
    /// Their lines.
    pub theirs: String,
    /// The line of the block's `<<<<<<<` in the merged text, from 1.
    pub start_line: usize,
}

/// The result of a merge: the text, and its conflicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The text, with markers where `conflicts` says.
    pub text: String,
    /// One for each block of markers, in the text's order; empty unless the strategy is `fail`.
    pub conflicts: Vec<Conflict>,
}

/// Why resolutions do not fit the conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A resolution is for a conflict that does not exist.
    #[error("there is no conflict {index}; there are {conflicts}, counted from 0")]
    Unknown {
        /// The index given.
        index: usize,
        /// How many conflicts there are.
        conflicts: usize,
    },
    /// Two resolutions are for the same conflict.
    #[error("conflict {index} is resolved twice")]
    Twice {
        /// The index given.
        index: usize,
    },
    /// A conflict has no resolution.
    #[error("conflict {index} is not resolved")]
    Missing {
        /// The first such conflict.
        index: usize,
    },
}

/// Merges three texts: what `theirs` changed since `base` goes into `ours`.
///
/// # Errors
/// The conflicts are longer than the options allow. Several conflicts may show the same lines of the
/// base, so that together they can be many times as long as the texts.
pub fn merge(
    texts: Texts<'_>,
    options: &MergeOptions<'_>,
    budget: &StepBudget,
) -> Result<Merged, TooManyConflicts> {
    let mut merged = Merged {
        text: String::with_capacity(texts.ours.len().max(texts.theirs.len())),
        conflicts: Vec::new(),
    };
    let mut lines = Written::default();
    let mut left = options.conflict_bytes_max;
    for piece in pieces(texts, options, budget) {
        match piece {
            Piece::Text(text) => merged.text.push_str(text),
            Piece::Block(block) => {
                left = left
                    .checked_sub(block.bytes(options))
                    .ok_or(TooManyConflicts)?;
                let start_line = lines.up_to(&merged.text) + 1;
                merged
                    .conflicts
                    .push(conflict(&block, merged.conflicts.len(), start_line));
                mark(&block, options, &mut merged.text);
            }
        }
    }
    Ok(merged)
}

impl Block<'_> {
    /// How many bytes it takes to list the conflict and to mark it.
    fn bytes(&self, options: &MergeOptions<'_>) -> usize {
        let Labels { ours, base, theirs } = options.labels;
        CONFLICT_BYTES
            + ours.len()
            + base.len()
            + theirs.len()
            + 2 * (self.base.len() + self.ours.len() + self.theirs.len())
    }
}

/// Merges three texts and puts a resolution in the place of each conflict, in any order; a
/// resolution names its conflict by [`Conflict::index`].
///
/// A resolution is lines: unless it is empty or ends the text, it gets the line end that it lacks.
///
/// # Errors
/// A resolution is for a conflict that does not exist, two are for one, or a conflict has none.
pub fn resolve(
    texts: Texts<'_>,
    options: &MergeOptions<'_>,
    budget: &StepBudget,
    resolutions: &[(usize, &str)],
) -> Result<String, ResolveError> {
    let found = pieces(texts, options, budget);
    let conflicts = found
        .iter()
        .filter(|piece| matches!(piece, Piece::Block(_)))
        .count();
    let mut chosen: Vec<Option<&str>> = vec![None; conflicts];
    for &(index, content) in resolutions {
        let place = chosen
            .get_mut(index)
            .ok_or(ResolveError::Unknown { index, conflicts })?;
        if place.replace(content).is_some() {
            return Err(ResolveError::Twice { index });
        }
    }
    let mut text = String::with_capacity(texts.ours.len().max(texts.theirs.len()));
    let mut line_end_due = None;
    let mut chosen = chosen.into_iter().enumerate();
    for piece in found {
        let (more, line_end) = match piece {
            Piece::Text(more) => (more, None),
            Piece::Block(block) => match chosen.next() {
                Some((_, Some(content))) => (content, Some(block.line_end)),
                Some((index, None)) => return Err(ResolveError::Missing { index }),
                None => return Err(ResolveError::Missing { index: conflicts }),
            },
        };
        if more.is_empty() {
            continue;
        }
        text.push_str(line_end_due.take().unwrap_or_default());
        text.push_str(more);
        line_end_due = line_end.filter(|_| !more.ends_with('\n'));
    }
    Ok(text)
}

fn conflict(block: &Block<'_>, index: usize, start_line: usize) -> Conflict {
    Conflict {
        index,
        base: block.base.to_owned(),
        ours: block.ours.to_owned(),
        theirs: block.theirs.to_owned(),
        start_line,
    }
}

/// Writes a conflict between its markers.
fn mark(block: &Block<'_>, options: &MergeOptions<'_>, text: &mut String) {
    let Labels { ours, base, theirs } = options.labels;
    let line_end = block.line_end;
    let signs = MARKER_SIGNS + 2 * options.depth;
    let mut marker = |sign: &str, label: &str, lines: &str| {
        text.push_str(&sign.repeat(signs));
        if !label.is_empty() {
            text.push(' ');
            text.push_str(label);
        }
        text.push_str(line_end);
        text.push_str(lines);
        if !lines.is_empty() && !lines.ends_with('\n') {
            text.push_str(line_end);
        }
    };
    marker("<", ours, block.ours);
    if options.style != MergeStyle::Merge {
        marker("|", base, block.base);
    }
    marker("=", "", block.theirs);
    marker(">", theirs, "");
}

/// Counts the lines of a growing text, each byte once.
#[derive(Default)]
struct Written {
    bytes: usize,
    lines: usize,
}

impl Written {
    fn up_to(&mut self, text: &str) -> usize {
        let fresh = text.get(self.bytes..).unwrap_or_default();
        self.lines += fresh.bytes().filter(|byte| *byte == b'\n').count();
        self.bytes = text.len();
        self.lines
    }
}
