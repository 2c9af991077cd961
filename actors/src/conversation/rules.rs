//! The rules of a conversation, pure: each request decides without changing anything. No actor, no
//! clock, no store. The rules of its messages stand in `message_rules`.

use std::sync::Arc;

use super::context::{Access, CheckContext, CommandContext};
use super::draft::{Draft, NewMessage, unchanged};
use super::messages::{
    ChangeConversation, CheckReadable, CloseConversation, CloseIdle, ConversationError, EndSnooze,
    ReadConversation, ReopenConversation, StartConversation, UnassignUser,
};
use super::state::{Conversation, Live};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::commit::Condition;
use colloquy_model::conversation::{
    Channel, ConversationState, MessageCounts, MessageType, Priority, SenderId, SenderType, Status,
};
use colloquy_model::damage::Unreadable;
use colloquy_model::id::{AttachmentId, ConversationId, CustomerId, MessageId};
use colloquy_model::metadata::Metadata;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// A request that a conversation takes: the type of its reply, and its rule.
pub trait ConversationRequest: Send + 'static {
    /// The reply to a request that was done.
    type Reply: Send + 'static;

    /// What the caller must be allowed in the conversation.
    const NEEDS: Access = Access::Writing;

    /// Checks what the request says by itself, before its conversation is asked.
    ///
    /// # Errors
    /// A value is not acceptable, whatever the conversation is.
    fn check(&self, _context: &CheckContext<'_>) -> Result<(), ConversationError> {
        Ok(())
    }

    /// The customer in whose name the request is made, where it names one that must exist.
    fn sending_customer(&self) -> Option<CustomerId> {
        None
    }

    /// The attachment that the request takes for a message, which is looked up before its
    /// conversation is asked.
    fn attachment(&self) -> Option<AttachmentId> {
        None
    }

    /// The message that the request is about, which is read before the rule decides. None where it
    /// is about the conversation itself.
    fn message(&self) -> Option<MessageId> {
        None
    }

    /// Decides on a conversation that is there and the caller's. Whoever asks under a condition
    /// asks about its state, unless the request is about a message.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide(self, live: &Live, context: CommandContext) -> Decided<Self::Reply>;

    /// Decides where no conversation is. Only the request that starts one finds a place there.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide_vacant(self, _id: ConversationId, _context: CommandContext) -> Decided<Self::Reply>
    where
        Self: Sized,
    {
        Err(ConversationError::NotFound)
    }
}

/// What a rule decides, or why it refuses.
pub(super) type Decided<R> = Result<Decision<Conversation, R>, ConversationError>;

/// The reason in the event of a conversation that was closed because nothing happened.
const INACTIVITY: &str = "inactivity";

/// Decides on a request to the conversation of the caller's tenant.
///
/// # Errors
/// Why the request is refused.
pub(super) fn decide<R: ConversationRequest>(
    conversation: &Conversation,
    request: R,
    context: CommandContext,
) -> Decided<R::Reply> {
    let Some(live) = &conversation.live else {
        return request.decide_vacant(conversation.id, context);
    };
    if live.tenant != context.caller.tenant {
        return Err(ConversationError::NotFound);
    }
    context.check_access(live, R::NEEDS)?;
    if request.message().is_none() {
        context.check_etag(|| live.etag(&context.users))?;
    }
    request.decide(live, context)
}

impl ConversationRequest for StartConversation {
    type Reply = Answer;

    fn decide(self, _: &Live, _: CommandContext) -> Decided<Answer> {
        Err(ConversationError::NotFound)
    }

    fn decide_vacant(self, id: ConversationId, context: CommandContext) -> Decided<Answer> {
        let StartConversation { new, customer } = self;
        let created_at = id.created_at();
        let state = ConversationState {
            customer: customer.id,
            status: Status::Active,
            channel: new.channel.unwrap_or(Channel::Chat),
            priority: new.priority.unwrap_or(Priority::Normal),
            assignee: None,
            metadata: colloquy_model::json::text(&new.metadata).into(),
            closed_at: None,
            snoozed_until: None,
            activated_at: created_at,
        };
        let live = Live {
            id,
            tenant: context.caller.tenant,
            state,
            customer: Arc::clone(&customer.name),
            sequence: Sequence::ZERO,
            updated_at: created_at,
            counts: MessageCounts::default(),
        };
        let mut draft = Draft::starting(live, &context);
        if let Some(content) = new.initial_message {
            draft.message(NewMessage {
                content: content.into_string(),
                kind: MessageType::Text,
                sender_type: SenderType::Customer,
                sender_id: Some(SenderId::Customer(customer.id)),
                metadata: Metadata::default(),
                attachment: None,
            });
        }
        let answer = draft.live.answer(&context.users, Done::Created);
        let conditions = vec![Condition::CustomerExists(customer.id)];
        Ok(draft.commit(context, conditions, answer))
    }
}

impl ConversationRequest for ReadConversation {
    type Reply = Answer;
    const NEEDS: Access = Access::Reading;

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        Ok(Decision::Answer(live.answer(&context.users, Done::Ok)))
    }
}

impl ConversationRequest for CheckReadable {
    type Reply = Sequence;
    const NEEDS: Access = Access::Reading;

    fn decide(self, live: &Live, _: CommandContext) -> Decided<Sequence> {
        Ok(Decision::Answer(live.sequence))
    }
}

impl ConversationRequest for ChangeConversation {
    type Reply = Answer;

    fn check(&self, context: &CheckContext<'_>) -> Result<(), ConversationError> {
        let assignee = self.assignee_id.flatten();
        if assignee.is_some_and(|user| !context.is_user(user)) {
            return Err(invalid("assignee_id", "must be a valid user ID"));
        }
        let snoozed_until = self.snoozed_until.flatten();
        if snoozed_until.is_some_and(|until| until <= (context.clock)()) {
            return Err(invalid("snoozed_until", "must be a time in the future"));
        }
        Ok(())
    }

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        if let (Some(field), Some(_)) =
            (self.beyond_the_assigned(), context.access.writes.assignee())
        {
            return Err(ConversationError::ForbiddenField(field));
        }
        let mut after = live.state.clone();
        if let Some(to) = self.status {
            after.status = lead(live.state.status, to)?;
        }
        if let Some(until) = self.snoozed_until {
            snooze(&mut after, until, self.status)?;
        }
        after.priority = self.priority.unwrap_or(after.priority);
        after.channel = self.channel.unwrap_or(after.channel);
        let mut conditions = Vec::new();
        if let Some(assignee) = self.assignee_id {
            after.assignee = assignee;
            conditions.extend(
                assignee
                    .filter(|user| live.state.assignee != Some(*user))
                    .map(Condition::UserExists),
            );
        }
        if let Some(patch) = &self.metadata {
            let held = Metadata::stored(&live.state.metadata).map_err(|error| {
                Unreadable::found(format_args!("{}: metadata", live.id), error);
                ConversationError::Unreadable
            })?;
            let patched = held.patched(patch.as_ref());
            let patched = patched.map_err(|reason| invalid("metadata", &reason))?;
            after.metadata = colloquy_model::json::text(&patched).into();
        }
        Ok(match changed(live, after, None, &context) {
            Some(draft) => shown(draft, context, conditions),
            None => as_it_is(live, context),
        })
    }
}

impl ChangeConversation {
    /// The first field that is not for callers who only write in what is assigned to them.
    fn beyond_the_assigned(&self) -> Option<&'static str> {
        let named = [
            ("channel", self.channel.is_some()),
            ("assignee_id", self.assignee_id.is_some()),
            ("metadata", self.metadata.is_some()),
        ];
        let first = named.into_iter().find(|(_, is_given)| *is_given);
        first.map(|(field, _)| field)
    }
}

impl ConversationRequest for CloseConversation {
    type Reply = Answer;

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let after = ConversationState {
            status: Status::Closed,
            ..live.state.clone()
        };
        Ok(
            match changed(live, after, self.reason.as_deref(), &context) {
                Some(draft) => shown(draft, context, Vec::new()),
                None => as_it_is(live, context),
            },
        )
    }
}

impl ConversationRequest for ReopenConversation {
    type Reply = Answer;

    fn decide(self, live: &Live, context: CommandContext) -> Decided<Answer> {
        let mut after = live.state.clone();
        if after.status == Status::Closed {
            after.status = Status::Active;
        }
        Ok(match changed(live, after, None, &context) {
            Some(draft) => shown(draft, context, Vec::new()),
            None => as_it_is(live, context),
        })
    }
}

impl ConversationRequest for UnassignUser {
    type Reply = ();

    fn decide(self, live: &Live, context: CommandContext) -> Decided<()> {
        let mut after = live.state.clone();
        if after.assignee == Some(self.user) {
            after.assignee = None;
        }
        Ok(unseen(live, after, None, context))
    }
}

impl ConversationRequest for EndSnooze {
    type Reply = ();

    /// No longer snoozed, unless somebody came first.
    fn decide(self, live: &Live, context: CommandContext) -> Decided<()> {
        let mut after = live.state.clone();
        if after
            .snoozed_until
            .is_some_and(|until| until <= context.now)
        {
            after.status = Status::Active;
        }
        Ok(unseen(live, after, None, context))
    }
}

impl ConversationRequest for CloseIdle {
    type Reply = ();

    /// Closed, unless something has happened since.
    fn decide(self, live: &Live, context: CommandContext) -> Decided<()> {
        let mut after = live.state.clone();
        let active_at = live
            .state
            .activated_at
            .max(live.counts.last_message_at.unwrap_or(Timestamp::EPOCH));
        let is_idle = active_at + self.after <= context.now;
        if after.snoozed_until.is_none() && is_idle {
            after.status = Status::Closed;
        }
        Ok(unseen(live, after, Some(INACTIVITY), context))
    }
}

/// The draft of a new state with its one event. None where the state is the one of now.
fn changed(
    live: &Live,
    after: ConversationState,
    reason: Option<&str>,
    context: &CommandContext,
) -> Option<Draft> {
    (after != live.state).then(|| {
        let mut draft = Draft::new(live.clone(), context);
        draft.become_state(after, reason);
        draft
    })
}

/// Commits a draft, with the answer that shows the conversation as it becomes.
fn shown(
    draft: Draft,
    context: CommandContext,
    conditions: Vec<Condition>,
) -> Decision<Conversation, Answer> {
    let answer = draft.live.answer(&context.users, Done::Ok);
    draft.commit(context, conditions, answer)
}

/// Changes nothing, with the answer that shows the conversation.
fn as_it_is(live: &Live, context: CommandContext) -> Decision<Conversation, Answer> {
    let answer = live.answer(&context.users, Done::Ok);
    unchanged(live, context, answer)
}

/// Takes a new state that the server itself asked for, and which nobody waits to be shown.
fn unseen(
    live: &Live,
    after: ConversationState,
    reason: Option<&str>,
    context: CommandContext,
) -> Decision<Conversation, ()> {
    match changed(live, after, reason, &context) {
        Some(draft) => draft.commit_unseen(context),
        None => Decision::Answer(()),
    }
}

/// The refusal of a parameter.
pub(super) fn invalid(field: &'static str, reason: &str) -> ConversationError {
    ConversationError::Invalid(Invalid::new(field, reason))
}

/// Whether a status leads to another.
fn lead(from: Status, to: Status) -> Result<Status, ConversationError> {
    match (from, to) {
        (Status::Closed, Status::Pending) => Err(ConversationError::InvalidTransition { from, to }),
        (Status::Active | Status::Pending, Status::Active | Status::Pending | Status::Closed)
        | (Status::Closed, Status::Active | Status::Closed) => Ok(to),
    }
}

/// Sets or ends the snooze. Ended without a word on the status, it leads to active.
fn snooze(
    after: &mut ConversationState,
    until: Option<Timestamp>,
    status: Option<Status>,
) -> Result<(), ConversationError> {
    if until.is_some() && after.status != Status::Pending {
        return Err(ConversationError::NotPending);
    }
    if until.is_none() && after.snoozed_until.is_some() && status.is_none() {
        after.status = Status::Active;
    }
    after.snoozed_until = until;
    Ok(())
}
