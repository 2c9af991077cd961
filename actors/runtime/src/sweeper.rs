//! Passivation: removes entities that nobody asks from the directory. There is one task per
//! directory and no timer per entity. When its thread ends, the next entity that is started starts
//! another sweeper.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::entity::Entity;
use super::metrics::Passivation;
use super::policy::Policy;
use super::registry::{ActiveEntity, EntityMap, Registry};

/// The shortest pause between two sweeps, whatever the policy says.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause that a sweep which took long is given where the policy asks for a shorter one.
const PAUSE_OF_LONG_MAX: Duration = Duration::from_secs(1);
/// How many times as long as a sweep the pause after it is at least: sweeping costs one part in so
/// many of a core.
const PAUSE_PER_SWEEP: u32 = 100;

/// The longest pause between two sweeps under this policy.
pub(super) fn pause_max(policy: &Policy) -> Duration {
    policy.sweep.max(PAUSE_OF_LONG_MAX)
}

/// How long the sweeper pauses after a sweep that took so long.
fn pause(policy: &Policy, took: Duration) -> Duration {
    let least = took.saturating_mul(PAUSE_PER_SWEEP);
    policy.sweep.max(least.clamp(PAUSE_MIN, PAUSE_OF_LONG_MAX))
}

/// Starts a sweeper on one of the arbiters; an earlier one ends.
pub(super) fn spawn<E: Entity>(registry: &Arc<Registry<E>>) {
    let mine = registry.sweeper.fetch_add(1, Ordering::AcqRel) + 1;
    if !registry
        .placement
        .spawn(0, || run(Arc::downgrade(registry), mine))
    {
        registry.swept_ms.store(0, Ordering::Release);
    }
}

/// Sweeps regularly, until the directory is gone or another sweeper has taken over.
async fn run<E: Entity>(registry: Weak<Registry<E>>, mine: u64) {
    let mut took = Duration::ZERO;
    loop {
        let Some((sweep_wakeup, pause)) = registry.upgrade().map(|registry| {
            let pause = pause(&registry.policy.load(), took);
            (Arc::clone(&registry.sweep_wakeup), pause)
        }) else {
            return;
        };
        // Whether it was nudged or the time is up does not matter.
        drop(timeout(pause, sweep_wakeup.notified()).await);
        let Some(registry) = registry.upgrade() else {
            return;
        };
        if registry.sweeper.load(Ordering::Acquire) != mine {
            return;
        }
        registry
            .swept_ms
            .store(registry.now_ms(), Ordering::Release);
        let begun = Instant::now();
        sweep(&registry);
        took = begun.elapsed();
    }
}

/// Passivates idle entities, and the least recently used ones beyond the policy's limits.
pub(super) fn sweep<E: Entity>(registry: &Registry<E>) {
    let policy = registry.policy.load();
    let now_ms = registry.now_ms();
    let mut left = Remaining::default();
    for partition in registry.partitions() {
        let is_idle = |active: &ActiveEntity<E>| is_idle(active, &policy, now_ms);
        let has_idle = {
            let partition = partition.read();
            left.add(&partition.entities);
            partition.entities.values().any(is_idle)
        };
        if has_idle {
            let gone = registry.remove_idle(partition, is_idle);
            left.subtract(&gone);
        }
    }
    left.evict_excess(registry, &policy, now_ms);
}

fn is_idle<E: Entity>(active: &ActiveEntity<E>, policy: &Policy, now_ms: u64) -> bool {
    let handle = &active.handle;
    let idle_ms = u128::from(now_ms.saturating_sub(handle.last_used_ms()));
    let is_over = handle.is_removable() || idle_ms >= policy.idle.as_millis();
    is_over && handle.permits_taken() == 0 && !handle.has_recent_crashes(policy.window, now_ms)
}

/// The entities that a sweep has left active so far, with their memory in bytes.
#[derive(Default)]
struct Remaining {
    count: usize,
    bytes: usize,
}

impl Remaining {
    fn add<E: Entity>(&mut self, entities: &EntityMap<E>) {
        self.count += entities.len();
        self.bytes += entities
            .values()
            .map(|active| active.handle.bytes())
            .sum::<usize>();
    }

    fn subtract<E: Entity>(&mut self, gone: &[ActiveEntity<E>]) {
        self.count = self.count.saturating_sub(gone.len());
        self.bytes = self
            .bytes
            .saturating_sub(gone.iter().map(|active| active.handle.bytes()).sum());
    }

    /// Which limit is exceeded, if any.
    fn excess(&self, policy: &Policy) -> Option<Passivation> {
        if self.count > policy.active_max {
            Some(Passivation::Active)
        } else if self.bytes > policy.bytes_max {
            Some(Passivation::Bytes)
        } else {
            None
        }
    }

    /// Passivates the least recently used entities when a limit is exceeded: a twentieth more than
    /// necessary, so that the next activations don't cause another look at every entity at once.
    fn evict_excess<E: Entity>(&mut self, registry: &Registry<E>, policy: &Policy, now_ms: u64) {
        let Some(why) = self.excess(policy) else {
            return;
        };
        let enough = Policy {
            active_max: policy.active_max - policy.active_max / 20,
            bytes_max: policy.bytes_max - policy.bytes_max / 20,
            ..policy.clone()
        };
        let mut oldest = Vec::with_capacity(self.count);
        for partition in registry.partitions() {
            oldest.extend(
                partition
                    .read()
                    .entities
                    .values()
                    .map(|active| (active.handle.last_used_ms(), Arc::clone(&active.handle))),
            );
        }
        let too_many = self.count.saturating_sub(enough.active_max);
        if why == Passivation::Active && too_many < oldest.len() {
            oldest.select_nth_unstable_by_key(too_many, |(last_used_ms, handle)| {
                (*last_used_ms, handle.id)
            });
            oldest.truncate(too_many);
        }
        oldest.sort_unstable_by_key(|(last_used_ms, handle)| (*last_used_ms, handle.id));
        for (_, handle) in oldest {
            if self.excess(&enough).is_none() {
                return;
            }
            let bytes = handle.bytes();
            if !handle.has_recent_crashes(policy.window, now_ms)
                && registry.passivate(handle.id, why)
            {
                self.count -= 1;
                self.bytes = self.bytes.saturating_sub(bytes);
            }
        }
    }
}
