//! A document as a commit leaves it.

use bytes::Bytes;

use crate::entity_number::EntityNumber;
use crate::id::{UserId, VersionId};
use crate::time::Timestamp;

/// A document's header as a commit leaves it.
#[derive(Debug)]
pub struct DocumentHeader {
    /// Whether it was in the bin before; none where it is new.
    pub was_deleted: Option<bool>,
    /// When what it shows changed last.
    pub updated_at: Timestamp,
    /// What lists are sorted and filtered by.
    pub listed: DocumentListed,
    /// JSON, as the entity reads it back.
    pub body: String,
    /// Who may read it, where that has changed.
    pub readers: Option<Vec<DocumentReader>>,
    /// Its share links, where these have changed.
    pub links: Option<NewLinks>,
    /// The version that the commit adds, if it adds one.
    pub version: Option<NewVersion>,
    /// Comments that are new, changed or taken away.
    pub comments: Vec<CommentChange>,
    /// Where comments stand whose rows say something else, where that has changed.
    pub anchors: Option<Bytes>,
}

/// A document's share links as a commit leaves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLinks {
    /// Hashes of their tokens.
    pub hashes: Vec<[u8; 32]>,
    /// JSON, as the entity reads it back; it counts their uses.
    pub body: String,
}

/// Somebody who may read a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentReader {
    /// The number of a user's identifier, 0 for everybody of the account.
    pub user: EntityNumber,
    /// The code of what they may do.
    pub role: i64,
}

/// What becomes of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentChange {
    /// Its number in the document.
    pub number: u64,
    /// The comment in JSON; none where it is taken away.
    pub body: Option<String>,
}

/// What lists of documents are sorted and filtered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentListed {
    /// The title, as lists show it.
    pub title: String,
    /// The content type's code.
    pub content_type: i64,
    /// The user who owns it; none: the account does.
    pub owner: Option<UserId>,
    /// When it was put into the bin.
    pub deleted_at: Option<Timestamp>,
}

/// A version as a commit adds it.
#[derive(Debug)]
pub struct NewVersion {
    /// Its number in the document.
    pub number: u64,
    /// The identifier of the version.
    pub id: VersionId,
    /// The name that its author gave to this version, if any.
    pub label: Option<String>,
    /// The branch that it is on; empty: the main one.
    pub branch: String,
    /// The numbers of what it was made from.
    pub parents: Vec<u64>,
    /// What its author said about the change, if anything.
    pub message: Option<String>,
    /// The user who wrote it.
    pub author: Option<UserId>,
    /// The number of the version that its frame is against; none: it stands alone.
    pub base: Option<u64>,
    /// The content, packed: whole, or as its difference from the version before.
    pub frame: Bytes,
}
