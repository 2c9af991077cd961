//! What operators see: of a kind, and of one entity. Read from atomics, so it works on a stuck
//! actor too.

use std::time::Duration;

use super::ask::Cause;
use super::metrics::{Failure, Passivation, Restart};

/// One kind of entity at a glance. Counters run from the start of the process.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The kind.
    pub kind: &'static str,
    /// Entities in the directory, the quarantined ones among them.
    pub live: usize,
    /// Entities in quarantine.
    pub quarantined: usize,
    /// How many threads they live on.
    pub arbiters: usize,
    /// Whether new asks are refused.
    pub draining: bool,
    /// Places taken.
    pub places: u64,
    /// The most places that one entity has taken.
    pub places_max: u32,
    /// Bytes that the states say they hold.
    pub bytes: usize,
    /// Commands judged.
    pub handled: u64,
    /// Commands skipped because their asker had left before the start.
    pub abandoned: u64,
    /// Asks that ran out of time although their work had started.
    pub timed_out: u64,
    /// Actors started.
    pub activations: u64,
    /// Entities taken out of the directory.
    pub passivations: Vec<(Passivation, u64)>,
    /// Entities that began anew from the store.
    pub restarts: Vec<(Restart, u64)>,
    /// Quarantines entered.
    pub quarantines: u64,
    /// Asks answered with nothing done.
    pub refused: Vec<(Cause, u64)>,
    /// Commits that another copy of the entity was ahead of.
    pub conflicts: u64,
    /// Commits whose outcome is not known.
    pub unknown: u64,
    /// From the ask to the start, sampled.
    pub waiting: Percentiles,
    /// From the start to the decision, sampled.
    pub handling: Percentiles,
    /// From the decision to the durable commit, sampled.
    pub committing: Percentiles,
    /// The last crashes, latest first.
    pub failures: Vec<Failure>,
}

/// How long something takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them took less.
    pub p50: Duration,
    /// One in a hundred took longer.
    pub p99: Duration,
}

/// Where an entity in the directory is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not loaded yet.
    Loading,
    /// Loaded.
    Active,
    /// Crashed, to be restarted after this time.
    BackingOff(Duration),
    /// Crashed too often; one trial after this time.
    Quarantined(Duration),
}

/// One entity in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Where it is in its life.
    pub life: Life,
    /// Places taken.
    pub places: u32,
    /// The sequence of the last change in memory.
    pub revision: u64,
    /// The sequence of the last change that is durable.
    pub committed: u64,
    /// Bytes that its state says it holds.
    pub bytes: usize,
    /// Commands judged since it came into the directory.
    pub handled: u64,
    /// How long ago it was last asked.
    pub idle: Duration,
    /// Restarts after a crash.
    pub restarts: u64,
    /// Its last crash.
    pub last_failure: Option<Failure>,
}
