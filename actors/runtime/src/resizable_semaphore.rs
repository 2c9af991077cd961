//! A semaphore whose number of permits can change while it is used. It limits how many loads are
//! under way at once.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A semaphore whose number of permits can change.
pub(super) struct ResizableSemaphore {
    semaphore: Semaphore,
    count: Mutex<Count>,
}

struct Count {
    wanted: usize,
    /// Permits that are free or in use: more than `wanted` until those to be taken back return.
    granted: usize,
}

impl ResizableSemaphore {
    /// A semaphore with this many permits.
    pub(super) fn new(max: usize) -> Self {
        Self {
            semaphore: Semaphore::new(max),
            count: Mutex::new(Count {
                wanted: max,
                granted: max,
            }),
        }
    }

    /// Sets the number of permits. Those that are in use beyond it are taken back when they return.
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

    /// Waits for a permit; `None` only when the semaphore is closed, which it never is.
    pub(super) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.adjust(&mut self.count.lock());
        self.semaphore.acquire().await.ok()
    }
}
