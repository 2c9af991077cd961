//! Bodies of answers on their way out. A large one is counted while it is in memory, goes out in
//! pieces, and must be taken in time; an empty one waits like any other until there is room for its
//! head.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::rt::spawn;
use bytes::Bytes;
use colloquy_actors::attachments::{Content, ContentError};
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
    fn longest(self, bytes: u64) -> Option<Duration> {
        let pace = u64::from(self.bytes_per_second_min);
        let seconds = bytes.checked_div(pace)?;
        Some(GRACE + Duration::from_secs(seconds))
    }
}

/// The body of a large answer, given out in pieces.
pub(super) struct LargeBody {
    rest: Bytes,
    /// Ends the connection when it is time; without one it may take for ever.
    _deadline: Deadline,
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
        LargeBody {
            _deadline: Deadline::of(pace, bytes.len() as u64, connection.as_ref()),
            rest: bytes,
            _permit: permit,
            _connection: connection,
        }
    }
}

/// Ends a connection that takes an answer too slowly, unless it is dropped before.
struct Deadline(Option<JoinHandle<()>>);

impl Deadline {
    fn of(pace: ReadPace, bytes: u64, connection: Option<&InUse>) -> Self {
        let socket = connection.map(InUse::socket);
        let deadline = pace.longest(bytes).zip(socket).map(|(longest, socket)| {
            // It runs on the connection's own thread and ends with the body, which its connection
            // outlives.
            spawn(async move {
                tokio::time::sleep(longest).await;
                socket.shut();
            })
        });
        Deadline(deadline)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(deadline) = self.0.take() {
            deadline.abort();
        }
    }
}

/// The body of an answer that is read from object storage while it goes out.
pub(super) struct FileBody {
    /// The request's, for the log.
    request_id: Arc<str>,
    content: Content,
    bytes: u64,
    _deadline: Deadline,
    _connection: Option<InUse>,
}

impl FileBody {
    /// Sends so many bytes to this request, through that connection.
    pub(super) fn new(
        request_id: Arc<str>,
        (content, bytes): (Content, u64),
        pace: ReadPace,
        connection: Option<InUse>,
    ) -> Self {
        FileBody {
            request_id,
            content,
            bytes,
            _deadline: Deadline::of(pace, bytes, connection.as_ref()),
            _connection: connection,
        }
    }
}

impl MessageBody for FileBody {
    type Error = ContentError;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ContentError>>> {
        let body = self.get_mut();
        let piece = body.content.as_mut().poll_next(context);
        if let Poll::Ready(Some(Err(error))) = &piece {
            // The head is gone: the connection ends before its length is reached.
            let request_id = &*body.request_id;
            tracing::error!(%error, request_id, "an attachment's content can't be read to its end");
        }
        piece
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
