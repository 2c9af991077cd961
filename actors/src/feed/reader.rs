//! Reads events from a cursor on: first the store, up to where it joins the feed, then the feed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::read_ahead::HeldAhead;
use super::{Ended, Feed, Interest, Item, Subscription};
use crate::store::{EventLog, EventPage, EventQuery, Later, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::event::Event;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;

/// What a reader reads, from where on.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The account and mode that the events belong to.
    pub tenant: Tenant,
    /// Those of one of its entities, or of all.
    pub source: EventSource,
    /// The filter that the events pass.
    pub filter: EventFilter,
    /// Behind this offset.
    pub after: StreamOffset,
    /// What becomes of the reader when it is too slow.
    pub falling: Falling,
}

/// What becomes of a reader whose queue overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falling {
    /// It reads on from the store until it has caught up.
    Behind,
    /// It ends with [`ReadEnd::TooSlow`].
    Out,
}

/// Why no more events come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadEnd {
    /// It could not keep up.
    #[error("the reader was too slow")]
    TooSlow,
    /// What it wants to read was trimmed by retention.
    #[error("the cursor has expired")]
    Expired,
    /// What it was about is no more.
    #[error("there is no such thing")]
    Gone,
    /// It was read to its end, behind which nothing ever comes.
    #[error("there is nothing more to come")]
    Complete,
    /// The store can't be read now.
    #[error("the store is away")]
    Away,
    /// What comes next is stored and can't be read, which was told: to come again brings nothing
    /// else.
    #[error("what is stored can't be read")]
    Unreadable,
    /// The server is stopping.
    #[error("the feed is closed")]
    Closed,
}

/// Events waiting for a subscriber, at most.
const QUEUE: usize = 1024;
/// Events read from the store at once, and at first: nobody knows how large they are.
const PAGE: u32 = 200;
const FIRST_PAGE: u32 = 8;
/// Bytes of events that one reader may have read ahead of what is taken, or a little more.
const READY_BYTES_MAX: usize = 64 << 10;

/// A reader of events, in order, none missing, none twice.
pub struct EventReader {
    store: Arc<dyn EventLog>,
    feed: Arc<Feed>,
    tenant: Tenant,
    source: EventSource,
    filter: EventFilter,
    falling: Falling,
    cursor: StreamOffset,
    subscription: Option<Subscription>,
    /// Up to this position the store is read; behind it the queue goes on.
    until: Option<Position>,
    ready: VecDeque<Arc<Event>>,
    /// What waits there counts for the account.
    held: Option<HeldAhead>,
    /// How many events the next page has.
    page: u32,
    /// Nothing follows what is ready: the conversation that it reads is erased.
    is_complete: bool,
    /// A page on its way: kept, so that whoever looks at other things meanwhile does not begin
    /// anew.
    reading: Option<Later<Result<Option<EventPage>, ReadError>>>,
}

impl EventReader {
    /// Begins to read; nothing is read before the first event is asked for.
    #[must_use]
    pub fn new(store: Arc<dyn EventLog>, feed: Arc<Feed>, followed: Followed) -> Self {
        let Followed {
            tenant,
            source,
            filter,
            after,
            falling,
        } = followed;
        EventReader {
            store,
            feed,
            tenant,
            source,
            filter,
            falling,
            cursor: after,
            subscription: None,
            until: None,
            ready: VecDeque::new(),
            held: None,
            is_complete: false,
            page: FIRST_PAGE,
            reading: None,
        }
    }

    /// Where it stands: what was read last, or skipped by its filter.
    #[must_use]
    pub fn cursor(&self) -> StreamOffset {
        self.cursor
    }

    /// The next event. Dropped while it waits, it loses nothing.
    ///
    /// # Errors
    /// No more will come.
    pub async fn next(&mut self) -> Result<Arc<Event>, ReadEnd> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.cursor = self.source.offset(&event);
                if self.ready.is_empty() {
                    self.held = None;
                }
                return Ok(event);
            }
            if self.is_complete {
                return Err(ReadEnd::Complete);
            }
            if self.subscription.is_none() || self.until.is_some() {
                if self.feed.is_closed() {
                    // A reader that is far behind would not learn it from its queue.
                    return Err(ReadEnd::Closed);
                }
                self.read_on().await?;
                continue;
            }
            let Some(subscription) = &mut self.subscription else {
                continue;
            };
            match subscription.next().await {
                Ok(Item::Event(event)) => self.take(event),
                Ok(
                    Item::Endpoint(..)
                    | Item::EndpointGone(..)
                    | Item::Renamed(..)
                    | Item::Redacted(..)
                    | Item::Reached(_),
                ) => {}
                Err(Ended::Closed) => return Err(ReadEnd::Closed),
                Err(Ended::TooSlow) if self.falling == Falling::Out => {
                    return Err(ReadEnd::TooSlow);
                }
                Err(Ended::TooSlow) => self.subscription = None,
            }
        }
    }

    fn take(&mut self, event: Arc<Event>) {
        let offset = self.source.offset(&event);
        if offset <= self.cursor {
            return;
        }
        // Also where the filter leaves it out: whoever asked for other events waits in vain, too.
        self.is_complete = match self.source {
            EventSource::Entity(_) => event.kind == EventKind::ConversationErased,
            EventSource::Account => false,
        };
        if self.filter.admits(&event) {
            self.ready.push_back(event);
        } else {
            self.cursor = offset;
        }
    }

    fn join(&mut self) {
        let source = self.source.map(|entity| entity.number);
        let interest = Interest::Events(self.tenant, source);
        let subscription = self.feed.subscribe(interest, QUEUE);
        self.until = Some(subscription.joined);
        self.subscription = Some(subscription);
    }

    fn query(&self) -> EventQuery {
        let (filter, until) = (self.filter.clone(), self.until);
        let account = self.tenant.account_number();
        let is_full = self.feed.read_ahead().is_full(account);
        EventQuery {
            tenant: self.tenant,
            source: self.source,
            after: self.cursor,
            until,
            filter,
            limit: if is_full { 1 } else { self.page },
            total: false,
        }
    }

    /// Keeps the first events of a page, as many as may wait, and has the next page bring about as many;
    /// whether there were more. The first one is taken at once.
    fn keep(&mut self, events: Vec<Arc<Event>>) -> bool {
        let (mut fit, mut bytes) = (0, 0);
        for event in &events {
            if bytes >= READY_BYTES_MAX {
                break;
            }
            bytes += event.payload.len();
            fit += 1;
        }
        let usual = bytes / fit.max(1);
        let page = u32::try_from(READY_BYTES_MAX / usual.max(1)).unwrap_or(PAGE);
        self.page = page.clamp(1, PAGE);
        if fit > 1 {
            let account = self.tenant.account_number();
            self.held = self.feed.read_ahead().hold(account, bytes);
            if self.held.is_none() {
                fit = 1;
            }
        }
        let is_cut = fit < events.len();
        self.ready.extend(events.into_iter().take(fit));
        is_cut
    }

    /// Reads a page from the store. Far behind, it reads without listening, so that nothing queues
    /// up meanwhile; at the end of the log it joins the feed and reads once more, up to exactly
    /// there.
    async fn read_on(&mut self) -> Result<(), ReadEnd> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => {
                let page = self.store.events(self.query());
                self.reading.insert(page)
            }
        };
        let read = reading.await;
        self.reading = None;
        let page = match read {
            Ok(Some(page)) => page,
            Ok(None) => return Err(ReadEnd::Gone),
            Err(ReadError::Expired) => return Err(ReadEnd::Expired),
            Err(ReadError::Unreadable) => return Err(ReadEnd::Unreadable),
            Err(
                ReadError::TooSlow | ReadError::Busy | ReadError::Away | ReadError::NoCursor(_),
            ) => {
                return Err(ReadEnd::Away);
            }
        };
        if page.events.is_empty() {
            self.cursor = self.cursor.max(page.cursor);
            if page.unreadable.is_some() {
                return Err(ReadEnd::Unreadable);
            }
        }
        let is_cut = self.keep(page.events);
        if !page.more && !is_cut && self.until.take().is_none() {
            self.join();
        }
        Ok(())
    }
}
