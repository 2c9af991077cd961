//! One endpoint's queue, as far as memory holds it. The store has all of it; this holds what can be
//! sent next.
//!
//! A queue is *fully in memory* while it holds every delivery that waits: then what is matched goes
//! straight to its lane and is sent from memory alone. Beyond its capacity it is not: then what is
//! matched goes to the store only, and the queue reads the heads that are due, each with what
//! follows it, as it gets room. What waits for a later attempt stays in the store then.

use std::sync::Arc;
use std::time::Duration;

use super::lanes::{Lanes, QueuedDelivery, RetryOutcome};
use super::receiver_health::{ReceiverHealth, Reception};
use super::store_backlog::{ReadEnd, StoreBacklog};
use crate::store::{DueLanes, DueQuery, LaneKey};
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Deliveries that one queue holds, at most.
pub(super) const HELD_MAX: usize = 256;
/// With so many that wait, or fewer, a queue becomes fully in memory again. Below its capacity, so
/// that it does not change all the time.
const FULLY_HELD_MAX: usize = HELD_MAX / 2;
/// The wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A delivery on its way out.
#[derive(Debug, Clone)]
pub(super) struct PendingAttempt {
    /// The number of the account against whose limit it counts.
    pub(super) account: u32,
    pub(super) endpoint: EntityNumber,
    /// Which generation of the queue it belongs to: each giving up ends one.
    pub(super) generation: u64,
    pub(super) key: LaneKey,
    pub(super) number: i64,
    pub(super) position: Position,
    /// Which attempt it is: 1, 2, 3 …
    pub(super) attempt: u32,
    pub(super) event: Option<Arc<Event>>,
}

/// What is asked of the store for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refill {
    pub(super) query: DueQuery,
    /// Which generation of the queue asks.
    pub(super) generation: u64,
}

/// A queue as it begins: what the store has of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredQueue {
    /// The number of the account whose endpoint it is.
    pub(super) account: u32,
    pub(super) endpoint: EntityNumber,
    /// How many deliveries wait in the store.
    pub(super) waiting: u64,
    /// Since when every attempt has failed; none where the last did not.
    pub(super) failing_since: Option<Timestamp>,
}

/// Whether anything is sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// What is due is sent to it.
    Active,
    /// The endpoint is disabled, or is about to be: nothing is, until its record says so.
    Paused,
}

impl Sending {
    /// As the endpoint's record says.
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        if endpoint.enabled {
            Sending::Active
        } else {
            Sending::Paused
        }
    }
}

/// Whether what was sent still belongs to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptStanding {
    /// What became of it counts for the queue.
    Current,
    /// The queue was given up meanwhile: it leaves no trace.
    Superseded,
}

/// One endpoint's queue. Each of its parts has its own states: whether anything is sent
/// ([`Sending`]), how the receiver answers ([`ReceiverHealth`]), what each lane's head is doing
/// ([`Lanes`]), and whether the store is to be read ([`StoreBacklog`]).
#[derive(Debug)]
pub(super) struct EndpointQueue {
    account: u32,
    endpoint: EntityNumber,
    /// Deliveries that wait, here or in the store alone.
    waiting: u64,
    /// Attempts that are under way, also those of earlier generations.
    in_flight: usize,
    generation: u64,
    sending: Sending,
    health: ReceiverHealth,
    lanes: Lanes,
    backlog: StoreBacklog,
}

impl EndpointQueue {
    /// A queue of which memory holds nothing yet.
    pub(super) fn new(stored: StoredQueue) -> Self {
        EndpointQueue {
            account: stored.account,
            endpoint: stored.endpoint,
            waiting: stored.waiting,
            in_flight: 0,
            generation: 0,
            sending: Sending::Active,
            health: ReceiverHealth::new(stored.failing_since),
            lanes: Lanes::default(),
            backlog: StoreBacklog::new(stored.waiting),
        }
    }

    /// The number of the account whose endpoint it is.
    pub(super) fn account(&self) -> u32 {
        self.account
    }

    /// How many deliveries wait, here or in the store alone.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// How many attempts are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How the receiver has answered so far.
    pub(super) fn health(&self) -> &ReceiverHealth {
        &self.health
    }

    /// How many deliveries memory holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.lanes.held()
    }

    /// Starts or stops sending to the endpoint.
    pub(super) fn set_sending(&mut self, sending: Sending) {
        self.sending = sending;
    }

    /// Whether it holds every delivery that waits.
    pub(super) fn fully_in_memory(&self) -> bool {
        u64::try_from(self.lanes.held()).is_ok_and(|held| held == self.waiting)
    }

    /// Whether it would send more if only the store said what.
    pub(super) fn needs_refill(&self, in_flight_max: usize) -> bool {
        !self.fully_in_memory() && self.lanes.held() < in_flight_max
    }

    /// A new delivery, behind all that its lane has.
    pub(super) fn push(&mut self, key: LaneKey, delivery: QueuedDelivery, capacity: usize) {
        let fully_in_memory = self.fully_in_memory();
        self.waiting += 1;
        if !fully_in_memory {
            return;
        }
        if self.lanes.held() < capacity {
            self.lanes.push(key, delivery);
        } else if let Some(due) = self.lanes.evict_waiting() {
            // Lanes whose head waits for a later attempt are the store's alone from now on, or they
            // would keep out what can be sent.
            self.backlog.took_over(due);
        }
    }

    /// Whether it has something that may be sent.
    pub(super) fn may_send(&self, now: Timestamp, in_flight_max: usize) -> bool {
        self.has_sendable(in_flight_max) && now >= self.health.next_at()
    }

    fn has_sendable(&self, in_flight_max: usize) -> bool {
        self.sending == Sending::Active && self.in_flight < in_flight_max && self.lanes.has_ready()
    }

    /// The next that may be sent.
    pub(super) fn next(&mut self, now: Timestamp, in_flight_max: usize) -> Option<PendingAttempt> {
        if !self.may_send(now, in_flight_max) {
            return None;
        }
        let head = self.lanes.start_next()?;
        self.in_flight += 1;
        self.health.attempt_begins(now);
        Some(PendingAttempt {
            account: self.account,
            endpoint: self.endpoint,
            generation: self.generation,
            key: head.key,
            number: head.number,
            position: head.position,
            attempt: head.attempts + 1,
            event: head.event,
        })
    }

    /// An attempt is over: says whether it still counts.
    pub(super) fn attempt_ended(&mut self, attempt: &PendingAttempt) -> AttemptStanding {
        self.in_flight = self.in_flight.saturating_sub(1);
        if attempt.generation == self.generation {
            AttemptStanding::Current
        } else {
            AttemptStanding::Superseded
        }
    }

    /// A receiver has taken something, or not.
    pub(super) fn record_result(&mut self, reception: Reception, now: Timestamp) {
        self.health.attempt_ends(reception, now);
    }

    /// A delivery's outcome stands in this slice, not in the store.
    pub(super) fn note_unwritten(&mut self, number: i64, slice: u64) {
        self.backlog.note_unwritten(number, slice);
    }

    /// The head of a lane has ended: the next one's turn.
    pub(super) fn finish_head(&mut self, key: LaneKey) {
        self.waiting = self.waiting.saturating_sub(1);
        self.lanes.finish_head(key);
    }

    /// The head of a lane is tried again, not before `due`.
    pub(super) fn retry_head(&mut self, key: LaneKey, due: Timestamp) {
        if self.fully_in_memory() {
            self.lanes.retry_head(key, due);
        } else {
            self.lanes.evict(key);
            self.backlog.took_over(due);
        }
    }

    /// The head of a lane could not be tried: what is sent could not be read.
    pub(super) fn put_back(&mut self, key: LaneKey, now: Timestamp) {
        self.lanes.delay_head(key, now + PAUSE);
    }

    /// A delivery is to be tried now, not when it is due.
    pub(super) fn retry_now(&mut self, key: LaneKey, number: i64) -> RetryOutcome {
        self.lanes.retry_now(key, number)
    }

    /// Makes ready what is due by now.
    pub(super) fn wake(&mut self, now: Timestamp) {
        self.lanes.wake(now);
        self.backlog.wake(now);
    }

    /// When it has to be woken next.
    pub(super) fn next_wake(&self, now: Timestamp, in_flight_max: usize) -> Option<Timestamp> {
        let next_at = self.health.next_at();
        let keeps_distance = self.has_sendable(in_flight_max) && now < next_at;
        let paced = keeps_distance.then_some(next_at);
        [paced, self.lanes.next_due(), self.backlog.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is to be read of the store, if anything is; to be answered by
    /// [`EndpointQueue::refilled`].
    pub(super) fn begin_refill(&mut self, now: Timestamp, capacity: usize) -> Option<Refill> {
        let few = self.waiting <= u64::try_from(FULLY_HELD_MAX.min(capacity)).unwrap_or(0);
        let has_room = few || self.lanes.held() <= capacity / 2;
        if !self.backlog.may_read() || self.fully_in_memory() || !has_room {
            return None;
        }
        self.backlog.begin_read();
        let endpoint = self.endpoint;
        let some = capacity.saturating_sub(self.lanes.held()) + self.lanes.len();
        let query = if few {
            DueQuery {
                endpoint,
                until: Timestamp::MAX,
                lanes: capacity,
                deliveries: capacity.saturating_mul(capacity),
            }
        } else {
            DueQuery {
                endpoint,
                until: now,
                lanes: some,
                deliveries: some,
            }
        };
        Some(Refill {
            query,
            generation: self.generation,
        })
    }

    /// What the store had, as of some moment since it was asked; none where it could not be read.
    pub(super) fn refilled(
        &mut self,
        refill: &Refill,
        found: Option<DueLanes>,
        now: Timestamp,
        capacity: usize,
    ) {
        let end = match found {
            Some(DueLanes { lanes, next_due }) if refill.generation == self.generation => {
                for lane in lanes {
                    // What memory has sent and let go of is not what was read any more.
                    if lane.first().is_some_and(|head| {
                        self.lanes.contains(head.key) || !self.backlog.is_unwritten(head.number)
                    }) {
                        self.lanes.merge(lane, now, capacity);
                    }
                }
                ReadEnd::Current { next_due }
            }
            Some(_) => ReadEnd::Superseded,
            None => ReadEnd::Failed {
                retry_at: now + PAUSE,
            },
        };
        self.backlog.end_read(end);
        self.backlog.forget_written();
        if matches!(end, ReadEnd::Current { .. }) {
            self.wake(now);
        }
    }

    /// Everything up to this slice is written.
    pub(super) fn slice_written(&mut self, slice: u64) {
        self.backlog.slice_written(slice);
        if !self.fully_in_memory() {
            self.backlog.want();
        }
    }

    /// Nothing that waits will be sent. What is under way leaves no trace. The store is not read
    /// before it knows, by this slice.
    pub(super) fn give_up(&mut self, slice: u64) {
        self.generation += 1;
        self.waiting = 0;
        self.sending = Sending::Active;
        self.lanes.clear();
        self.health.start_over();
        self.backlog.give_up(slice);
    }

    /// Lets go of what is held of this entity's events, to be read again.
    pub(super) fn forget_events_of(&mut self, entity: EntityNumber) {
        self.lanes.forget_events(|key| key.entity == entity);
    }

    /// Lets go of what is held of any event.
    pub(super) fn forget_all_events(&mut self) {
        self.lanes.forget_events(|_| true);
    }

    /// Whether its counts are those of what it holds.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.lanes.is_consistent()
            && u64::try_from(self.lanes.held()).is_ok_and(|held| held <= self.waiting)
    }
}
