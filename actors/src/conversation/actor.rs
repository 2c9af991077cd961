//! A conversation as the runtime runs it. Only order: look up, decide, commit, apply.

use std::sync::Arc;

use super::context::{CommandContext, DecisionContext, NewIds, OfferedAttachment};
use super::message_rules::NO_ATTACHMENT;
use super::messages::ConversationError;
use super::rules::{ConversationRequest, decide};
use super::state::{Changed, Conversation, Live};
use crate::accounts::Identity;
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored, StoredConversation, StoredMessage};
use colloquy_model::answer::Invalid;
use colloquy_model::bounds::Bounds;
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{Commit, ConstraintViolation, NameField};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::id::{ConversationId, MessageId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{BoxFuture, Command, Decision, Entity, LoadError, Lookup};

impl Conversation {
    /// As it was committed; its customer's name is the one that all its customer's conversations
    /// share.
    fn restored(id: ConversationId, stored: StoredConversation, names: &Names) -> Self {
        let customer = stored.state.customer.number();
        let live = Live {
            id,
            tenant: stored.tenant,
            customer: names.cell(customer, &stored.customer_name, stored.customer_revision),
            state: stored.state,
            sequence: stored.sequence,
            updated_at: stored.updated_at,
            counts: stored.counts,
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
    type Source = Arc<dyn Store>;
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
            ConstraintViolation::Taken(NameField::TakenAttachment) => {
                return ConversationError::AttachmentTaken;
            }
            ConstraintViolation::NoAttachment => ("attachment_id", NO_ATTACHMENT),
            ConstraintViolation::NoUser => ("assignee_id", "must be a valid user ID"),
            ConstraintViolation::NoCustomer
            | ConstraintViolation::NoDocument
            | ConstraintViolation::HasConversations
            | ConstraintViolation::HasDocuments
            | ConstraintViolation::Taken(_)
            | ConstraintViolation::Full(_) => ("customer_id", "must be a valid customer ID"),
        };
        ConversationError::Invalid(Invalid::new(field, reason))
    }

    fn revision(&self) -> Sequence {
        self.live
            .as_ref()
            .map_or(Sequence::ZERO, |live| live.sequence)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.live.as_ref().map_or(0, Live::bytes)
    }
}

/// A message of a conversation, which is read before a rule decides about it.
#[derive(Debug)]
pub struct MessageLookup {
    conversation: ConversationId,
    message: MessageId,
}

impl Lookup<Conversation> for MessageLookup {
    /// The message, where the conversation has it.
    type Found = Option<StoredMessage>;

    fn find(self, store: Arc<dyn Store>) -> BoxFuture<Result<Option<StoredMessage>, LoadError>> {
        let finding = store.message(Conversation::subject(self.conversation), self.message);
        Box::pin(async move { Ok(finding.await?) })
    }
}

/// A request with all that a conversation needs to decide on it.
#[derive(Debug)]
pub struct ConversationCommand<R> {
    pub(crate) meta: CommandMeta,
    pub(crate) request: R,
    /// The view of the account's users.
    pub(crate) users: Arc<Identity>,
    /// The attachment that the request takes for a message.
    pub(crate) attachment: Option<OfferedAttachment>,
}

impl<R: ConversationRequest> ConversationCommand<R> {
    /// Decides with the time and the source of identifiers that are handed in. `found` is the
    /// message that [`Command::lookup`] asked for.
    pub(super) fn decide_at(
        self,
        conversation: &Conversation,
        found: Option<StoredMessage>,
        context: DecisionContext,
    ) -> Decision<Conversation, R::Reply> {
        let CommandMeta {
            caller,
            access,
            if_match,
            reservation,
        } = self.meta;
        let DecisionContext { now, ids, bounds } = context;
        let context = CommandContext {
            caller,
            access,
            if_match,
            reservation,
            users: self.users,
            attachment: self.attachment,
            message: found,
            now,
            ids,
            bounds,
        };
        decide(conversation, self.request, context).unwrap_or_else(Decision::Refuse)
    }
}

impl<R: ConversationRequest> Command<Conversation> for ConversationCommand<R> {
    type Reply = R::Reply;
    type Lookup = MessageLookup;

    fn request_id(&self) -> Option<&str> {
        Some(&self.meta.caller.actor.request_id)
    }

    fn lookup(&self, conversation: &Conversation) -> Option<MessageLookup> {
        let live = conversation.live.as_ref()?;
        if live.tenant != self.meta.caller.tenant {
            return None;
        }
        Some(MessageLookup {
            conversation: live.id,
            message: self.request.message()?,
        })
    }

    fn decide(
        self,
        conversation: &Conversation,
        found: Option<Option<StoredMessage>>,
        now: Timestamp,
    ) -> Decision<Conversation, R::Reply> {
        let context = DecisionContext {
            now,
            ids: NewIds::RANDOM,
            bounds: Bounds::get(),
        };
        self.decide_at(conversation, found.flatten(), context)
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
}
