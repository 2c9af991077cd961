//! The choice of the thread on which an entity runs: one of the registered arbiters, by the hash of
//! its id.

use std::sync::Arc;

use actix::{Arbiter, ArbiterHandle, System};
use arc_swap::ArcSwap;

/// The arbiters on which entities run. Clones share the list.
#[derive(Clone, Default)]
pub struct Placement {
    arbiters: Arc<ArcSwap<Vec<ArbiterHandle>>>,
}

impl Placement {
    /// A placement without arbiters; workers register themselves.
    pub fn new() -> Self {
        Self::default()
    }

    /// A placement with `n` new arbiters, for tools and tests. Without a running actix system, or
    /// when a thread can't be started, there are fewer.
    pub fn own(n: usize) -> Self {
        let placement = Self::new();
        if System::try_current().is_some() {
            for arbiter in (0..n).filter_map(|_| Arbiter::try_new().ok()) {
                placement.register(arbiter.handle());
            }
        }
        placement
    }

    /// Adds an arbiter, and removes those that have ended.
    pub fn register(&self, arbiter: ArbiterHandle) {
        self.arbiters.rcu(|known| {
            let mut next: Vec<_> = known
                .iter()
                .filter(|known| known.alive())
                .cloned()
                .collect();
            next.push(arbiter.clone());
            next
        });
    }

    /// Adds the arbiter of the current thread; false when it has none.
    pub fn register_current(&self) -> bool {
        let current = Arbiter::try_current();
        let found = current.is_some();
        if let Some(arbiter) = current {
            self.register(arbiter);
        }
        found
    }

    /// How many arbiters there are.
    pub fn len(&self) -> usize {
        self.arbiters.load().len()
    }

    /// Whether there is no arbiter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs a task on the arbiter that the hash chooses. The task is made again for each arbiter
    /// tried; those that have ended are removed. False when none is left.
    pub(super) fn spawn<F>(&self, hash: u64, mut task: impl FnMut() -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let arbiters = self.arbiters.load();
            let Some(at) = usize::try_from(hash >> 40)
                .unwrap_or_default()
                .checked_rem(arbiters.len())
            else {
                return false;
            };
            if arbiters
                .get(at)
                .is_some_and(|arbiter| arbiter.spawn(task()))
            {
                return true;
            }
            self.arbiters.rcu(|known| {
                known
                    .iter()
                    .filter(|known| known.alive())
                    .cloned()
                    .collect::<Vec<_>>()
            });
        }
    }
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Placement")
            .field("arbiters", &self.len())
            .finish()
    }
}
