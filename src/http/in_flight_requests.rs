//! Which requests are running, and whether new ones are still taken: what a drain waits for.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// Within this, what was sent before the drain has come off the wire, unless more keeps coming.
const TICK: Duration = Duration::from_millis(50);

const SERVING: u8 = 0;
const LEAVING: u8 = 1;
const REFUSING: u8 = 2;

/// Counts the requests between their head and their response, for a drain to wait for.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequests {
    count: AtomicUsize,
    /// How many have come so far.
    came: AtomicUsize,
    stage: AtomicU8,
    none_left: Notify,
    /// Tells event streams and WebSockets, which nobody waits for.
    told: watch::Sender<bool>,
}

/// Counts one request until it is dropped, when its response is built.
#[derive(Debug)]
pub(super) struct RequestGuard<'a> {
    in_flight: &'a InFlightRequests,
    /// It came when new work was no longer taken.
    pub(super) too_late: bool,
}

impl InFlightRequests {
    /// A request's head has come.
    pub(super) fn enter(&self) -> RequestGuard<'_> {
        // Counted before it looks: whoever waits for none after the stage has changed sees all that
        // did not see the change.
        self.count.fetch_add(1, Ordering::SeqCst);
        self.came.fetch_add(1, Ordering::Relaxed);
        RequestGuard {
            in_flight: self,
            too_late: self.stage.load(Ordering::SeqCst) == REFUSING,
        }
    }

    /// Whether the server is on its way out: connections are closed after their answers.
    pub(super) fn leaving(&self) -> bool {
        self.stage.load(Ordering::Relaxed) != SERVING
    }

    /// Tells when the server is on its way out.
    pub(super) fn until_leaving(&self) -> watch::Receiver<bool> {
        self.told.subscribe()
    }

    /// Says that the server leaves, takes what was sent before that, at most so long, and then
    /// nothing new.
    pub(crate) async fn leave(&self, at_most: Duration) {
        self.stage.store(LEAVING, Ordering::SeqCst);
        self.told.send_replace(true);
        let calm = async {
            let mut before = self.came.load(Ordering::Relaxed);
            loop {
                tokio::time::sleep(TICK).await;
                let came = self.came.load(Ordering::Relaxed);
                if came == before {
                    return;
                }
                before = came;
            }
        };
        // Whether it was calm or not, it is time.
        let _ = tokio::time::timeout(at_most, calm).await;
        self.stage.store(REFUSING, Ordering::SeqCst);
    }

    /// Waits until none runs, at most so long; whether that was reached.
    pub(crate) async fn none_left(&self, at_most: Duration) -> bool {
        let none = async {
            loop {
                let told = self.none_left.notified();
                if self.count.load(Ordering::SeqCst) == 0 {
                    return;
                }
                told.await;
            }
        };
        tokio::time::timeout(at_most, none).await.is_ok()
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let last = self.in_flight.count.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.in_flight.leaving() {
            self.in_flight.none_left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn what_runs_is_waited_for_and_what_comes_later_is_too_late() {
        let running = InFlightRequests::default();
        let first = running.enter();
        assert!(!first.too_late && !running.leaving());
        running.leave(Duration::from_secs(1)).await;
        assert!(running.leaving() && running.enter().too_late);
        assert!(!running.none_left(Duration::ZERO).await);
        drop(first);
        assert!(running.none_left(Duration::from_secs(1)).await);
    }
}
