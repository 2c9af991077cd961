//! The state of a document and what it shows; which rule judges which command. Pure: no actor, no
//! clock, no store.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::access::{
    Action, Denied, DocumentRole, PermissionError, Permissions, Requester, allow, role_of,
};
use super::comments::{Anchor, Comment, Comments};
use super::messages::{
    ContentType, DocumentCommand, DocumentError, MAIN, Part, Reply, Request, Seen, VersionFound,
    VersionName,
};
use super::precompute::{Following, Precompute, PrecomputeResult};
use super::rules::permissions_shown;
use super::share_terms::ShareTerms;
use super::views::{DocumentView, ShareView, VersionShown, VersionView};
use crate::accounts::Identity;
use crate::store::{StoredDocument, StoredVersion};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::caller::{Caller, Scope};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{DocumentId, ShareId, UserId, VersionId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::metadata::Metadata;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// A document, or the place of one that is not there.
#[derive(Debug)]
pub struct Document {
    pub(super) id: DocumentId,
    pub(super) live: Option<Live>,
}

/// One that is there.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) scope: Scope,
    pub(super) sequence: u64,
    /// When what it shows changed last.
    pub(super) updated_at: i64,
    pub(super) facts: Facts,
    /// Oldest first, so that a version's number is its place. Shared with what a decision makes of
    /// it.
    pub(super) versions: Arc<Vec<StoredVersion>>,
    pub(super) comments: Comments,
}

/// What stands in a document's header, beside its versions and comments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) title: String,
    pub(super) content_type: ContentType,
    #[serde(deserialize_with = "Metadata::accepted")]
    pub(super) metadata: Metadata,
    pub(super) created_by: Option<UserId>,
    pub(super) updated_by: Option<UserId>,
    pub(super) deleted_at: Option<i64>,
    pub(super) permissions: Permissions,
    pub(super) shares: Vec<Share>,
    pub(super) head: u64,
    /// The head's identifier: lists show it without reading versions.
    pub(super) head_id: VersionId,
    /// Comments that were ever made: the next one's number.
    pub(super) comments_made: u64,
    /// The sequence at which what the document shows changed last; comments, links and side lines
    /// leave it alone.
    pub(super) shown: u64,
    /// When the last commit was: the next one is not before it.
    pub(super) last_at: i64,
}

/// A share link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) id: ShareId,
    pub(super) terms: ShareTerms,
}

/// What a decision makes of the document.
#[derive(Debug)]
pub struct Changed(pub(super) Change);

/// How the document changes.
#[derive(Debug)]
pub(super) enum Change {
    /// It is as the first says, with one version behind the others where the second has one: they
    /// are not copied for it.
    Live(Box<Live>, Option<StoredVersion>),
    /// The document is deleted for good.
    Gone,
    /// One of its links was used once more: nothing is copied for it.
    Used(ShareId),
}

pub(super) type Decided = Result<Decision<Document>, DocumentError>;

/// What surrounds a command while it is decided: who asks, under which idempotency key, when, and
/// who is a user of the account.
pub(super) struct CommandContext {
    pub(super) caller: Caller,
    pub(super) requester: Requester,
    pub(super) reservation: Option<Reservation>,
    pub(super) people: Arc<Identity>,
    pub(super) now: i64,
}

impl CommandContext {
    pub(super) fn is_user(&self, user: UserId) -> bool {
        self.people.user(self.caller.scope, user).is_some()
    }
}

impl Document {
    /// How the store names it.
    #[must_use]
    pub fn subject(id: DocumentId) -> Subject {
        Subject {
            kind: Kind::Document,
            number: id.number(),
            tail: id.tail(),
        }
    }

    /// What a command must have computed, or why it is refused before that.
    pub(super) fn prepared(&self, command: &DocumentCommand) -> Option<Precompute> {
        let live = self
            .live
            .as_ref()
            .filter(|live| live.scope == command.caller.scope);
        match (live, &command.request) {
            (None, Request::Create(new)) => Some(self.job_of_creation(command.caller.scope, new)),
            // What is refused or up to date needs no work: the decision finds the same again.
            (Some(live), request) => live
                .checked(command)
                .ok()
                .and_then(|_| self.job(live, request)),
            (None, _) => None,
        }
    }

    pub(super) fn judge(
        &self,
        command: DocumentCommand,
        found: Option<PrecomputeResult>,
        now: i64,
    ) -> Decision<Self> {
        let known = self
            .live
            .as_ref()
            .filter(|live| live.scope == command.caller.scope);
        let decided = match (known, &command.request) {
            (None, Request::Create(_)) if self.live.is_none() => Ok(()),
            (Some(live), _) => live.checked(&command),
            (None, _) => Err(DocumentError::NotFound),
        };
        let DocumentCommand {
            caller,
            requester,
            reservation,
            request,
            people,
            ..
        } = command;
        let context = CommandContext {
            caller,
            requester,
            reservation,
            people,
            now,
        };
        let decided = decided.and_then(|()| match (known, request) {
            (None, Request::Create(new)) => self.create(context, *new, found),
            (None, _) => Err(DocumentError::NotFound),
            (Some(live), request) => self.go_on(live, request, context, found),
        });
        decided.unwrap_or_else(Decision::Refuse)
    }

    fn go_on(
        &self,
        live: &Live,
        request: Request,
        context: CommandContext,
        found: Option<PrecomputeResult>,
    ) -> Decided {
        match request {
            Request::Look(names) => {
                Ok(Decision::Answer(self.look(live, &names, context.requester)))
            }
            Request::List(part) => Ok(Decision::Answer(Reply::Listed(live.part(part)))),
            Request::ListComments(list) => Ok(Decision::Answer(live.comments_listed(list))),
            Request::Update(update) => self.update(live, *update, context, found),
            Request::Bin => Ok(self.bin(live, context)),
            Request::Restore => self.restore(live, context),
            Request::Erase => Ok(self.erase(live, context)),
            Request::Expire(before) => self.expire(live, before, context),
            Request::AddVersion(add) => self.add_version(live, *add, context, found),
            Request::RestoreVersion(name, body) => {
                self.restore_version(live, (&name, body), context, found)
            }
            Request::PrepareMerge(merge) => Document::prepare_merge(live, &merge),
            Request::Merge(merge, computed) => {
                self.merge(live, *merge, context, computed.map(|computed| *computed))
            }
            Request::AddCollaborator(user, role, email) => {
                self.add_collaborator(live, (user, role, email), context)
            }
            Request::ChangeCollaborator(user, role) => {
                self.change_collaborator(live, user, role, context)
            }
            Request::RemoveCollaborator(user) => self.remove_collaborator(live, user, context),
            Request::SetPermissions(set) => self.set_permissions(live, *set, context),
            Request::CreateShare(new, token, password) => {
                self.create_share(live, *new, (token, password), context)
            }
            Request::RemoveShare(share) => self.remove_share(live, share, context),
            Request::OpenShare(token) => live.open_share(&token, context.now),
            Request::UseShare(share) => self.use_share(live, share, context),
            Request::AddComment(add) => self.add_comment(live, *add, context, found.as_ref()),
            Request::ChangeComment(id, change) => self.change_comment(live, id, change, context),
            Request::RemoveComment(id) => self.remove_comment(live, id, context),
            Request::Create(_) => Err(DocumentError::NotFound),
        }
    }

    fn look(&self, live: &Live, names: &[VersionName], requester: Requester) -> Reply {
        let role = role_of(requester, &live.facts.permissions).unwrap_or(DocumentRole::Viewer);
        Reply::Seen(Box::new(Seen {
            document: to_json(&self.view_for(live, requester, Some(role))),
            etag: live.etag(role),
            role,
            head: live.found(live.facts.head),
            versions: names
                .iter()
                .map(|name| live.version(name).map(|number| live.found(number)))
                .collect(),
        }))
    }

    pub(super) fn view<'a>(&self, live: &'a Live, role: Option<DocumentRole>) -> DocumentView<'a> {
        live.facts.view(self.id, role, live.updated_at)
    }

    /// The document as this caller sees it: a link's holder is told nothing of the account's own.
    fn view_for<'a>(
        &self,
        live: &'a Live,
        requester: Requester,
        role: Option<DocumentRole>,
    ) -> DocumentView<'a> {
        static NOTHING: LazyLock<Metadata> = LazyLock::new(Metadata::default);
        let view = self.view(live, role);
        match requester {
            Requester::Account(_) | Requester::User(_) => view,
            // Each field by name: one that is added to documents is hidden until somebody decides.
            Requester::Link(..) => DocumentView {
                id: view.id,
                title: view.title,
                content: view.content,
                content_type: view.content_type,
                metadata: &NOTHING,
                owner_id: None,
                version: view.version,
                version_number: view.version_number,
                role: view.role,
                created_at: view.created_at,
                updated_at: view.updated_at,
                created_by: None,
                updated_by: None,
            },
        }
    }

    /// The whole document, but for its content, as the answer to whoever asks.
    pub(super) fn shown(&self, live: &Live, requester: Requester, done: Done) -> Answer {
        let role = role_of(requester, &live.facts.permissions);
        Answer {
            done,
            id: (done == Done::Created).then(|| self.id.to_string()),
            etag: Some(live.etag(role.unwrap_or(DocumentRole::Viewer))),
            body: to_json(&self.view_for(live, requester, role)),
            replayed: false,
        }
    }

    pub(super) fn version_view<'a>(
        &self,
        live: &Live,
        version: &'a StoredVersion,
    ) -> VersionView<'a> {
        VersionView {
            id: version.id,
            document_id: self.id,
            number: version.number,
            label: version.label.as_deref(),
            branch: if version.branch.is_empty() {
                MAIN
            } else {
                &version.branch
            },
            parents: version
                .parents
                .iter()
                .map(|number| live.found(*number).id)
                .collect(),
            message: version.message.as_deref(),
            author: version.author,
            created_at: Timestamp(version.at),
        }
    }
}

impl Live {
    /// The document out of the store.
    ///
    /// # Errors
    /// A part of it can't be read, which is told.
    pub(super) fn restored(id: DocumentId, stored: StoredDocument) -> Result<Self, Unreadable> {
        let mut facts = Facts::stored(id, &stored.body)?;
        if !usize::try_from(facts.head)
            .is_ok_and(|head| (1..=stored.versions.len()).contains(&head))
        {
            return Err(Unreadable::found(
                format_args!("{id}: head"),
                "there is no such version",
            ));
        }
        let uses: HashMap<u64, u64> = stored.link_uses.into_iter().collect();
        for share in &mut facts.shares {
            let counted = uses.get(&share.id.number()).copied();
            share.terms.uses = share.terms.uses.max(counted.unwrap_or(0));
        }
        Ok(Live {
            scope: stored.scope,
            sequence: stored.sequence,
            updated_at: stored.updated_at,
            comments: Comments::restored(
                id,
                &stored.comments,
                stored.anchors.as_deref(),
                facts.head_id,
            )?,
            facts,
            versions: Arc::new(
                stored
                    .versions
                    .into_iter()
                    .map(StoredVersion::without_message)
                    .collect(),
            ),
        })
    }

    /// Role, bin and precondition, in this order: what holds for every command.
    fn checked(&self, command: &DocumentCommand) -> Result<(), DocumentError> {
        let in_bin = self.facts.deleted_at.is_some();
        if let Request::Expire(_) | Request::OpenShare(_) | Request::UseShare(_) = command.request {
            return if in_bin == matches!(command.request, Request::Expire(_)) {
                Ok(())
            } else {
                Err(DocumentError::NotFound)
            };
        }
        let role = allow(
            command.request.action(),
            command.requester,
            &self.facts.permissions,
        )?;
        if in_bin != matches!(command.request, Request::Restore) {
            // What is not in the bin is restored already; everything else does not see what is.
            return if in_bin {
                Err(DocumentError::NotFound)
            } else {
                self.precondition(command, role)
            };
        }
        self.precondition(command, role)
    }

    fn precondition(
        &self,
        command: &DocumentCommand,
        role: DocumentRole,
    ) -> Result<(), DocumentError> {
        let Some(wanted) = &command.if_match else {
            return Ok(());
        };
        // What is not there is told as that by its rule.
        let holds = self
            .tag_of(&command.request, role)
            .is_none_or(|tag| wanted.holds(&tag));
        if holds {
            Ok(())
        } else {
            Err(DocumentError::Precondition)
        }
    }

    /// The tag of what a request is about: a part of the document that has an answer of its own, or
    /// the document.
    fn tag_of(&self, request: &Request, role: DocumentRole) -> Option<String> {
        match request {
            Request::SetPermissions(_) => permissions_shown(&self.facts.permissions).etag,
            Request::ChangeCollaborator(user, _) | Request::RemoveCollaborator(user) => self
                .facts
                .permissions
                .collaborator(*user)
                .map(|held| tag(&to_json(held))),
            Request::RemoveShare(id) => self
                .facts
                .shares
                .iter()
                .find(|share| share.id == *id)
                .map(|share| tag(&to_json(&share.view()))),
            Request::ChangeComment(id, _) | Request::RemoveComment(id) => self
                .comment_view(*id)
                .ok()
                .map(|comment| tag(&to_json(&comment))),
            Request::Create(_)
            | Request::Look(_)
            | Request::List(_)
            | Request::ListComments(_)
            | Request::Update(_)
            | Request::Bin
            | Request::Restore
            | Request::Erase
            | Request::Expire(_)
            | Request::AddVersion(_)
            | Request::RestoreVersion(..)
            | Request::PrepareMerge(_)
            | Request::Merge(..)
            | Request::AddCollaborator(..)
            | Request::CreateShare(..)
            | Request::OpenShare(_)
            | Request::UseShare(_)
            | Request::AddComment(_) => Some(self.etag(role)),
        }
    }

    /// Changes with everything that the document shows, and is another one for each role, which it
    /// shows too.
    pub(super) fn etag(&self, role: DocumentRole) -> String {
        format!("{}-{}", self.facts.shown, role as u8)
    }

    /// The version of this number, if there is one.
    pub(super) fn node(&self, number: u64) -> Option<&StoredVersion> {
        self.versions
            .get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// A version by its number, with its identifier and first parent; an identifier of zeros where
    /// there is no such version, which can't be.
    pub(super) fn found(&self, number: u64) -> VersionFound {
        let node = self.node(number);
        VersionFound {
            number,
            id: node.map_or_else(|| VersionId::from_parts(0, 0), |node| node.id),
            parent: node.and_then(|node| node.parents.first().copied()),
        }
    }

    /// The version that a name means: a label before a branch.
    pub(super) fn version(&self, name: &VersionName) -> Option<u64> {
        match name {
            VersionName::Head | VersionName::Main => Some(self.facts.head),
            VersionName::Id(id) => self
                .node(id.sequence())
                .filter(|node| node.id == *id)
                .map(|node| node.number),
            VersionName::Number(number) => self.node(*number).map(|node| node.number),
            VersionName::Mark(mark) => self.labelled(mark).or_else(|| self.tip(mark)),
        }
    }

    pub(super) fn labelled(&self, label: &str) -> Option<u64> {
        self.versions
            .iter()
            .find(|node| node.label.as_deref() == Some(label))
            .map(|node| node.number)
    }

    /// The newest version of a side line.
    pub(super) fn tip(&self, branch: &str) -> Option<u64> {
        self.versions
            .iter()
            .rev()
            .find(|node| &*node.branch == branch)
            .map(|node| node.number)
    }

    /// Whether it is the newest version of its line.
    pub(super) fn is_tip(&self, number: u64) -> bool {
        let Some(node) = self.node(number) else {
            return false;
        };
        if node.branch.is_empty() {
            number == self.facts.head
        } else {
            self.tip(&node.branch) == Some(number)
        }
    }

    /// The comments that follow a new head, if any stand on this one.
    pub(super) fn following(&self) -> Option<Following> {
        let anchors = self.comments.anchors();
        anchors.follow_the_head().then(|| Following {
            head: self.facts.head,
            anchors: Arc::clone(anchors),
        })
    }

    /// One of its lists, newest first.
    fn part(&self, part: Part) -> Vec<Bytes> {
        match part {
            Part::Collaborators => self
                .facts
                .permissions
                .collaborators
                .iter()
                .rev()
                .map(to_json)
                .collect(),
            Part::Permissions => vec![permissions_shown(&self.facts.permissions).body],
            Part::Shares => self
                .facts
                .shares
                .iter()
                .rev()
                .map(|share| to_json(&share.view()))
                .collect(),
            Part::Activity => Vec::new(),
        }
    }

    /// What it holds in memory beside itself.
    pub(super) fn bytes(&self) -> usize {
        let Facts {
            permissions,
            shares,
            title,
            ..
        } = &self.facts;
        title.len()
            + 48 * permissions.collaborators.len()
            + 256 * shares.len()
            + (size_of::<StoredVersion>() + 64) * self.versions.len()
            + (size_of::<Comment>() + size_of::<Anchor>() + 64) * self.comments.len()
            + self.comments.bytes()
    }
}

impl Facts {
    /// The facts out of a stored header.
    ///
    /// # Errors
    /// The header can't be read, which is told.
    pub(super) fn stored(id: DocumentId, header: &str) -> Result<Self, Unreadable> {
        serde_json::from_str(header)
            .map_err(|error| Unreadable::found(format_args!("{id}: header"), error))
    }

    /// The document as lists show it.
    pub(super) fn view(
        &self,
        id: DocumentId,
        role: Option<DocumentRole>,
        updated_at: i64,
    ) -> DocumentView<'_> {
        DocumentView {
            id,
            title: &self.title,
            content: None,
            content_type: self.content_type,
            metadata: &self.metadata,
            owner_id: self.permissions.owner,
            version: VersionShown::Id(self.head_id),
            version_number: self.head,
            role,
            created_at: Timestamp(id.created_ms()),
            updated_at: Timestamp(updated_at),
            created_by: self.created_by,
            updated_by: self.updated_by,
        }
    }
}

impl Share {
    pub(super) fn view(&self) -> ShareView {
        ShareView {
            share_id: self.id,
            role: self.terms.role,
            expires_at: self.terms.expires_at,
            max_uses: self.terms.max_uses,
            uses: self.terms.uses,
            has_password: self.terms.password.is_some(),
            created_at: Timestamp(self.id.created_ms()),
        }
    }
}

impl Request {
    /// What it takes a role for.
    fn action(&self) -> Action {
        match self {
            Request::Look(_)
            | Request::Create(_)
            | Request::Expire(_)
            | Request::OpenShare(_)
            | Request::UseShare(_) => Action::Read,
            Request::List(Part::Collaborators) => Action::ListCollaborators,
            Request::List(Part::Permissions) => Action::ReadPermissions,
            Request::List(Part::Shares) => Action::ListShares,
            Request::ListComments(_) => Action::ListComments,
            Request::List(Part::Activity) => Action::ListActivity,
            Request::Update(_) => Action::Update,
            Request::Bin => Action::Delete,
            Request::Erase => Action::Erase,
            Request::Restore => Action::Restore,
            Request::AddVersion(_) => Action::AddVersion,
            Request::RestoreVersion(..) => Action::RestoreVersion,
            Request::PrepareMerge(_) | Request::Merge(..) => Action::Merge,
            Request::AddCollaborator(..) => Action::AddCollaborator,
            Request::ChangeCollaborator(..) => Action::ChangeCollaborator,
            Request::RemoveCollaborator(_) => Action::RemoveCollaborator,
            Request::SetPermissions(_) => Action::SetPermissions,
            Request::CreateShare(..) => Action::CreateShare,
            Request::RemoveShare(_) => Action::DeleteShare,
            Request::AddComment(_) => Action::AddComment,
            Request::ChangeComment(..) => Action::ChangeComment,
            Request::RemoveComment(_) => Action::DeleteComment,
        }
    }
}

impl From<Denied> for DocumentError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::NotFound => DocumentError::NotFound,
            Denied::Forbidden(_) => DocumentError::Forbidden,
        }
    }
}

impl From<PermissionError> for DocumentError {
    fn from(error: PermissionError) -> Self {
        let conflict = |field, reason| DocumentError::Conflict { field, reason };
        match error {
            PermissionError::AddedTwice => conflict("user_id", "is a collaborator already"),
            PermissionError::OwnerStays => conflict(
                "user_id",
                "is the owner; an owner is made with transfer_owner_to",
            ),
            PermissionError::NotACollaborator => DocumentError::NotFound,
            PermissionError::Invalid { field, reason } => {
                DocumentError::Invalid(Invalid::new(field, reason))
            }
        }
    }
}

/// The entity tag of something small that has no revision of its own: another one for other bytes.
pub(super) fn tag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    digest
        .iter()
        .take(8)
        .fold(String::with_capacity(16), |text, byte| {
            format!("{text}{byte:02x}")
        })
}

/// The JSON of a shape of ours: these have no maps with keys other than strings, so they can't fail.
pub(super) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    colloquy_model::json::bytes(shape)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
