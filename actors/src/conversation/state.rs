//! The rules of a conversation, pure: *decide* without changing, *apply* without failing. No actor, no clock, no store.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::messages::{
    ChangeConversation, Channel, CloseConversation, ConversationCommand, ConversationError, ConversationView,
    CreateConversation, CustomerShown, EditMessage, EmbeddedCustomer, MessageType, MessageView, Priority, Request,
    SendMessage, SenderId, SenderType, Status,
};
use crate::accounts::Identity;
use crate::accounts::names::CustomerName;
use crate::answer::{Answer, Done, Invalid, Precondition};
use crate::caller::{Caller, Scope};
use crate::id::{ConversationId, MessageId, UserId};
use crate::idempotency::Reservation;
use crate::metadata::Metadata;
use crate::runtime::Decision;
use crate::store::{
    Commit, Condition, ConversationState, Happened, Header, KeptAnswer, Kind, NewRow, Rewrite, Seen, StoredMessage,
    Subject, Tallies,
};
use crate::text::is_https_url;
use crate::time::Timestamp;

/// A conversation, or the place of one that is not there.
#[derive(Debug)]
pub struct Conversation {
    pub(super) id: ConversationId,
    pub(super) live: Option<Live>,
}

/// One that is there.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) scope: Scope,
    pub(super) state: ConversationState,
    pub(super) customer: Arc<CustomerName>,
    pub(super) sequence: u64,
    pub(super) updated_at: i64,
    pub(super) tallies: Tallies,
}

/// What a decision makes of the conversation.
#[derive(Debug)]
pub struct Changed(Box<Live>);

type Decided = Result<Decision<Conversation>, ConversationError>;

/// What surrounds a decision: who asks and when.
struct Asked {
    caller: Caller,
    reservation: Option<Reservation>,
    people: Arc<Identity>,
    now: i64,
}

/// What a message's place in the store is found to hold.
pub type Found = Option<StoredMessage>;

impl Conversation {
    /// How the store names it.
    #[must_use]
    pub fn subject(id: ConversationId) -> Subject {
        Subject { kind: Kind::Conversation, number: id.number(), tail: id.tail() }
    }

    /// Judges a command.
    pub(super) fn judge(&self, command: ConversationCommand, found: Option<Found>, now: i64) -> Decision<Self> {
        let ConversationCommand { caller, if_match, reservation, request, people } = command;
        let scope = caller.scope;
        let asked = Asked { caller, reservation, people, now };
        let decided = match (&self.live, request) {
            (None, Request::Create { new, customer }) => Ok(self.create(asked, &new, &customer)),
            (Some(live), request) if live.scope == scope => self.go_on(live, request, asked, if_match.as_ref(), found),
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
            Request::Edit(message, edit) => return self.edit(live, (message, *edit), asked, if_match, found.flatten()),
            Request::Redact(message) => return self.redact(live, message, asked, if_match, found.flatten()),
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_) => {}
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
            Request::Create { .. } | Request::Edit(..) | Request::Redact(_) => Err(ConversationError::NotFound),
        }
    }

    fn create(&self, asked: Asked, new: &CreateConversation, customer: &CustomerShown) -> Decision<Self> {
        let state = ConversationState {
            customer: customer.id,
            status: Status::Active,
            channel: new.channel.unwrap_or(Channel::Chat),
            priority: new.priority.unwrap_or(Priority::Normal),
            assignee: None,
            metadata: compact(&new.metadata),
            closed_at: None,
        };
        let before = Live {
            scope: asked.caller.scope,
            state,
            customer: Arc::clone(&customer.name),
            sequence: 0,
            updated_at: self.id.created_ms(),
            tallies: Tallies::default(),
        };
        let mut draft = Draft::new(self.id, before, &asked);
        draft.live.updated_at = self.id.created_ms();
        draft.event(Happened::ConversationCreated, None, None);
        if let Some(content) = &new.initial_message {
            let said = Said {
                content: content.to_string(),
                kind: MessageType::Text,
                sender_type: SenderType::Customer,
                sender_id: Some(SenderId::Customer(customer.id)),
                metadata: Metadata::default(),
            };
            draft.message(said);
        }
        let header = Header::Conversation { before: None, after: Box::new(draft.live.state.clone()) };
        let answer = self.shown(&draft.live, &asked.people, Done::Created);
        draft.commit(asked, header, vec![Condition::CustomerExists(customer.id)], answer, false)
    }

    fn change(&self, live: &Live, change: &ChangeConversation, asked: Asked) -> Decided {
        let mut after = live.state.clone();
        if let Some(to) = change.status {
            after.status = lead(live.state.status, to)?;
        }
        after.priority = change.priority.unwrap_or(after.priority);
        after.channel = change.channel.unwrap_or(after.channel);
        let mut conditions = Vec::new();
        if let Some(assignee) = change.assignee_id {
            after.assignee = assignee;
            conditions.extend(assignee.filter(|user| live.state.assignee != Some(*user)).map(Condition::UserExists));
        }
        if let Some(patch) = &change.metadata {
            let held: Metadata = serde_json::from_str(&live.state.metadata).unwrap_or_default();
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
    fn unchanged(&self, live: &Live, asked: Asked) -> Decision<Self> {
        let answer = self.shown(live, &asked.people, Done::Ok);
        if asked.reservation.is_none() {
            return Decision::Answer(answer);
        }
        let draft = Draft::new(self.id, live.clone(), &asked);
        let (commit, _) = draft.into_commit(asked, Header::Unchanged, Vec::new(), &answer);
        Decision::Keep { commit, reply: answer }
    }

    fn send(&self, live: &Live, send: SendMessage, asked: Asked) -> Decided {
        let said = said(live, send, asked.caller.by.user)?;
        let reopens = said.sender_type == SenderType::Customer && live.state.status != Status::Active;
        if live.state.status == Status::Closed && !reopens {
            return Err(ConversationError::Closed);
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        let (id, body) = draft.message(said);
        let mut header = Header::Unchanged;
        if reopens {
            let mut after = draft.live.state.clone();
            after.status = Status::Active;
            draft.become_state(after, None);
            header = draft.header(live);
        }
        let etag = Some((live.sequence + 1).to_string());
        let answer = Answer { done: Done::Created, id: Some(id.to_string()), etag, body, replayed: false };
        Ok(draft.commit(asked, header, Vec::new(), answer, true))
    }

    fn edit(
        &self,
        live: &Live,
        (id, edit): (MessageId, EditMessage),
        asked: Asked,
        if_match: Option<&Precondition>,
        found: Found,
    ) -> Decided {
        let held = Held::of(id, live.scope, found.as_ref())?;
        held.check(if_match)?;
        if held.now.redacted {
            return Err(ConversationError::Redacted);
        }
        let mut after = held.now.clone();
        if let Some(content) = edit.content {
            acceptable(after.kind, &content)?;
            after.content = content.into_string();
        }
        if let Some(patch) = &edit.metadata {
            let refused = |reason| ConversationError::Invalid(Invalid::new("metadata", reason));
            after.metadata = after.metadata.patched(patch.as_ref()).map_err(refused)?;
        }
        if after.content == held.now.content && after.metadata == held.now.metadata {
            return Ok(Decision::Answer(held.answer()));
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        after.edited_at = Some(Timestamp(draft.live.updated_at));
        let body = draft.edited(&after, held.sequence);
        let etag = Some((live.sequence + 1).to_string());
        let answer = Answer { done: Done::Ok, id: None, etag, body, replayed: false };
        Ok(draft.commit(asked, Header::Unchanged, Vec::new(), answer, true))
    }

    fn redact(
        &self,
        live: &Live,
        id: MessageId,
        asked: Asked,
        if_match: Option<&Precondition>,
        found: Found,
    ) -> Decided {
        let held = Held::of(id, live.scope, found.as_ref())?;
        held.check(if_match)?;
        let answer = Answer { done: Done::Deleted, id: None, etag: None, body: Bytes::new(), replayed: false };
        if held.now.redacted {
            return Ok(Decision::Answer(answer));
        }
        let mut draft = Draft::new(self.id, live.clone(), &asked);
        draft.edited(&erased(held.now), held.sequence);
        for (sequence, _, payload) in found.iter().flat_map(|found| &found.texts) {
            let text: MessageView = serde_json::from_slice(payload).map_err(|_| ConversationError::MessageNotFound)?;
            draft.rewrites.push(Rewrite { sequence: *sequence, payload: to_json(&erased(text)) });
        }
        Ok(draft.commit(asked, Header::Unchanged, Vec::new(), answer, true))
    }

    fn shown(&self, live: &Live, people: &Identity, done: Done) -> Answer {
        let assignee = live.state.assignee.filter(|user| live.is_user(people, *user));
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
    /// Changes with every event of the conversation, with the customer's name, and when its assignee is no more.
    fn etag(&self, people: &Identity) -> String {
        let gone = if self.state.assignee.is_some_and(|user| !self.is_user(people, user)) { "-0" } else { "" };
        format!("{}-{:08x}{gone}", self.sequence, self.customer.now().tag)
    }

    fn is_user(&self, people: &Identity, user: UserId) -> bool {
        people.user(self.scope, user).is_some()
    }

    /// What it holds in memory beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.state.metadata.len()
    }
}

/// A message as its row holds it.
struct Held {
    now: MessageView,
    sequence: u64,
    latest: u64,
}

impl Held {
    fn of(id: MessageId, scope: Scope, found: Option<&StoredMessage>) -> Result<Self, ConversationError> {
        let found = found.filter(|found| found.scope == scope).ok_or(ConversationError::MessageNotFound)?;
        let read = |text: Option<&(u64, i64, Bytes)>| {
            let (sequence, _, payload) = text?;
            Some((*sequence, serde_json::from_slice::<MessageView>(payload).ok()?))
        };
        let (sequence, _) = read(found.texts.first()).ok_or(ConversationError::MessageNotFound)?;
        let (latest, now) = read(found.texts.last()).ok_or(ConversationError::MessageNotFound)?;
        if now.message_id == id { Ok(Held { now, sequence, latest }) } else { Err(ConversationError::MessageNotFound) }
    }

    fn check(&self, if_match: Option<&Precondition>) -> Result<(), ConversationError> {
        let etag = self.latest.to_string();
        if if_match.is_some_and(|wanted| !wanted.holds(&etag)) { Err(ConversationError::Precondition) } else { Ok(()) }
    }

    fn answer(&self) -> Answer {
        let etag = Some(self.latest.to_string());
        Answer { done: Done::Ok, id: None, etag, body: to_json(&self.now), replayed: false }
    }
}

/// A message as it is read by itself: the answer to a GET.
///
/// # Errors
/// There is no such message for this caller.
pub(super) fn read_message(
    id: MessageId,
    scope: Scope,
    found: Option<&StoredMessage>,
) -> Result<Answer, ConversationError> {
    Held::of(id, scope, found).map(|held| held.answer())
}

/// What a message is to say.
struct Said {
    content: String,
    kind: MessageType,
    sender_type: SenderType,
    sender_id: Option<SenderId>,
    metadata: Metadata,
}

fn said(live: &Live, send: SendMessage, acting: Option<UserId>) -> Result<Said, ConversationError> {
    let kind = send.kind.unwrap_or(MessageType::Text);
    acceptable(kind, &send.content)?;
    let by_default = if acting.is_some() { SenderType::Agent } else { SenderType::Customer };
    let sender_type = send.sender_type.unwrap_or(by_default);
    let refused = |reason: &str| Err(ConversationError::Invalid(Invalid::new("sender_id", reason)));
    let sender_id = match (sender_type, send.sender_id) {
        (SenderType::Customer, None) => Some(SenderId::Customer(live.state.customer)),
        (SenderType::Agent, None) => acting.map(SenderId::User),
        (SenderType::System, None) => None,
        (SenderType::Customer, Some(SenderId::User(_))) => return refused("must be a customer's ID for a customer"),
        (SenderType::Agent, Some(SenderId::Customer(_))) => return refused("must be a user's ID for an agent"),
        (SenderType::System, Some(_)) => return refused("must be left out for the system"),
        (SenderType::Customer | SenderType::Agent, given @ Some(_)) => given,
    };
    Ok(Said { content: send.content.into_string(), kind, sender_type, sender_id, metadata: send.metadata })
}

fn acceptable(kind: MessageType, content: &str) -> Result<(), ConversationError> {
    let refused = |reason| ConversationError::Invalid(Invalid::new("content", reason));
    match kind {
        MessageType::Text => Ok(()),
        MessageType::Image | MessageType::File => is_https_url(content).map_err(refused),
    }
}

fn erased(mut message: MessageView) -> MessageView {
    message.content.clear();
    message.metadata = Metadata::default();
    message.redacted = true;
    message
}

/// Whether a status leads to another.
fn lead(from: Status, to: Status) -> Result<Status, ConversationError> {
    match (from, to) {
        (Status::Closed, Status::Pending) => Err(ConversationError::InvalidTransition { from, to }),
        (Status::Active | Status::Pending, Status::Active | Status::Pending | Status::Closed)
        | (Status::Closed, Status::Active | Status::Closed) => Ok(to),
    }
}

/// What an event of a conversation says.
#[derive(Serialize)]
struct EventData<'a> {
    #[serde(flatten)]
    conversation: ConversationView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Map<String, Value>>,
    /// Stands in every closing, null where none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Option<&'a str>>,
}

/// A commit in the making: rows follow each other, each with the counts up to it.
struct Draft {
    id: ConversationId,
    expected: u64,
    live: Live,
    rows: Vec<NewRow>,
    rewrites: Vec<Rewrite>,
}

impl Draft {
    fn new(id: ConversationId, live: Live, asked: &Asked) -> Self {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = asked.now.max(live.updated_at);
        Draft {
            id,
            expected: live.sequence,
            live: Live { updated_at: at, ..live },
            rows: Vec::new(),
            rewrites: Vec::new(),
        }
    }

    fn row(&mut self, happened: Happened, payload: Bytes, sender: Option<SenderType>, edits: Option<u64>) {
        self.live.sequence += 1;
        let ConversationState { channel, priority, assignee, .. } = self.live.state;
        let seen = Some(Seen { channel, priority, assignee, sender });
        self.rows.push(NewRow { happened, payload, tallies: self.live.tallies, seen, edits });
    }

    /// An event that shows the whole conversation.
    fn event(&mut self, happened: Happened, changes: Option<Map<String, Value>>, reason: Option<Option<&str>>) {
        let name = self.live.customer.now();
        let conversation = view(self.id, &self.live, self.live.state.assignee, &name.name);
        let data = to_json(&EventData { conversation, changes, reason });
        self.row(happened, data, None, None);
    }

    fn message(&mut self, said: Said) -> (MessageId, Bytes) {
        let at = self.live.updated_at;
        self.live.tallies = self.live.tallies.plus(said.sender_type, at);
        let id = MessageId::with_sequence(at, self.live.sequence + 1);
        let body = to_json(&MessageView {
            message_id: id,
            conversation_id: self.id,
            seq: self.live.tallies.total(),
            content: said.content,
            kind: said.kind,
            sender_type: said.sender_type,
            sender_id: said.sender_id,
            metadata: said.metadata,
            sent_at: Timestamp(at),
            edited_at: None,
            redacted: false,
        });
        self.row(Happened::MessageCreated, body.clone(), Some(said.sender_type), None);
        (id, body)
    }

    fn edited(&mut self, message: &MessageView, original: u64) -> Bytes {
        let body = to_json(message);
        self.row(Happened::MessageUpdated, body.clone(), Some(message.sender_type), Some(original));
        body
    }

    /// Takes the new state, with the one event that says so.
    fn become_state(&mut self, mut after: ConversationState, reason: Option<&str>) {
        let before = self.live.state.clone();
        let closes = after.status == Status::Closed && before.status != Status::Closed;
        if closes {
            after.closed_at = Some(self.live.updated_at);
        } else if after.status != Status::Closed {
            after.closed_at = None;
        }
        let changes = changes(&before, &after);
        self.live.state = after;
        let happened = if closes { Happened::ConversationClosed } else { Happened::ConversationUpdated };
        self.event(happened, Some(changes), closes.then_some(reason));
    }

    fn header(&self, before: &Live) -> Header {
        Header::Conversation { before: Some(Box::new(before.state.clone())), after: Box::new(self.live.state.clone()) }
    }

    fn commit(
        self,
        asked: Asked,
        header: Header,
        conditions: Vec<Condition>,
        reply: Answer,
        pipelined: bool,
    ) -> Decision<Conversation> {
        let pipelined = pipelined && conditions.is_empty();
        let (commit, live) = self.into_commit(asked, header, conditions, &reply);
        Decision::Change { change: Changed(Box::new(live)), commit, reply, pipelined }
    }

    fn into_commit(self, asked: Asked, header: Header, conditions: Vec<Condition>, reply: &Answer) -> (Commit, Live) {
        let first_payload = self.rows.first().map(|row| &row.payload);
        let body = (first_payload != Some(&reply.body)).then(|| reply.body.clone());
        let answer = asked.reservation.map(|reservation| KeptAnswer {
            reservation,
            done: reply.done,
            id: reply.id.clone(),
            etag: reply.etag.clone(),
            body,
        });
        let commit = Commit {
            subject: Conversation::subject(self.id),
            expected: self.expected,
            scope: self.live.scope,
            by: asked.caller.by,
            at: self.live.updated_at,
            rows: self.rows,
            header,
            rewrites: self.rewrites,
            conditions,
            answer,
            effects: Vec::new(),
            chore: None,
        };
        (commit, self.live)
    }
}

/// `{"field":{"from":…,"to":…}}` for everything that differs.
fn changes(before: &ConversationState, after: &ConversationState) -> Map<String, Value> {
    let mut changes = Map::new();
    let mut differ = |field: &str, from: Value, to: Value| {
        if from != to {
            changes.insert(field.to_owned(), json!({ "from": from, "to": to }));
        }
    };
    let time = |at: Option<i64>| json!(at.map(Timestamp));
    let metadata = |state: &ConversationState| serde_json::from_str(&state.metadata).unwrap_or(Value::Null);
    differ("status", before.status.word().into(), after.status.word().into());
    differ("channel", before.channel.word().into(), after.channel.word().into());
    differ("priority", before.priority.word().into(), after.priority.word().into());
    differ("assignee_id", json!(before.assignee), json!(after.assignee));
    differ("closed_at", time(before.closed_at), time(after.closed_at));
    differ("metadata", metadata(before), metadata(after));
    changes
}

fn view<'a>(id: ConversationId, live: &'a Live, assignee: Option<UserId>, name: &'a str) -> ConversationView<'a> {
    ConversationView {
        conversation_id: id,
        customer_id: live.state.customer,
        customer: EmbeddedCustomer { id: live.state.customer, name },
        status: live.state.status,
        channel: live.state.channel,
        priority: live.state.priority,
        assignee_id: assignee,
        metadata: raw(&live.state.metadata),
        message_count: live.tallies.total(),
        last_message_at: live.tallies.last_message_at.map(Timestamp),
        snoozed_until: None,
        created_at: Timestamp(id.created_ms()),
        updated_at: Timestamp(live.updated_at),
        closed_at: live.state.closed_at.map(Timestamp),
    }
}

/// What most conversations have for metadata: not worth to be parsed each time that it is shown.
static EMPTY: LazyLock<Box<RawValue>> =
    LazyLock::new(|| RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()));

/// Stored JSON as it stands.
pub(super) fn raw(json: &str) -> &RawValue {
    if json == "{}" {
        return &EMPTY;
    }
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}

fn compact(metadata: &Metadata) -> Box<str> {
    serde_json::to_string(metadata).unwrap_or_else(|_| "{}".to_owned()).into()
}

/// JSON of a shape of ours: these have no maps with keys other than strings, so they can't fail.
pub(super) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    serde_json::to_vec(shape).unwrap_or_default().into()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
