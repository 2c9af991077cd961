//! What operators see of a kind of entity and of one entity. It is read from atomics, so that it
//! works with a stuck actor too.

use std::time::Duration;

use super::ask_error::Cause;
use super::metrics::{Failure, Metrics, Passivation, Restart, read};
use super::percentiles::Percentiles;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// The figures of one kind of entity. Counters run from the start of the process.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The kind's name in paths and metrics, such as `conversation`.
    pub kind: &'static str,
    /// Entities in the directory, the quarantined ones among them.
    pub live: usize,
    /// How many of them are in each state.
    pub by_state: StateCounts,
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
    /// Entities that came into the directory; less those that left it, the live ones.
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
    /// The last 20 failures, latest first.
    pub failures: Vec<Failure>,
}

impl Overview {
    /// What is counted of a kind as a whole; what its actors add is zero yet.
    pub(super) fn of(kind: &'static str, metrics: &Metrics) -> Self {
        Self {
            kind,
            live: 0,
            by_state: StateCounts::default(),
            arbiters: 0,
            draining: false,
            permits_taken: 0,
            permits_taken_max: 0,
            bytes: 0,
            handled: 0,
            abandoned: read(&metrics.abandoned),
            timed_out: read(&metrics.timed_out),
            activations: 0,
            passivations: Passivation::ALL.map(|why| (why, 0)).to_vec(),
            restarts: metrics.restarts(),
            quarantines: read(&metrics.quarantines),
            refused: metrics.refusals(),
            conflicts: read(&metrics.conflicts),
            unknown: read(&metrics.unknown),
            waiting: metrics.waiting.percentiles(),
            handling: metrics.handling.percentiles(),
            committing: metrics.committing.percentiles(),
            failures: metrics.failures(),
        }
    }
}

/// How many entities in the directory are in each state of supervision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Those whose state is being loaded.
    pub loading: usize,
    /// Those that take commands, with or without a state in memory, those that are due for their
    /// trial among them.
    pub ready: usize,
    /// Those that crashed and wait for their restart.
    pub backing_off: usize,
    /// Those that crashed too often and whose quarantine runs.
    pub quarantined: usize,
}

impl StateCounts {
    /// Counts one more entity, which is in this state.
    pub(super) fn add(&mut self, state: ActorState) {
        match state {
            ActorState::Loading => self.loading += 1,
            ActorState::Ready => self.ready += 1,
            ActorState::BackingOff => self.backing_off += 1,
            ActorState::Quarantined => self.quarantined += 1,
            ActorState::Passive => {}
        }
    }
}

/// The name of an actor's state, as operators read it and filter by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActorState {
    /// It is in the directory and its state is being loaded.
    Loading,
    /// It takes commands and refuses none for its state of supervision: also after a quarantine, of
    /// which the next command is the trial.
    Ready,
    /// It crashed and refuses commands until its restart.
    BackingOff,
    /// It crashed too often and refuses commands until its quarantine ends.
    Quarantined,
    /// It is stored and not in memory.
    Passive,
}

/// The state of supervision of an entity in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its first load is still to come, or one is under way.
    Loading,
    /// It takes commands. After a crash or a quarantine the next one loads it, and the first after a
    /// quarantine is its trial.
    Ready,
    /// The entity crashed and is restarted after this time.
    BackingOff(Duration),
    /// The entity crashed too often and gets one trial from this instant on.
    Quarantined(Timestamp),
    /// The entity is stored and not in memory.
    Passive,
}

impl Life {
    /// The state without its times.
    pub fn state(self) -> ActorState {
        match self {
            Self::Loading => ActorState::Loading,
            Self::Ready => ActorState::Ready,
            Self::BackingOff(_) => ActorState::BackingOff,
            Self::Quarantined(_) => ActorState::Quarantined,
            Self::Passive => ActorState::Passive,
        }
    }
}

/// The figures of one entity. Of one that is not in memory, all but its revision are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The state of its supervision, with its times.
    pub life: Life,
    /// Commands that it holds, queued and under way.
    pub permits_taken: u32,
    /// The sequence number of the last change in memory.
    pub revision: Sequence,
    /// The sequence number of the last change that is durable.
    pub committed: Sequence,
    /// Memory that the state says it holds, in bytes.
    pub bytes: usize,
    /// Commands judged since it came into the directory.
    pub handled: u64,
    /// When the last command came; `None` for one that is not in memory.
    pub last_used: Option<Timestamp>,
    /// How often it was restarted, for whatever cause, since it came into the directory.
    pub restarts: u64,
    /// Its last failure since then.
    pub last_failure: Option<Failure>,
}

impl Inspection {
    /// An entity that is stored and not in memory.
    pub(super) fn passive(revision: Sequence) -> Self {
        Self {
            life: Life::Passive,
            permits_taken: 0,
            revision,
            committed: revision,
            bytes: 0,
            handled: 0,
            last_used: None,
            restarts: 0,
            last_failure: None,
        }
    }
}

/// Which entities an operator wants to see, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct InstanceQuery {
    /// Only entities in this state are wanted; `None`: in any.
    pub state: Option<ActorState>,
    /// What they are sorted by, the largest or latest first.
    pub order: InstanceOrder,
    /// How many entities are wanted at most.
    pub limit: usize,
}

/// What entities are sorted by, the largest or latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceOrder {
    /// By the commands that they hold.
    Mailbox,
    /// By the memory that their state takes.
    Bytes,
    /// By how often they were restarted.
    Restarts,
    /// By when they were last used.
    LastUsed,
}

/// One actor, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The id by which operators name it.
    pub id: String,
    /// What was seen of it, at one moment.
    pub seen: Inspection,
}
