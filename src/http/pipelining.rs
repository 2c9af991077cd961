//! How many requests of one connection are read before their turn comes. The HTTP parser makes
//! requests of all that it has read, up to 128 KiB: thousands of some 9 KB each, for a client that
//! sent a few bytes for each and reads no answer.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr_iter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_data::ConnectionData;
use super::stream::Stream;

/// Requests of one connection that may wait for their turn.
const WAITING_MAX: usize = 16;
/// How a request's first line ends, but for the minor version.
const VERSION: &[u8] = b"HTTP/1.";

/// The turns of one connection's requests.
#[derive(Debug, Default)]
pub(super) struct Turns {
    begun: Cell<usize>,
    waiting: RefCell<Option<Waker>>,
}

impl Turns {
    /// The next request's turn has come.
    pub(super) fn begin(&self) {
        self.begun.set(self.begun.get() + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// A connection of which no more is read while so many requests wait: the client is held back as by
/// any full buffer.
#[derive(Debug)]
pub(super) struct Paced {
    stream: Stream,
    data: Rc<ConnectionData>,
    heads: Heads,
    /// Read and not given on yet: it begins with the end of a first line whose request has to wait.
    held: Bytes,
}

impl Paced {
    pub(super) fn new(stream: Stream, data: Rc<ConnectionData>) -> Self {
        Paced {
            stream,
            data,
            heads: Heads::default(),
            held: Bytes::new(),
        }
    }

    /// What its requests know of it.
    pub(super) fn data(&self) -> Rc<ConnectionData> {
        Rc::clone(&self.data)
    }

    /// How many requests there is room for.
    fn room(&self) -> usize {
        WAITING_MAX.saturating_sub(self.heads.seen.saturating_sub(self.data.turns.begun.get()))
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = this.room();
        if !this.held.is_empty() && room == 0 {
            this.data
                .turns
                .waiting
                .replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if this.held.is_empty() {
            std::task::ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        } else {
            let bytes = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held.split_to(bytes));
        }
        let read = buffer.filled().get(before..).unwrap_or_default();
        let given = this.heads.pass(read, room);
        if given < read.len() {
            let mut held = BytesMut::from(read);
            held.advance(given);
            held.extend_from_slice(&this.held);
            this.held = held.freeze();
            buffer.set_filled(before + given);
            if given == 0 {
                this.data
                    .turns
                    .waiting
                    .replace(Some(context.waker().clone()));
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// Counts requests in what a connection sends, by their first lines: `METHOD target HTTP/1.x`,
/// anywhere but among the headers that follow one. A body in which a line looks like that is
/// counted too: no JSON does, for its texts have no line breaks, and what is no JSON is refused.
#[derive(Debug, Default)]
struct Heads {
    seen: usize,
    /// The last line that was seen is a request's first one, or a header.
    inside: bool,
    /// The last bytes that were given on.
    last: Tail,
}

/// The last bytes before a line break: a version and a carriage return.
type Tail = [u8; VERSION.len() + 2];

impl Heads {
    /// How many of these bytes may be given on where there is room for so many requests.
    fn pass(&mut self, bytes: &[u8], mut room: usize) -> usize {
        for end in memchr_iter(b'\n', bytes) {
            let before = bytes.get(..end).unwrap_or_default();
            let tail = tail(&self.last, before);
            let line = tail.strip_suffix(b"\r").unwrap_or(&tail);
            if self.inside {
                self.inside = !line.ends_with(b"\n");
            } else if is_first_line(line) {
                if room == 0 {
                    self.last = tail;
                    return end;
                }
                room -= 1;
                self.seen += 1;
                self.inside = true;
            }
        }
        self.last = tail(&self.last, bytes);
        bytes.len()
    }
}

/// Whether a line that ends like this is a request's first one.
fn is_first_line(line: &[u8]) -> bool {
    line.split_last()
        .is_some_and(|(minor, rest)| minor.is_ascii_digit() && rest.ends_with(VERSION))
}

/// The last of these bytes, which follow those.
fn tail(before: &Tail, bytes: &[u8]) -> Tail {
    let mut tail = Tail::default();
    let added = bytes.len().min(tail.len());
    let all = before
        .iter()
        .skip(added)
        .chain(bytes.iter().skip(bytes.len() - added));
    tail.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    tail
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use proptest::prelude::*;

    use super::*;

    const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: a\r\nVia: a HTTP/1.1\r\n\r\n";
    const POST: &[u8] =
        b"POST /v1/customers HTTP/1.0\nContent-Length: 20\n\n{\n  \"name\": \"HTTP/1.1\"\n}";

    /// What is given on of these pieces, and how many requests were seen, where so many may pass.
    fn passed(pieces: &[&[u8]], room: usize) -> (usize, usize) {
        let (mut heads, mut given) = (Heads::default(), 0);
        for piece in pieces {
            let bytes = heads.pass(piece, room - heads.seen);
            given += bytes;
            if bytes < piece.len() {
                break;
            }
        }
        (given, heads.seen)
    }

    #[test]
    fn first_lines_are_counted_and_neither_headers_nor_bodies() {
        let three = [REQUEST, POST, REQUEST].concat();
        assert_eq!(passed(&[&three], 9), (three.len(), 3));
        let second = REQUEST.len() + POST.iter().position(|byte| *byte == b'\n').unwrap();
        assert_eq!(passed(&[&three], 1), (second, 1));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_come(cuts in prop::collection::vec(0_usize..400, 0..40), room in 0_usize..7) {
            let all = [REQUEST, POST, REQUEST, REQUEST, POST].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(all.len())).collect();
            cuts.extend([0, all.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &all[cut[0]..cut[1]]).collect();
            prop_assert_eq!(passed(&pieces, room), passed(&[&all], room));
        }
    }
}
