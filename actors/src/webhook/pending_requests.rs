//! Requests that wait until what they have to see is matched, or until what they rest on is
//! written.

use tokio::sync::oneshot;

use super::messages::{ReplayRequest, Reply, Retry};
use colloquy_model::answer::Answer;
use colloquy_model::position::Position;

/// A request that goes on when it may.
pub(super) enum PendingRequest {
    /// Somebody is about to read the store.
    Reach(oneshot::Sender<()>),
    /// A delivery is to be sent again: the store has to know what became of it.
    Retry(Box<Retry>),
    /// Events of the past are to be delivered again: the endpoint may just have been made.
    Replay(Box<ReplayRequest>),
    /// An answer leaves when what it rests on is durable.
    Answer { reply: Reply, answer: Answer },
}

/// A request that waits until everything up to a position is matched.
struct UntilMatched {
    position: Position,
    request: PendingRequest,
}

/// A request that waits until everything up to a slice is written.
struct UntilWritten {
    slice: u64,
    request: PendingRequest,
}

/// All requests that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct PendingRequests {
    until_matched: Vec<UntilMatched>,
    until_written: Vec<UntilWritten>,
}

impl PendingRequests {
    /// A request waits until everything up to this position is matched.
    pub(super) fn wait_until_matched(&mut self, position: Position, request: PendingRequest) {
        self.until_matched.push(UntilMatched { position, request });
    }

    /// A request waits until everything up to this slice is written.
    pub(super) fn wait_until_written(&mut self, slice: u64, request: PendingRequest) {
        self.until_written.push(UntilWritten { slice, request });
    }

    /// Whether any request waits for a slice.
    pub(super) fn wait_for_a_slice(&self) -> bool {
        !self.until_written.is_empty()
    }

    /// Takes out those that waited for positions up to this one, in the order in which they came.
    pub(super) fn take_matched(&mut self, position: Position) -> Vec<PendingRequest> {
        self.until_matched
            .extract_if(.., |waiting| waiting.position <= position)
            .map(|waiting| waiting.request)
            .collect()
    }

    /// Takes out those that waited for slices up to this one, in the order in which they came.
    pub(super) fn take_written(&mut self, slice: u64) -> Vec<PendingRequest> {
        self.until_written
            .extract_if(.., |waiting| waiting.slice <= slice)
            .map(|waiting| waiting.request)
            .collect()
    }
}
