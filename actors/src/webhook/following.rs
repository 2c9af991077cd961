//! How whoever delivers follows what happens: from the store while it is behind, then from the feed, each event once.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::matcher::Moved;
use super::post::{Mail, PAUSE, PostOffice, now_ms};
use super::restore::restore_endpoint;
use crate::feed::{Ended, Event, Interest, Item, Subscription};
use crate::runtime::Turn;
use crate::store::{FeedRow, LIVE, ReadError, Store, WebhookState};

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

/// How far it is in the log of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// It does not know yet where it stands.
    Opening,
    /// It reads the store; `joined` is where the queue of the feed begins, once it listens.
    Behind { joined: Option<i64>, busy: bool },
    /// It takes what comes.
    Live,
}

impl PostOffice {
    /// Reads on, where it is not told anyway and there is room for what comes.
    pub(super) fn read(&mut self, turn: &mut Turn<Mail>) {
        if self.queue.news() >= NEWS_MAX {
            return;
        }
        match self.reading {
            Reading::Live => {
                let Some(mut subscription) = self.subscription.take() else { return };
                turn.later(async move {
                    let first = match subscription.next().await {
                        Ok(first) => first,
                        Err(ended) => return Mail::Fed(subscription, Vec::new(), Some(ended)),
                    };
                    let mut items = vec![first];
                    while items.len() < TAKEN
                        && let Some(item) = subscription.waiting()
                    {
                        items.push(item);
                    }
                    Mail::Fed(subscription, items, None)
                });
            }
            Reading::Behind { joined, busy: false } => {
                self.reading = Reading::Behind { joined, busy: true };
                let (store, position) = (Arc::clone(&self.means.store), self.matcher.position());
                turn.later(async move { Mail::Read(behind(&*store, position).await) });
            }
            Reading::Behind { busy: true, .. } | Reading::Opening => {}
        }
    }

    /// A page of what happened. Far behind it reads without listening, so that nothing queues up meanwhile; at the end it
    /// joins the feed and reads once more, up to exactly there.
    pub(super) fn read_behind(&mut self, read: Result<Behind, ReadError>) {
        let Reading::Behind { joined, .. } = self.reading else { return };
        let Ok((rows, state)) = read else {
            tracing::warn!("what happened can't be read: webhooks wait");
            self.reading = Reading::Behind { joined, busy: false };
            return;
        };
        for stored in state.iter().flat_map(|state| &state.endpoints) {
            self.know(stored);
        }
        let whole = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        for row in rows {
            self.row(row);
        }
        // Only whoever listens is told of a redaction: what was read before that may not be sent as it was.
        self.queue.forget_all();
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
                Reading::Behind { joined, busy: false }
            }
            Some(_) | None => Reading::Behind { joined, busy: false },
        };
    }

    fn row(&mut self, row: FeedRow) {
        match row {
            FeedRow::Event(event) => self.event(&event),
            FeedRow::Endpoint { position, number, body: None } => self.gone(position, number),
            FeedRow::Endpoint { position, number, body: Some(body) } => {
                // One that has gone since got nothing that anybody could see.
                let Some(target) = self.targets.get(&number) else { return };
                if let Ok(version) = restore_endpoint(&body, target.id, target.scope) {
                    self.moved(position, Arc::new(version));
                }
            }
        }
    }

    pub(super) fn fed(&mut self, subscription: Box<Subscription>, items: Vec<Item>, ended: Option<Ended>) {
        for item in items {
            match item {
                Item::Event(event) => self.event(&event),
                Item::Endpoint(position, endpoint) => {
                    self.targets.insert(endpoint.id.number(), Arc::clone(&endpoint));
                    self.moved(position, endpoint);
                }
                Item::EndpointGone(position, id) => self.gone(position, id.number()),
                Item::Redacted(entity) => self.queue.forget(entity),
                Item::Reached(position) => self.matcher.reached(position),
            }
        }
        match ended {
            None => self.subscription = Some(subscription),
            Some(Ended::TooSlow) => {
                self.queue.forget_all();
                self.reading = Reading::Behind { joined: None, busy: false };
            }
            // The server stops.
            Some(Ended::Closed) => {}
        }
    }

    fn event(&mut self, event: &Arc<Event>) {
        for endpoint in self.matcher.event(event) {
            self.queue.push(endpoint, LIVE, event, now_ms());
        }
    }

    fn moved(&mut self, position: i64, version: Arc<Endpoint>) {
        let (account, number) = (version.scope.account_number(), version.id.number());
        match self.matcher.endpoint(position, version) {
            Moved::No => {}
            Moved::Open => {
                self.queue.open((account, number), 0, None);
                let enabled = self.targets.get(&number).is_some_and(|target| target.enabled);
                self.queue.pause(number, !enabled);
            }
            Moved::Shut => {
                self.queue.give_up(number, false);
                self.jobs.give_up(number);
            }
        }
    }

    fn gone(&mut self, position: i64, number: u64) {
        self.targets.remove(&number);
        if self.matcher.gone(position, number) {
            self.queue.give_up(number, true);
            self.jobs.give_up(number);
        }
    }
}

async fn behind(store: &dyn Store, position: i64) -> Result<Behind, ReadError> {
    let read = store.happened_behind(position, PAGE).await;
    let rows = match read {
        Ok(rows) => rows,
        Err(error) => {
            tokio::time::sleep(PAUSE).await;
            return Err(error);
        }
    };
    let changed = rows.iter().any(|row| matches!(row, FeedRow::Endpoint { .. }));
    let state = if changed { Some(store.webhook_state().await?) } else { None };
    Ok((rows, state))
}
