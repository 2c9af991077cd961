//! Which requests are traced, and under which identifiers (W3C Trace Context). All of it follows from
//! the request's identifier, so that whoever delivers its events, later or on another node, finds
//! the same.

use sha2::{Digest, Sha256};

/// What a caller says of the trace that its request is a part of (`traceparent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) is_sampled: bool,
}

/// Reads a `traceparent` header; none where it is not as W3C Trace Context has it.
pub(super) fn parent(header: &str) -> Option<Parent> {
    let mut parts = header.split('-');
    let mut part = |digits: usize| {
        let part = parts.next()?;
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (part.len() == digits && part.bytes().all(is_hex)).then_some(part)
    };
    let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    // Later versions may have more parts behind these.
    if version == "ff" || version == "00" && parts.next().is_some() {
        return None;
    }
    let parent = Parent {
        trace: u128::from_str_radix(trace, 16).ok()?,
        span: u64::from_str_radix(span, 16).ok()?,
        is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
    };
    (parent.trace != 0 && parent.span != 0).then_some(parent)
}

/// The trace of a request that is part of no other: the digits of an identifier of ours, so that
/// either is found by the other.
pub(super) fn trace_of(request_id: &str) -> u128 {
    let digits = request_id
        .strip_prefix("req_")
        .filter(|digits| digits.len() == 32);
    let own = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
    own.filter(|own| *own != 0).unwrap_or_else(|| {
        let [trace, _] = hashed(request_id);
        trace
    })
}

/// The identifier of the request itself as a span.
pub(super) fn span_of(request_id: &str) -> u64 {
    let [_, span] = hashed(request_id);
    // The half that is left has as much chance.
    u64::try_from(span >> 64).unwrap_or(1).max(1)
}

fn hashed(request_id: &str) -> [u128; 2] {
    let hash: [u8; 32] = Sha256::digest(request_id.as_bytes()).into();
    let (mut trace, mut span) = ([0; 16], [0; 16]);
    let (first, second) = hash.split_at(16);
    trace.copy_from_slice(first);
    span.copy_from_slice(second);
    [u128::from_be_bytes(trace).max(1), u128::from_be_bytes(span)]
}

/// Whether a trace is among so many of all, 0 to 1: as OpenTelemetry's `TraceIdRatioBased` has it, by
/// the trace's last 63 bits.
pub(super) fn is_sampled(trace: u128, ratio: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "chance needs no precision")]
    let place = (trace as u64 >> 1) as f64 / (1_u64 << 63) as f64;
    // A place right before 1 is 1 in what a float can tell.
    place < ratio || ratio >= 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_it_is_written_and_nothing_else_is() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let read = parent(&format!("00-{trace}-00f067aa0ba902b7-01"));
        let expected = Parent {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        assert_eq!(read, Some(expected));
        assert!(parent(&format!("01-{trace}-00f067aa0ba902b7-00-more")).is_some());
        for wrong in [
            String::new(),
            format!("00-{trace}-00f067aa0ba902b7"),
            format!("00-{trace}-00f067aa0ba902b7-01-more"),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}-+0f067aa0ba902b7-01"),
        ] {
            assert_eq!(parent(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn identifiers_follow_from_the_requests_and_so_many_are_sampled() {
        let ours = "req_4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_of(ours), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(span_of(ours), span_of(ours));
        assert_ne!(trace_of("mine"), trace_of("yours"));
        let traces = (0..10_000).map(|number| trace_of(&format!("request {number}")));
        let sampled = traces.filter(|trace| is_sampled(*trace, 0.2)).count();
        assert!((1_800..2_200).contains(&sampled), "{sampled}");
        assert!(is_sampled(u128::MAX, 1.0) && !is_sampled(0, 0.0));
    }
}
