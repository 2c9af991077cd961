//! The bytes of a WebSocket on the server's side (RFC 6455, 5): frames are taken apart and put
//! together again as messages. How long one is stands at its beginning, so one that is too long is
//! refused before it has come.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::limits::{FrameBudget, FrameBytes};

/// The most that a frame beside messages may hold.
const CONTROL_MAX: usize = 125;
/// A message of so many bytes needs no room of its account's.
const ROOMLESS: usize = 1_024;
/// A buffer that has grown beyond this is given back when it is empty.
const BUFFER_KEPT: usize = 4_096;

/// Why a WebSocket ends (RFC 6455, 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseCode {
    GoingAway = 1001,
    Protocol = 1002,
    NotUtf8 = 1007,
    Policy = 1008,
    TooBig = 1009,
    InternalError = 1011,
    TryAgain = 1013,
}

/// What the other side of a WebSocket has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Text(Bytes),
    Binary,
    Ping(Bytes),
    Pong,
    /// With the client's code, where it gave one.
    Close(Option<u16>),
    /// A part of a message whose end has not come.
    Part,
}

/// A frame whose head has come, and perhaps all of it.
#[derive(Debug)]
pub(super) struct Frame {
    /// The length of its payload, in bytes.
    pub(super) bytes: usize,
    pub(super) incoming: Incoming,
    /// What a whole message holds of its account's room.
    pub(super) held: Option<FrameBytes>,
}

/// The head of a frame: what it is, and how long its payload is.
struct Head {
    last: bool,
    opcode: u8,
    length: usize,
    mask: [u8; 4],
    /// How long the head itself is.
    bytes: usize,
}

/// A message whose end has not come.
#[derive(Debug)]
struct Begun {
    text: bool,
    payload: BytesMut,
}

/// Reads the messages of a WebSocket out of the bytes that come.
#[derive(Debug)]
pub(super) struct Reader {
    buffer: BytesMut,
    begun: Option<Begun>,
    bytes_max: usize,
    held: FrameBytes,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl Reader {
    pub(super) fn new(bytes_max: usize, room: &FrameBudget) -> Self {
        Reader {
            buffer: BytesMut::new(),
            begun: None,
            bytes_max,
            held: room.none(),
        }
    }

    /// Takes in bytes as they have come, whole frames or not.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, once all of it has come.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, CloseCode> {
        let Some(head) = self.head()? else {
            if self.buffer.is_empty() && self.buffer.capacity() > BUFFER_KEPT {
                self.buffer = BytesMut::new();
            }
            return Ok(None);
        };
        let begun = self.begun.as_ref().map_or(0, |begun| begun.payload.len());
        let whole = begun.saturating_add(head.length);
        if whole > self.bytes_max.max(CONTROL_MAX) {
            return Err(CloseCode::TooBig);
        }
        if whole > ROOMLESS && !self.held.grow(whole) {
            return Err(CloseCode::TryAgain);
        }
        let missing = (head.bytes + head.length).saturating_sub(self.buffer.len());
        if missing > 0 {
            // At once: a buffer that grows step by step is copied with each step.
            self.buffer.reserve(missing);
            return Ok(None);
        }
        self.buffer.advance(head.bytes);
        let mut payload = self.buffer.split_to(head.length);
        for (byte, mask) in payload.iter_mut().zip(head.mask.iter().cycle()) {
            *byte ^= mask;
        }
        let incoming = self.frame(&head, payload)?;
        let held = if self.begun.is_none() {
            self.held.hand_over()
        } else {
            None
        };
        Ok(Some(Frame {
            bytes: head.length,
            incoming,
            held,
        }))
    }

    fn head(&self) -> Result<Option<Head>, CloseCode> {
        let mut rest = &*self.buffer;
        let [first, second, tail @ ..] = rest else {
            return Ok(None);
        };
        rest = tail;
        let (last, opcode) = (first & 0x80 != 0, first & 0x0f);
        let known = matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG);
        // No extension was agreed on, and clients mask what they send.
        if first & 0x70 != 0 || second & 0x80 == 0 || !known {
            return Err(CloseCode::Protocol);
        }
        let length = match second & 0x7f {
            126 if rest.len() < 2 => return Ok(None),
            126 => u64::from(rest.get_u16()),
            127 if rest.len() < 8 => return Ok(None),
            127 => rest.get_u64(),
            short => u64::from(short),
        };
        let length = usize::try_from(length).map_err(|_| CloseCode::TooBig)?;
        if opcode >= CLOSE && (length > CONTROL_MAX || !last) {
            return Err(CloseCode::Protocol);
        }
        let Some(mask) = rest.first_chunk::<4>() else {
            return if length > self.bytes_max.max(CONTROL_MAX) {
                Err(CloseCode::TooBig)
            } else {
                Ok(None)
            };
        };
        let bytes = self.buffer.len() - rest.len() + mask.len();
        Ok(Some(Head {
            last,
            opcode,
            length,
            mask: *mask,
            bytes,
        }))
    }

    fn frame(&mut self, head: &Head, payload: BytesMut) -> Result<Incoming, CloseCode> {
        match (head.opcode, self.begun.take()) {
            (CLOSE, _) => close(&payload),
            (PING, begun) => {
                self.begun = begun;
                Ok(Incoming::Ping(payload.freeze()))
            }
            (PONG, begun) => {
                self.begun = begun;
                Ok(Incoming::Pong)
            }
            (TEXT | BINARY, None) => {
                let begun = Begun {
                    text: head.opcode == TEXT,
                    payload,
                };
                self.go_on(head, begun)
            }
            (CONTINUATION, Some(mut begun)) => {
                begun.payload.extend_from_slice(&payload);
                self.go_on(head, begun)
            }
            _ => Err(CloseCode::Protocol),
        }
    }

    /// Ends the message with its last frame, and keeps it until then.
    fn go_on(&mut self, head: &Head, begun: Begun) -> Result<Incoming, CloseCode> {
        if head.last {
            return begun.message();
        }
        self.begun = Some(begun);
        Ok(Incoming::Part)
    }
}

impl Begun {
    fn message(self) -> Result<Incoming, CloseCode> {
        if !self.text {
            return Ok(Incoming::Binary);
        }
        if std::str::from_utf8(&self.payload).is_err() {
            return Err(CloseCode::NotUtf8);
        }
        Ok(Incoming::Text(self.payload.freeze()))
    }
}

fn close(payload: &[u8]) -> Result<Incoming, CloseCode> {
    let (code, reason) = match payload {
        [] => return Ok(Incoming::Close(None)),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err(CloseCode::Protocol),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(CloseCode::Protocol);
    }
    std::str::from_utf8(reason).map_err(|_| CloseCode::NotUtf8)?;
    Ok(Incoming::Close(Some(code)))
}

/// Writes a text message, made of these parts.
pub(super) fn text(out: &mut BytesMut, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum();
    head(out, TEXT, length);
    for part in parts {
        out.extend_from_slice(part);
    }
}

pub(super) fn ping(out: &mut BytesMut) {
    head(out, PING, 0);
}

pub(super) fn pong(out: &mut BytesMut, payload: &[u8]) {
    head(out, PONG, payload.len());
    out.extend_from_slice(payload);
}

/// Says that this was all; without a code where the client gave none.
pub(super) fn bye(out: &mut BytesMut, code: Option<u16>, reason: &str) {
    match code {
        None => head(out, CLOSE, 0),
        Some(code) => {
            head(out, CLOSE, 2 + reason.len());
            out.put_u16(code);
            out.extend_from_slice(reason.as_bytes());
        }
    }
}

fn head(out: &mut BytesMut, opcode: u8, length: usize) {
    out.reserve(length + 10);
    out.put_u8(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.put_u8(short),
        (_, Ok(medium)) => {
            out.put_u8(126);
            out.put_u16(medium);
        }
        (_, Err(_)) => {
            out.put_u8(127);
            out.put_u64(length as u64);
        }
    }
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

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        head(&mut bytes, 0, payload.len());
        bytes[0] = first;
        bytes[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        bytes.extend_from_slice(&mask);
        bytes.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        bytes.to_vec()
    }

    fn reader() -> Reader {
        Reader::new(1_000, &FrameBudget::of(0))
    }

    /// The next message or control frame.
    fn next(reader: &mut Reader) -> Result<Option<Incoming>, CloseCode> {
        while let Some(frame) = reader.next()? {
            if frame.incoming != Incoming::Part {
                return Ok(Some(frame.incoming));
            }
        }
        Ok(None)
    }

    fn read(bytes: &[u8]) -> Result<Option<Incoming>, CloseCode> {
        let mut reader = reader();
        reader.feed(bytes);
        next(&mut reader)
    }

    #[test]
    fn a_long_message_holds_room_from_its_head_on_until_it_was_acted_on() {
        let room = FrameBudget::of(3_000);
        let (mut one, mut other) = (Reader::new(4_000, &room), Reader::new(4_000, &room));
        let (long, part) = (masked(0x81, &[b'x'; 2_000]), masked(0x01, &[b'x'; 900]));
        one.feed(&long[..20]);
        assert!(one.next().unwrap().is_none());
        other.feed(&[part, masked(0x00, &[b'x'; 900])].concat());
        assert_eq!(other.next().unwrap().unwrap().incoming, Incoming::Part);
        assert_eq!(other.next().unwrap_err(), CloseCode::TryAgain);
        one.feed(&long[20..]);
        let whole = one.next().unwrap().unwrap();
        assert_eq!(other.next().unwrap_err(), CloseCode::TryAgain);
        drop(whole);
        assert_eq!(other.next().unwrap().unwrap().incoming, Incoming::Part);
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        for (bytes, code) in [
            (masked(0xc1, b"x"), CloseCode::Protocol),
            (masked(0x83, b"x"), CloseCode::Protocol),
            (masked(0x80, b"x"), CloseCode::Protocol),
            (masked(0x09, b"x"), CloseCode::Protocol),
            (masked(0x89, &[0; 126]), CloseCode::Protocol),
            (masked(0x88, &[3]), CloseCode::Protocol),
            (masked(0x88, &1005_u16.to_be_bytes()), CloseCode::Protocol),
            (masked(0x81, &[0xff]), CloseCode::NotUtf8),
            (vec![0x81, 0x01, b'x'], CloseCode::Protocol),
            (vec![0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0], CloseCode::TooBig),
            (masked(0x81, &[b'x'; 1_001]), CloseCode::TooBig),
            (
                [masked(0x01, b"x"), masked(0x81, b"y")].concat(),
                CloseCode::Protocol,
            ),
            (
                [masked(0x01, &[b'x'; 600]), masked(0x00, &[b'x'; 600])].concat(),
                CloseCode::TooBig,
            ),
        ] {
            assert_eq!(read(&bytes), Err(code), "{bytes:?}");
        }
    }

    #[test]
    fn a_ping_may_stand_between_the_frames_of_a_message() {
        let mut reader = reader();
        reader.feed(
            &[
                masked(0x01, b"a"),
                masked(0x89, b"p"),
                masked(0x80, b"b"),
                masked(0x82, b""),
            ]
            .concat(),
        );
        assert_eq!(
            next(&mut reader),
            Ok(Some(Incoming::Ping(Bytes::from_static(b"p"))))
        );
        assert_eq!(
            next(&mut reader),
            Ok(Some(Incoming::Text(Bytes::from_static(b"ab"))))
        );
        assert_eq!(next(&mut reader), Ok(Some(Incoming::Binary)));
        assert_eq!(next(&mut reader), Ok(None));
        assert_eq!(
            read(&masked(0x88, &1000_u16.to_be_bytes())),
            Ok(Some(Incoming::Close(Some(1000))))
        );
        assert_eq!(read(&masked(0x88, b"")), Ok(Some(Incoming::Close(None))));
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_messages_are_the_same(
            texts in proptest::collection::vec("[a-z]{0,300}", 1..5),
            cut in 1_usize..50,
        ) {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| masked(0x81, text.as_bytes())).collect();
            let mut reader = reader();
            let mut found = Vec::new();
            for piece in bytes.chunks(cut) {
                reader.feed(piece);
                while let Some(message) = next(&mut reader).unwrap() {
                    found.push(message);
                }
            }
            let expected: Vec<Incoming> = texts.into_iter().map(|text| Incoming::Text(text.into())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
