//! A document: one supervised actor that owns its head, its version graph, its collaborators, its
//! comments and its share links.
//!
//! # Where to find what
//!
//! - [`messages`]: what a document may be asked and why it may refuse; [`views`]: what it shows.
//! - `rules/`: the rules, pure, by subject: versions and merges, sharing, comments. `state` is the
//!   state that they judge, `draft` the commit that they make, [`access`] the table of rights.
//! - `actor`: only order: precompute, decide, commit, apply, answer.
//! - [`Documents`] is the way in for the edge. Its methods stand in `service` (documents by id),
//!   `lists`, `history`, `merge`, `collaborators` and `share_links`.
//! - Computed off the arbiters: `precompute` (what a command needs before it is decided), `merge_job`
//!   and `merge_base`, over contents that `content_reader` brings from the store;
//!   `password_hashing` says whose password is hashed next.
//! - Beside the actors run two threads: `search_indexer` keeps the search index, `purge` erases
//!   documents that have been in the bin too long.
//! - Pure, without actor, store or clock: [`version_graph`] (what versions are to each other),
//!   [`frames`] (how contents are stored), [`anchors`] and `comments` (where comments stand),
//!   [`share_terms`] (share links), `redaction` (what stays of an erased
//!   document). [`colloquy_merge`] compares and merges texts.

pub mod access;
pub mod anchors;
pub mod frames;
pub mod messages;
pub mod share_terms;
pub mod version_graph;
pub mod views;

mod actor;
mod collaborators;
mod comments;
mod content_reader;
mod context;
mod draft;
mod history;
mod lists;
mod merge;
mod merge_base;
mod merge_job;
mod names;
mod precompute;
mod purge;
mod redaction;
mod refusal;
mod rules;
mod search_indexer;
mod service;
mod share_links;
mod state;

pub use crate::store::DocumentOrder;
pub use actor::{ComputedCommand, DocumentCommand};
pub use history::{Comparison, DiffFormat};
pub use lists::{ActivityActor, ActivityList, ActivityView, DocumentList};
pub use merge_job::{ComputedMerge, MergeJob};
pub use precompute::{CountLines, EncodeVersion, Precompute};
pub(crate) use redaction::redacted;
pub use refusal::Failure;
pub use rules::{ComputedRequest, DocumentRequest};
pub(crate) use search_indexer::SearchIndexer;
pub use service::Documents;
pub use share_links::{Link, LinkError};
pub use state::{Changed, Document};

#[cfg(test)]
#[path = "../../merge/src/git.rs"]
mod git;
