//! The state that all entities of one kind share: the map from an id to its actor's address and
//! handle, the journal, the policy, the counters. Enqueues commands and starts actors.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use actix::Addr;
use actix::dev::SendError;
use actix::dev::channel::channel;
use arc_swap::ArcSwap;
use colloquy_model::time::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::ask_error::{AskError, Cause, SOON, unavailable};
use super::command::Command;
use super::entity::Entity;
use super::entity_actor::{Activate, Control, EntityActor};
use super::entity_handle::{AcquireError, CircuitState, EntityHandle};
use super::journal::{Journal, LoadError};
use super::kept_history::KeptHistories;
use super::metrics::{Metrics, Passivation, Restart};
use super::placement::Placement;
use super::policy::Policy;
use super::request::{PendingReply, Request, request_channel};
use super::resizable_semaphore::ResizableSemaphore;
use super::supervised_actor::SupervisedActor;
use super::sweeper;
use super::traces::Trace;

/// Into how many maps the entities are divided, each with a lock of its own.
const PARTITIONS: usize = 64;

/// The last instant that RFC 3339 can write: the end of the year 9999.
const LAST_WRITABLE: Timestamp = Timestamp(253_402_300_799_999);
/// By how many milliseconds the wall clock may go apart from the runtime's before instants are told
/// by what it says now: it was set.
const CLOCK_DRIFT_MAX_MS: u64 = 1_000;

/// Everything that the entities of one kind share.
pub(super) struct Registry<E: Entity> {
    pub(super) journal: Arc<dyn Journal<E>>,
    pub(super) placement: Placement,
    pub(super) policy: ArcSwap<Policy>,
    /// Limits how many loads are under way at once.
    pub(super) loads: ResizableSemaphore,
    pub(super) metrics: Metrics,
    partitions: Box<[RwLock<Partition<E>>]>,
    hasher: RandomState,
    /// Zero of the runtime's clock.
    base: Instant,
    /// The same by the wall clock, in Unix milliseconds; 0 before anybody asked.
    base_unix_ms: AtomicI64,
    /// What those that have left memory find again. Locked under a partition's lock only.
    kept: Mutex<KeptHistories<E::Id>>,
    /// How many entities the partitions hold.
    live: AtomicUsize,
    draining: AtomicBool,
    /// Notified when the last permit of an entity is returned while draining.
    pub(super) drained: Notify,
    /// Notified when an entity that an operator wanted passivated has left.
    pub(super) left: Notify,
    /// Wakes the sweeper before its time.
    pub(super) sweep_wakeup: Arc<Notify>,
    /// When the sweeper last ran, in milliseconds of the runtime's clock; 0 before the first run.
    pub(super) swept_ms: AtomicU64,
    /// The number of the sweeper that may run; one with a lower number ends.
    pub(super) sweeper: AtomicU64,
}

/// The entities by id. The map's hasher also chooses the partition.
pub(super) type EntityMap<E> = HashMap<<E as Entity>::Id, ActiveEntity<E>, RandomState>;

/// A part of the entities, with who has come and gone there. Both change under one lock, so that
/// whoever looks sees figures that agree.
pub(super) struct Partition<E: Entity> {
    pub(super) entities: EntityMap<E>,
    pub(super) turnover: Turnover,
}

/// How many entities have come into a partition and left it.
#[derive(Default)]
pub(super) struct Turnover {
    pub(super) activations: u64,
    /// By reason, in the order of [`Passivation::ALL`].
    passivations: [u64; Passivation::ALL.len()],
    /// Commands judged by entities that have left.
    pub(super) handled: u64,
}

impl Turnover {
    /// How many have left for each reason.
    pub(super) fn passivations(&self) -> impl Iterator<Item = (Passivation, u64)> {
        Passivation::ALL.into_iter().zip(self.passivations)
    }

    fn count_left<E: Entity>(&mut self, active: &ActiveEntity<E>, why: Passivation) {
        self.handled += active.handle.handled();
        if let Some(counter) = self.passivations.get_mut(why as usize) {
            *counter += 1;
        }
    }
}

/// An entity in the directory: the address of its actor and its handle.
///
/// The address is the only one that lasts: dropping it lets the actor finish its queue and stop.
pub(super) struct ActiveEntity<E: Entity> {
    addr: Addr<EntityActor<E>>,
    pub(super) handle: Arc<EntityHandle<E>>,
}

/// What enqueueing one command needs to know, read once.
#[derive(Clone, Copy)]
struct EnqueueContext<'a> {
    policy: &'a Policy,
    now: Instant,
    now_ms: u64,
    /// The hash of the entity's id.
    hash: u64,
    /// Where its spans are recorded, where it is traced.
    trace: Option<Trace>,
}

/// A command that is in the mailbox, as its caller sees it.
pub(super) struct Enqueued<E: Entity, R> {
    pub(super) reply: PendingReply<E, R>,
    /// Until when the caller waits for the reply.
    pub(super) deadline: Instant,
}

/// What became of an attempt to enqueue a command.
enum Admission<E: Entity, C: Command<E>> {
    /// The command is in the mailbox.
    Queued(PendingReply<E, C::Reply>),
    /// Nothing was done. Carries the command, so that it is dropped outside the lock.
    Refused(Cause, Duration, C),
    /// No actor runs, and one may be started.
    NoActor(C),
    /// The actor's thread has ended; the request holds its permit.
    Closed(Request<E, C>, PendingReply<E, C::Reply>),
}

impl<E: Entity> ActiveEntity<E> {
    /// Takes a permit and puts the command into the actor's mailbox.
    fn try_enqueue<C: Command<E>>(
        &self,
        command: C,
        context: EnqueueContext<'_>,
    ) -> Admission<E, C> {
        match self.handle.try_acquire(context.policy, context.now_ms) {
            Err(AcquireError::Refused(cause, retry_after)) => {
                Admission::Refused(cause, retry_after, command)
            }
            Err(AcquireError::TrialDue) => Admission::NoActor(command),
            Ok(permit) => {
                // One in sixteen is sampled, by the clock's last digits.
                let sampled = self.handle.registry.age(context.now).subsec_nanos() & 15 == 0;
                let measured = (sampled.then_some(context.now), context.trace);
                let (request, reply) = request_channel(command, permit, measured);
                self.send(request, reply)
            }
        }
    }

    /// Sends a request to the actor. The mailbox has no bound of its own, so it is never full.
    fn send<C: Command<E>>(
        &self,
        request: Request<E, C>,
        reply: PendingReply<E, C::Reply>,
    ) -> Admission<E, C> {
        match self.addr.try_send(request) {
            Ok(()) => Admission::Queued(reply),
            Err(SendError::Full(request) | SendError::Closed(request)) => {
                Admission::Closed(request, reply)
            }
        }
    }
}

impl<E: Entity> Registry<E> {
    /// A registry without entities.
    pub(super) fn new(journal: Arc<dyn Journal<E>>, placement: Placement, policy: Policy) -> Self {
        let hasher = RandomState::new();
        Self {
            journal,
            placement,
            loads: ResizableSemaphore::new(policy.loads_max),
            policy: ArcSwap::from_pointee(policy),
            metrics: Metrics::new(),
            partitions: (0..PARTITIONS)
                .map(|_| {
                    RwLock::new(Partition {
                        entities: HashMap::with_hasher(hasher.clone()),
                        turnover: Turnover::default(),
                    })
                })
                .collect(),
            hasher,
            base: Instant::now(),
            base_unix_ms: AtomicI64::new(0),
            kept: Mutex::new(KeptHistories::new()),
            live: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            drained: Notify::new(),
            left: Notify::new(),
            sweep_wakeup: Arc::new(Notify::new()),
            swept_ms: AtomicU64::new(0),
            sweeper: AtomicU64::new(0),
        }
    }

    /// Takes a permit and enqueues the command, both under the partition's lock; starts the entity
    /// when no actor runs.
    ///
    /// # Errors
    /// [`AskError::Unavailable`]: nothing was done.
    pub(super) fn enqueue<C: Command<E>>(
        self: &Arc<Self>,
        id: E::Id,
        command: C,
        trace: Option<Trace>,
    ) -> Result<Enqueued<E, C::Reply>, AskError<E::Refusal>> {
        let policy = self.policy.load();
        let now = Instant::now();
        let context = EnqueueContext {
            policy: &policy,
            now,
            now_ms: self.ms(now),
            hash: self.hasher.hash_one(id),
            trace,
        };
        let mut admission = {
            let partition = self.partition(context.hash).read();
            match partition.entities.get(&id) {
                _ if self.is_draining() => Admission::Refused(Cause::Draining, SOON, command),
                Some(active) => active.try_enqueue(command, context),
                None => Admission::NoActor(command),
            }
        };
        if let Admission::NoActor(_) | Admission::Closed(..) = admission {
            admission = self.enqueue_or_start(id, admission, context);
            self.ensure_sweeper(context);
        }
        let deadline = now + policy.ask_timeout;
        match admission {
            Admission::Queued(reply) => Ok(Enqueued { reply, deadline }),
            Admission::Refused(cause, retry_after, _) => {
                self.metrics.refused(cause);
                Err(unavailable(cause, retry_after))
            }
            Admission::NoActor(_) => {
                self.metrics.refused(Cause::Draining);
                Err(unavailable(Cause::Draining, SOON))
            }
            // The thread ended, or the entity was quarantined, in this very moment. The request is
            // dropped here, outside the lock, and answers for itself.
            Admission::Closed(request, reply) => {
                drop(request);
                Ok(Enqueued { reply, deadline })
            }
        }
    }

    /// Tries again under the write lock, and starts an actor where there still is none.
    fn enqueue_or_start<C: Command<E>>(
        self: &Arc<Self>,
        id: E::Id,
        admission: Admission<E, C>,
        context: EnqueueContext<'_>,
    ) -> Admission<E, C> {
        let mut partition = self.partition(context.hash).write();
        let admission = match (admission, partition.entities.get(&id)) {
            (Admission::NoActor(command), _) if self.is_draining() => {
                Admission::Refused(Cause::Draining, SOON, command)
            }
            (Admission::NoActor(command), Some(active)) => active.try_enqueue(command, context),
            (Admission::Closed(request, reply), Some(active)) => active.send(request, reply),
            (admission, _) => admission,
        };
        match admission {
            Admission::Queued(_) | Admission::Refused(..) => admission,
            Admission::NoActor(command) => self.start(&mut partition, id, command, context),
            Admission::Closed(request, reply) => {
                // Quarantined since it got its permit: it is not started again for that.
                let active = partition.entities.get_mut(&id).filter(|active| {
                    !matches!(active.handle.circuit(), CircuitState::Quarantined { .. })
                });
                match active.and_then(|active| self.restart(active, context.hash)) {
                    Some(active) => active.send(request, reply),
                    None => Admission::Closed(request, reply),
                }
            }
        }
    }

    /// Starts an actor for an entity that has none and enqueues its command.
    fn start<C: Command<E>>(
        self: &Arc<Self>,
        partition: &mut Partition<E>,
        id: E::Id,
        command: C,
        context: EnqueueContext<'_>,
    ) -> Admission<E, C> {
        let known = partition.entities.get(&id);
        let known = known.map(|active| Arc::clone(&active.handle));
        let is_new = known.is_none();
        let handle = known.unwrap_or_else(|| Arc::new(EntityHandle::new(id, Arc::clone(self))));
        let Some(addr) = self.spawn(context.hash, &handle) else {
            return Admission::NoActor(command);
        };
        if is_new && let Some(kept) = self.kept.lock().take(id) {
            handle.restore(kept);
        }
        handle.begin_trial_if_quarantined(context.now_ms);
        let active = ActiveEntity { addr, handle };
        let admission = active.try_enqueue(command, context);
        if is_new {
            self.count_added(&mut partition.turnover);
        }
        partition.entities.insert(id, active);
        admission
    }

    /// Gives an entity an actor whose thread has ended, or that was released from a quarantine;
    /// `None` when no thread is left.
    fn restart<'a>(
        &self,
        active: &'a mut ActiveEntity<E>,
        hash: u64,
    ) -> Option<&'a ActiveEntity<E>> {
        let was_stopped = active.handle.is_stopped();
        active.addr = self.spawn(hash, &active.handle)?;
        if !was_stopped {
            active
                .handle
                .restarted(Restart::Thread, "its thread had ended");
        }
        Some(active)
    }

    /// Starts an actor on the arbiter that the hash chooses; `None` when there is no arbiter.
    fn spawn(&self, hash: u64, handle: &Arc<EntityHandle<E>>) -> Option<Addr<EntityActor<E>>> {
        let mut addr = None;
        let started = self.placement.spawn(hash, || {
            let (sender, mailbox) = channel(0);
            addr = Some(Addr::new(sender));
            let handle = Arc::clone(handle);
            // Made on its own thread: an actor's future cannot be sent.
            async move { drop(actix::spawn(SupervisedActor::new(handle, mailbox))) }
        });
        let addr = addr.filter(|_| started)?;
        handle.actor_started();
        Some(addr)
    }

    /// Starts a sweeper if none runs, and wakes it early when far too many entities are active.
    fn ensure_sweeper(self: &Arc<Self>, context: EnqueueContext<'_>) {
        let missed_ms = sweeper::pause_max(context.policy).as_millis() as u64 * 3;
        let swept_ms = self.swept_ms.load(Ordering::Relaxed);
        if swept_ms == 0 || swept_ms + missed_ms < context.now_ms {
            let claimed = self
                .swept_ms
                .compare_exchange(
                    swept_ms,
                    context.now_ms,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok();
            if claimed {
                sweeper::spawn(self);
            }
        }
        let active_max = context.policy.active_max;
        if self.live() > active_max.saturating_add(active_max / 8) {
            self.sweep_wakeup.notify_one();
        }
    }

    /// The last permit of an entity was returned: removes the entity if it may go, and tells who
    /// waits for draining.
    pub(super) fn last_permit_returned(&self, handle: &Arc<EntityHandle<E>>) {
        if handle.is_removable() {
            self.remove_if_unused(handle);
        }
        if handle.is_leaving() && !self.remove_leaving(handle) {
            // It crashed meanwhile: whoever waits for its leaving looks again.
            self.left.notify_waiters();
        }
        if self.is_draining() {
            self.drained.notify_one();
        }
    }

    /// Removes an entity that holds no state, if nobody asks it and its crashes no longer count.
    pub(super) fn remove_if_unused(&self, handle: &Arc<EntityHandle<E>>) {
        if !handle.is_removable() || handle.permits_taken() > 0 {
            return;
        }
        let (now_ms, window) = (self.now_ms(), self.policy.load().window);
        let is_same = |active: &ActiveEntity<E>| Arc::ptr_eq(&active.handle, handle);
        let gone = {
            let mut partition = self.partition(self.hasher.hash_one(handle.id)).write();
            let may_go = handle.permits_taken() == 0
                && handle.is_removable()
                && !handle.has_recent_crashes(window, now_ms);
            if may_go && partition.entities.get(&handle.id).is_some_and(is_same) {
                self.remove(&mut partition, handle.id, Passivation::Vacant)
            } else {
                None
            }
        };
        drop(gone);
    }

    /// Removes an entity that an operator wants passivated if none of its permits is taken; false
    /// otherwise. One that backs off or is in quarantine holds no state, and stays.
    pub(super) fn remove_leaving(&self, handle: &Arc<EntityHandle<E>>) -> bool {
        let is_same = |active: &ActiveEntity<E>| Arc::ptr_eq(&active.handle, handle);
        let gone = {
            let mut partition = self.partition(self.hasher.hash_one(handle.id)).write();
            let may_go =
                handle.permits_taken() == 0 && handle.is_leaving() && handle.takes_commands();
            if may_go && partition.entities.get(&handle.id).is_some_and(is_same) {
                self.remove(&mut partition, handle.id, Passivation::Operator)
            } else {
                None
            }
        };
        if gone.is_some() {
            self.left.notify_waiters();
        }
        gone.is_some()
    }

    /// Whether this is still the handle of an entity in the directory.
    pub(super) fn holds(&self, handle: &Arc<EntityHandle<E>>) -> bool {
        self.partition(self.hasher.hash_one(handle.id))
            .read()
            .entities
            .get(&handle.id)
            .is_some_and(|active| Arc::ptr_eq(&active.handle, handle))
    }

    /// Prepares the next command of an entity to crash it. One that is not in memory is loaded
    /// first: the receiver tells how that ended.
    ///
    /// # Errors
    /// No new actor is started any more.
    pub(super) fn begin_drill(
        self: &Arc<Self>,
        id: E::Id,
    ) -> Result<Option<oneshot::Receiver<Result<(), LoadError>>>, Cause> {
        let hash = self.hasher.hash_one(id);
        let mut partition = self.partition(hash).write();
        if let Some(active) = partition.entities.get(&id) {
            active.handle.begin_drill();
            return Ok(None);
        }
        if self.is_draining() {
            return Err(Cause::Draining);
        }
        let handle = Arc::new(EntityHandle::new(id, Arc::clone(self)));
        let addr = self.spawn(hash, &handle).ok_or(Cause::Draining)?;
        let (policy, now_ms) = (self.policy.load(), self.now_ms());
        let Ok(permit) = handle.try_acquire(&policy, now_ms) else {
            return Err(Cause::MailboxFull);
        };
        if let Some(kept) = self.kept.lock().take(id) {
            handle.restore(kept);
        }
        handle.begin_trial_if_quarantined(now_ms);
        handle.begin_drill();
        let (report, loaded) = oneshot::channel();
        let active = ActiveEntity { addr, handle };
        if let Err(refused) = active.addr.try_send(Activate { permit, report }) {
            // Its permit must not be returned under the lock.
            drop(partition);
            drop(refused);
            return Err(Cause::Draining);
        }
        self.count_added(&mut partition.turnover);
        partition.entities.insert(id, active);
        Ok(Some(loaded))
    }

    /// Counts an entity that is put into a partition.
    fn count_added(&self, turnover: &mut Turnover) {
        turnover.activations += 1;
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an entity from its partition. The caller drops it outside the lock.
    fn remove(
        &self,
        partition: &mut Partition<E>,
        id: E::Id,
        why: Passivation,
    ) -> Option<ActiveEntity<E>> {
        let active = partition.entities.remove(&id)?;
        self.count_removed(&mut partition.turnover, &active, why);
        Some(active)
    }

    /// Removes the entities of a partition that are idle.
    pub(super) fn remove_idle(
        &self,
        partition: &RwLock<Partition<E>>,
        is_idle: impl Fn(&ActiveEntity<E>) -> bool,
    ) -> Vec<ActiveEntity<E>> {
        let mut partition = partition.write();
        let Partition { entities, turnover } = &mut *partition;
        entities
            .extract_if(|_, active| is_idle(active))
            .map(|(_, active)| {
                self.count_removed(turnover, &active, Passivation::Idle);
                active
            })
            .collect()
    }

    /// Counts an entity that has been removed from a partition, and remembers what it finds again
    /// when it comes back.
    fn count_removed(&self, turnover: &mut Turnover, gone: &ActiveEntity<E>, why: Passivation) {
        turnover.count_left(gone, why);
        self.live.fetch_sub(1, Ordering::Relaxed);
        let window = self.policy.load().window;
        if let Some(kept) = gone.handle.history_to_keep(window, self.now_ms()) {
            self.kept.lock().put(gone.handle.id, kept);
        }
    }

    /// Tells an entity's actor to load its state again.
    pub(super) fn request_reload(&self, handle: &Arc<EntityHandle<E>>) {
        self.control(handle.id, Control::Reload);
    }

    /// Sends a control message, which takes no permit; false when no actor runs.
    pub(super) fn control(&self, id: E::Id, control: Control) -> bool {
        self.partition(self.hasher.hash_one(id))
            .read()
            .entities
            .get(&id)
            .is_some_and(|active| active.addr.try_send(control).is_ok())
    }

    /// Replaces the policy, for what lives too: a backoff or a quarantine that runs lasts as long as
    /// the new one says. Returns the one before.
    pub(super) fn set_policy(&self, policy: Policy) -> Arc<Policy> {
        self.loads.resize(policy.loads_max);
        let policy = Arc::new(policy);
        let before = self.policy.swap(Arc::clone(&policy));
        for partition in &self.partitions {
            for active in partition.read().entities.values() {
                if active.handle.circuit() != CircuitState::Closed {
                    active.handle.reschedule_pause(&policy);
                }
            }
        }
        self.sweep_wakeup.notify_one();
        before
    }

    /// Lets an entity drop its state behind what is queued and load it again; one that backs off
    /// does so at once. False when no actor runs.
    pub(super) fn restart_entity(&self, id: E::Id) -> bool {
        let partition = self.partition(self.hasher.hash_one(id)).read();
        partition.entities.get(&id).is_some_and(|active| {
            if !active.addr.connected() {
                active.handle.end_backoff();
                return false;
            }
            // One that was asked for before and is not done yet serves this request, too.
            !active.handle.request_restart() || active.addr.try_send(Control::Restart).is_ok()
        })
    }

    /// The handle of an entity; `None` when it is not in the directory.
    pub(super) fn handle(&self, id: E::Id) -> Option<Arc<EntityHandle<E>>> {
        self.partition(self.hasher.hash_one(id))
            .read()
            .entities
            .get(&id)
            .map(|active| Arc::clone(&active.handle))
    }

    /// Removes an entity that takes commands and holds none; false otherwise.
    pub(super) fn passivate(&self, id: E::Id, why: Passivation) -> bool {
        let gone = {
            let mut partition = self.partition(self.hasher.hash_one(id)).write();
            let is_quiet = partition.entities.get(&id).is_some_and(|active| {
                active.handle.permits_taken() == 0 && active.handle.takes_commands()
            });
            if is_quiet {
                self.remove(&mut partition, id, why)
            } else {
                None
            }
        };
        gone.is_some()
    }

    /// All partitions, each behind its lock.
    pub(super) fn partitions(&self) -> &[RwLock<Partition<E>>] {
        &self.partitions
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the index is taken modulo the length, which is never zero"
    )]
    fn partition(&self, hash: u64) -> &RwLock<Partition<E>> {
        &self.partitions[(hash >> 32) as usize % PARTITIONS]
    }

    /// How many entities are in the directory.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Whether new commands are refused.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Refuses new commands from now on.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Takes new commands again, after a drain that was called off.
    pub(super) fn resume(&self) {
        self.draining.store(false, Ordering::SeqCst);
    }

    /// Now, in milliseconds of the runtime's clock; never zero.
    pub(super) fn now_ms(&self) -> u64 {
        self.ms(Instant::now())
    }

    /// The instant that a time of the runtime's clock stands for.
    pub(super) fn instant(&self, ms: u64) -> Instant {
        self.base + Duration::from_millis(ms.saturating_sub(1))
    }

    /// What the wall clock said at a time of the runtime's clock, the same each time that it is
    /// asked: by when the two were compared first, or since the wall clock was set.
    pub(super) fn timestamp(&self, ms: u64) -> Timestamp {
        let known = self.base_unix_ms.load(Ordering::Relaxed);
        let measured = Timestamp::now().0.saturating_sub_unsigned(self.now_ms());
        let base = if known != 0 && measured.abs_diff(known) <= CLOCK_DRIFT_MAX_MS {
            known
        } else {
            self.base_unix_ms.store(measured, Ordering::Relaxed);
            measured
        };
        Timestamp(base.saturating_add_unsigned(ms)).min(LAST_WRITABLE)
    }

    fn ms(&self, now: Instant) -> u64 {
        self.age(now).as_millis() as u64 + 1
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.base)
    }
}
