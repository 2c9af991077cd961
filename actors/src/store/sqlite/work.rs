//! What the writer is asked, and where its answers go.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::frame_parts::PartAhead;
use super::snapshots::Asked;
use crate::store::digest::PayloadDigests;
use crate::store::{
    DeliverySlice, FigureSlice, Nonce, Rewrap, Settle, Stored, Unwritten, UsageSlice, Written,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, Commit};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_runtime::{Incarnation, LoadError};

/// Where what was read again goes.
pub(super) type Reloading = oneshot::Sender<Result<Option<Stored>, LoadError>>;

/// What the writer is asked to do, and whom it answers.
pub(super) enum Work {
    Commit {
        incarnation: Incarnation,
        commit: Box<Commit>,
        digests: PayloadDigests,
        settle: Settle,
    },
    /// Goes ahead of the commit that it is of, which does without it where it fails.
    PartAhead(PartAhead),
    Barrier {
        subject: Subject,
        incarnation: Incarnation,
        settle: Settle,
    },
    Reload {
        subject: Subject,
        reply: Reloading,
    },
    ChoreDone {
        chore: Chore,
    },
    Deliver {
        slice: Box<DeliverySlice>,
        reply: oneshot::Sender<Result<Written, Unwritten>>,
    },
    SpendNonce {
        nonce: Nonce,
        reply: oneshot::Sender<bool>,
    },
    Rewrap {
        change: Rewrap,
        reply: oneshot::Sender<bool>,
    },
    Figures {
        change: FigureChange,
        reply: oneshot::Sender<bool>,
    },
    AddUsage {
        slice: Arc<UsageSlice>,
        reply: oneshot::Sender<bool>,
    },
    BeginDeliveries {
        reply: oneshot::Sender<Position>,
    },
    Snapshot(Asked),
    Close {
        done: std::sync::mpsc::SyncSender<()>,
    },
}

/// How figures are to change.
pub(super) enum FigureChange {
    Count(Box<FigureSlice>),
    BeginRebuild,
    EndRebuild,
}

impl Work {
    /// Whether it is a commit of an entity.
    pub(super) fn is_commit(&self) -> bool {
        matches!(self, Work::Commit { .. })
    }

    /// The entity whose works keep their order.
    pub(super) fn entity(&self) -> Option<EntityNumber> {
        match self {
            Work::Commit { commit, .. } => Some(commit.subject.number),
            Work::Barrier { subject, .. } | Work::Reload { subject, .. } => Some(subject.number),
            Work::PartAhead(_)
            | Work::ChoreDone { .. }
            | Work::Deliver { .. }
            | Work::SpendNonce { .. }
            | Work::Rewrap { .. }
            | Work::Figures { .. }
            | Work::AddUsage { .. }
            | Work::BeginDeliveries { .. }
            | Work::Snapshot(_)
            | Work::Close { .. } => None,
        }
    }

    /// Who writes what such works bring; none for those that bring nothing, or what the server itself notes.
    pub(super) fn account(&self) -> Option<Tenant> {
        let Work::Commit { commit, .. } = self else {
            return None;
        };
        Some(commit.tenant.account_wide())
    }

    /// About how many bytes of texts it writes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Commit { commit, .. } => commit.bytes(),
            Work::PartAhead(part) => part.bytes(),
            Work::Barrier { .. }
            | Work::Reload { .. }
            | Work::ChoreDone { .. }
            | Work::Deliver { .. }
            | Work::SpendNonce { .. }
            | Work::Rewrap { .. }
            | Work::Figures { .. }
            | Work::AddUsage { .. }
            | Work::BeginDeliveries { .. }
            | Work::Snapshot(_)
            | Work::Close { .. } => 0,
        }
    }

    /// Whether it needs a transaction.
    pub(super) fn writes(&self) -> bool {
        match self {
            Work::Commit { .. }
            | Work::PartAhead(_)
            | Work::ChoreDone { .. }
            | Work::Deliver { .. }
            | Work::SpendNonce { .. }
            | Work::Rewrap { .. }
            | Work::Figures { .. }
            | Work::AddUsage { .. }
            | Work::BeginDeliveries { .. } => true,
            Work::Barrier { .. } | Work::Reload { .. } | Work::Snapshot(_) | Work::Close { .. } => {
                false
            }
        }
    }
}
