//! One endpoint's queue, as far as memory holds it. The store has all of it; this holds what can be
//! sent next.
//!
//! A line is *whole* while it holds every delivery that waits: then what is matched goes straight
//! to its lane and is sent from memory alone. Beyond its room it is not: then what is matched goes
//! to the store only, and the line reads the heads that are due, each with what follows it, as
//! places get free. What waits for a later attempt stays in the store then.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::{DueLanes, DueQuery, LaneKey, Waiting};
use colloquy_model::event::Event;
use colloquy_model::position::Position;

/// Deliveries that one line holds, at most.
pub(super) const HELD_MAX: usize = 256;
/// With so many that wait, or fewer, a line becomes whole again. Below its room, so that it does
/// not change all the time.
const WHOLE_MAX: usize = HELD_MAX / 2;
/// After so many failures in a row the attempts keep a distance, twice as long after as many more.
const FAILURES_MAX: u32 = 64;
/// The first one: a dead endpoint must not cost what a healthy one needs.
const DISTANCE_MS: i64 = 5;
/// How often it doubles, up to 160 ms: so soon is seen that the endpoint is back.
const DOUBLINGS_MAX: u32 = 5;
/// The wait after the store could not be read.
const PAUSE_MS: i64 = 1000;

/// An event that is held in memory, as long as there is room for all of these.
#[derive(Debug)]
pub(super) struct HeldEvent {
    event: Arc<Event>,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl HeldEvent {
    /// Holds it if all that are held stay below `max` bytes.
    pub(super) fn new(event: Arc<Event>, all: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        // Its data, and its body once that is written.
        let bytes = 2 * event.payload.len() + 512;
        if all.load(Ordering::Relaxed) + bytes > max {
            return None;
        }
        all.fetch_add(bytes, Ordering::Relaxed);
        Some(HeldEvent {
            event,
            bytes,
            all: Arc::clone(all),
        })
    }
}

impl Drop for HeldEvent {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A delivery that waits.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: i64,
    pub(super) position: Position,
    pub(super) attempts: u32,
    /// Where there is none, it is read before it is sent.
    pub(super) event: Option<HeldEvent>,
}

impl From<Waiting> for Entry {
    fn from(waiting: Waiting) -> Self {
        let Waiting {
            number,
            position,
            attempts,
            ..
        } = waiting;
        Entry {
            number,
            position,
            attempts,
            event: None,
        }
    }
}

/// What the first of a lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Ready,
    Flying,
    Waits(i64),
}

#[derive(Debug)]
struct Lane {
    entries: VecDeque<Entry>,
    turn: Turn,
}

/// A delivery on its way out.
#[derive(Debug, Clone)]
pub(super) struct PendingAttempt {
    /// The number of the account whose share it takes a place of.
    pub(super) account: u32,
    pub(super) endpoint: u64,
    /// Which of the line's lives it belongs to: each giving up ends one.
    pub(super) life: u64,
    pub(super) key: LaneKey,
    pub(super) number: i64,
    pub(super) position: Position,
    /// Which attempt it is: 1, 2, 3 …
    pub(super) attempt: u32,
    pub(super) event: Option<Arc<Event>>,
}

/// What is asked of the store for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refill {
    pub(super) query: DueQuery,
    pub(super) life: u64,
}

/// What became of a wish to send a delivery now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryOutcome {
    /// It goes out, or is out.
    Goes,
    /// Something before it in its lane waits.
    Queues,
    /// Memory does not hold it.
    NotHeld,
}

/// One endpoint's queue.
#[derive(Debug, Default)]
pub(super) struct EndpointQueue {
    pub(super) account: u32,
    pub(super) endpoint: u64,
    /// Deliveries that wait, here or in the store alone.
    pub(super) waiting: u64,
    pub(super) in_flight: usize,
    pub(super) failing_since: Option<i64>,
    pub(super) last_success: Option<i64>,
    /// The receiver wants no more; nothing is sent until the endpoint's record says so.
    pub(super) paused: bool,
    life: u64,
    held: usize,
    lanes: HashMap<LaneKey, Lane>,
    ready: VecDeque<LaneKey>,
    retries: BTreeSet<(i64, LaneKey)>,
    /// Failures in a row, and when the next attempt may be made because of them.
    failures: u32,
    next_at: i64,
    /// The store is being read.
    asked: bool,
    /// It may hold something that has not been read.
    look: bool,
    /// When it next may.
    next_due: Option<i64>,
    /// Deliveries whose outcome is in a slice that may not have been written when the store was
    /// last read.
    unwritten: HashMap<i64, u64>,
    /// The last slice that was written, and the one that must be before the store is read.
    written: u64,
    reads_from: u64,
}

impl EndpointQueue {
    /// A line of this account's endpoint, of which so many deliveries wait in the store.
    pub(super) fn new(
        (account, endpoint): (u32, u64),
        waiting: u64,
        failing_since: Option<i64>,
    ) -> Self {
        EndpointQueue {
            account,
            endpoint,
            waiting,
            failing_since,
            look: waiting > 0,
            ..EndpointQueue::default()
        }
    }

    /// Whether it holds every delivery that waits.
    pub(super) fn fully_in_memory(&self) -> bool {
        u64::try_from(self.held).is_ok_and(|held| held == self.waiting)
    }

    /// How many it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether it would send more if only the store said what.
    pub(super) fn needs_refill(&self, places: usize) -> bool {
        !self.fully_in_memory() && self.held < places
    }

    /// A new delivery, behind all that its lane has.
    pub(super) fn push(&mut self, key: LaneKey, entry: Entry, room: usize) {
        let whole = self.fully_in_memory();
        self.waiting += 1;
        if whole && self.held < room {
            self.hold(key, entry);
        } else if whole {
            self.let_go_of_waiting();
        }
    }

    fn hold(&mut self, key: LaneKey, entry: Entry) {
        self.held += 1;
        let lane = self.lanes.entry(key).or_insert_with(|| {
            self.ready.push_back(key);
            Lane {
                entries: VecDeque::new(),
                turn: Turn::Ready,
            }
        });
        lane.entries.push_back(entry);
    }

    /// There is no room for all: lanes whose head waits for a later attempt are the store's alone
    /// from now on, or they would keep out what can be sent.
    fn let_go_of_waiting(&mut self) {
        for (due, key) in std::mem::take(&mut self.retries) {
            self.let_go(key, due);
        }
    }

    fn let_go(&mut self, key: LaneKey, due: i64) {
        if let Some(lane) = self.lanes.remove(&key) {
            self.held -= lane.entries.len();
        }
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Whether it has something that may be sent.
    pub(super) fn may_send(&self, now: i64, places: usize) -> bool {
        !self.paused && self.in_flight < places && now >= self.next_at && !self.ready.is_empty()
    }

    /// The next that may be sent.
    pub(super) fn next(&mut self, now: i64, places: usize) -> Option<PendingAttempt> {
        if !self.may_send(now, places) {
            return None;
        }
        let key = self.ready.pop_front()?;
        let lane = self.lanes.get_mut(&key)?;
        let entry = lane.entries.front_mut()?;
        lane.turn = Turn::Flying;
        self.in_flight += 1;
        if let Some(more) = (self.failures / FAILURES_MAX).checked_sub(1) {
            self.next_at = now + (DISTANCE_MS << more.min(DOUBLINGS_MAX));
        }
        Some(PendingAttempt {
            account: self.account,
            endpoint: self.endpoint,
            life: self.life,
            key,
            number: entry.number,
            position: entry.position,
            attempt: entry.attempts + 1,
            event: entry.event.take().map(|held| Arc::clone(&held.event)),
        })
    }

    /// An attempt is over; true where its outcome still matters.
    pub(super) fn landed(&mut self, shipment: &PendingAttempt) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        shipment.life == self.life
    }

    /// A receiver has taken something, or not.
    pub(super) fn record_result(&mut self, well: bool, now: i64) {
        self.failures = if well {
            0
        } else {
            self.failures.saturating_add(1)
        };
        self.failing_since = if well {
            None
        } else {
            Some(self.failing_since.unwrap_or(now))
        };
        if well {
            (self.next_at, self.last_success) = (0, Some(now));
        }
    }

    /// A delivery's outcome stands in this slice, not in the store.
    pub(super) fn unwritten(&mut self, number: i64, slice: u64) {
        self.unwritten.insert(number, slice);
    }

    /// The head of a lane has ended: the next one's turn.
    pub(super) fn ended(&mut self, key: LaneKey) {
        self.waiting = self.waiting.saturating_sub(1);
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        if lane.entries.pop_front().is_some() {
            self.held -= 1;
        }
        if lane.entries.is_empty() {
            self.lanes.remove(&key);
        } else {
            lane.turn = Turn::Ready;
            self.ready.push_back(key);
        }
    }

    /// The head of a lane is tried again, not before `due`.
    pub(super) fn later(&mut self, key: LaneKey, due: i64) {
        if !self.fully_in_memory() {
            self.let_go(key, due);
            return;
        }
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        if let Some(head) = lane.entries.front_mut() {
            head.attempts += 1;
        }
        lane.turn = Turn::Waits(due);
        self.retries.insert((due, key));
    }

    /// The head of a lane could not be tried: what is sent could not be read.
    pub(super) fn put_back(&mut self, key: LaneKey, now: i64) {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        lane.turn = Turn::Waits(now + PAUSE_MS);
        self.retries.insert((now + PAUSE_MS, key));
    }

    /// A delivery is to be tried now, not when it is due.
    pub(super) fn retry_now(&mut self, key: LaneKey, number: i64) -> RetryOutcome {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return RetryOutcome::NotHeld;
        };
        let head = lane
            .entries
            .front()
            .is_some_and(|head| head.number == number);
        if !head && !lane.entries.iter().any(|entry| entry.number == number) {
            return RetryOutcome::NotHeld;
        }
        if !head {
            return RetryOutcome::Queues;
        }
        if let Turn::Waits(due) = lane.turn {
            lane.turn = Turn::Ready;
            self.retries.remove(&(due, key));
            self.ready.push_back(key);
        }
        RetryOutcome::Goes
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, now: i64) {
        while let Some((due, key)) = self.retries.first().copied().filter(|(due, _)| *due <= now) {
            self.retries.remove(&(due, key));
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.turn = Turn::Ready;
                self.ready.push_back(key);
            }
        }
        if self.next_due.is_some_and(|due| due <= now) {
            self.next_due = None;
            self.look = true;
        }
    }

    /// When it has to be woken.
    pub(super) fn alarm(&self, now: i64, places: usize) -> Option<i64> {
        let paced = (!self.ready.is_empty()
            && !self.paused
            && self.in_flight < places
            && now < self.next_at)
            .then_some(self.next_at);
        let retry = self.retries.first().map(|(due, _)| *due);
        paced.into_iter().chain(retry).chain(self.next_due).min()
    }

    /// What is to be read of the store, if anything is; to be answered by [`EndpointQueue::refilled`].
    pub(super) fn wants(&mut self, now: i64, room: usize) -> Option<Refill> {
        let few = self.waiting <= u64::try_from(WHOLE_MAX.min(room)).unwrap_or(0);
        let hungry = few || self.held <= room / 2;
        if self.asked
            || !self.look
            || self.fully_in_memory()
            || !hungry
            || self.written < self.reads_from
        {
            return None;
        }
        (self.asked, self.look) = (true, false);
        let endpoint = self.endpoint;
        let some = room.saturating_sub(self.held) + self.lanes.len();
        let query = if few {
            DueQuery {
                endpoint,
                until: i64::MAX,
                lanes: room,
                deliveries: room.saturating_mul(room),
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
            life: self.life,
        })
    }

    /// What the store had, as of some moment since it was asked; none where it could not be read.
    pub(super) fn refilled(
        &mut self,
        refill: &Refill,
        found: Option<DueLanes>,
        now: i64,
        room: usize,
    ) {
        self.asked = false;
        match found {
            Some(found) if refill.life == self.life => {
                self.next_due = found.next_due;
                for lane in found.lanes {
                    self.take_in(lane, now, room);
                }
                self.wake(now);
            }
            Some(_) => self.look = true,
            None => self.next_due = Some(now + PAUSE_MS),
        }
        let written = self.written;
        self.unwritten.retain(|_, slice| *slice > written);
    }

    /// A lane as the store had it. What memory holds of it is newer; what follows that is the
    /// store's to tell.
    fn take_in(&mut self, found: Vec<Waiting>, now: i64, room: usize) {
        let Some(head) = found.first() else { return };
        let (key, due) = (head.key, head.due.unwrap_or(now));
        if !self.lanes.contains_key(&key) {
            if self.unwritten.contains_key(&head.number) || self.held >= room {
                return;
            }
            let turn = if due <= now {
                Turn::Ready
            } else {
                Turn::Waits(due)
            };
            match turn {
                Turn::Ready | Turn::Flying => self.ready.push_back(key),
                Turn::Waits(due) => drop(self.retries.insert((due, key))),
            }
            self.lanes.insert(
                key,
                Lane {
                    entries: VecDeque::new(),
                    turn,
                },
            );
        }
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        let last = lane.entries.back().map_or(0, |entry| entry.number);
        for waiting in found.into_iter().filter(|waiting| waiting.number > last) {
            if self.held >= room && !lane.entries.is_empty() {
                break;
            }
            self.held += 1;
            lane.entries.push_back(waiting.into());
        }
    }

    /// Everything up to this slice is written.
    pub(super) fn written(&mut self, slice: u64) {
        self.written = slice;
        if !self.asked {
            self.unwritten.retain(|_, unwritten| *unwritten > slice);
        }
        self.look |= !self.fully_in_memory();
    }

    /// Nothing that waits will be sent. What is under way lands without a trace. The store is not
    /// read before it knows.
    pub(super) fn give_up(&mut self, slice: u64) {
        self.life += 1;
        self.waiting = 0;
        self.held = 0;
        self.lanes.clear();
        self.ready.clear();
        self.retries.clear();
        (self.next_due, self.look, self.paused) = (None, false, false);
        (self.failures, self.next_at, self.failing_since) = (0, 0, None);
        self.reads_from = slice;
    }

    /// What is held of this entity's events is let go, to be read again.
    pub(super) fn forget(&mut self, entity: u64) {
        for (_, lane) in self
            .lanes
            .iter_mut()
            .filter(|(key, _)| key.entity == entity)
        {
            for entry in &mut lane.entries {
                entry.event = None;
            }
        }
    }

    /// What is held of any event is let go.
    pub(super) fn forget_all(&mut self) {
        for entry in self.lanes.values_mut().flat_map(|lane| &mut lane.entries) {
            entry.event = None;
        }
    }

    /// Whether its counts are those of what it holds.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        let held: usize = self.lanes.values().map(|lane| lane.entries.len()).sum();
        held == self.held
            && u64::try_from(held).is_ok_and(|held| held <= self.waiting)
            && self.lanes.values().all(|lane| !lane.entries.is_empty())
    }
}
