//! How the receiver behind an endpoint answers, and the distance that attempts keep while it only
//! fails.

/// After so many failures in a row the attempts keep a distance, twice as long after as many more.
const FAILURES_MAX: u32 = 64;
/// The first one: a dead endpoint must not cost what a healthy one needs.
const DISTANCE_MS: i64 = 5;
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
    /// It only fails. Times are in Unix milliseconds.
    Failing {
        /// When the first of these attempts failed.
        since: i64,
        /// How many have failed since, as far as this process has seen.
        in_a_row: u32,
        /// No attempt is made before.
        next_at: i64,
    },
}

/// A receiver's state, with what is shown of it.
#[derive(Debug)]
pub(super) struct ReceiverHealth {
    state: ReceiverState,
    last_success: Option<i64>,
}

impl ReceiverHealth {
    /// As the store remembers it: since when it only fails, if it does.
    pub(super) fn new(failing_since: Option<i64>) -> Self {
        let failing = |since| ReceiverState::Failing {
            since,
            in_a_row: 0,
            next_at: 0,
        };
        ReceiverHealth {
            state: failing_since.map_or(ReceiverState::Well, failing),
            last_success: None,
        }
    }

    /// Since when every attempt has failed, in Unix milliseconds; none where the last did not.
    pub(super) fn failing_since(&self) -> Option<i64> {
        match self.state {
            ReceiverState::Well => None,
            ReceiverState::Failing { since, .. } => Some(since),
        }
    }

    /// When it last accepted something, as far as this process has seen.
    pub(super) fn last_success(&self) -> Option<i64> {
        self.last_success
    }

    /// When the next attempt may be made; long past where there is no distance to keep.
    pub(super) fn next_at(&self) -> i64 {
        match self.state {
            ReceiverState::Well => 0,
            ReceiverState::Failing { next_at, .. } => next_at,
        }
    }

    /// An attempt begins: after many failures the next one keeps its distance to it.
    pub(super) fn attempt_begins(&mut self, now: i64) {
        if let ReceiverState::Failing {
            in_a_row, next_at, ..
        } = &mut self.state
            && let Some(doublings) = (*in_a_row / FAILURES_MAX).checked_sub(1)
        {
            *next_at = now + (DISTANCE_MS << doublings.min(DOUBLINGS_MAX));
        }
    }

    /// An attempt is over, and came to this.
    pub(super) fn attempt_ends(&mut self, reception: Reception, now: i64) {
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
                    next_at: 0,
                };
            }
        }
    }

    /// The endpoint is given up: what failed before does not count against it when it is back.
    pub(super) fn start_over(&mut self) {
        self.state = ReceiverState::Well;
    }
}
