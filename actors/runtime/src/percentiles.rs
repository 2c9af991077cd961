//! Two percentiles of a duration, as operators read them.

use std::time::Duration;

/// Two percentiles of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}
