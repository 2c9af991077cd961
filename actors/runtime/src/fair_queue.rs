//! A bounded queue that is fair between keys, such as accounts: each key has a lane of its own and
//! the lanes take turns, so that a key with a thousand items delays itself only. Knows neither
//! threads nor what the items are for.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// A bounded queue that is fair between keys.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    bounds: QueueBounds,
    lanes: HashMap<K, Lane<T>>,
    /// The keys of all lanes, each once; the first one has the next turn.
    turns: VecDeque<K>,
    len: usize,
    swept_at: Instant,
}

/// The limits of a [`FairQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// How many items of one key may wait.
    pub each: usize,
    /// How many items of all keys together may wait.
    pub all: usize,
    /// How long an item may wait before it is refused.
    pub wait: Duration,
}

/// An item of a [`FairQueue`].
pub trait Queued {
    /// Whether its caller has left; then it is dropped.
    fn is_abandoned(&self) -> bool;

    /// Tells its caller that its turn does not come.
    fn refuse(self);
}

impl<K: Copy + Eq + Hash, T: Queued> FairQueue<K, T> {
    /// An empty queue.
    #[must_use]
    pub fn new(bounds: QueueBounds) -> Self {
        FairQueue {
            bounds,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
            swept_at: Instant::now(),
        }
    }

    /// How many items wait, including those whose callers have left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item. In a full queue one item is refused: this one if its key has the most already,
    /// otherwise the newest one of the key that has.
    pub fn push(&mut self, key: K, item: T) {
        if self.waiting(key) >= self.bounds.each {
            self.forget_abandoned();
            if self.waiting(key) >= self.bounds.each {
                return item.refuse();
            }
        }
        if self.len >= self.bounds.all {
            self.forget_abandoned();
            if self.len >= self.bounds.all && !self.displace(self.waiting(key) + 1) {
                return item.refuse();
            }
        }
        let turns = &mut self.turns;
        let lane = self.lanes.entry(key).or_insert_with(|| {
            turns.push_back(key);
            VecDeque::new()
        });
        lane.push_back((Instant::now(), item));
        self.len += 1;
    }

    /// Takes the next item of those keys that may have a turn now. Abandoned items are dropped on
    /// the way, those that have waited too long are refused.
    pub fn pop(&mut self, may: impl Fn(K) -> bool) -> Option<(K, T)> {
        let now = Instant::now();
        if now.duration_since(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.refuse_late(now);
        }
        for _ in 0..self.turns.len() {
            let key = self.turns.pop_front()?;
            let Some(lane) = self.lanes.get_mut(&key) else {
                continue;
            };
            self.len -= trim(lane, now, self.bounds.wait);
            let item = if may(key) { lane.pop_front() } else { None };
            self.len -= usize::from(item.is_some());
            if lane.is_empty() {
                self.lanes.remove(&key);
            } else {
                self.turns.push_back(key);
            }
            if let Some((_, item)) = item {
                return Some((key, item));
            }
        }
        None
    }

    /// Refuses all items.
    pub fn clear(&mut self) {
        self.turns.clear();
        self.len = 0;
        self.lanes
            .drain()
            .flat_map(|(_, lane)| lane)
            .for_each(|(_, item)| item.refuse());
    }

    /// How many items of a key wait.
    fn waiting(&self, key: K) -> usize {
        self.lanes.get(&key).map_or(0, VecDeque::len)
    }

    /// Drops abandoned items.
    fn forget_abandoned(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.retain(|(_, item)| !item.is_abandoned());
        }
        self.forget_empty();
    }

    /// Refuses items that have waited too long.
    fn refuse_late(&mut self, now: Instant) {
        for lane in self.lanes.values_mut() {
            trim(lane, now, self.bounds.wait);
        }
        self.forget_empty();
    }

    /// Removes empty lanes and counts what is left.
    fn forget_empty(&mut self) {
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.turns.retain(|key| self.lanes.contains_key(key));
        self.len = self.lanes.values().map(VecDeque::len).sum();
    }

    /// Refuses the newest item of the longest lane; false when that has no more than so many.
    fn displace(&mut self, more_than: usize) -> bool {
        let longest = self
            .lanes
            .values_mut()
            .max_by_key(|lane| lane.len())
            .filter(|lane| lane.len() > more_than);
        let Some((_, displaced)) = longest.and_then(VecDeque::pop_back) else {
            return false;
        };
        self.len -= 1;
        displaced.refuse();
        true
    }
}

/// The items of one key, oldest first, with the time at which each came.
type Lane<T> = VecDeque<(Instant, T)>;

/// The time between two searches of all lanes for items that have waited too long.
const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// Removes abandoned items and those that have waited too long from the front of a lane; how many
/// there were.
fn trim<T: Queued>(lane: &mut Lane<T>, now: Instant, wait: Duration) -> usize {
    let before = lane.len();
    while let Some((_, item)) =
        lane.pop_front_if(|(since, item)| item.is_abandoned() || now.duration_since(*since) >= wait)
    {
        // Nobody hears it when the caller has left.
        item.refuse();
    }
    before - lane.len()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    /// A numbered item, which notes its refusal in a list that all of them share.
    #[derive(Clone)]
    struct Item {
        number: usize,
        left: Rc<Cell<bool>>,
        refused: Rc<RefCell<Vec<usize>>>,
    }

    impl Queued for Item {
        fn is_abandoned(&self) -> bool {
            self.left.get()
        }

        fn refuse(self) {
            self.refused.borrow_mut().push(self.number);
        }
    }

    fn bounds(each: usize, all: usize) -> QueueBounds {
        QueueBounds {
            each,
            all,
            wait: Duration::from_secs(60),
        }
    }

    /// A queue with numbered items.
    struct Fixture {
        queue: FairQueue<u32, Item>,
        refused: Rc<RefCell<Vec<usize>>>,
        next: usize,
    }

    impl Fixture {
        fn new(bounds: QueueBounds) -> Self {
            Fixture {
                queue: FairQueue::new(bounds),
                refused: Rc::default(),
                next: 0,
            }
        }

        /// Adds an item; its number, and the flag by which its caller leaves.
        fn ask(&mut self, key: u32) -> (usize, Rc<Cell<bool>>) {
            let (number, left) = (self.next, Rc::new(Cell::new(false)));
            self.next += 1;
            let item = Item {
                number,
                left: Rc::clone(&left),
                refused: Rc::clone(&self.refused),
            };
            self.queue.push(key, item);
            (number, left)
        }

        fn next(&mut self) -> Option<(u32, usize)> {
            self.queue
                .pop(|_| true)
                .map(|(key, item)| (key, item.number))
        }

        fn refused(&self) -> Vec<usize> {
            self.refused.borrow().clone()
        }
    }

    #[test]
    fn who_asks_once_waits_for_one_of_him_who_asks_a_hundred_times() {
        let mut fixture = Fixture::new(bounds(1_000, 1_000));
        for _ in 0..100 {
            fixture.ask(1);
        }
        let (mine, _) = fixture.ask(2);
        assert_eq!(
            [fixture.next(), fixture.next(), fixture.next()],
            [Some((1, 0)), Some((2, mine)), Some((1, 1))]
        );
    }

    #[test]
    fn what_was_abandoned_is_never_given_out_and_takes_no_room() {
        let mut fixture = Fixture::new(bounds(3, 3));
        let [(_, first), (_, second), (third, _)] =
            [fixture.ask(1), fixture.ask(1), fixture.ask(1)];
        first.set(true);
        second.set(true);
        let [(fourth, _), (fifth, _)] = [fixture.ask(1), fixture.ask(2)];
        assert_eq!(
            [fixture.next(), fixture.next(), fixture.next()],
            [Some((1, third)), Some((2, fifth)), Some((1, fourth))]
        );
        assert!(
            fixture.queue.is_empty() && fixture.next().is_none() && fixture.refused().is_empty()
        );
    }

    #[test]
    fn a_full_queue_refuses_whoever_holds_the_most_of_it() {
        let mut fixture = Fixture::new(bounds(4, 6));
        let many: Vec<usize> = (0..5).map(|_| fixture.ask(1).0).collect();
        assert_eq!(fixture.refused(), [many[4]], "beyond what one key may hold");
        let few: Vec<usize> = (0..3).map(|_| fixture.ask(2).0).collect();
        assert_eq!(
            fixture.refused(),
            [many[4], many[3]],
            "room for the key that holds less"
        );
        let last = fixture.ask(1).0;
        assert_eq!(
            fixture.refused(),
            [many[4], many[3], last],
            "both hold the same"
        );
        let order = std::iter::from_fn(|| fixture.next())
            .map(|(_, number)| number)
            .collect::<Vec<_>>();
        assert_eq!(order, [many[0], few[0], many[1], few[1], many[2], few[2]]);
    }

    #[test]
    fn what_has_waited_too_long_is_refused_though_its_key_may_have_no_turn() {
        let mut fixture = Fixture::new(QueueBounds {
            wait: Duration::ZERO,
            ..bounds(10, 10)
        });
        let late = fixture.ask(1).0;
        fixture.queue.swept_at = Instant::now()
            .checked_sub(SWEEP_EVERY)
            .unwrap_or_else(Instant::now);
        assert!(fixture.queue.pop(|_| false).is_none());
        assert_eq!((fixture.refused(), fixture.queue.len()), (vec![late], 0));
    }

    #[test]
    fn who_may_have_no_turn_keeps_what_waits() {
        let mut fixture = Fixture::new(bounds(10, 10));
        let [(held, _), (free, _)] = [fixture.ask(1), fixture.ask(2)];
        assert_eq!(
            fixture
                .queue
                .pop(|key| key != 1)
                .map(|(_, item)| item.number),
            Some(free)
        );
        assert!(fixture.queue.pop(|key| key != 1).is_none());
        assert_eq!(fixture.next(), Some((1, held)));
        fixture.ask(3);
        fixture.queue.clear();
        assert_eq!((fixture.refused().len(), fixture.next()), (1, None));
    }

    proptest! {
        /// Whatever is item, left and taken: each item is given out, refused or abandoned, one of
        /// these and once; the bounds hold; of one key items come in their order; between two turns
        /// of a key every other that waits has one.
        #[test]
        fn nothing_is_lost_or_doubled_and_turns_go_round(
            steps in proptest::collection::vec((0_u32..4, 0_u8..4), 1..200), each in 1_usize..8, all in 1_usize..16,
        ) {
            let mut fixture = Fixture::new(bounds(each, all));
            let mut left: Vec<Rc<Cell<bool>>> = Vec::new();
            let mut given: Vec<(u32, usize)> = Vec::new();
            for (key, step) in steps {
                match step {
                    0 | 1 => left.push(fixture.ask(key).1),
                    2 => given.extend(fixture.next()),
                    _ => left.iter().rev().take(1).for_each(|left| left.set(true)),
                }
                prop_assert!(fixture.queue.len() <= all);
                prop_assert!(fixture.queue.lanes.values().all(|lane| lane.len() <= each && !lane.is_empty()));
                prop_assert_eq!(fixture.queue.len(), fixture.queue.lanes.values().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(fixture.queue.turns.len(), fixture.queue.lanes.len());
            }
            let mut turns: Vec<u32> = Vec::new();
            while let Some((key, number)) = fixture.next() {
                given.push((key, number));
                turns.push(key);
            }
            for key in 0..4 {
                let own: Vec<usize> = given.iter().filter(|(of, _)| *of == key).map(|(_, number)| *number).collect();
                prop_assert!(own.is_sorted());
            }
            for (at, key) in turns.iter().enumerate() {
                let next = turns.iter().skip(at + 1).position(|other| other == key);
                let between = turns.iter().skip(at + 1).take(next.unwrap_or(0)).collect::<Vec<_>>();
                prop_assert!(between.iter().all(|one| between.iter().filter(|other| other == &one).count() == 1));
            }
            let mut ends: Vec<usize> = given.iter().map(|(_, number)| *number).chain(fixture.refused()).collect();
            ends.sort_unstable();
            let ended = ends.len();
            ends.dedup();
            prop_assert_eq!(ended, ends.len(), "nothing twice");
            let abandoned = |number: &usize| left.get(*number).is_some_and(|left| left.get());
            prop_assert!((0..fixture.next).all(|number| ends.binary_search(&number).is_ok() || abandoned(&number)));
        }
    }
}
