//! What the directory knows of one entity, readable from any thread: its places, its life, its
//! troubles. Never its state.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::ask::{Cause, SOON};
use super::entity::Entity;
use super::journal::Incarnation;
use super::metrics::{Failure, Restart, count};
use super::policy::Policy;
use super::room::Room;

/// One entity in the directory. It leaves the map only when none of its places is taken.
pub(super) struct Slot<E: Entity> {
    pub(super) id: E::Id,
    pub(super) room: Arc<Room<E>>,
    places: AtomicU32,
    in_flight: AtomicU32,
    last_used_ms: AtomicU64,
    gate: AtomicU64,
    incarnation: AtomicU64,
    failed: AtomicU64,
    handled: AtomicU64,
    revision: AtomicU64,
    committed: AtomicU64,
    bytes: AtomicUsize,
    expendable: AtomicBool,
    trouble: Mutex<Option<Box<Trouble>>>,
}

/// What an entity that crashed carries with it.
#[derive(Default)]
struct Trouble {
    /// When it crashed, within the window.
    crashes_ms: Vec<u64>,
    restarts: u64,
    last: Option<Failure>,
}

/// Whether the door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    BackingOff { until_ms: u64 },
    Quarantined { until_ms: u64 },
}

impl Gate {
    fn pack(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::BackingOff { until_ms } => until_ms << 1,
            Self::Quarantined { until_ms } => until_ms << 1 | 1,
        }
    }

    fn unpack(packed: u64) -> Self {
        match (packed, packed & 1) {
            (0, _) => Self::Open,
            (_, 0) => Self::BackingOff {
                until_ms: packed >> 1,
            },
            (_, _) => Self::Quarantined {
                until_ms: packed >> 1,
            },
        }
    }
}

/// What the door says.
pub(super) enum Admission<E: Entity> {
    Taken(Place<E>),
    Refused(Cause, Duration),
    /// The quarantine is over: whoever asks now starts it once more.
    Trial,
}

/// What becomes of an actor that crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Restart,
    GiveUp,
}

impl<E: Entity> Slot<E> {
    pub(super) fn new(id: E::Id, room: Arc<Room<E>>) -> Self {
        Self {
            id,
            room,
            places: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            last_used_ms: AtomicU64::new(0),
            gate: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            // Nothing is loaded yet.
            expendable: AtomicBool::new(true),
            trouble: Mutex::new(None),
        }
    }

    /// Asks at the door for a place. Called under the shard's lock only.
    pub(super) fn admit(self: &Arc<Self>, policy: &Policy, now_ms: u64) -> Admission<E> {
        match self.gate() {
            Gate::Open => {}
            Gate::BackingOff { until_ms } if until_ms <= now_ms => {}
            Gate::BackingOff { until_ms } => {
                return Admission::Refused(
                    Cause::BackingOff,
                    Duration::from_millis(until_ms - now_ms),
                );
            }
            Gate::Quarantined { until_ms } if until_ms <= now_ms => return Admission::Trial,
            Gate::Quarantined { until_ms } => {
                return Admission::Refused(
                    Cause::Quarantined,
                    Duration::from_millis(until_ms - now_ms),
                );
            }
        }
        let mut taken = self.places.load(Ordering::Relaxed);
        while taken < policy.mailbox_places {
            match self.places.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.last_used_ms.store(now_ms, Ordering::Relaxed);
                    return Admission::Taken(Place {
                        slot: Arc::clone(self),
                    });
                }
                Err(now) => taken = now,
            }
        }
        let queue = self.room.metrics.handling.mean().saturating_mul(taken);
        Admission::Refused(Cause::MailboxFull, queue.max(SOON))
    }

    pub(super) fn places(&self) -> u32 {
        self.places.load(Ordering::SeqCst)
    }

    pub(super) fn last_used_ms(&self) -> u64 {
        self.last_used_ms.load(Ordering::Relaxed)
    }

    pub(super) fn gate(&self) -> Gate {
        Gate::unpack(self.gate.load(Ordering::Acquire))
    }

    /// Ends the backing off; a quarantine stays.
    pub(super) fn backed_off(&self) {
        let packed = self.gate.load(Ordering::Acquire);
        if let Gate::BackingOff { .. } = Gate::unpack(packed) {
            // Whoever changed it in between knows better.
            let _ = self.gate.compare_exchange(
                packed,
                Gate::Open.pack(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Why a message that had not started was dropped with its mailbox.
    pub(super) fn why_dropped(&self) -> (Cause, Duration) {
        match self.gate() {
            Gate::Quarantined { until_ms } => (
                Cause::Quarantined,
                Duration::from_millis(until_ms.saturating_sub(self.room.now_ms())),
            ),
            Gate::Open | Gate::BackingOff { .. } => (Cause::BackingOff, SOON),
        }
    }

    /// Records a crash and says what follows from it.
    pub(super) fn crashed(&self, text: String) -> Verdict {
        let policy = self.room.policy.load();
        let now_ms = self.room.now_ms();
        let failure = Failure {
            id: self.id.to_string(),
            at_ms: super::room::wall_ms(),
            text,
        };
        let mut trouble = self.trouble.lock();
        let trouble = trouble.get_or_insert_default();
        trouble
            .crashes_ms
            .retain(|at_ms| now_ms.saturating_sub(*at_ms) < millis(policy.window));
        trouble.crashes_ms.push(now_ms);
        trouble.last = Some(failure.clone());
        let nth = u32::try_from(trouble.crashes_ms.len()).unwrap_or(u32::MAX);
        let (verdict, gate) = if nth >= policy.crashes_max {
            (
                Verdict::GiveUp,
                Gate::Quarantined {
                    until_ms: now_ms + millis(policy.quarantine),
                },
            )
        } else {
            trouble.restarts += 1;
            match millis(policy.backoff(nth, chance())) {
                0 => (Verdict::Restart, Gate::Open),
                delay_ms => (
                    Verdict::Restart,
                    Gate::BackingOff {
                        until_ms: now_ms + delay_ms,
                    },
                ),
            }
        };
        self.gate.store(gate.pack(), Ordering::Release);
        tracing::error!(kind = E::KIND, id = %self.id, crashes = nth, ?verdict, panic = %failure.text, "an entity crashed");
        self.room.metrics.failed(failure);
        match verdict {
            Verdict::Restart => self.room.metrics.restarted(Restart::Crash),
            Verdict::GiveUp => count(&self.room.metrics.quarantines),
        }
        verdict
    }

    /// Opens the door after a quarantine: one more crash within the window closes it again.
    pub(super) fn begin_trial_if_quarantined(&self, policy: &Policy, now_ms: u64) {
        let mut trouble = self.trouble.lock();
        let Gate::Quarantined { .. } = self.gate() else {
            return;
        };
        let before = policy.crashes_max.saturating_sub(1) as usize;
        trouble.get_or_insert_default().crashes_ms = vec![now_ms; before];
        self.gate.store(Gate::Open.pack(), Ordering::Release);
    }

    /// Ends a quarantine and forgets the crashes; false when there was none.
    pub(super) fn release(&self) -> bool {
        let mut trouble = self.trouble.lock();
        let Gate::Quarantined { .. } = self.gate() else {
            return false;
        };
        if let Some(trouble) = trouble.as_mut() {
            trouble.crashes_ms.clear();
        }
        self.gate.store(Gate::Open.pack(), Ordering::Release);
        true
    }

    /// Whether its crashes still count, so that it must not be forgotten.
    pub(super) fn is_troubled(&self, window: Duration, now_ms: u64) -> bool {
        let closed = match self.gate() {
            Gate::Open => false,
            Gate::BackingOff { until_ms } | Gate::Quarantined { until_ms } => until_ms > now_ms,
        };
        let recent = |at_ms: &u64| now_ms.saturating_sub(*at_ms) < millis(window);
        closed
            || self
                .trouble
                .lock()
                .as_ref()
                .is_some_and(|trouble| trouble.crashes_ms.iter().any(recent))
    }

    /// How often it was restarted after a crash, and its last crash.
    pub(super) fn troubles(&self) -> (u64, Option<Failure>) {
        self.trouble.lock().as_ref().map_or((0, None), |trouble| {
            (trouble.restarts, trouble.last.clone())
        })
    }

    /// A copy of the entity has been loaded.
    pub(super) fn incarnated(&self, incarnation: Incarnation, entity: &E) {
        self.incarnation.store(incarnation.0, Ordering::Release);
        self.committed.store(entity.revision(), Ordering::Relaxed);
        self.note(entity);
    }

    /// Whether it was ever loaded since it came into the directory.
    pub(super) fn was_loaded(&self) -> bool {
        self.incarnation.load(Ordering::Acquire) != 0
    }

    /// Notes what the directory must know of a changed state.
    pub(super) fn note(&self, entity: &E) {
        self.revision.store(entity.revision(), Ordering::Relaxed);
        self.bytes.store(entity.bytes(), Ordering::Relaxed);
        self.set_expendable(entity.is_vacant());
    }

    /// Whether it goes when its last place is given back.
    pub(super) fn set_expendable(&self, expendable: bool) {
        self.expendable.store(expendable, Ordering::Release);
    }

    pub(super) fn is_expendable(&self) -> bool {
        self.expendable.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// One command more was handled; called by the actor only.
    pub(super) fn count_handled(&self) {
        self.handled
            .store(self.handled.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A commit is on its way.
    pub(super) fn departed(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// A commit is settled.
    pub(super) fn landed(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no commit is on its way and none of this incarnation has failed.
    pub(super) fn is_settled(&self, incarnation: Incarnation) -> bool {
        // In this order: a commit that fails is marked before it lands.
        self.in_flight.load(Ordering::Acquire) == 0 && !self.has_failed(incarnation)
    }

    /// Everything up to this revision is durable.
    pub(super) fn committed_to(&self, revision: u64) {
        self.committed.fetch_max(revision, Ordering::Relaxed);
    }

    /// Whether a commit of this incarnation has failed.
    pub(super) fn has_failed(&self, incarnation: Incarnation) -> bool {
        self.failed.load(Ordering::Acquire) >= incarnation.0
    }

    /// A commit of this incarnation has failed: its copy of the entity is worth nothing. True the
    /// first time.
    pub(super) fn fail(&self, incarnation: Incarnation) -> bool {
        self.failed.fetch_max(incarnation.0, Ordering::AcqRel) < incarnation.0
    }
}

/// One of an entity's places, held by the work and given back when dropped. Never dropped under a
/// shard's lock.
pub(super) struct Place<E: Entity> {
    slot: Arc<Slot<E>>,
}

impl<E: Entity> Place<E> {
    pub(super) fn slot(&self) -> &Arc<Slot<E>> {
        &self.slot
    }
}

impl<E: Entity> Drop for Place<E> {
    fn drop(&mut self) {
        if self.slot.places.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.slot.room.emptied(&self.slot);
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX >> 2)
}

/// A number in 0..1, another each time.
fn chance() -> f64 {
    let drawn = RandomState::new().build_hasher().finish();
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}
