//! What one command changes, as one unit.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use bytes::Bytes;

use super::documents::DocumentHeader;
use crate::accounts::{AccountView, KeyView, Role, Secrets};
use crate::answer::Done;
use crate::caller::{By, Caller, Scope};
use crate::conversation::messages::{Channel, Priority, SenderType, Status};
use crate::id::{
    AccountKind, ConversationKind, CustomerId, CustomerKind, DocumentKind, Id, KeyKind, Prefix,
    ShareId, UserId, UserKind, WebhookId, WebhookKind,
};
use crate::idempotency::Reservation;
use crate::webhook::Endpoint;

/// Which sort of entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Account = 1,
    Key = 2,
    User = 3,
    Customer = 4,
    Conversation = 5,
    Webhook = 6,
    Document = 7,
}

/// An entity, as the store names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// Which sort.
    pub kind: Kind,
    /// The number of its identifier.
    pub number: u64,
    /// The rest of its identifier.
    pub tail: u64,
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fn id<K: Prefix>(subject: &Subject) -> Id<K> {
            Id::from_parts(subject.number, subject.tail)
        }
        match self.kind {
            Kind::Account => id::<AccountKind>(self).fmt(f),
            Kind::Key => id::<KeyKind>(self).fmt(f),
            Kind::User => id::<UserKind>(self).fmt(f),
            Kind::Customer => id::<CustomerKind>(self).fmt(f),
            Kind::Conversation => id::<ConversationKind>(self).fmt(f),
            Kind::Webhook => id::<WebhookKind>(self).fmt(f),
            Kind::Document => id::<DocumentKind>(self).fmt(f),
        }
    }
}

/// What happened: the kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the published event names say it")]
pub enum Happened {
    ConversationCreated = 1,
    ConversationUpdated = 2,
    ConversationClosed = 3,
    MessageCreated = 4,
    MessageUpdated = 5,
    DocumentCreated = 6,
    DocumentUpdated = 7,
    DocumentDeleted = 8,
    DocumentRestored = 9,
    DocumentVersionCreated = 10,
    DocumentMerged = 11,
    DocumentShared = 12,
    DocumentPermissionsUpdated = 13,
    DocumentCommented = 14,
    RecordCreated = 20,
    RecordUpdated = 21,
    RecordDeleted = 22,
}

impl Happened {
    /// Those that are published as events.
    pub const EVENTS: &[Happened] = &[
        Happened::ConversationCreated,
        Happened::ConversationUpdated,
        Happened::ConversationClosed,
        Happened::MessageCreated,
        Happened::MessageUpdated,
        Happened::DocumentCreated,
        Happened::DocumentUpdated,
        Happened::DocumentDeleted,
        Happened::DocumentRestored,
        Happened::DocumentVersionCreated,
        Happened::DocumentMerged,
        Happened::DocumentShared,
        Happened::DocumentPermissionsUpdated,
        Happened::DocumentCommented,
    ];

    /// Its published name; empty for what is no public event.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Happened::ConversationCreated => "conversation.created",
            Happened::ConversationUpdated => "conversation.updated",
            Happened::ConversationClosed => "conversation.closed",
            Happened::MessageCreated => "message.created",
            Happened::MessageUpdated => "message.updated",
            Happened::DocumentCreated => "document.created",
            Happened::DocumentUpdated => "document.updated",
            Happened::DocumentDeleted => "document.deleted",
            Happened::DocumentRestored => "document.restored",
            Happened::DocumentVersionCreated => "document.version_created",
            Happened::DocumentMerged => "document.merged",
            Happened::DocumentShared => "document.shared",
            Happened::DocumentPermissionsUpdated => "document.permissions_updated",
            Happened::DocumentCommented => "document.commented",
            Happened::RecordCreated | Happened::RecordUpdated | Happened::RecordDeleted => "",
        }
    }

    /// Whether it happens to documents.
    #[must_use]
    pub fn is_of_document(self) -> bool {
        (Happened::DocumentCreated as i64..=Happened::DocumentCommented as i64)
            .contains(&(self as i64))
    }

    /// The event of this name.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Happened::EVENTS
            .iter()
            .copied()
            .find(|happened| happened.word() == word)
    }

    /// The event that the store wrote so.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Happened::EVENTS
            .iter()
            .copied()
            .find(|happened| *happened as i64 == code)
    }
}

/// Counts of messages by sender, and the time of the last: what stands up to a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tallies {
    /// From customers.
    pub customer: u64,
    /// From agents.
    pub agent: u64,
    /// From the software.
    pub system: u64,
    /// When the last message was sent.
    pub last_message_at: Option<i64>,
}

impl Tallies {
    /// Messages in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.customer + self.agent + self.system
    }

    /// With one message more.
    #[must_use]
    pub fn plus(mut self, sender: SenderType, at: i64) -> Self {
        match sender {
            SenderType::Customer => self.customer += 1,
            SenderType::Agent => self.agent += 1,
            SenderType::System => self.system += 1,
        }
        self.last_message_at = Some(at);
        self
    }
}

/// One event of a commit.
#[derive(Debug)]
pub struct NewRow {
    /// What happened.
    pub happened: Happened,
    /// The event's data, as JSON. Written once; redaction apart, it never changes.
    pub payload: Bytes,
    /// Counts up to and with this row.
    pub tallies: Tallies,
    /// What event filters see.
    pub seen: Option<Seen>,
    /// The sequence of the message row that this one edits.
    pub edits: Option<u64>,
}

/// What filters of events see of a conversation as of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The channel.
    pub channel: Channel,
    /// The priority.
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
    /// JSON.
    pub metadata: Box<str>,
    /// When it was closed.
    pub closed_at: Option<i64>,
    /// Until when it sleeps; only a pending one does.
    pub snoozed_until: Option<i64>,
    /// When it last came to need somebody: made, reopened or woken.
    pub roused_at: i64,
}

/// What a commit does to the entity's header.
#[derive(Debug)]
pub enum Header {
    /// Nothing: the row says it all.
    Unchanged,
    /// Puts a conversation's; `before` is what it replaces.
    Conversation {
        /// As it was.
        before: Option<Box<ConversationState>>,
        /// As it is.
        after: Box<ConversationState>,
    },
    /// Puts a record's.
    Record {
        /// Whether it is new.
        new: bool,
        /// What people call it.
        name: String,
        /// JSON, as the entity reads it back.
        body: String,
        /// Names under which it is found, by field; those of before that are not here are given up.
        names: Vec<(NameField, String)>,
    },
    /// Deletes a record.
    RecordGone,
    /// Puts a document's, with what comes with it.
    Document(Box<DocumentHeader>),
    /// Deletes a document for good.
    DocumentGone,
    /// Counts uses of one of a document's share links, and nothing else of it.
    LinkUsed {
        /// The link that was used.
        share: ShareId,
        /// How often it has been used by now.
        uses: u64,
    },
}

/// A field by which records are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum NameField {
    CustomerEmail = 1,
    CustomerExternalId = 2,
    UserEmail = 3,
}

impl NameField {
    /// Whether one value may be used once only in a scope.
    #[must_use]
    pub fn unique(self) -> bool {
        match self {
            NameField::CustomerEmail => false,
            NameField::CustomerExternalId | NameField::UserEmail => true,
        }
    }

    /// The parameter's name.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            NameField::CustomerEmail | NameField::UserEmail => "email",
            NameField::CustomerExternalId => "external_id",
        }
    }
}

/// What must hold outside the entity, judged inside the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// This customer exists in the commit's scope.
    CustomerExists(CustomerId),
    /// This user exists in the commit's account.
    UserExists(UserId),
    /// No conversation is this customer's.
    NoConversations(CustomerId),
    /// No document is this user's, in the bin or out of it.
    NoDocuments(UserId),
    /// There are fewer records of this kind in the commit's scope than so many.
    FewerThan(Kind, usize),
}

/// A condition that did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// There is no such customer.
    NoCustomer,
    /// There is no such user.
    NoUser,
    /// The customer has conversations.
    HasConversations,
    /// The user owns documents.
    HasDocuments,
    /// Another record has this value.
    Taken(NameField),
    /// There are as many records of this kind as there may be.
    Full(usize),
}

/// The answer that is kept under an idempotency key.
#[derive(Debug)]
pub struct KeptAnswer {
    /// The key; it ends with the commit.
    pub reservation: Reservation,
    /// What was done.
    pub done: Done,
    /// What was created.
    pub id: Option<String>,
    /// The entity tag.
    pub etag: Option<String>,
    /// The body; none where it is the first row's payload.
    pub body: Option<Bytes>,
}

/// What the views in memory take in before the answer leaves.
#[derive(Debug)]
pub enum Effect {
    /// An account as it is now.
    Account(Box<AccountView>, u32),
    /// A key as it is now, with the secrets that hold.
    Key(Box<KeyView>, u32, Secrets),
    /// A user as it is now.
    User(Scope, UserId, Role),
    /// A user that is no more.
    UserGone(Scope, UserId),
    /// A customer's new name.
    CustomerRenamed(CustomerId, Box<str>),
    /// A webhook endpoint as it is now.
    Endpoint(Arc<Endpoint>),
    /// A webhook endpoint that is no more.
    EndpointGone(WebhookId),
    /// A conversation sleeps until then.
    Snoozed(i64),
}

/// Work that a commit leaves behind, kept until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// Take every conversation from this user, who is no more.
    Unassign(Scope, UserId),
}

/// Everything that one command changes.
#[derive(Debug)]
pub struct Commit {
    /// Whose change it is.
    pub subject: Subject,
    /// The sequence of its last row before.
    pub expected: u64,
    /// Whose data.
    pub scope: Scope,
    /// Who did it.
    pub by: By,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Its events, in order; none: only an answer is kept.
    pub rows: Vec<NewRow>,
    /// What lists show.
    pub header: Header,
    /// The sequence of the message whose texts of before are to be erased. From the commit on no
    /// reader shows them; the file loses them behind, in slices, also after a crash.
    pub redacts: Option<u64>,
    /// What must hold outside.
    pub conditions: Vec<Condition>,
    /// The kept answer.
    pub answer: Option<KeptAnswer>,
    /// What the views take in.
    pub effects: Vec<Effect>,
    /// What is left to be done.
    pub chore: Option<Chore>,
}

impl Commit {
    /// A command of this caller at this instant, on the entity as it is behind this sequence. As it
    /// stands it changes nothing.
    pub(crate) fn new(subject: Subject, expected: u64, caller: Caller, at: i64) -> Self {
        let Caller { scope, by } = caller;
        Commit {
            subject,
            expected,
            scope,
            by,
            at,
            rows: Vec::new(),
            header: Header::Unchanged,
            redacts: None,
            conditions: Vec::new(),
            answer: None,
            effects: Vec::new(),
            chore: None,
        }
    }

    /// About how many bytes of texts it writes.
    pub(crate) fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(|row| row.payload.len()).sum();
        let answer = self
            .answer
            .as_ref()
            .and_then(|kept| kept.body.as_ref())
            .map_or(0, Bytes::len);
        let header = match &self.header {
            Header::Document(header) => {
                let comments = header
                    .comments
                    .iter()
                    .filter_map(|(_, body)| body.as_ref())
                    .map(String::len);
                let frame = header
                    .version
                    .as_ref()
                    .map_or(0, |version| version.frame.len());
                header.body.len() + frame + comments.sum::<usize>()
            }
            Header::Unchanged
            | Header::Conversation { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::DocumentGone
            | Header::LinkUsed { .. } => 0,
        };
        rows + answer + header
    }
}
