//! Where a reader of an account's events stands, as clients see it.

use colloquy_model::stream::StreamOffset;
use std::fmt;
use std::str::FromStr;

/// An offset in the feed of an account and mode, written so that nobody counts with it; `0` is the
/// beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub StreamOffset);

/// That a text is no cursor of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a cursor from this list, or 0")]
pub struct NotACursor;

const PREFIX: &str = "cur_";
/// Any odd number will do: it only makes neighbours look unlike.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const UNSPREAD: u64 = inverse(SPREAD);

/// The number that undoes a multiplication by `odd`, modulo 2^64: Newton's iteration, doubling the
/// right bits each time.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut turn = 0;
    while turn < 6 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        turn += 1;
    }
    x
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == StreamOffset::BEGINNING {
            f.write_str("0")
        } else {
            write!(f, "{PREFIX}{:016x}", self.0.0.wrapping_mul(SPREAD))
        }
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        if text == "0" {
            return Ok(Cursor(StreamOffset::BEGINNING));
        }
        let digits = text
            .strip_prefix(PREFIX)
            .filter(|digits| digits.len() == 16)
            .ok_or(NotACursor)?;
        let canonical = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if !digits.bytes().all(canonical) {
            return Err(NotACursor);
        }
        u64::from_str_radix(digits, 16)
            .map(|spread| Cursor(StreamOffset(spread.wrapping_mul(UNSPREAD))))
            .map_err(|_| NotACursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_as_itself_and_nothing_else_does() {
        for number in [0, 1, 2, 255, 1 << 40, u64::MAX] {
            let cursor = Cursor(StreamOffset(number));
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for wrong in [
            "",
            "1",
            "cur_",
            "cur_1",
            "cur_00000000000000FF",
            "cur_000000000000000000",
        ] {
            assert_eq!(wrong.parse::<Cursor>(), Err(NotACursor), "{wrong}");
        }
    }
}
