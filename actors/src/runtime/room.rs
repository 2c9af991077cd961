//! What all entities of one kind share: the map from id to slot and address, the journal, the
//! policy, the counters.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::Addr;
use actix::dev::SendError;
use actix::dev::channel::channel;
use arc_swap::ArcSwap;
use parking_lot::{RwLock, RwLockWriteGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ask::{AskError, Cause, SOON, Waiting, Work, question, unavailable};
use super::entity::Entity;
use super::entity_actor::{Control, EntityActor};
use super::guarded::Guarded;
use super::journal::Journal;
use super::loads::Loads;
use super::metrics::{Metrics, Passivation, Restart, count};
use super::placement::Placement;
use super::policy::Policy;
use super::slot::{Admission, Gate, Slot};
use super::sweeper;

const SHARDS: usize = 64;

/// The entities of a shard. The same hasher finds the shard and the place in its map.
pub(super) type Shard<E> = HashMap<<E as Entity>::Id, Active<E>, RandomState>;

/// An entity in the directory: where to send, and what is known. The only lasting address of its
/// actor.
pub(super) struct Active<E: Entity> {
    addr: Addr<EntityActor<E>>,
    pub(super) slot: Arc<Slot<E>>,
}

/// Everything that the entities of one kind share.
pub(super) struct Room<E: Entity> {
    pub(super) journal: Arc<dyn Journal<E>>,
    pub(super) placement: Placement,
    pub(super) policy: ArcSwap<Policy>,
    pub(super) loads: Loads,
    pub(super) metrics: Metrics,
    shards: Box<[RwLock<Shard<E>>]>,
    hasher: RandomState,
    base: Instant,
    live: AtomicUsize,
    draining: AtomicBool,
    /// Told when the last place of an entity is given back while draining.
    pub(super) quiet: Notify,
    /// Wakes the sweeper before its time.
    pub(super) nudge: Arc<Notify>,
    /// When the sweeper last ran, and which one it is.
    pub(super) swept_ms: AtomicU64,
    pub(super) sweeper: AtomicU64,
}

/// One knock at the directory's door.
#[derive(Clone, Copy)]
struct Knock<'a> {
    policy: &'a Policy,
    now: Instant,
    now_ms: u64,
}

/// How it was met.
enum Met<E: Entity> {
    Queued(Waiting<E>),
    /// With the command, so that it is dropped outside the lock.
    Refused(Cause, Duration, E::Command),
    /// No actor runs and none is to blame: start one.
    Absent(E::Command),
    /// The actor's thread has ended; the work holds its place.
    Closed(Work<E>, Waiting<E>),
}

impl<E: Entity> Active<E> {
    fn meet(&self, command: E::Command, knock: Knock<'_>) -> Met<E> {
        match self.slot.admit(knock.policy, knock.now_ms) {
            Admission::Refused(cause, retry_after) => Met::Refused(cause, retry_after, command),
            Admission::Trial => Met::Absent(command),
            Admission::Taken(place) => {
                // One in sixteen, by the clock's last digits.
                let sampled = self.slot.room.age(knock.now).subsec_nanos() & 15 == 0;
                let (work, waiting) = question(command, place, sampled.then_some(knock.now));
                self.send(work, waiting)
            }
        }
    }

    /// Enqueues. The mailbox has no bound of its own, so it is never full.
    fn send(&self, work: Work<E>, waiting: Waiting<E>) -> Met<E> {
        match self.addr.try_send(work) {
            Ok(()) => Met::Queued(waiting),
            Err(SendError::Full(work) | SendError::Closed(work)) => Met::Closed(work, waiting),
        }
    }
}

impl<E: Entity> Room<E> {
    pub(super) fn new(journal: Arc<dyn Journal<E>>, placement: Placement, policy: Policy) -> Self {
        let hasher = RandomState::new();
        Self {
            journal,
            placement,
            loads: Loads::new(policy.loads_max),
            policy: ArcSwap::from_pointee(policy),
            metrics: Metrics::new(),
            shards: (0..SHARDS)
                .map(|_| RwLock::new(HashMap::with_hasher(hasher.clone())))
                .collect(),
            hasher,
            base: Instant::now(),
            live: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            quiet: Notify::new(),
            nudge: Arc::new(Notify::new()),
            swept_ms: AtomicU64::new(0),
            sweeper: AtomicU64::new(0),
        }
    }

    /// Takes a place and enqueues, all under the shard's lock; starts the entity when no actor
    /// runs.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        id: E::Id,
        command: E::Command,
    ) -> Result<(Waiting<E>, Instant), AskError<E::Refusal>> {
        let policy = self.policy.load();
        let now = Instant::now();
        let knock = Knock {
            policy: &policy,
            now,
            now_ms: self.ms(now),
        };
        let hash = self.hasher.hash_one(id);
        let shard = self.shard(hash);
        let mut met = {
            let active = shard.read();
            match active.get(&id) {
                _ if self.is_draining() => Met::Refused(Cause::Draining, SOON, command),
                Some(active) => active.meet(command, knock),
                None => Met::Absent(command),
            }
        };
        if let Met::Absent(_) | Met::Closed(..) = met {
            met = self.start(shard.write(), (id, hash), met, knock);
            self.tend(knock);
        }
        match met {
            Met::Queued(waiting) => Ok((waiting, now + policy.ask_timeout)),
            Met::Refused(cause, retry_after, _) => {
                self.metrics.refused(cause);
                Err(unavailable(cause, retry_after))
            }
            Met::Absent(_) => {
                self.metrics.refused(Cause::Draining);
                Err(unavailable(Cause::Draining, SOON))
            }
            // The thread ended, or the entity was quarantined, in this very moment. The work is
            // dropped here, outside the lock, and answers for itself.
            Met::Closed(work, waiting) => {
                drop(work);
                Ok((waiting, now + policy.ask_timeout))
            }
        }
    }

    /// Starts an actor for what found none, unless somebody else was faster.
    fn start(
        self: &Arc<Self>,
        mut shard: RwLockWriteGuard<'_, Shard<E>>,
        (id, hash): (E::Id, u64),
        met: Met<E>,
        knock: Knock<'_>,
    ) -> Met<E> {
        let met = match (met, shard.get(&id)) {
            (Met::Absent(command), _) if self.is_draining() => {
                Met::Refused(Cause::Draining, SOON, command)
            }
            (Met::Absent(command), Some(active)) => active.meet(command, knock),
            (Met::Closed(work, waiting), Some(active)) => active.send(work, waiting),
            (met, _) => met,
        };
        match met {
            Met::Queued(_) | Met::Refused(..) => met,
            Met::Absent(command) => {
                let known = shard.get(&id).map(|active| Arc::clone(&active.slot));
                let is_new = known.is_none();
                let slot = known.unwrap_or_else(|| Arc::new(Slot::new(id, Arc::clone(self))));
                let Some(addr) = self.spawn(hash, &slot) else {
                    return Met::Absent(command);
                };
                slot.begin_trial_if_quarantined(knock.policy, knock.now_ms);
                let active = Active { addr, slot };
                let met = active.meet(command, knock);
                if let (true, Met::Refused(..)) = (is_new, &met) {
                    return met;
                }
                self.live.fetch_add(usize::from(is_new), Ordering::Relaxed);
                shard.insert(id, active);
                met
            }
            Met::Closed(work, waiting) => {
                // Quarantined since it got its place: it is not started again for that.
                let is_startable = |active: &&mut Active<E>| {
                    !matches!(active.slot.gate(), Gate::Quarantined { .. })
                };
                let Some(active) = shard.get_mut(&id).filter(is_startable) else {
                    return Met::Closed(work, waiting);
                };
                let Some(addr) = self.spawn(hash, &active.slot) else {
                    return Met::Closed(work, waiting);
                };
                self.metrics.restarted(Restart::Thread);
                active.addr = addr;
                active.send(work, waiting)
            }
        }
    }

    /// Starts an actor on the arbiter that the hash names.
    fn spawn(&self, hash: u64, slot: &Arc<Slot<E>>) -> Option<Addr<EntityActor<E>>> {
        let mut addr = None;
        let started = self.placement.spawn(hash, || {
            let (sender, mailbox) = channel(0);
            addr = Some(Addr::new(sender));
            let slot = Arc::clone(slot);
            // Made on its own thread: an actor's future cannot be sent.
            async move { drop(actix::spawn(Guarded::new(slot, mailbox))) }
        });
        addr.filter(|_| started)
            .inspect(|_| count(&self.metrics.activations))
    }

    /// Sees to it that a sweeper runs, and that it comes early when far too many entities are
    /// active.
    fn tend(self: &Arc<Self>, knock: Knock<'_>) {
        let missed_ms = knock.policy.sweep.as_millis() as u64 * 3 + 1;
        let swept_ms = self.swept_ms.load(Ordering::Relaxed);
        if swept_ms == 0 || swept_ms + missed_ms < knock.now_ms {
            let claimed = self
                .swept_ms
                .compare_exchange(swept_ms, knock.now_ms, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
            if claimed {
                sweeper::spawn(self);
            }
        }
        let active_max = knock.policy.active_max;
        if self.live() > active_max.saturating_add(active_max / 8) {
            self.nudge.notify_one();
        }
    }

    /// The last place of an entity was given back.
    pub(super) fn emptied(&self, slot: &Arc<Slot<E>>) {
        if slot.is_expendable() {
            self.forget_expendable(slot);
        }
        if self.is_draining() {
            self.quiet.notify_one();
        }
    }

    /// Takes an entity out that holds nothing, if nobody asks it any more.
    pub(super) fn forget_expendable(&self, slot: &Arc<Slot<E>>) {
        if !slot.is_expendable() || slot.places() > 0 {
            return;
        }
        let (now_ms, window) = (self.now_ms(), self.policy.load().window);
        let is_same = |active: &Active<E>| Arc::ptr_eq(&active.slot, slot);
        let gone = {
            let mut shard = self.shard(self.hasher.hash_one(slot.id)).write();
            let may_go =
                slot.places() == 0 && slot.is_expendable() && !slot.is_troubled(window, now_ms);
            if may_go && shard.get(&slot.id).is_some_and(is_same) {
                shard.remove(&slot.id)
            } else {
                None
            }
        };
        self.retired(gone.as_slice(), Passivation::Vacant);
    }

    /// Counts entities that have left the map. They are dropped by the caller, outside the lock.
    pub(super) fn retired(&self, gone: &[Active<E>], why: Passivation) {
        let handled = gone.iter().map(|active| active.slot.handled()).sum();
        self.metrics
            .handled_before
            .fetch_add(handled, Ordering::Relaxed);
        self.live.fetch_sub(gone.len(), Ordering::Relaxed);
        self.metrics.passivated(why, gone.len());
    }

    /// Tells an actor to load again.
    pub(super) fn refresh(&self, slot: &Arc<Slot<E>>) {
        self.control(slot.id, Control::Refresh);
    }

    /// Sends a word outside the places; false when no actor runs.
    pub(super) fn control(&self, id: E::Id, control: Control) -> bool {
        self.shard(self.hasher.hash_one(id))
            .read()
            .get(&id)
            .is_some_and(|active| active.addr.try_send(control).is_ok())
    }

    /// The slot of an entity in the directory.
    pub(super) fn slot(&self, id: E::Id) -> Option<Arc<Slot<E>>> {
        self.shard(self.hasher.hash_one(id))
            .read()
            .get(&id)
            .map(|active| Arc::clone(&active.slot))
    }

    /// Takes one entity out if nobody has a place.
    pub(super) fn take_out(&self, id: E::Id, why: Passivation) -> bool {
        let gone = {
            let mut shard = self.shard(self.hasher.hash_one(id)).write();
            let is_quiet = shard
                .get(&id)
                .is_some_and(|active| active.slot.places() == 0);
            if is_quiet { shard.remove(&id) } else { None }
        };
        self.retired(gone.as_slice(), why);
        gone.is_some()
    }

    pub(super) fn shards(&self) -> &[RwLock<Shard<E>>] {
        &self.shards
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the index is taken modulo the length, which is never zero"
    )]
    fn shard(&self, hash: u64) -> &RwLock<Shard<E>> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// How many entities are in the directory.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    pub(super) fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::SeqCst);
    }

    /// Milliseconds of the runtime's clock; never zero.
    pub(super) fn now_ms(&self) -> u64 {
        self.ms(Instant::now())
    }

    /// The instant of a time on the runtime's clock.
    pub(super) fn instant(&self, ms: u64) -> Instant {
        self.base + Duration::from_millis(ms.saturating_sub(1))
    }

    fn ms(&self, now: Instant) -> u64 {
        self.age(now).as_millis() as u64 + 1
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.base)
    }
}

/// The wall clock, in milliseconds since the Unix epoch.
pub(super) fn wall_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}
