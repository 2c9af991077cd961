//! What waits for one subscriber, and what waits for all connections of one account. A queue that
//! is full is let go with all that it holds; beyond the account's share those go first that are
//! furthest behind. Whoever is let go reads on from the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Item;
use colloquy_model::position::Position;

/// Bytes that wait for one subscriber, at most; one item always may.
const BYTES_MAX: usize = 16 << 20;
/// Listed queues that are not worth a look.
const LOOK_AT_MIN: usize = 64;
/// What an item takes beside an event's own bytes.
const OVERHEAD: usize = 256;

impl Item {
    /// About what it takes in memory: an event's data stands there twice once somebody has shown
    /// it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Item::Event(event) => OVERHEAD + 2 * event.payload.len(),
            Item::Renamed(_, renamed) => OVERHEAD + renamed.name.len(),
            Item::Endpoint(..) | Item::EndpointGone(..) | Item::Redacted(..) | Item::Reached(_) => {
                OVERHEAD
            }
        }
    }

    fn position(&self) -> Option<Position> {
        if let Item::Event(event) = self {
            Some(event.position)
        } else {
            None
        }
    }
}

/// Bytes of an event, held as long as it waits in any queue.
#[derive(Debug)]
pub(super) struct HeldItem {
    bytes: usize,
    share: Arc<AtomicUsize>,
}

impl Drop for HeldItem {
    fn drop(&mut self) {
        self.share.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Waiting {
    item: Item,
    _held: Option<Arc<HeldItem>>,
}

/// What became of an item that was put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// The item waits in the queue.
    Waits,
    /// The item waits, and the queue is not yet listed among those that hold something.
    Unlisted,
    /// There was no room: the queue has ended, with all that waited in it.
    Lost,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Waiting>,
    bytes: usize,
    ended: bool,
    listed: bool,
    reader: Option<Waker>,
}

/// The queue of one subscriber.
#[derive(Debug)]
pub(super) struct Queue {
    places: usize,
    state: Mutex<State>,
}

impl Queue {
    pub(super) fn new(places: usize) -> Self {
        Queue {
            places,
            state: Mutex::default(),
        }
    }

    /// Puts an item in; where there is no place for it, the queue is let go.
    pub(super) fn put(&self, item: &Item, held: Option<&Arc<HeldItem>>) -> Put {
        let (mut state, bytes) = (self.state.lock(), item.bytes());
        if state.ended {
            return Put::Lost;
        }
        let full = state.items.len() >= self.places || state.bytes + bytes > BYTES_MAX;
        if full && !state.items.is_empty() {
            drop(state);
            self.let_go();
            return Put::Lost;
        }
        state.items.push_back(Waiting {
            item: item.clone(),
            _held: held.cloned(),
        });
        state.bytes += bytes;
        let put = if std::mem::replace(&mut state.listed, true) {
            Put::Waits
        } else {
            Put::Unlisted
        };
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        put
    }

    /// Brings nothing more, and what waits neither.
    pub(super) fn let_go(&self) {
        let items = std::mem::take(&mut self.state.lock().items);
        self.end();
        drop(items);
    }

    /// Brings what waits, and nothing more.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// The next item; none where nothing more will come.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut state = self.state.lock();
        match take(&mut state) {
            Some(item) => Poll::Ready(Some(item)),
            None if state.ended => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next item, if it has come already.
    pub(super) fn waiting(&self) -> Option<Item> {
        take(&mut self.state.lock())
    }

    /// The position of what has waited longest; where nothing waits, it is listed no more.
    fn behind(&self) -> Option<Position> {
        let mut state = self.state.lock();
        let position = state
            .items
            .iter()
            .find_map(|waiting| waiting.item.position());
        state.listed = position.is_some();
        position
    }
}

fn take(state: &mut State) -> Option<Item> {
    let waiting = state.items.pop_front()?;
    state.bytes = state.bytes.saturating_sub(waiting.item.bytes());
    Some(waiting.item)
}

/// What waits for all connections of one account.
#[derive(Debug, Default)]
pub(super) struct Share {
    held: Arc<AtomicUsize>,
    /// Queues in which something waited when they were last looked at.
    behind: Vec<Arc<Queue>>,
    /// With so many of them they are looked at again.
    look_at: usize,
}

impl Share {
    /// Counts an event that is about to wait.
    pub(super) fn hold(&self, item: &Item) -> Arc<HeldItem> {
        let bytes = item.bytes();
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(HeldItem {
            bytes,
            share: Arc::clone(&self.held),
        })
    }

    /// Whether nothing waits; then no queue is listed.
    pub(super) fn is_empty(&mut self) -> bool {
        let empty = self.held.load(Ordering::Relaxed) == 0;
        if empty {
            self.prune();
        }
        empty
    }

    /// Lists no queue any more in which nothing waits, such as those whose readers have left.
    fn prune(&mut self) {
        self.behind.retain(|queue| queue.behind().is_some());
        self.look_at = LOOK_AT_MIN.max(2 * self.behind.len());
    }

    /// Notes a queue in which something waits.
    pub(super) fn list(&mut self, queue: &Arc<Queue>) {
        if self.behind.len() >= self.look_at {
            self.prune();
        }
        self.behind.push(Arc::clone(queue));
    }

    /// Lets those go that are furthest behind, where more waits than may: down to three quarters of
    /// it, so that it is not looked for them with every event.
    pub(super) fn keep_within(&mut self, bytes_max: usize) {
        if self.held.load(Ordering::Relaxed) <= bytes_max {
            return;
        }
        let positions = self
            .behind
            .drain(..)
            .filter_map(|queue| Some((queue.behind()?, queue)));
        let mut behind: Vec<(Position, Arc<Queue>)> = positions.collect();
        behind.sort_unstable_by_key(|(position, _)| *position);
        for (_, queue) in behind {
            if self.held.load(Ordering::Relaxed) > bytes_max / 4 * 3 {
                queue.let_go();
            } else {
                self.behind.push(queue);
            }
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
