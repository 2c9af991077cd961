//! What operators see of a kind of entity and of one entity. It is read from atomics, so that it
//! works with a stuck actor too.

use std::time::Duration;

use super::ask_error::Cause;
use super::metrics::{Failure, Passivation, Restart};

/// The figures of one kind of entity. Counters run from the start of the process.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The kind's name.
    pub kind: &'static str,
    /// Entities in the directory, the quarantined ones among them.
    pub live: usize,
    /// How many of them are in quarantine.
    pub quarantined: usize,
    /// How many threads the entities run on.
    pub arbiters: usize,
    /// Whether new commands are refused.
    pub draining: bool,
    /// Mailbox permits taken, of all entities together.
    pub permits_taken: u64,
    /// The most mailbox permits that one entity has taken.
    pub permits_taken_max: u32,
    /// Memory that the states say they hold, in bytes.
    pub bytes: usize,
    /// Commands that entities have decided.
    pub handled: u64,
    /// Commands that were skipped because their callers had left before the start.
    pub abandoned: u64,
    /// Commands that were not answered in time although they had started.
    pub timed_out: u64,
    /// Actors that were started.
    pub activations: u64,
    /// Entities that left the directory, by cause.
    pub passivations: Vec<(Passivation, u64)>,
    /// Entities that were loaded again, by cause.
    pub restarts: Vec<(Restart, u64)>,
    /// How often an entity was quarantined.
    pub quarantines: u64,
    /// Commands that were refused with nothing done, by cause.
    pub refused: Vec<(Cause, u64)>,
    /// Commits that were refused because another copy of the entity had committed before.
    pub conflicts: u64,
    /// Commits whose outcome is not known.
    pub unknown: u64,
    /// From the call to the start of a command; one command in sixteen is measured.
    pub waiting: Percentiles,
    /// From the start to the decision; one command in sixteen is measured.
    pub handling: Percentiles,
    /// From the decision to the durable commit; one command in sixteen is measured.
    pub committing: Percentiles,
    /// The last crashes, latest first.
    pub failures: Vec<Failure>,
}

/// Two percentiles of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// The state of supervision of an entity in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The entity is not loaded yet.
    Loading,
    /// The entity is loaded.
    Active,
    /// The entity crashed and is restarted after this time.
    BackingOff(Duration),
    /// The entity crashed too often and gets one trial after this time.
    Quarantined(Duration),
}

/// The figures of one entity in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The state of supervision.
    pub life: Life,
    /// Mailbox permits taken.
    pub permits_taken: u32,
    /// The sequence number of the last change in memory.
    pub revision: u64,
    /// The sequence number of the last change that is durable.
    pub committed: u64,
    /// Memory that the state says it holds, in bytes.
    pub bytes: usize,
    /// Commands judged since it came into the directory.
    pub handled: u64,
    /// How long ago the last command came.
    pub idle: Duration,
    /// How often it was restarted after a crash.
    pub restarts: u64,
    /// The last crash of the entity.
    pub last_failure: Option<Failure>,
}
