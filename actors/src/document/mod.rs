//! A document: one supervised actor that owns its head, its version graph, its collaborators and its links.
//!
//! [`diff`], [`merge`] and [`graph`] are pure functions over texts and versions; no actor, no store, no clock, so that they
//! can run off the arbiter.

pub mod diff;
pub mod graph;
pub mod merge;
pub mod messages;

mod lines;

#[cfg(test)]
mod drafts;
#[cfg(test)]
mod git;
