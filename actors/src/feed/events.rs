//! The way in: lists of events, and readers that follow them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Cursor, EventReader, Feed, Followed};
use crate::store::{EventLog, EventQuery, ListFailure};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::Tenant;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::UserId;
use colloquy_model::stream::StreamOffset;

/// A request for a page of events.
#[derive(Debug, Clone)]
pub struct EventList {
    /// The account and mode that the events belong to.
    pub tenant: Tenant,
    /// Those of one of its entities, or of all.
    pub source: EventSource,
    /// The filter that the items of the list pass.
    pub filter: EventFilter,
    /// Behind this offset.
    pub after: StreamOffset,
    /// How many items are given at most.
    pub limit: u32,
}

/// A page of events as clients are shown it.
#[derive(Debug)]
pub struct EventListing {
    /// The events, as a JSON array in text.
    pub data: Bytes,
    /// How many events that pass the filter follow `after`, on this page or behind it.
    pub total: u64,
    /// The `after` that goes on from here, at the end of the log too.
    pub next: String,
}

impl EventListing {
    /// Leaves nothing of it but where it goes on.
    pub fn clear(&mut self) {
        (self.data, self.total) = (Bytes::from_static(b"[]"), 0);
    }
}

/// The events of all entities and accounts: what lists and streams read.
pub struct Events {
    pub(crate) store: Arc<dyn EventLog>,
    pub(crate) feed: Arc<Feed>,
    /// Whether there is such a user in the account of this tenant.
    pub(crate) is_user: Box<dyn Fn(Tenant, UserId) -> bool + Send + Sync>,
}

impl Events {
    /// What happens from now on.
    #[must_use]
    pub fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    /// A page of events, oldest first.
    ///
    /// # Errors
    /// There is no such entity for this caller, a filter names what is not there, the cursor has
    /// expired, the store is away, or the list took too long.
    pub async fn list(&self, list: EventList) -> Result<EventListing, ListFailure> {
        self.check(list.tenant, &list.filter)?;
        let EventList {
            tenant,
            source,
            filter,
            after,
            limit,
        } = list;
        let query = EventQuery {
            tenant,
            source,
            after,
            until: None,
            filter,
            limit,
            total: true,
        };
        let page = self
            .store
            .events(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        let mut data = BytesMut::from(&b"["[..]);
        for event in &page.events {
            if data.len() > 1 {
                data.put_u8(b',');
            }
            data.extend_from_slice(&event.body());
        }
        data.put_u8(b']');
        let next = match source {
            EventSource::Entity(_) => page.cursor.to_string(),
            EventSource::Account => Cursor(page.cursor).to_string(),
        };
        Ok(EventListing {
            data: data.freeze(),
            total: page.total,
            next,
        })
    }

    /// Follows events from a place on.
    ///
    /// # Errors
    /// As [`Events::list`].
    pub async fn follow(&self, followed: Followed) -> Result<EventReader, ListFailure> {
        self.check(followed.tenant, &followed.filter)?;
        // Whatever a list would refuse is refused before the stream begins.
        let probe = EventQuery {
            tenant: followed.tenant,
            source: followed.source,
            after: followed.after,
            until: None,
            filter: followed.filter.clone(),
            limit: 1,
            total: false,
        };
        let first = self
            .store
            .events(probe)
            .await?
            .ok_or(ListFailure::NotFound)?;
        if first.events.is_empty() && first.unreadable.is_some() {
            return Err(ListFailure::Unreadable);
        }
        let (store, feed) = (Arc::clone(&self.store), Arc::clone(&self.feed));
        Ok(EventReader::new(store, feed, followed))
    }

    /// The offset of the last event: what follows it comes next.
    ///
    /// # Errors
    /// As [`Events::list`].
    pub async fn end(
        &self,
        tenant: Tenant,
        source: EventSource,
    ) -> Result<StreamOffset, ListFailure> {
        let query = EventQuery {
            tenant,
            source,
            after: StreamOffset::BEGINNING,
            until: None,
            filter: EventFilter::default(),
            limit: 0,
            total: false,
        };
        let page = self
            .store
            .events(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        // A page without events tells where the last one stands.
        match page.unreadable {
            Some(_) => Err(ListFailure::Unreadable),
            None => Ok(page.cursor),
        }
    }

    fn check(&self, tenant: Tenant, filter: &EventFilter) -> Result<(), ListFailure> {
        if filter
            .assignee
            .is_some_and(|user| !(self.is_user)(tenant, user))
        {
            return Err(ListFailure::Invalid(Invalid::new(
                "assignee_id",
                "must be a valid user ID",
            )));
        }
        Ok(())
    }
}
