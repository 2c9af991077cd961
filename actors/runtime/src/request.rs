//! A command on its way to an actor and its reply on the way back. Makes sure that every caller is
//! answered once, and that the answer says whether something may have been done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::ask_error::{AskError, Cause, SOON, unavailable};
use super::command::Command;
use super::entity::Entity;
use super::entity_handle::{EntityHandle, MailboxPermit};
use super::journal::LoadError;
use super::traces::Trace;

/// What a caller gets: a reply of type `R`, or why there is none.
pub(super) type Answer<E, R> = Result<R, AskError<<E as Entity>::Refusal>>;

/// A command in the mailbox, and the duty to answer it.
pub(super) struct Request<E: Entity, C: Command<E>> {
    pub(super) command: C,
    pub(super) responder: Responder<E, C::Reply>,
}

/// Makes the two ends of a request. `sample` is set for those whose times are measured, `trace` for
/// those whose spans are recorded.
pub(super) fn request_channel<E: Entity, C: Command<E>>(
    command: C,
    permit: MailboxPermit<E>,
    (sample, trace): (Option<Instant>, Option<Trace>),
) -> (Request<E, C>, PendingReply<E, C::Reply>) {
    let (caller, answer) = oneshot::channel();
    let state = Arc::new(RequestState(AtomicU8::new(QUEUED)));
    let responder = Responder {
        caller: Some(caller),
        state: Arc::clone(&state),
        phase: Phase::Actor,
        sample,
        trace: trace.map(Box::new),
        permit: Some(permit),
    };
    (
        Request { command, responder },
        PendingReply { answer, state },
    )
}

/// The duty to answer one caller, with the mailbox permit that the request holds until then.
///
/// Dropped without an answer, it sends the one that fits its phase.
pub(super) struct Responder<E: Entity, R: Send + 'static> {
    caller: Option<oneshot::Sender<Answer<E, R>>>,
    state: Arc<RequestState>,
    /// Which answer is right if it is dropped.
    pub(super) phase: Phase,
    /// Set for the one in sixteen whose times are measured: the start of the current phase.
    pub(super) sample: Option<Instant>,
    /// Where the spans are recorded of the few that are traced.
    pub(super) trace: Option<Box<Trace>>,
    permit: Option<MailboxPermit<E>>,
}

/// Where a request is, and so what it means when it is lost there.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    /// With the actor: nothing was done before the start; after it, the command crashed.
    Actor,
    /// With a commit: the outcome is unknown.
    Commit,
    /// With an answer that changes nothing: nothing was done.
    Barrier,
}

impl<E: Entity, R: Send + 'static> Responder<E, R> {
    /// Starts the command; false when the caller has left.
    pub(super) fn start(&self) -> bool {
        self.state.leave_queue(STARTED)
    }

    /// Whether the caller left before the start.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.is(ABANDONED)
    }

    /// The entity whose permit it holds.
    pub(super) fn handle(&self) -> Option<&Arc<EntityHandle<E>>> {
        self.permit.as_ref().map(MailboxPermit::handle)
    }

    /// Returns the permit, then answers.
    pub(super) fn respond(mut self, answer: Answer<E, R>) {
        self.send(answer);
    }

    /// Answers that the store could not give what the command needs.
    pub(super) fn load_failed(self, error: LoadError) {
        self.respond(Err(error.into()));
    }

    /// Answers that nothing was done.
    pub(super) fn unavailable(self, cause: Cause, retry_after: Duration) {
        self.respond(Err(unavailable(cause, retry_after)));
    }

    fn send(&mut self, answer: Answer<E, R>) {
        let permit = self.permit.take();
        // A caller that left before its turn was told so, and counted, then.
        if let (Err(AskError::Unavailable { cause, .. }), Some(permit)) = (&answer, &permit)
            && !self.is_abandoned()
        {
            permit.handle().registry.metrics.refused(*cause);
        }
        let caller = self.caller.take();
        // Who is told of a crash finds it recorded.
        let recording = std::thread::panicking()
            .then_some(permit.as_ref())
            .flatten();
        let recording = recording.map(|permit| Arc::clone(permit.handle()));
        let deliver = move || {
            drop(permit);
            // A caller that has left needs no answer.
            drop(caller.map(|caller| caller.send(answer)));
        };
        match recording {
            Some(handle) => handle.when_crash_is_recorded(Box::new(deliver)),
            None => deliver(),
        }
    }
}

impl<E: Entity, R: Send + 'static> Drop for Responder<E, R> {
    fn drop(&mut self) {
        if self.caller.is_none() {
            return;
        }
        let answer = match self.phase {
            Phase::Commit => AskError::Unknown,
            Phase::Barrier => unavailable(Cause::StoreUnavailable, SOON),
            // While unwinding: this is the command that crashed, however far it had come.
            Phase::Actor if self.state.is(STARTED) || std::thread::panicking() => AskError::Crashed,
            Phase::Actor => {
                let (cause, retry_after) = self
                    .permit
                    .as_ref()
                    .map_or((Cause::BackingOff, SOON), |permit| {
                        permit.handle().drop_cause()
                    });
                unavailable(cause, retry_after)
            }
        };
        self.send(Err(answer));
    }
}

/// The caller's end of a request. Dropped before the start, it withdraws the request.
pub(super) struct PendingReply<E: Entity, R> {
    answer: oneshot::Receiver<Answer<E, R>>,
    state: Arc<RequestState>,
}

impl<E: Entity, R> PendingReply<E, R> {
    /// Waits for the answer until the deadline.
    pub(super) async fn until(mut self, deadline: Instant) -> Answer<E, R> {
        match timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(answer)) => answer,
            // A responder always answers; that it did not means that it was leaked.
            Ok(Err(_)) => Err(AskError::Unknown),
            Err(_) if self.state.leave_queue(ABANDONED) => Err(unavailable(Cause::TimedOut, SOON)),
            Err(_) => self.answer.try_recv().unwrap_or(Err(AskError::TimedOut)),
        }
    }
}

impl<E: Entity, R> Drop for PendingReply<E, R> {
    fn drop(&mut self) {
        self.state.leave_queue(ABANDONED);
    }
}

const QUEUED: u8 = 0;
const STARTED: u8 = 1;
const ABANDONED: u8 = 2;

/// How far a request has come, as both ends see it: either started or abandoned, never both.
struct RequestState(AtomicU8);

impl RequestState {
    /// Moves a queued request on; false when it is not queued any more.
    fn leave_queue(&self, next: u8) -> bool {
        self.0
            .compare_exchange(QUEUED, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Acquire) == state
    }
}
