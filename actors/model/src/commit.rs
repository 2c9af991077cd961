//! What one command changes, as one unit.

use std::sync::Arc;

use bytes::Bytes;

use crate::account::{AccountView, TextKeys};
use crate::answer::Done;
use crate::caller::{Actor, Caller, Tenant};
use crate::client::{KnownClient, KnownGrant};
use crate::conversation::{ConversationState, MessageCounts, Seen};
use crate::document::DocumentHeader;
use crate::endpoint::Endpoint;
use crate::entity::{Kind, Subject};
use crate::entity_number::EntityNumber;
use crate::event_kind::EventKind;
use crate::id::{
    AttachmentId, ClientId, CustomerId, DocumentId, ErasureId, GrantId, ShareId, UserId, WebhookId,
};
use crate::idempotency::Reservation;
use crate::key::{KeyView, Secrets, SigningSecrets};
use crate::sequence::Sequence;
use crate::signing_key::KeptSigningKeys;
use crate::supervision::KeptSettings;
use crate::time::Timestamp;
use crate::user::KnownUser;

/// One event of a commit, which becomes one row of the log.
#[derive(Debug)]
pub struct NewRow {
    /// The kind of event.
    pub kind: EventKind,
    /// The event's data, as JSON. Written once; redaction apart, it never changes.
    pub payload: Bytes,
    /// Counts up to and with this row.
    pub counts: MessageCounts,
    /// What event filters see of it; none where it can't be filtered by anything but its kind.
    pub seen: Option<Seen>,
    /// The sequence of the message row that this one edits.
    pub edits: Option<Sequence>,
    /// How many bytes it adds to the texts that are stored of the account as they stand; negative
    /// where it takes some away.
    pub text_bytes: i64,
}

impl NewRow {
    /// An event that is no message's: filters see nothing of it but its kind.
    #[must_use]
    pub fn new(kind: EventKind, payload: Bytes) -> Self {
        NewRow {
            kind,
            payload,
            counts: MessageCounts::default(),
            seen: None,
            edits: None,
            text_bytes: 0,
        }
    }
}

/// What a commit does to the entity's header.
#[derive(Debug)]
pub enum Header {
    /// Nothing: the row says it all.
    Unchanged,
    /// Puts a conversation's; `before` is what it replaces.
    Conversation {
        /// The conversation as it was before; none where it is new.
        before: Option<Box<ConversationState>>,
        /// The conversation as it is from this commit on.
        after: Box<ConversationState>,
    },
    /// Writes a record: it is new, or takes the place of what stood there.
    Record {
        /// Whether there was no such record before.
        new: bool,
        /// The name that people call it by.
        name: String,
        /// JSON, as the entity reads it back.
        body: String,
        /// Names under which it is found, by field; those of before that are not here are given up.
        names: Vec<RecordName>,
    },
    /// Takes a conversation away for good; its texts are erased behind. `before` is what it was,
    /// without its metadata.
    ConversationGone {
        /// The conversation as it was counted before.
        before: Box<ConversationState>,
    },
    /// Deletes the record and gives up the names under which it was found.
    RecordGone,
    /// The same, and has all that was ever said of it erased behind.
    RecordErased,
    /// Puts a document's, with what comes with it.
    Document(Box<DocumentHeader>),
    /// Deletes a document for good.
    DocumentGone {
        /// Whether it was in the bin.
        was_deleted: bool,
    },
    /// Counts uses of one of a document's share links, and nothing else of it.
    LinkUsed {
        /// The share link that was used.
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
    /// That an attachment is no message's, as far as its record knows.
    UnsettledAttachment = 4,
    /// That a conversation has taken the attachment of this identifier for one of its messages.
    TakenAttachment = 5,
    /// That an account has proven that this host name is its own.
    ProvenDomain = 6,
    /// The customer whom an erasure that is under way erases.
    ErasedCustomer = 7,
}

/// One name under which a record is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordName {
    /// The field of the record that holds the name.
    pub field: NameField,
    /// The value, as it is compared.
    pub value: String,
}

impl NameField {
    /// Reads back what a store wrote.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        use NameField::{
            CustomerEmail, CustomerExternalId, ErasedCustomer, ProvenDomain, TakenAttachment,
            UnsettledAttachment, UserEmail,
        };
        let all = [
            CustomerEmail,
            CustomerExternalId,
            UserEmail,
            UnsettledAttachment,
            TakenAttachment,
            ProvenDomain,
            ErasedCustomer,
        ];
        all.into_iter().find(|field| *field as i64 == code)
    }

    /// Whether one value may be used once only in a tenant.
    #[must_use]
    pub fn unique(self) -> bool {
        match self {
            NameField::CustomerEmail | NameField::UnsettledAttachment => false,
            NameField::CustomerExternalId
            | NameField::UserEmail
            | NameField::TakenAttachment
            | NameField::ProvenDomain
            | NameField::ErasedCustomer => true,
        }
    }

    /// The name under which the interface takes the field.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            NameField::CustomerEmail | NameField::UserEmail => "email",
            NameField::CustomerExternalId => "external_id",
            NameField::UnsettledAttachment | NameField::TakenAttachment => "attachment_id",
            NameField::ProvenDomain => "domains",
            NameField::ErasedCustomer => "customer_id",
        }
    }
}

/// What must hold outside the entity, judged inside the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// This customer exists in the commit's tenant.
    CustomerExists(CustomerId),
    /// This user exists in the commit's account.
    UserExists(UserId),
    /// This document exists for the commit's tenant, in the bin or out of it.
    DocumentExists(DocumentId),
    /// No conversation is this customer's.
    NoConversations(CustomerId),
    /// No document is this user's, in the bin or out of it.
    NoDocuments(UserId),
    /// There are fewer records of this kind in the commit's tenant than so many.
    FewerThan(Kind, usize),
    /// The record of this attachment of the commit's tenant is as this sequence left it.
    AttachmentUnchanged(AttachmentId, Sequence),
    /// No message has this attachment.
    AttachmentUntaken(AttachmentId),
}

/// A condition that did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintViolation {
    /// There is no such customer.
    NoCustomer,
    /// There is no such user.
    NoUser,
    /// There is no such document.
    NoDocument,
    /// There is no such attachment any more.
    NoAttachment,
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
    /// What the command did, which decides the status of the answer.
    pub done: Done,
    /// The identifier of what was created.
    pub id: Option<String>,
    /// The entity tag that the answer carries, without quotation marks.
    pub etag: Option<String>,
    /// The body; none where it is the first row's payload.
    pub body: Option<Bytes>,
}

/// What the views in memory take in before the answer leaves.
#[derive(Debug)]
pub enum Effect {
    /// An account as it is now: its small number, its own monthly quota, the keys of its texts.
    Account(Box<AccountView>, u32, Option<u64>, TextKeys),
    /// A key as it is now, with the secrets that hold.
    Key(Box<KeyView>, u32, Secrets, SigningSecrets),
    /// A user as it is now.
    User(Tenant, UserId, Box<KnownUser>),
    /// A user that is no more.
    UserGone(Tenant, UserId),
    /// A customer's new name.
    CustomerRenamed(CustomerId, Box<str>),
    /// An OAuth client as it is now.
    Client(Box<KnownClient>),
    /// An OAuth client that is no more.
    ClientGone(ClientId),
    /// A grant as it is now.
    Grant(Box<KnownGrant>),
    /// A grant that is no more.
    GrantGone(GrantId),
    /// The keys that sign access tokens from now on.
    SigningKeys(Box<KeptSigningKeys>),
    /// A webhook endpoint as it is now.
    Endpoint(Arc<Endpoint>),
    /// A webhook endpoint that is no more.
    EndpointGone(WebhookId),
    /// A conversation sleeps until then.
    Snoozed(Timestamp),
    /// How actors are supervised from now on.
    Supervision(Box<KeptSettings>),
}

/// Work that a commit leaves behind, kept until it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// Take every conversation from this user, who is no more.
    Unassign(Tenant, UserId),
    /// Erase this attachment, whose message is redacted.
    EraseAttachment(Tenant, AttachmentId),
    /// Carry out this erasure of a customer.
    EraseCustomer(Tenant, ErasureId),
    /// Erase the attachments of a conversation that is erased, and see that its texts are.
    FinishConversation(Tenant, ErasedConversation),
}

/// A conversation that is erased, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErasedConversation {
    /// The number of its identifier.
    pub conversation: EntityNumber,
    /// The number of the erasure of its customer's; zero where its time was over.
    pub erasure: EntityNumber,
}

/// The kind of a chore, as stores keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the chores say it")]
pub enum ChoreKind {
    Unassign = 1,
    EraseAttachment = 2,
    EraseCustomer = 3,
    FinishConversation = 4,
}

impl ChoreKind {
    /// Reads back what a store wrote.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        let all = [
            ChoreKind::Unassign,
            ChoreKind::EraseAttachment,
            ChoreKind::EraseCustomer,
            ChoreKind::FinishConversation,
        ];
        all.into_iter().find(|kind| *kind as i64 == code)
    }
}

impl Chore {
    /// The chore of this kind about what the number and the tail of its identifier name.
    #[must_use]
    pub fn of(kind: ChoreKind, tenant: Tenant, (number, tail): (EntityNumber, u64)) -> Self {
        match kind {
            ChoreKind::Unassign => Chore::Unassign(tenant, UserId::from_parts(number, tail)),
            ChoreKind::EraseAttachment => {
                Chore::EraseAttachment(tenant, AttachmentId::from_parts(number, tail))
            }
            ChoreKind::EraseCustomer => {
                Chore::EraseCustomer(tenant, ErasureId::from_parts(number, tail))
            }
            ChoreKind::FinishConversation => {
                let erased = ErasedConversation {
                    conversation: number,
                    erasure: EntityNumber(tail),
                };
                Chore::FinishConversation(tenant, erased)
            }
        }
    }

    /// What is to be done.
    #[must_use]
    pub fn kind(self) -> ChoreKind {
        match self {
            Chore::Unassign(..) => ChoreKind::Unassign,
            Chore::EraseAttachment(..) => ChoreKind::EraseAttachment,
            Chore::EraseCustomer(..) => ChoreKind::EraseCustomer,
            Chore::FinishConversation(..) => ChoreKind::FinishConversation,
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn tenant(self) -> Tenant {
        match self {
            Chore::Unassign(tenant, _)
            | Chore::EraseAttachment(tenant, _)
            | Chore::EraseCustomer(tenant, _)
            | Chore::FinishConversation(tenant, _) => tenant,
        }
    }

    /// The number of the identifier that it is about.
    #[must_use]
    pub fn number(self) -> EntityNumber {
        match self {
            Chore::Unassign(_, user) => user.number(),
            Chore::EraseAttachment(_, attachment) => attachment.number(),
            Chore::EraseCustomer(_, erasure) => erasure.number(),
            Chore::FinishConversation(_, erased) => erased.conversation,
        }
    }

    /// The rest of that identifier; of a conversation the number of its customer's erasure.
    #[must_use]
    pub fn tail(self) -> u64 {
        match self {
            Chore::Unassign(_, user) => user.tail(),
            Chore::EraseAttachment(_, attachment) => attachment.tail(),
            Chore::EraseCustomer(_, erasure) => erasure.tail(),
            Chore::FinishConversation(_, erased) => erased.erasure.0,
        }
    }
}

/// Everything that one command changes.
#[derive(Debug)]
pub struct Commit {
    /// The entity that the commit changes.
    pub subject: Subject,
    /// The sequence of its last row before.
    pub expected: Sequence,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The user or key that did it, with the request and the address.
    pub actor: Actor,
    /// When the command was decided.
    pub at: Timestamp,
    /// Its events, in order; none: only an answer is kept.
    pub rows: Vec<NewRow>,
    /// Where texts are encrypted, the rows' payloads as they are stored; else empty.
    pub encrypted: Vec<Bytes>,
    /// What becomes of the entity's header, which lists show.
    pub header: Header,
    /// The sequence of the message whose texts of before are to be erased. From the commit on no
    /// reader shows them; the file loses them behind, in slices, also after a crash.
    pub redacts: Option<Sequence>,
    /// The attachment that it takes for a message of its conversation: no other commit may.
    pub takes: Option<AttachmentId>,
    /// What must hold outside the entity; otherwise nothing of the commit takes effect.
    pub conditions: Vec<Condition>,
    /// The answer that is kept under the request's idempotency key, if it has one.
    pub answer: Option<KeptAnswer>,
    /// What the views in memory take in when the commit is durable.
    pub effects: Vec<Effect>,
    /// Work that is left to be done afterwards, also across a restart.
    pub chore: Option<Chore>,
}

impl Commit {
    /// A command of this caller at this instant, on the entity as it is behind this sequence. As it
    /// stands it changes nothing.
    pub fn new(subject: Subject, expected: Sequence, caller: Caller, at: Timestamp) -> Self {
        let Caller { tenant, actor } = caller;
        Commit {
            subject,
            expected,
            tenant,
            actor,
            at,
            rows: Vec::new(),
            encrypted: Vec::new(),
            header: Header::Unchanged,
            redacts: None,
            takes: None,
            conditions: Vec::new(),
            answer: None,
            effects: Vec::new(),
            chore: None,
        }
    }

    /// The rows' payloads as they are stored.
    pub fn stored_payloads(&self) -> impl Iterator<Item = &Bytes> {
        let plain = self.rows.iter().map(|row| &row.payload);
        plain
            .enumerate()
            .map(|(index, plain)| self.encrypted.get(index).unwrap_or(plain))
    }

    /// The document's header that it writes.
    #[must_use]
    pub fn document(&self) -> Option<&DocumentHeader> {
        match &self.header {
            Header::Document(header) => Some(header),
            Header::Unchanged
            | Header::Conversation { .. }
            | Header::ConversationGone { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::RecordErased
            | Header::DocumentGone { .. }
            | Header::LinkUsed { .. } => None,
        }
    }

    /// A customer's new name as it is stored; none where the commit renames nobody.
    #[must_use]
    pub fn new_name(&self) -> Option<&str> {
        let is_rename = |effect: &Effect| matches!(effect, Effect::CustomerRenamed(..));
        match &self.header {
            Header::Record { name, .. } if self.effects.iter().any(is_rename) => Some(name),
            Header::Record { .. }
            | Header::Unchanged
            | Header::Conversation { .. }
            | Header::ConversationGone { .. }
            | Header::RecordGone
            | Header::RecordErased
            | Header::Document(_)
            | Header::DocumentGone { .. }
            | Header::LinkUsed { .. } => None,
        }
    }

    /// Whether it takes an entity away of which nothing may stay but identifiers and numbers: its
    /// texts of before are erased behind.
    #[must_use]
    pub fn erases(&self) -> bool {
        match &self.header {
            Header::ConversationGone { .. }
            | Header::RecordErased
            | Header::DocumentGone { .. } => true,
            Header::Unchanged
            | Header::Conversation { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::Document(_)
            | Header::LinkUsed { .. } => false,
        }
    }

    /// Whether it destroys the keys of an account's texts: nothing may stay of them in the store.
    #[must_use]
    pub fn destroys_keys(&self) -> bool {
        self.rows
            .iter()
            .any(|row| row.kind == EventKind::AccountForgotten)
    }

    /// The sequence of its last row; without rows, the one before it.
    #[must_use]
    pub fn last_sequence(&self) -> Sequence {
        self.expected.plus(self.rows.len())
    }

    /// About how many bytes of texts it writes.
    pub fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(|row| row.payload.len()).sum();
        let answer = self
            .answer
            .as_ref()
            .and_then(|kept| kept.body.as_ref())
            .map_or(0, Bytes::len);
        let header = self.document().map_or(0, |header| {
            let comments = header
                .comments
                .iter()
                .filter_map(|comment| comment.body.as_ref())
                .map(String::len);
            let frame = header
                .version
                .as_ref()
                .map_or(0, |version| version.frame.len());
            let links = header
                .links
                .as_ref()
                .map_or(0, |links| links.body.len() + size_of_val(&links.hashes[..]));
            let anchors = header.anchors.as_ref().map_or(0, Bytes::len);
            header.body.len() + links + anchors + frame + comments.sum::<usize>()
        });
        rows + answer + header
    }
}
