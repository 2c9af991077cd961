//! The rules of comments.

use super::access::{Action, DocumentRole, is_own_comment, role_of};
use super::anchors::{LineRange, NoSuchLines};
use super::draft::{Beside, Draft, nothing_shown};
use super::messages::{AddComment, ChangeComment, CommentView, DocumentError};
use super::state::{Asked, Decided, Document, Live, tag, to_json};
use super::work::Worked;
use crate::answer::{Answer, Done, Invalid};
use crate::id::CommentId;
use crate::store::Happened;
use crate::time::Timestamp;

/// Comments of one document, all of which its actor holds.
const COMMENTS_MAX: usize = 10_000;

fn invalid(field: &'static str, reason: &'static str) -> DocumentError {
    DocumentError::Invalid(Invalid::new(field, reason))
}

fn shown(comment: &CommentView, done: Done) -> Answer {
    let id = (done == Done::Created).then(|| comment.comment_id.to_string());
    let body = to_json(comment);
    Answer { done, id, etag: Some(tag(&body)), body, replayed: false }
}

impl Document {
    pub(super) fn add_comment(&self, live: &Live, add: AddComment, asked: Asked, found: Option<&Worked>) -> Decided {
        let head = live.facts.head;
        let version = match &add.version {
            Some(name) => live.version(name).ok_or_else(|| invalid("version", "must be a version of this document"))?,
            None => head,
        };
        let Some(Worked::Lines(lines)) = found else { return Err(DocumentError::Precondition) };
        let end = add.end_line.unwrap_or(add.start_line);
        let range = LineRange::new(add.start_line, end, *lines).map_err(|no| match no {
            NoSuchLines::Start => invalid("start_line", "must be a line of the version, from 1"),
            NoSuchLines::End => invalid("end_line", "must be a line of the version, not before start_line"),
        })?;
        if live.comments.len() >= COMMENTS_MAX {
            return Err(DocumentError::Conflict { field: "", reason: "has 10000 comments: delete some first" });
        }
        let mut draft = Draft::new(self, live, &asked, false);
        draft.live.facts.comments_made += 1;
        let (number, at) = (draft.live.facts.comments_made, Timestamp(draft.at));
        let comment = CommentView {
            comment_id: CommentId::with_sequence(at.0, number),
            version: live.found(version).id,
            start_line: range.start(),
            end_line: range.end(),
            body: add.body.into_string(),
            author: asked.who.user(),
            resolved: false,
            outdated: false,
            created_at: at,
            updated_at: at,
        };
        let answer = shown(&comment, Done::Created);
        draft.comment(number, Some(comment.clone()));
        draft.event(Happened::DocumentCommented, Beside { comment: Some(comment), ..Beside::default() });
        Ok(draft.decide(asked, answer, Vec::new()))
    }

    pub(super) fn change_comment(&self, live: &Live, id: CommentId, change: ChangeComment, asked: Asked) -> Decided {
        let held = live.comment(id)?;
        let mut comment = held.clone();
        if let Some(body) = change.body {
            comment.body = body.into_string();
        }
        comment.resolved = change.resolved.unwrap_or(comment.resolved);
        if comment.body != held.body {
            live.may(&asked, Action::ChangeOthersComment, held)?;
        }
        let mut draft = Draft::new(self, live, &asked, false);
        if comment == *held {
            return Ok(draft.unchanged(asked, shown(held, Done::Ok)));
        }
        comment.updated_at = Timestamp(draft.at);
        let answer = shown(&comment, Done::Ok);
        draft.comment(id.sequence(), Some(comment.clone()));
        draft.event(Happened::DocumentCommented, Beside { comment: Some(comment), ..Beside::default() });
        Ok(draft.decide(asked, answer, Vec::new()))
    }

    pub(super) fn remove_comment(&self, live: &Live, id: CommentId, asked: Asked) -> Decided {
        let held = live.comment(id)?.clone();
        live.may(&asked, Action::DeleteOthersComment, &held)?;
        let mut draft = Draft::new(self, live, &asked, false);
        draft.comment(id.sequence(), None);
        let beside = Beside { comment: Some(held), removed: Some(true), ..Beside::default() };
        draft.event(Happened::DocumentCommented, beside);
        Ok(draft.decide(asked, nothing_shown(), Vec::new()))
    }
}

impl Live {
    pub(super) fn comment(&self, id: CommentId) -> Result<&CommentView, DocumentError> {
        self.comments.iter().find(|comment| comment.comment_id == id).ok_or(DocumentError::NotFound)
    }

    /// Whether somebody may do with this comment what takes more than a commenter, unless it is their own.
    fn may(&self, asked: &Asked, action: Action, comment: &CommentView) -> Result<(), DocumentError> {
        let role = role_of(asked.who, &self.facts.permissions).unwrap_or(DocumentRole::Viewer);
        let enough = is_own_comment(asked.who, comment.author) || role >= action.minimum_role();
        if enough { Ok(()) } else { Err(DocumentError::Forbidden) }
    }
}
