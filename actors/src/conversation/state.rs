//! The rules of a conversation, pure: *decide* without changing, *apply* without failing. No actor,
//! no clock, no store.

use std::sync::Arc;

use super::draft::{Draft, compact, to_json, view};
use super::message_rules::NewMessage;
use super::messages::{
    ChangeConversation, CloseConversation, ConversationCommand, ConversationError,
    CreateConversation, CustomerShown, Request,
};
use crate::accounts::Identity;
use crate::customer_names::CustomerName;
use crate::store::StoredMessage;
use colloquy_model::answer::{Answer, Done, Invalid, Precondition};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{Condition, Header};
use colloquy_model::conversation::{
    Channel, ConversationState, MessageCounts, MessageType, Priority, SenderId, SenderType, Status,
};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::metadata::Metadata;
use colloquy_runtime::Decision;

/// A conversation, or the place of one that is not there.
#[derive(Debug)]
pub struct Conversation {
    pub(super) id: ConversationId,
    pub(super) live: Option<Live>,
}

/// One that is there.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) tenant: Tenant,
    pub(super) state: ConversationState,
    pub(super) customer: Arc<CustomerName>,
    pub(super) sequence: u64,
    pub(super) updated_at: i64,
    pub(super) tallies: MessageCounts,
}

/// What a decision makes of the conversation.
#[derive(Debug)]
pub struct Changed(pub(super) Box<Live>);

pub(super) type Decided = Result<Decision<Conversation, Answer>, ConversationError>;

/// The reason in the event of a conversation that was closed because nothing happened.
const INACTIVITY: &str = "inactivity";

/// What surrounds a decision: who asks and when.
pub(super) struct Asked {
    pub(super) caller: Caller,
    pub(super) reservation: Option<Reservation>,
    pub(super) people: Arc<Identity>,
    pub(super) now: i64,
}

/// What a message's place in the store is found to hold.
pub type Found = Option<StoredMessage>;

impl Conversation {
    /// The entity as the store names it.
    #[must_use]
    pub fn subject(id: ConversationId) -> Subject {
        Subject {
            kind: Kind::Conversation,
            number: id.number(),
            tail: id.tail(),
        }
    }

    /// Judges a command.
    pub(super) fn judge(
        &self,
        command: ConversationCommand,
        found: Option<Found>,
        now: i64,
    ) -> Decision<Self, Answer> {
        let ConversationCommand {
            caller,
            if_match,
            reservation,
            request,
            people,
        } = command;
        let tenant = caller.tenant;
        let asked = Asked {
            caller,
            reservation,
            people,
            now,
        };
        let decided = match (&self.live, request) {
            (None, Request::Create { new, customer }) => Ok(self.create(asked, &new, &customer)),
            (Some(live), request) if live.tenant == tenant => {
                self.go_on(live, request, asked, if_match.as_ref(), found)
            }
            (None | Some(_), _) => Err(ConversationError::NotFound),
        };
        decided.unwrap_or_else(Decision::Refuse)
    }

    pub(super) fn take(&mut self, changed: Changed) {
        self.live = Some(*changed.0);
    }

    fn go_on(
        &self,
        live: &Live,
        request: Request,
        asked: Asked,
        if_match: Option<&Precondition>,
        found: Option<Found>,
    ) -> Decided {
        match request {
            Request::Edit(message, edit) => {
                return self.edit(live, (message, *edit), asked, if_match, found.flatten());
            }
            Request::Redact(message) => {
                return self.redact(live, message, asked, if_match, found.flatten());
            }
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_)
            | Request::Wake
            | Request::CloseIdle { .. } => {}
        }
        if if_match.is_some_and(|wanted| !wanted.holds(&live.etag(&asked.people))) {
            return Err(ConversationError::Precondition);
        }
        match request {
            Request::Read => Ok(Decision::Answer(self.shown(live, &asked.people, Done::Ok))),
            Request::Change(change) => self.change(live, &change, asked),
            Request::Close(close) => self.close(live, &close, asked),
            Request::Reopen => self.reopen(live, asked),
            Request::Send(send) => self.send(live, *send, asked),
            Request::Unassign(user) => self.unassign(live, user, asked),
            Request::Wake => self.wake(live, asked),
            Request::CloseIdle { after_ms } => self.close_idle(live, after_ms, asked),
            Request::Create { .. } | Request::Edit(..) | Request::Redact(_) => {
                Err(ConversationError::NotFound)
            }
        }
    }

    fn create(
        &self,
        asked: Asked,
        new: &CreateConversation,
        customer: &CustomerShown,
    ) -> Decision<Self, Answer> {
        let state = ConversationState {
            customer: customer.id,
            status: Status::Active,
            channel: new.channel.unwrap_or(Channel::Chat),
            priority: new.priority.unwrap_or(Priority::Normal),
            assignee: None,
            metadata: compact(&new.metadata),
            closed_at: None,
            snoozed_until: None,
            activated_at: self.id.created_ms(),
        };
        let before = Live {
            tenant: asked.caller.tenant,
            state,
            customer: Arc::clone(&customer.name),
            sequence: 0,
            updated_at: self.id.created_ms(),
            tallies: MessageCounts::default(),
        };
        let mut draft = Draft::new(self.id, before, &asked);
        draft.live.updated_at = self.id.created_ms();
        draft.event(EventKind::ConversationCreated, None, None);
        if let Some(content) = &new.initial_message {
            let said = NewMessage {
                content: content.to_string(),
                kind: MessageType::Text,
                sender_type: SenderType::Customer,
                sender_id: Some(SenderId::Customer(customer.id)),
                metadata: Metadata::default(),
            };
            draft.message(said);
        }
        let header = Header::Conversation {
            before: None,
            after: Box::new(draft.live.state.clone()),
        };
        let answer = self.shown(&draft.live, &asked.people, Done::Created);
        draft.commit(
            asked,
            header,
            vec![Condition::CustomerExists(customer.id)],
            answer,
            false,
        )
    }

    fn change(&self, live: &Live, change: &ChangeConversation, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        if let Some(to) = change.status {
            after.status = lead(live.state.status, to)?;
        }
        if let Some(until) = change.snoozed_until {
            snooze(&mut after, until.map(|at| at.0), change.status)?;
        }
        after.priority = change.priority.unwrap_or(after.priority);
        after.channel = change.channel.unwrap_or(after.channel);
        let mut conditions = Vec::new();
        if let Some(assignee) = change.assignee_id {
            after.assignee = assignee;
            conditions.extend(
                assignee
                    .filter(|user| live.state.assignee != Some(*user))
                    .map(Condition::UserExists),
            );
        }
        if let Some(patch) = &change.metadata {
            let held = Metadata::stored(&live.state.metadata).map_err(|error| {
                Unreadable::found(format_args!("{}: metadata", self.id), error);
                ConversationError::Unreadable
            })?;
            let refused = |reason| ConversationError::Invalid(Invalid::new("metadata", reason));
            after.metadata = compact(&held.patched(patch.as_ref()).map_err(refused)?);
        }
        self.put(live, after, asked, None, conditions)
    }

    fn close(&self, live: &Live, close: &CloseConversation, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        after.status = Status::Closed;
        self.put(live, after, asked, close.reason.as_deref(), Vec::new())
    }

    fn reopen(&self, live: &Live, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        if after.status == Status::Closed {
            after.status = Status::Active;
        }
        self.put(live, after, asked, None, Vec::new())
    }

    fn unassign(&self, live: &Live, user: UserId, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        if after.assignee == Some(user) {
            after.assignee = None;
        }
        self.put(live, after, asked, None, Vec::new())
    }

    /// Its time has come: no longer snoozed, unless somebody came first.
    fn wake(&self, live: &Live, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        if after.snoozed_until.is_some_and(|until| until <= asked.now) {
            after.status = Status::Active;
        }
        self.put(live, after, asked, None, Vec::new())
    }

    /// Nothing has happened for so long: closed, unless that is not so.
    fn close_idle(&self, live: &Live, after_ms: i64, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        let active_at = live
            .state
            .activated_at
            .max(live.tallies.last_message_at.unwrap_or(0));
        if after.snoozed_until.is_none() && active_at.saturating_add(after_ms) <= asked.now {
            after.status = Status::Closed;
        }
        self.put(live, after, asked, Some(INACTIVITY), Vec::new())
    }

    /// Puts a new state with its one event, or answers that nothing changes.
    fn put(
        &self,
        live: &Live,
        after: ConversationState,
        asked: Asked,
        reason: Option<&str>,
        conditions: Vec<Condition>,
    ) -> Decided {
        if after == live.state {
            return Ok(self.unchanged(live, asked));
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        draft.become_state(after, reason);
        let header = draft.header(live);
        let answer = self.shown(&draft.live, &asked.people, Done::Ok);
        Ok(draft.commit(asked, header, conditions, answer, true))
    }

    /// A 2xx that changes nothing; with a key, its answer is kept all the same.
    fn unchanged(&self, live: &Live, asked: Asked) -> Decision<Self, Answer> {
        let answer = self.shown(live, &asked.people, Done::Ok);
        if asked.reservation.is_none() {
            return Decision::Answer(answer);
        }
        let draft = Draft::new(self.id, live.clone(), &asked);
        let (commit, _) = draft.into_commit(asked, Header::Unchanged, Vec::new(), &answer);
        Decision::Keep {
            commit,
            reply: answer,
        }
    }

    fn shown(&self, live: &Live, people: &Identity, done: Done) -> Answer {
        let assignee = live
            .state
            .assignee
            .filter(|user| live.is_user(people, *user));
        Answer {
            done,
            id: (done == Done::Created).then(|| self.id.to_string()),
            etag: Some(live.etag(people)),
            body: to_json(&view(self.id, live, assignee, &live.customer.now().name)),
            replayed: false,
        }
    }
}

impl Live {
    /// Changes with every event of the conversation, with the customer's name, and when its
    /// assignee is no more.
    fn etag(&self, people: &Identity) -> String {
        let gone = if self
            .state
            .assignee
            .is_some_and(|user| !self.is_user(people, user))
        {
            "-0"
        } else {
            ""
        };
        format!("{}-{:08x}{gone}", self.sequence, self.customer.now().tag)
    }

    fn is_user(&self, people: &Identity, user: UserId) -> bool {
        people.user(self.tenant, user).is_some()
    }

    /// What it holds in memory beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.state.metadata.len()
    }
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
    until: Option<i64>,
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

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
