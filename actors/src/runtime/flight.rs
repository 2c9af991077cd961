//! A commit on its way: the reply rides on it, and so does the place. Runs on the journal's thread.

use super::ask::{AskError, Cause, Pledge, SOON, Step, unavailable};
use super::entity::Entity;
use super::journal::{CommitFailure, Incarnation};
use super::metrics::{Restart, count};

/// Whether the entity in memory has already taken the change that the commit carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    Already,
    NotYet,
}

/// What waits for one commit. Lost by the journal, it counts as an unknown outcome.
pub(super) struct Flight<E: Entity> {
    pledge: Option<Pledge<E>>,
    incarnation: Incarnation,
    applied: Applied,
    revision: u64,
}

impl<E: Entity> Flight<E> {
    /// The commit departs. `revision` is the one that it makes durable.
    pub(super) fn depart(
        mut pledge: Pledge<E>,
        incarnation: Incarnation,
        applied: Applied,
        revision: u64,
    ) -> Self {
        pledge.step = Step::Commit;
        if let Some(slot) = pledge.slot() {
            slot.departed();
        }
        Self {
            pledge: Some(pledge),
            incarnation,
            applied,
            revision,
        }
    }

    /// The commit is settled: marks what it means for the entity, gives the place back and answers.
    pub(super) fn land(mut self, reply: E::Reply, outcome: Result<(), CommitFailure<E::Broken>>) {
        let Some(pledge) = self.pledge.take() else {
            return;
        };
        let answer = match outcome {
            Ok(()) => {
                if let Some(slot) = pledge.slot() {
                    slot.committed_to(self.revision);
                }
                Ok(reply)
            }
            Err(failure) => Err(self.failed(&pledge, failure)),
        };
        if let Some(slot) = pledge.slot() {
            slot.landed();
            if let Some(departed) = pledge.sample {
                slot.room.metrics.committing.record(departed.elapsed());
            }
        }
        pledge.answer(answer);
    }

    /// Marks the failure before the commit counts as landed, and says it in the asker's words.
    fn failed(
        &self,
        pledge: &Pledge<E>,
        failure: CommitFailure<E::Broken>,
    ) -> AskError<E::Refusal> {
        let (answer, restart) = match failure {
            CommitFailure::Conflict => {
                (unavailable(Cause::Conflict, SOON), Some(Restart::Conflict))
            }
            CommitFailure::Away => (unavailable(Cause::StoreAway, SOON), Some(Restart::Store)),
            CommitFailure::Unknown => (AskError::Unknown, Some(Restart::Store)),
            CommitFailure::Broken(broken) => {
                // A change that stands in memory but not in the store must go; anything else is
                // only refused.
                let restart = (self.applied == Applied::Already).then_some(Restart::Store);
                (AskError::Refused(E::refused(broken)), restart)
            }
        };
        if let (Some(restart), Some(slot)) = (restart, pledge.slot()) {
            if restart == Restart::Conflict {
                count(&slot.room.metrics.conflicts);
            }
            if matches!(answer, AskError::Unknown) {
                count(&slot.room.metrics.unknown);
            }
            if slot.fail(self.incarnation) {
                slot.room.metrics.restarted(restart);
                tracing::warn!(kind = E::KIND, id = %slot.id, ?restart, "a commit failed; the entity is reloaded");
                slot.room.refresh(slot);
            }
        }
        answer
    }
}

impl<E: Entity> Drop for Flight<E> {
    fn drop(&mut self) {
        if let Some(pledge) = self.pledge.take() {
            let answer = self.failed(&pledge, CommitFailure::Unknown);
            if let Some(slot) = pledge.slot() {
                slot.landed();
            }
            pledge.answer(Err(answer));
        }
    }
}
