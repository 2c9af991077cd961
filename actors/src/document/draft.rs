//! A document's commit in the making: its events follow each other, and at the end stands its
//! header.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::access::{Collaborator, DocumentRole, Visibility};
use super::comments::{Anchor, Comment};
use super::context::{CommandContext, Effect, Outcome};
use super::precompute::{EncodedVersion, Followed};
use super::state::{Change, Changed, Document, Live, Share, to_json};
use super::views::{CommentView, DocumentView, ShareView, VersionShown, VersionView};
use crate::store::StoredVersion;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Caller;
use colloquy_model::commit::{Commit, Condition, Header, KeptAnswer, NewRow};
use colloquy_model::document::{
    CommentChange, DocumentHeader, DocumentListed, DocumentReader, NewLinks, NewVersion,
};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{CommentId, ShareId, UserId};
use colloquy_model::json::text;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// What is known of a new version beside its content.
#[derive(Default)]
pub(super) struct VersionMeta {
    pub(super) parents: Vec<u64>,
    /// The branch that it is on; empty: the main branch.
    pub(super) branch: String,
    pub(super) label: Option<String>,
    pub(super) message: Option<String>,
}

impl VersionMeta {
    /// A new head after this one, without a label or a message.
    pub(super) fn after(head: u64) -> Self {
        VersionMeta {
            parents: vec![head],
            ..VersionMeta::default()
        }
    }
}

/// What an event tells of what has changed: of each field `{"from":…,"to":…}`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Changes<'a> {
    Fields(Map<String, Value>),
    Permissions(PermissionChanges<'a>),
}

/// The fields of a permission set that have changed.
#[derive(Serialize)]
pub(super) struct PermissionChanges<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collaborators: Option<FieldChange<&'a [Collaborator]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_role: Option<FieldChange<DocumentRole>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link_sharing: Option<FieldChange<bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner_id: Option<FieldChange<Option<UserId>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visibility: Option<FieldChange<Visibility>>,
}

/// What a field was and is.
#[derive(Serialize)]
pub(super) struct FieldChange<T> {
    from: T,
    to: T,
}

impl<T: PartialEq> FieldChange<T> {
    /// None where it is what it was.
    pub(super) fn between(from: T, to: T) -> Option<Self> {
        (from != to).then_some(FieldChange { from, to })
    }
}

/// The fields of an event beside the document.
#[derive(Default, Serialize)]
pub(super) struct EventExtras<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<Changes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permanent: Option<bool>,
    /// Stands in place of the head's identifier.
    #[serde(skip)]
    pub(super) version: Option<VersionView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<ShareView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comment: Option<CommentView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collaborators: Option<&'a [Collaborator]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<bool>,
}

impl EventExtras<'_> {
    /// Shows a comment.
    pub(super) fn comment(comment: CommentView) -> Self {
        EventExtras {
            comment: Some(comment),
            ..EventExtras::default()
        }
    }

    /// Shows a share link.
    pub(super) fn share(share: ShareView) -> Self {
        EventExtras {
            share: Some(share),
            ..EventExtras::default()
        }
    }

    /// Says how the document was deleted.
    pub(super) fn deleted(deletion: Deletion) -> Self {
        EventExtras {
            permanent: Some(deletion == Deletion::Permanent),
            ..EventExtras::default()
        }
    }
}

/// How a document is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    /// To the bin, from which it can be restored.
    ToBin,
    /// For good.
    Permanent,
}

#[derive(Serialize)]
struct EventData<'a> {
    #[serde(flatten)]
    document: DocumentView<'a>,
    #[serde(flatten)]
    extras: &'a EventExtras<'a>,
    /// The link through which it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_id: Option<ShareId>,
}

/// A commit in the making: the state as it will be, and what is stored of it.
pub(super) struct Draft {
    expected: Sequence,
    /// When the change happens.
    pub(super) at: Timestamp,
    through: Option<ShareId>,
    pub(super) live: Live,
    was_deleted: Option<bool>,
    /// What the document was counted with before.
    text_bytes: u64,
    rows: Vec<NewRow>,
    version: Option<NewVersion>,
    added: Option<StoredVersion>,
    comments: Vec<CommentChange>,
    anchors: Option<Bytes>,
    readers_changed: bool,
    links_changed: bool,
}

impl Draft {
    /// Starts a commit on the state as it is.
    pub(super) fn new(live: &Live, context: &CommandContext) -> Self {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = context.now.max(live.facts.last_at);
        let live = live.clone();
        let is_new = live.is_blank();
        let expected = live.sequence;
        let was_deleted = (!is_new).then_some(live.facts.deleted_at.is_some());
        Draft {
            expected,
            at,
            through: context.requester.share(),
            text_bytes: live.text_bytes(),
            live,
            was_deleted,
            rows: Vec::new(),
            version: None,
            added: None,
            comments: Vec::new(),
            anchors: None,
            readers_changed: is_new,
            links_changed: false,
        }
    }

    /// What the document shows changes with this commit: its tag and its time go on. Stands before
    /// the event.
    pub(super) fn shows_change(&mut self, context: &CommandContext) {
        self.live.facts.shown = self.expected.next();
        self.live.facts.updated_by = context.requester.user();
        self.live.updated_at = self.at;
    }

    /// An event that shows the document as it is now.
    pub(super) fn event(&mut self, kind: EventKind, mut extras: EventExtras<'_>) {
        self.live.sequence = self.live.sequence.next();
        let mut document = self.live.view(None);
        if let Some(version) = extras.version.take() {
            document.version = VersionShown::Whole(Box::new(version));
        }
        let payload = to_json(&EventData {
            document,
            extras: &extras,
            share_id: self.through,
        });
        self.rows.push(NewRow::new(kind, payload));
    }

    /// Adds the event that shows a new version.
    pub(super) fn version_event(&mut self, kind: EventKind, version: &StoredVersion) {
        let live = self.live.clone();
        let extras = EventExtras {
            version: Some(live.version_view(version)),
            ..EventExtras::default()
        };
        self.event(kind, extras);
    }

    /// Adds a version; one on the main branch becomes the head, and comments on the old one follow
    /// it.
    pub(super) fn version(
        &mut self,
        packed: EncodedVersion,
        made: VersionMeta,
        context: &CommandContext,
    ) -> StoredVersion {
        let number = u64::try_from(self.live.versions.len()).unwrap_or(u64::MAX) + 1;
        let at = self.at;
        let id = (context.ids.version)(at, number);
        let author = context.requester.user();
        let VersionMeta {
            parents,
            branch,
            label,
            message,
        } = made;
        let version = StoredVersion {
            number,
            id,
            label: label.as_deref().map(Into::into),
            branch: branch.as_str().into(),
            parents: parents.clone(),
            message: message.as_deref().map(Into::into),
            author,
            at,
        };
        let EncodedVersion {
            frame,
            base,
            bytes,
            followed,
            ..
        } = packed;
        if branch.is_empty() {
            self.follow(followed);
            self.live.facts.head = number;
            self.live.facts.head_id = id;
            self.live.facts.head_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.shows_change(context);
        }
        self.added = Some(version.clone().without_message());
        self.version = Some(NewVersion {
            number,
            id,
            label,
            branch,
            parents,
            message,
            author,
            base,
            frame,
        });
        version
    }

    /// Lets comments on the head's lines stand on those of a new head, or marks them where their
    /// lines changed.
    fn follow(&mut self, followed: Option<Followed>) {
        let Some(Followed {
            before,
            moves,
            moved,
        }) = followed
        else {
            return;
        };
        let held = self.live.comments.anchors();
        // Beside a merge, comments are made and taken away: then they follow once more.
        let moved = if Arc::ptr_eq(held, &before.anchors) {
            moved
        } else {
            held.followed(before.head, &moves)
        };
        if let Some((anchors, bytes)) = moved {
            self.live.comments.stand(anchors);
            self.anchors = Some(bytes);
        }
    }

    /// Puts a comment, and gives it as it is shown.
    pub(super) fn comment(&mut self, comment: Comment, anchor: Anchor) -> CommentView {
        let view = self.live.shown(&comment, &anchor);
        self.comments.push(CommentChange {
            number: anchor.number,
            body: Some(anchor.row(view.clone())),
        });
        self.live.comments.put(comment, anchor);
        view
    }

    /// Deletes a comment, which the draft shows no more from here on; its row goes with the commit.
    pub(super) fn remove_comment(&mut self, id: CommentId) {
        self.comments.push(CommentChange {
            number: id.ordinal(),
            body: None,
        });
        self.live.comments.remove(id);
    }

    /// Says that the commit changes who may read the document.
    pub(super) fn readers_change(&mut self) {
        self.readers_changed = true;
    }

    /// Says that the commit changes the document's share links.
    pub(super) fn links_change(&mut self) {
        self.links_changed = true;
    }

    /// Counts one use of the share link through which the change is made, if it is made through
    /// one.
    pub(super) fn use_link(&mut self) {
        if let Some(share) = self.through.and_then(|share| self.live.share_mut(share)) {
            share.terms.count_use();
            self.links_changed = true;
        }
    }

    /// Commits the draft, with this answer.
    pub(super) fn commit(
        mut self,
        context: CommandContext,
        reply: Answer,
        conditions: Vec<Condition>,
    ) -> Outcome<Answer> {
        self.live.facts.last_at = self.at;
        let header = Header::Document(Box::new(self.header()));
        self.live.shares_in_header = false;
        let change = Changed(Change::Live(Box::new(self.live.clone()), self.added.take()));
        let commit = self.into_commit(context, header, conditions, &reply);
        Outcome {
            reply,
            effect: Effect::Change(change, commit),
        }
    }

    /// Commits the draft and erases the document, with this answer.
    pub(super) fn erase(self, context: CommandContext, reply: Answer) -> Outcome<Answer> {
        let header = Header::DocumentGone {
            was_deleted: self.live.facts.deleted_at.is_some(),
        };
        let commit = self.into_commit(context, header, Vec::new(), &reply);
        Outcome {
            reply,
            effect: Effect::Change(Changed(Change::Gone), commit),
        }
    }

    /// Changes nothing. Under an idempotency key the answer is kept all the same.
    pub(super) fn unchanged(self, context: CommandContext, reply: Answer) -> Outcome<Answer> {
        if context.reservation.is_none() {
            return Outcome::reply(reply);
        }
        let commit = self.into_commit(context, Header::Unchanged, Vec::new(), &reply);
        Outcome {
            reply,
            effect: Effect::KeepAnswer(commit),
        }
    }

    fn header(&mut self) -> DocumentHeader {
        let facts = &self.live.facts;
        let readers = self.readers_changed.then(|| readers(&self.live));
        let shares = &self.live.shares;
        let links = (self.links_changed || self.live.shares_in_header).then(|| NewLinks {
            hashes: shares.iter().map(|share| share.terms.token).collect(),
            body: text(shares),
        });
        DocumentHeader {
            was_deleted: self.was_deleted,
            updated_at: self.live.updated_at,
            listed: DocumentListed {
                title: facts.title.clone(),
                content_type: facts.content_type.code(),
                owner: facts.permissions.owner,
                deleted_at: facts.deleted_at,
            },
            body: text(facts),
            readers,
            links,
            version: self.version.take(),
            comments: std::mem::take(&mut self.comments),
            anchors: self.anchors.take(),
        }
    }

    fn into_commit(
        mut self,
        context: CommandContext,
        header: Header,
        conditions: Vec<Condition>,
        reply: &Answer,
    ) -> Commit {
        let text_bytes = match header {
            Header::DocumentGone { .. } => 0,
            Header::Document(_)
            | Header::Unchanged
            | Header::Conversation { .. }
            | Header::ConversationGone { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::RecordErased
            | Header::LinkUsed { .. } => self.live.text_bytes(),
        };
        if let Some(row) = self.rows.last_mut() {
            row.text_bytes = text_bytes.cast_signed() - self.text_bytes.cast_signed();
        }
        Commit {
            at: self.at,
            rows: self.rows,
            conditions,
            expected: self.expected,
            ..commit(&self.live, context, header, reply)
        }
    }
}

/// Counts one use of a link, which is no event of the document, with this answer.
pub(super) fn link_used(
    live: &Live,
    share: &Share,
    context: CommandContext,
    reply: Answer,
) -> Outcome<Answer> {
    let header = Header::LinkUsed {
        share: share.id,
        uses: share.terms.uses.saturating_add(1),
    };
    let commit = commit(live, context, header, &reply);
    Outcome {
        reply,
        effect: Effect::Change(Changed(Change::Used(share.id)), commit),
    }
}

/// A commit that carries no event.
fn commit(live: &Live, context: CommandContext, header: Header, reply: &Answer) -> Commit {
    let answer = context.reservation.map(|reservation| KeptAnswer {
        reservation,
        done: reply.done,
        id: reply.id.clone(),
        etag: reply.etag.clone(),
        body: Some(reply.body.clone()),
    });
    let caller = Caller {
        tenant: live.tenant,
        actor: context.caller.actor,
    };
    let commit = Commit::new(
        Document::subject(live.id),
        live.sequence,
        caller,
        live.facts.last_at,
    );
    Commit {
        header,
        answer,
        ..commit
    }
}

/// Who may read it beside account-level keys.
fn readers(live: &Live) -> Vec<DocumentReader> {
    let permissions = &live.facts.permissions;
    let reader = |user: EntityNumber, role: DocumentRole| DocumentReader {
        user,
        role: role as i64,
    };
    let owner = permissions.owner.iter();
    let collaborators = permissions.collaborators.iter();
    let everybody = permissions.visibility == Visibility::Account;
    owner
        .map(|owner| reader(owner.number(), DocumentRole::Owner))
        .chain(collaborators.map(|one| reader(one.user_id.number(), one.role)))
        .chain(everybody.then(|| reader(EntityNumber::ZERO, permissions.default_role)))
        .collect()
}

/// What an event tells of one changed field: `{"field":{"from":…,"to":…}}`.
pub(super) fn change(field: &str, from: Value, to: Value) -> Map<String, Value> {
    let mut changes = Map::new();
    changes.insert(field.to_owned(), json!(FieldChange { from, to }));
    changes
}

/// An answer without a body.
pub(super) fn nothing_shown() -> Answer {
    Answer::deleted()
}
