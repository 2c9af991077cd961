//! One event, and the bytes that everybody who gets it sees.

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::caller::{CredentialCode, Tenant};
use crate::conversation::{Channel, Priority};
use crate::entity_number::EntityNumber;
use crate::event_kind::EventKind;
use crate::id::EventId;
use crate::position::Position;
use crate::sequence::Sequence;
use crate::stream::FeedNumber;
use crate::time::Timestamp;

/// An event as it was committed.
#[derive(Debug, Clone)]
pub struct Event {
    /// Where it stands among everything that was ever committed.
    pub position: Position,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// Its number in its account and mode.
    pub number: FeedNumber,
    /// The number of the entity's identifier.
    pub entity: EntityNumber,
    /// Its `seq`: 1, 2, 3 … in its entity.
    pub sequence: Sequence,
    /// The kind of event.
    pub kind: EventKind,
    /// When the event was committed.
    pub at: Timestamp,
    /// With which credential it was done; none: in a session of the console, or by the server
    /// itself.
    pub credential: Option<CredentialCode>,
    /// What filters see: the conversation's channel as of this commit …
    pub channel: Option<Channel>,
    /// … its priority …
    pub priority: Option<Priority>,
    /// … and the number of its assignee's identifier.
    pub assignee: Option<EntityNumber>,
    /// How many bytes it added to the texts of the account; negative where it took some away.
    pub text_bytes: i64,
    /// `data`, in JSON.
    pub payload: Bytes,
    body: OnceLock<Bytes>,
}

/// All of an event but its data.
#[derive(Serialize)]
struct Head {
    id: EventId,
    event: &'static str,
    created_at: Timestamp,
    api_version: &'static str,
    seq: Sequence,
}

impl Event {
    /// Puts together what a row holds; `body` is made when it is first asked for.
    #[must_use]
    pub fn new(row: EventRow, seen: SeenNow, payload: Bytes) -> Self {
        let EventRow {
            position,
            tenant,
            number,
            entity,
            sequence,
            kind,
            at,
            credential,
            text_bytes,
        } = row;
        let SeenNow {
            channel,
            priority,
            assignee,
        } = seen;
        let body = OnceLock::new();
        Event {
            position,
            tenant,
            number,
            entity,
            sequence,
            kind,
            at,
            credential,
            channel,
            priority,
            assignee,
            text_bytes,
            payload,
            body,
        }
    }

    /// The same event under another number.
    #[must_use]
    pub fn numbered(&self, number: FeedNumber) -> Self {
        Event {
            number,
            ..self.clone()
        }
    }

    /// The same event with other data.
    #[must_use]
    pub fn with_payload(self, payload: Bytes) -> Self {
        Event {
            payload,
            body: OnceLock::new(),
            ..self
        }
    }

    /// The identifier, made of the event's instant and position: the same each time that it is read.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::at_position(self.at, self.position)
    }

    /// `{"id":…,"event":…,"created_at":…,"api_version":…,"seq":…,"data":…}`: what lists, streams
    /// and webhooks show.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.body.get_or_init(|| self.written()).clone()
    }

    fn written(&self) -> Bytes {
        let head = Head {
            id: self.id(),
            event: self.kind.word(),
            created_at: self.at,
            api_version: "1.0",
            seq: self.sequence,
        };
        let mut body = BytesMut::with_capacity(self.payload.len() + 192).writer();
        // A shape of ours: it can't fail.
        let _ = serde_json::to_writer(&mut body, &head);
        let mut body = body.into_inner();
        body.truncate(body.len().saturating_sub(1));
        body.extend_from_slice(b",\"data\":");
        body.extend_from_slice(&self.payload);
        body.put_u8(b'}');
        body.freeze()
    }
}

/// An event's row, without its data and without what filters see of it.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "as in `Event`")]
pub struct EventRow {
    pub position: Position,
    pub tenant: Tenant,
    pub number: FeedNumber,
    pub entity: EntityNumber,
    pub sequence: Sequence,
    pub kind: EventKind,
    pub at: Timestamp,
    pub credential: Option<CredentialCode>,
    pub text_bytes: i64,
}

/// What event filters see of an event, as of its commit.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "as in `Event`")]
pub struct SeenNow {
    pub channel: Option<Channel>,
    pub priority: Option<Priority>,
    pub assignee: Option<EntityNumber>,
}
