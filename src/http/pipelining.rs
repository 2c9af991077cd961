//! How many requests of one connection are read before their turn comes. The HTTP parser makes
//! requests of all that it has read, up to 128 KiB: thousands of some 9 KB each, for a client that
//! sent a few bytes for each and reads no answer.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_data::ConnectionData;
use super::stream::Stream;

/// Requests of one connection that may wait for their turn: fewer than the 16 beyond which the parser
/// takes no more, for with a full buffer behind these it would look again and again.
const WAITING_MAX: usize = 15;

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
        let given = if this.held.is_empty() {
            let before = buffer.filled().len();
            std::task::ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let read = buffer.filled().get(before..).unwrap_or_default();
            let given = this.heads.pass(read, room)?;
            this.held = Bytes::copy_from_slice(read.get(given..).unwrap_or_default());
            buffer.set_filled(before + given);
            given
        } else {
            let next = this.held.len().min(buffer.remaining());
            let next = this.held.get(..next).unwrap_or_default();
            let given = this.heads.pass(next, room)?;
            buffer.put_slice(&this.held.split_to(given));
            given
        };
        if given > 0 || this.held.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let waiting = &this.data.turns.waiting;
        waiting.replace(Some(context.waker().clone()));
        Poll::Pending
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

/// The longest line that says where a body ends.
const FRAMING_LINE_BYTES_MAX: usize = 1_024;

/// Counts requests in what a connection sends (RFC 9112): whatever a body holds, it is none. What is no HTTP is
/// refused by the parser, and may be counted wrongly.
#[derive(Debug, Default)]
struct Heads {
    seen: usize,
    position: Position,
    /// The beginning of the line that has not ended in what was given on.
    line: Vec<u8>,
}

/// Where the next byte stands.
#[derive(Debug, Default, Clone, Copy)]
enum Position {
    /// Before a request, or in its first line.
    #[default]
    FirstLine,
    /// Among a request's headers, with what they have said of its body.
    Headers(Framing),
    /// In the body, of which so much is left.
    Body(u64),
    /// Before a chunk, or in the line that says its size.
    ChunkSize,
    /// In a chunk, of which so much is left.
    Chunk(u64),
    /// Behind the last chunk; whether a line has begun there.
    Trailers { inside: bool },
    /// In what has no end but the connection's.
    Endless,
}

/// Where a request's body ends, as the parser reads it.
#[derive(Debug, Default, Clone, Copy)]
struct Framing {
    length: u64,
    chunked: bool,
    /// The connection becomes a WebSocket, whatever length is told.
    switches: bool,
    /// The method is CONNECT: where no length is told, the connection becomes a tunnel.
    connects: bool,
}

impl Framing {
    /// Notes what this header says.
    ///
    /// # Errors
    /// It says where the body ends, and is too long.
    fn note(&mut self, header: &[u8]) -> io::Result<()> {
        let Some(colon) = memchr(b':', header) else {
            return Ok(());
        };
        let (name, value) = header.split_at(colon);
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let (is_length, is_encoding) = (is("content-length"), is("transfer-encoding"));
        if !is_length && !is_encoding && !is("upgrade") {
            return Ok(());
        }
        is_bounded(header)?;
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if is_length {
            let length = str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            self.length = length.unwrap_or_default();
        } else if is_encoding {
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
        } else {
            self.switches |= value.eq_ignore_ascii_case(b"websocket");
        }
        Ok(())
    }

    /// Where the bytes behind the head stand.
    fn body(self) -> Position {
        match self {
            Framing { chunked: true, .. } => Position::ChunkSize,
            Framing { switches: true, .. } => Position::Endless,
            Framing { length: 1.., .. } => Position::Body(self.length),
            Framing { connects: true, .. } => Position::Endless,
            Framing { .. } => Position::FirstLine,
        }
    }
}

impl Heads {
    /// How many of these bytes may be given on where there is room for so many requests.
    ///
    /// # Errors
    /// A line that says where a body ends is too long.
    fn pass(&mut self, bytes: &[u8], mut room: usize) -> io::Result<usize> {
        let mut given = 0;
        while let Some(rest) = bytes.get(given..).filter(|rest| !rest.is_empty()) {
            match &mut self.position {
                Position::Endless => return Ok(bytes.len()),
                Position::Body(left) => {
                    given += skip(left, rest);
                    if *left == 0 {
                        self.position = Position::FirstLine;
                    }
                }
                Position::Chunk(left) => {
                    given += skip(left, rest);
                    if *left == 0 {
                        self.position = Position::ChunkSize;
                    }
                }
                Position::FirstLine
                | Position::Headers(_)
                | Position::ChunkSize
                | Position::Trailers { .. } => {
                    let Some(end) = memchr(b'\n', rest) else {
                        self.keep(rest);
                        return Ok(bytes.len());
                    };
                    let line = rest.get(..end).unwrap_or_default();
                    let is_first = matches!(self.position, Position::FirstLine);
                    if is_first && (!is_empty(&self.line) || !is_empty(line)) {
                        if room == 0 {
                            self.keep(line);
                            return Ok(given + end);
                        }
                        room -= 1;
                        self.seen += 1;
                    }
                    self.end_line(line)?;
                    given += end + 1;
                }
            }
        }
        Ok(given)
    }

    /// Keeps the beginning of a line, and its last byte: of a line that is too long more than the most, with or
    /// without a carriage return.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (FRAMING_LINE_BYTES_MAX + 2).saturating_sub(self.line.len());
        self.line.extend(bytes.iter().take(room));
        if let (Some(last), Some(byte)) = (self.line.last_mut(), bytes.last()) {
            *last = *byte;
        }
    }

    /// A line has ended, of which this is the rest.
    ///
    /// # Errors
    /// It says where a body ends, and is too long.
    fn end_line(&mut self, rest: &[u8]) -> io::Result<()> {
        let mut begun = mem::take(&mut self.line);
        let line = if begun.is_empty() {
            rest
        } else {
            begun.extend_from_slice(rest);
            &begun
        };
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        self.position = match self.position {
            Position::FirstLine if text.is_empty() => Position::FirstLine,
            Position::FirstLine => Position::Headers(Framing {
                connects: text.starts_with(b"CONNECT "),
                ..Framing::default()
            }),
            Position::Headers(framing) if text.is_empty() => framing.body(),
            Position::Headers(mut framing) => {
                framing.note(text)?;
                Position::Headers(framing)
            }
            Position::ChunkSize => match chunk_size(text)? {
                0 => Position::Trailers { inside: false },
                // A line break ends the chunk.
                size => Position::Chunk(size.saturating_add(2)),
            },
            Position::Trailers { inside: false } if line == b"\r" => Position::FirstLine,
            // The parser ends no line here without a carriage return.
            Position::Trailers { .. } => Position::Trailers {
                inside: !line.ends_with(b"\r"),
            },
            position @ (Position::Body(_) | Position::Chunk(_) | Position::Endless) => position,
        };
        Ok(())
    }
}

/// Whether nothing is in this part of a line.
fn is_empty(line: &[u8]) -> bool {
    line.is_empty() || line == b"\r"
}

/// Skips as many of these bytes as are left of something; gives how many.
fn skip(left: &mut u64, bytes: &[u8]) -> usize {
    let skipped = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= skipped as u64;
    skipped
}

/// The size of a chunk, of which this line is the first; 0 where it is none.
///
/// # Errors
/// The line is too long.
fn chunk_size(line: &[u8]) -> io::Result<u64> {
    is_bounded(line)?;
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit());
    let digits = line.get(..digits.unwrap_or(line.len())).unwrap_or_default();
    let size = str::from_utf8(digits).ok();
    let size = size.and_then(|size| u64::from_str_radix(size, 16).ok());
    Ok(size.unwrap_or_default())
}

/// Refuses a line that says where a body ends, and of which only the beginning may have been kept.
fn is_bounded(line: &[u8]) -> io::Result<()> {
    if line.len() > FRAMING_LINE_BYTES_MAX {
        let reason = "a line that says where the body ends is too long";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(())
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
    const LENGTH: &[u8] =
        b"POST /v1/customers HTTP/1.0\ncontent-length:\t0022 \n\nHTTP/1.1\n\nHTTP/1.1\n\n\n";
    const CHUNKED: &[u8] = b"\r\nPUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n\
        A; a=b\r\nHTTP/1.1\n\n\r\n09\r\nHTTP/1.1\n\r\n0\r\nA: HTTP/1.1\nHTTP/1.1\n\r\n\r\n";
    const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.1\r\n\r\n";

    /// What is given on of these pieces, and how many requests were seen, where so many may pass.
    fn passed(pieces: &[&[u8]], room: usize) -> (usize, usize) {
        let (mut heads, mut given) = (Heads::default(), 0);
        for piece in pieces {
            let bytes = heads.pass(piece, room - heads.seen).unwrap();
            given += bytes;
            if bytes < piece.len() {
                break;
            }
        }
        (given, heads.seen)
    }

    #[test]
    fn first_lines_are_counted_and_neither_headers_nor_bodies() {
        let all = [REQUEST, LENGTH, CHUNKED, LENGTH, REQUEST, UPGRADE].concat();
        assert_eq!(passed(&[&all], 9), (all.len(), 6));
        let second = REQUEST.len() + LENGTH.iter().position(|byte| *byte == b'\n').unwrap();
        assert_eq!(passed(&[&all], 1), (second, 1));
    }

    #[test]
    fn a_line_that_says_where_a_body_ends_has_an_end_however_it_comes() {
        let zeros = "0".repeat(FRAMING_LINE_BYTES_MAX);
        let blanks = " ".repeat(FRAMING_LINE_BYTES_MAX);
        for line in [
            format!("Content-Length: {zeros}5\r\n"),
            format!("Upgrade: websocket{blanks}x\r\n"),
            format!("Transfer-Encoding: chunked\r\n\r\n{zeros}1000\r\n"),
        ] {
            for cut in 0..line.len() {
                let (first, rest) = line.split_at(cut);
                let mut heads = Heads::default();
                heads.pass(b"POST / HTTP/1.1\r\n", 1).unwrap();
                let passed = heads.pass(first.as_bytes(), 1);
                assert!(passed.and_then(|_| heads.pass(rest.as_bytes(), 1)).is_err());
            }
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_come(cuts in prop::collection::vec(0_usize..600, 0..40), room in 0_usize..9) {
            let all = [REQUEST, LENGTH, CHUNKED, REQUEST, LENGTH, CHUNKED, UPGRADE].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(all.len())).collect();
            cuts.extend([0, all.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &all[cut[0]..cut[1]]).collect();
            prop_assert_eq!(passed(&pieces, room), passed(&[&all], room));
        }
    }
}
