//! What the directory knows of one entity, readable from any thread: its mailbox permits, its
//! circuit, its crashes, how far its commits have come. Never its state.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::ask_error::{Cause, SOON};
use super::entity::Entity;
use super::journal::Incarnation;
use super::kept_history::KeptHistory;
use super::metrics::{Failure, Restart, count};
use super::policy::Policy;
use super::registry::Registry;

/// What the directory knows of one entity. It leaves the registry only when none of its permits is
/// taken.
pub(super) struct EntityHandle<E: Entity> {
    pub(super) id: E::Id,
    pub(super) registry: Arc<Registry<E>>,
    permits_taken: AtomicU32,
    /// Commits that are submitted and not settled.
    pending_commits: AtomicU32,
    last_used_ms: AtomicU64,
    /// A packed [`CircuitState`].
    circuit: AtomicU64,
    /// The incarnation of the copy in memory; 0 before the first load.
    incarnation: AtomicU64,
    /// The latest incarnation of which a commit has failed.
    failed: AtomicU64,
    handled: AtomicU64,
    revision: AtomicU64,
    committed: AtomicU64,
    bytes: AtomicUsize,
    /// Whether its first load is still to come, or one is under way.
    loading: AtomicBool,
    /// Whether the entity is removed when its last permit is returned.
    removable: AtomicBool,
    /// Whether an operator wants it passivated when its last permit is returned.
    leaving: AtomicBool,
    /// Whether its next command is to crash it, as an operator asked.
    drill: AtomicBool,
    /// Whether a restart that an operator asked for is on its way to the actor.
    restarting: AtomicBool,
    /// Whether a quarantine has stopped its actor.
    stopped: AtomicBool,
    /// Whether a supervisor is there that records a crash.
    supervised: AtomicBool,
    /// How often it was restarted, for whatever cause.
    restarts: AtomicU64,
    history: Mutex<Option<Box<CrashHistory>>>,
}

/// The failures of an entity; only one that has failed has a history.
#[derive(Default)]
struct CrashHistory {
    /// The crashes within the policy's window, in milliseconds of the runtime's clock.
    crashes_ms: Vec<u64>,
    /// When the trial after its last quarantine began; for a window from then on one crash
    /// quarantines it again.
    trial_since_ms: Option<u64>,
    /// The backoff or the quarantine that runs.
    pause: Option<Pause>,
    /// Notified when the pause ends at another time than it did before.
    pause_changed: Arc<Notify>,
    last: Option<Failure>,
    /// The answers that wait for a crash to be recorded.
    answers: Vec<DeferredAnswer>,
}

/// A backoff or a quarantine that runs, with all that its end follows from beside the policy, so that
/// a change of the policy holds for it.
#[derive(Clone, Copy)]
struct Pause {
    since_ms: u64,
    kind: PauseKind,
}

#[derive(Clone, Copy)]
enum PauseKind {
    /// After the nth crash in the window, with its place within the jitter (0 to 1).
    Backoff { nth: u32, chance: f64 },
    /// After one crash too many within the window.
    Quarantine,
}

impl Pause {
    /// What follows the nth crash within the window.
    fn after_crash(policy: &Policy, nth: u32, now_ms: u64) -> Self {
        let kind = if nth >= policy.crashes_max {
            PauseKind::Quarantine
        } else {
            let chance = random_unit();
            PauseKind::Backoff { nth, chance }
        };
        Self {
            since_ms: now_ms,
            kind,
        }
    }

    fn decision(self) -> SupervisionDecision {
        match self.kind {
            PauseKind::Backoff { .. } => SupervisionDecision::Restart,
            PauseKind::Quarantine => SupervisionDecision::Quarantine,
        }
    }

    /// The circuit for as long as the policy says.
    fn circuit(self, policy: &Policy) -> CircuitState {
        let until_ms = |span: Duration| self.since_ms.saturating_add(millis(span));
        match self.kind {
            PauseKind::Quarantine => CircuitState::Quarantined {
                until_ms: until_ms(policy.quarantine),
            },
            PauseKind::Backoff { nth, chance } => match policy.backoff(nth, chance) {
                delay if millis(delay) == 0 => CircuitState::Closed,
                delay => CircuitState::BackingOff {
                    until_ms: until_ms(delay),
                },
            },
        }
    }
}

/// The answer to a command that crashed, with the permit that it returns.
type DeferredAnswer = Box<dyn FnOnce() + Send>;

/// Whether an entity takes commands. Times are milliseconds of the runtime's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitState {
    /// The entity takes commands.
    Closed,
    /// It crashed and refuses commands until its restart.
    BackingOff { until_ms: u64 },
    /// It crashed too often; the first command after this time starts one trial.
    Quarantined { until_ms: u64 },
}

impl CircuitState {
    /// What it is at this time for whoever asks: a pause whose time is up refuses nobody.
    fn at(self, now_ms: u64) -> Self {
        match self {
            Self::BackingOff { until_ms } | Self::Quarantined { until_ms }
                if until_ms <= now_ms =>
            {
                Self::Closed
            }
            Self::Closed | Self::BackingOff { .. } | Self::Quarantined { .. } => self,
        }
    }

    fn pack(self) -> u64 {
        match self {
            Self::Closed => 0,
            Self::BackingOff { until_ms } => until_ms << 1,
            Self::Quarantined { until_ms } => until_ms << 1 | 1,
        }
    }

    fn unpack(packed: u64) -> Self {
        match (packed, packed & 1) {
            (0, _) => Self::Closed,
            (_, 0) => Self::BackingOff {
                until_ms: packed >> 1,
            },
            (_, _) => Self::Quarantined {
                until_ms: packed >> 1,
            },
        }
    }
}

/// Why a mailbox permit was not given.
pub(super) enum AcquireError {
    /// Nothing can be done now; asking again makes sense after this time.
    Refused(Cause, Duration),
    /// The quarantine is over: the caller is to start the actor for a trial.
    TrialDue,
}

/// What a supervisor does with an actor that crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisionDecision {
    Restart,
    Quarantine,
}

impl<E: Entity> EntityHandle<E> {
    /// The handle of an entity that is not loaded yet.
    pub(super) fn new(id: E::Id, registry: Arc<Registry<E>>) -> Self {
        Self {
            id,
            registry,
            permits_taken: AtomicU32::new(0),
            pending_commits: AtomicU32::new(0),
            last_used_ms: AtomicU64::new(0),
            circuit: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            loading: AtomicBool::new(true),
            removable: AtomicBool::new(true),
            leaving: AtomicBool::new(false),
            drill: AtomicBool::new(false),
            restarting: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            supervised: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
            history: Mutex::new(None),
        }
    }

    /// Takes a mailbox permit. To be called under the partition's lock only.
    ///
    /// # Errors
    /// The entity backs off, is quarantined or has no permit left; or its trial is due.
    pub(super) fn try_acquire(
        self: &Arc<Self>,
        policy: &Policy,
        now_ms: u64,
    ) -> Result<MailboxPermit<E>, AcquireError> {
        let refused = |cause, until_ms: u64| {
            AcquireError::Refused(cause, Duration::from_millis(until_ms - now_ms))
        };
        match self.circuit() {
            CircuitState::Closed => {}
            CircuitState::BackingOff { until_ms } if until_ms <= now_ms => {}
            CircuitState::BackingOff { until_ms } => {
                return Err(refused(Cause::BackingOff, until_ms));
            }
            CircuitState::Quarantined { until_ms } if until_ms <= now_ms => {
                return Err(AcquireError::TrialDue);
            }
            CircuitState::Quarantined { until_ms } => {
                return Err(refused(Cause::Quarantined, until_ms));
            }
        }
        let mut taken = self.permits_taken.load(Ordering::Relaxed);
        while taken < policy.mailbox_max {
            match self.permits_taken.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.last_used_ms.store(now_ms, Ordering::Relaxed);
                    return Ok(MailboxPermit {
                        handle: Arc::clone(self),
                    });
                }
                Err(now) => taken = now,
            }
        }
        let queue = self.registry.metrics.handling.mean().saturating_mul(taken);
        Err(AcquireError::Refused(Cause::MailboxFull, queue.max(SOON)))
    }

    /// How many mailbox permits are taken.
    pub(super) fn permits_taken(&self) -> u32 {
        self.permits_taken.load(Ordering::SeqCst)
    }

    /// When the last permit was taken, in milliseconds of the runtime's clock.
    pub(super) fn last_used_ms(&self) -> u64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    /// Whether the entity takes commands, as it was noted last.
    pub(super) fn circuit(&self) -> CircuitState {
        CircuitState::unpack(self.circuit.load(Ordering::Acquire))
    }

    /// Whether the entity takes commands at this time, at which the end of a backoff or of a
    /// quarantine need not have been noted yet.
    pub(super) fn circuit_at(&self, now_ms: u64) -> CircuitState {
        self.circuit().at(now_ms)
    }

    /// Whether the next command would be taken now.
    pub(super) fn takes_commands(&self) -> bool {
        self.circuit_at(self.registry.now_ms()) == CircuitState::Closed
    }

    /// Closes the circuit after a backoff, or before its time; a quarantine stays. False when it did
    /// not back off.
    pub(super) fn end_backoff(&self) -> bool {
        let mut history = self.history.lock();
        let CircuitState::BackingOff { .. } = self.circuit() else {
            return false;
        };
        self.close_circuit(history.get_or_insert_default());
        true
    }

    /// Waits until the backoff is over, by its time or because it was ended.
    pub(super) async fn backed_off(&self) {
        let changed = {
            let mut history = self.history.lock();
            Arc::clone(&history.get_or_insert_default().pause_changed)
        };
        while let CircuitState::BackingOff { until_ms } = self.circuit() {
            if until_ms <= self.registry.now_ms() {
                self.end_backoff();
                return;
            }
            let until = self.registry.instant(until_ms);
            // Whether its time is up or it was told does not matter.
            drop(timeout_at(until, changed.notified()).await);
        }
    }

    /// Lets the backoff or the quarantine that runs last as long as this policy says, from its
    /// beginning. One whose time is up has ended: what follows is its trial.
    pub(super) fn reschedule_pause(&self, policy: &Policy) {
        let history = self.history.lock();
        let Some(history) = history.as_ref() else {
            return;
        };
        let Some(pause) = history.pause else { return };
        if self.circuit_at(self.registry.now_ms()) == CircuitState::Closed {
            return;
        }
        self.circuit
            .store(pause.circuit(policy).pack(), Ordering::Release);
        history.pause_changed.notify_one();
    }

    fn close_circuit(&self, history: &mut CrashHistory) {
        history.pause = None;
        self.circuit
            .store(CircuitState::Closed.pack(), Ordering::Release);
        history.pause_changed.notify_one();
        // Now it can leave, if an operator waits for that.
        self.registry.left.notify_waiters();
    }

    /// Why a request that had not started was dropped with its mailbox, and when to ask again.
    pub(super) fn drop_cause(&self) -> (Cause, Duration) {
        match self.circuit() {
            CircuitState::Quarantined { until_ms } => (
                Cause::Quarantined,
                Duration::from_millis(until_ms.saturating_sub(self.registry.now_ms())),
            ),
            CircuitState::Closed | CircuitState::BackingOff { .. } => (Cause::BackingOff, SOON),
        }
    }

    /// Notes whether a supervisor is there that records a crash.
    pub(super) fn set_supervised(&self, supervised: bool) {
        self.supervised.store(supervised, Ordering::Release);
    }

    /// Delivers an answer once the crash that its command is in has been recorded; at once where
    /// nobody is left who would record it.
    pub(super) fn when_crash_is_recorded(&self, answer: DeferredAnswer) {
        if self.supervised.load(Ordering::Acquire) {
            let mut history = self.history.lock();
            history.get_or_insert_default().answers.push(answer);
        } else {
            answer();
        }
    }

    /// Delivers the answers that waited for the crash to be recorded.
    pub(super) fn answer_crashed(&self) {
        let mut history = self.history.lock();
        let answers = history
            .as_mut()
            .map(|history| std::mem::take(&mut history.answers));
        // A permit that is returned may ask for the history.
        drop(history);
        for answer in answers.unwrap_or_default() {
            answer();
        }
    }

    /// Records a crash, sets the circuit, and decides what follows.
    pub(super) fn crashed(&self, text: String) -> SupervisionDecision {
        let now_ms = self.registry.now_ms();
        let failure = self.failure(Restart::Crash, text);
        let mut history = self.history.lock();
        let history = history.get_or_insert_default();
        // Under the lock: a change of the policy finds the pause, or the pause follows from it.
        let policy = self.registry.policy.load();
        let crashes = history.add(failure.clone(), &policy, now_ms);
        let pause = Pause::after_crash(&policy, crashes, now_ms);
        let decision = pause.decision();
        history.pause = Some(pause);
        tracing::error!(kind = E::KIND, id = %self.id, crashes, ?decision, panic = %failure.text, "an entity crashed");
        self.registry.metrics.failed(failure);
        match decision {
            SupervisionDecision::Restart => self.count_restart(Restart::Crash),
            SupervisionDecision::Quarantine => {
                self.record_drop();
                self.stopped.store(true, Ordering::Release);
                count(&self.registry.metrics.quarantines);
            }
        }
        self.circuit
            .store(pause.circuit(&policy).pack(), Ordering::Release);
        decision
    }

    /// Counts a restart for which no command was to blame, and remembers why it came.
    pub(super) fn restarted(&self, cause: Restart, text: &str) {
        let failure = self.failure(cause, text.to_owned());
        self.registry.metrics.failed(failure.clone());
        self.history.lock().get_or_insert_default().last = Some(failure);
        self.count_restart(cause);
    }

    fn failure(&self, cause: Restart, text: String) -> Failure {
        Failure {
            id: self.id.to_string(),
            at: Timestamp::now(),
            cause,
            text,
        }
    }

    fn count_restart(&self, cause: Restart) {
        count(&self.restarts);
        self.registry.metrics.restarted(cause);
    }

    /// Notes that an operator wants a restart, and counts it; a backoff ends, and the restart that
    /// was counted with its crash is this one. False when one is on its way already, so that any
    /// number of requests leave one message in the mailbox.
    pub(super) fn request_restart(&self) -> bool {
        let ends_backoff = self.end_backoff();
        let is_first = !self.restarting.swap(true, Ordering::AcqRel);
        if is_first && !ends_backoff {
            self.count_restart(Restart::Operator);
        }
        is_first
    }

    /// Notes that the restart that an operator asked for is done.
    pub(super) fn restart_done(&self) {
        self.restarting.store(false, Ordering::Release);
    }

    /// Notes that a new actor runs, with an empty mailbox.
    pub(super) fn actor_started(&self) {
        self.restarting.store(false, Ordering::Release);
        self.stopped.store(false, Ordering::Release);
    }

    /// Whether a quarantine has stopped its actor, so that there is none until the next command.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Lets the next command crash it.
    pub(super) fn begin_drill(&self) {
        self.drill.store(true, Ordering::Release);
    }

    /// Takes back a drill that has not come to its command.
    pub(super) fn end_drill(&self) {
        self.drill.store(false, Ordering::Release);
    }

    /// Whether this command is to crash it; true once for each drill.
    pub(super) fn takes_drill(&self) -> bool {
        self.drill.load(Ordering::Relaxed) && self.drill.swap(false, Ordering::AcqRel)
    }

    /// Lets it be passivated when its last permit is returned.
    pub(super) fn begin_leaving(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// Keeps it in memory although an operator wanted it passivated.
    pub(super) fn end_leaving(&self) {
        self.leaving.store(false, Ordering::SeqCst);
    }

    /// Whether an operator wants it passivated when its last permit is returned.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Closes the circuit after a quarantine; one more crash within the window quarantines again.
    pub(super) fn begin_trial_if_quarantined(&self, now_ms: u64) {
        let mut history = self.history.lock();
        let CircuitState::Quarantined { .. } = self.circuit() else {
            return;
        };
        let history = history.get_or_insert_default();
        history.crashes_ms.clear();
        history.trial_since_ms = Some(now_ms);
        self.close_circuit(history);
    }

    /// What is to be remembered of it when it leaves memory, if there is anything.
    pub(super) fn history_to_keep(&self, window: Duration, now_ms: u64) -> Option<KeptHistory> {
        let counts = |at_ms: &u64| now_ms.saturating_sub(*at_ms) < millis(window);
        let history = self.history.lock();
        let history = history.as_ref();
        let crashes = history.map_or(&[][..], |history| &history.crashes_ms);
        let kept = KeptHistory {
            crashes_ms: crashes.iter().copied().filter(counts).collect(),
            trial_since_ms: history
                .and_then(|history| history.trial_since_ms)
                .filter(counts),
            trial_due_ms: match self.circuit() {
                CircuitState::Quarantined { until_ms } => Some(until_ms),
                // Only who takes commands leaves: a backoff is over.
                CircuitState::Closed | CircuitState::BackingOff { .. } => None,
            },
            has_drill: self.drill.load(Ordering::Acquire),
        };
        let is_empty = kept.crashes_ms.is_empty()
            && kept.trial_since_ms.is_none()
            && kept.trial_due_ms.is_none()
            && !kept.has_drill;
        (!is_empty).then_some(kept)
    }

    /// Gives it back what was remembered of it; to be called before anybody else has the handle.
    pub(super) fn restore(&self, kept: KeptHistory) {
        let mut history = self.history.lock();
        let history = history.get_or_insert_default();
        history.crashes_ms = kept.crashes_ms;
        history.trial_since_ms = kept.trial_since_ms;
        if let Some(until_ms) = kept.trial_due_ms {
            let ended = CircuitState::Quarantined { until_ms };
            self.circuit.store(ended.pack(), Ordering::Release);
        }
        self.drill.store(kept.has_drill, Ordering::Release);
    }

    /// Ends a quarantine or a backoff and forgets the crashes; false when there was neither.
    pub(super) fn release(&self) -> bool {
        let mut history = self.history.lock();
        if self.circuit() == CircuitState::Closed {
            return false;
        }
        let history = history.get_or_insert_default();
        history.crashes_ms.clear();
        history.trial_since_ms = None;
        self.close_circuit(history);
        true
    }

    /// Whether its crashes or its trial still count, so that it stays in memory.
    pub(super) fn has_recent_crashes(&self, window: Duration, now_ms: u64) -> bool {
        let is_open = self.circuit_at(now_ms) != CircuitState::Closed;
        let recent = |at_ms: &u64| now_ms.saturating_sub(*at_ms) < millis(window);
        is_open
            || self.history.lock().as_ref().is_some_and(|history| {
                let mut counting = history.crashes_ms.iter().chain(&history.trial_since_ms);
                counting.any(recent)
            })
    }

    /// How often it was restarted, for whatever cause, since it came into the directory.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Its last failure since it came into the directory.
    pub(super) fn last_failure(&self) -> Option<Failure> {
        self.history.lock().as_ref()?.last.clone()
    }

    /// Notes that the state in memory has been dropped.
    pub(super) fn record_drop(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.loading.store(false, Ordering::Release);
    }

    /// Notes that a load has begun; [`Self::record_load`] or [`Self::load_failed`] ends it.
    pub(super) fn load_begun(&self) {
        self.loading.store(true, Ordering::Release);
    }

    /// Notes that a load has ended without a copy of the entity.
    pub(super) fn load_failed(&self) {
        self.loading.store(false, Ordering::Release);
    }

    /// Whether its first load is still to come, or one is under way.
    pub(super) fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Acquire)
    }

    /// Notes that a copy of the entity has been loaded.
    pub(super) fn record_load(&self, incarnation: Incarnation, entity: &E) {
        self.incarnation.store(incarnation.0, Ordering::Release);
        self.committed.store(entity.revision().0, Ordering::Relaxed);
        self.record_state(entity);
        self.loading.store(false, Ordering::Release);
    }

    /// Whether the entity has been loaded since it came into the directory.
    pub(super) fn was_loaded(&self) -> bool {
        self.incarnation.load(Ordering::Acquire) != 0
    }

    /// Notes the revision, the size and the vacancy of a changed state.
    pub(super) fn record_state(&self, entity: &E) {
        self.revision.store(entity.revision().0, Ordering::Relaxed);
        self.bytes.store(entity.bytes(), Ordering::Relaxed);
        self.removable.store(entity.is_vacant(), Ordering::Release);
    }

    /// Lets the entity be removed when its last permit is returned.
    pub(super) fn mark_removable(&self) {
        self.removable.store(true, Ordering::Release);
    }

    /// Keeps the entity when its last permit is returned.
    pub(super) fn mark_needed(&self) {
        self.removable.store(false, Ordering::Release);
    }

    /// Whether the entity is removed when its last permit is returned.
    pub(super) fn is_removable(&self) -> bool {
        self.removable.load(Ordering::Acquire)
    }

    /// How much memory the state says it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The revision of the state in memory.
    pub(super) fn revision(&self) -> Sequence {
        Sequence(self.revision.load(Ordering::Relaxed))
    }

    /// The latest revision that is durable.
    pub(super) fn committed(&self) -> Sequence {
        Sequence(self.committed.load(Ordering::Relaxed))
    }

    /// How many commands have been judged since the entity came into the directory.
    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Counts one command; to be called by the actor only.
    pub(super) fn count_handled(&self) {
        self.handled
            .store(self.handled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a commit that is submitted.
    pub(super) fn commit_begun(&self) {
        self.pending_commits.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a commit that is settled.
    pub(super) fn commit_completed(&self) {
        self.pending_commits.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no commit is pending and none of this incarnation has failed.
    pub(super) fn is_settled(&self, incarnation: Incarnation) -> bool {
        // In this order: a commit that fails is marked before it counts as completed.
        self.pending_commits.load(Ordering::Acquire) == 0 && !self.has_failed(incarnation)
    }

    /// Notes that everything up to this revision is durable.
    pub(super) fn mark_committed(&self, revision: Sequence) {
        self.committed.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// Whether a commit of this incarnation has failed.
    pub(super) fn has_failed(&self, incarnation: Incarnation) -> bool {
        self.failed.load(Ordering::Acquire) >= incarnation.0
    }

    /// Notes that a commit of this incarnation has failed, so that its copy of the entity is not
    /// used any more. True the first time.
    pub(super) fn mark_failed(&self, incarnation: Incarnation) -> bool {
        self.failed.fetch_max(incarnation.0, Ordering::AcqRel) < incarnation.0
    }
}

/// The right to hold one command of an entity, queued or under way. It is held by the request and
/// returned when dropped, which must not happen under a partition's lock.
pub(super) struct MailboxPermit<E: Entity> {
    handle: Arc<EntityHandle<E>>,
}

impl<E: Entity> MailboxPermit<E> {
    /// The entity that it is a permit of.
    pub(super) fn handle(&self) -> &Arc<EntityHandle<E>> {
        &self.handle
    }
}

impl<E: Entity> Drop for MailboxPermit<E> {
    fn drop(&mut self) {
        if self.handle.permits_taken.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.handle.registry.last_permit_returned(&self.handle);
        }
    }
}

impl CrashHistory {
    /// Adds a crash and forgets those that are older than the window; as how many crashes those
    /// that are left count: in a trial it is one too many.
    fn add(&mut self, failure: Failure, policy: &Policy, now_ms: u64) -> u32 {
        let counts = |at_ms: &u64| now_ms.saturating_sub(*at_ms) < millis(policy.window);
        self.crashes_ms.retain(counts);
        self.trial_since_ms = self.trial_since_ms.filter(counts);
        self.crashes_ms.push(now_ms);
        self.last = Some(failure);
        let crashes = u32::try_from(self.crashes_ms.len()).unwrap_or(u32::MAX);
        match self.trial_since_ms {
            Some(_) => crashes.max(policy.crashes_max),
            None => crashes,
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX >> 2)
}

/// Draws a random number in 0..1, for the jitter of a backoff.
fn random_unit() -> f64 {
    let drawn = RandomState::new().build_hasher().finish();
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}
