//! Connections for which signals have come, woken a few at a time: each writes to its client, and whoever
//! else has something to do on the same thread would wait behind all of them.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The time between two rounds, in each of which everybody is told what is new.
pub(super) const ROUND: Duration = Duration::from_millis(100);
/// Between two times at which some are woken.
const PAUSE: Duration = Duration::from_millis(2);
/// So many times in a round, so that the next one finds all woken.
const TIMES: usize = 40;
/// So many at once at least: fewer hold nobody up.
const AT_ONCE_MIN: usize = 8;

const _: () = assert!(TIMES as u128 * PAUSE.as_millis() < ROUND.as_millis());

/// Those who are still to be woken. Dropped, it wakes them.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    left: VecDeque<Waker>,
    at_once: usize,
    /// When the next ones are woken, if some are left.
    due: Option<Instant>,
}

impl Wakes {
    /// Adds one, if there is one.
    pub(super) fn add(&mut self, reader: Option<Waker>) {
        self.left.extend(reader);
    }

    /// Spreads all over the round that begins now.
    pub(super) fn spread(&mut self, now: Instant) {
        self.at_once = self.left.len().div_ceil(TIMES).max(AT_ONCE_MIN);
        self.due = (!self.left.is_empty()).then_some(now);
    }

    /// When the next ones are to be woken.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }

    /// Wakes the next ones, where that is due.
    pub(super) fn wake(&mut self, now: Instant) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let some = self.at_once.min(self.left.len());
        self.left.drain(..some).for_each(Waker::wake);
        self.due = (!self.left.is_empty()).then_some(now + PAUSE);
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.left.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Counted(Arc<AtomicUsize>);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many who wait, and how many of them were woken.
    fn waiting(count: usize) -> (Wakes, Arc<AtomicUsize>) {
        let (mut wakes, woken) = (Wakes::default(), Arc::<AtomicUsize>::default());
        for _ in 0..count {
            wakes.add(Some(Arc::new(Counted(Arc::clone(&woken))).into()));
        }
        (wakes, woken)
    }

    #[test]
    fn a_few_are_woken_at_once_and_many_within_their_round() {
        let now = Instant::now();
        for (count, at_once) in [(5, 5), (8, 8), (9, 8), (900, 23)] {
            let (mut wakes, woken) = waiting(count);
            wakes.spread(now);
            let mut last = 0;
            while let Some(due) = wakes.next() {
                assert!(due < now + ROUND, "{count}");
                wakes.wake(due);
                let by_now = woken.load(Ordering::Relaxed);
                assert!((1..=at_once).contains(&(by_now - last)), "{count}");
                last = by_now;
                wakes.wake(due);
                assert_eq!(woken.load(Ordering::Relaxed), last, "none before its time");
            }
            assert_eq!(last, count);
        }
    }

    #[test]
    fn nobody_waits_for_what_has_ended() {
        let (wakes, woken) = waiting(100);
        drop(wakes);
        assert_eq!(woken.load(Ordering::Relaxed), 100);
    }
}
