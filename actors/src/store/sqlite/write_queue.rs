//! What has come to the writer and waits for a transaction. Small works go at once, as many as one
//! account may have in a transaction; its further ones wait in its lane, with its large ones, and the
//! lanes take turns, so that nobody waits for what other accounts write. A long frame of a version goes
//! in parts. Works on one entity keep their order.

use std::collections::{HashMap, VecDeque};

use super::frame_parts::{PART_BYTES, PartAhead};
use super::pace::Phase;
use super::work::Work;
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;

/// At most so many works in one transaction.
const BATCH_MAX: usize = 1024;
/// Bytes from which a work is large: it waits in its account's lane.
pub(super) const LARGE_MIN: usize = 16 << 10;
/// Bytes of an account's small works that go with one transaction …
const SMALL_AT_ONCE: usize = 64 << 10;
/// … and of works from the lanes; at least one of these does, or a part of one.
const FROM_LANES_AT_ONCE: usize = 64 << 10;
/// What a work costs beside its texts, in bytes of them.
const WORK_BYTES: usize = 512;

/// The works that wait for a transaction.
#[derive(Default)]
pub(super) struct Arrivals {
    batch: Vec<Work>,
    /// Bytes that each account has in `batch`.
    taken: HashMap<Tenant, usize>,
    lanes: HashMap<Tenant, Lane>,
    /// Those who have a lane, each once; the first one has the next turn.
    turns: VecDeque<Tenant>,
    /// Where each entity's works wait, and how many of them.
    waiting: HashMap<EntityNumber, (Tenant, usize)>,
}

/// What waits of one account.
#[derive(Default)]
struct Lane {
    works: VecDeque<Work>,
    /// How many parts of the first one's frame went ahead.
    parts_ahead: usize,
}

impl Arrivals {
    /// Whether some wait for a later transaction.
    pub(super) fn are_left(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether the next transaction takes no further one.
    pub(super) fn are_full(&self) -> bool {
        self.batch.len() >= BATCH_MAX
    }

    /// Whether the store goes on behind them.
    pub(super) fn phase(&self) -> Phase {
        let closes = |work: &Work| matches!(work, Work::Close { .. });
        if self.batch.iter().any(closes) {
            Phase::Closing
        } else {
            Phase::Running
        }
    }

    /// Takes in the next work, in the order of arrival.
    pub(super) fn push(&mut self, work: Work) {
        match self.lane_of(&work) {
            Some((account, entity)) => self.wait(account, entity, work),
            None => self.batch.push(work),
        }
    }

    /// Whose lane a work waits in, and its entity; none where it goes with the next transaction.
    fn lane_of(&mut self, work: &Work) -> Option<(Tenant, EntityNumber)> {
        let entity = work.entity()?;
        if let Some((account, _)) = self.waiting.get(&entity) {
            return Some((*account, entity));
        }
        let account = work.account()?;
        let bytes = size(work);
        let taken = self.taken.entry(account).or_insert(0);
        if bytes >= LARGE_MIN || *taken + bytes > SMALL_AT_ONCE {
            return Some((account, entity));
        }
        *taken += bytes;
        None
    }

    fn wait(&mut self, account: Tenant, entity: EntityNumber, work: Work) {
        self.waiting.entry(entity).or_insert((account, 0)).1 += 1;
        let turns = &mut self.turns;
        let lane = self.lanes.entry(account).or_insert_with(|| {
            turns.push_back(account);
            Lane::default()
        });
        lane.works.push_back(work);
    }

    /// The works of the next transaction; where the store closes, all that are left.
    pub(super) fn next(&mut self, phase: Phase) -> Vec<Work> {
        let mut bytes = 0;
        while let Some(account) = self.turns.pop_front() {
            let before = bytes;
            if self.take_turn(account, &mut bytes, phase) {
                continue;
            }
            if bytes > before {
                self.turns.push_back(account);
            } else {
                self.turns.push_front(account);
            }
            break;
        }
        self.taken.clear();
        std::mem::take(&mut self.batch)
    }

    /// Takes from an account's lane as long as there is room; whether nothing is left in it.
    fn take_turn(&mut self, account: Tenant, bytes: &mut usize, phase: Phase) -> bool {
        let Some(lane) = self.lanes.get_mut(&account) else {
            return true;
        };
        while let Some(next) = lane.next(phase) {
            let is_full = *bytes > 0 && *bytes + next.bytes > FROM_LANES_AT_ONCE;
            if is_full && phase == Phase::Running {
                return false;
            }
            *bytes += next.bytes;
            if let Some(part) = next.part {
                lane.parts_ahead += 1;
                self.batch.push(Work::PartAhead(part));
            } else if let Some(work) = lane.pop() {
                forget(&mut self.waiting, &work);
                self.batch.push(work);
            }
        }
        self.lanes.remove(&account);
        true
    }
}

/// A work no longer waits in a lane.
fn forget(waiting: &mut HashMap<EntityNumber, (Tenant, usize)>, work: &Work) {
    if let Some(entity) = work.entity()
        && let Some((_, count)) = waiting.get_mut(&entity)
    {
        *count -= 1;
        if *count == 0 {
            waiting.remove(&entity);
        }
    }
}

/// What comes next in a lane.
struct Next {
    bytes: usize,
    /// A part of the first work's frame; none where it is the work itself.
    part: Option<PartAhead>,
}

impl Lane {
    fn next(&self, phase: Phase) -> Option<Next> {
        let work = self.works.front()?;
        let part = match (work, phase) {
            (Work::Commit { commit, .. }, Phase::Running) => {
                PartAhead::of(commit, self.parts_ahead)
            }
            (_, Phase::Running | Phase::Closing) => None,
        };
        let bytes = match part {
            Some(_) => PART_BYTES,
            None => size(work).saturating_sub(self.parts_ahead * PART_BYTES),
        };
        Some(Next { bytes, part })
    }

    fn pop(&mut self) -> Option<Work> {
        self.parts_ahead = 0;
        self.works.pop_front()
    }
}

/// What a work costs, in bytes of texts.
fn size(work: &Work) -> usize {
    work.bytes() + WORK_BYTES
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::row_of;
    use super::*;
    use colloquy_model::caller::Mode;
    use colloquy_model::commit::Commit;
    use colloquy_runtime::Incarnation;

    fn work(entity: EntityNumber, expected: u64, bytes: usize) -> Work {
        work_of(1, entity, expected, bytes)
    }

    fn work_of(account: u32, entity: EntityNumber, expected: u64, bytes: usize) -> Work {
        let commit = Commit {
            tenant: Tenant::of(account, Mode::Live),
            ..row_of(entity, expected, bytes)
        };
        Work::Commit {
            incarnation: Incarnation(1),
            commit: Box::new(commit),
            digests: Vec::new(),
            settle: Box::new(|_| ()),
        }
    }

    /// The works of the next transaction, by entity and sequence.
    fn next(arrivals: &mut Arrivals) -> Vec<(u64, u64)> {
        let place = |work: &Work| match work {
            Work::Commit { commit, .. } => Some((commit.subject.number.0, commit.expected.0)),
            Work::PartAhead(_)
            | Work::Barrier { .. }
            | Work::Reload { .. }
            | Work::ChoreDone { .. }
            | Work::Deliver { .. }
            | Work::SpendNonce { .. }
            | Work::Rewrap { .. }
            | Work::Figures { .. }
            | Work::BeginDeliveries { .. }
            | Work::AddUsage { .. }
            | Work::Snapshot(_)
            | Work::Close { .. } => None,
        };
        arrivals
            .next(Phase::Running)
            .iter()
            .map(|work| place(work).unwrap())
            .collect()
    }

    #[test]
    fn small_works_pass_large_ones_and_those_on_one_entity_keep_their_order() {
        let mut arrivals = Arrivals::default();
        for entity in 1..=3 {
            arrivals.push(work(EntityNumber(entity), 0, 700_000));
        }
        arrivals.push(work(EntityNumber(2), 1, 10));
        arrivals.push(work(EntityNumber(2), 2, 10));
        arrivals.push(work(EntityNumber(9), 0, 10));
        assert_eq!(next(&mut arrivals), [(9, 0), (1, 0)]);
        arrivals.push(work(EntityNumber(1), 1, 10));
        arrivals.push(work(EntityNumber(3), 1, 10));
        assert_eq!(next(&mut arrivals), [(1, 1), (2, 0)]);
        assert_eq!(next(&mut arrivals), [(3, 0)]);
        assert!(arrivals.are_left());
        assert_eq!(next(&mut arrivals), [(2, 1), (2, 2), (3, 1)]);
        assert!(!arrivals.are_left() && arrivals.waiting.is_empty());
    }

    #[test]
    fn further_small_works_of_one_account_wait_and_those_of_others_do_not() {
        let mut arrivals = Arrivals::default();
        for entity in 1..=20 {
            arrivals.push(work_of(1, EntityNumber(entity), 0, 8_000));
        }
        arrivals.push(work_of(2, EntityNumber(30), 0, 500));
        // Seven have the account's place, seven go from its lane.
        let entities = |works: Vec<(u64, u64)>| works.into_iter().map(|(entity, _)| entity);
        let first: Vec<u64> = entities(next(&mut arrivals)).collect();
        assert_eq!(first, [1, 2, 3, 4, 5, 6, 7, 30, 8, 9, 10, 11, 12, 13, 14]);
        let second: Vec<u64> = entities(next(&mut arrivals)).collect();
        assert_eq!(second, [15, 16, 17, 18, 19, 20]);
    }

    #[test]
    fn accounts_that_write_much_take_turns() {
        let mut arrivals = Arrivals::default();
        for entity in 1..=3 {
            arrivals.push(work_of(1, EntityNumber(entity), 0, 300_000));
        }
        for entity in 11..=14 {
            arrivals.push(work_of(2, EntityNumber(entity), 0, 30_000));
        }
        let mut batches = Vec::new();
        while arrivals.are_left() {
            batches.push(next(&mut arrivals).into_iter().map(|(entity, _)| entity));
        }
        let batches: Vec<Vec<u64>> = batches.into_iter().map(Iterator::collect).collect();
        assert_eq!(
            batches,
            [vec![1], vec![11, 12], vec![2], vec![13, 14], vec![3]]
        );
    }

    proptest! {
        /// However works arrive between transactions, all go, those on one entity in their order, and no
        /// transaction holds more of an account than its share.
        #[test]
        fn none_is_lost_and_each_entity_keeps_its_order(
            arriving in vec((0_u64..6, 0_usize..100_000, any::<bool>()), 0..60),
        ) {
            let mut arrivals = Arrivals::default();
            let (mut came, mut went) = (HashMap::new(), HashMap::new());
            let mut take = |arrivals: &mut Arrivals| {
                let works = arrivals.next(Phase::Running);
                let large = |work: &&Work| size(work) >= LARGE_MIN;
                let bytes: usize = works.iter().map(size).sum();
                let largest = works.iter().filter(large).map(size).max().unwrap_or(0);
                // Entities are of two accounts.
                let most = 2 * SMALL_AT_ONCE + FROM_LANES_AT_ONCE.max(largest);
                assert!(bytes <= most, "{bytes} bytes, the largest {largest}");
                for work in works {
                    let Work::Commit { commit, .. } = work else { unreachable!() };
                    let gone = went.entry(commit.subject.number).or_insert(0);
                    assert_eq!(commit.expected.0, *gone);
                    *gone += 1;
                }
            };
            for (entity, bytes, goes) in arriving {
                let account = 1 + u32::from(entity % 2 == 0);
                let expected = came.entry(EntityNumber(entity)).or_insert(0);
                arrivals.push(work_of(account, EntityNumber(entity), *expected, bytes));
                *expected += 1;
                if goes {
                    take(&mut arrivals);
                }
            }
            while arrivals.are_left() || !arrivals.batch.is_empty() {
                take(&mut arrivals);
            }
            prop_assert_eq!(came, went);
            prop_assert!(arrivals.lanes.is_empty() && arrivals.waiting.is_empty());
        }
    }

    #[test]
    fn a_barrier_waits_for_the_large_work_of_its_entity_and_the_end_for_all() {
        let mut arrivals = Arrivals::default();
        for entity in 1..=4 {
            arrivals.push(work(EntityNumber(entity), 0, 300_000));
        }
        let subject = row_of(EntityNumber(3), 0, 0).subject;
        arrivals.push(Work::Barrier {
            subject,
            incarnation: Incarnation(1),
            settle: Box::new(|_| ()),
        });
        assert_eq!(next(&mut arrivals), [(1, 0)]);
        let all = arrivals.next(Phase::Closing);
        assert_eq!(all.len(), 4);
        assert!(matches!(all.last().unwrap(), Work::Barrier { .. }));
        let mut document = row_of(EntityNumber(1), 0, 0);
        document.rows.first_mut().unwrap().payload = Bytes::from(vec![0; LARGE_MIN]);
        assert!(document.bytes() >= LARGE_MIN);
    }
}
