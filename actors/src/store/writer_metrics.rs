//! What the writer has done, in numbers that operators may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::store::{BatchSizes, StoreMetric, StoreValue};
use colloquy_runtime::{Histogram, Percentiles};

/// The most commits that a transaction may hold.
const BATCH_MAX: usize = 1_024;

/// The writer's counters and gauges; but for what it is sent, the writer alone changes them.
#[derive(Debug)]
pub(super) struct WriterCounters {
    /// Works that were sent to the writer …
    sent: AtomicU64,
    /// … and those of them that it has finished.
    finished: AtomicU64,
    commit_time: Histogram,
    /// How many transactions held so many commits.
    batch_sizes: Box<[AtomicU64]>,
    commits: AtomicU64,
    rows: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    batch_commits_max: AtomicU64,
    renames: AtomicU64,
}

impl Default for WriterCounters {
    fn default() -> Self {
        WriterCounters {
            sent: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            commit_time: Histogram::new(),
            batch_sizes: (0..=BATCH_MAX).map(|_| AtomicU64::new(0)).collect(),
            commits: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            batch_micros: AtomicU64::new(0),
            batch_commits_max: AtomicU64::new(0),
            renames: AtomicU64::new(0),
        }
    }
}

impl WriterCounters {
    /// Counts a work that is sent to the writer; to be called under the lock of its inbox.
    pub(super) fn sent(&self) {
        let sent = self.sent.load(Ordering::Relaxed) + 1;
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Counts a work that is about to be sent to the writer, where others are sent at the same time.
    pub(super) fn sending(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts works that the writer has finished.
    pub(super) fn finished(&self, works: usize) {
        self.finished.fetch_add(amount(works), Ordering::Relaxed);
    }

    /// Counts a transaction of so many works, some of them commits.
    pub(super) fn transaction(&self, works: usize, commits: usize, took: Duration) {
        self.finished(works);
        if commits > 0 {
            self.commit_time.record_many(took, amount(commits));
            if let Some(size) = self.batch_sizes.get(commits.min(BATCH_MAX)) {
                size.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Works that the writer has not finished.
    pub(super) fn waiting(&self) -> u64 {
        let finished = self.finished.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(finished)
    }

    /// How long the transactions of commits took.
    pub(super) fn commit_time(&self) -> Percentiles {
        self.commit_time.percentiles()
    }

    /// How many commits the transactions held.
    pub(super) fn batch_sizes(&self) -> BatchSizes {
        let counts: Vec<u64> = self
            .batch_sizes
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        let total: u64 = counts.iter().sum();
        let size_at = |percent: u64| {
            let rank = (total * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            amount(found.unwrap_or(0))
        };
        BatchSizes {
            p50: size_at(50),
            p99: size_at(99),
        }
    }

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

    /// Reads all of them as metrics for operators.
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
                "Batches of commits made durable together.",
                StoreValue::Counter(read(&self.batches)),
            ),
            metric(
                "store_batch_seconds_total",
                "Time that the batches took until they were durable.",
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

fn amount(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_batches_are_exact() {
        let counters = WriterCounters::default();
        assert_eq!(counters.batch_sizes(), BatchSizes::default());
        for commits in 1..=100 {
            counters.sent();
            counters.transaction(1, commits, Duration::from_millis(1));
        }
        counters.sent();
        counters.transaction(0, 0, Duration::from_secs(9));
        let sizes = counters.batch_sizes();
        assert_eq!((sizes.p50, sizes.p99), (50, 99));
        assert_eq!(counters.waiting(), 1);
        let p99 = counters.commit_time().p99;
        assert!(p99 < Duration::from_millis(2), "{p99:?}");
    }
}
