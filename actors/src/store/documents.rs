//! What a commit does to a document, and what comes back of one.

use std::sync::Arc;

use bytes::Bytes;

use colloquy_model::caller::Tenant;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{UserId, VersionId};
use colloquy_model::page::Paging;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A version as it is stored, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its number in the document.
    pub number: u64,
    /// The identifier of the version.
    pub id: VersionId,
    /// The name that its author gave to the version.
    pub label: Option<Box<str>>,
    /// The branch that it is on; empty: the main one.
    pub branch: Box<str>,
    /// The numbers of what it was made from.
    pub parents: Vec<u64>,
    /// What its author says that it is about.
    pub message: Option<Box<str>>,
    /// The user who wrote the version; none for a key of the account.
    pub author: Option<UserId>,
    /// When the version was made.
    pub at: Timestamp,
}

impl StoredVersion {
    /// As its actor keeps it: what it is about is read from the store.
    pub(crate) fn without_message(self) -> Self {
        StoredVersion {
            message: None,
            ..self
        }
    }
}

/// What a document's actor starts from.
#[derive(Debug)]
pub struct StoredDocument {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The sequence of its last row.
    pub sequence: Sequence,
    /// When what it shows changed last.
    pub updated_at: Timestamp,
    /// The document's header, in JSON as its actor wrote it.
    pub body: String,
    /// Its share links, in JSON as its actor wrote them; none where they stand in the header, as an earlier
    /// version wrote it.
    pub links: Option<String>,
    /// All versions, oldest first.
    pub versions: Vec<StoredVersion>,
    /// All comments, oldest first.
    pub comments: Vec<StoredComment>,
    /// How often share links were used, where that was counted since they were written.
    pub link_uses: Vec<LinkUses>,
    /// Where comments stand whose rows say something else.
    pub anchors: Option<Vec<u8>>,
}

/// A comment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredComment {
    /// Its number in the document.
    pub number: u64,
    /// The comment, in JSON as its actor wrote it.
    pub body: String,
}

/// How often a share link was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkUses {
    /// The number of the link's identifier.
    pub share: EntityNumber,
    /// How often the link has been used.
    pub uses: u64,
}

/// A version, and what its content is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramedVersion {
    /// The version itself, without its content.
    pub version: StoredVersion,
    /// The frames from which its content is made, the one that stands alone first.
    pub frames: Vec<Bytes>,
}

/// A document, and the account and mode that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedDocument {
    /// The document that is meant.
    pub subject: Subject,
    /// The account and mode that it belongs to.
    pub tenant: Tenant,
}

/// A document as the search index takes it in.
#[derive(Debug)]
pub struct IndexedDocument {
    /// The document as lists show it.
    pub row: DocumentRow,
    /// Whether the document is in the bin.
    pub is_deleted: bool,
}

/// A document as lists show it.
#[derive(Debug)]
pub struct DocumentRow {
    /// The document that is meant.
    pub subject: Subject,
    /// The sequence of its last row.
    pub sequence: Sequence,
    /// When what it shows changed last.
    pub updated_at: Timestamp,
    /// The document's header, in JSON as its actor wrote it.
    pub body: String,
}

/// By what documents are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DocumentOrder {
    /// In the order in which they were created.
    #[default]
    Creation,
    /// In the order of their last change.
    Update,
    /// By title, whatever its case.
    Title,
}

/// Which documents are listed, and in which order.
#[derive(Debug, Clone)]
pub struct DocumentQuery {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// Only what this user may read; none: everything.
    pub reader: Option<UserId>,
    /// Only where that user, or whoever asks, has one of these roles, by code; none: whatever the
    /// role.
    pub role: Option<i64>,
    /// Only those that this user owns.
    pub owner: Option<UserId>,
    /// Of this content type, by code.
    pub content_type: Option<i64>,
    /// Changed after this instant.
    pub updated_after: Option<Timestamp>,
    /// Whether those in the bin are wanted, and no others.
    pub deleted: bool,
    /// Only these, by number, in this order: what a search has found.
    pub among: Option<Arc<[EntityNumber]>>,
    /// By what they are sorted; with `among`, by its order.
    pub sort: DocumentOrder,
    /// The part of the list that is wanted.
    pub paging: Paging,
}

/// Which versions of a document are listed.
#[derive(Debug, Clone)]
pub struct VersionQuery {
    /// The account and mode that asks: its reads take turns with others'.
    pub tenant: Tenant,
    /// The document whose versions are listed.
    pub document: Subject,
    /// Only versions of this branch; empty: the main one.
    pub branch: Option<String>,
    /// The part of the list that is wanted.
    pub paging: Paging,
}

/// A list of what was done to a document.
#[derive(Debug, Clone)]
pub struct ActivityQuery {
    /// The account and mode that asks: its reads take turns with others'.
    pub tenant: Tenant,
    /// The document whose activity is listed.
    pub document: Subject,
    /// Only what was done in this way.
    pub action: Option<EventKind>,
    /// Only what this user or key did.
    pub actor: Option<Subject>,
    /// Only after this instant …
    pub since: Option<Timestamp>,
    /// Only what was done before this instant.
    pub until: Option<Timestamp>,
    /// The part of the list that is wanted.
    pub paging: Paging,
}

/// One thing that was done to a document.
#[derive(Debug)]
pub struct ActivityRow {
    /// The position of the row that says it.
    pub position: Position,
    /// The kind of event: what was done.
    pub kind: EventKind,
    /// When it was done.
    pub at: Timestamp,
    /// The user or key that did it.
    pub actor: Option<String>,
    /// The event's data, in JSON.
    pub payload: Bytes,
}
