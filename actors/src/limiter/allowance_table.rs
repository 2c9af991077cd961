//! The allowances of many keys. Only those of which something is spent are stored. Knows neither
//! actors nor locks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use super::allowance::{Allowance, Limits, RateLimitStatus};
use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How long after a key was stored or checked it is checked again: before that its last request
/// can't have left the window.
const LOOK_AFTER: Duration = Duration::from_secs(61);
/// How many keys each request checks. It adds at most one, so that the queue shrinks even while
/// only new keys come.
const LOOKS_PER_REQUEST: usize = 2;
/// Tables of a lower capacity are not shrunk.
const CAPACITY_MIN: usize = 1_024;

/// What one key has spent at a node since that told the others last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent<K> {
    pub(super) key: K,
    pub(super) permits: u32,
    /// The rate at which the key's bucket drains.
    pub(super) rate_per_minute: u32,
}

/// The allowances of many keys, bounded in number.
pub(super) struct AllowanceTable<K> {
    /// Boxed, so that removing a key frees its memory and growing moves pointers only.
    allowances: HashMap<K, Box<Allowance>>,
    /// Every key of `allowances` once, in the order of the checks, with the time since when it
    /// waits for the next one.
    queue: VecDeque<(Timestamp, K)>,
    keys_max: usize,
    /// The keys of which something was spent that other nodes have not been told of; none where
    /// there are no other nodes.
    untold: Option<Vec<K>>,
}

impl<K: Copy + Eq + Hash> AllowanceTable<K> {
    /// A table of at most `keys_max` keys, at least one. Beyond this it forgets the one whose check
    /// is due next.
    pub(super) fn new(keys_max: usize) -> Self {
        Self {
            allowances: HashMap::new(),
            queue: VecDeque::new(),
            keys_max: keys_max.max(1),
            untold: None,
        }
    }

    /// The same, which notes what other nodes are to be told of.
    pub(super) fn shared(keys_max: usize) -> Self {
        Self {
            untold: Some(Vec::new()),
            ..Self::new(keys_max)
        }
    }

    /// About how much memory it holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of_key = size_of::<(K, Box<Allowance>)>() + size_of::<(Timestamp, K)>();
        self.allowances.len() * (of_key + size_of::<Allowance>())
    }

    /// Spends permits of a key, all or none.
    pub(super) fn take(
        &mut self,
        key: K,
        limits: Limits,
        permits: u32,
        now: Timestamp,
    ) -> RateLimitStatus {
        self.forget_some_whole(now);
        if let Some(allowance) = self.allowances.get_mut(&key) {
            let status = allowance.take(limits, permits, now);
            if status.allowed
                && let Some(untold) = &mut self.untold
                && allowance.tell_later(permits)
            {
                untold.push(key);
            }
            return status;
        }
        let mut allowance = Allowance::new(limits, now);
        let status = allowance.take(limits, permits, now);
        if status.allowed {
            if let Some(untold) = &mut self.untold {
                allowance.tell_later(permits);
                untold.push(key);
            }
            self.remember(key, allowance, now);
        }
        status
    }

    /// What was spent since this was asked last, by key: for other nodes.
    pub(super) fn take_spent(&mut self) -> Vec<Spent<K>> {
        let untold = self.untold.as_mut().map(std::mem::take);
        let spent = untold.into_iter().flatten().filter_map(|key| {
            // A key that was forgotten meanwhile has nothing to tell.
            let (permits, rate_per_minute) = self.allowances.get_mut(&key)?.take_untold();
            Some(Spent {
                key,
                permits,
                rate_per_minute,
            })
        });
        spent.filter(|spent| spent.permits > 0).collect()
    }

    /// Counts what a key has spent at another node.
    pub(super) fn spend_elsewhere(&mut self, spent: Spent<K>, now: Timestamp) {
        self.forget_some_whole(now);
        if let Some(allowance) = self.allowances.get_mut(&spent.key) {
            return allowance.spend_elsewhere(spent.permits, now);
        }
        let mut allowance = Allowance::new(Limits::of_rate(spent.rate_per_minute), now);
        allowance.spend_elsewhere(spent.permits, now);
        self.remember(spent.key, allowance, now);
    }

    /// Reads the numbers of a key without storing anything.
    pub(super) fn peek(&mut self, key: K, limits: Limits, now: Timestamp) -> RateLimitStatus {
        match self.allowances.get_mut(&key) {
            Some(allowance) => allowance.peek(limits, now),
            None => Allowance::new(limits, now).peek(limits, now),
        }
    }

    /// Forgets the keys whose numbers a panic may have left half changed, and keeps all others.
    pub(super) fn repair(&mut self) {
        self.allowances.retain(|_, allowance| allowance.is_sound());
        let mut queued = HashSet::with_capacity(self.allowances.len());
        let allowances = &self.allowances;
        self.queue
            .retain(|(_, key)| allowances.contains_key(key) && queued.insert(*key));
        let left_out = allowances.keys().filter(|key| !queued.contains(key));
        // They are due at once.
        self.queue.extend(left_out.map(|key| (Timestamp(0), *key)));
        if let Some(untold) = &mut self.untold {
            // Which of them a panic has left out is not known.
            *untold = self.allowances.keys().copied().collect();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.allowances.len()
    }

    fn remember(&mut self, key: K, allowance: Allowance, now: Timestamp) {
        while self.allowances.len() >= self.keys_max
            && let Some((_, oldest)) = self.queue.pop_front()
        {
            self.allowances.remove(&oldest);
        }
        self.allowances.insert(key, Box::new(allowance));
        self.queue.push_back((now, key));
    }

    /// Removes keys of which nothing is spent, a few with each request, never in a scan.
    fn forget_some_whole(&mut self, now: Timestamp) {
        for _ in 0..LOOKS_PER_REQUEST {
            // A clock that was set back must not stop the queue: a key that was queued in the
            // future is due as well.
            let due = self
                .queue
                .front()
                .is_some_and(|(queued_at, _)| now.abs_diff(*queued_at) >= LOOK_AFTER);
            if !due {
                return;
            }
            let Some((_, key)) = self.queue.pop_front() else {
                return;
            };
            if self
                .allowances
                .get_mut(&key)
                .is_some_and(|allowance| !allowance.is_whole(now))
            {
                self.queue.push_back((now, key));
            } else {
                self.allowances.remove(&key);
                self.give_back_room();
            }
        }
    }

    /// Shrinks the table to a quarter when only an eighth is used, which happens rarely.
    fn give_back_room(&mut self) {
        let few = self.allowances.len();
        if self.allowances.capacity() > CAPACITY_MIN && few < self.allowances.capacity() / 8 {
            self.allowances.shrink_to(few * 2);
            self.queue.shrink_to(few * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic() -> Limits {
        Limits::new(100, 150)
    }

    #[test]
    fn a_key_that_is_whole_again_is_forgotten_and_one_that_is_not_is_kept() {
        let mut table = AllowanceTable::new(usize::MAX);
        for key in 0..1_000_u32 {
            assert!(table.take(key, basic(), 1, Timestamp(0)).allowed);
        }
        assert!(table.take(1_000, basic(), 150, Timestamp(0)).allowed);
        // Every look forgets one; a look per request would only keep pace with the new keys.
        for request in 0..510_u32 {
            table.take(2_000 + request, basic(), 1, Timestamp(61_000));
        }
        assert_eq!(table.allowances.len(), 511);
        assert!(!table.take(1_000, basic(), 10, Timestamp(61_000)).allowed);
        assert_eq!(table.queue.len(), table.allowances.len());
    }

    #[test]
    fn memory_is_given_back_after_a_flood() {
        let mut table = AllowanceTable::new(usize::MAX);
        for key in 0..100_000_u32 {
            table.take(key, basic(), 1, Timestamp(0));
        }
        for _ in 0..50_001_u32 {
            table.take(0, basic(), 1, Timestamp(1_000_000));
        }
        assert_eq!(table.allowances.len(), 1);
        assert!(table.allowances.capacity() < 4_096);
        assert!(table.queue.capacity() < 4_096);
    }

    #[test]
    fn of_too_many_keys_the_oldest_is_forgotten() {
        let mut table = AllowanceTable::new(3);
        for key in 0..4_u32 {
            table.take(key, basic(), 150, Timestamp(0));
        }
        assert_eq!(table.allowances.len(), 3);
        assert_eq!(table.queue.len(), 3);
        assert!(table.peek(0, basic(), Timestamp(0)).allowed);
        assert!(!table.peek(1, basic(), Timestamp(0)).allowed);
    }

    #[test]
    fn a_clock_set_back_does_not_stop_the_sweep() {
        let mut table = AllowanceTable::new(usize::MAX);
        table.take(1_u32, basic(), 1, Timestamp(10_000_000));
        table.take(2, basic(), 1, Timestamp(0));
        assert_eq!(table.queue.len(), 2);
        table.take(3, basic(), 1, Timestamp(61_000));
        table.take(4, basic(), 1, Timestamp(122_000));
        assert!(!table.allowances.contains_key(&1));
    }

    #[test]
    fn a_repair_forgets_what_is_half_changed_and_nothing_else() {
        let mut table = AllowanceTable::new(usize::MAX);
        for key in 0..4_u32 {
            table.take(key, basic(), 150, Timestamp(0));
        }
        let mut half_changed = Allowance::new(basic(), Timestamp(0));
        half_changed.take(basic(), 1, Timestamp(0));
        half_changed.break_for_test();
        table.allowances.insert(1, Box::new(half_changed));
        // Two panics between the queue and the map.
        table.queue.pop_front();
        table.allowances.remove(&2);
        table.repair();
        let mut queued: Vec<u32> = table.queue.iter().map(|(_, key)| *key).collect();
        queued.sort_unstable();
        assert_eq!(queued, [0, 3]);
        for key in [0, 3] {
            assert!(!table.take(key, basic(), 1, Timestamp(0)).allowed, "{key}");
        }
        assert!(table.take(1, basic(), 1, Timestamp(0)).allowed);
    }

    #[test]
    fn what_is_spent_is_told_once_and_counts_at_the_node_that_hears_it() {
        let (mut here, mut there) = (AllowanceTable::shared(10), AllowanceTable::shared(10));
        for key in [1_u32, 1, 2] {
            here.take(key, basic(), 30, Timestamp(0));
        }
        let spent = here.take_spent();
        let permits: Vec<_> = spent
            .iter()
            .map(|spent| (spent.key, spent.permits))
            .collect();
        assert_eq!(permits, [(1, 60), (2, 30)]);
        assert!(here.take_spent().is_empty(), "it was told");
        there.take(1, basic(), 100, Timestamp(1_000));
        for spent in spent {
            there.spend_elsewhere(spent, Timestamp(1_000));
        }
        let refused = there.take(1, basic(), 1, Timestamp(1_000));
        assert!(!refused.allowed, "160 of 150 are spent: {refused:?}");
        assert_eq!(
            there.peek(2, basic(), Timestamp(1_000)).burst_remaining,
            120
        );
        let told: Vec<_> = there.take_spent();
        let told: Vec<_> = told
            .iter()
            .map(|spent| (spent.key, spent.permits))
            .collect();
        assert_eq!(
            told,
            [(1, 100)],
            "what came from elsewhere is not sent back"
        );
    }

    #[test]
    fn what_was_refused_and_what_a_table_of_its_own_spends_is_told_to_nobody() {
        let mut alone = AllowanceTable::new(10);
        alone.take(1_u32, basic(), 1, Timestamp(0));
        assert!(alone.take_spent().is_empty());
        let mut shared = AllowanceTable::shared(10);
        shared.take(1_u32, basic(), 151, Timestamp(0));
        assert!(shared.take_spent().is_empty());
        shared.take(1_u32, basic(), 1, Timestamp(0));
        shared.repair();
        assert_eq!(shared.take_spent().len(), 1, "a repair loses nothing");
    }

    #[test]
    fn looking_remembers_nothing() {
        let mut table = AllowanceTable::new(usize::MAX);
        assert_eq!(table.peek(1_u32, basic(), Timestamp(0)).remaining, 100);
        assert!(table.allowances.is_empty());
    }
}
