//! The directory of all entities of one kind: asks one by its id, from any thread, and serves
//! operators. Holds no rule of any entity.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::ask_error::{AskError, Cause, SOON, unavailable};
use super::command::Command;
use super::entity::Entity;
use super::entity_handle::{CircuitState, EntityHandle};
use super::journal::{Journal, LoadError};
use super::metrics::count;
use super::overview::{Inspection, InstanceOrder, InstanceQuery, Life, Overview};
use super::placement::Placement;
use super::policy::Policy;
use super::registry::{Enqueued, Registry, Turnover};
use super::sweeper;
use super::traces::{self, OpenSpan};

/// An entity was not passivated, because it held a command all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has been busy all the time")]
pub struct StillBusy;

/// All entities of one kind.
///
/// An entity is started by the first command for it and passivated when nobody asks it. Callers
/// never see its address, its restarts or its thread. Dropped, the directory lets every actor
/// finish what is queued and stop.
pub struct Directory<E: Entity> {
    registry: Arc<Registry<E>>,
}

impl<E: Entity> Directory<E> {
    /// A directory without active entities.
    pub fn new(journal: Arc<dyn Journal<E>>, placement: Placement, policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::new(Registry::new(journal, placement, policy)),
        })
    }

    /// Asks an entity, and waits for the reply of the command's type at most the policy's
    /// `ask_timeout`.
    ///
    /// The command is enqueued at the first poll, in the order of the first polls. Dropped before
    /// the command has started, the future withdraws it; after that the command goes on.
    ///
    /// # Errors
    /// See [`AskError`]: each says whether something may have been done.
    pub async fn ask<C: Command<E>>(
        &self,
        id: E::Id,
        command: C,
    ) -> Result<C::Reply, AskError<E::Refusal>> {
        let trace = command.request_id().and_then(traces::trace_of);
        let span = trace.map(|trace| OpenSpan::begin(trace, "ask"));
        let inside = span.as_ref().map(OpenSpan::inside);
        let answer = match self.registry.enqueue(id, command, inside) {
            Ok(Enqueued { reply, deadline }) => reply.until(deadline).await,
            Err(error) => Err(error),
        };
        if let Some(span) = span {
            let failed = answer.as_ref().is_err_and(AskError::is_failure);
            let attributes = vec![
                ("actor.kind", E::KIND.to_owned()),
                ("actor.id", id.to_string()),
            ];
            span.end(failed, attributes);
        }
        if let Err(AskError::Unavailable {
            cause: Cause::TimedOut,
            ..
        }) = answer
        {
            self.registry.metrics.refused(Cause::TimedOut);
        } else if let Err(AskError::TimedOut) = answer {
            count(&self.registry.metrics.timed_out);
        }
        answer
    }

    /// The limits and times by which the entities are run now.
    pub fn policy(&self) -> Arc<Policy> {
        self.registry.policy.load_full()
    }

    /// Replaces the policy, for running entities too, and returns the one before. A backoff or a
    /// quarantine that runs lasts as long as the new one says, counted from its beginning.
    pub fn set_policy(&self, policy: Policy) -> Arc<Policy> {
        self.registry.set_policy(policy)
    }

    /// The arbiters on which the entities run.
    pub fn placement(&self) -> &Placement {
        &self.registry.placement
    }

    /// Passivates now what is idle or beyond the policy's limits.
    pub fn sweep_now(&self) {
        sweeper::sweep(&self.registry);
    }

    /// Makes an entity drop its state, behind what is queued, and load it again; a backoff ends at
    /// once. False when it is not in the directory or is in quarantine. Requests that come before
    /// it is done are one restart.
    pub fn restart(&self, id: E::Id) -> bool {
        self.registry.restart_entity(id)
    }

    /// Removes an entity from the directory as soon as it holds no command, and waits for that no
    /// longer than the policy's `ask_timeout`; true when it has left. One that backs off or is in
    /// quarantine holds no state, and stays: false, as for one that is not in the directory. A
    /// drill that is ahead of it stays ahead of it.
    ///
    /// # Errors
    /// [`StillBusy`]: it always held a command.
    pub async fn passivate(&self, id: E::Id) -> Result<bool, StillBusy> {
        let registry = &self.registry;
        let Some(handle) = registry.handle(id) else {
            return Ok(false);
        };
        if !handle.takes_commands() {
            return Ok(false);
        }
        handle.begin_leaving();
        let deadline = Instant::now() + registry.policy.load().ask_timeout;
        loop {
            // Made before the look, so that nothing is missed between the two.
            let left = registry.left.notified();
            if registry.remove_leaving(&handle) || !registry.holds(&handle) {
                return Ok(true);
            }
            if !handle.takes_commands() {
                handle.end_leaving();
                return Ok(false);
            }
            if timeout_at(deadline, left).await.is_err() {
                handle.end_leaving();
                return Err(StillBusy);
            }
        }
    }

    /// Ends an entity's quarantine or backoff and forgets its crashes; false when it was in neither.
    pub fn release(&self, id: E::Id) -> bool {
        self.registry
            .handle(id)
            .is_some_and(|handle| handle.release())
    }

    /// Lets the next command of an entity crash it. One that is not in memory is loaded for that.
    ///
    /// # Errors
    /// [`AskError::Unavailable`] or [`AskError::Unreadable`]: it could not be loaded.
    pub async fn drill(&self, id: E::Id) -> Result<(), AskError<Infallible>> {
        match self.registry.begin_drill(id) {
            Ok(None) => Ok(()),
            Ok(Some(loaded)) => match loaded.await {
                Ok(outcome) => Ok(outcome?),
                Err(_) => Err(unavailable(Cause::BackingOff, SOON)),
            },
            Err(cause) => Err(unavailable(cause, SOON)),
        }
    }

    /// Refuses new commands from now on. What is queued is still done.
    pub fn drain(&self) {
        self.registry.drain();
    }

    /// Takes new commands again, after a drain that was called off.
    pub fn resume(&self) {
        self.registry.resume();
    }

    /// Waits until no mailbox permit is taken; false when that was not reached by the deadline. To
    /// be called after [`Self::drain`], by one caller at a time.
    pub async fn drained(&self, deadline: Instant) -> bool {
        timeout_at(deadline, self.no_permit_taken()).await.is_ok()
    }

    async fn no_permit_taken(&self) {
        for partition in self.registry.partitions() {
            // With the write lock: whoever was admitted before `drain` has taken its permit by now.
            while partition
                .write()
                .entities
                .values()
                .any(|active| active.handle.permits_taken() > 0)
            {
                self.registry.drained.notified().await;
            }
        }
    }

    /// Counts the entities and gathers their figures; it looks at each of them.
    pub fn overview(&self) -> Overview {
        let (registry, metrics) = (&self.registry, &self.registry.metrics);
        let mut overview = Overview::of(E::KIND, metrics);
        overview.arbiters = registry.placement.len();
        overview.draining = registry.is_draining();
        let now_ms = registry.now_ms();
        for partition in registry.partitions() {
            let partition = partition.read();
            overview.add_turnover(&partition.turnover);
            for active in partition.entities.values() {
                overview.add(&active.handle, now_ms);
            }
        }
        overview
    }

    /// The figures of one entity, if it is in the directory.
    pub fn inspect(&self, id: E::Id) -> Option<Inspection> {
        self.registry.handle(id).map(|handle| handle.inspect())
    }

    /// The figures of one entity as [`Self::find`] gives them; of one that is loading at once,
    /// although nobody knows yet whether it is stored.
    ///
    /// # Errors
    /// The store does not give what must be known.
    pub async fn look(&self, id: E::Id) -> Result<Option<Inspection>, LoadError> {
        match self.registry.handle(id) {
            Some(handle) if handle.is_loading() => Ok(Some(handle.inspect())),
            Some(_) | None => self.find(id).await,
        }
    }

    /// The figures of one entity, in the directory or stored; `None` when there is no such thing.
    ///
    /// # Errors
    /// The store does not give what must be known.
    pub async fn find(&self, id: E::Id) -> Result<Option<Inspection>, LoadError> {
        let handle = self.registry.handle(id);
        if let Some(handle) = handle.as_ref().filter(|handle| handle.is_surely_stored()) {
            return Ok(Some(handle.inspect()));
        }
        // A stored one that nobody has loaded, or one that is asked for and may not exist.
        let stored = self.registry.journal.load(id).await?;
        Ok(stored.map(|entity| {
            let passive = || Inspection::passive(entity.revision());
            handle.map_or_else(passive, |handle| handle.inspect())
        }))
    }

    /// The entities in the directory that an operator wants to see.
    pub fn instances(&self, query: InstanceQuery) -> Vec<(E::Id, Inspection)> {
        let mut found = Vec::new();
        let now_ms = self.registry.now_ms();
        // Most of many are left out by one comparison with the last that is kept so far.
        let mut last_kept = None;
        for partition in self.registry.partitions() {
            let partition = partition.read();
            for handle in partition.entities.values().map(|active| &active.handle) {
                let key = Reverse(handle.sort_key(query.order));
                let is_wanted = query
                    .state
                    .is_none_or(|state| handle.life(now_ms).state() == state);
                if is_wanted && last_kept.is_none_or(|last| key <= last) {
                    found.push((key, Arc::clone(handle)));
                }
            }
            if found.len() >= query.limit {
                keep_first(&mut found, query.limit);
                last_kept = found.last().map(|(key, _)| *key);
            }
        }
        keep_first(&mut found, query.limit);
        found
            .iter()
            .map(|(_, handle)| (handle.id, handle.inspect_at(now_ms)))
            .collect()
    }
}

/// Sorts entities by key, those with the same by id, and keeps the first.
fn keep_first<E: Entity>(found: &mut Vec<(Reverse<u64>, Arc<EntityHandle<E>>)>, limit: usize) {
    found.sort_unstable_by_key(|(key, handle)| (*key, handle.id));
    found.truncate(limit);
}

impl<E: Entity> Drop for Directory<E> {
    fn drop(&mut self) {
        // The handles hold the registry and the registry holds the handles.
        for partition in self.registry.partitions() {
            let gone = std::mem::take(&mut partition.write().entities);
            drop(gone);
        }
    }
}

impl Overview {
    fn add_turnover(&mut self, turnover: &Turnover) {
        self.activations += turnover.activations;
        self.handled += turnover.handled;
        for ((_, total), (_, count)) in self.passivations.iter_mut().zip(turnover.passivations()) {
            *total += count;
        }
    }

    fn add<E: Entity>(&mut self, handle: &EntityHandle<E>, now_ms: u64) {
        let permits_taken = handle.permits_taken();
        self.live += 1;
        self.by_state.add(handle.life(now_ms).state());
        self.permits_taken += u64::from(permits_taken);
        self.permits_taken_max = self.permits_taken_max.max(permits_taken);
        self.bytes += handle.bytes();
        self.handled += handle.handled();
    }
}

impl<E: Entity> EntityHandle<E> {
    /// What the next command would meet at this time.
    fn life(&self, now_ms: u64) -> Life {
        match self.circuit_at(now_ms) {
            CircuitState::BackingOff { until_ms } => {
                Life::BackingOff(Duration::from_millis(until_ms.saturating_sub(now_ms)))
            }
            CircuitState::Quarantined { until_ms } => {
                Life::Quarantined(self.registry.timestamp(until_ms))
            }
            CircuitState::Closed if self.is_loading() => Life::Loading,
            CircuitState::Closed => Life::Ready,
        }
    }

    /// What operators sort it by; the largest is shown first.
    fn sort_key(&self, order: InstanceOrder) -> u64 {
        match order {
            InstanceOrder::Mailbox => u64::from(self.permits_taken()),
            InstanceOrder::Bytes => self.bytes() as u64,
            InstanceOrder::Restarts => self.restarts(),
            InstanceOrder::LastUsed => self.last_used_ms(),
        }
    }

    /// Whether something is stored under its id, as far as its last load or change has shown; one
    /// that has crashed was stored, or somebody tried to make it.
    fn is_surely_stored(&self) -> bool {
        !self.is_removable() || self.circuit() != CircuitState::Closed
    }

    fn inspect(&self) -> Inspection {
        self.inspect_at(self.registry.now_ms())
    }

    fn inspect_at(&self, now_ms: u64) -> Inspection {
        Inspection {
            life: self.life(now_ms),
            permits_taken: self.permits_taken(),
            revision: self.revision(),
            committed: self.committed(),
            bytes: self.bytes(),
            handled: self.handled(),
            last_used: Some(self.registry.timestamp(self.last_used_ms())),
            restarts: self.restarts(),
            last_failure: self.last_failure(),
        }
    }
}
