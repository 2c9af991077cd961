//! What changed between two texts: as a patch, as hunks with their changed words, as a page, as two numbers. Pure; knows no
//! version and no store.
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
pub use hunks::{Hunk, Line, LineDiff, Op, line_diff};
pub use stat::{Stat, stat};
pub use unified::unified;

/// What the two texts are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a> {
    /// The text before. In a patch git and patch cut off its first folder, so it is something like `a/notes.md`.
    pub old: &'a str,
    /// The text after; something like `b/notes.md`.
    pub new: &'a str,
}
