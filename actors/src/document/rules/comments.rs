//! The rules of comments.

use std::sync::Arc;

use crate::document::access::{Action, DocumentRole, is_own_comment, role_of};
use crate::document::anchors::{LineRange, NoSuchLines};
use crate::document::comments::{Anchor, AnchoredTo, Comment, ListedComment};
use crate::document::draft::{Draft, EventExtras, nothing_shown};
use crate::document::messages::{AddComment, ChangeComment, CommentList, DocumentError, Reply};
use crate::document::precompute::PrecomputeResult;
use crate::document::state::{CommandContext, Decided, Document, Live, tag, to_json};
use crate::document::views::CommentView;
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::bounds::Bounds;
use colloquy_model::event_kind::Happened;
use colloquy_model::id::{CommentId, VersionId};
use colloquy_model::page::{Order, Start};
use colloquy_model::time::Timestamp;

/// Comments of one document, all of which its actor holds.
const COMMENTS_MAX: usize = 10_000;

fn invalid(field: &'static str, reason: &'static str) -> DocumentError {
    DocumentError::Invalid(Invalid::new(field, reason))
}

fn shown(comment: &CommentView, done: Done) -> Answer {
    let id = (done == Done::Created).then(|| comment.comment_id.to_string());
    let body = to_json(comment);
    Answer {
        done,
        id,
        etag: Some(tag(&body)),
        body,
        replayed: false,
    }
}

impl Document {
    pub(in crate::document) fn add_comment(
        &self,
        live: &Live,
        add: AddComment,
        context: CommandContext,
        found: Option<&PrecomputeResult>,
    ) -> Decided {
        let head = live.facts.head;
        let version = match &add.version {
            Some(name) => live
                .version(name)
                .ok_or_else(|| invalid("version", "must be a version of this document"))?,
            None => head,
        };
        let Some(PrecomputeResult::LineCount(lines)) = found else {
            return Err(DocumentError::Precondition);
        };
        let end = add.end_line.unwrap_or(add.start_line);
        let range = LineRange::new(add.start_line, end, *lines).map_err(|no| match no {
            NoSuchLines::Start => invalid("start_line", "must be a line of the version, from 1"),
            NoSuchLines::End => invalid(
                "end_line",
                "must be a line of the version, not before start_line",
            ),
        })?;
        if live.comments.len() >= COMMENTS_MAX {
            return Err(DocumentError::Conflict {
                field: "",
                reason: "has 10000 comments: delete some first",
            });
        }
        live.room_for(add.body.len())?;
        let mut draft = Draft::new(self, live, &context, false);
        draft.live.facts.comments_made += 1;
        let (number, at) = (draft.live.facts.comments_made, Timestamp(draft.at));
        let comment = Comment {
            id: CommentId::with_sequence(at.0, number),
            body: add.body.into_string(),
            author: context.requester.user(),
            resolved: false,
            created_at: at,
            updated_at: at,
        };
        let anchored_to = if version == head {
            AnchoredTo::Head
        } else {
            AnchoredTo::Version(version)
        };
        let comment = draft.comment(comment, Anchor::new(number, anchored_to, range));
        let answer = shown(&comment, Done::Created);
        draft.event(
            Happened::DocumentCommented,
            EventExtras {
                comment: Some(comment),
                ..EventExtras::default()
            },
        );
        Ok(draft.decide(context, answer, Vec::new()))
    }

    pub(in crate::document) fn change_comment(
        &self,
        live: &Live,
        id: CommentId,
        change: ChangeComment,
        context: CommandContext,
    ) -> Decided {
        let (held, anchor) = live.comment(id)?;
        let mut comment = held.clone();
        if let Some(body) = change.body {
            live.room_for(body.len().saturating_sub(held.body.len()))?;
            comment.body = body.into_string();
        }
        comment.resolved = change.resolved.unwrap_or(comment.resolved);
        if comment.body != held.body {
            live.may(&context, Action::ChangeOthersComment, held)?;
        }
        let mut draft = Draft::new(self, live, &context, false);
        if comment == *held {
            return Ok(draft.unchanged(context, shown(&live.shown(held, anchor), Done::Ok)));
        }
        comment.updated_at = Timestamp(draft.at);
        let comment = draft.comment(comment, *anchor);
        let answer = shown(&comment, Done::Ok);
        draft.event(
            Happened::DocumentCommented,
            EventExtras {
                comment: Some(comment),
                ..EventExtras::default()
            },
        );
        Ok(draft.decide(context, answer, Vec::new()))
    }

    pub(in crate::document) fn remove_comment(
        &self,
        live: &Live,
        id: CommentId,
        context: CommandContext,
    ) -> Decided {
        let (held, anchor) = live.comment(id)?;
        live.may(&context, Action::DeleteOthersComment, held)?;
        let gone = live.shown(held, anchor);
        let mut draft = Draft::new(self, live, &context, false);
        draft.remove_comment(id);
        let extras = EventExtras {
            comment: Some(gone),
            removed: Some(true),
            ..EventExtras::default()
        };
        draft.event(Happened::DocumentCommented, extras);
        Ok(draft.decide(context, nothing_shown(), Vec::new()))
    }
}

impl CommentList {
    /// How many comments stand before the page.
    pub(in crate::document) fn skip(&self) -> usize {
        match self.paging.start {
            Start::Offset(skip) => usize::try_from(skip).unwrap_or(usize::MAX),
            Start::After(_) | Start::Before(_) => 0,
        }
    }
}

impl Live {
    pub(in crate::document) fn comment(
        &self,
        id: CommentId,
    ) -> Result<(&Comment, &Anchor), DocumentError> {
        self.comments.get(id).ok_or(DocumentError::NotFound)
    }

    /// One comment as the interface shows it.
    pub(in crate::document) fn comment_view(
        &self,
        id: CommentId,
    ) -> Result<CommentView, DocumentError> {
        self.comment(id)
            .map(|(comment, anchor)| self.shown(comment, anchor))
    }

    /// A comment that stands there, as the interface shows it.
    pub(in crate::document) fn shown(&self, comment: &Comment, anchor: &Anchor) -> CommentView {
        comment.view(anchor, self.standing_in(anchor))
    }

    fn standing_in(&self, anchor: &Anchor) -> VersionId {
        match anchor.anchored_to {
            AnchoredTo::Head => self.facts.head_id,
            AnchoredTo::Version(number) | AnchoredTo::Outdated(number) => self.found(number).id,
        }
    }

    /// The comments that this page of the list shows.
    pub(in crate::document) fn comments_listed(&self, list: CommentList) -> Reply {
        let wanted = |(comment, _): &(&Arc<Comment>, &Anchor)| {
            list.resolved
                .is_none_or(|resolved| comment.resolved == resolved)
        };
        let total = self.comments.iter().filter(wanted).count();
        let (skip, limit) = (list.skip(), usize::try_from(list.paging.limit).unwrap_or(0));
        let listed = |(comment, anchor): (&Arc<Comment>, &Anchor)| ListedComment {
            comment: Arc::clone(comment),
            anchor: *anchor,
            version: self.standing_in(anchor),
        };
        let all = self.comments.iter();
        let shown = match list.paging.order {
            Order::Asc => all
                .filter(wanted)
                .skip(skip)
                .take(limit)
                .map(listed)
                .collect(),
            Order::Desc => all
                .rev()
                .filter(wanted)
                .skip(skip)
                .take(limit)
                .map(listed)
                .collect(),
        };
        Reply::Comments(shown, total)
    }

    /// A document's actor holds all that is said about it: together as much as a content.
    fn room_for(&self, more: usize) -> Result<(), DocumentError> {
        if self.comments.bytes().saturating_add(more) > Bounds::get().document_bytes_max {
            let reason = "has as many words in comments as it may: delete some first";
            return Err(DocumentError::Conflict { field: "", reason });
        }
        Ok(())
    }

    /// Whether somebody may do with this comment what takes more than a commenter, unless it is
    /// their own.
    fn may(
        &self,
        context: &CommandContext,
        action: Action,
        comment: &Comment,
    ) -> Result<(), DocumentError> {
        let role =
            role_of(context.requester, &self.facts.permissions).unwrap_or(DocumentRole::Viewer);
        let enough =
            is_own_comment(context.requester, comment.author) || role >= action.minimum_role();
        if enough {
            Ok(())
        } else {
            Err(DocumentError::Forbidden)
        }
    }
}
