//! What people wrote, as it was before it was encrypted, in everything that comes out of a store.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::sealing::texts::{self, TextError};
use crate::store::{
    ActivityRow, AuditRow, ConversationHeader, DocumentRow, EventPage, FeedRow, FramedVersion,
    IndexedDocument, KeptRow, Stored, StoredComment, StoredDelivery, StoredDocument, StoredPage,
    StoredRecord, StoredVersion,
};
use colloquy_model::conversation::ConversationState;
use colloquy_model::event::Event;

/// Something that a store gives out, which may be encrypted.
pub(super) trait Opened: Sized {
    /// The same as people wrote it.
    ///
    /// # Errors
    /// Its account has no key for it any more, or it is damaged.
    fn opened(self) -> Result<Self, TextError>;
}

/// Opens some of the fields of a struct where they stand.
macro_rules! fields {
    ($($type:ident { $($field:ident),+ })+) => {$(
        impl Opened for $type {
            fn opened(mut self) -> Result<Self, TextError> {
                $(self.$field = self.$field.opened()?;)+
                Ok(self)
            }
        }
    )+};
}
fields! {
    ConversationState { metadata }
    ConversationHeader { state, customer_name }
    StoredRecord { name, body }
    StoredVersion { label, branch, message }
    StoredComment { body }
    StoredDocument { body, links, versions, comments }
    FramedVersion { version }
    DocumentRow { body }
    IndexedDocument { row }
    ActivityRow { payload }
    AuditRow { payload, before }
    KeptRow { body }
    EventPage { events }
}

impl Opened for Box<str> {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match texts::opened_text(&self)? {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => text.into(),
        })
    }
}

impl Opened for Arc<str> {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match texts::opened_text(&self)? {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => text.into(),
        })
    }
}

impl Opened for String {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match texts::opened_text(&self)? {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => text,
        })
    }
}

impl Opened for Bytes {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match texts::opened(&self)? {
            Cow::Borrowed(_) => self,
            Cow::Owned(text) => text.into(),
        })
    }
}

impl Opened for Event {
    fn opened(self) -> Result<Self, TextError> {
        let payload = self.payload.clone().opened()?;
        Ok(self.with_payload(payload))
    }
}

impl Opened for Arc<Event> {
    fn opened(self) -> Result<Self, TextError> {
        if !texts::is_encrypted(&self.payload) {
            return Ok(self);
        }
        Arc::unwrap_or_clone(self).opened().map(Arc::new)
    }
}

impl<T: Opened> Opened for Option<T> {
    fn opened(self) -> Result<Self, TextError> {
        self.map(T::opened).transpose()
    }
}

impl<T: Opened> Opened for Vec<T> {
    fn opened(self) -> Result<Self, TextError> {
        self.into_iter().map(T::opened).collect()
    }
}

impl<T: Opened> Opened for StoredPage<T> {
    fn opened(self) -> Result<Self, TextError> {
        Ok(StoredPage {
            items: self.items.opened()?,
            ..self
        })
    }
}

impl Opened for Stored {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match self {
            Stored::Conversation(mut stored) => {
                stored.state = stored.state.opened()?;
                stored.customer_name = stored.customer_name.opened()?;
                Stored::Conversation(stored)
            }
            Stored::Record(stored) => Stored::Record(stored.opened()?),
            Stored::Document(stored) => Stored::Document(Box::new(stored.opened()?)),
        })
    }
}

impl Opened for FeedRow {
    fn opened(self) -> Result<Self, TextError> {
        Ok(match self {
            FeedRow::Event(event) => FeedRow::Event(event.opened()?),
            // The one is not encrypted, the other was read by the store.
            FeedRow::Endpoint { .. } | FeedRow::Renamed { .. } => self,
        })
    }
}

impl Opened for StoredDelivery {
    fn opened(mut self) -> Result<Self, TextError> {
        for attempt in &mut self.log {
            attempt.answer = attempt.answer.take().opened()?;
        }
        Ok(self)
    }
}

/// A version's frames as they were before they were encrypted.
pub(super) fn opened_frames(version: FramedVersion) -> Result<FramedVersion, TextError> {
    let mut version = version.opened()?;
    for frame in &mut version.frames {
        *frame = texts::opened_bytes(frame)?.into();
    }
    Ok(version)
}
