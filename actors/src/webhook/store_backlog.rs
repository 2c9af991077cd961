//! What an endpoint's queue knows of the deliveries that the store alone holds: whether they are to
//! be read, and from when on reading shows what memory has decided.

use colloquy_model::time::Timestamp;
use std::collections::HashMap;

/// Whether the store is to be read for deliveries that memory does not hold.
///
/// ```text
///                   asked                 answered
///      ┌─ Wanted ───────────▶ Reading ───────────────▶ Resting
///      │   ▲   ▲                 │ a slice is written     │
///      │   │   │    answered     ▼                        │
///      │   │   └────────────── Outdated                   │
///      │   └──── a slice is written, or a head is due ────┘
///      └── given up: Resting; while it is read, Reading, whose answer then makes it Wanted
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BacklogState {
    /// Nothing in there may be sent before this instant, in Unix milliseconds; without one, before
    /// a slice is written.
    Resting { until: Option<Timestamp> },
    /// There may be something that may be sent.
    Wanted,
    /// It is being read, and has not changed since.
    Reading,
    /// It is being read, and was written meanwhile: it is read again.
    Outdated,
}

/// How a reading of the store ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// It shows the queue's deliveries, but for heads that are due later.
    Current { next_due: Option<Timestamp> },
    /// The endpoint was given up meanwhile: what was read counts no more.
    Superseded,
    /// The store could not be read, and is not asked again before this instant.
    Failed { retry_at: Timestamp },
}

/// The part of an endpoint's queue that the store alone holds.
#[derive(Debug)]
pub(super) struct StoreBacklog {
    state: BacklogState,
    /// Deliveries whose outcome is in a slice that may not have been written when the store was
    /// last read, with the number of that slice.
    unwritten: HashMap<i64, u64>,
    /// The last slice that was written.
    written: u64,
    /// The slice that must be written before the store is read.
    readable_from: u64,
}

impl StoreBacklog {
    /// So many deliveries wait in the store, and memory holds none.
    pub(super) fn new(waiting: u64) -> Self {
        let state = if waiting > 0 {
            BacklogState::Wanted
        } else {
            BacklogState::Resting { until: None }
        };
        StoreBacklog {
            state,
            unwritten: HashMap::new(),
            written: 0,
            readable_from: 0,
        }
    }

    /// Whether the store is to be read, and would show what is true.
    pub(super) fn may_read(&self) -> bool {
        self.state == BacklogState::Wanted && self.written >= self.readable_from
    }

    /// The store is asked; to be answered by [`StoreBacklog::end_read`].
    pub(super) fn begin_read(&mut self) {
        self.state = BacklogState::Reading;
    }

    /// The store has answered, or could not.
    pub(super) fn end_read(&mut self, end: ReadEnd) {
        self.state = match (end, self.state) {
            (ReadEnd::Superseded, _) | (_, BacklogState::Outdated) => BacklogState::Wanted,
            (ReadEnd::Current { next_due }, _) => BacklogState::Resting { until: next_due },
            (ReadEnd::Failed { retry_at }, _) => BacklogState::Resting {
                until: Some(retry_at),
            },
        };
    }

    /// The store may have something from now on that may be sent.
    pub(super) fn want(&mut self) {
        self.state = match self.state {
            BacklogState::Resting { .. } | BacklogState::Wanted => BacklogState::Wanted,
            BacklogState::Reading | BacklogState::Outdated => BacklogState::Outdated,
        };
    }

    /// Memory lets go of a lane whose head is due at this instant: the store alone holds it now.
    /// While the store is wanted or read, its answer tells of it, or the slice that is to follow.
    pub(super) fn took_over(&mut self, due: Timestamp) {
        if let BacklogState::Resting { until } = &mut self.state {
            *until = Some(until.map_or(due, |until| until.min(due)));
        }
    }

    /// Notes which lanes in the store are due by now.
    pub(super) fn wake(&mut self, now: Timestamp) {
        if matches!(self.state, BacklogState::Resting { until: Some(due) } if due <= now) {
            self.state = BacklogState::Wanted;
        }
    }

    /// When it has to be woken next.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        match self.state {
            BacklogState::Resting { until } => until,
            BacklogState::Wanted | BacklogState::Reading | BacklogState::Outdated => None,
        }
    }

    /// A delivery's outcome stands in this slice, not in the store.
    pub(super) fn note_unwritten(&mut self, number: i64, slice: u64) {
        self.unwritten.insert(number, slice);
    }

    /// Whether what was read of this delivery may be older than its outcome.
    pub(super) fn is_unwritten(&self, number: i64) -> bool {
        self.unwritten.contains_key(&number)
    }

    /// Everything up to this slice is written.
    pub(super) fn slice_written(&mut self, slice: u64) {
        self.written = slice;
        // What is being read may be older than the slice.
        if !self.is_being_read() {
            self.forget_written();
        }
    }

    /// Outcomes whose slice is written stand in the store, for whoever reads it from now on.
    pub(super) fn forget_written(&mut self) {
        let written = self.written;
        self.unwritten.retain(|_, slice| *slice > written);
    }

    /// Nothing that waits is sent any more. The store is not read before it knows by this slice.
    pub(super) fn give_up(&mut self, slice: u64) {
        self.state = if self.is_being_read() {
            BacklogState::Reading
        } else {
            BacklogState::Resting { until: None }
        };
        self.readable_from = slice;
    }

    fn is_being_read(&self) -> bool {
        matches!(self.state, BacklogState::Reading | BacklogState::Outdated)
    }
}
