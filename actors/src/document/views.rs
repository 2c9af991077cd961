//! What a document shows.

use colloquy_merge::{Conflict, MergeStyle};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::DocumentRole;
use super::messages::ContentType;
use colloquy_model::id::{CommentId, DocumentId, ShareId, UserId, VersionId};
use colloquy_model::metadata::Metadata;
use colloquy_model::time::Timestamp;

/// A document as the interface shows it; lists leave its content out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Document)]
pub struct DocumentView<'a> {
    /// Names it.
    pub id: DocumentId,
    /// 1 to 500 characters.
    pub title: &'a str,
    /// What it says; where a list shows it, left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
    /// What the content is written in.
    pub content_type: ContentType,
    /// The caller's own data.
    pub metadata: &'a Metadata,
    /// Whose it is; null: the account's.
    pub owner_id: Option<UserId>,
    /// The head; in events of versions, that version.
    #[schema(value_type = VersionId)]
    pub version: VersionShown<'a>,
    /// The head's number.
    pub version_number: u64,
    /// What the caller may do; in events null.
    pub role: Option<DocumentRole>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// Who made it.
    pub created_by: Option<UserId>,
    /// Who changed it last.
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
    /// Names it.
    pub id: VersionId,
    /// Where it stands.
    pub document_id: DocumentId,
    /// 1, 2, 3 … in its document.
    pub number: u64,
    /// Its own name.
    pub label: Option<&'a str>,
    /// Its line.
    pub branch: &'a str,
    /// What it was made from.
    pub parents: Vec<VersionId>,
    /// What it is about.
    pub message: Option<&'a str>,
    /// Who wrote it.
    pub author: Option<UserId>,
    /// When.
    pub created_at: Timestamp,
}

/// A comment as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = Comment)]
pub struct CommentView {
    /// Names it.
    pub comment_id: CommentId,
    /// The version in which its lines stand.
    pub version: VersionId,
    /// Its first line, from 1.
    pub start_line: u64,
    /// Its last line.
    pub end_line: u64,
    /// What it says.
    pub body: String,
    /// Who wrote it.
    pub author: Option<UserId>,
    /// Whether it is settled.
    pub resolved: bool,
    /// Whether its lines are no longer what they were.
    pub outdated: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// A share link as the interface shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Share)]
pub struct ShareView {
    /// Names it.
    pub share_id: ShareId,
    /// What its holder may do.
    pub role: DocumentRole,
    /// Until when it opens.
    pub expires_at: Option<Timestamp>,
    /// How often it opens.
    pub max_uses: Option<u64>,
    /// How often it has.
    pub uses: u64,
    /// Whether a password must be given.
    pub has_password: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A new share link as the interface shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = NewShare)]
pub struct NewShareView<'a> {
    /// The link.
    #[serde(flatten)]
    pub share: ShareView,
    /// Where it opens, shown this once; null where the same request is repeated.
    pub url: Option<&'a str>,
}

/// What a merge that is refused tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergeConflict {
    /// One for each block of markers.
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
