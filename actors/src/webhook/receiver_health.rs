//! How the receiver behind an endpoint answers, and the distance that attempts keep while it only
//! fails.

use std::time::Duration;

use colloquy_model::time::Timestamp;

/// After so many failures in a row the attempts keep a distance, twice as long after as many more.
const FAILURES_MAX: u32 = 64;
/// The first one: a dead endpoint must not cost what a healthy one needs.
const DISTANCE: Duration = Duration::from_millis(5);
/// How often it doubles, up to 160 ms: so soon is seen that the endpoint is back.
const DOUBLINGS_MAX: u32 = 5;

/// What a receiver made of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reception {
    /// It has taken what was sent.
    Accepted,
    /// It has not, for whatever reason.
    Failed,
}

/// Whether a receiver takes what it is sent.
///
/// ```text
///          an attempt failed
///   Well ────────────────────▶ Failing ──┐ another one failed: in_a_row + 1
///     ▲                           │  ▲───┘
///     └───────────────────────────┘
///       an attempt was accepted, or the endpoint was given up
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReceiverState {
    /// The last attempt was accepted, or there was none.
    Well,
    /// The receiver has only failed of late.
    Failing {
        /// When the first of these attempts failed.
        since: Timestamp,
        /// How many have failed since, as far as this process has seen.
        in_a_row: u32,
        /// No attempt is made before.
        next_at: Timestamp,
    },
}

/// A receiver's state, with what is shown of it.
#[derive(Debug)]
pub(super) struct ReceiverHealth {
    state: ReceiverState,
    last_success: Option<Timestamp>,
}

impl ReceiverHealth {
    /// As the store remembers it: since when it only fails, if it does.
    pub(super) fn new(failing_since: Option<Timestamp>) -> Self {
        let failing = |since| ReceiverState::Failing {
            since,
            in_a_row: 0,
            next_at: Timestamp::EPOCH,
        };
        ReceiverHealth {
            state: failing_since.map_or(ReceiverState::Well, failing),
            last_success: None,
        }
    }

    /// Since when every attempt has failed; none where the last did not.
    pub(super) fn failing_since(&self) -> Option<Timestamp> {
        match self.state {
            ReceiverState::Well => None,
            ReceiverState::Failing { since, .. } => Some(since),
        }
    }

    /// When it last accepted something, as far as this process has seen.
    pub(super) fn last_success(&self) -> Option<Timestamp> {
        self.last_success
    }

    /// When the next attempt may be made; long past where there is no distance to keep.
    pub(super) fn next_at(&self) -> Timestamp {
        match self.state {
            ReceiverState::Well => Timestamp::EPOCH,
            ReceiverState::Failing { next_at, .. } => next_at,
        }
    }

    /// An attempt begins: after many failures the next one keeps its distance to it.
    pub(super) fn attempt_begins(&mut self, now: Timestamp) {
        if let ReceiverState::Failing {
            in_a_row, next_at, ..
        } = &mut self.state
            && let Some(doublings) = (*in_a_row / FAILURES_MAX).checked_sub(1)
        {
            *next_at = now + DISTANCE * (1 << doublings.min(DOUBLINGS_MAX));
        }
    }

    /// An attempt is over, and came to this.
    pub(super) fn attempt_ends(&mut self, reception: Reception, now: Timestamp) {
        match (reception, &mut self.state) {
            (Reception::Accepted, state) => {
                *state = ReceiverState::Well;
                self.last_success = Some(now);
            }
            (Reception::Failed, ReceiverState::Failing { in_a_row, .. }) => {
                *in_a_row = in_a_row.saturating_add(1);
            }
            (Reception::Failed, state @ ReceiverState::Well) => {
                *state = ReceiverState::Failing {
                    since: now,
                    in_a_row: 1,
                    next_at: Timestamp::EPOCH,
                };
            }
        }
    }

    /// The endpoint is given up: what failed before does not count against it when it is back.
    pub(super) fn start_over(&mut self) {
        self.state = ReceiverState::Well;
    }
}
