//! An alarm clock for one thread, which any thread can set to an earlier time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use colloquy_model::time::Timestamp;

/// An alarm on the wall clock. Setting it only makes it earlier, until it is reset.
#[derive(Debug)]
pub struct Alarm {
    /// In milliseconds since the Unix epoch.
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
    /// Lets it ring at this time of the wall clock, or earlier.
    pub fn ring_by(&self, at: Timestamp) {
        if self.at.fetch_min(at.0, Ordering::AcqRel) > at.0 {
            self.earlier.notify_one();
        }
    }

    /// Lets the alarm ring now, whatever time it was set to.
    pub fn ring_now(&self) {
        self.ring_by(Timestamp::EPOCH);
    }

    /// Forgets the time that was set. To be called before looking for what is due, so that a time
    /// that is set meanwhile is not missed.
    pub fn reset(&self) {
        self.at.store(i64::MAX, Ordering::Release);
    }

    /// Waits until it rings, but no longer than `at_most`, since the wall clock may be set.
    pub async fn wait(&self, at_most: Duration) {
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
        alarm.ring_by(Timestamp(at));
        alarm.ring_by(Timestamp(at + 50_000));
        alarm.wait(LONG).await;
        assert!(Timestamp::now().0 >= at);
    }

    #[tokio::test]
    async fn what_is_earlier_wakes_who_waits_for_something_later() {
        let alarm = Arc::new(Alarm::default());
        alarm.reset();
        alarm.ring_by(Timestamp(Timestamp::now().0 + 50_000));
        let other = Arc::clone(&alarm);
        tokio::spawn(async move { other.ring_now() });
        let begun = Timestamp::now().0;
        alarm.wait(LONG).await;
        assert!(Timestamp::now().0 - begun < 30_000);
    }
}
