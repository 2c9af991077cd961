//! When what became of deliveries is written: soon where somebody waits for it, else after a while,
//! so that one slice takes along what else happens.

use std::time::{Duration, Instant};

use crate::store::Matched;

/// With so much it is written at once.
const CHANGES_FULL: usize = 128;
/// What happened is written after so long: until then it takes along what else happens.
const WRITE_AFTER: Duration = Duration::from_millis(20);
/// Slices that somebody waits for keep this distance.
const WRITE_SOON: Duration = Duration::from_millis(10);
/// A position alone is written so often.
const POSITION_AFTER: Duration = Duration::from_secs(5);
/// Old deliveries are looked for so often, when there is nothing else to write.
const TIDY_AFTER: Duration = Duration::from_secs(60);

/// What there is to write, and who waits for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingWrite {
    /// How many deliveries, outcomes and other changes.
    pub(super) changes: usize,
    /// How far what happened is matched.
    pub(super) matched: Matched,
    /// Whether a caller waits for the answer that rests on it.
    pub(super) has_callers: bool,
    /// Whether a queue can go on only when it is written.
    pub(super) needs_refill: bool,
}

/// Whether the last slice left rows that are to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftovers {
    /// It did: another slice, an empty one too, takes some of them.
    Some,
    None,
}

/// When slices are written: what it was told of the last one.
#[derive(Debug)]
pub(super) struct WriteSchedule {
    /// The position that stands in the last slice.
    matched_written: Matched,
    /// When what there is has to be written, at the latest.
    due_at: Option<Instant>,
    /// When the last slice was written, or failed to be.
    written_at: Instant,
    leftovers: Leftovers,
}

impl WriteSchedule {
    /// As a process begins: this position is stored, and there may be leftovers.
    pub(super) fn new(matched_written: Matched) -> Self {
        WriteSchedule {
            matched_written,
            due_at: None,
            written_at: Instant::now(),
            leftovers: Leftovers::Some,
        }
    }

    /// Whether a slice is to be written now, while none is.
    pub(super) fn is_due(&mut self, pending: PendingWrite, now: Instant) -> bool {
        let has_changes = pending.changes > 0;
        if has_changes {
            self.due_at.get_or_insert(now + WRITE_AFTER);
        }
        let since = now.duration_since(self.written_at);
        let is_full = pending.changes >= CHANGES_FULL;
        let has_waiters = has_changes && (pending.has_callers || is_full);
        let soon = has_changes && pending.needs_refill || self.leftovers == Leftovers::Some;
        has_waiters
            || soon && since >= WRITE_SOON
            || self.due_at.is_some_and(|due_at| due_at <= now)
            || since >= TIDY_AFTER
            || self.is_idle(now) && pending.matched != self.matched_written
    }

    /// Whether nothing has been written for so long that a position alone is.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        now.duration_since(self.written_at) >= POSITION_AFTER
    }

    /// When it has to be asked again, while no slice is being written.
    pub(super) fn next_at(&self, pending: PendingWrite) -> Option<Instant> {
        let waits = pending.changes > 0 && pending.needs_refill;
        let soon =
            (waits || self.leftovers == Leftovers::Some).then(|| self.written_at + WRITE_SOON);
        self.due_at.into_iter().chain(soon).min()
    }

    /// A slice is taken; gives the position that it has to tell, where that is news.
    pub(super) fn slice_taken(&mut self, matched: Matched) -> Option<Matched> {
        self.due_at = None;
        let is_news = matched != self.matched_written;
        self.matched_written = matched;
        is_news.then_some(matched)
    }

    /// The slice that was taken is written.
    pub(super) fn slice_written(&mut self, leftovers: Leftovers) {
        self.leftovers = leftovers;
        self.written_at = Instant::now();
    }

    /// The slice could not be written now.
    pub(super) fn slice_failed(&mut self) {
        self.written_at = Instant::now();
    }
}
