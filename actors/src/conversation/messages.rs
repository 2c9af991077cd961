//! What a conversation may be asked, what it shows, and why it may refuse.
//!
//! A change is answered when it is durable. Everything may be repeated under its idempotency key;
//! without one, closing, reopening and redacting may be repeated freely, sending may not.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::accounts::Identity;
use crate::accounts::names::CustomerName;
use crate::answer::{Invalid, Precondition};
use crate::caller::Caller;
use crate::id::{ConversationId, CustomerId, MessageId, UserId};
use crate::idempotency::Reservation;
use crate::metadata::{Metadata, MetadataPatch};
use crate::present::present;
use crate::text::{Content, Reason};
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// Who has to act.
    Status {
        /// Somebody must act.
        Active = 0 "active",
        /// Waiting for the customer.
        Pending = 1 "pending",
        /// Over.
        Closed = 2 "closed",
    }
}
words! {
    /// How the customer came.
    Channel {
        /// A chat window.
        Chat = 0 "chat",
        /// E-mail.
        Email = 1 "email",
        /// A telephone call.
        Voice = 2 "voice",
    }
}
words! {
    /// How urgent it is.
    Priority {
        /// May wait.
        Low = 0 "low",
        /// As usual.
        Normal = 1 "normal",
        /// First.
        High = 2 "high",
    }
}
words! {
    /// What a message's content is.
    MessageType {
        /// Words.
        Text = 0 "text",
        /// The URL of an image.
        Image = 1 "image",
        /// The URL of a file.
        File = 2 "file",
    }
}
words! {
    /// Who speaks.
    SenderType {
        /// The company's customer.
        Customer = 0 "customer",
        /// Somebody, or a bot, of the company.
        Agent = 1 "agent",
        /// The software.
        System = 2 "system",
    }
}

/// The one who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderId {
    /// A customer.
    Customer(CustomerId),
    /// A user of the account.
    User(UserId),
}

impl Serialize for SenderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SenderId::Customer(id) => id.serialize(serializer),
            SenderId::User(id) => id.serialize(serializer),
        }
    }
}
impl<'de> Deserialize<'de> for SenderId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let customer = text.parse().map(SenderId::Customer);
        customer
            .or_else(|_| text.parse().map(SenderId::User))
            .map_err(|_| serde::de::Error::custom("must be a valid user ID or customer ID"))
    }
}
impl utoipa::PartialSchema for SenderId {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some(
                "^(usr|cus)_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$",
            ))
            .into()
    }
}
impl ToSchema for SenderId {}

/// Starts a conversation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateConversation {
    /// An existing customer.
    pub customer_id: CustomerId,
    /// Becomes message 1: `text`, from the customer.
    #[serde(default)]
    pub initial_message: Option<Content>,
    /// Default: `chat`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub channel: Option<Channel>,
    /// Default: `normal`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub priority: Option<Priority>,
    /// The caller's own data.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Changes a conversation: what is given is set, what is left out stays.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeConversation {
    /// `closed` closes; from `closed`, `active` reopens.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub status: Option<Status>,
    /// How urgent it is.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub priority: Option<Priority>,
    /// How the customer is spoken to.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub channel: Option<Channel>,
    /// The user that takes care of it, or null for nobody.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<UserId>)]
    pub assignee_id: Option<Option<UserId>>,
    /// A JSON merge patch (RFC 7396); null empties it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<MetadataPatch>)]
    pub metadata: Option<Option<MetadataPatch>>,
    /// Until when a pending conversation sleeps: it becomes active by itself then. Null wakes it at
    /// once.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Timestamp>)]
    pub snoozed_until: Option<Option<Timestamp>>,
}

/// Closes a conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseConversation {
    /// Stands in the event.
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// Adds a message to a conversation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// Words, or for `image` and `file` an https: URL.
    pub content: Content,
    /// Default: `text`.
    #[serde(default, rename = "type", deserialize_with = "present")]
    #[schema(nullable = false)]
    pub kind: Option<MessageType>,
    /// Default: `agent` when an acting user is known, else `customer`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub sender_type: Option<SenderType>,
    /// Default: the acting user for `agent`, the customer for `customer`, null for `system`.
    #[serde(default)]
    pub sender_id: Option<SenderId>,
    /// The caller's own data.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Edits a message; earlier texts stay readable as revisions.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditMessage {
    /// What it says from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content: Option<Content>,
    /// A JSON merge patch (RFC 7396); null empties it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<MetadataPatch>)]
    pub metadata: Option<Option<MetadataPatch>>,
}

/// What is asked.
#[derive(Debug)]
pub enum Request {
    /// Start it; `customer` is what the reference was found to be.
    Create {
        /// What the caller gave.
        new: Box<CreateConversation>,
        /// The customer as it stands in the store.
        customer: CustomerShown,
    },
    /// Show it.
    Read,
    /// Change it.
    Change(Box<ChangeConversation>),
    /// Close it.
    Close(CloseConversation),
    /// Make a closed one active.
    Reopen,
    /// Add a message.
    Send(Box<SendMessage>),
    /// Change a message.
    Edit(MessageId, Box<EditMessage>),
    /// Erase what a message says.
    Redact(MessageId),
    /// Take it from a user that is no more.
    Unassign(UserId),
    /// End its snooze, if that is due.
    Wake,
    /// Close it, if nothing has happened for so long.
    CloseIdle {
        /// How long, in milliseconds.
        after_ms: i64,
    },
}

/// A request with who sent it and what must hold.
#[derive(Debug)]
pub struct ConversationCommand {
    /// Who asks.
    pub caller: Caller,
    /// Only if the state is still this one.
    pub if_match: Option<Precondition>,
    /// Under which key the answer is kept.
    pub reservation: Option<Reservation>,
    /// What is asked.
    pub request: Request,
    /// Who is a user: what an assignment shows.
    pub people: Arc<Identity>,
}

/// The customer as a conversation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerShown {
    /// Which customer.
    pub id: CustomerId,
    /// The name, and how often the customer has been changed.
    pub name: Arc<CustomerName>,
}

/// Why a conversation refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// What is stored of it can't be read; that was told where it was found.
    #[error("what is stored can't be read")]
    Unreadable,
    /// There is no such conversation for this caller.
    #[error("no such conversation")]
    NotFound,
    /// There is no such message in it.
    #[error("no such message")]
    MessageNotFound,
    /// `If-Match` named another state.
    #[error("the conversation has changed")]
    Precondition,
    /// Its status does not lead there.
    #[error("{} does not lead to {}", from.word(), to.word())]
    InvalidTransition {
        /// What it is.
        from: Status,
        /// What was asked for.
        to: Status,
    },
    /// Only a pending one sleeps.
    #[error("only a pending conversation can be snoozed")]
    NotPending,
    /// Only a customer may write in a closed one.
    #[error("the conversation is closed")]
    Closed,
    /// A redacted message can't be edited.
    #[error("the message is redacted")]
    Redacted,
    /// A message can't be edited any more often.
    #[error("a message takes at most {0} edits: send another one")]
    TooManyEdits(u64),
    /// A value is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
}

/// A customer inside a conversation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EmbeddedCustomer<'a> {
    /// The customer's identifier.
    pub id: CustomerId,
    /// The customer's name as it is now.
    pub name: &'a str,
}

/// A conversation as the interface shows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Conversation)]
pub struct ConversationView<'a> {
    /// Names it.
    pub conversation_id: ConversationId,
    /// Whose conversation it is.
    pub customer_id: CustomerId,
    /// The same, with the name.
    pub customer: EmbeddedCustomer<'a>,
    /// Who has to act.
    pub status: Status,
    /// How the customer came.
    pub channel: Channel,
    /// How urgent it is.
    pub priority: Priority,
    /// The user that takes care of it.
    pub assignee_id: Option<UserId>,
    /// The caller's own data.
    #[schema(value_type = Metadata)]
    pub metadata: &'a RawValue,
    /// How many messages it has.
    pub message_count: u64,
    /// When the last of them was sent.
    pub last_message_at: Option<Timestamp>,
    /// Until when it sleeps.
    pub snoozed_until: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When anything in it changed last.
    pub updated_at: Timestamp,
    /// When it was closed; null unless it is.
    pub closed_at: Option<Timestamp>,
}

/// A message as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageView {
    /// Names it.
    pub message_id: MessageId,
    /// Where it stands.
    pub conversation_id: ConversationId,
    /// 1, 2, 3 … in its conversation.
    pub seq: u64,
    /// What it says; empty once redacted.
    pub content: String,
    /// What the content is.
    #[serde(rename = "type")]
    pub kind: MessageType,
    /// Who speaks.
    pub sender_type: SenderType,
    /// Who exactly.
    pub sender_id: Option<SenderId>,
    /// The caller's own data, read as it was accepted, whatever the bounds are today.
    #[serde(deserialize_with = "Metadata::accepted")]
    pub metadata: Metadata,
    /// When it was accepted.
    pub sent_at: Timestamp,
    /// When it was last edited.
    pub edited_at: Option<Timestamp>,
    /// Whether its content was erased.
    pub redacted: bool,
}

impl MessageView {
    /// Redaction: what it says goes, the message stays.
    pub(crate) fn erase(&mut self) {
        self.content.clear();
        self.metadata = Metadata::default();
        self.redacted = true;
    }
}

/// An earlier text of a message.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Revision)]
pub struct RevisionView {
    /// What it said.
    pub content: String,
    /// The metadata it had.
    pub metadata: Metadata,
    /// When that was replaced.
    pub replaced_at: Timestamp,
}
