//! The rules of documents: what each command requires and changes. Pure: no actor, no store, no
//! clock; each judges a state and makes a draft of a commit.

mod comments;
mod sharing;
mod versions;

pub(super) use sharing::permissions_shown;
