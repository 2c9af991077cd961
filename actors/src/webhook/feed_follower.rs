//! Follows what happens and matches it with endpoints: from the store while it is behind, then from
//! the feed, each event once.

use std::collections::VecDeque;
use std::sync::Arc;

use super::delivery_queue::Keep;
use super::endpoint_directory::EndpointDirectory;
use super::feed_reading::{FeedItems, FeedNews, FeedPage, FeedRead, PageEnd};
use super::matcher::{Matcher, Moved};
use super::restore::restore_endpoint;
use crate::feed::{Ended, Feed, Interest, Item, Subscription};
use crate::store::{FeedRow, Matched, ReadError, Store};
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::position::Position;

/// Items waiting to be matched; beyond, they are read from the store.
const SUBSCRIPTION_ITEMS_MAX: usize = 4096;

/// How far it is in the log of what happened.
///
/// ```text
///            a page was not full: it subscribes        it has read up to where it joined
///   Behind ──────────────────────────────────▶ Joined ─────────────────────────────────▶ Live
///     ▲ └┘ a full page                           └┘ a page before that                     │
///     └──────────────────────── it was too slow: the feed let it go ───────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It reads the store without listening, so that nothing queues up meanwhile.
    Behind(PageRead),
    /// It listens, and reads the store once more, up to where its subscription begins.
    Joined {
        /// The position behind which the subscription tells everything.
        at: Position,
        page: PageRead,
    },
    /// It reads nothing, and takes what the feed tells.
    Live,
}

/// Whether a page of the store is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageRead {
    Idle,
    UnderWay,
}

/// Something that happened and is not matched yet: what comes is matched as far as the next slice
/// has room.
#[derive(Debug)]
enum Unmatched {
    /// Something that happened to an entity.
    Event { event: Arc<Event>, keep: Keep },
    /// An endpoint as it is from this position on.
    Endpoint {
        position: Position,
        version: Arc<Endpoint>,
    },
    /// An endpoint that is no more from this position on.
    EndpointGone {
        position: Position,
        number: EntityNumber,
    },
    /// Nothing else up to this position.
    Reached(Position),
    /// The end of a page of the store.
    PageEnd(PageEnd),
}

/// Something that has been matched, and is to be done about deliveries.
#[derive(Debug)]
pub(super) enum FeedStep {
    /// These endpoints get this event.
    Deliver {
        event: Arc<Event>,
        keep: Keep,
        endpoints: Vec<EntityNumber>,
    },
    /// This endpoint gets events from here on, or still does.
    EndpointOpen(Arc<Endpoint>),
    /// The endpoint of this number gets none any more.
    EndpointShut(EntityNumber),
    /// The endpoint of this number is no more.
    EndpointGone(EntityNumber),
}

/// The events of which memory may hold more than is left of them.
#[derive(Debug)]
pub(super) enum Redacted {
    /// Those of the entities of these numbers.
    Of(Vec<EntityNumber>),
    /// Nobody knows: any of them.
    Unknown,
}

/// Follows what happens, and matches it.
pub(super) struct FeedFollower {
    store: Arc<dyn Store>,
    feed: Arc<Feed>,
    matcher: Matcher,
    progress: Progress,
    /// Its queue at the feed, while it listens and does not wait for what comes.
    subscription: Option<Box<Subscription>>,
    unmatched: VecDeque<Unmatched>,
}

impl FeedFollower {
    /// Goes on where this matcher stands.
    pub(super) fn new(store: Arc<dyn Store>, feed: Arc<Feed>, matcher: Matcher) -> Self {
        FeedFollower {
            store,
            feed,
            matcher,
            progress: Progress::Behind(PageRead::Idle),
            subscription: None,
            unmatched: VecDeque::new(),
        }
    }

    /// Everything up to this position is matched.
    pub(super) fn position(&self) -> Position {
        self.matcher.position()
    }

    /// The same, with what is matched of the event behind it.
    pub(super) fn matched(&self) -> Matched {
        self.matcher.matched()
    }

    /// The position of the last commit: who asks for something now has to see what was matched up
    /// to there.
    pub(super) fn last_position(&self) -> Position {
        self.feed.last()
    }

    /// Has the feed tell up to which position nothing else happened, where that is not known.
    pub(super) fn ask_for_position(&self) {
        if self.position() < self.feed.last() {
            self.feed.reach();
        }
    }

    /// Whether it takes what comes, and reads nothing.
    pub(super) fn is_live(&self) -> bool {
        self.progress == Progress::Live
    }

    /// What is to be read now, where all that came is matched and nothing is being read; to be
    /// answered by [`FeedFollower::take`].
    pub(super) fn begin_read(&mut self) -> Option<FeedRead> {
        if !self.unmatched.is_empty() {
            return None;
        }
        let page = match &mut self.progress {
            Progress::Live => return self.subscription.take().map(FeedRead::Subscription),
            Progress::Behind(page) | Progress::Joined { page, .. } => page,
        };
        if *page == PageRead::UnderWay {
            return None;
        }
        *page = PageRead::UnderWay;
        Some(FeedRead::Store {
            store: Arc::clone(&self.store),
            position: self.matcher.position(),
        })
    }

    /// Takes what was read, to be matched; gives whose events may have been redacted.
    pub(super) fn take(&mut self, news: FeedNews, endpoints: &mut EndpointDirectory) -> Redacted {
        match news {
            FeedNews::Page(page) => {
                self.take_page(page, endpoints);
                Redacted::Of(Vec::new())
            }
            FeedNews::Items(items) => self.take_items(items, endpoints),
        }
    }

    /// What was read of the store may have been redacted since: it is read again before it is sent.
    fn take_page(&mut self, page: Result<FeedPage, ReadError>, endpoints: &mut EndpointDirectory) {
        match &mut self.progress {
            Progress::Behind(page) | Progress::Joined { page, .. } => *page = PageRead::Idle,
            Progress::Live => return,
        }
        let Ok(FeedPage { rows, state, end }) = page else {
            tracing::warn!("what happened can't be read: webhooks wait");
            return;
        };
        for stored in state.iter().flat_map(|state| &state.endpoints) {
            endpoints.insert_stored(stored);
        }
        self.unmatched
            .extend(rows.into_iter().filter_map(|row| unmatched(row, endpoints)));
        self.unmatched.push_back(Unmatched::PageEnd(end));
    }

    fn take_items(&mut self, news: FeedItems, endpoints: &mut EndpointDirectory) -> Redacted {
        let mut redacted = Vec::new();
        for item in news.items {
            let unmatched = match item {
                Item::Event(event) => Unmatched::Event {
                    event,
                    keep: Keep::InMemory,
                },
                Item::Endpoint(position, version) => {
                    endpoints.insert(Arc::clone(&version));
                    Unmatched::Endpoint { position, version }
                }
                Item::EndpointGone(position, id) => Unmatched::EndpointGone {
                    position,
                    number: id.number(),
                },
                Item::Redacted(entity) => {
                    self.distrust(|event| event.entity == entity);
                    redacted.push(entity);
                    continue;
                }
                // Given to who follows conversations.
                Item::Renamed(..) => continue,
                Item::Reached(position) => Unmatched::Reached(position),
            };
            self.unmatched.push_back(unmatched);
        }
        match news.ended {
            None => self.subscription = Some(news.subscription),
            Some(Ended::TooSlow) => {
                self.distrust(|_| true);
                self.progress = Progress::Behind(PageRead::Idle);
                return Redacted::Unknown;
            }
            // The server stops.
            Some(Ended::Closed) => {}
        }
        Redacted::Of(redacted)
    }

    /// These events, where they are not matched yet, may have been redacted.
    fn distrust(&mut self, which: impl Fn(&Event) -> bool) {
        for unmatched in &mut self.unmatched {
            if let Unmatched::Event { event, keep } = unmatched
                && which(event)
            {
                *keep = Keep::InStore;
            }
        }
    }

    /// Matches on until there is something to be done; an event of more than `most` endpoints takes
    /// several steps. None where all that came is matched.
    pub(super) fn match_next(
        &mut self,
        most: usize,
        endpoints: &mut EndpointDirectory,
    ) -> Option<FeedStep> {
        while let Some(next) = self.unmatched.pop_front() {
            let step = match next {
                Unmatched::Event { event, keep } => self.match_event(event, keep, most),
                Unmatched::Endpoint { position, version } => self.match_endpoint(position, version),
                Unmatched::EndpointGone { position, number } => {
                    endpoints.remove(number);
                    self.matcher
                        .gone(position, number)
                        .then_some(FeedStep::EndpointGone(number))
                }
                Unmatched::Reached(position) => {
                    self.matcher.reached(position);
                    None
                }
                Unmatched::PageEnd(end) => {
                    self.page_ended(end);
                    None
                }
            };
            if step.is_some() {
                return step;
            }
        }
        None
    }

    fn match_event(&mut self, event: Arc<Event>, keep: Keep, most: usize) -> Option<FeedStep> {
        let endpoints = self.matcher.event(&event, most);
        if self.matcher.position() < event.position {
            let event = Arc::clone(&event);
            self.unmatched.push_front(Unmatched::Event { event, keep });
        }
        (!endpoints.is_empty()).then_some(FeedStep::Deliver {
            event,
            keep,
            endpoints,
        })
    }

    fn match_endpoint(&mut self, position: Position, version: Arc<Endpoint>) -> Option<FeedStep> {
        match self.matcher.endpoint(position, Arc::clone(&version)) {
            Moved::No => None,
            Moved::Open => Some(FeedStep::EndpointOpen(version)),
            Moved::Shut => Some(FeedStep::EndpointShut(version.id.number())),
        }
    }

    /// At the end of the store it joins the feed and reads once more, up to exactly there.
    fn page_ended(&mut self, end: PageEnd) {
        let position = self.matcher.position();
        match self.progress {
            Progress::Behind(_) if end == PageEnd::Last => {
                let subscription = self
                    .feed
                    .subscribe(Interest::Webhooks, SUBSCRIPTION_ITEMS_MAX);
                self.progress = Progress::Joined {
                    at: subscription.joined,
                    page: PageRead::Idle,
                };
                self.subscription = Some(Box::new(subscription));
            }
            Progress::Joined { at, .. } if end == PageEnd::Last || position >= at => {
                self.matcher.reached(at);
                self.progress = Progress::Live;
            }
            Progress::Behind(_) | Progress::Joined { .. } | Progress::Live => {}
        }
    }
}

/// A row of the store, where it concerns anybody.
fn unmatched(row: FeedRow, endpoints: &EndpointDirectory) -> Option<Unmatched> {
    match row {
        FeedRow::Event(event) => Some(Unmatched::Event {
            event,
            keep: Keep::InStore,
        }),
        FeedRow::Endpoint {
            position,
            number,
            body: None,
        } => Some(Unmatched::EndpointGone { position, number }),
        FeedRow::Endpoint {
            position,
            number,
            body: Some(body),
        } => {
            // One that has gone since got nothing that anybody could see.
            let endpoint = endpoints.get(number)?;
            let version = restore_endpoint(&body, endpoint.id, endpoint.tenant).ok()?;
            Some(Unmatched::Endpoint {
                position,
                version: Arc::new(version),
            })
        }
        FeedRow::Renamed { .. } => None,
    }
}
