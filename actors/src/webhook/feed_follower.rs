//! How whoever delivers follows what happens: from the store while it is behind, then from the
//! feed, each event once.

use std::sync::Arc;

use super::delivery_queue::{Keep, Matching};
use super::dispatcher::{Dispatcher, Message, PAUSE, now_ms};
use super::endpoint_queue::{Sending, StoredQueue};
use super::matcher::Moved;
use super::restore::restore_endpoint;
use crate::feed::{Ended, Interest, Item, Subscription};
use crate::store::{FeedRow, LIVE, ReadError, Store, WebhookState};
use colloquy_model::endpoint::Endpoint;
use colloquy_model::event::Event;
use colloquy_model::position::Position;
use colloquy_runtime::Context;

/// Items waiting to be matched; beyond, they are read from the store.
const QUEUE: usize = 4096;
/// Items taken at once.
const TAKEN: usize = 64;
/// Rows read from the store at once.
const PAGE: u32 = 256;
/// With so much to write nothing more is matched: slices stay small.
const NEWS_MAX: usize = 256;

/// A page of what happened; with the endpoints as they are now, where one of them changed.
pub(super) type Behind = (Vec<FeedRow>, Option<WebhookState>);

/// Something that happened and is not matched yet: what comes is matched as far as the next slice
/// has room.
#[derive(Debug)]
pub(super) enum Unmatched {
    /// Something that happened to an entity.
    Event(Arc<Event>, Keep),
    /// An endpoint as it is from this position on.
    Endpoint(Position, Arc<Endpoint>),
    /// An endpoint that is no more.
    Gone(Position, u64),
    /// Nothing else up to this position.
    Reached(Position),
    /// The end of what was read of the store at once; whether there was room for more.
    PageEnd {
        /// Whether the store had nothing behind it.
        whole: bool,
    },
}

/// How far it is in the log of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// It does not know yet where it stands.
    Opening,
    /// It reads the store; `joined` is where the queue of the feed begins, once it listens.
    Behind {
        joined: Option<Position>,
        busy: bool,
    },
    /// It takes what comes.
    Live,
}

impl Dispatcher {
    /// Reads on, where it is not told anyway and there is room for what comes.
    pub(super) fn read(&mut self, context: &mut Context<Message>) {
        if !self.unmatched.is_empty() || self.queue.unwritten() >= NEWS_MAX {
            return;
        }
        match self.reading {
            Reading::Live => {
                let Some(mut subscription) = self.subscription.take() else {
                    return;
                };
                context.spawn(async move {
                    let first = match subscription.next().await {
                        Ok(first) => first,
                        Err(ended) => return Message::Fed(subscription, Vec::new(), Some(ended)),
                    };
                    let mut items = vec![first];
                    while items.len() < TAKEN
                        && let Some(item) = subscription.waiting()
                    {
                        items.push(item);
                    }
                    Message::Fed(subscription, items, None)
                });
            }
            Reading::Behind {
                joined,
                busy: false,
            } => {
                self.reading = Reading::Behind { joined, busy: true };
                let (store, position) = (Arc::clone(&self.means.store), self.matcher.position());
                context.spawn(async move { Message::Read(behind(&*store, position).await) });
            }
            Reading::Behind { busy: true, .. } | Reading::Opening => {}
        }
    }

    /// Matches what has come, as far as the next slice has room: an event of many endpoints takes
    /// several.
    pub(super) fn match_on(&mut self) {
        loop {
            let room = NEWS_MAX.saturating_sub(self.queue.unwritten());
            if room == 0 {
                return;
            }
            let Some(next) = self.unmatched.pop_front() else {
                return;
            };
            match next {
                Unmatched::Event(event, keep) => {
                    for endpoint in self.matcher.event(&event, room) {
                        let matching = Matching {
                            endpoint,
                            lane: LIVE,
                            event: &event,
                            keep,
                        };
                        self.queue.push(matching, now_ms());
                    }
                    if self.matcher.position() < event.position {
                        self.unmatched.push_front(Unmatched::Event(event, keep));
                    }
                }
                Unmatched::Endpoint(position, version) => self.moved(position, version),
                Unmatched::Gone(position, number) => self.gone(position, number),
                Unmatched::Reached(position) => self.matcher.reached(position),
                Unmatched::PageEnd { whole } => self.page_ended(whole),
            }
        }
    }

    /// A page of what happened. What was read of the store may have been redacted since: it is read
    /// again before it is sent.
    pub(super) fn read_behind(&mut self, read: Result<Behind, ReadError>) {
        let Reading::Behind { joined, .. } = self.reading else {
            return;
        };
        let Ok((rows, state)) = read else {
            tracing::warn!("what happened can't be read: webhooks wait");
            self.reading = Reading::Behind {
                joined,
                busy: false,
            };
            return;
        };
        for stored in state.iter().flat_map(|state| &state.endpoints) {
            self.know(stored);
        }
        let whole = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        for row in rows {
            let unmatched = self.row(row);
            self.unmatched.extend(unmatched);
        }
        self.unmatched.push_back(Unmatched::PageEnd { whole });
    }

    /// Far behind it reads without listening, so that nothing queues up meanwhile; at the end it
    /// joins the feed and reads once more, up to exactly there.
    fn page_ended(&mut self, whole: bool) {
        let Reading::Behind { joined, .. } = self.reading else {
            return;
        };
        let position = self.matcher.position();
        self.reading = match joined {
            Some(joined) if whole || position >= joined => {
                self.matcher.reached(joined);
                Reading::Live
            }
            None if whole => {
                let subscription = self.means.feed.subscribe(Interest::Webhooks, QUEUE);
                let joined = Some(subscription.joined);
                self.subscription = Some(Box::new(subscription));
                Reading::Behind {
                    joined,
                    busy: false,
                }
            }
            Some(_) | None => Reading::Behind {
                joined,
                busy: false,
            },
        };
    }

    fn row(&self, row: FeedRow) -> Option<Unmatched> {
        match row {
            FeedRow::Event(event) => Some(Unmatched::Event(event, Keep::InStore)),
            FeedRow::Endpoint {
                position,
                number,
                body: None,
            } => Some(Unmatched::Gone(position, number)),
            FeedRow::Endpoint {
                position,
                number,
                body: Some(body),
            } => {
                // One that has gone since got nothing that anybody could see.
                let target = self.targets.get(&number)?;
                let version = restore_endpoint(&body, target.id, target.tenant).ok()?;
                Some(Unmatched::Endpoint(position, Arc::new(version)))
            }
        }
    }

    pub(super) fn fed(
        &mut self,
        subscription: Box<Subscription>,
        items: Vec<Item>,
        ended: Option<Ended>,
    ) {
        for item in items {
            let unmatched = match item {
                Item::Event(event) => Unmatched::Event(event, Keep::InMemory),
                Item::Endpoint(position, endpoint) => {
                    self.targets
                        .insert(endpoint.id.number(), Arc::clone(&endpoint));
                    Unmatched::Endpoint(position, endpoint)
                }
                Item::EndpointGone(position, id) => Unmatched::Gone(position, id.number()),
                Item::Redacted(entity) => {
                    // At once, whatever is still to be matched.
                    self.queue.forget_events_of(entity);
                    self.distrust(|event| event.entity == entity);
                    continue;
                }
                Item::Reached(position) => Unmatched::Reached(position),
            };
            self.unmatched.push_back(unmatched);
        }
        match ended {
            None => self.subscription = Some(subscription),
            Some(Ended::TooSlow) => {
                self.queue.forget_all_events();
                self.distrust(|_| true);
                self.reading = Reading::Behind {
                    joined: None,
                    busy: false,
                };
            }
            // The server stops.
            Some(Ended::Closed) => {}
        }
    }

    /// These events, where they are not matched yet, may have been redacted.
    fn distrust(&mut self, which: impl Fn(&Event) -> bool) {
        for unmatched in &mut self.unmatched {
            if let Unmatched::Event(event, keep) = unmatched
                && which(event)
            {
                *keep = Keep::InStore;
            }
        }
    }

    fn moved(&mut self, position: Position, version: Arc<Endpoint>) {
        let (account, number) = (version.tenant.account_number(), version.id.number());
        match self.matcher.endpoint(position, version) {
            Moved::No => {}
            Moved::Open => {
                self.queue.open(StoredQueue {
                    account,
                    endpoint: number,
                    waiting: 0,
                    failing_since: None,
                });
                let sending = self
                    .targets
                    .get(&number)
                    .map_or(Sending::Paused, |target| Sending::of(target));
                self.queue.set_sending(number, sending);
            }
            Moved::Shut => {
                self.queue.give_up(number);
                self.jobs.give_up(number);
            }
        }
    }

    fn gone(&mut self, position: Position, number: u64) {
        self.targets.remove(&number);
        if self.matcher.gone(position, number) {
            self.queue.remove(number);
            self.jobs.give_up(number);
        }
    }
}

/// What happened behind this position; a failure is told after a pause, so that it is not asked
/// again at once.
async fn behind(store: &dyn Store, position: Position) -> Result<Behind, ReadError> {
    let page = page_behind(store, position).await;
    if page.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    page
}

async fn page_behind(store: &dyn Store, position: Position) -> Result<Behind, ReadError> {
    let rows = store.happened_behind(position, PAGE).await?;
    let changed = rows
        .iter()
        .any(|row| matches!(row, FeedRow::Endpoint { .. }));
    let state = if changed {
        Some(store.webhook_state().await?)
    } else {
        None
    };
    Ok((rows, state))
}
