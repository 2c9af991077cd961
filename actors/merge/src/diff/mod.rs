//! What changed between two texts: as a patch, as hunks with their changed words, as a page, as two
//! numbers. Pure; knows no version and no store.
//!
//! `compared` finds the changes and groups them, once for all; each format is a file of its own.

mod compared;
mod html;
mod hunks;
mod stat;
mod unified;
mod words;

#[cfg(test)]
mod tests;

pub use html::{STYLE, html};
pub use hunks::json;
pub use stat::{Stat, stat};
pub use unified::unified;

pub use crate::lines::Change;

use crate::budget::StepBudget;

/// The difference, written out, is longer than [`DiffOptions::bytes_max`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the difference is longer than it may be")]
pub struct TooLong;

/// Finds which lines of the old text were replaced by which lines of the new text, in order.
#[must_use]
pub fn changes(old: &str, new: &str, budget: &StepBudget) -> Vec<Change> {
    if old == new {
        Vec::new()
    } else {
        compared::Compared::new(old, new, 0, budget).into_changes()
    }
}

/// How a difference is shown, and what it may cost.
#[derive(Debug)]
pub struct DiffOptions {
    /// Unchanged lines shown above and below each change.
    pub context_lines: usize,
    /// The most bytes that the written difference may have.
    pub bytes_max: usize,
    /// Bounds the search for the changed lines and words.
    pub budget: StepBudget,
}

/// The file names that a difference shows for its two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileNames<'a> {
    /// The older text's. `git apply` and `patch` cut off its first folder, so it is something like
    /// `a/notes.md`.
    pub old: &'a str,
    /// The newer text's, such as `b/notes.md`.
    pub new: &'a str,
}
