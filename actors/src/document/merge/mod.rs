//! Three-way merge, line by line, byte for byte what `git merge-file` writes, and inside another
//! merge's base what `git merge` does. Pure; knows no version and no store.
//!
//! `regions` finds where the sides left the base and who did, `refine` narrows conflicts down,
//! `blocks` chooses the texts, this file writes them.

mod blocks;
mod refine;
mod regions;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use blocks::{Block, Piece, pieces};

use crate::document::myers::Steps;

/// How a conflict is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Both sides, narrowed down to what differs between them.
    #[default]
    Merge,
    /// Both sides and the base, whole.
    Diff3,
    /// Both sides and the base, without the first and last lines that both sides have in common.
    Zdiff3,
}

/// What becomes of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// It stays, between markers.
    #[default]
    Fail,
    /// Our lines stand.
    Ours,
    /// Their lines stand.
    Theirs,
    /// Both stand, ours first.
    Union,
}

/// What the markers call the three texts. Each is one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<'a> {
    /// After `<<<<<<<`.
    pub ours: &'a str,
    /// After `|||||||`.
    pub base: &'a str,
    /// After `>>>>>>>`.
    pub theirs: &'a str,
}

/// How to merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options<'a> {
    /// How a conflict is shown.
    pub style: Style,
    /// What becomes of a conflict.
    pub strategy: Strategy,
    /// What the markers call the three texts.
    pub labels: Labels<'a>,
    /// How deep it stands inside another merge, whose base it makes: there markers are longer by
    /// two signs for each level, so that they are told from those around them. The merge itself: 0.
    pub depth: usize,
    /// Bytes of all conflicts together, told and between their markers.
    pub conflict_bytes_max: usize,
}

/// A merge leaves more conflicts, or longer ones, than it may tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the conflicts are longer than they may be")]
pub struct TooManyConflicts;

/// What a conflict takes beside its texts.
const CONFLICT_BYTES: usize = 160;

/// Signs in a marker of a merge that is no other one's base.
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

/// What a merge gives.
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
    /// It resolves a conflict that there is not.
    #[error("there is no conflict {index}; there are {conflicts}, counted from 0")]
    Unknown {
        /// The index given.
        index: usize,
        /// How many conflicts there are.
        conflicts: usize,
    },
    /// It resolves a conflict for a second time.
    #[error("conflict {index} is resolved twice")]
    Twice {
        /// The index given.
        index: usize,
    },
    /// It leaves a conflict out.
    #[error("conflict {index} is not resolved")]
    Missing {
        /// The first that was left out.
        index: usize,
    },
}

/// Merges base, ours and theirs: what the last changed since the first goes into the second.
///
/// # Errors
/// It would leave more conflicts than the options allow to be told; several may tell of the same
/// base, so that they can be many times as long as the texts.
pub fn merge(
    texts: [&str; 3],
    options: &Options<'_>,
    steps: &Steps,
) -> Result<Merged, TooManyConflicts> {
    let [_, ours, theirs] = texts;
    let mut merged = Merged {
        text: String::with_capacity(ours.len().max(theirs.len())),
        conflicts: Vec::new(),
    };
    let mut lines = Written::default();
    let mut left = options.conflict_bytes_max;
    for piece in pieces(texts, options, steps) {
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
    /// What it takes to tell of it and to mark it.
    fn bytes(&self, options: &Options<'_>) -> usize {
        let Labels { ours, base, theirs } = options.labels;
        CONFLICT_BYTES
            + ours.len()
            + base.len()
            + theirs.len()
            + 2 * (self.base.len() + self.ours.len() + self.theirs.len())
    }
}

/// Merges, and puts each conflict's resolution in its block's place.
///
/// A resolution is lines: unless it is empty or ends the text, it gets the line end that it lacks.
///
/// # Errors
/// A resolution for a conflict that there is not, two for one, or none for one.
pub fn resolve(
    texts: [&str; 3],
    options: &Options<'_>,
    steps: &Steps,
    resolutions: &[(usize, &str)],
) -> Result<String, ResolveError> {
    let [_, ours, theirs] = texts;
    let found = pieces(texts, options, steps);
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
    let mut text = String::with_capacity(ours.len().max(theirs.len()));
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
fn mark(block: &Block<'_>, options: &Options<'_>, text: &mut String) {
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
    if options.style != Style::Merge {
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
