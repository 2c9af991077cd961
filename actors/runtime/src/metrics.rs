//! Counters and histograms of one kind of entity. Nothing is counted per entity, so that an idle
//! one costs nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use colloquy_model::time::Timestamp;
use parking_lot::Mutex;

use super::ask_error::Cause;
use super::percentiles::Percentiles;

const FAILURES_KEPT: usize = 20;
const BUCKETS: usize = 160;

/// Why an entity left the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passivation {
    /// It was idle for longer than the policy allows.
    Idle,
    /// More entities were active than the policy allows.
    Active,
    /// The states held more memory than the policy allows.
    Bytes,
    /// Nothing is stored under its id, or it could not be loaded.
    Vacant,
    /// An operator asked for it.
    Operator,
}

impl Passivation {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 5] = [
        Self::Idle,
        Self::Active,
        Self::Bytes,
        Self::Vacant,
        Self::Operator,
    ];

    /// The value of a metric's label for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Bytes => "bytes",
            Self::Vacant => "vacant",
            Self::Operator => "operator",
        }
    }
}

/// Why an entity was loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restart {
    /// The entity panicked.
    Crash,
    /// Another copy of it had committed meanwhile.
    Conflict,
    /// A commit failed, or its outcome is unknown.
    Store,
    /// The thread on which it ran had ended.
    Thread,
    /// An operator asked for it.
    Operator,
}

impl Restart {
    /// All causes, in the order of the counters.
    pub const ALL: [Self; 5] = [
        Self::Crash,
        Self::Conflict,
        Self::Store,
        Self::Thread,
        Self::Operator,
    ];

    /// The value of a metric's label for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Conflict => "conflict",
            Self::Store => "store",
            Self::Thread => "thread",
            Self::Operator => "operator",
        }
    }
}

/// A failure that cost an actor its state in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The id of the actor that failed, as operators name it.
    pub id: String,
    /// When the failure was recorded, by the wall clock.
    pub at: Timestamp,
    /// What failed; never [`Restart::Operator`].
    pub cause: Restart,
    /// The message of the panic, or what happened in a few words.
    pub text: String,
}

/// The counters and histograms of one kind.
pub(super) struct Metrics {
    pub(super) abandoned: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) quarantines: AtomicU64,
    restarts: [AtomicU64; Restart::ALL.len()],
    refused: [AtomicU64; Cause::ALL.len()],
    pub(super) waiting: Histogram,
    pub(super) handling: Histogram,
    pub(super) committing: Histogram,
    failures: Mutex<VecDeque<Failure>>,
}

impl Metrics {
    /// The figures of a kind of which no actor has lived yet.
    pub(super) fn new() -> Self {
        Self {
            abandoned: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            quarantines: AtomicU64::new(0),
            restarts: [const { AtomicU64::new(0) }; Restart::ALL.len()],
            refused: [const { AtomicU64::new(0) }; Cause::ALL.len()],
            waiting: Histogram::new(),
            handling: Histogram::new(),
            committing: Histogram::new(),
            failures: Mutex::new(VecDeque::new()),
        }
    }

    /// Counts an entity that is loaded again.
    pub(super) fn restarted(&self, why: Restart) {
        if let Some(counter) = self.restarts.get(why as usize) {
            count(counter);
        }
    }

    /// Counts a command that was not done.
    pub(super) fn refused(&self, why: Cause) {
        if let Some(counter) = self.refused.get(why as usize) {
            count(counter);
        }
    }

    /// Remembers a failure; the last 20 are kept.
    pub(super) fn failed(&self, failure: Failure) {
        let mut failures = self.failures.lock();
        if failures.len() == FAILURES_KEPT {
            failures.pop_front();
        }
        failures.push_back(failure);
    }

    /// The last failures, latest first.
    pub(super) fn failures(&self) -> Vec<Failure> {
        self.failures.lock().iter().rev().cloned().collect()
    }

    /// How many entities were loaded again, by cause.
    pub(super) fn restarts(&self) -> Vec<(Restart, u64)> {
        Restart::ALL
            .into_iter()
            .zip(self.restarts.iter().map(read))
            .collect()
    }

    /// How many commands were not done, by cause.
    pub(super) fn refusals(&self) -> Vec<(Cause, u64)> {
        Cause::ALL
            .into_iter()
            .zip(self.refused.iter().map(read))
            .collect()
    }
}

/// Adds one to a counter that several threads may write.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds one to a counter that no other thread writes meanwhile, which needs no locked instruction.
pub(super) fn count_alone(counter: &AtomicU64) {
    counter.store(read(counter) + 1, Ordering::Relaxed);
}

/// Reads what a counter has come to.
pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// A histogram of durations. Its buckets are a quarter of a power of two wide, so that a percentile
/// is at most a quarter too large.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Histogram {
    /// A histogram without durations.
    pub fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
        }
    }

    /// Adds one duration to the bucket that it falls into.
    pub fn record(&self, took: Duration) {
        self.record_many(took, 1);
    }

    /// Adds a duration that so many operations had in common.
    pub fn record_many(&self, took: Duration, many: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(nanos)) {
            bucket.fetch_add(many, Ordering::Relaxed);
            self.sum_ns
                .fetch_add(nanos.saturating_mul(many), Ordering::Relaxed);
        }
    }

    /// Its median and its 99th percentile.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
        }
    }

    /// The duration below which this part (0 to 1) of the recorded ones lies; zero when there are
    /// none.
    pub fn quantile(&self, part: f64) -> Duration {
        let total: u64 = self.buckets.iter().map(read).sum();
        let rank = (total as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            seen += read(bucket);
            if seen >= rank {
                return Duration::from_nanos(ceiling_of(at));
            }
        }
        Duration::ZERO
    }

    /// The mean of the recorded durations; zero when there are none.
    pub fn mean(&self) -> Duration {
        let total: u64 = self.buckets.iter().map(read).sum();
        Duration::from_nanos(read(&self.sum_ns).checked_div(total).unwrap_or(0))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(4);
    let power = 63 - nanos.leading_zeros();
    let quarter = (nanos >> (power - 2)) & 3;
    ((power - 2) as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

fn ceiling_of(bucket: usize) -> u64 {
    let power = (bucket / 4) as u32 + 2;
    let quarter = (bucket % 4) as u64;
    (5 + quarter) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_right_to_within_a_quarter() {
        let histogram = Histogram::new();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (part, exact) in [(0.5, 500.0), (0.99, 990.0)] {
            let told = histogram.quantile(part).as_secs_f64() * 1e6;
            assert!(
                (exact..=exact * 1.25).contains(&told),
                "{part}: {told} for {exact}"
            );
        }
        assert_eq!(histogram.mean().as_micros(), 500);
    }
}
