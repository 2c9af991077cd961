//! How often the writer does what it does beside commits, and whether it does it for the last time.

use std::time::Duration;

/// How often the writer does what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// It looks for what is due when nothing comes.
    pub(super) tick: Duration,
    /// A header lags for at most so long.
    pub(super) age_max: Duration,
    /// Keys' last uses are written down, and expired idempotency keys looked for.
    pub(super) uses_every: Duration,
    /// A redacted text leaves the log.
    pub(super) erase_within: Duration,
    /// Expired events are looked for.
    pub(super) trim_every: Duration,
    /// Events are kept for so long; none: for ever.
    pub(super) events_kept: Option<Duration>,
    /// Between two slices of what can wait, at least, and three times what a slice took: commits
    /// have the writer for most of the time, however much there is to do behind.
    pub(super) rest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            tick: Duration::from_millis(500),
            age_max: Duration::from_secs(60),
            uses_every: Duration::from_secs(30),
            erase_within: Duration::from_secs(10),
            trim_every: Duration::from_secs(60),
            events_kept: None,
            rest: Duration::from_millis(2),
        }
    }
}

/// Whether the store goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A bounded slice of what is due is done: commits wait for it.
    Running,
    /// It closes: all is done that a start would have to repeat, and nothing that can wait.
    Closing,
}
