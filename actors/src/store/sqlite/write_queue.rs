//! What has come to the writer and waits for a transaction. Small works go at once, however many
//! large ones wait: of these one at a time goes along, a long frame of a version in parts, so that
//! nobody waits for what others upload. Works on one entity keep their order.

use std::collections::{HashMap, VecDeque};

use super::frame_parts::{PART_BYTES, PartAhead};
use super::pace::Phase;
use super::work::Work;
use colloquy_model::entity_number::EntityNumber;

/// At most so many works in one transaction.
const BATCH_MAX: usize = 1024;
/// Bytes from which a work is large: it takes about a millisecond.
pub(super) const LARGE_MIN: usize = PART_BYTES;
/// Bytes of large works that go along with one transaction; at least one does, or a part of one.
const LARGE_AT_ONCE: usize = PART_BYTES;

/// The works that wait for a transaction.
#[derive(Default)]
pub(super) struct Arrivals {
    batch: Vec<Work>,
    /// Large works, and those on the same entities behind them.
    large: VecDeque<Work>,
    /// How many parts of the first one's frame went ahead.
    parts_ahead: usize,
    /// How many of these each entity has.
    waiting: HashMap<EntityNumber, usize>,
}

impl Arrivals {
    /// Whether some wait for a later transaction.
    pub(super) fn are_left(&self) -> bool {
        !self.large.is_empty()
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
        let waits = |entity| self.waiting.contains_key(&entity);
        match work.entity() {
            Some(entity) if work.bytes() >= LARGE_MIN || waits(entity) => {
                *self.waiting.entry(entity).or_insert(0) += 1;
                self.large.push_back(work);
            }
            Some(_) | None => self.batch.push(work),
        }
    }

    /// The works of the next transaction; where the store closes, all that are left.
    pub(super) fn next(&mut self, phase: Phase) -> Vec<Work> {
        let mut bytes = 0;
        while let Some(work) = self.large.front() {
            let part = match (work, phase) {
                (Work::Commit { commit, .. }, Phase::Running) => {
                    PartAhead::of(commit, self.parts_ahead)
                }
                (_, Phase::Running | Phase::Closing) => None,
            };
            let next = match part {
                Some(_) => PART_BYTES,
                None => work.bytes().saturating_sub(self.parts_ahead * PART_BYTES),
            };
            let is_full = bytes > 0 && bytes + next > LARGE_AT_ONCE;
            if is_full && phase == Phase::Running {
                break;
            }
            bytes += next;
            match part {
                Some(part) => {
                    self.parts_ahead += 1;
                    self.batch.push(Work::PartAhead(part));
                }
                None => self.pop(),
            }
        }
        std::mem::take(&mut self.batch)
    }

    fn pop(&mut self) {
        let Some(work) = self.large.pop_front() else {
            return;
        };
        self.parts_ahead = 0;
        if let Some(entity) = work.entity()
            && let Some(waiting) = self.waiting.get_mut(&entity)
        {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&entity);
            }
        }
        self.batch.push(work);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use bytes::Bytes;

    use super::super::tests::row_of;
    use super::*;
    use colloquy_runtime::Incarnation;

    fn work(entity: EntityNumber, expected: u64, bytes: usize) -> Work {
        let commit = row_of(entity, expected, bytes);
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
