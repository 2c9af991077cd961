//! The queue against a modelled store: whatever receivers answer and whenever the process dies,
//! each lane is delivered in order, nothing is lost, and memory is bounded.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::store::{DeliveryChange, DueQuery, LIVE};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::event::{EventRow, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;

const ENDPOINT: EntityNumber = EntityNumber(9);
const ACCOUNT: u32 = 1;
const LIMITS: InFlightLimits = InFlightLimits {
    per_endpoint: 4,
    per_account: 4,
};
const ATTEMPTS_MAX: u32 = 3;

#[derive(Debug, Clone)]
struct Row {
    key: LaneKey,
    position: Position,
    state: DeliveryState,
    attempts: u32,
    due: Option<Timestamp>,
}

/// What the store promises of slices, as plainly as can be.
#[derive(Debug, Default, Clone)]
struct Model {
    rows: BTreeMap<i64, Row>,
    matched: Position,
    given_up: i64,
}

impl Model {
    fn apply(&mut self, slice: &DeliverySlice) {
        self.matched = slice
            .matched
            .map_or(self.matched, |matched| matched.position);
        for DeliveryChange { number, change } in &slice.changes {
            let given_up = self.given_up;
            let Some(row) = self.rows.get_mut(number) else {
                continue;
            };
            let waits =
                row.state == DeliveryState::Pending && (*number > given_up || row.key.lane < 0);
            match change {
                Change::Attempted(fate) if waits => {
                    (row.state, row.attempts) = (fate.state, fate.attempts);
                    row.due = (fate.state == DeliveryState::Pending).then_some(fate.due);
                    let (key, ended) = (row.key, row.due.is_none());
                    if ended && let Some(next) = self.head(key) {
                        self.rows.get_mut(&next).unwrap().due = Some(slice.now);
                    }
                }
                Change::Due(at) if waits && row.due.is_some() => row.due = Some(*at),
                Change::Again(at) if !waits => {
                    (row.state, row.due, row.key.lane) =
                        (DeliveryState::Pending, Some(*at), -number);
                }
                Change::Attempted(_) | Change::Due(_) | Change::Again(_) => {}
            }
        }
        for given_up in &slice.given_up {
            self.given_up = given_up.up_to;
        }
        for new in &slice.new {
            let pending = new.fate.state == DeliveryState::Pending;
            let due = (pending && self.head(new.key).is_none()).then_some(new.fate.due);
            let (state, attempts) = (new.fate.state, new.fate.attempts);
            self.rows.insert(
                new.number,
                Row {
                    key: new.key,
                    position: new.position,
                    state,
                    attempts,
                    due,
                },
            );
        }
    }

    fn waiting(&self) -> impl Iterator<Item = (&i64, &Row)> {
        let waits = |(number, row): &(&i64, &Row)| {
            row.state == DeliveryState::Pending && (**number > self.given_up || row.key.lane < 0)
        };
        self.rows.iter().filter(waits)
    }

    fn head(&self, key: LaneKey) -> Option<i64> {
        self.waiting()
            .find(|(_, row)| row.key == key)
            .map(|(number, _)| *number)
    }

    fn due(&self, query: &DueQuery) -> DueLanes {
        let mut heads: Vec<(Timestamp, i64, LaneKey)> = self
            .waiting()
            .filter_map(|(number, row)| Some((row.due?, *number, row.key)))
            .collect();
        heads.sort_unstable();
        let mut found = DueLanes::default();
        for (due, _, key) in heads {
            if found.lanes.len() >= query.lanes || due > query.until {
                found.next_due = Some(due);
                break;
            }
            let lane = self
                .waiting()
                .filter(|(_, row)| row.key == key)
                .map(|(number, row)| Waiting {
                    number: *number,
                    key,
                    position: row.position,
                    attempts: row.attempts,
                    due: row.due,
                });
            found.lanes.push(lane.collect());
        }
        let run = (query.deliveries.saturating_sub(found.lanes.len()))
            .checked_div(found.lanes.len())
            .unwrap_or(0);
        found
            .lanes
            .iter_mut()
            .for_each(|lane| lane.truncate(run + 1));
        found
    }
}

/// The endpoint's queue, of which so many deliveries wait in the store.
fn stored(waiting: u64) -> StoredQueue {
    StoredQueue {
        account: ACCOUNT,
        endpoint: ENDPOINT,
        waiting,
        failing_since: None,
    }
}

fn event(position: Position, entity: EntityNumber) -> Arc<Event> {
    let row = EventRow {
        position,
        tenant: Tenant::of(1, Mode::Live),
        number: FeedNumber(u64::try_from(position.0).unwrap()),
        entity,
        sequence: Sequence(u64::try_from(position.0).unwrap()),
        kind: EventKind::MessageCreated,
        at: Timestamp(1_000),
        credential: None,
        text_bytes: 0,
    };
    Arc::new(Event::new(row, SeenNow::default(), "{}".into()))
}

/// One step of a life.
#[derive(Debug, Clone)]
enum Step {
    /// So many events of this entity are committed and matched.
    Events(u64, usize),
    /// Whatever is under way ends so: true is a 2xx.
    Land(Vec<bool>),
    Flush,
    Written,
    /// The slice that is being written is on the disk, but nobody is told.
    Crash(bool),
    Wait(i64),
    Refill,
    GiveUp,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..6, prop_oneof![9 => 1_usize..4, 1 => 100_usize..400]).prop_map(|(entity, n)| Step::Events(entity, n)),
        8 => proptest::collection::vec(prop::bool::weighted(0.7), 1..6).prop_map(Step::Land),
        4 => Just(Step::Flush),
        4 => Just(Step::Written),
        2 => any::<bool>().prop_map(Step::Crash),
        3 => (0_i64..30).prop_map(Step::Wait),
        4 => Just(Step::Refill),
        1 => Just(Step::GiveUp),
    ]
}

struct Life {
    queue: DeliveryQueue,
    store: Model,
    writing: Option<Box<DeliverySlice>>,
    refills: Vec<(Refill, DueLanes)>,
    in_flight: Vec<PendingAttempt>,
    now: Timestamp,
    /// Everything that was committed: (position, entity).
    log: Vec<(Position, u64)>,
    matched: Position,
    /// Per entity, positions that the receiver has taken or that were given up, as far as the queue
    /// was told.
    taken: BTreeMap<u64, Vec<Position>>,
    given_up: BTreeSet<Position>,
    sent: usize,
    retry_after: Duration,
}

impl Life {
    fn new() -> Self {
        let mut queue = DeliveryQueue::new(0, LIMITS);
        queue.open(stored(0));
        Life {
            queue,
            store: Model::default(),
            writing: None,
            refills: Vec::new(),
            in_flight: Vec::new(),
            now: Timestamp(1),
            log: Vec::new(),
            matched: Position::ZERO,
            taken: BTreeMap::new(),
            given_up: BTreeSet::new(),
            sent: 0,
            retry_after: Duration::from_millis(10),
        }
    }

    fn match_on(&mut self) {
        for (position, entity) in self
            .log
            .iter()
            .filter(|(position, _)| *position > self.matched)
        {
            let matching = Matching {
                endpoint: ENDPOINT,
                lane: LIVE,
                event: &event(*position, EntityNumber(*entity)),
                keep: Keep::InMemory,
            };
            self.queue.push(matching, self.now);
            self.queue.set_matched(Matched {
                position: *position,
                within: EntityNumber::ZERO,
            });
        }
        self.matched = self.log.last().map_or(Position::ZERO, |last| last.0);
    }

    fn go_on(&mut self) {
        let DueWork { attempts, refills } = self.queue.take_due(self.now);
        for attempt in attempts {
            // In order: everything before it of its conversation is delivered or given up.
            let EntityNumber(entity) = attempt.key.entity;
            for (position, _) in self
                .log
                .iter()
                .filter(|(at, of)| *of == entity && *at < attempt.position)
            {
                let taken = self
                    .taken
                    .get(&entity)
                    .is_some_and(|taken| taken.contains(position));
                assert!(
                    taken || self.given_up.contains(position),
                    "{position} before {attempt:?}"
                );
            }
            assert!(
                !self
                    .in_flight
                    .iter()
                    .any(|in_flight| in_flight.key == attempt.key
                        && in_flight.generation == attempt.generation)
            );
            self.in_flight.push(attempt);
            self.sent += 1;
        }
        // The store answers as it is now; the answer comes later.
        for refill in refills {
            self.refills.push((refill, self.store.due(&refill.query)));
        }
        let queue = self.queue.endpoint(ENDPOINT).unwrap();
        assert!(
            queue.held() <= HELD_MAX && queue.is_consistent(),
            "{} held",
            queue.held()
        );
    }

    fn land(&mut self, well: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let attempt = self.in_flight.remove(self.sent % self.in_flight.len());
        let verdict = match well {
            true => Verdict::Delivered,
            false if attempt.attempt >= ATTEMPTS_MAX => Verdict::Failed,
            false => Verdict::Later(self.now + self.retry_after),
        };
        if well || verdict == Verdict::Failed {
            self.taken
                .entry(attempt.key.entity.0)
                .or_default()
                .push(attempt.position);
        }
        self.queue
            .attempt_ended(&attempt, verdict, Vec::new(), self.now);
    }

    fn flush(&mut self) {
        if !self.queue.is_writing() {
            self.writing = Some(self.queue.take_slice(self.now, Timestamp(0)));
        }
    }

    fn written(&mut self) {
        if let Some(slice) = self.writing.take() {
            self.store.apply(&slice);
            self.queue.slice_written();
        }
    }

    fn refill(&mut self) {
        for (refill, found) in std::mem::take(&mut self.refills) {
            self.queue.refilled(&refill, Some(found), self.now);
        }
    }

    /// Nothing of memory is left.
    fn crash(&mut self, on_disk: bool) {
        if let Some(slice) = self.writing.take().filter(|_| on_disk) {
            self.store.apply(&slice);
        }
        let last = self
            .store
            .rows
            .keys()
            .next_back()
            .copied()
            .unwrap_or(0)
            .max(self.store.given_up);
        self.queue = DeliveryQueue::new(last, LIMITS);
        self.queue.open(stored(self.store.waiting().count() as u64));
        (self.refills, self.in_flight) = (Vec::new(), Vec::new());
        self.matched = self.store.matched;
        self.match_on();
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Events(entity, n) => {
                for _ in 0..*n {
                    let position = Position(self.log.len() as i64 + 1);
                    self.log.push((position, *entity));
                }
                self.match_on();
            }
            Step::Land(well) => well.iter().for_each(|well| {
                self.land(*well);
                self.go_on();
            }),
            Step::Flush => self.flush(),
            Step::Written => self.written(),
            Step::Crash(on_disk) => self.crash(*on_disk),
            Step::Wait(ms) => self.now.0 += ms,
            Step::Refill => self.refill(),
            Step::GiveUp => {
                // Written with the position up to which it counts, as an endpoint's change is; so
                // it survives.
                self.queue.give_up(ENDPOINT);
                self.given_up
                    .extend(self.log.iter().map(|(position, _)| *position));
                self.written();
                self.flush();
                self.written();
            }
        }
        self.go_on();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_each_lane_goes_out_in_order_and_nothing_is_lost(steps in proptest::collection::vec(step(), 1..60)) {
        let mut life = Life::new();
        for step in &steps {
            life.take(step);
        }
        // In the end the receiver is well, and everything has left.
        for _ in 0..20_000 {
            life.now.0 += 7;
            (0..LIMITS.per_endpoint).for_each(|_| life.land(true));
            life.flush();
            life.written();
            life.refill();
            life.go_on();
            if life.queue.endpoint(ENDPOINT).unwrap().waiting() == 0 && life.store.waiting().next().is_none() {
                break;
            }
        }
        prop_assert_eq!(life.store.waiting().count(), 0);
        for (position, entity) in &life.log {
            let taken = life.taken.get(entity).is_some_and(|taken| taken.contains(position));
            prop_assert!(taken || life.given_up.contains(position), "{} of {} is lost", position, entity);
        }
    }
}

#[test]
fn a_receiver_that_fails_for_some_conversations_gets_the_others_beyond_the_room() {
    let mut life = Life::new();
    life.retry_after = Duration::from_secs(1_000);
    // More conversations than there is room for wait for a later attempt.
    for entity in 100..100 + HELD_MAX as u64 + 50 {
        life.take(&Step::Events(entity, 1));
        life.take(&Step::Land(vec![false]));
        life.take(&Step::Wait(200));
    }
    life.flush();
    life.written();
    life.go_on();
    life.take(&Step::Events(7, 1));
    // Those that were never tried stand before it; none of those that wait does.
    for _ in 0..60 {
        for step in [Step::Flush, Step::Written, Step::Refill, Step::Wait(200)] {
            life.take(&step);
        }
        if life
            .in_flight
            .iter()
            .any(|attempt| attempt.key.entity == EntityNumber(7))
        {
            return;
        }
        life.take(&Step::Land(vec![false]));
    }
    panic!("it waits for others");
}

/// So many deliveries of one entity each, to this endpoint.
fn fill(queue: &mut DeliveryQueue, endpoint: EntityNumber, entities: std::ops::Range<u64>) {
    for entity in entities {
        let position = Position(i64::try_from(endpoint.0 * 1_000 + entity).unwrap());
        let event = event(position, EntityNumber(entity));
        let matching = Matching {
            endpoint,
            lane: LIVE,
            event: &event,
            keep: Keep::InMemory,
        };
        queue.push(matching, Timestamp(0));
    }
}

#[test]
fn endpoints_of_an_account_share_its_places_and_each_has_one() {
    let mut queue = DeliveryQueue::new(
        0,
        InFlightLimits {
            per_endpoint: 4,
            per_account: 6,
        },
    );
    for (account, endpoint) in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5)] {
        queue.open(StoredQueue {
            account,
            endpoint: EntityNumber(endpoint),
            ..stored(0)
        });
        fill(&mut queue, EntityNumber(endpoint), 0..10);
    }
    let under_way = |queue: &DeliveryQueue| -> Vec<usize> {
        (1..=5)
            .map(|endpoint| queue.endpoint(EntityNumber(endpoint)).unwrap().in_flight())
            .collect()
    };
    let first = queue.take_due(Timestamp(0)).attempts;
    assert_eq!(
        under_way(&queue),
        [4, 2, 1, 1, 4],
        "another account's are its own"
    );
    // Places that are left go to whoever has waited, and never to more than there are.
    let mut in_flight: VecDeque<PendingAttempt> = first.into();
    for now in 1..=32 {
        let ended = in_flight
            .iter()
            .position(|attempt| attempt.account == 1)
            .unwrap();
        queue.attempt_ended(
            &in_flight.remove(ended).unwrap(),
            Verdict::Delivered,
            Vec::new(),
            Timestamp(now),
        );
        in_flight.extend(queue.take_due(Timestamp(now)).attempts);
        let [one, two, three, four, _] = under_way(&queue)[..] else {
            panic!("five endpoints")
        };
        assert!(
            one + two + three + four <= 6 + 3,
            "{one} {two} {three} {four}"
        );
    }
    while let Some(attempt) = in_flight.pop_front() {
        queue.attempt_ended(&attempt, Verdict::Delivered, Vec::new(), Timestamp(100));
        in_flight.extend(queue.take_due(Timestamp(100)).attempts);
    }
    assert!(
        queue
            .endpoints()
            .all(|queue| queue.waiting() == 0 && queue.in_flight() == 0),
        "none was forgotten"
    );
    assert!(queue.shares.is_empty());
}
