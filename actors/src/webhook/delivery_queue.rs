//! All lines, and the slice that tells the store what became of their deliveries. Pure: no clock,
//! no store, no network. A crash at any instant loses nothing but outcomes that no slice has
//! carried yet, and these are repeated deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::endpoint_queue::{
    EndpointQueue, Entry, HELD_MAX, HeldEvent, PendingAttempt, Refill, RetryOutcome,
};
use crate::store::{
    Change, DeliverySlice, DeliveryState, DueLanes, Fate, GivenUp, LaneKey, Matched, NewDelivery,
    ReplayChange,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::commit::Commit;
use colloquy_model::event::Event;

/// Deliveries that all lines hold together, about; each may fill its places.
const HELD_ALL: usize = 262_144;
/// Bytes of events that all lines hold together.
const BYTES_MAX: usize = 64 << 20;

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The receiver has taken it.
    Delivered,
    /// It is given up.
    Failed,
    /// It is tried again at this instant.
    Later(i64),
}

/// A slice that is being written: its number, the lines and the deliveries that it is about.
#[derive(Debug)]
struct Flying {
    number: u64,
    touched: HashSet<u64>,
    about: HashSet<i64>,
}

/// Where an event stays until it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Here, while there is room.
    InMemory,
    /// In the store alone: what is known of it may have been redacted.
    InStore,
}

/// Deliveries that may be under way at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// To one endpoint.
    pub(super) endpoint: usize,
    /// To all endpoints of an account; but each endpoint may always have one.
    pub(super) account: usize,
}

/// What one account's endpoints have under way.
#[derive(Debug, Default)]
struct Share {
    in_flight: usize,
    /// Endpoints that would send more, whoever has waited longest first.
    waiting: VecDeque<u64>,
}

/// All lines.
#[derive(Debug)]
pub(super) struct Queue {
    lines: HashMap<u64, EndpointQueue>,
    places: usize,
    account_places: usize,
    /// What is under way, by account number.
    shares: HashMap<u32, Share>,
    /// What the next slice says.
    slice: Box<DeliverySlice>,
    failing: BTreeMap<u64, Option<i64>>,
    /// Its number, and the lines that it is about.
    number: u64,
    touched: HashSet<u64>,
    /// The slice that is being written.
    flying: Option<Flying>,
    next_delivery: i64,
    last_at: i64,
    /// Lines that may have something to send or to read.
    dirty: BTreeSet<u64>,
    alarms: BTreeSet<(i64, u64)>,
    alarm_of: HashMap<u64, i64>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// Behind this delivery, with so many places.
    pub(super) fn new(last_delivery: i64, places: Places) -> Self {
        Queue {
            lines: HashMap::new(),
            places: places.endpoint.max(1),
            account_places: places.account,
            shares: HashMap::new(),
            slice: Box::default(),
            failing: BTreeMap::new(),
            number: 1,
            touched: HashSet::new(),
            flying: None,
            next_delivery: last_delivery + 1,
            last_at: 0,
            dirty: BTreeSet::new(),
            alarms: BTreeSet::new(),
            alarm_of: HashMap::new(),
            bytes: Arc::default(),
        }
    }

    /// An account's endpoint, with what waits of it in the store.
    pub(super) fn open(
        &mut self,
        (account, endpoint): (u32, u64),
        waiting: u64,
        failing_since: Option<i64>,
    ) {
        self.lines
            .entry(endpoint)
            .or_insert_with(|| EndpointQueue::new((account, endpoint), waiting, failing_since));
        self.dirty.insert(endpoint);
    }

    /// An endpoint's line.
    pub(super) fn line(&self, endpoint: u64) -> Option<&EndpointQueue> {
        self.lines.get(&endpoint)
    }

    /// What it may hold of one line.
    fn room(&self) -> usize {
        let share = HELD_ALL.checked_div(self.lines.len()).unwrap_or(HELD_MAX);
        share.min(HELD_MAX).max(self.places)
    }

    /// An event is to be delivered.
    pub(super) fn push(
        &mut self,
        endpoint: u64,
        lane: i64,
        (event, keep): (&Arc<Event>, Keep),
        now: i64,
    ) {
        let room = self.room();
        let Some(line) = self.lines.get_mut(&endpoint) else {
            return;
        };
        let number = self.next_delivery;
        self.next_delivery += 1;
        // Never back: lists are in order of the numbers, identifiers begin with the instant.
        self.last_at = self.last_at.max(now);
        let key = LaneKey {
            lane,
            entity: event.entity,
        };
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
            happened: event.happened,
            at: self.last_at,
            fate,
        });
        let held = match keep {
            Keep::InMemory => HeldEvent::new(Arc::clone(event), &self.bytes, BYTES_MAX),
            Keep::InStore => None,
        };
        line.push(
            key,
            Entry {
                number,
                position: event.position,
                attempts: 0,
                event: held,
            },
            room,
        );
        self.touch(endpoint);
    }

    fn touch(&mut self, endpoint: u64) {
        self.touched.insert(endpoint);
        self.dirty.insert(endpoint);
    }

    /// Everything up to here is matched.
    pub(super) fn matched(&mut self, matched: Matched) {
        self.slice.matched = Some(matched);
    }

    /// What becomes of a replay.
    pub(super) fn replay(&mut self, change: ReplayChange) {
        self.slice.replays.push(change);
    }

    /// An answer that is kept.
    pub(super) fn keep(&mut self, answer: Commit) {
        self.slice.answers.push(answer);
    }

    /// Nothing that waits for this endpoint is sent any more.
    pub(super) fn give_up(&mut self, endpoint: u64, gone: bool) {
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
        let up_to = self.next_delivery - 1;
        self.slice.given_up.push(GivenUp {
            endpoint,
            up_to,
            gone,
        });
        self.failing.remove(&endpoint);
        if let Some(line) = self.lines.get_mut(&endpoint) {
            line.give_up(self.number);
        }
        if gone {
            self.lines.remove(&endpoint);
            self.set_alarm(endpoint, None);
        }
        self.touch(endpoint);
    }

    /// The receiver wants no more: nothing is sent until the record says so.
    pub(super) fn pause(&mut self, endpoint: u64, paused: bool) {
        if let Some(line) = self.lines.get_mut(&endpoint) {
            line.paused = paused;
            self.dirty.insert(endpoint);
        }
    }

    /// What is held of this entity's events is let go.
    pub(super) fn forget(&mut self, entity: u64) {
        self.lines.values_mut().for_each(|line| line.forget(entity));
    }

    /// No event is held any more: some may have been redacted without a word.
    pub(super) fn forget_all(&mut self) {
        self.lines.values_mut().for_each(EndpointQueue::forget_all);
    }

    /// What can be sent now, and what has to be read of the store.
    pub(super) fn turn(&mut self, now: i64) -> (Vec<PendingAttempt>, Vec<Refill>) {
        while let Some((at, endpoint)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, endpoint));
            self.alarm_of.remove(&endpoint);
            self.dirty.insert(endpoint);
        }
        let (mut shipments, mut refills) = (Vec::new(), Vec::new());
        let (room, places) = (self.room(), self.places);
        for endpoint in std::mem::take(&mut self.dirty) {
            let Some(line) = self.lines.get_mut(&endpoint) else {
                continue;
            };
            line.wake(now);
            let share = self.shares.entry(line.account).or_default();
            while share.in_flight < self.account_places || line.in_flight == 0 {
                let Some(shipment) = line.next(now, places) else {
                    break;
                };
                share.in_flight += 1;
                shipments.push(shipment);
            }
            if line.may_send(now, places) && !share.waiting.contains(&endpoint) {
                share.waiting.push_back(endpoint);
            }
            if share.in_flight == 0 && share.waiting.is_empty() {
                self.shares.remove(&line.account);
            }
            refills.extend(line.wants(now, room));
            let alarm = line.alarm(now, places);
            self.set_alarm(endpoint, alarm);
        }
        (shipments, refills)
    }

    fn set_alarm(&mut self, endpoint: u64, at: Option<i64>) {
        let before = match at {
            Some(at) => self.alarm_of.insert(endpoint, at),
            None => self.alarm_of.remove(&endpoint),
        };
        if let Some(before) = before {
            self.alarms.remove(&(before, endpoint));
        }
        self.alarms.extend(at.map(|at| (at, endpoint)));
    }

    /// When it has to be asked for its turn again.
    pub(super) fn alarm(&self) -> Option<i64> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// A place of its account is free again, for whoever has waited longest.
    fn leave_place(&mut self, shipment: &PendingAttempt) {
        self.dirty.insert(shipment.endpoint);
        let Some(share) = self.shares.get_mut(&shipment.account) else {
            return;
        };
        share.in_flight = share.in_flight.saturating_sub(1);
        self.dirty.extend(share.waiting.pop_front());
        if share.in_flight == 0 && share.waiting.is_empty() {
            self.shares.remove(&shipment.account);
        }
    }

    /// An attempt is over, and this is what it comes to.
    pub(super) fn landed(
        &mut self,
        shipment: &PendingAttempt,
        verdict: Verdict,
        log: Vec<Attempt>,
        now: i64,
    ) {
        self.leave_place(shipment);
        let Some(line) = self.lines.get_mut(&shipment.endpoint) else {
            return;
        };
        if !line.landed(shipment) {
            return;
        }
        let before = line.failing_since;
        line.record_result(verdict == Verdict::Delivered, now);
        if line.failing_since != before {
            self.failing.insert(shipment.endpoint, line.failing_since);
        }
        let (state, due) = match verdict {
            Verdict::Delivered => (DeliveryState::Delivered, now),
            Verdict::Failed => (DeliveryState::Failed, now),
            Verdict::Later(due) => (DeliveryState::Pending, due),
        };
        self.settle(
            shipment,
            Fate {
                state,
                attempts: shipment.attempt,
                due,
                log,
            },
        );
    }

    /// What was to be delivered is no more: it is given up, though no receiver failed. The log says
    /// so.
    pub(super) fn drop_gone(&mut self, shipment: &PendingAttempt, log: Vec<Attempt>, now: i64) {
        self.leave_place(shipment);
        if self
            .lines
            .get_mut(&shipment.endpoint)
            .is_some_and(|line| line.landed(shipment))
        {
            let attempts = shipment.attempt.saturating_sub(1);
            self.settle(
                shipment,
                Fate {
                    state: DeliveryState::Failed,
                    attempts,
                    due: now,
                    log,
                },
            );
        }
    }

    fn settle(&mut self, shipment: &PendingAttempt, fate: Fate) {
        let Some(line) = self.lines.get_mut(&shipment.endpoint) else {
            return;
        };
        match fate.state {
            DeliveryState::Delivered | DeliveryState::Failed => line.ended(shipment.key),
            DeliveryState::Pending => line.later(shipment.key, fate.due),
        }
        match fresh(&mut self.slice, shipment.number) {
            Some(new) => {
                let mut log = std::mem::take(&mut new.fate.log);
                log.extend(fate.log);
                new.fate = Fate {
                    state: fate.state,
                    attempts: fate.attempts,
                    due: fate.due,
                    log,
                };
            }
            None => {
                self.slice
                    .changes
                    .push((shipment.number, Change::Attempted(fate)));
                line.unwritten(shipment.number, self.number);
            }
        }
        self.touch(shipment.endpoint);
    }

    /// An attempt could not be made, because what is sent could not be read.
    pub(super) fn put_back(&mut self, shipment: &PendingAttempt, now: i64) {
        self.leave_place(shipment);
        if let Some(line) = self.lines.get_mut(&shipment.endpoint)
            && line.landed(shipment)
        {
            line.put_back(shipment.key, now);
        }
    }

    /// What the store had for a line.
    pub(super) fn refilled(&mut self, refill: &Refill, found: Option<DueLanes>, now: i64) {
        let room = self.room();
        if let Some(line) = self.lines.get_mut(&refill.query.endpoint) {
            line.refilled(refill, found, now, room);
            self.dirty.insert(refill.query.endpoint);
        }
    }

    /// A delivery that waits is to be tried at once.
    pub(super) fn retry_now(
        &mut self,
        endpoint: u64,
        key: LaneKey,
        number: i64,
        now: i64,
    ) -> RetryOutcome {
        let Some(line) = self.lines.get_mut(&endpoint) else {
            return RetryOutcome::NotHeld;
        };
        let hurried = line.retry_now(key, number);
        if hurried == RetryOutcome::NotHeld {
            self.slice.changes.push((number, Change::Due(now)));
        }
        self.touch(endpoint);
        hurried
    }

    /// A delivery that has ended is sent again, in a lane of its own.
    pub(super) fn again(&mut self, endpoint: u64, waiting: &crate::store::Waiting, now: i64) {
        let room = self.room();
        let Some(line) = self.lines.get_mut(&endpoint) else {
            return;
        };
        self.slice
            .changes
            .push((waiting.number, Change::Again(now)));
        let key = LaneKey {
            lane: -waiting.number,
            ..waiting.key
        };
        line.push(key, waiting.clone().into(), room);
        self.touch(endpoint);
    }

    /// Whether a delivery's outcome is on its way to the store.
    pub(super) fn is_unwritten(&self, number: i64) -> bool {
        self.flying
            .as_ref()
            .is_some_and(|flying| flying.about.contains(&number))
            || self
                .slice
                .changes
                .iter()
                .any(|(changed, _)| *changed == number)
            || self.slice.new.iter().any(|new| new.number == number)
    }

    /// How many deliveries and outcomes the next slice carries.
    pub(super) fn news(&self) -> usize {
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

    /// Whether a line waits for its outcomes to be written before it can go on.
    pub(super) fn needs_refill(&self) -> bool {
        self.touched.iter().any(|endpoint| {
            self.lines
                .get(endpoint)
                .is_some_and(|line| line.needs_refill(self.places))
        })
    }

    /// Whether a slice is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.flying.is_some()
    }

    /// The number of the next slice, and of the last that was written.
    pub(super) fn slices(&self) -> (u64, u64) {
        (
            self.number,
            self.flying
                .as_ref()
                .map_or(self.number - 1, |flying| flying.number - 1),
        )
    }

    /// What is to be written now; one at a time, until [`Queue::written`].
    pub(super) fn take_slice(&mut self, now: i64, keep_from: i64) -> Box<DeliverySlice> {
        let mut slice = std::mem::take(&mut self.slice);
        slice.failing = std::mem::take(&mut self.failing).into_iter().collect();
        (slice.now, slice.keep_from) = (now, keep_from);
        let changed = slice.changes.iter().map(|(number, _)| *number);
        let about = changed
            .chain(slice.new.iter().map(|new| new.number))
            .collect();
        self.flying = Some(Flying {
            number: self.number,
            touched: std::mem::take(&mut self.touched),
            about,
        });
        self.number += 1;
        slice
    }

    /// The slice is written.
    pub(super) fn written(&mut self) {
        let Some(Flying {
            number, touched, ..
        }) = self.flying.take()
        else {
            return;
        };
        for endpoint in touched {
            if let Some(line) = self.lines.get_mut(&endpoint) {
                line.written(number);
                self.dirty.insert(endpoint);
            }
        }
    }

    /// All lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &EndpointQueue> {
        self.lines.values()
    }
}

/// A delivery that the store has not seen; their numbers have no gaps.
fn fresh(slice: &mut DeliverySlice, number: i64) -> Option<&mut NewDelivery> {
    let first = slice.new.first()?.number;
    slice.new.get_mut(usize::try_from(number - first).ok()?)
}

#[cfg(test)]
#[path = "delivery_queue_tests.rs"]
mod tests;
