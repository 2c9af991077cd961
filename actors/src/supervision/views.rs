//! The shapes in which operators see kinds of actors and single ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use colloquy_model::id::NodeId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{
    ActorState, Failure, Inspection, Instance, InstanceOrder, InstanceQuery, Life, Overview,
    Percentiles, StateCounts,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The failures that are shown of a kind.
const FAILURES_MAX: usize = 20;

/// The figures of one kind of actor, added up over all nodes that serve the store and answer within
/// a few seconds. Counters run from the start of each process.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorKind)]
pub struct ActorKindView {
    /// The kind's name, such as `conversation`.
    pub(super) kind: String,
    /// How many are in memory, those in quarantine among them.
    live: usize,
    /// How many of them are in each state.
    by_state: StateCountsView,
    /// How full their mailboxes are.
    mailbox: MailboxView,
    /// Bytes that their states hold.
    bytes: usize,
    /// Commands that were decided.
    handled: u64,
    /// Commands that were refused with nothing done, by cause.
    refused: BTreeMap<String, u64>,
    /// How long commands took to be decided; one in sixteen is measured, and 0 stands for none. Of
    /// several nodes `p50` is the mean, weighted by their commands, and `p99` the largest.
    working_ms: PercentilesView,
    /// How long commands waited for their turn, measured and added up in the same way.
    waiting_ms: PercentilesView,
    /// How often an actor came into memory. Less all `passivations` together it is `live`: a
    /// restart, a quarantine and its trial count for neither.
    activations: u64,
    /// How often one left memory, by reason.
    passivations: BTreeMap<String, u64>,
    /// How often one began anew from what is stored, by cause. A crash that ends in quarantine
    /// is none.
    restarts: BTreeMap<String, u64>,
    /// Commits that were refused because another copy of the entity had committed before.
    conflicts: u64,
    /// The newest 20, the latest first.
    last_failures: Vec<FailureView>,
}

/// How many actors are in each state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorStateCounts)]
struct StateCountsView {
    loading: usize,
    ready: usize,
    backing_off: usize,
    quarantined: usize,
}

/// How full mailboxes are: commands that are queued or under way.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorMailbox)]
struct MailboxView {
    /// Of all actors of the kind together.
    used: u64,
    /// The most that one of them has.
    max: u32,
}

/// Two percentiles of a time in milliseconds, right to within a quarter.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorPercentiles)]
pub(super) struct PercentilesView {
    p50: f64,
    p99: f64,
}

/// A failure that cost an actor its state in memory.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorFailure)]
struct FailureView {
    /// The id of the actor that failed.
    id: String,
    /// When the failure was recorded.
    at: Timestamp,
    /// What failed: `crash`, `conflict`, `store` or `thread`.
    cause: String,
    /// The panic's message, or a few words.
    message: String,
}

/// One actor, as operators see it in a list and by itself.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ActorInstance)]
pub struct InstanceView {
    /// The id by which it is named in paths.
    id: String,
    /// The node that has it in memory, where several may serve the store; each that has it has one
    /// of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    node: Option<NodeId>,
    /// The state of its supervision.
    pub(super) state: ActorStateView,
    /// Commands that it holds, queued and under way.
    mailbox_used: u32,
    /// Bytes that its state holds; 0 while none is loaded, as after a crash until its next command.
    bytes: usize,
    /// The number of its last change.
    revision: u64,
    /// How often it was restarted, for whatever cause, since it came into memory.
    restarts: u64,
    /// When its last command came; null for one that is not in memory.
    #[schema(required = true)]
    last_used_at: Option<Timestamp>,
    /// When its quarantine ends, after which its next command is a trial; null where it is in none,
    /// or in none any more.
    #[schema(required = true)]
    quarantined_until: Option<Timestamp>,
    /// Its last failure since it came into memory.
    #[schema(required = true)]
    last_failure: Option<FailureView>,
}

/// The state of an actor's supervision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ActorState)]
pub enum ActorStateView {
    /// Its state is being loaded.
    Loading,
    /// It takes commands; after a crash or a quarantine the next one loads its state. So is one whose
    /// quarantine has ended, although the next command is its trial.
    Ready,
    /// It crashed and waits for its restart.
    BackingOff,
    /// It crashed too often and refuses commands until `quarantined_until`.
    Quarantined,
    /// It is stored and not in memory.
    Passive,
}

impl From<ActorStateView> for ActorState {
    fn from(state: ActorStateView) -> Self {
        match state {
            ActorStateView::Loading => Self::Loading,
            ActorStateView::Ready => Self::Ready,
            ActorStateView::BackingOff => Self::BackingOff,
            ActorStateView::Quarantined => Self::Quarantined,
            ActorStateView::Passive => Self::Passive,
        }
    }
}

impl From<ActorState> for ActorStateView {
    fn from(state: ActorState) -> Self {
        match state {
            ActorState::Loading => Self::Loading,
            ActorState::Ready => Self::Ready,
            ActorState::BackingOff => Self::BackingOff,
            ActorState::Quarantined => Self::Quarantined,
            ActorState::Passive => Self::Passive,
        }
    }
}

impl From<Overview> for ActorKindView {
    fn from(overview: Overview) -> Self {
        let passivations = overview.passivations.into_iter();
        let restarts = overview.restarts.into_iter();
        let refused = overview.refused.into_iter();
        ActorKindView {
            kind: overview.kind.to_owned(),
            live: overview.live,
            by_state: overview.by_state.into(),
            mailbox: MailboxView {
                used: overview.permits_taken,
                max: overview.permits_taken_max,
            },
            bytes: overview.bytes,
            handled: overview.handled,
            refused: refused
                .map(|(cause, n)| (cause.label().to_owned(), n))
                .collect(),
            working_ms: overview.handling.into(),
            waiting_ms: overview.waiting.into(),
            activations: overview.activations,
            passivations: passivations
                .map(|(why, n)| (why.label().to_owned(), n))
                .collect(),
            restarts: restarts
                .map(|(why, n)| (why.label().to_owned(), n))
                .collect(),
            conflicts: overview.conflicts,
            last_failures: overview
                .failures
                .into_iter()
                .map(FailureView::from)
                .collect(),
        }
    }
}

impl ActorKindView {
    /// Adds the figures of the same kind at another node.
    pub(super) fn add(&mut self, other: ActorKindView) {
        let all = (self.handled + other.handled).max(1) as f64;
        let share = other.handled as f64 / all;
        self.working_ms.add(&other.working_ms, share);
        self.waiting_ms.add(&other.waiting_ms, share);
        self.live += other.live;
        self.by_state.add(&other.by_state);
        self.mailbox.used += other.mailbox.used;
        self.mailbox.max = self.mailbox.max.max(other.mailbox.max);
        self.bytes += other.bytes;
        self.handled += other.handled;
        self.activations += other.activations;
        self.conflicts += other.conflicts;
        for (sums, added) in [
            (&mut self.refused, other.refused),
            (&mut self.passivations, other.passivations),
            (&mut self.restarts, other.restarts),
        ] {
            for (cause, count) in added {
                *sums.entry(cause).or_default() += count;
            }
        }
        self.last_failures.extend(other.last_failures);
        self.last_failures
            .sort_by_key(|failure| Reverse(failure.at));
        self.last_failures.truncate(FAILURES_MAX);
    }
}

impl StateCountsView {
    fn add(&mut self, other: &StateCountsView) {
        self.loading += other.loading;
        self.ready += other.ready;
        self.backing_off += other.backing_off;
        self.quarantined += other.quarantined;
    }
}

impl From<StateCounts> for StateCountsView {
    fn from(counts: StateCounts) -> Self {
        StateCountsView {
            loading: counts.loading,
            ready: counts.ready,
            backing_off: counts.backing_off,
            quarantined: counts.quarantined,
        }
    }
}

impl From<Percentiles> for PercentilesView {
    fn from(Percentiles { p50, p99 }: Percentiles) -> Self {
        PercentilesView {
            p50: milliseconds(p50),
            p99: milliseconds(p99),
        }
    }
}

impl PercentilesView {
    /// Adds those of another node, which decided this share of all commands.
    fn add(&mut self, other: &PercentilesView, share: f64) {
        let mean = self.p50 * (1.0 - share) + other.p50 * share;
        self.p50 = (mean * 1e3).round() / 1e3;
        self.p99 = self.p99.max(other.p99);
    }
}

/// A time in milliseconds with three digits behind the point.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl From<Failure> for FailureView {
    fn from(failure: Failure) -> Self {
        FailureView {
            id: failure.id,
            at: failure.at,
            cause: failure.cause.label().to_owned(),
            message: failure.text,
        }
    }
}

impl InstanceView {
    /// Shapes an actor as it was seen at a node.
    pub(super) fn at(instance: Instance, node: Option<NodeId>) -> Self {
        let Instance { id, seen } = instance;
        let Inspection {
            life,
            permits_taken,
            revision,
            bytes,
            last_used,
            restarts,
            last_failure,
            committed: _,
            handled: _,
        } = seen;
        let quarantined_until = match life {
            Life::Quarantined(until) => Some(until),
            Life::Loading | Life::Ready | Life::BackingOff(_) | Life::Passive => None,
        };
        let state = ActorStateView::from(life.state());
        InstanceView {
            id,
            node: node.filter(|_| state != ActorStateView::Passive),
            state,
            mailbox_used: permits_taken,
            bytes,
            revision: revision.0,
            restarts,
            last_used_at: last_used,
            quarantined_until,
            last_failure: last_failure.map(FailureView::from),
        }
    }

    /// By how much it needs an operator: by its state, then by when it was used.
    pub(super) fn need(&self) -> (u8, Option<Timestamp>) {
        let rank = match self.state {
            ActorStateView::Passive => 0,
            ActorStateView::Ready => 1,
            ActorStateView::Loading => 2,
            ActorStateView::BackingOff => 3,
            ActorStateView::Quarantined => 4,
        };
        (rank, self.last_used_at)
    }
}

/// Which actors of a kind are wanted, and how many.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct InstancesWanted {
    /// Only those in this state; none: in any.
    pub state: Option<ActorStateView>,
    /// By what they are sorted, the largest or latest first.
    pub sort: InstanceSort,
    /// How many at most.
    pub limit: u32,
}

/// By what actors are sorted, the largest or latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstanceSort {
    /// By the commands that they hold.
    Mailbox,
    /// By the bytes that their states hold.
    Bytes,
    /// By how often they were restarted.
    Restarts,
    /// By when they were last used.
    LastUsed,
}

impl From<InstancesWanted> for InstanceQuery {
    fn from(wanted: InstancesWanted) -> Self {
        InstanceQuery {
            state: wanted.state.map(Into::into),
            order: match wanted.sort {
                InstanceSort::Mailbox => InstanceOrder::Mailbox,
                InstanceSort::Bytes => InstanceOrder::Bytes,
                InstanceSort::Restarts => InstanceOrder::Restarts,
                InstanceSort::LastUsed => InstanceOrder::LastUsed,
            },
            limit: wanted.limit as usize,
        }
    }
}

impl InstancesWanted {
    /// Those of several nodes, each with its own in order, that are wanted of all.
    pub(super) fn choose(self, mut all: Vec<InstanceView>) -> Vec<InstanceView> {
        match self.sort {
            InstanceSort::Mailbox => all.sort_by_key(|one| Reverse(one.mailbox_used)),
            InstanceSort::Bytes => all.sort_by_key(|one| Reverse(one.bytes)),
            InstanceSort::Restarts => all.sort_by_key(|one| Reverse(one.restarts)),
            InstanceSort::LastUsed => all.sort_by_key(|one| Reverse(one.last_used_at)),
        }
        all.truncate(self.limit as usize);
        all
    }
}
