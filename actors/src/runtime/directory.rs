//! The door to all entities of one kind: ask one by its id, from any thread. Holds no rule of any
//! entity.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::ask::{AskError, Cause};
use super::entity::Entity;
use super::entity_actor::Control;
use super::journal::Journal;
use super::metrics::{Histogram, Passivation, count, read};
use super::overview::{Inspection, Life, Overview, Percentiles};
use super::placement::Placement;
use super::policy::Policy;
use super::room::Room;
use super::slot::{Gate, Slot};
use super::sweeper;

/// All entities of one kind.
///
/// An entity is started by the first command for it and forgotten when nobody asks it; its address,
/// its restarts and its thread are the directory's business. Dropped, it lets every actor finish
/// what is queued and stop.
pub struct Directory<E: Entity> {
    room: Arc<Room<E>>,
}

impl<E: Entity> Directory<E> {
    /// A directory without a living entity.
    pub fn new(journal: Arc<dyn Journal<E>>, placement: Placement, policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Room::new(journal, placement, policy)),
        })
    }

    /// Asks an entity, and waits for its answer at most the policy's time. The command is enqueued
    /// at the first poll, in the order of the first polls. Dropped before the command's turn, it
    /// takes the command back; after that the work goes on.
    pub async fn ask(
        &self,
        id: E::Id,
        command: E::Command,
    ) -> Result<E::Reply, AskError<E::Refusal>> {
        let (waiting, deadline) = self.room.enqueue(id, command)?;
        let answer = waiting.until(deadline).await;
        if let Err(AskError::Unavailable {
            cause: Cause::TimedOut,
            ..
        }) = answer
        {
            self.room.metrics.refused(Cause::TimedOut);
        } else if let Err(AskError::TimedOut) = answer {
            count(&self.room.metrics.timed_out);
        }
        answer
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.room.policy.load_full()
    }

    /// Puts another policy in force, for running entities too, and returns the one before.
    pub fn set_policy(&self, policy: Policy) -> Arc<Policy> {
        self.room.loads.resize(policy.loads_max);
        let before = self.room.policy.swap(Arc::new(policy));
        self.room.nudge.notify_one();
        before
    }

    /// Where its entities live.
    pub fn placement(&self) -> &Placement {
        &self.room.placement
    }

    /// Passivates what is idle or too much, now.
    pub fn sweep_now(&self) {
        sweeper::sweep(&self.room);
    }

    /// Makes an entity forget its state and load it again; false when it is not in the directory or
    /// in quarantine.
    pub fn restart(&self, id: E::Id) -> bool {
        self.room.control(id, Control::Restart)
    }

    /// Takes an entity out of the directory; false when it is not there or has work.
    pub fn passivate(&self, id: E::Id) -> bool {
        self.room.take_out(id, Passivation::Operator)
    }

    /// Ends an entity's quarantine and forgets its crashes; false when it was in none.
    pub fn release(&self, id: E::Id) -> bool {
        self.room.slot(id).is_some_and(|slot| slot.release())
    }

    /// Refuses every new ask from now on. What is queued is still done.
    pub fn drain(&self) {
        self.room.set_draining(true);
    }

    /// Takes asks again.
    pub fn resume(&self) {
        self.room.set_draining(false);
    }

    /// Waits until no place is taken; false when that was not reached by the deadline. To be called
    /// after `drain`, by one caller at a time.
    pub async fn drained(&self, deadline: Instant) -> bool {
        timeout_at(deadline, self.quiet()).await.is_ok()
    }

    async fn quiet(&self) {
        for shard in self.room.shards() {
            // With the write lock, so that whoever got in before the door closed has taken its
            // place by now.
            while shard
                .write()
                .values()
                .any(|active| active.slot.places() > 0)
            {
                self.room.quiet.notified().await;
            }
        }
    }

    /// The kind at a glance.
    pub fn overview(&self) -> Overview {
        let (room, metrics) = (&self.room, &self.room.metrics);
        let mut overview = Overview {
            kind: E::KIND,
            live: 0,
            quarantined: 0,
            arbiters: room.placement.len(),
            draining: room.is_draining(),
            places: 0,
            places_max: 0,
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
        for shard in room.shards() {
            for active in shard.read().values() {
                overview.add(&active.slot);
            }
        }
        overview
    }

    /// One entity, if it is in the directory.
    pub fn inspect(&self, id: E::Id) -> Option<Inspection> {
        self.room.slot(id).map(|slot| slot.inspect())
    }

    /// The ids of the entities with the most places taken, the busiest first.
    pub fn busiest(&self, max: usize) -> Vec<(E::Id, Inspection)> {
        let mut busy = Vec::new();
        for shard in self.room.shards() {
            let shard = shard.read();
            busy.extend(
                shard
                    .values()
                    .map(|active| &active.slot)
                    .filter(|slot| slot.places() > 0)
                    .map(Arc::clone),
            );
        }
        busy.sort_by_key(|slot| std::cmp::Reverse(slot.places()));
        busy.iter()
            .take(max)
            .map(|slot| (slot.id, slot.inspect()))
            .collect()
    }
}

impl<E: Entity> Drop for Directory<E> {
    fn drop(&mut self) {
        // The slots hold the room, the room holds the slots.
        for shard in self.room.shards() {
            let gone = std::mem::take(&mut *shard.write());
            drop(gone);
        }
    }
}

impl Overview {
    fn add<E: Entity>(&mut self, slot: &Slot<E>) {
        let places = slot.places();
        self.live += 1;
        self.quarantined += usize::from(matches!(slot.gate(), Gate::Quarantined { .. }));
        self.places += u64::from(places);
        self.places_max = self.places_max.max(places);
        self.bytes += slot.bytes();
        self.handled += slot.handled();
    }
}

impl<E: Entity> Slot<E> {
    fn inspect(&self) -> Inspection {
        let now_ms = self.room.now_ms();
        let left = |until_ms: u64| Duration::from_millis(until_ms.saturating_sub(now_ms));
        let (restarts, last_failure) = self.troubles();
        Inspection {
            life: match self.gate() {
                Gate::BackingOff { until_ms } => Life::BackingOff(left(until_ms)),
                Gate::Quarantined { until_ms } => Life::Quarantined(left(until_ms)),
                Gate::Open if self.was_loaded() => Life::Active,
                Gate::Open => Life::Loading,
            },
            places: self.places(),
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
