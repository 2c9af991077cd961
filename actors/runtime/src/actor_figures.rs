//! The figures of one actor that is no entity: a shard, or an actor on a thread of its own. Counting
//! takes no lock, and one message in sixteen is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;

use super::ask_error::Cause;
use super::metrics::{Failure, Metrics, Restart, count, count_alone, read};
use super::overview::{Inspection, Instance, InstanceOrder, InstanceQuery, Life, Overview};

/// One message in so many is measured.
const SAMPLED: u64 = 16;

/// When a message was sent or its turn came; `None` for one that is not measured.
pub(super) type Sample = Option<Instant>;

/// How many messages were sent to an actor. It is on a cache line of its own, since all senders write
/// it, and the other counters are written by the actor alone.
#[repr(align(64))]
struct SentCount(AtomicU64);

/// The figures of one actor, written by whoever sends to it and by the actor itself.
pub(super) struct ActorFigures {
    id: String,
    /// The figures of its kind, which all actors of the kind write.
    kind: Arc<Metrics>,
    sent: SentCount,
    /// Messages that have left the mailbox, whatever became of them.
    taken: AtomicU64,
    handled: AtomicU64,
    restarts: AtomicU64,
    bytes: AtomicUsize,
    /// When its last message came, in Unix milliseconds; 0 before the first.
    last_used_ms: AtomicI64,
    /// When it is back from a crash, in Unix milliseconds; 0 while it runs.
    back_at_ms: AtomicI64,
    drill: AtomicBool,
    restarting: AtomicBool,
    last_failure: Mutex<Option<Failure>>,
}

impl ActorFigures {
    /// The figures of an actor that is about to be started, all at zero.
    pub(super) fn new(id: String, kind: Arc<Metrics>) -> Self {
        Self {
            id,
            kind,
            sent: SentCount(AtomicU64::new(0)),
            taken: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            last_used_ms: AtomicI64::new(0),
            back_at_ms: AtomicI64::new(0),
            drill: AtomicBool::new(false),
            restarting: AtomicBool::new(false),
            last_failure: Mutex::new(None),
        }
    }

    /// The id by which operators name the actor, such as `limiter_0`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Counts a message on its way to the actor.
    pub(super) fn sent(&self) -> Sample {
        let before = self.sent.0.fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(SAMPLED).then(Instant::now)
    }

    /// Notes that the turn of a message has come that was sent at this instant; to be called by the
    /// actor only.
    pub(super) fn begun(&self, sample: Sample, at: Timestamp) -> Sample {
        count_alone(&self.taken);
        self.last_used_ms.store(at.0, Ordering::Relaxed);
        let sent = sample?;
        let now = Instant::now();
        self.kind
            .waiting
            .record(now.saturating_duration_since(sent));
        Some(now)
    }

    /// Counts a message that was handled; to be called by the actor only.
    pub(super) fn handled(&self, sample: Sample, bytes: impl FnOnce() -> usize) {
        count_alone(&self.handled);
        if let Some(begun) = sample {
            self.kind.handling.record(begun.elapsed());
            self.bytes.store(bytes(), Ordering::Relaxed);
        }
    }

    /// Counts a message that came while the actor waited for its restart; to be called by the actor
    /// only.
    pub(super) fn refused(&self) {
        count_alone(&self.taken);
        self.kind.refused(Cause::BackingOff);
    }

    /// Panics where an operator asked for it, with the message whose turn has come.
    pub(super) fn crash_if_drilled(&self) {
        #[expect(clippy::panic, reason = "a drill is a real crash")]
        if self.drill.load(Ordering::Relaxed) && self.drill.swap(false, Ordering::AcqRel) {
            panic!("a drill: an operator asked for this crash");
        }
    }

    /// Lets the next message crash the actor.
    pub(super) fn begin_drill(&self) {
        self.drill.store(true, Ordering::Release);
    }

    /// Notes that an operator wants a restart, and counts it, but for one that ends a wait: that was
    /// counted with its crash. False when one is on its way already.
    pub(super) fn request_restart(&self) -> bool {
        let waits = self.back_at_ms.load(Ordering::Acquire) != 0;
        let is_first = !self.restarting.swap(true, Ordering::AcqRel);
        if is_first && !waits {
            count(&self.restarts);
            self.kind.restarted(Restart::Operator);
        }
        is_first
    }

    /// Notes that the actor runs, with a state of this size.
    pub(super) fn started(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.back_at_ms.store(0, Ordering::Release);
        self.restarting.store(false, Ordering::Release);
    }

    /// Counts a failure that costs the actor its state. It is back after this time.
    pub(super) fn failed(&self, cause: Restart, text: String, wait: Duration) {
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        if wait_ms > 0 {
            let back_at_ms = Timestamp::now().0.saturating_add(wait_ms);
            self.back_at_ms.store(back_at_ms, Ordering::Release);
        }
        self.note(cause, text);
    }

    /// Counts a restart on another thread; what was in the mailbox is lost.
    pub(super) fn moved(&self) {
        self.taken.store(read(&self.sent.0), Ordering::Relaxed);
        self.note(Restart::Thread, "its thread had ended".to_owned());
        self.started(0);
    }

    fn note(&self, cause: Restart, text: String) {
        let failure = Failure {
            id: self.id.clone(),
            at: Timestamp::now(),
            cause,
            text,
        };
        count(&self.restarts);
        self.kind.restarted(cause);
        self.kind.failed(failure.clone());
        *self.last_failure.lock() = Some(failure);
    }

    fn mailbox_used(&self) -> u32 {
        let waiting = read(&self.sent.0).saturating_sub(read(&self.taken));
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    fn life(&self) -> Life {
        let back_at_ms = self.back_at_ms.load(Ordering::Acquire);
        if back_at_ms == 0 {
            return Life::Ready;
        }
        let left_ms = back_at_ms.saturating_sub(Timestamp::now().0);
        Life::BackingOff(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)))
    }

    /// The actor, as operators see it.
    pub(super) fn instance(&self) -> Instance {
        let last_used_ms = self.last_used_ms.load(Ordering::Relaxed);
        let seen = Inspection {
            life: self.life(),
            permits_taken: self.mailbox_used(),
            revision: Sequence::ZERO,
            committed: Sequence::ZERO,
            bytes: self.bytes.load(Ordering::Relaxed),
            handled: read(&self.handled),
            last_used: (last_used_ms > 0).then_some(Timestamp(last_used_ms)),
            restarts: read(&self.restarts),
            last_failure: self.last_failure.lock().clone(),
        };
        Instance {
            id: self.id.clone(),
            seen,
        }
    }

    /// Adds the actor to the figures of its kind.
    pub(super) fn add_to(&self, overview: &mut Overview) {
        let used = self.mailbox_used();
        overview.live += 1;
        // It came into memory with the process, and never leaves it.
        overview.activations += 1;
        overview.by_state.add(self.life().state());
        overview.permits_taken += u64::from(used);
        overview.permits_taken_max = overview.permits_taken_max.max(used);
        overview.bytes += self.bytes.load(Ordering::Relaxed);
        overview.handled += read(&self.handled);
    }
}

/// Picks the actors that an operator's query asks for, in its order.
pub(super) fn wanted(mut all: Vec<Instance>, query: InstanceQuery) -> Vec<Instance> {
    let is_wanted = |one: &Instance| {
        let state = one.seen.life.state();
        query.state.is_none_or(|wanted| wanted == state)
    };
    all.retain(is_wanted);
    // Largest or latest first, those alike by id.
    all.sort_by(|one, other| one.id.cmp(&other.id));
    all.sort_by_key(|one| {
        let seen = &one.seen;
        let key = match query.order {
            InstanceOrder::Mailbox => u64::from(seen.permits_taken),
            InstanceOrder::Bytes => seen.bytes as u64,
            InstanceOrder::Restarts => seen.restarts,
            InstanceOrder::LastUsed => seen
                .last_used
                .map_or(0, |used| u64::try_from(used.0).unwrap_or(0)),
        };
        std::cmp::Reverse(key)
    });
    all.truncate(query.limit);
    all
}
