//! The things that a store holds, field by field, as a dump has them. Identifiers are numbers and
//! kinds are codes, the same in every store.

use serde::{Deserialize, Serialize};

use super::transfer_bytes::{Base64, Text};
use colloquy_model::commit::ChoreKind;

/// The field by which deliveries are counted, of both stores.
pub(super) const COUNTS_DELIVERIES: i64 = 20;

/// Where everything stands.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Marks {
    /// The last position that was given; the next one is behind it.
    pub position: i64,
    /// The position up to which events are matched with webhook endpoints.
    pub matched: i64,
    /// How many of the endpoints got what stands behind it.
    pub matched_within: i64,
    /// The number of the last delivery.
    pub last_delivery: i64,
    /// The position up to which figures count everything; dumps of before there were figures have
    /// none, and everything is counted anew.
    #[serde(default)]
    pub counted: i64,
}

/// How operators are known.
#[derive(Debug, Serialize, Deserialize)]
pub struct OperatorItem {
    /// The hash of their token.
    pub hash: Base64,
}

/// What happened at a position: a row of the log of changes, or only an answer that is kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct EventItem {
    /// Its position among everything.
    pub position: i64,
    /// The code of the entity's kind.
    pub entity_kind: i64,
    /// The number of the entity's identifier.
    pub entity: i64,
    /// The rest of the entity's identifier; 0 where the entity is gone and nobody knows it.
    pub tail: i64,
    /// Its sequence in the entity; none where it only keeps an answer.
    pub seq: Option<i64>,
    /// The account and mode.
    pub tenant: i64,
    /// Its number in their feed, by which cursors go on; none where it is no public event.
    pub number: Option<i64>,
    /// The code of the kind of event; 0 where it only keeps an answer.
    pub kind: i64,
    /// When it was committed, in Unix milliseconds, as all instants here.
    pub at: i64,
    /// Messages from customers, from agents and from the system up to it.
    pub messages: [i64; 3],
    /// When the last of them came.
    pub last_message_at: Option<i64>,
    /// The codes of the conversation's channel and priority, as they were.
    pub channel: Option<i64>,
    /// The second of them.
    pub priority: Option<i64>,
    /// The number of the assignee's identifier, as it was.
    pub assignee: Option<i64>,
    /// The code of the message's sender.
    pub sender: Option<i64>,
    /// The sequence of the message that it edits.
    pub edits: Option<i64>,
    /// How many bytes it added to the texts of the account; none where it changed nothing of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text_bytes: Option<i64>,
    /// Who did it.
    pub by: ActorItem,
    /// The salt of the payload's digest; it goes with what is erased.
    pub salt: Option<Base64>,
    /// The payload's digest.
    pub hash: Base64,
    /// The event's data; none where retention has taken it.
    pub payload: Option<Text>,
    /// The answer that is kept under its idempotency key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<AnswerItem>,
}

/// Who did something.
#[derive(Debug, Serialize, Deserialize)]
pub struct ActorItem {
    /// The code of the credential.
    pub key: Option<i64>,
    /// The number of the user's identifier.
    pub user: Option<i64>,
    /// The address from which the request came.
    pub address: Option<String>,
    /// The identifier of the request.
    pub request: String,
}

/// An answer that is kept under an idempotency key.
#[derive(Debug, Serialize, Deserialize)]
pub struct AnswerItem {
    /// The hash of the key.
    pub key: Base64,
    /// What is kept of the request.
    pub request: Base64,
    /// The code of what it did.
    pub done: i64,
    /// What it made.
    pub id: Option<String>,
    /// The answer's ETag.
    pub etag: Option<String>,
    /// The answer's body; none where it is the event's data.
    pub body: Option<Text>,
}

/// A conversation as lists show it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConversationItem {
    /// The number of its identifier.
    pub number: i64,
    /// The rest of its identifier.
    pub tail: i64,
    /// The account and mode.
    pub tenant: i64,
    /// The number of the customer's identifier.
    pub customer: i64,
    /// The rest of it.
    pub customer_tail: i64,
    /// The customer's name as it shows it.
    pub customer_name: String,
    /// The customer's revision that gave that name.
    pub customer_revision: i64,
    /// The codes of status, channel and priority.
    pub status: i64,
    /// The second of them.
    pub channel: i64,
    /// The third of them.
    pub priority: i64,
    /// The number of the assignee's identifier.
    pub assignee: Option<i64>,
    /// The rest of it.
    pub assignee_tail: Option<i64>,
    /// Its metadata.
    pub metadata: Text,
    /// When it was closed.
    pub closed_at: Option<i64>,
    /// Until when it sleeps.
    pub snoozed_until: Option<i64>,
    /// When it last came to need somebody.
    pub activated_at: i64,
    /// Its last sequence.
    pub seq: i64,
    /// How many messages it has.
    pub messages: i64,
    /// When the last of them came.
    pub last_message_at: Option<i64>,
    /// When it changed last.
    pub updated_at: i64,
}

/// A record with the names by which it is found.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordItem {
    /// The number of its identifier.
    pub number: i64,
    /// The rest of its identifier.
    pub tail: i64,
    /// The code of its kind.
    pub kind: i64,
    /// The account and mode.
    pub tenant: i64,
    /// Its last sequence.
    pub seq: i64,
    /// Its name.
    pub name: String,
    /// All of it, secrets too.
    pub body: Text,
    /// The names by which it is found.
    pub names: Vec<NameItem>,
}

/// A name by which a record is found.
#[derive(Debug, Serialize, Deserialize)]
pub struct NameItem {
    /// The code of the field.
    pub field: i64,
    /// Its value.
    pub value: String,
}

/// A user who is no more.
#[derive(Debug, Serialize, Deserialize)]
pub struct DepartedItem {
    /// The number of the user's identifier.
    pub number: i64,
    /// The rest of it.
    pub tail: i64,
}

/// A document without its versions and comments.
#[derive(Debug, Serialize, Deserialize)]
pub struct DocumentItem {
    /// The number of its identifier.
    pub number: i64,
    /// The rest of its identifier.
    pub tail: i64,
    /// The account and mode.
    pub tenant: i64,
    /// Its last sequence.
    pub seq: i64,
    /// When it changed last.
    pub updated_at: i64,
    /// Its title.
    pub title: String,
    /// The code of its content type.
    pub content_type: i64,
    /// The number of the owner's identifier.
    pub owner: Option<i64>,
    /// When it was put in the bin.
    pub deleted_at: Option<i64>,
    /// What its actor begins with.
    pub body: Text,
    /// Who may read it.
    pub readers: Vec<ReaderItem>,
    /// The hashes of its share links.
    pub links: Vec<Base64>,
    /// Its share links as its actor reads them; none where they stand in `body`, as an earlier version wrote
    /// it.
    pub share_links: Option<Text>,
    /// How often its share links were used.
    pub link_uses: Vec<LinkUseItem>,
    /// Where its comments stand whose own rows say something else.
    pub anchors: Option<Base64>,
}

/// Somebody who may read a document.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReaderItem {
    /// The number of the user's identifier; 0 for everybody of the account.
    pub user: i64,
    /// The code of the role.
    pub role: i64,
}

/// How often a share link was used.
#[derive(Debug, Serialize, Deserialize)]
pub struct LinkUseItem {
    /// The number of the link's identifier.
    pub share: i64,
    /// How often.
    pub uses: i64,
}

/// A version of a document.
#[derive(Debug, Serialize, Deserialize)]
pub struct VersionItem {
    /// The number of the document's identifier.
    pub document: i64,
    /// Its number.
    pub number: i64,
    /// The number of its own identifier.
    pub id_number: i64,
    /// The rest of it.
    pub id_tail: i64,
    /// Its label.
    pub label: Option<String>,
    /// Its branch.
    pub branch: String,
    /// The numbers of the versions that it follows.
    pub parents: Vec<i64>,
    /// What its author says of it.
    pub message: Option<String>,
    /// The number of the author's identifier.
    pub author: Option<i64>,
    /// The rest of it.
    pub author_tail: Option<i64>,
    /// When it was made.
    pub at: i64,
    /// The version against which its content is packed; none: it stands alone.
    pub base: Option<i64>,
    /// Its content, packed.
    pub frame: Base64,
}

/// A comment on a document.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommentItem {
    /// The number of the document's identifier.
    pub document: i64,
    /// Its number.
    pub number: i64,
    /// All of it.
    pub body: Text,
}

/// A customer's new name that some conversations do not show yet.
#[derive(Debug, Serialize, Deserialize)]
pub struct RenameItem {
    /// The number of the customer's identifier.
    pub customer: i64,
    /// The name.
    pub name: String,
    /// The customer's revision that gave it.
    pub revision: i64,
}

/// What is still to be done: a user to be taken from conversations, an attachment to be erased.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChoreItem {
    /// The account and mode.
    pub tenant: i64,
    /// The code of its kind; none in files of before there was a second one.
    #[serde(default = "unassign")]
    pub kind: i64,
    /// The number of the identifier of the user or the attachment.
    pub user: i64,
    /// The rest of it.
    pub tail: i64,
}

fn unassign() -> i64 {
    ChoreKind::Unassign as i64
}

/// An attachment that a conversation has taken for one of its messages.
#[derive(Debug, Serialize, Deserialize)]
pub struct TakenAttachmentItem {
    /// The account and mode.
    pub tenant: i64,
    /// The attachment's identifier.
    pub attachment: String,
    /// The number of the conversation's identifier.
    pub conversation: i64,
}

/// When a key was used last.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyUseItem {
    /// The number of the key's identifier.
    pub key: i64,
    /// When.
    pub at: i64,
}

/// What a webhook endpoint has come to.
#[derive(Debug, Serialize, Deserialize)]
pub struct EndpointItem {
    /// The number of its identifier.
    pub number: i64,
    /// Since when it only fails.
    pub failing_since: Option<i64>,
    /// What waits up to this delivery counts as failed.
    pub given_up: i64,
    /// The code of what is still to be done with its deliveries.
    pub unsettled: i64,
}

/// A delivery to a webhook endpoint.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliveryItem {
    /// Its number.
    pub number: i64,
    /// The number of the endpoint's identifier.
    pub endpoint: i64,
    /// The lane that it stands in: with its entity, what leaves one after the other.
    pub lane: i64,
    /// The position of the event.
    pub position: i64,
    /// The number of the identifier of the event's entity.
    pub entity: i64,
    /// The code of the kind of event.
    pub kind: i64,
    /// When the event was committed.
    pub event_at: i64,
    /// When the delivery was made.
    pub at: i64,
    /// The code of its state.
    pub state: i64,
    /// How often it was tried.
    pub attempts: i64,
    /// When it may be tried next, where it is the first of its lane.
    pub due: Option<i64>,
    /// Its newest attempts, oldest first, in JSON.
    pub log: Option<Text>,
}

/// A replay whose deliveries are not all made.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplayItem {
    /// Its lane.
    pub lane: i64,
    /// The number of the endpoint's identifier.
    pub endpoint: i64,
    /// The account and mode.
    pub tenant: i64,
    /// The number of the feed up to which it has come.
    pub next: i64,
    /// The position at which it ends.
    pub last: i64,
    /// Only what happened from then on.
    pub since: Option<i64>,
    /// Only what happened before then.
    pub until: Option<i64>,
    /// The published names of the kinds of events.
    pub kinds: Vec<String>,
}

/// How many there are of what lists count.
#[derive(Debug, Serialize, Deserialize)]
pub struct CounterItem {
    /// The account and mode; the endpoint's number for deliveries.
    pub tenant: i64,
    /// The code of the field.
    pub field: i64,
    /// Its value.
    pub value: i64,
    /// The code of the status; 0 for what has none.
    pub status: i64,
    /// How many.
    pub total: i64,
}

/// Where the events of an account and mode begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct FeedItem {
    /// The account and mode.
    pub tenant: i64,
    /// The position of the last event that retention took away.
    pub floor: i64,
}

/// What conversations have come to in an interval: one cell.
#[derive(Debug, Serialize, Deserialize)]
pub struct FigureItem {
    /// The account and mode.
    pub tenant: i64,
    /// The code of the interval's length.
    pub length: i64,
    /// The number of the assignee's identifier; 0 for nobody, -1 for all together.
    pub assigned: i64,
    /// When the interval begins.
    pub start: i64,
    /// The code of the conversations' channel.
    pub channel: i64,
    /// The code of their priority.
    pub priority: i64,
    /// By how many more of them are open at the interval's end.
    pub opened: i64,
    /// All figures, as JSON.
    pub figures: Text,
}

/// A user who is or was somebody's assignee.
#[derive(Debug, Serialize, Deserialize)]
pub struct FigureAssigneeItem {
    /// The number of the user's identifier.
    pub number: i64,
    /// The rest of it.
    pub tail: i64,
}

/// The milestones of a conversation.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestonesItem {
    /// The number of the conversation's identifier.
    pub conversation: i64,
    /// When it was created or reopened last.
    pub opened_at: i64,
    /// Whether an agent has written.
    pub answered: bool,
}

/// What was made with a credential on a day.
#[derive(Debug, Serialize, Deserialize)]
pub struct MadeItem {
    /// The account and mode.
    pub tenant: i64,
    /// When the day begins.
    pub day: i64,
    /// The code of the credential; none where there was none.
    pub credential: Option<i64>,
    /// How many messages.
    pub messages: i64,
    /// How many documents.
    pub documents: i64,
    /// By how many bytes the texts became more; negative where they became fewer.
    #[serde(default)]
    pub text_bytes: i64,
}

/// What an account used on one day, by one credential.
#[derive(Debug, Serialize, Deserialize)]
pub struct UsageItem {
    /// The account's small number.
    pub account: i64,
    /// When the day begins.
    pub day: i64,
    /// The code of the credential; 0 for none of the account's.
    pub credential: i64,
    /// The rest of its identifier.
    pub tail: i64,
    /// Requests that were let in.
    pub requests: i64,
    /// Requests that the rate limit refused.
    pub rate_limited: i64,
    /// Requests that the account's quota refused.
    pub quota_exceeded: i64,
    /// Requests that were answered that they are not allowed.
    pub forbidden: i64,
    /// Attempts to deliver to webhook endpoints.
    pub deliveries: i64,
    /// Bytes of the bodies of requests.
    pub bytes_in: i64,
    /// Bytes of the bodies of answers.
    pub bytes_out: i64,
}
