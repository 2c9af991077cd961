//! The slice that tells the store next what became of deliveries, and the one that is being
//! written. What a slice says is written whole or not at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::store::{
    Change, DeliveryChange, DeliverySlice, DeliveryState, FailingEndpoint, Fate, GivenUp, LaneKey,
    Matched, NewDelivery, ReplayChange,
};
use colloquy_model::commit::Commit;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::time::Timestamp;

/// A slice that is being written.
#[derive(Debug)]
pub(super) struct SliceInFlight {
    pub(super) number: u64,
    /// The endpoints that it is about.
    pub(super) endpoints: HashSet<EntityNumber>,
    /// The deliveries that it is about.
    deliveries: HashSet<i64>,
}

/// Slices by their numbers, which count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SliceNumbers {
    /// The one that is being filled.
    pub(super) next: u64,
    /// The last one that was written.
    pub(super) written: u64,
}

/// Where a delivery's outcome stands until it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutcomeAt {
    /// With the delivery itself, of which the store knows nothing yet.
    NewDelivery,
    /// In the slice of this number, while the store shows what was before.
    Slice(u64),
}

/// Fills one slice while another one is written.
#[derive(Debug)]
pub(super) struct SliceBuilder {
    slice: Box<DeliverySlice>,
    /// Since when endpoints only fail, where that has changed.
    failing: BTreeMap<EntityNumber, Option<Timestamp>>,
    number: u64,
    /// Endpoints that the slice is about.
    endpoints: HashSet<EntityNumber>,
    in_flight: Option<SliceInFlight>,
    next_delivery: i64,
    /// When the last delivery was made.
    last_at: Timestamp,
}

impl SliceBuilder {
    /// The first slice of a process; its deliveries follow this one.
    pub(super) fn new(last_delivery: i64) -> Self {
        SliceBuilder {
            slice: Box::default(),
            failing: BTreeMap::new(),
            number: 1,
            endpoints: HashSet::new(),
            in_flight: None,
            next_delivery: last_delivery + 1,
            last_at: Timestamp::EPOCH,
        }
    }

    /// A new delivery of this event; gives its number.
    pub(super) fn add(
        &mut self,
        endpoint: EntityNumber,
        key: LaneKey,
        event: &Arc<Event>,
        now: Timestamp,
    ) -> i64 {
        let number = self.next_delivery;
        self.next_delivery += 1;
        // Never back: lists are in order of the numbers, identifiers begin with the instant.
        self.last_at = self.last_at.max(now);
        let fate = Fate {
            state: DeliveryState::Pending,
            attempts: 0,
            due: now,
            log: Vec::new(),
        };
        self.slice.new.push(NewDelivery {
            number,
            endpoint,
            key,
            position: event.position,
            kind: event.kind,
            at: self.last_at,
            fate,
        });
        number
    }

    /// What has become of a delivery after an attempt.
    pub(super) fn settle(&mut self, number: i64, fate: Fate) -> OutcomeAt {
        let Some(new) = new_delivery(&mut self.slice, number) else {
            self.change(number, Change::Attempted(fate));
            return OutcomeAt::Slice(self.number);
        };
        let mut log = std::mem::take(&mut new.fate.log);
        log.extend(fate.log);
        new.fate = Fate { log, ..fate };
        OutcomeAt::NewDelivery
    }

    /// What becomes of a delivery that the store has.
    pub(super) fn change(&mut self, number: i64, change: Change) {
        self.slice.changes.push(DeliveryChange { number, change });
    }

    /// An endpoint is given up with all deliveries so far; gives the number of the slice that says
    /// so.
    pub(super) fn give_up(&mut self, endpoint: EntityNumber, gone: EndpointFate) -> u64 {
        for new in self
            .slice
            .new
            .iter_mut()
            .filter(|new| new.endpoint == endpoint)
        {
            if new.fate.state == DeliveryState::Pending {
                new.fate.state = DeliveryState::Failed;
            }
        }
        self.slice.given_up.push(GivenUp {
            endpoint,
            up_to: self.next_delivery - 1,
            gone: gone == EndpointFate::Deleted,
        });
        self.failing.remove(&endpoint);
        self.number
    }

    /// Since when an endpoint only fails; none where it does no more.
    pub(super) fn set_failing(&mut self, endpoint: EntityNumber, since: Option<Timestamp>) {
        self.failing.insert(endpoint, since);
    }

    /// Everything up to here is matched.
    pub(super) fn set_matched(&mut self, matched: Matched) {
        self.slice.matched = Some(matched);
    }

    /// Tells what becomes of a replay.
    pub(super) fn change_replay(&mut self, change: ReplayChange) {
        self.slice.replays.push(change);
    }

    /// Keeps an answer under its idempotency key.
    pub(super) fn keep_answer(&mut self, answer: Commit) {
        self.slice.answers.push(answer);
    }

    /// The slice is about this endpoint, too: its queue is told when it is written.
    pub(super) fn touch(&mut self, endpoint: EntityNumber) {
        self.endpoints.insert(endpoint);
    }

    /// The endpoints that the slice is about.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &EntityNumber> {
        self.endpoints.iter()
    }

    /// Whether a delivery's outcome is on its way to the store.
    pub(super) fn is_unwritten(&self, number: i64) -> bool {
        let is_in_flight = self
            .in_flight
            .as_ref()
            .is_some_and(|in_flight| in_flight.deliveries.contains(&number));
        is_in_flight
            || self
                .slice
                .changes
                .iter()
                .any(|change| change.number == number)
            || self.slice.new.iter().any(|new| new.number == number)
    }

    /// How many deliveries, outcomes and other changes the slice has so far.
    pub(super) fn len(&self) -> usize {
        let DeliverySlice {
            changes,
            given_up,
            new,
            replays,
            answers,
            ..
        } = &*self.slice;
        changes.len()
            + given_up.len()
            + new.len()
            + replays.len()
            + answers.len()
            + self.failing.len()
    }

    /// Whether a slice is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The numbers of the slice that is filled and of the last that was written.
    pub(super) fn numbers(&self) -> SliceNumbers {
        let unwritten = self
            .in_flight
            .as_ref()
            .map_or(self.number, |in_flight| in_flight.number);
        SliceNumbers {
            next: self.number,
            written: unwritten - 1,
        }
    }

    /// What is to be written now; one at a time, until [`SliceBuilder::written`].
    pub(super) fn take(&mut self, now: Timestamp, keep_from: Timestamp) -> Box<DeliverySlice> {
        let mut slice = std::mem::take(&mut self.slice);
        slice.failing = std::mem::take(&mut self.failing)
            .into_iter()
            .map(|(endpoint, since)| FailingEndpoint { endpoint, since })
            .collect();
        (slice.now, slice.keep_from) = (now, keep_from);
        let changed = slice.changes.iter().map(|change| change.number);
        let deliveries = changed
            .chain(slice.new.iter().map(|new| new.number))
            .collect();
        self.in_flight = Some(SliceInFlight {
            number: self.number,
            endpoints: std::mem::take(&mut self.endpoints),
            deliveries,
        });
        self.number += 1;
        slice
    }

    /// The slice that was taken is written.
    pub(super) fn written(&mut self) -> Option<SliceInFlight> {
        self.in_flight.take()
    }
}

/// What becomes of an endpoint whose deliveries are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointFate {
    /// It is disabled, and may be enabled again.
    Disabled,
    /// It is deleted: its deliveries go with it.
    Deleted,
}

/// A delivery that the store has not seen; their numbers have no gaps.
fn new_delivery(slice: &mut DeliverySlice, number: i64) -> Option<&mut NewDelivery> {
    let first = slice.new.first()?.number;
    slice.new.get_mut(usize::try_from(number - first).ok()?)
}
