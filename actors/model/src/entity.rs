//! Entities as the store names them.

use std::fmt::{self, Display, Formatter};

use crate::entity_number::EntityNumber;
use crate::id::{
    AccountKind, AlertsKind, AttachmentKind, AuditKind, ClientKind, ConversationKind, CustomerKind,
    DocumentKind, ErasureKind, GrantKind, Id, KeyKind, Prefix, SigningKeysKind, SupervisionKind,
    UserKind, WebhookKind,
};

/// The kind of an entity: what its identifier names.
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
    Supervision = 8,
    Client = 9,
    Grant = 10,
    SigningKeys = 11,
    Audit = 12,
    Alerts = 13,
    Attachment = 14,
    Erasure = 16,
}

impl Kind {
    /// As the audit trail names it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Account => "account",
            Kind::Key => "key",
            Kind::User => "user",
            Kind::Customer => "customer",
            Kind::Conversation => "conversation",
            Kind::Webhook => "webhook",
            Kind::Document => "document",
            Kind::Supervision => "supervision",
            Kind::Client => "client",
            Kind::Grant => "consent",
            Kind::SigningKeys => "signing_keys",
            Kind::Audit => "audit",
            Kind::Alerts => "alerts",
            Kind::Attachment => "attachment",
            Kind::Erasure => "erasure",
        }
    }

    /// Whether what happens to entities of the kind is told as public events.
    #[must_use]
    pub fn is_public(self) -> bool {
        Kind::PUBLIC.contains(&self)
    }

    /// The kinds of which public events tell.
    pub const PUBLIC: [Kind; 3] = [Kind::Conversation, Kind::Document, Kind::Alerts];

    /// Reads back what a store wrote.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        use Kind::{
            Account, Alerts, Attachment, Audit, Client, Conversation, Customer, Document, Erasure,
            Grant, Key, SigningKeys, Supervision, User, Webhook,
        };
        let all = [
            Account,
            Key,
            User,
            Customer,
            Conversation,
            Webhook,
            Document,
            Supervision,
            Client,
            Grant,
            SigningKeys,
            Audit,
            Alerts,
            Attachment,
            Erasure,
        ];
        all.into_iter().find(|kind| *kind as i64 == code)
    }
}

/// An entity, as the store names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    /// The kind, without which the number names nothing.
    pub kind: Kind,
    /// The number of its identifier.
    pub number: EntityNumber,
    /// The rest of its identifier.
    pub tail: u64,
}

impl Subject {
    /// What this identifier names; none where it names no entity.
    #[must_use]
    pub fn from_id(text: &str) -> Option<Self> {
        fn subject<K: Prefix>(kind: Kind, text: &str) -> Option<Subject> {
            let id: Id<K> = text.parse().ok()?;
            Some(Subject {
                kind,
                number: id.number(),
                tail: id.tail(),
            })
        }
        subject::<AccountKind>(Kind::Account, text)
            .or_else(|| subject::<KeyKind>(Kind::Key, text))
            .or_else(|| subject::<UserKind>(Kind::User, text))
            .or_else(|| subject::<CustomerKind>(Kind::Customer, text))
            .or_else(|| subject::<ConversationKind>(Kind::Conversation, text))
            .or_else(|| subject::<WebhookKind>(Kind::Webhook, text))
            .or_else(|| subject::<DocumentKind>(Kind::Document, text))
            .or_else(|| subject::<SupervisionKind>(Kind::Supervision, text))
            .or_else(|| subject::<ClientKind>(Kind::Client, text))
            .or_else(|| subject::<GrantKind>(Kind::Grant, text))
            .or_else(|| subject::<AuditKind>(Kind::Audit, text))
            .or_else(|| subject::<AlertsKind>(Kind::Alerts, text))
            .or_else(|| subject::<AttachmentKind>(Kind::Attachment, text))
            .or_else(|| subject::<ErasureKind>(Kind::Erasure, text))
    }
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
            Kind::Supervision => id::<SupervisionKind>(self).fmt(f),
            Kind::Client => id::<ClientKind>(self).fmt(f),
            Kind::Grant => id::<GrantKind>(self).fmt(f),
            Kind::SigningKeys => id::<SigningKeysKind>(self).fmt(f),
            Kind::Audit => id::<AuditKind>(self).fmt(f),
            Kind::Alerts => id::<AlertsKind>(self).fmt(f),
            Kind::Attachment => id::<AttachmentKind>(self).fmt(f),
            Kind::Erasure => id::<ErasureKind>(self).fmt(f),
        }
    }
}
