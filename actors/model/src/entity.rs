//! Entities as the store names them.

use std::fmt::{self, Display, Formatter};

use crate::entity_number::EntityNumber;
use crate::id::{
    AccountKind, ConversationKind, CustomerKind, DocumentKind, Id, KeyKind, Prefix,
    SupervisionKind, UserKind, WebhookKind,
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
}

impl Kind {
    /// Reads back what a store wrote.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        use Kind::{Account, Conversation, Customer, Document, Key, Supervision, User, Webhook};
        let all = [
            Account,
            Key,
            User,
            Customer,
            Conversation,
            Webhook,
            Document,
            Supervision,
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
        }
    }
}
