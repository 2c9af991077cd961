//! What comes out of a store, and how it is asked for.

use std::sync::Arc;

use bytes::Bytes;

use super::documents::StoredDocument;
use colloquy_model::answer::Done;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::RecordName;
use colloquy_model::conversation::{
    Channel, ConversationState, MessageCounts, MessageView, Priority, SenderType, Status,
};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationId, CustomerId, MessageId, UserId};
use colloquy_model::page::Paging;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// An entity as it is committed.
#[derive(Debug)]
pub enum Stored {
    /// A conversation, as its actor begins with it.
    Conversation(Box<StoredConversation>),
    /// An account, key, user, customer or webhook endpoint.
    Record(StoredRecord),
    /// A document, as its actor begins with it.
    Document(Box<StoredDocument>),
}

/// What a conversation's actor starts from.
#[derive(Debug)]
pub struct StoredConversation {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The conversation's header as it is committed.
    pub state: ConversationState,
    /// The customer's name as it is now.
    pub customer_name: Box<str>,
    /// The customer's revision that gave it that name.
    pub customer_revision: Sequence,
    /// The sequence of its last row.
    pub sequence: Sequence,
    /// When that row was committed.
    pub updated_at: Timestamp,
    /// How many messages there are up to and with it.
    pub counts: MessageCounts,
}

/// A record as it is committed.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// The record that is meant.
    pub subject: Subject,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The sequence of its last row.
    pub sequence: Sequence,
    /// The name that people call it by.
    pub name: Box<str>,
    /// The record in JSON, as its entity wrote it.
    pub body: String,
}

/// A conversation as lists show it.
#[derive(Debug)]
pub struct ConversationHeader {
    /// The identifier of the conversation.
    pub id: ConversationId,
    /// The conversation's header as it is committed.
    pub state: ConversationState,
    /// The customer's name as lists show it.
    pub customer_name: Box<str>,
    /// How many messages the conversation has.
    pub messages: u64,
    /// When the last message was sent.
    pub last_message_at: Option<Timestamp>,
    /// When anything changed last.
    pub updated_at: Timestamp,
}

/// A message as its last edit, if any, left it.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The sequence of the message's own row.
    pub sequence: Sequence,
    /// The sequence of the row that it stands in: that of its last edit, or its own.
    pub latest: Sequence,
    /// How often it was edited; its redaction counts.
    pub edits: u64,
    /// The message as the interface shows it.
    pub now: MessageView,
}

/// A list of a message's earlier texts.
#[derive(Debug, Clone, Copy)]
pub struct RevisionQuery {
    /// The account and mode that asks.
    pub tenant: Tenant,
    /// The message's conversation.
    pub conversation: Subject,
    /// The message whose earlier texts are listed.
    pub message: MessageId,
    /// The part of the list that is wanted; it begins at an offset, never at a cursor.
    pub paging: Paging,
}

/// A page, in the list's order.
#[derive(Debug)]
pub struct StoredPage<T> {
    /// The items of the page, in the order of the list.
    pub items: Vec<T>,
    /// How many the whole list has.
    pub total: u64,
    /// Whether anything stands before.
    pub before: bool,
    /// Whether anything follows in the list.
    pub after: bool,
}

/// The kept answer of an idempotency key.
#[derive(Debug)]
pub struct KeptRow {
    /// The hash of the idempotency key.
    pub hash: [u8; 16],
    /// Which request: what is left of its [`colloquy_model::idempotency::Fingerprint`].
    pub request: Vec<u8>,
    /// When the answer was committed.
    pub at: Timestamp,
    /// What the request did: its status follows from it.
    pub done: Done,
    /// The identifier of what was created.
    pub id: Option<String>,
    /// The entity tag of the answer, if it had one.
    pub etag: Option<String>,
    /// The body of the answer that is kept.
    pub body: Bytes,
}

/// What conversations are filtered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facets {
    /// Only those in which this side has to act.
    pub status: Option<Status>,
    /// Only those that came by this channel.
    pub channel: Option<Channel>,
    /// Only those of this priority.
    pub priority: Option<Priority>,
    /// Only those of this customer.
    pub customer: Option<CustomerId>,
    /// Only those that are assigned to this user.
    pub assignee: Option<UserId>,
    /// Made after this instant.
    pub created_after: Option<Timestamp>,
    /// Made before this instant.
    pub created_before: Option<Timestamp>,
}

/// Which conversations are listed, and in which order.
#[derive(Debug, Clone, Copy)]
pub struct ConversationQuery {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The filter that the items of the list pass.
    pub facets: Facets,
    /// In the order of their last change, not of their creation.
    pub by_update: bool,
    /// The part of the list that is wanted.
    pub paging: Paging,
}

/// Which messages of a conversation are listed.
#[derive(Debug, Clone, Copy)]
pub struct MessageQuery {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The conversation whose messages are listed.
    pub conversation: Subject,
    /// Only those from senders of this type.
    pub sender: Option<SenderType>,
    /// After the message with this `seq`.
    pub after_seq: Option<u64>,
    /// Before the message with this `seq`: the last ones below it.
    pub before_seq: Option<u64>,
    /// Which part; `After` and `Before` hold a row's sequence.
    pub paging: Paging,
}

/// Which events are read, oldest first, and from where on.
#[derive(Debug, Clone)]
pub struct EventQuery {
    /// The account and mode that they belong to.
    pub tenant: Tenant,
    /// Those of one of its entities, or of all.
    pub source: EventSource,
    /// Behind this place; 0 is the beginning, or the oldest that retention has left.
    pub after: StreamOffset,
    /// None behind this position.
    pub until: Option<Position>,
    /// The filter that the items of the list pass.
    pub filter: EventFilter,
    /// How many items are given at most; with 0 the page tells by its cursor where the last event
    /// stands.
    pub limit: u32,
    /// Whether all that match are counted.
    pub total: bool,
}

/// A page of events, and where the next one begins.
#[derive(Debug, Default)]
pub struct EventPage {
    /// The events of the page, oldest first.
    pub events: Vec<Arc<Event>>,
    /// How many match behind `after`, where that was asked for.
    pub total: u64,
    /// The offset up to which the page tells everything.
    pub cursor: StreamOffset,
    /// Whether any that match may follow.
    pub more: bool,
    /// The offset of an event that can't be read, which was told: the page ends before it. A page
    /// with a total is not given then.
    pub unreadable: Option<StreamOffset>,
}

/// What a conversation does by itself when a time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// It sleeps until then, whosever it is.
    Snooze,
    /// It has not been active since then; open ones of this tenant that don't sleep.
    Inactivity(Tenant),
}

/// Conversations in the order of a time, earliest first.
#[derive(Debug, Clone, Copy)]
pub struct TimedQuery {
    /// The time by which conversations are found.
    pub timing: Timing,
    /// Up to this instant; what comes later is not due: the first such one ends the answer.
    pub until: Timestamp,
    /// Where the answer before ended; none at the beginning.
    pub behind: Option<TimedCursor>,
    /// How many conversations are given at most.
    pub limit: u32,
}

/// A place in the order of a time: that of the last conversation of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedCursor {
    /// The time by which the conversation is sorted, as [`Timed::listed_at`] has it.
    pub listed_at: Timestamp,
    /// The number of its identifier, which orders those of one time.
    pub number: EntityNumber,
}

/// A conversation and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// The identifier of the conversation.
    pub id: ConversationId,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// By which it is sorted: its header's, which may be older than what is known.
    pub listed_at: Timestamp,
    /// The time as far as it is known.
    pub at: Timestamp,
}

/// What is read by position, over all accounts.
#[derive(Debug, Clone)]
pub enum FeedRow {
    /// Something that happened to an entity.
    Event(Arc<Event>),
    /// What became of a webhook endpoint.
    Endpoint {
        /// Where it stands among everything that was ever committed.
        position: Position,
        /// The number of the endpoint's identifier.
        number: EntityNumber,
        /// The endpoint as it was shown then; none where it was deleted.
        body: Option<Bytes>,
    },
    /// What a customer is called from here on.
    Renamed {
        /// Where it stands among everything that was ever committed.
        position: Position,
        /// The number of the customer's identifier.
        customer: EntityNumber,
        /// The account and mode that it belongs to.
        tenant: Tenant,
        /// The name as of this position.
        name: Box<str>,
    },
}

impl FeedRow {
    /// Where it stands among everything that was ever committed.
    #[must_use]
    pub fn position(&self) -> Position {
        match self {
            FeedRow::Event(event) => event.position,
            FeedRow::Endpoint { position, .. } | FeedRow::Renamed { position, .. } => *position,
        }
    }
}

/// A conversation, and the account and mode that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedConversation {
    /// The identifier of the conversation.
    pub id: ConversationId,
    /// The account and mode that it belongs to.
    pub tenant: Tenant,
}

/// Whose an attachment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentTaker {
    /// No message's.
    Nobody,
    /// One of this conversation's messages has it.
    Conversation(ConversationId),
    /// One of a conversation's that is gone for good.
    Gone,
}

/// Which records of one kind are listed.
#[derive(Debug, Clone)]
pub struct RecordQuery {
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The kind of the records that are listed.
    pub kind: colloquy_model::entity::Kind,
    /// Only those that have all of these names.
    pub names: Vec<RecordName>,
    /// The part of the list that is wanted.
    pub paging: Paging,
}
