//! How many loads may be under way at once; the next one waits.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Permits for loads; their number may change.
pub(super) struct Loads {
    semaphore: Semaphore,
    count: Mutex<Count>,
}

struct Count {
    wanted: usize,
    /// What the semaphore has given out or holds; above `wanted` while permits to be taken back are
    /// still in use.
    granted: usize,
}

impl Loads {
    pub(super) fn new(max: usize) -> Self {
        Self {
            semaphore: Semaphore::new(max),
            count: Mutex::new(Count {
                wanted: max,
                granted: max,
            }),
        }
    }

    pub(super) fn resize(&self, max: usize) {
        let mut count = self.count.lock();
        count.wanted = max;
        self.adjust(&mut count);
    }

    fn adjust(&self, count: &mut Count) {
        if count.granted < count.wanted {
            self.semaphore.add_permits(count.wanted - count.granted);
            count.granted = count.wanted;
        } else if count.granted > count.wanted {
            count.granted -= self.semaphore.forget_permits(count.granted - count.wanted);
        }
    }

    /// Waits for a permit; none only when the semaphore is closed, which it never is.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.adjust(&mut self.count.lock());
        self.semaphore.acquire().await.ok()
    }
}
