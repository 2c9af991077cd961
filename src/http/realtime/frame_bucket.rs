//! How many frames a socket may send: a token bucket for those that are acted on, and a second one,
//! of the same size, for refusals. When both are empty nothing more is read until there is a token
//! again, so a flood ends at its sender.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes of a frame that one token pays for.
const BYTES_OF_A_TOKEN: usize = 1_024;

/// How many frames a socket may send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameRate {
    /// How many frames may come in a second, on average.
    pub(crate) per_second: f64,
    /// How many frames may come at once, after a rest.
    pub(crate) burst: f64,
}

/// What one socket has sent of the frames that it may.
#[derive(Debug)]
pub(super) struct FrameBucket {
    per_second: f64,
    burst: f64,
    /// What was taken of each and has not come back.
    passed: f64,
    refused: f64,
    at: Instant,
}

impl FrameBucket {
    pub(super) fn new(rate: FrameRate, now: Instant) -> Self {
        let FrameRate { per_second, burst } = rate;
        FrameBucket {
            per_second,
            burst,
            passed: 0.0,
            refused: 0.0,
            at: now,
        }
    }

    /// Takes what a frame of so many bytes costs; an error where it is beyond: when such a frame
    /// would pass.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        let tokens = u32::try_from(bytes / BYTES_OF_A_TOKEN)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let cost = f64::from(tokens).min(self.burst);
        if self.passed + cost <= self.burst {
            self.passed += cost;
            return Ok(());
        }
        self.refused += cost;
        Err(self.time_of(self.passed + cost - self.burst))
    }

    /// How long nothing is to be read.
    pub(super) fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.refill(now);
        (self.refused >= self.burst).then(|| self.time_of(self.refused - self.burst + 1.0))
    }

    fn refill(&mut self, now: Instant) {
        let tokens = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.at = self.at.max(now);
        self.passed = (self.passed - tokens).max(0.0);
        self.refused = (self.refused - tokens).max(0.0);
    }

    fn time_of(&self, tokens: f64) -> Duration {
        Duration::try_from_secs_f64(tokens / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: f64, burst: f64) -> FrameRate {
        FrameRate { per_second, burst }
    }

    #[test]
    fn a_frame_passes_when_it_was_told_to_come_again() {
        let start = Instant::now();
        let mut bucket = FrameBucket::new(rate(10.0, 20.0), start);
        assert!((0..20).all(|_| bucket.take(0, start).is_ok()));
        let wait = bucket.take(0, start).err().unwrap_or_default();
        assert_eq!(wait, Duration::from_millis(100));
        assert!(bucket.take(0, start + wait / 2).is_err());
        assert!(bucket.take(0, start + wait).is_ok());
    }

    #[test]
    fn a_frame_larger_than_the_bucket_passes_when_it_is_full() {
        let start = Instant::now();
        let mut bucket = FrameBucket::new(rate(1.0, 3.0), start);
        assert!(bucket.take(1 << 20, start).is_ok() && bucket.take(0, start).is_err());
    }

    proptest! {
        #[test]
        fn in_any_span_no_more_pass_than_the_bucket_has(
            waits in proptest::collection::vec(0_u64..400, 1..200),
            burst in 1_u32..20,
        ) {
            let (start, burst) = (Instant::now(), f64::from(burst));
            let mut bucket = FrameBucket::new(rate(10.0, burst), start);
            let (mut now, mut passed, mut refused) = (start, 0.0, 0.0);
            for wait in waits {
                now += Duration::from_millis(wait);
                if let Some(pause) = bucket.pause(now) {
                    prop_assert!(pause > Duration::ZERO);
                    now += pause;
                }
                if bucket.take(0, now).is_ok() { passed += 1.0 } else { refused += 1.0 }
                let came = now.duration_since(start).as_secs_f64() * 10.0 + burst + 1e-6;
                prop_assert!(passed <= came && refused <= came + 1.0);
            }
        }
    }
}
