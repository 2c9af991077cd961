//! A commit on its way to the store, with the caller's reply and mailbox permit. Runs on the
//! journal's thread.

use super::ask_error::{AskError, Cause, SOON, unavailable};
use super::entity::Entity;
use super::journal::{CommitFailure, Incarnation};
use super::metrics::{Restart, count};
use super::request::{Phase, Responder};
use super::traces::OpenSpan;
use colloquy_model::sequence::Sequence;

/// What waits for one commit. If the journal drops it, the outcome counts as unknown.
pub(super) struct PendingCommit<E: Entity, R: Send + 'static> {
    responder: Option<Responder<E, R>>,
    incarnation: Incarnation,
    applied: Applied,
    /// The revision that the commit makes durable.
    revision: Sequence,
    span: Option<Box<OpenSpan>>,
}

/// Whether the entity in memory has already taken the change that the commit carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    Already,
    NotYet,
}

impl<E: Entity, R: Send + 'static> PendingCommit<E, R> {
    /// Counts a commit of this incarnation as pending. `revision` is the one that it makes durable.
    pub(super) fn begin(
        mut responder: Responder<E, R>,
        incarnation: Incarnation,
        applied: Applied,
        revision: Sequence,
    ) -> Self {
        responder.phase = Phase::Commit;
        if let Some(handle) = responder.handle() {
            handle.commit_begun();
        }
        let trace = responder.trace.as_deref();
        let span = trace.map(|trace| Box::new(OpenSpan::begin(*trace, "commit")));
        Self {
            span,
            responder: Some(responder),
            incarnation,
            applied,
            revision,
        }
    }

    /// Takes the commit's outcome: notes what it means for the entity, returns the permit and
    /// answers.
    pub(super) fn complete(mut self, reply: R, outcome: Result<(), CommitFailure<E::Violation>>) {
        let Some(responder) = self.responder.take() else {
            return;
        };
        if let Some(span) = self.span.take() {
            let failed = !matches!(outcome, Ok(()) | Err(CommitFailure::Violated(_)));
            span.end(failed, Vec::new());
        }
        let answer = match outcome {
            Ok(()) => {
                if let Some(handle) = responder.handle() {
                    handle.mark_committed(self.revision);
                }
                Ok(reply)
            }
            Err(failure) => Err(self.failed(&responder, failure)),
        };
        if let Some(handle) = responder.handle() {
            handle.commit_completed();
            if let Some(begun) = responder.sample {
                handle.registry.metrics.committing.record(begun.elapsed());
            }
        }
        responder.respond(answer);
    }

    /// Notes the failure before the commit counts as completed, and translates it for the caller.
    fn failed(
        &self,
        responder: &Responder<E, R>,
        failure: CommitFailure<E::Violation>,
    ) -> AskError<E::Refusal> {
        let (answer, restart) = match failure {
            CommitFailure::Conflict => {
                let why = (Restart::Conflict, "another copy had committed before");
                (unavailable(Cause::Conflict, SOON), Some(why))
            }
            CommitFailure::Unavailable => {
                let why = (Restart::Store, "the store took no commit");
                (unavailable(Cause::StoreUnavailable, SOON), Some(why))
            }
            CommitFailure::Unknown => {
                let why = (Restart::Store, "the outcome of a commit is not known");
                (AskError::Unknown, Some(why))
            }
            CommitFailure::Violated(violation) => {
                // A change that stands in memory but not in the store must go; anything else is
                // only refused.
                let why = (Restart::Store, "a change that was applied was refused");
                let restart = (self.applied == Applied::Already).then_some(why);
                (AskError::Refused(E::refused(violation)), restart)
            }
        };
        if let (Some((restart, reason)), Some(handle)) = (restart, responder.handle()) {
            if restart == Restart::Conflict {
                count(&handle.registry.metrics.conflicts);
            }
            if matches!(answer, AskError::Unknown) {
                count(&handle.registry.metrics.unknown);
            }
            if handle.mark_failed(self.incarnation) {
                handle.restarted(restart, reason);
                tracing::warn!(kind = E::KIND, id = %handle.id, ?restart, "a commit failed; the entity is reloaded");
                handle.registry.request_reload(handle);
            }
        }
        answer
    }
}

impl<E: Entity, R: Send + 'static> Drop for PendingCommit<E, R> {
    fn drop(&mut self) {
        if let Some(responder) = self.responder.take() {
            let answer = self.failed(&responder, CommitFailure::Unknown);
            if let Some(handle) = responder.handle() {
                handle.commit_completed();
            }
            responder.respond(Err(answer));
        }
    }
}
