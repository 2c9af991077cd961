//! The changes as data: hunks of lines, each with the places of its changed words.

use serde::Serialize;
use utoipa::ToSchema;

use super::compared::{Compared, Group, Part};
use super::words::{Spans, changed_words};

/// What changed between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LineDiff {
    /// In the texts' order; none if nothing changed.
    pub hunks: Vec<Hunk>,
}

/// Changes close together, with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Hunk {
    /// Its first line in the old text, from 1; the line above if it has none there.
    pub old_start: usize,
    /// How many lines it has in the old text.
    pub old_lines: usize,
    /// Its first line in the new text, from 1; the line above if it has none there.
    pub new_start: usize,
    /// How many lines it has in the new text.
    pub new_lines: usize,
    /// Lines of both texts, those removed before those added in their place.
    pub lines: Vec<Line>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Line {
    /// Which text has it.
    pub op: Op,
    /// The line with its line end, so that the new text can be made of the old one; a text's last line may have none.
    pub text: String,
    /// What changed in it, as `[start, end]` in characters; all of it where no line stood or came in its place.
    pub spans: Vec<[usize; 2]>,
}

/// Which text has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub enum Op {
    /// Both.
    #[serde(rename = " ")]
    Kept,
    /// Only the old one.
    #[serde(rename = "-")]
    Removed,
    /// Only the new one.
    #[serde(rename = "+")]
    Added,
}

/// The hunks from `old` to `new`, with `context` lines around each change.
#[must_use]
pub fn line_diff(old: &str, new: &str, context: usize) -> LineDiff {
    if old == new {
        return LineDiff { hunks: Vec::new() };
    }
    let compared = Compared::new(old, new, context);
    let hunks = compared.groups().map(|group| Hunk {
        old_start: Group::start(&group.old),
        old_lines: group.old.len(),
        new_start: Group::start(&group.new),
        new_lines: group.new.len(),
        lines: lines(compared.parts(&group)),
    });
    LineDiff { hunks: hunks.collect() }
}

fn lines(parts: Vec<Part<'_>>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut extend = |op: Op, texts: Vec<&str>, spans: Vec<Spans>| {
        let line = |(text, spans): (&str, Spans)| Line { op, text: text.to_owned(), spans };
        lines.extend(texts.into_iter().zip(spans).map(line));
    };
    for part in parts {
        match part {
            Part::Kept(kept) => {
                let none = vec![Spans::new(); kept.len()];
                extend(Op::Kept, kept, none);
            }
            Part::Replaced(removed, added) => {
                let (of_removed, of_added) = changed_words(&removed, &added);
                extend(Op::Removed, removed, of_removed);
                extend(Op::Added, added, of_added);
            }
        }
    }
    lines
}
