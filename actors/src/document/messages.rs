//! The requests that a document takes, what it replies to each, and why it may refuse.
//!
//! A request is a type of its own; its rule says by which type it is answered. To add one takes four
//! places: its type here, its rule (`impl DocumentRequest`, or `impl ComputedRequest` where
//! something must be computed first) in `rules/`, its row in the table of rights in `access` where
//! it needs a right of its own, and its route at the edge. The compiler asks for each that is
//! missing, and a reply of a wrong type does not compile.
//!
//! A change is answered when it is durable, and may be repeated under its idempotency key. Contents
//! are UTF-8 without U+0000; lines and characters are counted as a reader counts them, from 1 and
//! in Unicode scalar values.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use colloquy_merge::{MergeStrategy, MergeStyle};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::access::{DocumentRole, Requester, Visibility};
use super::comments::ListedComment;
use super::merge::ComputedMerge;
use super::views::MergeConflict;
use colloquy_model::answer::{Answer, Invalid, Precondition};
use colloquy_model::caller::Caller;
use colloquy_model::coded_enum;
use colloquy_model::id::{CommentId, ShareId, UserId, VersionId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::key::SecretHash;
use colloquy_model::metadata::Metadata;
use colloquy_model::page::Paging;
use colloquy_model::present::present;
use colloquy_model::text::{CommentBody, DocumentContent, Email, Mark, Name, Password, Reason};
use colloquy_model::time::Timestamp;

coded_enum! {
    /// What a document's content is written in.
    ContentType {
        /// Markdown.
        Markdown = 0 "text/markdown",
        /// Plain text.
        Plain = 1 "text/plain",
        /// HTML.
        Html = 2 "text/html",
        /// JSON; not checked to be any.
        Json = 3 "application/json",
    }
}

/// The line of versions that the head stands on.
pub const MAIN: &str = "main";
/// The newest version of the head's line.
pub const HEAD: &str = "head";

/// A version or branch as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionName {
    /// `head`.
    Head,
    /// `main`: the same version, named as a branch.
    Main,
    /// An identifier.
    Id(VersionId),
    /// A number.
    Number(u64),
    /// A label or a branch.
    Mark(Mark),
}

impl FromStr for VersionName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            HEAD => return Ok(VersionName::Head),
            MAIN => return Ok(VersionName::Main),
            _ => {}
        }
        if text.starts_with("ver_") {
            return text
                .parse()
                .map(VersionName::Id)
                .map_err(|_| "must be a valid version ID");
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            // One version has one path, which may be kept for ever.
            let canonical = Some(text).filter(|text| !text.starts_with('0'));
            return canonical
                .unwrap_or_default()
                .parse()
                .map(VersionName::Number)
                .map_err(|_| "must be the number of a version");
        }
        Mark::new(text)
            .map(VersionName::Mark)
            .map_err(|_| "must be a version's ID, number or label, or a branch")
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionName::Head => f.write_str(HEAD),
            VersionName::Main => f.write_str(MAIN),
            VersionName::Id(id) => id.fmt(f),
            VersionName::Number(number) => number.fmt(f),
            VersionName::Mark(mark) => f.write_str(mark),
        }
    }
}

impl<'de> Deserialize<'de> for VersionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
impl Serialize for VersionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl utoipa::PartialSchema for VersionName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some(
                "A version's ID, number or label, a branch, `head` or `main`.",
            ))
            .min_length(Some(1))
            .max_length(Some(100))
            .into()
    }
}
impl ToSchema for VersionName {}

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

/// Adds a version, on the head or on a side line.
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

/// A branch as a request's body names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchName {
    /// The head's line.
    Main,
    /// A side line.
    Side(Mark),
}

impl<'de> Deserialize<'de> for BranchName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        if text == MAIN {
            return Ok(BranchName::Main);
        }
        Mark::new(text.as_ref())
            .map(BranchName::Side)
            .map_err(serde::de::Error::custom)
    }
}
impl utoipa::PartialSchema for BranchName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        Mark::schema()
    }
}
impl ToSchema for BranchName {}

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

/// Merges one line of versions into another.
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

/// Why a document refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// There is no such document for this caller, or no such part of it.
    #[error("no such document")]
    NotFound,
    /// The caller may see it, but not do this.
    #[error("the role does not allow this")]
    Forbidden,
    /// `If-Match` named another state, or the target has moved on.
    #[error("the document has changed")]
    Precondition,
    /// The document's state stands in the way.
    #[error("{field}: {reason}")]
    Conflict {
        /// The parameter, where one is at fault.
        field: &'static str,
        /// What stands in the way.
        reason: &'static str,
    },
    /// Both sides changed the same lines.
    #[error("both sides changed the same lines")]
    Merge(Box<MergeConflict>),
    /// A value is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
}

/// A version that a name was found to mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionFound {
    /// The version's number in its document.
    pub number: u64,
    /// The version's identifier.
    pub id: VersionId,
    /// The number of its first parent.
    pub parent: Option<u64>,
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
