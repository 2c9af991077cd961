//! The directory of all entities of one kind: asks one by its id, from any thread, and serves
//! operators. Holds no rule of any entity.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::ask_error::{AskError, Cause};
use super::entity::{Command, Entity};
use super::entity_actor::Control;
use super::entity_handle::{CircuitState, EntityHandle};
use super::journal::Journal;
use super::metrics::{Histogram, Passivation, count, read};
use super::overview::{Inspection, Life, Overview, Percentiles};
use super::placement::Placement;
use super::policy::Policy;
use super::registry::{Enqueued, Registry};
use super::sweeper;

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
        let Enqueued { reply, deadline } = self.registry.enqueue(id, command)?;
        let answer = reply.until(deadline).await;
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

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.registry.policy.load_full()
    }

    /// Replaces the policy, for running entities too, and returns the one before.
    pub fn set_policy(&self, policy: Policy) -> Arc<Policy> {
        self.registry.loads.resize(policy.loads_max);
        let before = self.registry.policy.swap(Arc::new(policy));
        self.registry.sweep_wakeup.notify_one();
        before
    }

    /// The arbiters on which the entities run.
    pub fn placement(&self) -> &Placement {
        &self.registry.placement
    }

    /// Passivates now what is idle or beyond the policy's limits.
    pub fn sweep_now(&self) {
        sweeper::sweep(&self.registry);
    }

    /// Makes an entity drop its state and load it again; false when it is not in the directory or
    /// is in quarantine.
    pub fn restart(&self, id: E::Id) -> bool {
        self.registry.control(id, Control::Restart)
    }

    /// Removes an entity from the directory; false when it is not there or holds commands.
    pub fn passivate(&self, id: E::Id) -> bool {
        self.registry.passivate(id, Passivation::Operator)
    }

    /// Ends an entity's quarantine and forgets its crashes; false when it was in none.
    pub fn release(&self, id: E::Id) -> bool {
        self.registry
            .handle(id)
            .is_some_and(|handle| handle.release())
    }

    /// Refuses new commands from now on. What is queued is still done.
    pub fn drain(&self) {
        self.registry.drain();
    }

    /// Takes commands again.
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
                .values()
                .any(|active| active.handle.permits_taken() > 0)
            {
                self.registry.drained.notified().await;
            }
        }
    }

    /// The figures of the kind.
    pub fn overview(&self) -> Overview {
        let (registry, metrics) = (&self.registry, &self.registry.metrics);
        let mut overview = Overview {
            kind: E::KIND,
            live: 0,
            quarantined: 0,
            arbiters: registry.placement.len(),
            draining: registry.is_draining(),
            permits_taken: 0,
            permits_taken_max: 0,
            bytes: 0,
            handled: read(&metrics.handled_before),
            abandoned: read(&metrics.abandoned),
            timed_out: read(&metrics.timed_out),
            activations: read(&metrics.activations),
            passivations: metrics.passivations(),
            restarts: metrics.restarts(),
            quarantines: read(&metrics.quarantines),
            refused: metrics.refusals(),
            conflicts: read(&metrics.conflicts),
            unknown: read(&metrics.unknown),
            waiting: percentiles(&metrics.waiting),
            handling: percentiles(&metrics.handling),
            committing: percentiles(&metrics.committing),
            failures: metrics.failures(),
        };
        for partition in registry.partitions() {
            for active in partition.read().values() {
                overview.add(&active.handle);
            }
        }
        overview
    }

    /// The figures of one entity, if it is in the directory.
    pub fn inspect(&self, id: E::Id) -> Option<Inspection> {
        self.registry.handle(id).map(|handle| handle.inspect())
    }

    /// The ids of the entities that hold the most commands, those with the most first.
    pub fn busiest(&self, max: usize) -> Vec<(E::Id, Inspection)> {
        let mut busy = Vec::new();
        for partition in self.registry.partitions() {
            let partition = partition.read();
            busy.extend(
                partition
                    .values()
                    .map(|active| &active.handle)
                    .filter(|handle| handle.permits_taken() > 0)
                    .map(Arc::clone),
            );
        }
        busy.sort_by_key(|handle| std::cmp::Reverse(handle.permits_taken()));
        busy.iter()
            .take(max)
            .map(|handle| (handle.id, handle.inspect()))
            .collect()
    }
}

impl<E: Entity> Drop for Directory<E> {
    fn drop(&mut self) {
        // The handles hold the registry and the registry holds the handles.
        for partition in self.registry.partitions() {
            let gone = std::mem::take(&mut *partition.write());
            drop(gone);
        }
    }
}

impl Overview {
    fn add<E: Entity>(&mut self, handle: &EntityHandle<E>) {
        let permits_taken = handle.permits_taken();
        self.live += 1;
        self.quarantined +=
            usize::from(matches!(handle.circuit(), CircuitState::Quarantined { .. }));
        self.permits_taken += u64::from(permits_taken);
        self.permits_taken_max = self.permits_taken_max.max(permits_taken);
        self.bytes += handle.bytes();
        self.handled += handle.handled();
    }
}

impl<E: Entity> EntityHandle<E> {
    fn inspect(&self) -> Inspection {
        let now_ms = self.registry.now_ms();
        let left = |until_ms: u64| Duration::from_millis(until_ms.saturating_sub(now_ms));
        let (restarts, last_failure) = self.crash_summary();
        Inspection {
            life: match self.circuit() {
                CircuitState::BackingOff { until_ms } => Life::BackingOff(left(until_ms)),
                CircuitState::Quarantined { until_ms } => Life::Quarantined(left(until_ms)),
                CircuitState::Closed if self.was_loaded() => Life::Active,
                CircuitState::Closed => Life::Loading,
            },
            permits_taken: self.permits_taken(),
            revision: self.revision(),
            committed: self.committed(),
            bytes: self.bytes(),
            handled: self.handled(),
            idle: Duration::from_millis(now_ms.saturating_sub(self.last_used_ms())),
            restarts,
            last_failure,
        }
    }
}

fn percentiles(histogram: &Histogram) -> Percentiles {
    Percentiles {
        p50: histogram.quantile(0.5),
        p99: histogram.quantile(0.99),
    }
}
