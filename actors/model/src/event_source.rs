//! Whose events are meant: those of one entity, or of a whole account.

use crate::entity::{Kind, Subject};
use crate::event::Event;
use crate::id::ConversationId;
use crate::stream::StreamOffset;

/// Whose events of an account in one mode are meant; `E` says how an entity is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventSource<E = Subject> {
    /// Those of all its entities; an event's offset among them is its number.
    Account,
    /// Those of one entity; an event's offset among them is its sequence.
    Entity(E),
}

impl EventSource {
    /// The events of a conversation.
    #[must_use]
    pub fn conversation(id: ConversationId) -> Self {
        EventSource::Entity(Subject {
            kind: Kind::Conversation,
            number: id.number(),
            tail: id.tail(),
        })
    }
}

impl<E> EventSource<E> {
    /// The same with another name of the entity.
    pub fn map<F>(self, name: impl FnOnce(E) -> F) -> EventSource<F> {
        match self {
            EventSource::Account => EventSource::Account,
            EventSource::Entity(entity) => EventSource::Entity(name(entity)),
        }
    }

    /// The offset of an event among those of this source.
    pub fn offset(&self, event: &Event) -> StreamOffset {
        match self {
            EventSource::Account => event.number.into(),
            EventSource::Entity(_) => event.sequence.into(),
        }
    }
}

impl<E> From<Option<E>> for EventSource<E> {
    /// The entity, or all of them where none is named.
    fn from(entity: Option<E>) -> Self {
        entity.map_or(EventSource::Account, EventSource::Entity)
    }
}
