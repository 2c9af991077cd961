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

use crate::document::lines::Change;
use crate::document::myers::Steps;

/// What it would be shown as is longer than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the difference is longer than it may be")]
pub struct TooLong;

/// Which lines of the old text were replaced by which ones of the new text, in order.
pub(super) fn changes(old: &str, new: &str, steps: &Steps) -> Vec<Change> {
    if old == new {
        Vec::new()
    } else {
        compared::Compared::new(old, new, 0, steps).into_changes()
    }
}

/// What showing a difference may cost.
#[derive(Debug)]
pub struct Limits {
    /// Bytes of what is shown.
    pub bytes_max: usize,
    /// For finding the changes.
    pub steps: Steps,
}

/// What the two texts are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a> {
    /// The text before. In a patch git and patch cut off its first folder, so it is something like
    /// `a/notes.md`.
    pub old: &'a str,
    /// The text after; something like `b/notes.md`.
    pub new: &'a str,
}
