//! Two percentiles of a duration, as operators read them.

use std::time::Duration;

/// Two percentiles of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median: half of what was measured took no longer.
    pub p50: Duration,
    /// The 99th percentile: one in a hundred took longer.
    pub p99: Duration,
}
