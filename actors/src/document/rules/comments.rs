//! The rules of comments.

use std::sync::Arc;

use super::{Access, ComputedRequest, Decided, DocumentRequest};
use crate::document::access::{Action, DocumentRole, is_own_comment, role_of};
use crate::document::anchors::{LineRange, NoSuchLines};
use crate::document::comments::{Anchor, AnchoredTo, Comment, ListedComment};
use crate::document::context::{CommandContext, Outcome};
use crate::document::draft::{Draft, EventExtras, nothing_shown};
use crate::document::messages::{
    AddComment, CommentPage, DocumentError, EditComment, ListComments, RemoveComment,
};
use crate::document::precompute::CountLines;
use crate::document::state::{Live, tag, to_json};
use crate::document::views::CommentView;
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{CommentId, VersionId};
use colloquy_model::page::{Order, Start};

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

impl DocumentRequest for ListComments {
    type Reply = CommentPage;

    fn access(&self) -> Access {
        Access::Role(Action::ListComments)
    }

    fn decide(self, live: &Live, _: CommandContext) -> Decided<CommentPage> {
        Ok(Outcome::reply(live.comments_listed(self)))
    }
}

impl ComputedRequest for AddComment {
    type Reply = Answer;
    type Task = CountLines;

    fn access(&self) -> Access {
        Access::Role(Action::AddComment)
    }

    fn task(&self, live: &Live) -> Option<CountLines> {
        let version = match &self.version {
            Some(name) => live.version(name)?,
            None => live.facts.head,
        };
        Some(CountLines { version })
    }

    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<usize>,
    ) -> Decided<Answer> {
        let head = live.facts.head;
        let version = match &self.version {
            Some(name) => live
                .version(name)
                .ok_or_else(|| invalid("version", "must be a version of this document"))?,
            None => head,
        };
        // Without it the document has changed since the lines were to be counted.
        let lines = computed.ok_or(DocumentError::Precondition)?;
        let range = self.range(lines)?;
        if live.comments.len() >= COMMENTS_MAX {
            return Err(DocumentError::Conflict {
                field: "",
                reason: "has 10000 comments: delete some first",
            });
        }
        live.room_for(self.body.len(), &context)?;
        let mut draft = Draft::new(live, &context);
        draft.live.facts.comments_made += 1;
        let (number, at) = (draft.live.facts.comments_made, draft.at);
        let comment = Comment {
            id: (context.ids.comment)(at, number),
            body: self.body.into_string(),
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
        draft.event(EventKind::DocumentCommented, EventExtras::comment(comment));
        Ok(draft.commit(context, answer, Vec::new()))
    }
}

impl AddComment {
    /// The lines that the comment stands on, in a version of so many lines.
    fn range(&self, lines: usize) -> Result<LineRange, DocumentError> {
        let end = self.end_line.unwrap_or(self.start_line);
        LineRange::new(self.start_line, end, lines).map_err(|no| match no {
            NoSuchLines::Start => invalid("start_line", "must be a line of the version, from 1"),
            NoSuchLines::End => invalid(
                "end_line",
                "must be a line of the version, not before start_line",
            ),
        })
    }
}

impl DocumentRequest for EditComment {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::ChangeComment)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        live.comment_etag(self.comment)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let (held, anchor) = live.comment(self.comment)?;
        let mut comment = held.clone();
        if let Some(body) = self.change.body {
            live.room_for(body.len().saturating_sub(held.body.len()), &context)?;
            comment.body = body.into_string();
        }
        comment.resolved = self.change.resolved.unwrap_or(comment.resolved);
        if comment.body != held.body {
            live.may(&context, Action::ChangeOthersComment, held)?;
        }
        let mut draft = Draft::new(live, &context);
        if comment == *held {
            let answer = shown(&live.shown(held, anchor), Done::Ok);
            return Ok(draft.unchanged(context, answer));
        }
        comment.updated_at = draft.at;
        let comment = draft.comment(comment, *anchor);
        let answer = shown(&comment, Done::Ok);
        draft.event(EventKind::DocumentCommented, EventExtras::comment(comment));
        Ok(draft.commit(context, answer, Vec::new()))
    }
}

impl DocumentRequest for RemoveComment {
    type Reply = Answer;

    fn access(&self) -> Access {
        Access::Role(Action::DeleteComment)
    }

    fn etag(&self, live: &Live, _: DocumentRole) -> Option<String> {
        live.comment_etag(self.comment)
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let (held, anchor) = live.comment(self.comment)?;
        live.may(&context, Action::DeleteOthersComment, held)?;
        let removed = live.shown(held, anchor);
        let mut draft = Draft::new(live, &context);
        draft.remove_comment(self.comment);
        let extras = EventExtras {
            removed: Some(true),
            ..EventExtras::comment(removed)
        };
        draft.event(EventKind::DocumentCommented, extras);
        Ok(draft.commit(context, nothing_shown(), Vec::new()))
    }
}

impl ListComments {
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

    /// The entity tag of a comment, if there is one with this identifier.
    fn comment_etag(&self, id: CommentId) -> Option<String> {
        let (comment, anchor) = self.comment(id).ok()?;
        Some(tag(&to_json(&self.shown(comment, anchor))))
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
    pub(in crate::document) fn comments_listed(&self, list: ListComments) -> CommentPage {
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
        CommentPage {
            comments: shown,
            total,
        }
    }

    /// A document's actor holds all that is said about it: together as much as a content.
    fn room_for(&self, more: usize, context: &CommandContext) -> Result<(), DocumentError> {
        if self.comments.bytes().saturating_add(more) > context.bounds.document_bytes_max {
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
