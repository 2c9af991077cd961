//! What a store counts about itself, for operators.

use colloquy_model::time::Timestamp;
use colloquy_runtime::Percentiles;

/// One number that a store tells operators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreMetric {
    /// The metric's name without the program's prefix, such as `store_commits_total`.
    pub name: &'static str,
    /// What it counts, as one sentence.
    pub help: &'static str,
    /// The number, with how it moves.
    pub value: StoreValue,
}

/// A metric's number, by how it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoreValue {
    /// A count since the process started, which only grows.
    Counter(u64),
    /// Seconds since the process started, which only grow.
    Seconds(f64),
    /// An amount at this moment, which may fall.
    Gauge(u64),
}

/// How a store is doing at this moment.
#[derive(Debug, Clone, Copy)]
pub struct StoreHealth {
    /// Bytes of the file that holds what is committed, or of all collections but the log.
    pub database_bytes: u64,
    /// Bytes of the log in front of it, or of the log of changes.
    pub log_bytes: u64,
    /// How long the transactions took that made commits durable, as each of their commits had it.
    pub commit: Percentiles,
    /// How many commits one transaction made durable.
    pub batch: BatchSizes,
    /// Commits and other works that the writer has not finished.
    pub queue: u64,
    /// The latest move of what the log holds into the file.
    pub checkpoint: Checkpoint,
}

/// Two percentiles of the number of commits in one transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchSizes {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
}

/// A move of what the log holds into the file.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// When it ended.
    pub at: Timestamp,
    /// How many pages of the log were in the file then.
    pub pages: u32,
}
