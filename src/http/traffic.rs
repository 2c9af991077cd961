//! How many requests each operation had, how they ended and how long they took: counters, read by
//! `/metrics`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::operation::Operation;

/// Upper bounds of the histogram's buckets, in microseconds.
const BOUNDS_MICROS: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

/// Statuses from 100 to 599.
const STATUSES: usize = 500;

struct Row {
    by_status: Box<[AtomicU64]>,
    by_time: [AtomicU64; BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl Row {
    fn new() -> Self {
        let by_status = (0..STATUSES).map(|_| AtomicU64::new(0)).collect();
        Row {
            by_status,
            by_time: Default::default(),
            micros: AtomicU64::new(0),
        }
    }
}

/// The counters: a row for each operation, and one for all that leads to none.
pub(crate) struct Traffic {
    rows: Vec<Row>,
}

impl Traffic {
    pub(super) fn new(operations: usize) -> Self {
        Traffic {
            rows: (0..=operations).map(|_| Row::new()).collect(),
        }
    }

    /// Counts one request.
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

    /// The counters in Prometheus' text format.
    pub(super) fn text(&self, operations: &[Operation]) -> String {
        let mut text = String::from(
            "# HELP colloquy_http_requests_total Requests by operation and status.\n\
             # TYPE colloquy_http_requests_total counter\n",
        );
        for (number, row) in self.rows.iter().enumerate() {
            let (method, route) = name(operations, number);
            for (index, counter) in row.by_status.iter().enumerate() {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    let status = index + 100;
                    // Writing to a String can't fail.
                    let _ = writeln!(
                        text,
                        "colloquy_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {count}"
                    );
                }
            }
        }
        text.push_str(
            "# HELP colloquy_http_request_seconds Time from a request's head to its response.\n\
             # TYPE colloquy_http_request_seconds histogram\n",
        );
        for (number, row) in self.rows.iter().enumerate() {
            row.histogram(&mut text, name(operations, number));
        }
        text
    }
}

fn name(operations: &[Operation], number: usize) -> (&'static str, &'static str) {
    operations.get(number).map_or(("", ""), |operation| {
        (operation.verb.word(), operation.path)
    })
}

impl Row {
    fn histogram(&self, text: &mut String, (method, route): (&str, &str)) {
        let labels = format!("method=\"{method}\",route=\"{route}\"");
        let mut total = 0;
        let mut lines = String::new();
        for (index, counter) in self.by_time.iter().enumerate() {
            total += counter.load(Ordering::Relaxed);
            let bound = BOUNDS_MICROS
                .get(index)
                .map_or("+Inf".to_owned(), |bound| seconds(*bound));
            let _ = writeln!(
                lines,
                "colloquy_http_request_seconds_bucket{{{labels},le=\"{bound}\"}} {total}"
            );
        }
        if total > 0 {
            text.push_str(&lines);
            let sum = seconds(self.micros.load(Ordering::Relaxed));
            let _ = writeln!(text, "colloquy_http_request_seconds_sum{{{labels}}} {sum}");
            let _ = writeln!(
                text,
                "colloquy_http_request_seconds_count{{{labels}}} {total}"
            );
        }
    }
}

fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
