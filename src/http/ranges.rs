//! `Range`: the one part of a content that a request asks for (RFC 9110, 14.2).

use std::ops::Range;

/// No byte of the content is in what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsatisfiable;

/// The part that a header names; none where the whole is to be sent: of several parts at once, of
/// another unit, and of what is no range at all.
pub(super) fn part(header: &str, length: u64) -> Result<Option<Range<u64>>, Unsatisfiable> {
    let Some((unit, spec)) = header.trim().split_once('=') else {
        return Ok(None);
    };
    // The name of a unit has no case (RFC 9110, 14.1).
    if !unit.eq_ignore_ascii_case("bytes") {
        return Ok(None);
    }
    let Some((first, last)) = spec.trim().split_once('-') else {
        return Ok(None);
    };
    let number = |text: &str| match text {
        "" => Some(None),
        text if text.bytes().all(|b| b.is_ascii_digit()) => {
            // One that is larger than any number is larger than any content.
            Some(Some(text.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    let range = match (number(first), number(last)) {
        (Some(Some(first)), Some(None)) => first..length,
        (Some(Some(first)), Some(Some(last))) if first <= last => {
            first..last.saturating_add(1).min(length)
        }
        (Some(None), Some(Some(suffix))) => length.saturating_sub(suffix)..length,
        (Some(_) | None, Some(_) | None) => return Ok(None),
    };
    if range.is_empty() {
        Err(Unsatisfiable)
    } else {
        Ok(Some(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within_the_content() {
        for (header, expected) in [
            ("bytes=0-0", Ok(Some(0..1))),
            ("bytes=2-", Ok(Some(2..10))),
            ("bytes=2-99", Ok(Some(2..10))),
            ("bytes=-3", Ok(Some(7..10))),
            ("Bytes=0-1", Ok(Some(0..2))),
            ("BYTES=10-", Err(Unsatisfiable)),
            ("bytes", Ok(None)),
            ("bytes=-99", Ok(Some(0..10))),
            ("bytes=10-", Err(Unsatisfiable)),
            ("bytes=99999999999999999999-", Err(Unsatisfiable)),
            ("bytes=-0", Err(Unsatisfiable)),
            ("bytes=3-2", Ok(None)),
            ("bytes=-", Ok(None)),
            ("bytes=0-1,3-4", Ok(None)),
            ("lines=0-1", Ok(None)),
            ("bytes=a-b", Ok(None)),
        ] {
            assert_eq!(part(header, 10), expected, "{header}");
        }
    }
}
