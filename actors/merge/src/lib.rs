//! Compares two texts and merges three, line by line, as git does.
//!
//! Knows text and nothing else: no version, no document, no store, no actor, no clock. Every function
//! is pure and runs to its end on the caller's thread.
//!
//! # What is promised
//!
//! - [`merge`] writes, byte for byte, what `git merge-file` writes in the same [`MergeStyle`], and
//!   with [`MergeOptions::depth`] above 0 what `git merge` writes into the base of another merge.
//! - [`diff::unified`] writes the hunks of `git diff`, [`diff::stat`] counts as `git diff --numstat`.
//! - The same texts, options and budget give the same result, on every machine.
//!
//! The tests ask git itself ("the oracle") about many thousands of random texts. The promises hold as
//! long as the [`StepBudget`] is not exhausted; beyond that a result is still correct (the changes
//! lead from one text to the other, no side's change is lost), but more lines than need be count as
//! changed.
//!
//! # How three texts are merged
//!
//! `base` is what both sides began with, `ours` and `theirs` what each made of it.
//!
//! 1. The changes from `base` to `ours` and from `base` to `theirs` are found (Myers' algorithm,
//!    without git's indent heuristic).
//! 2. Two changes are independent only if an unchanged line of `base` lies between them. Changes that
//!    touch are a conflict; equal changes of both sides count once.
//! 3. Otherwise all changes that touch are one conflict over the lines of all of them.
//! 4. Style `merge`: `ours` is compared with `theirs` inside each conflict, and what they have in
//!    common is none. Then conflicts with at most 3 lines between them, or only lines without a letter
//!    or digit, are joined.
//! 5. Style `diff3`: conflicts stay as they are, and show the base's lines too.
//! 6. Style `zdiff3`: as `diff3`, without the first and last lines that both sides have in common.
//! 7. A marker ends with CRLF only if the line above it does in `ours`, then in `theirs`, and the
//!    first line of `base` does; a last line without line end gets one before the next marker.
//!
//! # Units and bounds
//!
//! Sizes are bytes of UTF-8; a line includes its line end, `\n` or `\r\n`. Ranges count lines from 0;
//! line numbers that are shown count from 1. Changed words are given in characters (Unicode scalar
//! values). A text has less than 4 GiB. Memory is a small multiple of the texts; time is bounded by a
//! [`StepBudget`], what is written by [`MergeOptions::conflict_bytes_max`] and
//! [`diff::DiffOptions::bytes_max`].
//!
//! # Where to find what
//!
//! `lines` cuts texts into lines and `myers` finds where they differ; `three_way` merges; [`diff`]
//! shows differences. The library `gix-imara-diff` gives lines their numbers and slides changes;
//! `indent` says to where.

pub mod diff;

mod budget;
mod indent;
mod lines;
mod myers;
mod three_way;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod git;

pub use budget::StepBudget;
pub use three_way::{
    Conflict, Labels, MergeOptions, MergeStrategy, MergeStyle, Merged, ResolveError, Texts,
    TooManyConflicts, merge, resolve,
};
