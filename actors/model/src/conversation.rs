//! Conversations and messages: the words for their state, and a message as the interface shows it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::attachment::AttachmentView;
use crate::coded_enum;
use crate::id::{ConversationId, CustomerId, MessageId, UserId};
use crate::metadata::Metadata;
use crate::time::Timestamp;

coded_enum! {
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

coded_enum! {
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

coded_enum! {
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

coded_enum! {
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

coded_enum! {
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

/// A message as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageView {
    /// The identifier of the message.
    pub message_id: MessageId,
    /// The conversation that it is part of.
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
    /// The file that it brings, where it was uploaded here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<AttachmentView>,
}

impl MessageView {
    /// Redaction: what it says goes, the message stays.
    pub fn erase(&mut self) {
        self.content.clear();
        self.metadata = Metadata::default();
        self.redacted = true;
        self.attachment = None;
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

/// Counts of messages by sender, and the time of the last: what stands up to a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages from the customer.
    pub customer: u64,
    /// Messages from users of the account.
    pub agent: u64,
    /// Messages that software sent.
    pub system: u64,
    /// When the last message was sent.
    pub last_message_at: Option<Timestamp>,
}

impl MessageCounts {
    /// How many messages there are, whoever sent them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.customer + self.agent + self.system
    }

    /// The counts with one more message, which this sender sent at this instant.
    #[must_use]
    pub fn plus(mut self, sender: SenderType, at: Timestamp) -> Self {
        match sender {
            SenderType::Customer => self.customer += 1,
            SenderType::Agent => self.agent += 1,
            SenderType::System => self.system += 1,
        }
        self.last_message_at = Some(at);
        self
    }
}

/// What filters of events see of a conversation as of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The conversation's channel as of this commit.
    pub channel: Channel,
    /// The conversation's priority as of this commit.
    pub priority: Priority,
    /// Who takes care of it.
    pub assignee: Option<UserId>,
    /// For a message: who sent it.
    pub sender: Option<SenderType>,
}

/// What lists show of a conversation, and what its actor starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationState {
    /// Whose conversation it is.
    pub customer: CustomerId,
    /// Who has to act.
    pub status: Status,
    /// How the customer came.
    pub channel: Channel,
    /// How urgent it is.
    pub priority: Priority,
    /// Who takes care of it.
    pub assignee: Option<UserId>,
    /// The metadata, as a JSON object in text.
    pub metadata: Box<str>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Until when it sleeps; only a pending one does.
    pub snoozed_until: Option<Timestamp>,
    /// When it last came to need somebody: made, reopened or woken.
    pub activated_at: Timestamp,
}
