//! The lanes of an endpoint's queue, as far as memory holds them: each has the deliveries of one
//! conversation or document, which leave one after the other.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::held_event::HeldEvent;
use crate::store::{LaneKey, Waiting};
use colloquy_model::event::Event;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// A delivery that waits in a lane.
#[derive(Debug)]
pub(super) struct QueuedDelivery {
    pub(super) number: i64,
    pub(super) position: Position,
    /// How many attempts have been made.
    pub(super) attempts: u32,
    /// Where there is none, it is read before it is sent.
    pub(super) event: Option<HeldEvent>,
}

impl From<Waiting> for QueuedDelivery {
    fn from(waiting: Waiting) -> Self {
        let Waiting {
            number,
            position,
            attempts,
            ..
        } = waiting;
        QueuedDelivery {
            number,
            position,
            attempts,
            event: None,
        }
    }
}

/// The head of a lane that is to be sent now.
#[derive(Debug)]
pub(super) struct StartedHead {
    pub(super) key: LaneKey,
    pub(super) number: i64,
    pub(super) position: Position,
    /// How many attempts were made before this one.
    pub(super) attempts: u32,
    pub(super) event: Option<Arc<Event>>,
}

/// What became of a wish to send a delivery now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryOutcome {
    /// It is sent now, or is being sent.
    Sends,
    /// Something before it in its lane waits.
    Queues,
    /// Memory does not hold the delivery.
    NotHeld,
}

/// What the head of a lane is doing; those behind it wait for it.
///
/// ```text
///                 sent                  ended: the next one is the head
///   Ready ─────────────────▶ InFlight ──────────────────────────────────▶ Ready
///     ▲                         │
///     │                         │ tried again later, or not readable now
///     └───── WaitsUntil ◀───────┘
///       due, or retried by hand
/// ```
///
/// A lane whose last delivery has ended is dropped, and so is one that has to wait while memory
/// does not hold everything: the store hands it out again when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadState {
    /// The first delivery of the lane may be sent at once.
    Ready,
    /// It is being sent: an attempt is under way.
    InFlight,
    /// It may be sent from this instant on.
    WaitsUntil(Timestamp),
}

#[derive(Debug)]
struct Lane {
    deliveries: VecDeque<QueuedDelivery>,
    head: HeadState,
}

/// When the head of a lane may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HeadDue {
    at: Timestamp,
    key: LaneKey,
}

/// The lanes that memory holds, and in which order their heads are sent.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<LaneKey, Lane>,
    /// Those whose head is ready, whichever became so first in front.
    ready: VecDeque<LaneKey>,
    /// Those whose head waits, by the instant.
    waiting: BTreeSet<HeadDue>,
    /// Deliveries in all of them.
    held: usize,
}

impl Lanes {
    /// How many deliveries are held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How many lanes are held in memory.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether this lane is held.
    pub(super) fn contains(&self, key: LaneKey) -> bool {
        self.lanes.contains_key(&key)
    }

    /// Whether a head may be sent.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the first of the heads that wait may be sent.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.first().map(|due| due.at)
    }

    /// A delivery behind all others of its lane.
    pub(super) fn push(&mut self, key: LaneKey, delivery: QueuedDelivery) {
        self.held += 1;
        let ready = &mut self.ready;
        let lane = self.lanes.entry(key).or_insert_with(|| {
            ready.push_back(key);
            Lane {
                deliveries: VecDeque::new(),
                head: HeadState::Ready,
            }
        });
        lane.deliveries.push_back(delivery);
    }

    /// The next head to be sent; its lane waits for what becomes of it.
    pub(super) fn start_next(&mut self) -> Option<StartedHead> {
        let key = self.ready.pop_front()?;
        let lane = self.lanes.get_mut(&key)?;
        let head = lane.deliveries.front_mut()?;
        lane.head = HeadState::InFlight;
        Some(StartedHead {
            key,
            number: head.number,
            position: head.position,
            attempts: head.attempts,
            event: head.event.take().map(HeldEvent::release),
        })
    }

    /// The head that was sent has ended: the next one's turn.
    pub(super) fn finish_head(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        if lane.deliveries.pop_front().is_some() {
            self.held -= 1;
        }
        if lane.deliveries.is_empty() {
            self.lanes.remove(&key);
        } else {
            lane.head = HeadState::Ready;
            self.ready.push_back(key);
        }
    }

    /// The head that was sent has failed, and is tried again from `due` on.
    pub(super) fn retry_head(&mut self, key: LaneKey, due: Timestamp) {
        if let Some(head) = self
            .lanes
            .get_mut(&key)
            .and_then(|lane| lane.deliveries.front_mut())
        {
            head.attempts += 1;
        }
        self.delay_head(key, due);
    }

    /// The head could not be sent, which is no attempt, and may be from `due` on.
    pub(super) fn delay_head(&mut self, key: LaneKey, due: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.head = HeadState::WaitsUntil(due);
            self.waiting.insert(HeadDue { at: due, key });
        }
    }

    /// A delivery is to be tried now, not when it is due.
    pub(super) fn retry_now(&mut self, key: LaneKey, number: i64) -> RetryOutcome {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return RetryOutcome::NotHeld;
        };
        match lane
            .deliveries
            .iter()
            .position(|delivery| delivery.number == number)
        {
            None => RetryOutcome::NotHeld,
            Some(0) => {
                if let HeadState::WaitsUntil(at) = lane.head {
                    lane.head = HeadState::Ready;
                    self.waiting.remove(&HeadDue { at, key });
                    self.ready.push_back(key);
                }
                RetryOutcome::Sends
            }
            Some(_) => RetryOutcome::Queues,
        }
    }

    /// Heads that are due are ready.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some(due) = self.waiting.first().copied().filter(|due| due.at <= now) {
            self.waiting.remove(&due);
            if let Some(lane) = self.lanes.get_mut(&due.key) {
                lane.head = HeadState::Ready;
                self.ready.push_back(due.key);
            }
        }
    }

    /// Lets go of a lane whose head was sent.
    pub(super) fn evict(&mut self, key: LaneKey) {
        if let Some(lane) = self.lanes.remove(&key) {
            self.held -= lane.deliveries.len();
        }
    }

    /// Lets go of all lanes whose head waits; gives when the first of these is due, if there is one.
    pub(super) fn evict_waiting(&mut self) -> Option<Timestamp> {
        let waiting = std::mem::take(&mut self.waiting);
        for due in &waiting {
            self.evict(due.key);
        }
        waiting.first().map(|due| due.at)
    }

    /// Takes in a lane as the store had it, up to `capacity` deliveries of all lanes. What is held
    /// of it is newer; what follows that is the store's to tell.
    pub(super) fn merge(&mut self, found: Vec<Waiting>, now: Timestamp, capacity: usize) {
        let Some(head) = found.first() else { return };
        let (key, due) = (head.key, head.due.unwrap_or(now));
        if !self.contains(key) {
            if self.held >= capacity {
                return;
            }
            self.insert(key, due, now);
        }
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        let last = lane.deliveries.back().map_or(0, |last| last.number);
        for waiting in found.into_iter().filter(|waiting| waiting.number > last) {
            if self.held >= capacity && !lane.deliveries.is_empty() {
                break;
            }
            self.held += 1;
            lane.deliveries.push_back(waiting.into());
        }
    }

    /// A lane, still without deliveries, whose head is due at this instant.
    fn insert(&mut self, key: LaneKey, due: Timestamp, now: Timestamp) {
        let head = if due <= now {
            self.ready.push_back(key);
            HeadState::Ready
        } else {
            self.waiting.insert(HeadDue { at: due, key });
            HeadState::WaitsUntil(due)
        };
        let deliveries = VecDeque::new();
        self.lanes.insert(key, Lane { deliveries, head });
    }

    /// Lets go of the events of these lanes' deliveries, which are read again before they are sent.
    pub(super) fn forget_events(&mut self, of: impl Fn(LaneKey) -> bool) {
        let lanes = self.lanes.iter_mut().filter(|(key, _)| of(**key));
        for delivery in lanes.flat_map(|(_, lane)| &mut lane.deliveries) {
            delivery.event = None;
        }
    }

    /// Lets go of all lanes and deliveries.
    pub(super) fn clear(&mut self) {
        *self = Lanes::default();
    }

    /// Whether the count is that of what is held, and no lane is empty.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        let held: usize = self.lanes.values().map(|lane| lane.deliveries.len()).sum();
        held == self.held && self.lanes.values().all(|lane| !lane.deliveries.is_empty())
    }
}
