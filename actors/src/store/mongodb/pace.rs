//! How often the tasks beside the writer look after what has no other sign.

use std::time::Duration;

/// How often what has no other sign is looked after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How often last uses of keys are written down.
    pub(super) uses_every: Duration,
    /// How often the server is asked how much it holds.
    pub(super) sizes_every: Duration,
    /// How often old answers are let go.
    pub(super) answers_every: Duration,
    /// How long events are kept; none: for ever.
    pub(super) events_kept: Option<Duration>,
    /// How often events that are too old are looked for, at least.
    pub(super) trim_every: Duration,
    /// How often what was written is linked into the audit trail's chain.
    pub(super) link_every: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            uses_every: Duration::from_secs(30),
            sizes_every: Duration::from_mins(1),
            answers_every: Duration::from_mins(1),
            events_kept: None,
            trim_every: Duration::from_mins(10),
            link_every: Duration::from_secs(1),
        }
    }
}
