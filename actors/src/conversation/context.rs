//! What the rules of a conversation take from the world around it, handed in so that they are pure.

use std::sync::Arc;

use super::messages::ConversationError;
use super::state::Live;
use crate::accounts::Identity;
use crate::store::StoredMessage;
use colloquy_model::answer::Precondition;
use colloquy_model::attachment::AttachmentView;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::conversation_access::ConversationAccess;
use colloquy_model::id::{MessageId, UserId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// What a request does with its conversation, as far as callers are allowed it one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only looks.
    Reading,
    /// It may change something.
    Writing,
}

/// What surrounds a request while it is decided.
#[derive(Debug)]
pub struct CommandContext {
    pub(super) caller: Caller,
    /// Which conversations the caller may read and write.
    pub(super) access: ConversationAccess,
    /// Only if what the request is about is still in this state.
    pub(super) if_match: Option<Precondition>,
    /// The idempotency key under which the answer is kept.
    pub(super) reservation: Option<Reservation>,
    /// The view of the account's users.
    pub(super) users: Arc<Identity>,
    /// The attachment that the request takes for a message, as it was found in the store.
    pub(super) attachment: Option<OfferedAttachment>,
    /// The message that the request is about, as it was found in the store.
    pub(super) message: Option<StoredMessage>,
    pub(super) now: Timestamp,
    pub(super) ids: NewIds,
    pub(super) bounds: &'static Bounds,
}

impl CommandContext {
    /// Checks that the caller may read the conversation, or write in it. Of one that it may not read
    /// it learns nothing.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check_access(&self, live: &Live, needs: Access) -> Result<(), ConversationError> {
        let assignee = live.state.assignee;
        let readable = self.access.reads.includes(assignee);
        let allowed = match needs {
            Access::Reading => readable,
            Access::Writing => self.access.writes.includes(assignee),
        };
        match (allowed, readable) {
            (true, _) => Ok(()),
            (false, true) => Err(ConversationError::Forbidden),
            (false, false) => Err(ConversationError::NotFound),
        }
    }

    /// Checks that what the request is about still has the entity tag that it was to have.
    ///
    /// # Errors
    /// It has another one.
    pub(super) fn check_etag(
        &self,
        etag: impl FnOnce() -> String,
    ) -> Result<(), ConversationError> {
        match &self.if_match {
            Some(wanted) if !wanted.holds(&etag()) => Err(ConversationError::Precondition),
            Some(_) | None => Ok(()),
        }
    }
}

/// An attachment that a message is to take.
#[derive(Debug, Clone)]
pub(crate) struct OfferedAttachment {
    pub(super) view: AttachmentView,
    /// The sequence of its record, which must not have changed when the message is committed.
    pub(super) sequence: Sequence,
    /// Where its content is read.
    pub(super) url: String,
}

/// The time, the source of identifiers and the limits of a decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecisionContext {
    pub(super) now: Timestamp,
    pub(super) ids: NewIds,
    pub(super) bounds: &'static Bounds,
}

/// Makes the identifiers of what the rules of a conversation create.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewIds {
    /// Made of an instant and the sequence of the message's event.
    pub(super) message: fn(Timestamp, Sequence) -> MessageId,
}

impl NewIds {
    /// Makes identifiers that nobody can guess.
    pub(super) const RANDOM: NewIds = NewIds {
        message: MessageId::with_sequence,
    };
}

/// What a request is checked against before its conversation is asked.
#[derive(Debug)]
pub struct CheckContext<'a> {
    pub(super) tenant: Tenant,
    pub(super) users: &'a Identity,
    /// The clock, which few requests need.
    pub(super) clock: fn() -> Timestamp,
}

impl CheckContext<'_> {
    /// Whether this is a user of the account.
    pub(super) fn is_user(&self, user: UserId) -> bool {
        self.users.user(self.tenant, user).is_some()
    }
}
