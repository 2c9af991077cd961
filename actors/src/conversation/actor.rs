//! A conversation as the runtime runs it, and how its room is entered. Only order: look up, decide,
//! commit, apply.

use colloquy_model::time::Timestamp;
use std::sync::Arc;

use super::messages::{ConversationCommand, ConversationError, Request};
use super::state::{Changed, Conversation, Found, Live};
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored, StoredConversation};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::commit::{Commit, ConstraintViolation};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::id::{ConversationId, MessageId};
use colloquy_runtime::{BoxFuture, Command, Decision, Entity, LoadError};

impl Conversation {
    /// As it was committed; its customer's name is the one that all its customer's conversations
    /// share.
    fn restored(id: ConversationId, stored: StoredConversation, names: &Names) -> Self {
        let (name, revision) = &stored.customer_name;
        let live = Live {
            tenant: stored.tenant,
            customer: names.cell(stored.state.customer.number(), name, *revision),
            state: stored.state,
            sequence: stored.sequence,
            updated_at: stored.updated_at,
            tallies: stored.tallies,
        };
        Conversation {
            id,
            live: Some(live),
        }
    }
}

impl Entity for Conversation {
    const KIND: &'static str = "conversation";
    type Id = ConversationId;
    type Refusal = ConversationError;
    /// A message of this conversation, which is to be edited or redacted.
    type Lookup = (ConversationId, MessageId);
    type Found = Found;
    type Change = Changed;
    type Commit = Commit;
    type Violation = ConstraintViolation;

    fn vacant(id: ConversationId) -> Self {
        Conversation { id, live: None }
    }

    fn is_vacant(&self) -> bool {
        self.live.is_none()
    }

    fn apply(&mut self, change: Changed) {
        self.take(change);
    }

    fn refused(broken: ConstraintViolation) -> ConversationError {
        let (field, reason) = match broken {
            ConstraintViolation::NoUser => ("assignee_id", "must be a valid user ID"),
            ConstraintViolation::NoCustomer
            | ConstraintViolation::HasConversations
            | ConstraintViolation::HasDocuments
            | ConstraintViolation::Taken(_)
            | ConstraintViolation::Full(_) => ("customer_id", "must be a valid customer ID"),
        };
        ConversationError::Invalid(Invalid::new(field, reason))
    }

    fn revision(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.sequence)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.live.as_ref().map_or(0, Live::bytes)
    }
}

impl Command<Conversation> for ConversationCommand {
    type Reply = Answer;

    fn lookup(&self, entity: &Conversation) -> Option<(ConversationId, MessageId)> {
        let mine = entity
            .live
            .as_ref()
            .is_some_and(|live| live.tenant == self.caller.tenant);
        match &self.request {
            Request::Edit(message, _) | Request::Redact(message) if mine => {
                Some((entity.id, *message))
            }
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Edit(..)
            | Request::Redact(_)
            | Request::Unassign(_)
            | Request::Wake
            | Request::CloseIdle { .. } => None,
        }
    }

    fn decide(
        self,
        entity: &Conversation,
        found: Option<Found>,
        now: Timestamp,
    ) -> Decision<Conversation, Answer> {
        entity.judge(self, found, now.0)
    }
}

impl Kept for Conversation {
    fn subject(id: ConversationId) -> Subject {
        Conversation::subject(id)
    }

    fn restore(id: ConversationId, stored: Stored, names: &Names) -> Result<Self, Unreadable> {
        match stored {
            Stored::Conversation(stored) => Ok(Conversation::restored(id, *stored, names)),
            Stored::Record(_) | Stored::Document(_) => {
                Err(Unreadable::found(id, "it is no conversation"))
            }
        }
    }

    fn find(
        store: Arc<dyn Store>,
        (conversation, message): Self::Lookup,
    ) -> BoxFuture<Result<Found, LoadError>> {
        let finding = store.message(Conversation::subject(conversation), message);
        Box::pin(async move { Ok(finding.await?) })
    }
}
