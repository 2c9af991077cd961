//! Passivation: takes entities that nobody asks out of the directory. A task per directory, no
//! timer per entity. When its thread ends, the next entity that is started starts another sweeper.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::entity::Entity;
use super::metrics::Passivation;
use super::policy::Policy;
use super::room::{Active, Room, Shard};

/// Starts a sweeper on one of the arbiters; one that ran before ends.
pub(super) fn spawn<E: Entity>(room: &Arc<Room<E>>) {
    let mine = room.sweeper.fetch_add(1, Ordering::AcqRel) + 1;
    if !room
        .placement
        .spawn(0, || sweeping(Arc::downgrade(room), mine))
    {
        room.swept_ms.store(0, Ordering::Release);
    }
}

/// Sweeps until the directory is gone or another sweeper has taken over.
async fn sweeping<E: Entity>(room: Weak<Room<E>>, mine: u64) {
    loop {
        let Some((nudge, pause)) = room
            .upgrade()
            .map(|room| (Arc::clone(&room.nudge), room.policy.load().sweep))
        else {
            return;
        };
        // Whether it was nudged or the time is up does not matter.
        drop(timeout(pause.max(Duration::from_millis(1)), nudge.notified()).await);
        let Some(room) = room.upgrade() else { return };
        if room.sweeper.load(Ordering::Acquire) != mine {
            return;
        }
        room.swept_ms.store(room.now_ms(), Ordering::Release);
        sweep(&room);
    }
}

/// Looks at every entity once.
pub(super) fn sweep<E: Entity>(room: &Room<E>) {
    let policy = room.policy.load();
    let now_ms = room.now_ms();
    let mut left = Left::default();
    for shard in room.shards() {
        let is_idle = |active: &Active<E>| is_idle(active, &policy, now_ms);
        let has_idle = {
            let shard = shard.read();
            left.add(&shard);
            shard.values().any(is_idle)
        };
        if has_idle {
            let mut gone = Vec::new();
            shard
                .write()
                .extract_if(|_, active| is_idle(active))
                .for_each(|(_, active)| gone.push(active));
            left.subtract(&gone);
            room.retired(&gone, Passivation::Idle);
        }
    }
    left.relieve(room, &policy, now_ms);
}

fn is_idle<E: Entity>(active: &Active<E>, policy: &Policy, now_ms: u64) -> bool {
    let slot = &active.slot;
    let idle_ms = u128::from(now_ms.saturating_sub(slot.last_used_ms()));
    let is_over = slot.is_expendable() || idle_ms >= policy.idle.as_millis();
    is_over && slot.places() == 0 && !slot.is_troubled(policy.window, now_ms)
}

/// What a sweep leaves active.
#[derive(Default)]
struct Left {
    count: usize,
    bytes: usize,
}

impl Left {
    fn add<E: Entity>(&mut self, shard: &Shard<E>) {
        self.count += shard.len();
        self.bytes += shard
            .values()
            .map(|active| active.slot.bytes())
            .sum::<usize>();
    }

    fn subtract<E: Entity>(&mut self, gone: &[Active<E>]) {
        self.count = self.count.saturating_sub(gone.len());
        self.bytes = self
            .bytes
            .saturating_sub(gone.iter().map(|active| active.slot.bytes()).sum());
    }

    /// What is too much, if anything.
    fn excess(&self, policy: &Policy) -> Option<Passivation> {
        if self.count > policy.active_max {
            Some(Passivation::Active)
        } else if self.bytes > policy.bytes_max {
            Some(Passivation::Bytes)
        } else {
            None
        }
    }

    /// Takes out the least recently used ones when a limit is passed: a twentieth more than must
    /// be, so that the next activations don't make this look at every entity again at once.
    fn relieve<E: Entity>(&mut self, room: &Room<E>, policy: &Policy, now_ms: u64) {
        let Some(why) = self.excess(policy) else {
            return;
        };
        let enough = Policy {
            active_max: policy.active_max - policy.active_max / 20,
            bytes_max: policy.bytes_max - policy.bytes_max / 20,
            ..policy.clone()
        };
        let mut oldest = Vec::with_capacity(self.count);
        for shard in room.shards() {
            oldest.extend(
                shard
                    .read()
                    .values()
                    .map(|active| (active.slot.last_used_ms(), Arc::clone(&active.slot))),
            );
        }
        let too_many = self.count.saturating_sub(enough.active_max);
        if why == Passivation::Active && too_many < oldest.len() {
            oldest.select_nth_unstable_by_key(too_many, |(last_used_ms, slot)| {
                (*last_used_ms, slot.id)
            });
            oldest.truncate(too_many);
        }
        oldest.sort_unstable_by_key(|(last_used_ms, slot)| (*last_used_ms, slot.id));
        for (_, slot) in oldest {
            if self.excess(&enough).is_none() {
                return;
            }
            let bytes = slot.bytes();
            if !slot.is_troubled(policy.window, now_ms) && room.take_out(slot.id, why) {
                self.count -= 1;
                self.bytes = self.bytes.saturating_sub(bytes);
            }
        }
    }
}
