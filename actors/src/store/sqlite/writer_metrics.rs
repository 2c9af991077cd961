//! What the writer has done, in numbers that operators may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::store::{StoreMetric, StoreValue};

/// The writer's counters and gauges; the writer alone changes them.
#[derive(Debug, Default)]
pub(super) struct WriterCounters {
    commits: AtomicU64,
    rows: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    batch_commits_max: AtomicU64,
    renames: AtomicU64,
}

impl WriterCounters {
    pub(super) fn commit(&self, rows: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows
            .fetch_add(u64::try_from(rows).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn batch(&self, took: Duration) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batch_micros.fetch_add(
            u64::try_from(took.as_micros()).unwrap_or(0),
            Ordering::Relaxed,
        );
    }

    pub(super) fn queue(&self, waiting: usize) {
        self.batch_commits_max
            .fetch_max(u64::try_from(waiting).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn renames_waiting(&self, customers: usize) {
        self.renames
            .store(u64::try_from(customers).unwrap_or(0), Ordering::Relaxed);
    }

    /// Reads them all.
    pub(super) fn metrics(&self) -> Vec<StoreMetric> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let metric = |name, help, value| StoreMetric { name, help, value };
        vec![
            metric(
                "store_commits_total",
                "Commits written.",
                StoreValue::Counter(read(&self.commits)),
            ),
            metric(
                "store_rows_total",
                "Rows written to the log of changes.",
                StoreValue::Counter(read(&self.rows)),
            ),
            metric(
                "store_batches_total",
                "Batches of commits made durable, each with one fsync.",
                StoreValue::Counter(read(&self.batches)),
            ),
            metric(
                "store_batch_seconds_total",
                "Time that the batches took, fsync included.",
                StoreValue::Seconds(Duration::from_micros(read(&self.batch_micros)).as_secs_f64()),
            ),
            metric(
                "store_batch_commits_max",
                "The most commits that one batch held.",
                StoreValue::Gauge(read(&self.batch_commits_max)),
            ),
            metric(
                "store_renames_waiting",
                "Customers whose new name is not copied to all their conversations yet.",
                StoreValue::Gauge(read(&self.renames)),
            ),
        ]
    }
}
