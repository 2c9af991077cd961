//! What the rules of a document take from the world around it, handed in so that they are pure, and
//! what they decide.

use std::sync::Arc;

use super::access::Requester;
use super::state::{Change, Changed, Document};
use crate::accounts::Identity;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Caller;
use colloquy_model::commit::Commit;
use colloquy_model::id::{CommentId, ShareId, UserId, VersionId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// What a rule takes from the world around it, handed in so that it is pure.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecisionContext {
    /// The time of the decision.
    pub(super) now: Timestamp,
    /// Makes new identifiers.
    pub(super) ids: NewIds,
    /// The limits from the settings.
    pub(super) bounds: &'static Bounds,
}

/// Makes the identifiers of what a document's rules create.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewIds {
    /// Made of an instant and the version's number.
    pub(super) version: fn(Timestamp, u64) -> VersionId,
    /// Made of an instant and the comment's number.
    pub(super) comment: fn(Timestamp, u64) -> CommentId,
    /// Made of an instant.
    pub(super) share: fn(Timestamp) -> ShareId,
}

impl NewIds {
    /// Makes identifiers that nobody can guess.
    pub(super) const RANDOM: NewIds = NewIds {
        version: VersionId::with_ordinal,
        comment: CommentId::with_ordinal,
        share: ShareId::new,
    };
}

/// What surrounds a request while it is decided.
#[derive(Debug)]
pub struct CommandContext {
    pub(super) caller: Caller,
    pub(super) requester: Requester,
    /// The idempotency key under which the answer is kept.
    pub(super) reservation: Option<Reservation>,
    pub(super) users: Arc<Identity>,
    pub(super) now: Timestamp,
    pub(super) ids: NewIds,
    pub(super) bounds: &'static Bounds,
}

impl CommandContext {
    pub(super) fn is_user(&self, user: UserId) -> bool {
        self.users.user(self.caller.tenant, user).is_some()
    }
}

/// What a request comes to: its reply, and what changes.
#[derive(Debug)]
pub struct Outcome<R> {
    pub(super) reply: R,
    pub(super) effect: Effect,
}

/// What a request changes.
#[derive(Debug)]
pub(super) enum Effect {
    /// Nothing.
    Nothing,
    /// Nothing of the document, but the answer is kept under its idempotency key.
    KeepAnswer(Commit),
    /// The document changes. With conditions that may refuse the commit, the next request waits
    /// until it is settled.
    Change(Changed, Commit),
}

impl<R> Outcome<R> {
    /// A reply that changes nothing.
    pub(super) fn reply(reply: R) -> Self {
        Outcome {
            reply,
            effect: Effect::Nothing,
        }
    }

    pub(super) fn map<S>(self, make: impl FnOnce(R) -> S) -> Outcome<S> {
        Outcome {
            reply: make(self.reply),
            effect: self.effect,
        }
    }
}

impl<R> From<Outcome<R>> for Decision<Document, R> {
    fn from(Outcome { reply, effect }: Outcome<R>) -> Self {
        match effect {
            Effect::Nothing => Decision::Answer(reply),
            Effect::KeepAnswer(commit) => Decision::Keep { commit, reply },
            Effect::Change(change, commit) => Decision::Change {
                pipelined: commit.conditions.is_empty() && !matches!(change, Changed(Change::Gone)),
                change,
                commit,
                reply,
            },
        }
    }
}
