//! What a document may be asked, what it answers, and why it may refuse.
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
use super::merge::{ComputedMerge, MergeJob};
use super::views::MergeConflict;
use crate::accounts::Identity;
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

/// Makes a document.
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
    /// What it is about.
    #[serde(default)]
    pub message: Option<Reason>,
    /// A name of its own in the document.
    #[serde(default)]
    pub label: Option<Mark>,
    /// Default: the head, or the tip of `branch`.
    #[serde(default)]
    pub parent: Option<VersionName>,
    /// The line that it goes on or begins.
    #[serde(default)]
    pub branch: Option<BranchName>,
}

/// A branch as a body names it.
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
    /// What the new version is about.
    #[serde(default)]
    pub message: Option<Reason>,
}

/// What is to stand in place of one conflict.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    /// Which conflict, from 0.
    pub index: u64,
    /// The lines in its place.
    pub content: DocumentContent,
}

/// Merges one line of versions into another.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// What is brought in.
    pub source: VersionName,
    /// What it is brought into; default: the head. An ID must be that of the head or of a branch's
    /// tip.
    #[serde(default)]
    pub target: Option<VersionName>,
    /// Default: `fail`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub strategy: Option<MergeStrategy>,
    /// What the merge is about.
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
    /// What it says.
    pub body: CommentBody,
}

/// Changes a comment.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeComment {
    /// What it says from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub body: Option<CommentBody>,
    /// Whether it is settled.
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
    /// Until when it opens.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// What must be given with it.
    #[serde(default)]
    pub password: Option<Password>,
    /// How often it opens.
    #[serde(default)]
    pub max_uses: Option<u64>,
}

/// Names a user, by identifier or by e-mail address.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddCollaborator {
    /// Either this …
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// … or this.
    #[serde(default)]
    pub email: Option<Email>,
    /// What the user may do.
    pub role: DocumentRole,
}

/// Changes what a collaborator may do.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCollaborator {
    /// What the user may do from now on.
    pub role: DocumentRole,
}

/// What is asked.
#[derive(Debug)]
pub enum Request {
    /// Make it.
    Create(Box<CreateDocument>),
    /// Tell what this caller may see, and which versions these names mean.
    Look(Vec<VersionName>),
    /// List what it holds.
    List(Part),
    /// List what is said about it.
    ListComments(CommentList),
    /// Change it.
    Update(Box<UpdateDocument>),
    /// Put it into the bin.
    Bin,
    /// Take it out of the bin.
    Restore,
    /// Take it away for good.
    Erase,
    /// Take it away for good if it has been in the bin since before this instant.
    Expire(i64),
    /// Add a version.
    AddVersion(Box<AddVersion>),
    /// Make an older version's content the head's.
    RestoreVersion(VersionName, RestoreVersion),
    /// Tell what must be computed for a merge; it goes on meanwhile.
    PrepareMerge(Box<Merge>),
    /// Merge, with what was computed for it.
    Merge(Box<Merge>, Option<Box<ComputedMerge>>),
    /// Let a user in, who has this e-mail address.
    AddCollaborator(UserId, DocumentRole, Option<String>),
    /// Change what a user may do.
    ChangeCollaborator(UserId, DocumentRole),
    /// Let a user in no longer.
    RemoveCollaborator(UserId),
    /// Set who may do what.
    SetPermissions(Box<SetPermissions>),
    /// Make a share link: the hash of its token, and of its password.
    CreateShare(Box<CreateShare>, SecretHash, Option<String>),
    /// Take a share link back.
    RemoveShare(ShareId),
    /// Tell what the share link with this token's hash opens.
    OpenShare(SecretHash),
    /// Use a share link.
    UseShare(ShareId),
    /// Comment.
    AddComment(Box<AddComment>),
    /// Change a comment.
    ChangeComment(CommentId, ChangeComment),
    /// Take a comment away.
    RemoveComment(CommentId),
}

/// What a document holds in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Who was let in.
    Collaborators,
    /// Who may do what.
    Permissions,
    /// Its share links.
    Shares,
    /// What was done to it; read from the store.
    Activity,
}

/// Which comments are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommentList {
    /// Only the settled ones, or only the open ones.
    pub resolved: Option<bool>,
    /// Which part of them.
    pub paging: Paging,
}

/// A collaborator as a body gives it.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CollaboratorGiven {
    /// Which user.
    pub user_id: UserId,
    /// What the user may do.
    pub role: DocumentRole,
}

/// Sets who may do what: what is left out stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPermissions {
    /// Who may see it at all.
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
    /// Whether share links open it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub link_sharing: Option<bool>,
    /// The user who is its owner from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub transfer_owner_to: Option<UserId>,
}

/// A request with who sent it and what must hold.
#[derive(Debug)]
pub struct DocumentCommand {
    /// Who asks.
    pub caller: Caller,
    /// The same, as far as roles go.
    pub requester: Requester,
    /// Only if the state is still this one.
    pub if_match: Option<Precondition>,
    /// Under which key the answer is kept.
    pub reservation: Option<Reservation>,
    /// What is asked.
    pub request: Request,
    /// Who is a user.
    pub people: Arc<Identity>,
}

/// Why a document refuses.
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
    /// Its state stands in the way.
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
    /// Its number in the document.
    pub number: u64,
    /// Names it.
    pub id: VersionId,
    /// The number of its first parent.
    pub parent: Option<u64>,
}

/// What a share link opens, as [`Request::OpenShare`] found it.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Which one.
    pub share: ShareId,
    /// What its holder may do.
    pub role: DocumentRole,
    /// The hash of the password that must be given with it.
    pub password: Option<String>,
}

/// What is found of a document by [`Request::Look`].
#[derive(Debug, Clone)]
pub struct Seen {
    /// As the caller may see it, without its content, in JSON.
    pub document: Bytes,
    /// The entity tag.
    pub etag: String,
    /// What the caller may do.
    pub role: DocumentRole,
    /// The head.
    pub head: VersionFound,
    /// What the names mean, in their order; none where a name means nothing.
    pub versions: Vec<Option<VersionFound>>,
}

/// What a document answers.
#[derive(Debug)]
pub enum Reply {
    /// What was done; a document's content is left out.
    Answer(Answer),
    /// What was found.
    Seen(Box<Seen>),
    /// What a share link opens.
    Opened(Box<Opened>),
    /// What it holds, newest first, each in JSON.
    Listed(Vec<Bytes>),
    /// Comments in the list's order, and how many the whole list has.
    Comments(Vec<ListedComment>, usize),
    /// What must be computed for a merge; none: nothing.
    Prepared(Option<Box<MergeJob>>),
    /// It has moved on since the merge was computed: nothing was done, and its key is given back.
    Stale(Option<Reservation>),
}
