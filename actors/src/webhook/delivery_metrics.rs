//! What webhook deliveries have come to, in numbers that operators may read at any time.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::delivery_queue::Verdict;
use colloquy_model::position::Position;

/// Counters and gauges of deliveries; the thread that delivers alone changes them.
#[derive(Debug, Default)]
pub(super) struct DeliveryCounters {
    pub(super) pending: AtomicU64,
    pub(super) in_flight: AtomicUsize,
    /// Everything up to this position is matched with endpoints.
    pub(super) matched: AtomicI64,
    delivered: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
}

impl DeliveryCounters {
    /// Counts an attempt by its outcome.
    pub(super) fn attempt(&self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Delivered => &self.delivered,
            Verdict::Later(_) => &self.retried,
            Verdict::Failed => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads all of them, one after the other.
    pub(super) fn read(&self) -> DeliveryMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeliveryMetrics {
            pending: read(&self.pending),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            matched: Position(self.matched.load(Ordering::Relaxed)),
            attempts: [
                ("delivered", read(&self.delivered)),
                ("retried", read(&self.retried)),
                ("failed", read(&self.failed)),
            ],
        }
    }
}

/// What webhook deliveries have come to, read at one moment.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryMetrics {
    /// How many deliveries wait.
    pub pending: u64,
    /// Attempts that are under way.
    pub in_flight: usize,
    /// Everything up to this position is matched with endpoints.
    pub matched: Position,
    /// Attempts by what they came to.
    pub attempts: [(&'static str, u64); 3],
}
