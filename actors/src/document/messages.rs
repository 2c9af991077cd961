//! The requests that a document takes, what it replies to each, and why it may refuse.
//!
//! A request is a type of its own; its rule says by which type it is answered. To add one takes
//! four places: its type here, its rule (`impl DocumentRequest`, or `impl ComputedRequest` where
//! something must be computed first) in `rules/`, its row in the table of rights in `access` where
//! it needs a right of its own, and its route at the edge. The compiler asks for each that is
//! missing, and a reply of a wrong type does not compile.
//!
//! A change is answered when it is durable, and may be repeated under its idempotency key. Contents
//! are UTF-8 without U+0000; lines and characters are counted as a reader counts them, from 1 and
//! in Unicode scalar values.

use std::sync::Arc;

use bytes::Bytes;
use colloquy_merge::{MergeStrategy, MergeStyle};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::{DocumentRole, Requester, Visibility};
use super::comments::ListedComment;
use super::merge_job::ComputedMerge;
use colloquy_model::answer::{Answer, Precondition};
use colloquy_model::caller::Caller;
use colloquy_model::id::{CommentId, ShareId, UserId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::key::SecretHash;
use colloquy_model::metadata::Metadata;
use colloquy_model::page::Paging;
use colloquy_model::present::present;
use colloquy_model::text::{CommentBody, DocumentContent, Email, Mark, Name, Password, Reason};
use colloquy_model::time::Timestamp;

pub use super::names::{BranchName, ContentType, HEAD, MAIN, VersionFound, VersionName};
pub use super::refusal::DocumentError;

/// Creates a document.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDocument {
    /// 1 to 500 characters.
    pub title: Name,
    /// Its version 1; default: empty.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content: Option<DocumentContent>,
    /// Default: `text/markdown`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content_type: Option<ContentType>,
    /// The caller's own data.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Changes a document: what is given replaces, the rest stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDocument {
    /// 1 to 500 characters.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub title: Option<Name>,
    /// Makes a version on the head, unless it is the head's content.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content: Option<DocumentContent>,
    /// What the content is written in.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content_type: Option<ContentType>,
    /// Replaces all of it; null empties it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Metadata>)]
    pub metadata: Option<Option<Metadata>>,
}

/// Adds a version, on the main branch or on another one.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddVersion {
    /// Its whole content; the same as its parent's is still a version.
    pub content: DocumentContent,
    /// What the caller says of the version.
    #[serde(default)]
    pub message: Option<Reason>,
    /// A label, unique in the document.
    #[serde(default)]
    pub label: Option<Mark>,
    /// Default: the head, or the tip of `branch`.
    #[serde(default)]
    pub parent: Option<VersionName>,
    /// The branch that the version goes on or begins.
    #[serde(default)]
    pub branch: Option<BranchName>,
}

/// Makes an older version's content the head's.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreVersion {
    /// What the caller says of the new version.
    #[serde(default)]
    pub message: Option<Reason>,
}

/// What is to stand in place of one conflict.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    /// The conflict's place in the list of conflicts, from 0.
    pub index: u64,
    /// The lines in its place.
    pub content: DocumentContent,
}

/// Merges one branch into another.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The version or branch that is merged into the target.
    pub source: VersionName,
    /// What it is brought into; default: the head. An ID must be that of the head or of a branch's
    /// tip.
    #[serde(default)]
    pub target: Option<VersionName>,
    /// Default: `fail`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub strategy: Option<MergeStrategy>,
    /// What the caller says of the merge.
    #[serde(default)]
    pub message: Option<Reason>,
    /// Default: `merge`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub style: Option<MergeStyle>,
    /// Whether nothing is written.
    #[serde(default)]
    pub dry_run: bool,
    /// One for each conflict of the merge with the same `style` and `strategy`; `source` and
    /// `target` are then IDs.
    #[serde(default)]
    pub resolutions: Option<Vec<Resolution>>,
}

/// Comments on lines of a version.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddComment {
    /// Default: the head.
    #[serde(default)]
    pub version: Option<VersionName>,
    /// The first line, from 1.
    pub start_line: u64,
    /// The last line; default: the first.
    #[serde(default)]
    pub end_line: Option<u64>,
    /// The comment's text.
    pub body: CommentBody,
}

/// Changes a comment.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeComment {
    /// The comment's text from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub body: Option<CommentBody>,
    /// Whether the comment is resolved.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub resolved: Option<bool>,
}

/// Makes a share link.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateShare {
    /// Default: `viewer`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub role: Option<DocumentRole>,
    /// The instant from which on the link opens nothing; default: it does not expire.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// A password that must be given with the link; default: none.
    #[serde(default)]
    pub password: Option<Password>,
    /// How often the link opens; default: any number of times.
    #[serde(default)]
    pub max_uses: Option<u64>,
}

/// Names a user, by identifier or by e-mail address.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddCollaborator {
    /// The user's identifier; either this or `email` is given.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// The user's e-mail address.
    #[serde(default)]
    pub email: Option<Email>,
    /// The role, which says what the user may do.
    pub role: DocumentRole,
}

/// Changes what a collaborator may do.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCollaborator {
    /// What the user may do from now on.
    pub role: DocumentRole,
}

/// Reads a document as one caller may see it, without its content.
#[derive(Debug, Default)]
pub struct ReadDocument {
    /// Versions to look up beside the head.
    pub versions: Vec<VersionName>,
    /// Of these only those that were the head at this instant or later.
    pub head_since: Option<Timestamp>,
}

/// Lists the collaborators, newest first.
#[derive(Debug)]
pub struct ListCollaborators;

/// Reads the permission set.
#[derive(Debug)]
pub struct ReadPermissions;

/// Lists the share links, newest first.
#[derive(Debug)]
pub struct ListShares;

/// Lists a page of comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListComments {
    /// Only resolved comments, or only open ones.
    pub resolved: Option<bool>,
    /// The page.
    pub paging: Paging,
}

/// Moves the document to the bin.
#[derive(Debug)]
pub struct BinDocument;

/// Takes the document out of the bin; one that is not in it stays as it is.
#[derive(Debug)]
pub struct RestoreDocument;

/// Erases the document for good.
#[derive(Debug)]
pub struct EraseDocument;

/// Erases the document for good where it is in the bin, and nowhere else.
#[derive(Debug)]
pub struct EraseFromBin;

/// Erases the document for good if it has been in the bin for too long; asked by the server itself.
#[derive(Debug)]
pub struct PurgeDocument {
    /// Only if it was moved to the bin before this instant.
    pub binned_before: Timestamp,
}

/// Makes a new head of an older version's content.
#[derive(Debug)]
pub struct RestoreOlderVersion {
    /// The older version.
    pub version: VersionName,
    /// What the caller says of the new one.
    pub body: RestoreVersion,
}

/// Asks what must be computed for a merge. The document goes on meanwhile; the result is applied
/// with [`ApplyMerge`].
#[derive(Debug)]
pub struct PrepareMerge {
    /// The merge as the caller asks for it.
    pub merge: Arc<Merge>,
}

/// Merges, with what was computed for it.
#[derive(Debug)]
pub struct ApplyMerge {
    /// The merge as the caller asks for it.
    pub merge: Arc<Merge>,
    /// What was computed; none where [`PrepareMerge`] said that nothing has to be.
    pub computed: Option<Box<ComputedMerge>>,
}

/// Makes a user a collaborator.
#[derive(Debug)]
pub struct GrantRole {
    /// The user.
    pub user: UserId,
    /// The role, which says what the user may do.
    pub role: DocumentRole,
    /// The user's e-mail address, which the answer shows.
    pub email: Option<String>,
}

/// Changes a collaborator's role.
#[derive(Debug)]
pub struct ChangeRole {
    /// The collaborator.
    pub user: UserId,
    /// What the user may do from now on.
    pub role: DocumentRole,
}

/// Removes a collaborator.
#[derive(Debug)]
pub struct RevokeRole {
    /// The collaborator.
    pub user: UserId,
}

/// Makes a share link.
#[derive(Debug)]
pub struct AddShare {
    /// What the caller asks for.
    pub share: CreateShare,
    /// The hash of the link's token.
    pub token: SecretHash,
    /// The hash of its password.
    pub password: Option<String>,
}

/// Removes a share link.
#[derive(Debug)]
pub struct RemoveShare {
    /// The identifier of the share link.
    pub share: ShareId,
}

/// Asks what a share link opens now.
#[derive(Debug)]
pub struct OpenShare {
    /// The hash of the link's token.
    pub token: SecretHash,
}

/// Counts one use of a share link.
#[derive(Debug)]
pub struct UseShare {
    /// The identifier of the share link.
    pub share: ShareId,
}

/// Changes a comment.
#[derive(Debug)]
pub struct EditComment {
    /// The comment.
    pub comment: CommentId,
    /// What changes.
    pub change: ChangeComment,
}

/// Removes a comment.
#[derive(Debug)]
pub struct RemoveComment {
    /// The comment.
    pub comment: CommentId,
}

/// A collaborator as a body gives it.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CollaboratorGiven {
    /// The user.
    pub user_id: UserId,
    /// The role, which says what the user may do.
    pub role: DocumentRole,
}

/// Sets who may do what: what is left out stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPermissions {
    /// Who may see the document without being named in it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub visibility: Option<Visibility>,
    /// What everybody of the account may do, where it is theirs to see.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub default_role: Option<DocumentRole>,
    /// The whole list, replaced at once.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub collaborators: Option<Vec<CollaboratorGiven>>,
    /// Whether share links open the document.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub link_sharing: Option<bool>,
    /// The user who is its owner from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub transfer_owner_to: Option<UserId>,
}

/// What goes with every request: who asks, and under which conditions.
#[derive(Debug)]
pub struct CommandMeta {
    /// The caller, with tenant, key and user.
    pub caller: Caller,
    /// Who asks, as far as roles go.
    pub requester: Requester,
    /// Only if what the request is about is still in this state.
    pub if_match: Option<Precondition>,
    /// The idempotency key under which the answer is kept.
    pub reservation: Option<Reservation>,
}

impl CommandMeta {
    /// Without a condition and without an idempotency key.
    #[must_use]
    pub fn new(caller: Caller, requester: Requester) -> Self {
        CommandMeta {
            caller,
            requester,
            if_match: None,
            reservation: None,
        }
    }

    /// The same for a request before the one that is answered: without the idempotency key.
    #[must_use]
    pub fn without_reservation(&self) -> Self {
        CommandMeta {
            caller: self.caller.clone(),
            requester: self.requester,
            if_match: self.if_match.clone(),
            reservation: None,
        }
    }
}

/// An answer that shows a document, from which the document's content is still missing:
/// `Documents` puts it in.
#[derive(Debug)]
pub struct WithoutContent(pub(super) Answer);

/// What a share link opens.
#[derive(Debug, Clone)]
pub struct OpenedShare {
    /// The identifier of the share link.
    pub share: ShareId,
    /// What its holder may do.
    pub role: DocumentRole,
    /// The hash of the password that must be given with it.
    pub password: Option<String>,
    /// From this instant on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// Whether it opens a number of times only.
    pub has_max_uses: bool,
}

/// A document as one caller sees it at one moment.
#[derive(Debug, Clone)]
pub struct DocumentSnapshot {
    /// The document without its content, in JSON.
    pub document: Bytes,
    /// The entity tag, without quotes.
    pub etag: String,
    /// What the caller may do.
    pub role: DocumentRole,
    /// The head.
    pub head: VersionFound,
    /// What the names in the request mean, in their order; none where a name means nothing.
    pub versions: Vec<Option<VersionFound>>,
}

/// A page of comments in the list's order.
#[derive(Debug)]
pub struct CommentPage {
    /// The comments of the page.
    pub comments: Vec<ListedComment>,
    /// How many comments the whole list has.
    pub total: usize,
}

/// The reply to a merge.
#[derive(Debug)]
pub enum MergeReply {
    /// The merge was done, or had nothing to do.
    Done(Answer),
    /// The document has moved on since the merge was computed: nothing was done, and the
    /// idempotency key is given back.
    Stale(Option<Reservation>),
}
