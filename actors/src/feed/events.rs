//! The way in: lists of events, and readers that follow them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Cursor, EventReader, Falling, Feed, Source};
use crate::store::{EventLog, EventQuery, ListFailure, Span};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::Tenant;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::id::UserId;

/// A list of events.
#[derive(Debug, Clone)]
pub struct EventList {
    /// The filter that the items of the list pass.
    pub filter: EventFilter,
    /// Behind this place; 0 is the beginning.
    pub after: u64,
    /// How many items are given at most.
    pub limit: u32,
}

/// A page of events.
#[derive(Debug)]
pub struct EventListing {
    /// A JSON array.
    pub data: Bytes,
    /// How many follow `after`.
    pub total: u64,
    /// The `after` that goes on from here, at the end of the log too.
    pub next: String,
}

/// All events.
pub struct Events {
    pub(crate) store: Arc<dyn EventLog>,
    pub(crate) feed: Arc<Feed>,
    /// Whether there is such a user in the account of this tenant.
    pub(crate) is_user: Box<dyn Fn(Tenant, UserId) -> bool + Send + Sync>,
}

impl Events {
    /// A page of events, oldest first.
    ///
    /// # Errors
    /// There is no such entity for this caller, a filter names what is not there, the cursor has
    /// expired, the store is away, or the list took too long.
    pub async fn list(&self, source: Source, list: EventList) -> Result<EventListing, ListFailure> {
        let (span, tenant) = span(source);
        self.check(tenant, &list.filter)?;
        let EventList {
            filter,
            after,
            limit,
        } = list;
        let query = EventQuery {
            span,
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
            Source::Entity(..) => page.cursor.to_string(),
            Source::Tenant(_) => Cursor(page.cursor).to_string(),
        };
        Ok(EventListing {
            data: data.freeze(),
            total: page.total,
            next,
        })
    }

    /// Follows events behind `after`.
    ///
    /// # Errors
    /// As [`Events::list`].
    pub async fn follow(
        &self,
        source: Source,
        filter: EventFilter,
        after: u64,
        falling: Falling,
    ) -> Result<EventReader, ListFailure> {
        let (span, tenant) = span(source);
        self.check(tenant, &filter)?;
        // Whatever a list would refuse is refused before the stream begins.
        let probe = EventQuery {
            span,
            after,
            until: None,
            filter: filter.clone(),
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
        let from = (Arc::clone(&self.store), Arc::clone(&self.feed));
        Ok(EventReader::new(from, source, filter, after, falling))
    }

    /// The place of the last event: what follows it comes next.
    ///
    /// # Errors
    /// As [`Events::list`].
    pub async fn end(&self, source: Source) -> Result<u64, ListFailure> {
        let (span, _) = span(source);
        let query = EventQuery {
            span,
            after: 0,
            until: None,
            filter: EventFilter::default(),
            limit: 1,
            total: true,
        };
        let page = self
            .store
            .events(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        // Places follow one another without a gap, behind those that retention has taken.
        let first = page.events.first().map(|event| match source {
            Source::Entity(..) => event.sequence,
            Source::Tenant(_) => event.number,
        });
        Ok(first.map_or(page.cursor, |first| first + page.total.saturating_sub(1)))
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

fn span(source: Source) -> (Span, Tenant) {
    match source {
        Source::Entity(tenant, subject) => (Span::Entity(tenant, subject), tenant),
        Source::Tenant(tenant) => (Span::Tenant(tenant), tenant),
    }
}
