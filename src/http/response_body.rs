//! Bodies of answers on their way out. A large one is counted while it is in memory, goes out in
//! pieces, and must be taken in time; an empty one waits like any other until there is room for its
//! head.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::rt::spawn;
use bytes::Bytes;
use tokio::task::JoinHandle;

use super::budget::BytesPermit;
use super::idle::InUse;

/// Bytes of an answer up to which nobody counts it: the connection's buffers hold about as much
/// anyway.
pub(super) const SMALL_MAX: usize = 65_536;
/// Bytes that are given out at once: no more of an answer is copied than its connection takes.
const PIECE: usize = 32_768;
/// What every large answer may take, whatever its size.
const GRACE: Duration = Duration::from_secs(10);

/// How fast a large answer must be taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadPace {
    /// Bytes a second on average, beside the time that every answer has; 0: any.
    pub(crate) bytes_per_second_min: u32,
}

impl ReadPace {
    /// The longest that an answer of so many bytes may take.
    fn longest(self, bytes: usize) -> Option<Duration> {
        let pace = u64::from(self.bytes_per_second_min);
        let seconds = (bytes as u64).checked_div(pace)?;
        Some(GRACE + Duration::from_secs(seconds))
    }
}

/// The body of a large answer, given out in pieces.
pub(super) struct LargeBody {
    rest: Bytes,
    /// Ends the connection when it is time; without one it may take for ever.
    deadline: Option<JoinHandle<()>>,
    /// None where all callers share the same bytes.
    _permit: Option<BytesPermit>,
    _connection: Option<InUse>,
}

impl LargeBody {
    /// Sends these bytes through that connection.
    pub(super) fn new(
        bytes: Bytes,
        permit: Option<BytesPermit>,
        pace: ReadPace,
        connection: Option<InUse>,
    ) -> Self {
        let socket = connection.as_ref().map(InUse::socket);
        let deadline = pace
            .longest(bytes.len())
            .zip(socket)
            .map(|(longest, socket)| {
                // It runs on the connection's own thread and ends with the body, which its
                // connection outlives.
                spawn(async move {
                    tokio::time::sleep(longest).await;
                    socket.shut();
                })
            });
        LargeBody {
            rest: bytes,
            deadline,
            _permit: permit,
            _connection: connection,
        }
    }
}

impl Drop for LargeBody {
    fn drop(&mut self) {
        if let Some(deadline) = self.deadline.take() {
            deadline.abort();
        }
    }
}

impl MessageBody for LargeBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.rest.len() as u64)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        let rest = &mut self.get_mut().rest;
        if rest.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(rest.split_to(PIECE.min(rest.len())))))
    }
}

/// The body of a status that has none. Without a body, or told its size, the server would go on to
/// the next request at once, however many heads a client that reads none of them lets wait: a
/// stream ends when the connection has room.
pub(super) struct EmptyBody;

impl MessageBody for EmptyBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(None)
    }
}
