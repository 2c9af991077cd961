//! What a document shows.

use colloquy_merge::{Conflict, MergeStyle};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::DocumentRole;
use super::names::ContentType;
use colloquy_model::id::{CommentId, DocumentId, ShareId, UserId, VersionId};
use colloquy_model::metadata::Metadata;
use colloquy_model::time::Timestamp;

/// A document as the interface shows it; lists leave its content out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Document)]
pub struct DocumentView<'a> {
    /// The document's identifier.
    pub id: DocumentId,
    /// 1 to 500 characters.
    pub title: &'a str,
    /// The head's content; left out where a list shows the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
    /// What the content is written in.
    pub content_type: ContentType,
    /// The caller's own data.
    pub metadata: &'a Metadata,
    /// The user who owns it; null: the account does.
    pub owner_id: Option<UserId>,
    /// The head; in events of versions, that version.
    #[schema(value_type = VersionId)]
    pub version: VersionShown<'a>,
    /// The head's number.
    pub version_number: u64,
    /// What the caller may do; in events null.
    pub role: Option<DocumentRole>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// The user who created it.
    pub created_by: Option<UserId>,
    /// The user who changed it last.
    pub updated_by: Option<UserId>,
}

/// A version inside a document.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum VersionShown<'a> {
    /// Its identifier.
    Id(VersionId),
    /// All of it but its content.
    Whole(Box<VersionView<'a>>),
}

/// A version as the interface shows it, without its content.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = DocumentVersion)]
pub struct VersionView<'a> {
    /// The version's identifier.
    pub id: VersionId,
    /// The version's document.
    pub document_id: DocumentId,
    /// 1, 2, 3 … in its document.
    pub number: u64,
    /// Its label, if it has one.
    pub label: Option<&'a str>,
    /// Its branch; `main` is the head's.
    pub branch: &'a str,
    /// The versions that it was made from.
    pub parents: Vec<VersionId>,
    /// What its author says of it.
    pub message: Option<&'a str>,
    /// The user who wrote it.
    pub author: Option<UserId>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A comment as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = Comment)]
pub struct CommentView {
    /// The comment's identifier.
    pub comment_id: CommentId,
    /// The version in which its lines stand.
    pub version: VersionId,
    /// Its first line, from 1.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// The comment's text.
    pub body: String,
    /// The user who wrote it.
    pub author: Option<UserId>,
    /// Whether it is resolved.
    pub resolved: bool,
    /// Whether its lines are no longer what they were.
    pub outdated: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// A share link as the interface shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Share)]
pub struct ShareView {
    /// The link's identifier.
    pub share_id: ShareId,
    /// What its holder may do.
    pub role: DocumentRole,
    /// The instant from which on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// How often it opens; null: any number of times.
    pub max_uses: Option<u64>,
    /// How often it has been opened.
    pub uses: u64,
    /// Whether a password must be given.
    pub has_password: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A new share link as the interface shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = NewShare)]
pub struct NewShareView<'a> {
    /// The new link.
    #[serde(flatten)]
    pub share: ShareView,
    /// Where it opens, shown this once; null where the same request is repeated.
    pub url: Option<&'a str>,
}

/// The details of a merge that is refused because of conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergeConflict {
    /// The conflicts, one for each block of markers.
    pub conflicts: Vec<Conflict>,
    /// The text with the markers.
    pub merged: String,
    /// The version that was brought in.
    pub source: VersionId,
    /// The version that it was brought into.
    pub target: VersionId,
    /// The style that made the blocks: resolutions belong to it.
    pub style: MergeStyle,
}
