//! When somebody is to wake: set by whoever knows of something earlier, waited for by one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use colloquy_model::time::Timestamp;

/// A time of the wall clock that only moves earlier until it is wound up again.
#[derive(Debug)]
pub struct Alarm {
    at: AtomicI64,
    earlier: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Alarm {
            at: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
        }
    }
}

impl Alarm {
    /// There is something to be done at this time, in Unix milliseconds.
    pub fn no_later_than(&self, at: i64) {
        if self.at.fetch_min(at, Ordering::AcqRel) > at {
            self.earlier.notify_one();
        }
    }

    /// There is something to be done now.
    pub fn now(&self) {
        self.no_later_than(0);
    }

    /// Winds it up: what is set from now on counts. To be called before one looks for what there is
    /// to do, so that what is set meanwhile is not missed.
    pub(crate) fn wind(&self) {
        self.at.store(i64::MAX, Ordering::Release);
    }

    /// Waits until the time has come, at most so long: the wall clock may be set.
    pub(crate) async fn rung(&self, at_most: Duration) {
        let waiting = async {
            loop {
                let left = self
                    .at
                    .load(Ordering::Acquire)
                    .saturating_sub(Timestamp::now().0);
                let Ok(left) = u64::try_from(left) else {
                    return;
                };
                // Rounded up, so that the clock has surely reached it.
                let left = Duration::from_millis(left.saturating_add(1));
                let _ = tokio::time::timeout(left, self.earlier.notified()).await;
            }
        };
        let _ = tokio::time::timeout(at_most, waiting).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn it_rings_at_its_time_and_not_before() {
        let alarm = Alarm::default();
        let at = Timestamp::now().0 + 30;
        alarm.no_later_than(at);
        alarm.no_later_than(at + 50_000);
        alarm.rung(LONG).await;
        assert!(Timestamp::now().0 >= at);
    }

    #[tokio::test]
    async fn what_is_earlier_wakes_who_waits_for_something_later() {
        let alarm = Arc::new(Alarm::default());
        alarm.wind();
        alarm.no_later_than(Timestamp::now().0 + 50_000);
        let other = Arc::clone(&alarm);
        tokio::spawn(async move { other.now() });
        let begun = Timestamp::now().0;
        alarm.rung(LONG).await;
        assert!(Timestamp::now().0 - begun < 30_000);
    }
}
