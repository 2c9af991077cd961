//! How many requests each operation had, how they ended and how long they took: counters, read by
//! `/metrics`.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use colloquy_actors::metrics::{HistogramCounts, MetricsWriter};

use super::operation::Operation;

/// Upper bounds of the histogram's buckets, in microseconds.
const BOUNDS_MICROS: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

/// What one operation's requests have come to.
struct OperationMetrics {
    method: &'static str,
    route: &'static str,
    by_status: Box<[AtomicU64]>,
    by_time: [AtomicU64; BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl OperationMetrics {
    fn new(method: &'static str, route: &'static str) -> Self {
        let by_status = (0..STATUSES).map(|_| AtomicU64::new(0)).collect();
        OperationMetrics {
            method,
            route,
            by_status,
            by_time: Default::default(),
            micros: AtomicU64::new(0),
        }
    }

    /// How long its requests took; none where there were none.
    fn histogram(&self) -> Option<HistogramCounts> {
        let bounds = BOUNDS_MICROS.into_iter().map(seconds);
        let buckets: Vec<_> = bounds
            .chain([f64::INFINITY])
            .zip(
                self.by_time
                    .iter()
                    .map(|count| count.load(Ordering::Relaxed)),
            )
            .collect();
        buckets
            .iter()
            .any(|(_, count)| *count > 0)
            .then(|| HistogramCounts {
                sum: seconds(self.micros.load(Ordering::Relaxed)),
                buckets,
            })
    }
}

/// What all operations' requests have come to since the start of the process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestTotals {
    /// Answered as they were asked: statuses below 400.
    pub(crate) answered: u64,
    /// Refused for what they ask: 400 to 499 but 429.
    pub(crate) refused: u64,
    /// Beyond a limit: 429.
    pub(crate) limited: u64,
    /// Failed here: 500 and more.
    pub(crate) failed: u64,
    /// How many took no longer than the bound in the same place, and than no lower one.
    pub(crate) by_time: [u64; BOUNDS_MICROS.len() + 1],
}

/// The bound, in milliseconds, of each of [`RequestTotals::by_time`] but the last, which has none.
pub(crate) fn bounds_ms() -> impl Iterator<Item = f64> {
    BOUNDS_MICROS.into_iter().map(|bound| seconds(bound) * 1e3)
}

/// Counters of requests: a row for each operation, and one for all paths that lead to none.
pub(crate) struct RequestMetrics {
    rows: Vec<OperationMetrics>,
}

impl RequestMetrics {
    pub(super) fn new(operations: &[Operation]) -> Self {
        let rows = operations
            .iter()
            .map(|operation| OperationMetrics::new(operation.verb.word(), operation.path));
        RequestMetrics {
            rows: rows.chain([OperationMetrics::new("", "")]).collect(),
        }
    }

    /// Counts one request, with its status and how long it took.
    pub(super) fn count(&self, operation: Option<usize>, status: u16, took: Duration) {
        let Some(row) = self.rows.get(operation.unwrap_or(self.rows.len() - 1)) else {
            return;
        };
        let status = usize::from(status)
            .checked_sub(100)
            .and_then(|index| row.by_status.get(index));
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS
            .iter()
            .position(|bound| micros <= *bound)
            .unwrap_or(BOUNDS_MICROS.len());
        for counter in [status, row.by_time.get(bucket)].into_iter().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        row.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What the requests of all operations have come to; pages, and paths that lead nowhere, are no
    /// operation.
    pub(crate) fn totals(&self) -> RequestTotals {
        let mut totals = RequestTotals::default();
        let operations = self.rows.iter().filter(|row| !row.route.is_empty());
        for row in operations {
            for (index, counter) in row.by_status.iter().enumerate() {
                let sum = match index + 100 {
                    ..400 => &mut totals.answered,
                    429 => &mut totals.limited,
                    400..500 => &mut totals.refused,
                    500.. => &mut totals.failed,
                };
                *sum += counter.load(Ordering::Relaxed);
            }
            for (sum, counter) in totals.by_time.iter_mut().zip(&row.by_time) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        totals
    }

    /// Writes the counters as metrics.
    pub(super) fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let requests = self.rows.iter().flat_map(|row| {
            row.by_status
                .iter()
                .enumerate()
                .map(|(index, counter)| (index + 100, counter.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count > 0)
                .map(|(status, count)| {
                    let labels = [
                        ("method", Cow::Borrowed(row.method)),
                        ("route", Cow::Borrowed(row.route)),
                        ("status", Cow::Owned(status.to_string())),
                    ];
                    (labels, count)
                })
        });
        out.counters(
            "http_requests_total",
            "Requests by operation and status.",
            requests,
        )?;
        let times = self.rows.iter().filter_map(|row| {
            let labels = [("method", row.method), ("route", row.route)];
            Some((labels, row.histogram()?))
        });
        out.histograms(
            "http_request_seconds",
            "Time from a request's head to its response.",
            times,
        )
    }
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}
