//! A document: one supervised actor that owns its head, its version graph, its collaborators and its links.
//!
//! Pure rooms that stand alone; no actor, no store, no clock, so that they can run off the arbiter:
//!
//! - [`diff`], [`merge`], [`graph`]: what texts and versions are to each other.
//! - [`frames`]: how contents of versions are kept.
//! - [`access`]: roles, what each may do, and the permission set.
//! - [`anchors`]: where a comment stands after the text has changed.
//! - [`shares`]: links that open a document without a key.

pub mod access;
pub mod anchors;
pub mod diff;
pub mod frames;
pub mod graph;
pub mod merge;
pub mod messages;
pub mod shares;

mod actor;
mod bases;
mod bin;
mod comments;
mod documents;
mod draft;
mod finder;
mod lines;
mod links;
mod merging;
mod sharing;
mod state;
mod versions;
mod work;

pub use crate::store::DocumentOrder;
pub use documents::{ActivityList, ActivityView, Comparison, DiffFormat, DocumentList, Documents, Failure};
pub(crate) use finder::Finder;
pub use links::{Link, Shut};
pub use merging::{Computed, MergeJob};
pub use state::{Changed, Document};
pub use work::{Job, Worked};

#[cfg(test)]
mod drafts;
#[cfg(test)]
mod git;
