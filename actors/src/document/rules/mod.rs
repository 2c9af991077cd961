//! The rules of documents: what each request requires and changes.
//!
//! A rule is the `impl` of [`Rule`] for its request: `versions` (documents, versions and merges),
//! `sharing` (the bin, collaborators, permissions, share links), `comments`. All of them are pure:
//! they judge the state that they are given, with the time, the new identifiers, the bounds and the
//! view of users that stand in [`CommandContext`], and change nothing; what they decide is an
//! [`Outcome`].

mod comments;
mod sharing;
mod versions;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::access::{Action, DocumentRole, Requester, allow};
use super::messages::{
    AddComment, AddShare, AddVersion, ApplyMerge, BinDocument, ChangeRole, CommandMeta,
    CreateDocument, DocumentCommand, DocumentError, DocumentRequest, EditComment, EraseDocument,
    GrantRole, ListCollaborators, ListComments, ListShares, OpenShare, PrepareMerge, PurgeDocument,
    ReadDocument, ReadPermissions, RemoveComment, RemoveShare, Reply, Request, RestoreDocument,
    RestoreOlderVersion, RevokeRole, SetPermissions, UpdateDocument, UseShare, for_each_request,
};
use super::precompute::{Precompute, PrecomputeResult};
use super::state::{Change, Changed, Document, Live};
use crate::accounts::Identity;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Caller;
use colloquy_model::commit::Commit;
use colloquy_model::id::{CommentId, ShareId, UserId, VersionId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// The rule of one request.
trait Rule: DocumentRequest {
    /// What must hold before the rule is asked.
    fn access(&self) -> Access;

    /// The entity tag with which `If-Match` is compared: that of the part of the document that the
    /// request is about. None where there is no such part, which is the rule's to refuse.
    fn etag(&self, live: &Live, role: DocumentRole) -> Option<String> {
        Some(live.etag(role))
    }

    /// What must be computed off the arbiters before the rule can decide. None where nothing must
    /// be, or where the rule will refuse.
    fn precompute(&self, _live: &Live) -> Option<Precompute> {
        None
    }

    /// Decides on the request. `computed` is the result of what [`Rule::precompute`] asked for,
    /// computed over the same state.
    fn decide(
        self,
        live: &Live,
        context: CommandContext,
        computed: Option<PrecomputeResult>,
    ) -> Decided<Self::Reply>;
}

/// What must hold before a rule is asked.
enum Access {
    /// The document does not exist yet.
    Creation,
    /// The requester's role allows the action, and the document is not in the bin, unless the
    /// action is to restore it.
    Role(Action),
    /// The document is not in the bin; the rule itself checks the share link.
    ShareLink,
    /// The document is in the bin; only the server itself asks.
    Server,
}

/// What a rule takes from the world around it, handed in so that it is pure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
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
    /// From a time in Unix milliseconds and the version's number.
    pub(super) version: fn(i64, u64) -> VersionId,
    /// From a time in Unix milliseconds and the comment's number.
    pub(super) comment: fn(i64, u64) -> CommentId,
    /// From a time in Unix milliseconds.
    pub(super) share: fn(i64) -> ShareId,
}

impl NewIds {
    /// Makes identifiers that nobody can guess.
    pub(super) const RANDOM: NewIds = NewIds {
        version: VersionId::with_sequence,
        comment: CommentId::with_sequence,
        share: ShareId::new,
    };
}

/// What surrounds a request while it is decided.
pub(super) struct CommandContext {
    pub(super) caller: Caller,
    pub(super) requester: Requester,
    /// The idempotency key under which the answer is kept.
    pub(super) reservation: Option<Reservation>,
    users: Arc<Identity>,
    pub(super) now: Timestamp,
    pub(super) ids: NewIds,
    pub(super) bounds: &'static Bounds,
}

impl CommandContext {
    fn is_user(&self, user: UserId) -> bool {
        self.users.user(self.caller.tenant, user).is_some()
    }
}

/// What a rule decides, or why it refuses.
pub(super) type Decided<R> = Result<Outcome<R>, DocumentError>;

/// What a request comes to: its reply, and what changes.
pub(super) struct Outcome<R> {
    pub(super) reply: R,
    pub(super) effect: Effect,
}

/// What a request changes.
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

    fn map<S>(self, make: impl FnOnce(R) -> S) -> Outcome<S> {
        Outcome {
            reply: make(self.reply),
            effect: self.effect,
        }
    }
}

impl From<Outcome<Reply>> for Decision<Document, Reply> {
    fn from(Outcome { reply, effect }: Outcome<Reply>) -> Self {
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

macro_rules! dispatch {
    ($($request:ident -> $reply:ty),* $(,)?) => {
        impl Request {
            fn access(&self) -> Access {
                match self { $(Request::$request(request) => request.access()),* }
            }

            fn etag(&self, live: &Live, role: DocumentRole) -> Option<String> {
                match self { $(Request::$request(request) => request.etag(live, role)),* }
            }

            fn precompute(&self, live: &Live) -> Option<Precompute> {
                match self { $(Request::$request(request) => request.precompute(live)),* }
            }

            fn decide(
                self,
                live: &Live,
                context: CommandContext,
                computed: Option<PrecomputeResult>,
            ) -> Decided<Reply> {
                match self {
                    $(Request::$request(request) => {
                        let outcome = <$request as Rule>::decide(request, live, context, computed)?;
                        Ok(outcome.map(Reply::$request))
                    }),*
                }
            }
        }
    };
}

for_each_request!(dispatch);

/// What must be computed off the arbiters before the command can be decided. What is refused needs
/// no work: the decision refuses it again.
pub(super) fn precompute(live: &Live, command: &DocumentCommand) -> Option<Precompute> {
    check(live, command).ok()?;
    command.request.precompute(live)
}

/// Decides on a command. `computed` is the result of what [`precompute`] asked for.
///
/// # Errors
/// Why the command is refused.
pub(super) fn decide(
    live: &Live,
    command: DocumentCommand,
    surroundings: Surroundings,
    computed: Option<PrecomputeResult>,
) -> Decided<Reply> {
    check(live, &command)?;
    let DocumentCommand {
        meta,
        request,
        users,
    } = command;
    let CommandMeta {
        caller,
        requester,
        reservation,
        ..
    } = meta;
    let Surroundings { now, ids, bounds } = surroundings;
    let context = CommandContext {
        caller,
        requester,
        reservation,
        users,
        now,
        ids,
        bounds,
    };
    request.decide(live, context, computed)
}

/// Checks what holds for every request: role, bin and precondition, in this order.
fn check(live: &Live, command: &DocumentCommand) -> Result<(), DocumentError> {
    let found = |is_found: bool| is_found.then_some(()).ok_or(DocumentError::NotFound);
    let in_bin = live.facts.deleted_at.is_some();
    let action = match command.request.access() {
        Access::Creation => return found(live.is_blank()),
        Access::ShareLink => return found(!in_bin),
        Access::Server => return found(in_bin),
        Access::Role(action) => action,
    };
    let role = allow(action, command.meta.requester, &live.facts.permissions)?;
    // What is not in the bin is restored already; everything else does not see what is.
    found(!in_bin || action == Action::Restore)?;
    let Some(wanted) = &command.meta.if_match else {
        return Ok(());
    };
    let tag = command.request.etag(live, role);
    if tag.is_none_or(|tag| wanted.holds(&tag)) {
        Ok(())
    } else {
        Err(DocumentError::Precondition)
    }
}
