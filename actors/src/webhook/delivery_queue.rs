//! The queues of all endpoints, and the slice that tells the store what became of their deliveries.
//! Pure: no clock, no store, no network. A crash at any instant loses nothing but outcomes that no
//! slice has carried yet, and these are repeated deliveries.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::account_shares::AccountShares;
use super::endpoint_queue::{
    AttemptStanding, EndpointQueue, HELD_MAX, PendingAttempt, Refill, Sending, StoredQueue,
};
use super::held_event::EventMemory;
use super::lanes::{QueuedDelivery, RetryOutcome};
use super::receiver_health::Reception;
use super::slice_builder::{EndpointFate, OutcomeAt, SliceBuilder, SliceNumbers};
use super::wake_times::WakeTimes;
use crate::store::{
    Change, DeliverySlice, DeliveryState, DueLanes, Fate, LaneKey, Matched, ReplayChange, Waiting,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::commit::Commit;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::time::Timestamp;

/// Deliveries that all queues hold together, about; each may fill its places.
const HELD_ALL: usize = 262_144;
/// Bytes of events that all queues hold together.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The receiver has taken it.
    Delivered,
    /// The delivery is given up for good.
    Failed,
    /// It is tried again at this instant.
    Later(Timestamp),
}

/// Where an event stays until it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Here, while there is room.
    InMemory,
    /// In the store alone: what is known of it may have been redacted.
    InStore,
}

/// Attempts that may be under way at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlightLimits {
    /// How many attempts to one endpoint run at once.
    pub(super) per_endpoint: usize,
    /// Those to all endpoints of an account; but each endpoint may always have one.
    pub(super) per_account: usize,
}

/// An event that is to be delivered to an endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matching<'e> {
    pub(super) endpoint: EntityNumber,
    /// The lane: that of what happens now, or a replay's.
    pub(super) lane: i64,
    pub(super) event: &'e Arc<Event>,
    pub(super) keep: Keep,
}

/// What is to be done for the queues.
#[derive(Debug, Default)]
pub(super) struct DueWork {
    /// Attempts that begin now.
    pub(super) attempts: Vec<PendingAttempt>,
    /// What has to be read of the store.
    pub(super) refills: Vec<Refill>,
}

/// The queues of all endpoints.
#[derive(Debug)]
pub(super) struct DeliveryQueue {
    endpoints: HashMap<EntityNumber, EndpointQueue>,
    in_flight_max: usize,
    shares: AccountShares,
    slice: SliceBuilder,
    /// Endpoints that may have something to send or to read.
    dirty: BTreeSet<EntityNumber>,
    wake_times: WakeTimes,
    event_memory: EventMemory,
}

impl DeliveryQueue {
    /// Without endpoints; new deliveries follow this one.
    pub(super) fn new(last_delivery: i64, limits: InFlightLimits) -> Self {
        DeliveryQueue {
            endpoints: HashMap::new(),
            in_flight_max: limits.per_endpoint.max(1),
            shares: AccountShares::new(limits.per_account),
            slice: SliceBuilder::new(last_delivery),
            dirty: BTreeSet::new(),
            wake_times: WakeTimes::default(),
            event_memory: EventMemory::new(EVENT_BYTES_MAX),
        }
    }

    /// An endpoint begins to get deliveries; one that does already goes on as it is.
    pub(super) fn open(&mut self, stored: StoredQueue) {
        self.endpoints
            .entry(stored.endpoint)
            .or_insert_with(|| EndpointQueue::new(stored));
        self.dirty.insert(stored.endpoint);
    }

    /// One endpoint's queue, while it gets deliveries.
    pub(super) fn endpoint(&self, endpoint: EntityNumber) -> Option<&EndpointQueue> {
        self.endpoints.get(&endpoint)
    }

    /// The queues of all endpoints.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &EndpointQueue> {
        self.endpoints.values()
    }

    /// What memory may hold of one queue.
    fn capacity(&self) -> usize {
        let share = HELD_ALL
            .checked_div(self.endpoints.len())
            .unwrap_or(HELD_MAX);
        share.min(HELD_MAX).max(self.in_flight_max)
    }

    /// An event is to be delivered.
    pub(super) fn push(&mut self, matching: Matching<'_>, now: Timestamp) {
        let capacity = self.capacity();
        let Matching {
            endpoint,
            lane,
            event,
            keep,
        } = matching;
        let Some(queue) = self.endpoints.get_mut(&endpoint) else {
            return;
        };
        let key = LaneKey {
            lane,
            entity: event.entity,
        };
        let number = self.slice.add(endpoint, key, event, now);
        let event = match keep {
            Keep::InMemory => self.event_memory.hold(Arc::clone(event)),
            Keep::InStore => None,
        };
        let delivery = QueuedDelivery {
            number,
            position: matching.event.position,
            attempts: 0,
            event,
        };
        queue.push(key, delivery, capacity);
        self.touch(endpoint);
    }

    fn touch(&mut self, endpoint: EntityNumber) {
        self.slice.touch(endpoint);
        self.dirty.insert(endpoint);
    }

    /// Everything up to here is matched.
    pub(super) fn set_matched(&mut self, matched: Matched) {
        self.slice.set_matched(matched);
    }

    /// Has the next slice tell what becomes of a replay.
    pub(super) fn change_replay(&mut self, change: ReplayChange) {
        self.slice.change_replay(change);
    }

    /// Has the next slice keep an answer under its key.
    pub(super) fn keep_answer(&mut self, answer: Commit) {
        self.slice.keep_answer(answer);
    }

    /// Nothing that waits for this endpoint is sent any more.
    pub(super) fn give_up(&mut self, endpoint: EntityNumber) {
        let slice = self.slice.give_up(endpoint, EndpointFate::Disabled);
        if let Some(queue) = self.endpoints.get_mut(&endpoint) {
            queue.give_up(slice);
        }
        self.touch(endpoint);
    }

    /// An endpoint is no more, and neither are its deliveries.
    pub(super) fn remove(&mut self, endpoint: EntityNumber) {
        self.slice.give_up(endpoint, EndpointFate::Deleted);
        self.endpoints.remove(&endpoint);
        self.wake_times.set(endpoint, None);
        self.touch(endpoint);
    }

    /// Starts or stops sending to an endpoint.
    pub(super) fn set_sending(&mut self, endpoint: EntityNumber, sending: Sending) {
        if let Some(queue) = self.endpoints.get_mut(&endpoint) {
            queue.set_sending(sending);
            self.dirty.insert(endpoint);
        }
    }

    /// Lets go of what is held of this entity's events.
    pub(super) fn forget_events_of(&mut self, entity: EntityNumber) {
        for queue in self.endpoints.values_mut() {
            queue.forget_events_of(entity);
        }
    }

    /// Lets go of all events: some may have been redacted without a word.
    pub(super) fn forget_all_events(&mut self) {
        self.endpoints
            .values_mut()
            .for_each(EndpointQueue::forget_all_events);
    }

    /// Takes what can be sent now, and what has to be read of the store.
    pub(super) fn take_due(&mut self, now: Timestamp) -> DueWork {
        while let Some(endpoint) = self.wake_times.pop_due(now) {
            self.dirty.insert(endpoint);
        }
        let mut work = DueWork::default();
        let (capacity, in_flight_max) = (self.capacity(), self.in_flight_max);
        for endpoint in std::mem::take(&mut self.dirty) {
            let Some(queue) = self.endpoints.get_mut(&endpoint) else {
                continue;
            };
            let account = queue.account();
            queue.wake(now);
            while self.shares.has_place(account, queue.in_flight())
                && let Some(attempt) = queue.next(now, in_flight_max)
            {
                self.shares.take_place(account);
                work.attempts.push(attempt);
            }
            if queue.may_send(now, in_flight_max) {
                self.shares.wait(account, endpoint);
            }
            work.refills.extend(queue.begin_refill(now, capacity));
            let wakes = queue.next_wake(now, in_flight_max);
            self.wake_times.set(endpoint, wakes);
        }
        work
    }

    /// When something is due again.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.wake_times.next()
    }

    /// A place of its account is free again.
    fn free_place(&mut self, attempt: &PendingAttempt) {
        self.dirty.insert(attempt.endpoint);
        self.dirty.extend(self.shares.free_place(attempt.account));
    }

    /// An attempt is over, and this is what it comes to.
    pub(super) fn attempt_ended(
        &mut self,
        attempt: &PendingAttempt,
        verdict: Verdict,
        log: Vec<Attempt>,
        now: Timestamp,
    ) {
        self.free_place(attempt);
        let Some(queue) = self.current_queue(attempt) else {
            return;
        };
        let before = queue.health().failing_since();
        let (reception, state, due) = match verdict {
            Verdict::Delivered => (Reception::Accepted, DeliveryState::Delivered, now),
            Verdict::Failed => (Reception::Failed, DeliveryState::Failed, now),
            Verdict::Later(due) => (Reception::Failed, DeliveryState::Pending, due),
        };
        queue.record_result(reception, now);
        let failing_since = queue.health().failing_since();
        if failing_since != before {
            self.slice.set_failing(attempt.endpoint, failing_since);
        }
        let fate = Fate {
            state,
            attempts: attempt.attempt,
            due,
            log,
        };
        self.settle(attempt, fate);
    }

    /// What was to be delivered is no more: it is given up, though no receiver failed. The log says
    /// so.
    pub(super) fn event_gone(
        &mut self,
        attempt: &PendingAttempt,
        log: Vec<Attempt>,
        now: Timestamp,
    ) {
        self.free_place(attempt);
        if self.current_queue(attempt).is_some() {
            let fate = Fate {
                state: DeliveryState::Failed,
                attempts: attempt.attempt.saturating_sub(1),
                due: now,
                log,
            };
            self.settle(attempt, fate);
        }
    }

    /// An attempt could not be made, because what is sent could not be read.
    pub(super) fn put_back(&mut self, attempt: &PendingAttempt, now: Timestamp) {
        self.free_place(attempt);
        if let Some(queue) = self.current_queue(attempt) {
            queue.put_back(attempt.key, now);
        }
    }

    /// The queue to which an attempt that is over still belongs.
    fn current_queue(&mut self, attempt: &PendingAttempt) -> Option<&mut EndpointQueue> {
        let queue = self.endpoints.get_mut(&attempt.endpoint)?;
        match queue.attempt_ended(attempt) {
            AttemptStanding::Current => Some(queue),
            AttemptStanding::Superseded => None,
        }
    }

    fn settle(&mut self, attempt: &PendingAttempt, fate: Fate) {
        let Some(queue) = self.endpoints.get_mut(&attempt.endpoint) else {
            return;
        };
        match fate.state {
            DeliveryState::Delivered | DeliveryState::Failed => queue.finish_head(attempt.key),
            DeliveryState::Pending => queue.retry_head(attempt.key, fate.due),
        }
        if let OutcomeAt::Slice(slice) = self.slice.settle(attempt.number, fate) {
            queue.note_unwritten(attempt.number, slice);
        }
        self.touch(attempt.endpoint);
    }

    /// What the store had for a queue.
    pub(super) fn refilled(&mut self, refill: &Refill, found: Option<DueLanes>, now: Timestamp) {
        let capacity = self.capacity();
        if let Some(queue) = self.endpoints.get_mut(&refill.query.endpoint) {
            queue.refilled(refill, found, now, capacity);
            self.dirty.insert(refill.query.endpoint);
        }
    }

    /// A delivery that waits is to be tried at once.
    pub(super) fn retry_now(
        &mut self,
        endpoint: EntityNumber,
        key: LaneKey,
        number: i64,
        now: Timestamp,
    ) -> RetryOutcome {
        let Some(queue) = self.endpoints.get_mut(&endpoint) else {
            return RetryOutcome::NotHeld;
        };
        let outcome = queue.retry_now(key, number);
        if outcome == RetryOutcome::NotHeld {
            self.slice.change(number, Change::Due(now));
        }
        self.touch(endpoint);
        outcome
    }

    /// A delivery that has ended is sent again, in a lane of its own.
    pub(super) fn send_again(&mut self, endpoint: EntityNumber, delivery: Waiting, now: Timestamp) {
        let capacity = self.capacity();
        let Some(queue) = self.endpoints.get_mut(&endpoint) else {
            return;
        };
        self.slice.change(delivery.number, Change::Again(now));
        let key = LaneKey {
            lane: -delivery.number,
            ..delivery.key
        };
        queue.push(key, delivery.into(), capacity);
        self.touch(endpoint);
    }

    /// Whether a delivery's outcome is on its way to the store.
    pub(super) fn is_unwritten(&self, number: i64) -> bool {
        self.slice.is_unwritten(number)
    }

    /// How many deliveries, outcomes and other changes wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.slice.len()
    }

    /// Whether a queue waits for its outcomes to be written before it can go on.
    pub(super) fn needs_refill(&self) -> bool {
        self.slice.endpoints().any(|endpoint| {
            self.endpoints
                .get(endpoint)
                .is_some_and(|queue| queue.needs_refill(self.in_flight_max))
        })
    }

    /// Whether a slice is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.slice.is_writing()
    }

    /// The numbers of the slice that is filled and of the last that was written.
    pub(super) fn slices(&self) -> SliceNumbers {
        self.slice.numbers()
    }

    /// What is to be written now; one at a time, until [`DeliveryQueue::slice_written`]. Deliveries
    /// that ended and were made before `keep_from` may go.
    pub(super) fn take_slice(
        &mut self,
        now: Timestamp,
        keep_from: Timestamp,
    ) -> Box<DeliverySlice> {
        self.slice.take(now, keep_from)
    }

    /// The slice that was taken is written: queues go on.
    pub(super) fn slice_written(&mut self) {
        let Some(slice) = self.slice.written() else {
            return;
        };
        for endpoint in slice.endpoints {
            if let Some(queue) = self.endpoints.get_mut(&endpoint) {
                queue.slice_written(slice.number);
                self.dirty.insert(endpoint);
            }
        }
    }
}

#[cfg(test)]
#[path = "delivery_queue_tests.rs"]
mod tests;
