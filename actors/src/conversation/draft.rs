//! A commit of a conversation in the making: its rows, each with the counts up to it, and what they
//! say.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::context::{CommandContext, NewIds, OfferedAttachment};
use super::messages::ConversationView;
use super::state::{Changed, Conversation, Live};
use crate::store::StoredMessage;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Caller;
use colloquy_model::commit::{Chore, Commit, Condition, Effect, Header, KeptAnswer, NewRow};
use colloquy_model::conversation::{
    ConversationState, MessageType, MessageView, Seen, SenderId, SenderType, Status,
};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AttachmentId, MessageId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::json::bytes;
use colloquy_model::metadata::Metadata;
use colloquy_model::sequence::Sequence;
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

/// What a new message is to say.
pub(super) struct NewMessage {
    pub(super) content: String,
    pub(super) kind: MessageType,
    pub(super) sender_type: SenderType,
    pub(super) sender_id: Option<SenderId>,
    pub(super) metadata: Metadata,
    pub(super) attachment: Option<OfferedAttachment>,
}

/// A message that was added to a draft.
pub(super) struct AddedMessage {
    pub(super) id: MessageId,
    /// The message in JSON.
    pub(super) body: Bytes,
}

/// A commit in the making: rows follow each other, each with the counts up to it.
pub(super) struct Draft {
    expected: Sequence,
    ids: NewIds,
    pub(super) live: Live,
    rows: Vec<NewRow>,
    header: Header,
    /// The sequence of the message that is redacted.
    redacts: Option<Sequence>,
    /// The attachment that a message takes.
    takes: Option<AttachmentId>,
    chore: Option<Chore>,
}

impl Draft {
    /// A draft without an event, on top of a conversation that is there.
    pub(super) fn new(live: Live, context: &CommandContext) -> Self {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = context.now.max(live.updated_at);
        Draft {
            expected: live.sequence,
            ids: context.ids,
            live: Live {
                updated_at: at,
                ..live
            },
            rows: Vec::new(),
            header: Header::Unchanged,
            redacts: None,
            takes: None,
            chore: None,
        }
    }

    /// A draft that begins a conversation, with the event that says so.
    pub(super) fn starting(live: Live, context: &CommandContext) -> Self {
        let created_at = live.updated_at;
        let mut draft = Draft::new(live, context);
        draft.live.updated_at = created_at;
        draft.header = Header::Conversation {
            before: None,
            after: Box::new(draft.live.state.clone()),
        };
        draft.event(EventKind::ConversationCreated, None, None);
        draft
    }

    /// The next row, with the counts up to it.
    fn next_row(&mut self, kind: EventKind, payload: Bytes, sender: Option<SenderType>) -> NewRow {
        self.live.sequence = self.live.sequence.next();
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
        NewRow {
            counts: self.live.counts,
            seen,
            ..NewRow::new(kind, payload)
        }
    }

    /// An event that shows the whole conversation.
    fn event(
        &mut self,
        kind: EventKind,
        changes: Option<Map<String, Value>>,
        reason: Option<Option<&str>>,
    ) {
        let name = self.live.customer.now();
        let conversation = self.live.view(self.live.state.assignee, &name.name);
        let data = bytes(&EventData {
            conversation,
            changes,
            reason,
        });
        let row = self.next_row(kind, data, None);
        self.rows.push(row);
    }

    /// Adds a message, with its event.
    pub(super) fn message(&mut self, new: NewMessage) -> AddedMessage {
        let at = self.live.updated_at;
        self.live.counts = self.live.counts.plus(new.sender_type, at);
        let id = (self.ids.message)(at, self.live.sequence.next());
        let text_bytes = length(&new.content);
        let attachment = new.attachment.map(|offered| offered.view);
        self.takes = attachment.as_ref().map(|view| view.attachment_id);
        let body = bytes(&MessageView {
            message_id: id,
            conversation_id: self.live.id,
            seq: self.live.counts.total(),
            content: new.content,
            kind: new.kind,
            sender_type: new.sender_type,
            sender_id: new.sender_id,
            metadata: new.metadata,
            sent_at: at,
            edited_at: None,
            redacted: false,
            attachment,
        });
        let sender = Some(new.sender_type);
        let row = self.next_row(EventKind::MessageCreated, body.clone(), sender);
        self.rows.push(NewRow { text_bytes, ..row });
        AddedMessage { id, body }
    }

    /// Puts `after` in the place of the message that is held, with the event that says so.
    pub(super) fn edited(&mut self, held: &StoredMessage, after: &MessageView) -> Bytes {
        let body = bytes(after);
        let sender = Some(after.sender_type);
        let row = self.next_row(EventKind::MessageUpdated, body.clone(), sender);
        self.rows.push(NewRow {
            edits: Some(held.sequence),
            text_bytes: length(&after.content) - length(&held.now.content),
            ..row
        });
        body
    }

    /// Erases all texts of the message that is held; `left` is what is left of it.
    pub(super) fn redacted(&mut self, held: &StoredMessage, left: &MessageView) {
        self.edited(held, left);
        self.redacts = Some(held.sequence);
        let attachment = held.now.attachment.as_ref();
        self.chore =
            attachment.map(|view| Chore::EraseAttachment(self.live.tenant, view.attachment_id));
    }

    /// Takes the new state, with the one event that says so. What follows from its status is set
    /// here, whichever way it came about.
    pub(super) fn become_state(&mut self, mut after: ConversationState, reason: Option<&str>) {
        let before = &self.live.state;
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
        let changes = changes(before, &after);
        let before = std::mem::replace(&mut self.live.state, after.clone());
        self.header = Header::Conversation {
            before: Some(Box::new(before)),
            after: Box::new(after),
        };
        let kind = if closes {
            EventKind::ConversationClosed
        } else {
            EventKind::ConversationUpdated
        };
        self.event(kind, Some(changes), closes.then_some(reason));
    }

    /// Commits the draft with this answer. With conditions the next request waits until the commit
    /// is settled.
    pub(super) fn commit(
        self,
        context: CommandContext,
        conditions: Vec<Condition>,
        reply: Answer,
    ) -> Decision<Conversation, Answer> {
        let pipelined = conditions.is_empty();
        let answer = self.kept(context.reservation, &reply);
        let caller = context.caller;
        let (change, commit) = self.into_commit(caller, answer, conditions);
        Decision::Change {
            change,
            commit,
            reply,
            pipelined,
        }
    }

    /// Commits the draft, which nobody waits to be shown anything of.
    pub(super) fn commit_unseen(self, context: CommandContext) -> Decision<Conversation, ()> {
        let (change, commit) = self.into_commit(context.caller, None, Vec::new());
        Decision::Change {
            change,
            commit,
            reply: (),
            pipelined: true,
        }
    }

    /// The answer as it is kept under an idempotency key. What the first event holds is not kept
    /// twice.
    fn kept(&self, reservation: Option<Reservation>, reply: &Answer) -> Option<KeptAnswer> {
        let reservation = reservation?;
        let first_payload = self.rows.first().map(|row| &row.payload);
        let body = (first_payload != Some(&reply.body)).then(|| reply.body.clone());
        Some(KeptAnswer {
            reservation,
            done: reply.done,
            id: reply.id.clone(),
            etag: reply.etag.clone(),
            body,
        })
    }

    fn into_commit(
        self,
        caller: Caller,
        answer: Option<KeptAnswer>,
        conditions: Vec<Condition>,
    ) -> (Changed, Commit) {
        let Draft {
            expected,
            live,
            rows,
            header,
            redacts,
            takes,
            chore,
            ..
        } = self;
        let snoozed_until = match &header {
            Header::Conversation { after, .. } => after.snoozed_until,
            Header::Unchanged
            | Header::ConversationGone { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::RecordErased
            | Header::Document(_)
            | Header::DocumentGone { .. }
            | Header::LinkUsed { .. } => None,
        };
        let caller = Caller {
            tenant: live.tenant,
            actor: caller.actor,
        };
        let subject = Conversation::subject(live.id);
        let commit = Commit {
            rows,
            header,
            redacts,
            takes,
            chore,
            conditions,
            answer,
            effects: snoozed_until.map(Effect::Snoozed).into_iter().collect(),
            ..Commit::new(subject, expected, caller, live.updated_at)
        };
        (Changed(Some(Box::new(live))), commit)
    }
}

/// An answer that changes nothing. Under an idempotency key it is kept all the same.
pub(super) fn unchanged(
    live: &Live,
    context: CommandContext,
    reply: Answer,
) -> Decision<Conversation, Answer> {
    if context.reservation.is_none() {
        return Decision::Answer(reply);
    }
    let draft = Draft::new(live.clone(), &context);
    let answer = draft.kept(context.reservation, &reply);
    let (_, commit) = draft.into_commit(context.caller, answer, Vec::new());
    Decision::Keep { commit, reply }
}

/// How many bytes a text has.
fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// `{"field":{"from":…,"to":…}}` for everything that differs.
fn changes(before: &ConversationState, after: &ConversationState) -> Map<String, Value> {
    let mut changes = Map::new();
    let mut differ = |field: &str, from: Value, to: Value| {
        if from != to {
            changes.insert(field.to_owned(), json!({ "from": from, "to": to }));
        }
    };
    let time = |at: Option<Timestamp>| json!(at);
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
