//! Server-Sent Events as they come in (WHATWG HTML, 9.2.6): bytes in pieces of any size, messages
//! out.

/// Bytes of one line; no event is as long.
const LINE_BYTES_MAX: usize = 16 << 20;

/// What stood between two blank lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Where to go on after this one; empty where the server has said nothing of it yet.
    pub(super) id: String,
    /// Its data; empty where only the place was told.
    pub(super) data: String,
}

/// The stream can't be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream is too long")]
pub(super) struct TooLong;

/// Reads one connection's stream.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// A line feed right after a carriage return belongs to it.
    after_return: bool,
    begun: bool,
    id: String,
    data: Option<String>,
    /// Whether the block that is open told a place.
    placed: bool,
}

impl Parser {
    /// Takes the next bytes; gives what they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLong> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    complete.extend(self.end_of_line(&String::from_utf8_lossy(&line)));
                }
                _ if self.line.len() == LINE_BYTES_MAX => return Err(TooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(complete)
    }

    fn end_of_line(&mut self, line: &str) -> Option<Message> {
        let begun = std::mem::replace(&mut self.begun, true);
        let line = if begun {
            line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        };
        if line.is_empty() {
            return self.end_of_block();
        }
        // A comment is a line whose name is empty.
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" if !value.contains('\0') => {
                value.clone_into(&mut self.id);
                self.placed = true;
            }
            "data" => match &mut self.data {
                Some(data) => data.extend(["\n", value]),
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }

    fn end_of_block(&mut self) -> Option<Message> {
        let (data, placed) = (self.data.take(), std::mem::take(&mut self.placed));
        (placed || data.is_some()).then(|| Message {
            id: self.id.clone(),
            data: data.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    fn message(id: &str, data: &str) -> Message {
        Message {
            id: id.to_owned(),
            data: data.to_owned(),
        }
    }

    const STREAM: &str = "\u{feff}: hello\n\nid: cur_1\nevent: message.created\ndata: {\"a\":\"é\"}\n\n:\n\n\
        data:no space\r\ndata:  two\r\n\r\nid\ndata\r\rid: cur_2\n\nretry: 5\nunknown: x\n\ndata: cut off\n";

    fn expected() -> Vec<Message> {
        vec![
            message("cur_1", "{\"a\":\"é\"}"),
            message("cur_1", "no space\n two"),
            message("", ""),
            message("cur_2", ""),
        ]
    }

    #[test]
    fn blocks_become_messages_and_comments_nothing() {
        assert_eq!(
            Parser::default().push(STREAM.as_bytes()).unwrap(),
            expected()
        );
    }

    #[test]
    fn a_place_with_a_null_is_ignored() {
        assert_eq!(
            Parser::default().push(b"id: a\0b\ndata: x\n\n").unwrap(),
            [message("", "x")]
        );
    }

    #[test]
    fn a_line_without_end_is_not_kept_for_ever() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(&vec![b'x'; LINE_BYTES_MAX]), Ok(Vec::new()));
        assert_eq!(parser.push(b"x"), Err(TooLong));
    }

    proptest! {
        #[test]
        fn where_the_pieces_end_makes_no_difference(sizes in proptest::collection::vec(1_usize..9, 1..80)) {
            let (mut parser, mut found, mut rest) = (Parser::default(), Vec::new(), STREAM.as_bytes());
            for size in sizes.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(size.min(rest.len()));
                found.extend(parser.push(piece).unwrap());
                rest = after;
            }
            prop_assert_eq!(found, expected());
        }
    }
}
