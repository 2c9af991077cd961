//! A commit of a conversation in the making: its rows, each with the counts up to it, and what they
//! say.

use std::sync::LazyLock;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::message_rules::NewMessage;
use super::messages::{ConversationView, EmbeddedCustomer};
use super::state::{Asked, Changed, Conversation, Live};
use colloquy_model::answer::Answer;
use colloquy_model::caller::Caller;
use colloquy_model::commit::{Commit, Condition, Effect, Header, KeptAnswer, NewRow};
use colloquy_model::conversation::{ConversationState, MessageView, Seen, SenderType, Status};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, MessageId, UserId};
use colloquy_model::metadata::Metadata;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

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
pub(super) struct Draft {
    id: ConversationId,
    expected: u64,
    pub(super) live: Live,
    rows: Vec<NewRow>,
    /// The sequence of the message that is redacted.
    pub(super) redacts: Option<u64>,
}

impl Draft {
    pub(super) fn new(id: ConversationId, live: Live, asked: &Asked) -> Self {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = asked.now.max(live.updated_at);
        Draft {
            id,
            expected: live.sequence,
            live: Live {
                updated_at: at,
                ..live
            },
            rows: Vec::new(),
            redacts: None,
        }
    }

    fn row(
        &mut self,
        happened: EventKind,
        payload: Bytes,
        sender: Option<SenderType>,
        edits: Option<u64>,
    ) {
        self.live.sequence += 1;
        let ConversationState {
            channel,
            priority,
            assignee,
            ..
        } = self.live.state;
        let seen = Some(Seen {
            channel,
            priority,
            assignee,
            sender,
        });
        self.rows.push(NewRow {
            happened,
            payload,
            tallies: self.live.tallies,
            seen,
            edits,
        });
    }

    /// An event that shows the whole conversation.
    pub(super) fn event(
        &mut self,
        happened: EventKind,
        changes: Option<Map<String, Value>>,
        reason: Option<Option<&str>>,
    ) {
        let name = self.live.customer.now();
        let conversation = view(self.id, &self.live, self.live.state.assignee, &name.name);
        let data = to_json(&EventData {
            conversation,
            changes,
            reason,
        });
        self.row(happened, data, None, None);
    }

    pub(super) fn message(&mut self, said: NewMessage) -> (MessageId, Bytes) {
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
        self.row(
            EventKind::MessageCreated,
            body.clone(),
            Some(said.sender_type),
            None,
        );
        (id, body)
    }

    pub(super) fn edited(&mut self, message: &MessageView, original: u64) -> Bytes {
        let body = to_json(message);
        self.row(
            EventKind::MessageUpdated,
            body.clone(),
            Some(message.sender_type),
            Some(original),
        );
        body
    }

    /// Takes the new state, with the one event that says so. What follows from its status is set
    /// here, whichever way it came about.
    pub(super) fn become_state(&mut self, mut after: ConversationState, reason: Option<&str>) {
        let before = self.live.state.clone();
        let closes = after.status == Status::Closed && before.status != Status::Closed;
        if closes {
            after.closed_at = Some(self.live.updated_at);
        } else if after.status != Status::Closed {
            after.closed_at = None;
        }
        if after.status != Status::Pending {
            after.snoozed_until = None;
        }
        let reopens = before.status == Status::Closed && after.status != Status::Closed;
        let wakes = before.snoozed_until.is_some() && after.snoozed_until.is_none();
        if reopens || wakes {
            after.activated_at = self.live.updated_at;
        }
        let changes = changes(&before, &after);
        self.live.state = after;
        let happened = if closes {
            EventKind::ConversationClosed
        } else {
            EventKind::ConversationUpdated
        };
        self.event(happened, Some(changes), closes.then_some(reason));
    }

    pub(super) fn header(&self, before: &Live) -> Header {
        Header::Conversation {
            before: Some(Box::new(before.state.clone())),
            after: Box::new(self.live.state.clone()),
        }
    }

    pub(super) fn commit(
        self,
        asked: Asked,
        header: Header,
        conditions: Vec<Condition>,
        reply: Answer,
        pipelined: bool,
    ) -> Decision<Conversation, Answer> {
        let pipelined = pipelined && conditions.is_empty();
        let (commit, live) = self.into_commit(asked, header, conditions, &reply);
        Decision::Change {
            change: Changed(Box::new(live)),
            commit,
            reply,
            pipelined,
        }
    }

    pub(super) fn into_commit(
        self,
        asked: Asked,
        header: Header,
        conditions: Vec<Condition>,
        reply: &Answer,
    ) -> (Commit, Live) {
        let first_payload = self.rows.first().map(|row| &row.payload);
        let body = (first_payload != Some(&reply.body)).then(|| reply.body.clone());
        let answer = asked.reservation.map(|reservation| KeptAnswer {
            reservation,
            done: reply.done,
            id: reply.id.clone(),
            etag: reply.etag.clone(),
            body,
        });
        let snoozed_until = match &header {
            Header::Conversation { after, .. } => after.snoozed_until,
            Header::Unchanged
            | Header::Record { .. }
            | Header::RecordGone
            | Header::Document(_)
            | Header::DocumentGone
            | Header::LinkUsed { .. } => None,
        };
        let effects = snoozed_until.map(Effect::Snoozed).into_iter().collect();
        let caller = Caller {
            tenant: self.live.tenant,
            by: asked.caller.by,
        };
        let commit = Commit::new(
            Conversation::subject(self.id),
            self.expected,
            caller,
            self.live.updated_at,
        );
        let Draft {
            rows,
            redacts,
            live,
            ..
        } = self;
        (
            Commit {
                rows,
                header,
                redacts,
                conditions,
                answer,
                effects,
                ..commit
            },
            live,
        )
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
    let metadata =
        |state: &ConversationState| serde_json::from_str(&state.metadata).unwrap_or(Value::Null);
    differ(
        "status",
        before.status.word().into(),
        after.status.word().into(),
    );
    differ(
        "channel",
        before.channel.word().into(),
        after.channel.word().into(),
    );
    differ(
        "priority",
        before.priority.word().into(),
        after.priority.word().into(),
    );
    differ("assignee_id", json!(before.assignee), json!(after.assignee));
    differ(
        "snoozed_until",
        time(before.snoozed_until),
        time(after.snoozed_until),
    );
    differ("closed_at", time(before.closed_at), time(after.closed_at));
    differ("metadata", metadata(before), metadata(after));
    changes
}

pub(super) fn view<'a>(
    id: ConversationId,
    live: &'a Live,
    assignee: Option<UserId>,
    name: &'a str,
) -> ConversationView<'a> {
    ConversationView {
        conversation_id: id,
        customer_id: live.state.customer,
        customer: EmbeddedCustomer {
            id: live.state.customer,
            name,
        },
        status: live.state.status,
        channel: live.state.channel,
        priority: live.state.priority,
        assignee_id: assignee,
        metadata: raw(&live.state.metadata),
        message_count: live.tallies.total(),
        last_message_at: live.tallies.last_message_at.map(Timestamp),
        snoozed_until: live.state.snoozed_until.map(Timestamp),
        created_at: Timestamp(id.created_ms()),
        updated_at: Timestamp(live.updated_at),
        closed_at: live.state.closed_at.map(Timestamp),
    }
}

/// What most conversations have for metadata: not worth to be parsed each time that it is shown.
static EMPTY: LazyLock<Box<RawValue>> = LazyLock::new(|| {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
});

/// Stored JSON as it stands.
pub(super) fn raw(json: &str) -> &RawValue {
    if json == "{}" {
        return &EMPTY;
    }
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}

pub(super) fn compact(metadata: &Metadata) -> Box<str> {
    colloquy_model::json::text(metadata).into()
}

/// JSON of a shape of ours: these have no maps with keys other than strings, so they can't fail.
pub(super) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    colloquy_model::json::bytes(shape)
}
