//! How far the writer of this node has come, for everybody who reads beside it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::sizes::Sizes;
use crate::store::writer_metrics::WriterCounters;
use colloquy_model::position::Position;

/// What is known to whoever reads: up to where it is acknowledged, up to where it may be seen already,
/// and whether the server answers.
#[derive(Debug, Default)]
pub(super) struct Progress {
    acknowledged: AtomicI64,
    pub(super) visible: AtomicI64,
    pub(super) away: AtomicBool,
    pub(super) counters: WriterCounters,
    pub(super) sizes: Sizes,
}

impl Progress {
    /// The position up to which everything is acknowledged, or about to be.
    pub(super) fn acknowledged(&self) -> Position {
        Position(self.acknowledged.load(Ordering::Acquire))
    }

    /// The position up to which a reader of the collections may see what is not acknowledged yet.
    pub(super) fn visible(&self) -> Position {
        Position(self.visible.load(Ordering::Acquire))
    }

    pub(super) fn healthy(&self) -> bool {
        !self.away.load(Ordering::Relaxed)
    }

    /// Notes that the server has taken a write: it is not away any more.
    pub(super) fn answers(&self) {
        self.away.store(false, Ordering::Relaxed);
    }

    pub(super) fn stands_at(&self, position: Position) {
        self.acknowledged.store(position.0, Ordering::Release);
    }
}
