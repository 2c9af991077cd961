//! A document: its versions, who may do what with it, its links and its comments. Here are the rooms that stand alone, each
//! pure: no actor, clock or store.
//!
//! - [`frames`]: how contents of versions are kept.
//! - [`access`]: roles, what each may do, and the permission set.
//! - [`anchors`]: where a comment stands after the text has changed.
//! - [`shares`]: links that open a document without a key.

pub mod access;
pub mod anchors;
pub mod frames;
pub mod shares;
