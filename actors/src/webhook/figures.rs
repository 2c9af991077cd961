//! What deliveries come to, in numbers that operators may read at any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::queue::Verdict;

/// Counters and gauges; whoever delivers alone sets them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) pending: AtomicU64,
    pub(super) in_flight: AtomicUsize,
    delivered: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
}

impl Figures {
    pub(super) fn attempt(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Delivered => &self.delivered,
            Verdict::Later(_) => &self.retried,
            Verdict::Failed => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Deliveries that wait, attempts under way, and attempts by what they came to.
    pub(super) fn read(&self) -> (u64, usize, [(&'static str, u64); 3]) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let attempts =
            [("delivered", read(&self.delivered)), ("retried", read(&self.retried)), ("failed", read(&self.failed))];
        (read(&self.pending), self.in_flight.load(Ordering::Relaxed), attempts)
    }
}
