//! Documents: what their texts and versions are to each other. [`diff`] and [`merge`] and [`graph`] are pure functions; no actor,
//! no store, no clock, so that they can run off the arbiter.

pub mod diff;
pub mod graph;
pub mod merge;

mod lines;

#[cfg(test)]
mod drafts;
#[cfg(test)]
mod git;
