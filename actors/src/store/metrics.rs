//! What a store counts about itself, for operators.

/// One number that a store tells operators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreMetric {
    /// The metric's name without the program's prefix, such as `store_commits_total`.
    pub name: &'static str,
    /// What it counts, as one sentence.
    pub help: &'static str,
    /// The number.
    pub value: StoreValue,
}

/// A metric's number, by how it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoreValue {
    /// A count since the process started, which only grows.
    Counter(u64),
    /// Seconds since the process started, which only grow.
    Seconds(f64),
    /// An amount at this moment.
    Gauge(u64),
}
