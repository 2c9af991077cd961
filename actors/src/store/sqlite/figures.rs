//! What the writer has done, in numbers that operators may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters; the writer alone adds to them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    commits: AtomicU64,
    rows: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    queue_max: AtomicU64,
    renames: AtomicU64,
}

impl Figures {
    pub(super) fn commit(&self, rows: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows
            .fetch_add(u64::try_from(rows).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn batch(&self, _works: usize, took: Duration) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batch_micros.fetch_add(
            u64::try_from(took.as_micros()).unwrap_or(0),
            Ordering::Relaxed,
        );
    }

    pub(super) fn queue(&self, waiting: usize) {
        self.queue_max
            .fetch_max(u64::try_from(waiting).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn renames_waiting(&self, customers: usize) {
        self.renames
            .store(u64::try_from(customers).unwrap_or(0), Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn list(&self) -> Vec<(&'static str, f64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        vec![
            ("store_commits_total", read(&self.commits)),
            ("store_rows_total", read(&self.rows)),
            ("store_batches_total", read(&self.batches)),
            ("store_batch_seconds_total", read(&self.batch_micros) / 1e6),
            ("store_batch_commits_max", read(&self.queue_max)),
            ("store_renames_waiting", read(&self.renames)),
        ]
    }
}
