//! The requests that a conversation takes, what it shows, and why it may refuse.
//!
//! A request is a type of its own; its rule says by which type it is answered. To add one takes
//! four places: its type here, its rule (`impl ConversationRequest`) in `rules` or `message_rules`,
//! its route, and its row with the right that it needs in `src/http/routes/`. The compiler asks for
//! each that is missing.
//!
//! A change is answered when it is durable. Everything may be repeated under its idempotency key;
//! without one, closing, reopening and redacting may be repeated freely, sending may not.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::customer_names::CustomerName;
use colloquy_model::answer::Invalid;
use colloquy_model::conversation::{Channel, MessageType, Priority, SenderId, SenderType, Status};
use colloquy_model::id::{AttachmentId, ConversationId, CustomerId, MessageId, UserId};
use colloquy_model::metadata::{Metadata, MetadataPatch};
use colloquy_model::present::present;
use colloquy_model::text::{Content, Reason};
use colloquy_model::time::Timestamp;

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
    /// Words, or for `image` and `file` an https: URL. Left out only beside `attachment_id`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub content: Option<Content>,
    /// For `image` and `file`, in the place of `content`: a file that was uploaded and that no other
    /// message has; for `image` one that is shown as an image, by its `content_type`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub attachment_id: Option<AttachmentId>,
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

/// Starts a conversation with a customer that was found.
#[derive(Debug)]
pub struct StartConversation {
    /// The conversation as the caller asks for it.
    pub new: CreateConversation,
    /// The customer that it names, as it stands in the store.
    pub customer: CustomerShown,
}

/// Reads a conversation as the interface shows it.
#[derive(Debug)]
pub struct ReadConversation;

/// Tells whether the caller may read the conversation, and the sequence of its last event: whoever
/// is shown what comes behind it watches there whose conversation it is.
#[derive(Debug)]
pub struct CheckReadable;

/// Makes a closed conversation active; one that is not closed stays as it is.
#[derive(Debug)]
pub struct ReopenConversation;

/// Changes what a message says, or the caller's data in it.
#[derive(Debug)]
pub struct ReviseMessage {
    /// The message of this conversation.
    pub message: MessageId,
    /// What changes.
    pub edit: EditMessage,
}

/// Erases what a message says.
#[derive(Debug)]
pub struct RedactMessage {
    /// The message of this conversation.
    pub message: MessageId,
}

/// Takes a conversation from a user who was deleted; asked by the server itself.
#[derive(Debug)]
pub struct UnassignUser {
    /// The user who was deleted.
    pub user: UserId,
}

/// Ends the snooze of a conversation, if that is due; asked by the server itself.
#[derive(Debug)]
pub struct EndSnooze;

/// Closes a conversation in which nothing has happened for so long; asked by the server itself.
#[derive(Debug)]
pub struct CloseIdle {
    /// For how long nothing must have happened.
    pub after: Duration,
}

/// A customer as a conversation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomerShown {
    /// The identifier of the customer.
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
    /// The caller may read it, and not do this.
    #[error("the credential writes only in conversations that are assigned to its user")]
    Forbidden,
    /// The caller may write in it, and not change this field.
    #[error("the credential may not change this of a conversation")]
    ForbiddenField(&'static str),
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
    /// Another message has the attachment.
    #[error("another message has the attachment: upload the file again")]
    AttachmentTaken,
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
    /// The identifier of the conversation.
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
    /// When it was created.
    pub created_at: Timestamp,
    /// When anything in it changed last.
    pub updated_at: Timestamp,
    /// When it was closed; null unless it is.
    pub closed_at: Option<Timestamp>,
}
