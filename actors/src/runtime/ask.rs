//! One question on its way: what the asker holds, what the actor holds, and what both see of each
//! other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::entity::Entity;
use super::journal::LoadError;
use super::slot::{Place, Slot};
use colloquy_model::damage::Unreadable;

/// Why an ask brought no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError<R> {
    /// The entity refused.
    #[error("refused")]
    Refused(R),
    /// Nothing was done; it is safe to ask again.
    #[error("unavailable: {cause}")]
    Unavailable {
        /// What was in the way.
        cause: Cause,
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// What is stored of the entity can't be read: nothing was done, and asking again brings
    /// nothing else.
    #[error("unreadable")]
    Unreadable,
    /// The entity crashed on this command; the outcome is unknown.
    #[error("crashed")]
    Crashed,
    /// No answer in time although the work had started; the outcome is unknown.
    #[error("timed out")]
    TimedOut,
    /// The commit's outcome is not known.
    #[error("outcome unknown")]
    Unknown,
}

impl<R> AskError<R> {
    /// An answer that this question can't have: a bug of ours, told here. Something may have been
    /// done.
    pub(crate) fn impossible(answer: &'static str) -> Self {
        tracing::error!(answer, "an answer that can't be");
        Self::Crashed
    }
}

impl<R> From<LoadError> for AskError<R> {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Away => unavailable(Cause::StoreAway, SOON),
            LoadError::Busy => unavailable(Cause::TimedOut, SOON),
            LoadError::Unreadable => Self::Unreadable,
        }
    }
}

impl<R> From<Unreadable> for AskError<R> {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// The entity's places are all taken.
    #[error("mailbox full")]
    MailboxFull,
    /// The entity crashed and waits for its restart, or its thread ended before the command's turn.
    #[error("backing off")]
    BackingOff,
    /// The entity crashed too often.
    #[error("quarantined")]
    Quarantined,
    /// The directory takes no new work, or has no thread to do it on.
    #[error("draining")]
    Draining,
    /// The store does not answer.
    #[error("store away")]
    StoreAway,
    /// The command's turn did not come in time; it will not be done.
    #[error("timed out before its turn")]
    TimedOut,
    /// Another copy of the entity had moved on; this one has been reloaded.
    #[error("conflict")]
    Conflict,
}

impl Cause {
    /// Every cause, in the order of the counters.
    pub const ALL: [Self; 7] = [
        Self::MailboxFull,
        Self::BackingOff,
        Self::Quarantined,
        Self::Draining,
        Self::StoreAway,
        Self::TimedOut,
        Self::Conflict,
    ];
}

/// What an asker gets.
pub(super) type Answer<E> = Result<<E as Entity>::Reply, AskError<<E as Entity>::Refusal>>;

/// That nothing was done, and when to ask again.
pub(super) const fn unavailable<R>(cause: Cause, retry_after: Duration) -> AskError<R> {
    AskError::Unavailable { cause, retry_after }
}

/// When asking again makes sense if nothing better is known.
pub(super) const SOON: Duration = Duration::from_secs(1);

const QUEUED: u8 = 0;
const STARTED: u8 = 1;
const ABANDONED: u8 = 2;

/// How far a question has come, seen from both ends: it is either started or abandoned, never both.
struct Stage(AtomicU8);

impl Stage {
    fn take(&self, next: u8) -> bool {
        self.0
            .compare_exchange(QUEUED, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn is(&self, stage: u8) -> bool {
        self.0.load(Ordering::Acquire) == stage
    }
}

/// A command in the mailbox.
pub(super) struct Work<E: Entity> {
    pub(super) command: E::Command,
    pub(super) pledge: Pledge<E>,
}

/// Where a pledge is, and so what it means when it gets lost there.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// With the actor: not done before the start, a crash after it.
    Actor,
    /// With a commit: the outcome is unknown.
    Commit,
    /// With an answer that changes nothing: nothing was done.
    Barrier,
}

/// The duty to answer one asker, and the place that the work takes until then. Dropped, it answers
/// by itself.
pub(super) struct Pledge<E: Entity> {
    asker: Option<oneshot::Sender<Answer<E>>>,
    stage: Arc<Stage>,
    /// Where it is.
    pub(super) step: Step,
    /// Set for the one in sixteen whose times are taken; the start of the step that it is in.
    pub(super) sample: Option<Instant>,
    place: Option<Place<E>>,
}

impl<E: Entity> Pledge<E> {
    /// Whether the work may start; false when the asker has left.
    pub(super) fn start(&self) -> bool {
        self.stage.take(STARTED)
    }

    /// Whether the asker has left before the start.
    pub(super) fn abandoned(&self) -> bool {
        self.stage.is(ABANDONED)
    }

    /// The slot whose place it holds.
    pub(super) fn slot(&self) -> Option<&Arc<Slot<E>>> {
        self.place.as_ref().map(Place::slot)
    }

    /// Gives the place back, then answers.
    pub(super) fn answer(mut self, answer: Answer<E>) {
        self.settle(answer);
    }

    /// Answers that what it needs did not come out of the store.
    pub(super) fn not_loaded(self, error: LoadError) {
        self.answer(Err(error.into()));
    }

    /// Answers that nothing was done.
    pub(super) fn turn_away(self, cause: Cause, retry_after: Duration) {
        self.answer(Err(unavailable(cause, retry_after)));
    }

    fn settle(&mut self, answer: Answer<E>) {
        if let (Err(AskError::Unavailable { cause, .. }), Some(place)) = (&answer, &self.place) {
            place.slot().room.metrics.refused(*cause);
        }
        drop(self.place.take());
        if let Some(asker) = self.asker.take() {
            // An asker that has left needs no answer.
            drop(asker.send(answer));
        }
    }
}

impl<E: Entity> Drop for Pledge<E> {
    fn drop(&mut self) {
        if self.asker.is_none() {
            return;
        }
        let answer = match self.step {
            Step::Commit => AskError::Unknown,
            Step::Barrier => unavailable(Cause::StoreAway, SOON),
            // While unwinding: this is the command that crashed, however far it had come.
            Step::Actor if self.stage.is(STARTED) || std::thread::panicking() => AskError::Crashed,
            Step::Actor => {
                let (cause, retry_after) = self
                    .place
                    .as_ref()
                    .map_or((Cause::BackingOff, SOON), |place| {
                        place.slot().why_dropped()
                    });
                unavailable(cause, retry_after)
            }
        };
        self.settle(Err(answer));
    }
}

/// The asker's end. Dropped before the answer, it takes a question that has not started back.
pub(super) struct Waiting<E: Entity> {
    answer: oneshot::Receiver<Answer<E>>,
    stage: Arc<Stage>,
}

impl<E: Entity> Waiting<E> {
    /// Waits for the answer until the deadline.
    pub(super) async fn until(mut self, deadline: Instant) -> Answer<E> {
        match timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(answer)) => answer,
            // A pledge always answers; that it did not means that it was leaked.
            Ok(Err(_)) => Err(AskError::Unknown),
            Err(_) if self.stage.take(ABANDONED) => Err(unavailable(Cause::TimedOut, SOON)),
            Err(_) => self.answer.try_recv().unwrap_or(Err(AskError::TimedOut)),
        }
    }
}

impl<E: Entity> Drop for Waiting<E> {
    fn drop(&mut self) {
        self.stage.take(ABANDONED);
    }
}

/// Makes the two ends of a question.
pub(super) fn question<E: Entity>(
    command: E::Command,
    place: Place<E>,
    sample: Option<Instant>,
) -> (Work<E>, Waiting<E>) {
    let (asker, answer) = oneshot::channel();
    let stage = Arc::new(Stage(AtomicU8::new(QUEUED)));
    let pledge = Pledge {
        asker: Some(asker),
        stage: Arc::clone(&stage),
        step: Step::Actor,
        sample,
        place: Some(place),
    };
    (Work { command, pledge }, Waiting { answer, stage })
}
