//! A document: one supervised actor that owns its head, its version graph, its collaborators and
//! its links.
//!
//! Pure rooms that stand alone; no actor, no store, no clock, so that they can run off the arbiter:
//!
//! - [`graph`]: what versions are to each other; [`colloquy_merge`] compares and merges texts.
//! - [`frames`]: how contents of versions are kept.
//! - [`access`]: roles, what each may do, and the permission set.
//! - [`anchors`]: where a comment stands after the text has changed.
//! - [`shares`]: links that open a document without a key.
//!
//! The ways in, all of them [`Documents`]: `documents` (by id), `lists`, `history`, `merging`,
//! `people`, `links`.
//!
//! What the actor owns and by which rules: `state` and `remarks`, then `versions`, `sharing` and
//! `comments`, each of which makes a `draft`; `work`, `merging` and `bases` compute off the
//! arbiters, over what `contents` brings them, `hashing` says whose password is hashed next. Beside
//! it run `finder`, which keeps the search index, and `bin`, which erases.

pub mod access;
pub mod anchors;
pub mod frames;
pub mod graph;
pub mod messages;
pub mod shares;
pub mod views;

mod actor;
mod bases;
mod bin;
mod comments;
mod contents;
mod documents;
mod draft;
mod finder;
mod hashing;
mod history;
mod links;
mod lists;
mod merging;
mod people;
mod remarks;
mod sharing;
mod state;
mod versions;
mod wordless;
mod work;

pub use crate::store::DocumentOrder;
pub use documents::{Documents, Failure};
pub(crate) use finder::Finder;
pub(crate) use hashing::HashPlaces;
pub use hashing::HashSettings;
pub use history::{Comparison, DiffFormat};
pub use links::{Link, Shut};
pub use lists::{ActivityActor, ActivityList, ActivityView, DocumentList};
pub use merging::{Computed, MergeJob};
pub use state::{Changed, Document};
pub use wordless::wordless;
pub use work::{Job, Worked};

#[cfg(test)]
#[path = "../../merge/src/git.rs"]
mod git;
