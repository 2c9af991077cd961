//! The allowance of one key: what it has spent, and whether it may spend more. Pure rules over the
//! time that is passed in; knows no clock and no actor.
//!
//! The rule: what passed in the last 60 s, plus the level of a leaky bucket, draining at the rate,
//! of all that passed before that, stays at or below the burst. It holds exactly when, for every
//! span that ends now and lasts T ≥ 60 s, at most `rate × T/60 + (burst − rate)` passed in it (T =
//! 60: at most `burst`).
//!
//! The resolution is one second: a request counts at the whole second that it falls into, and a
//! span from second *i* to second *j*, both included, lasts T = *j* − *i*. So in real time:
//! - never too much: in any span of T ≥ 60 s, ends included, at most what the formula allows for T
//!   rounded up to whole seconds passes, so for whole T exactly the formula, and in any 60 s at
//!   most `burst`;
//! - never too little: a request is refused only where the formula would be broken were each
//!   request made at the beginning of its second. A span's length changes by less than a second by
//!   this.

use colloquy_model::time::Timestamp;

/// The window in which a request counts in full, both ends included: a request of second 0 leaves
/// it at second 61.
const WINDOW_SECONDS: usize = 61;
/// The units of the bucket in one request: a rate of n per minute drains n units a second.
const SIXTIETHS: u64 = 60;
/// How far the clock may go back and still count as jitter between threads, during which time
/// stands still. Beyond this the clock was set, and what was spent keeps its age on the new time;
/// otherwise a key could be stuck until the old time comes again.
const JITTER_SECONDS_MAX: i64 = 60;

/// The limits of a key. They come with every request, since an account's plan may change at any
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    rate_per_minute: u32,
    burst: u32,
}

impl Limits {
    /// A rate per minute and a burst. 0 is raised to 1: with a rate of 0 no `Retry-After` could be
    /// true.
    #[must_use]
    pub fn new(rate_per_minute: u32, burst: u32) -> Self {
        Self {
            rate_per_minute: rate_per_minute.max(1),
            burst: burst.max(1),
        }
    }

    /// How many requests a minute pass in the long run.
    #[must_use]
    pub fn rate_per_minute(self) -> u32 {
        self.rate_per_minute
    }

    /// Limits of which only the rate is known.
    pub(super) fn of_rate(rate_per_minute: u32) -> Self {
        Self::new(rate_per_minute, rate_per_minute)
    }

    /// How many requests pass in any 60 s at most.
    #[must_use]
    pub fn burst(self) -> u32 {
        self.burst
    }

    fn burst_sixtieths(self) -> u64 {
        u64::from(self.burst) * SIXTIETHS
    }
}

/// Whether a request may pass, with all numbers that its headers need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// Whether the request passes; for a peek, whether one would.
    pub allowed: bool,
    /// The rate per minute: `X-RateLimit-Limit`, and `q` of `"rate"`.
    pub limit: u32,
    /// The most requests in any 60 s: `q` of `"burst"`.
    pub burst: u32,
    /// What is left of the rate in the last 60 s: `X-RateLimit-Remaining`, and `r` of `"rate"`.
    /// After a burst it may say more than `burst_remaining`, which decides.
    pub remaining: u32,
    /// What may be spent at once: `r` of `"burst"`.
    pub burst_remaining: u32,
    /// When `remaining` would be whole again if nothing more came: `X-RateLimit-Reset`.
    pub reset_unix_seconds: i64,
    /// The same from now: `t` of `"rate"`.
    pub reset_after_seconds: u64,
    /// When `burst_remaining` would be whole again, from now: `t` of `"burst"`.
    pub burst_reset_after_seconds: u64,
    /// At least 1, only where refused: the first second in which the same request passes if nothing
    /// else comes before.
    pub retry_after_seconds: Option<u64>,
}

/// What one key has spent, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    /// What passed in each second of the window: a ring that ends at `newest`.
    passed: [u32; WINDOW_SECONDS],
    /// How many requests passed in the window: the sum of `passed`.
    window: u32,
    /// The leaky bucket of all that has left the window.
    level_sixtieths: u64,
    /// The second that `newest` stands for, in Unix time.
    second: i64,
    /// The rate at which the bucket drains until the next request brings another one.
    rate_per_minute: u32,
    /// What passed here and the other nodes have not been told of.
    untold: u32,
    /// The index of the newest second in `passed`.
    newest: u8,
}

impl Allowance {
    /// An allowance of which nothing is spent.
    pub(super) fn new(limits: Limits, now: Timestamp) -> Self {
        Self {
            passed: [0; WINDOW_SECONDS],
            window: 0,
            level_sixtieths: 0,
            second: now.unix_seconds(),
            rate_per_minute: limits.rate_per_minute,
            untold: 0,
            newest: 0,
        }
    }

    /// Spends `permits` (0 counts as 1) if all of them fit, otherwise nothing. More than the burst
    /// never fit; the time to retry is then that of the whole burst.
    pub(super) fn take(&mut self, limits: Limits, permits: u32, now: Timestamp) -> RateLimitStatus {
        self.advance(limits, now);
        let permits = permits.max(1);
        let allowed = self.fits(limits, permits);
        if allowed && let Some(newest) = self.passed.get_mut(usize::from(self.newest)) {
            // Neither saturates: the window is never above the burst after this.
            *newest = newest.saturating_add(permits);
            self.window = self.window.saturating_add(permits);
        }
        let retry = (!allowed).then(|| self.fits_in_seconds(limits, permits));
        self.status(limits, retry, now)
    }

    /// Reads the numbers without spending anything.
    pub(super) fn peek(&mut self, limits: Limits, now: Timestamp) -> RateLimitStatus {
        self.advance(limits, now);
        let retry = (!self.fits(limits, 1)).then(|| self.fits_in_seconds(limits, 1));
        self.status(limits, retry, now)
    }

    /// Counts permits that another node has let pass: they are spent, whether they fit or not, and
    /// count for the second in which this node learns of them.
    pub(super) fn spend_elsewhere(&mut self, permits: u32, now: Timestamp) {
        self.advance_to(now.unix_seconds());
        let permits = permits.min(u32::MAX - self.window);
        if let Some(newest) = self.passed.get_mut(usize::from(self.newest)) {
            // Neither overflows: no second has more than the window.
            *newest += permits;
            self.window += permits;
        }
    }

    /// Notes that other nodes are to be told of these permits; whether they knew of all before.
    pub(super) fn tell_later(&mut self, permits: u32) -> bool {
        let is_first = self.untold == 0;
        self.untold = self.untold.saturating_add(permits.max(1));
        is_first
    }

    /// What other nodes are to be told of now, and the rate at which the bucket drains.
    pub(super) fn take_untold(&mut self) -> (u32, u32) {
        (std::mem::take(&mut self.untold), self.rate_per_minute)
    }

    /// Leaves its numbers as a panic in the midst of a request might.
    #[cfg(test)]
    pub(super) fn break_for_test(&mut self) {
        self.window += 1;
    }

    /// Whether its numbers agree, as they do between any two requests.
    pub(super) fn is_sound(&self) -> bool {
        let passed: u64 = self.passed.iter().map(|passed| u64::from(*passed)).sum();
        passed == u64::from(self.window)
            && usize::from(self.newest) < WINDOW_SECONDS
            && self.rate_per_minute > 0
    }

    /// Whether nothing is spent any more, so that the allowance need not be stored.
    pub(super) fn is_whole(&mut self, now: Timestamp) -> bool {
        self.advance_to(now.unix_seconds());
        self.used_sixtieths() == 0
    }

    /// Moves the time forward. The bucket has drained at the rate of the last request; a new rate
    /// counts from here.
    fn advance(&mut self, limits: Limits, now: Timestamp) {
        self.advance_to(now.unix_seconds());
        self.rate_per_minute = limits.rate_per_minute;
    }

    fn advance_to(&mut self, second: i64) {
        let back = self.second.saturating_sub(second);
        if back > 0 {
            if back > JITTER_SECONDS_MAX {
                self.second = second;
            }
            return;
        }
        let mut elapsed_seconds = back.unsigned_abs();
        // At most 61 steps: then the window is empty, and only the bucket is left.
        while elapsed_seconds > 0 && self.window > 0 {
            self.step();
            elapsed_seconds -= 1;
        }
        let drained = elapsed_seconds.saturating_mul(u64::from(self.rate_per_minute));
        self.level_sixtieths = self.level_sixtieths.saturating_sub(drained);
        self.second = second;
    }

    /// Lets one second pass: the oldest second's requests go from the window into the bucket, which
    /// then drains, since a span that is one second longer than the window allows one second's
    /// drain more.
    fn step(&mut self) {
        self.newest = if usize::from(self.newest) + 1 < WINDOW_SECONDS {
            self.newest + 1
        } else {
            0
        };
        let Some(oldest) = self.passed.get_mut(usize::from(self.newest)) else {
            return;
        };
        let left = std::mem::take(oldest);
        self.window = self.window.saturating_sub(left);
        self.level_sixtieths = (self.level_sixtieths + u64::from(left) * SIXTIETHS)
            .saturating_sub(self.rate_per_minute.into());
    }

    fn used_sixtieths(&self) -> u64 {
        u64::from(self.window) * SIXTIETHS + self.level_sixtieths
    }

    fn fits(&self, limits: Limits, permits: u32) -> bool {
        self.used_sixtieths() + u64::from(permits) * SIXTIETHS <= limits.burst_sixtieths()
    }

    /// In how many seconds `permits` fit if nothing else is spent before.
    fn fits_in_seconds(&self, limits: Limits, permits: u32) -> u64 {
        let used_max = limits.burst_sixtieths() - u64::from(permits.min(limits.burst)) * SIXTIETHS;
        let mut later = *self;
        let mut seconds = 0;
        while later.window > 0 {
            if later.used_sixtieths() <= used_max {
                return seconds;
            }
            later.step();
            seconds += 1;
        }
        // At least 1: more than the burst does not even fit into a whole one.
        (seconds + later.drained_to_in_seconds(used_max)).max(1)
    }

    fn drained_to_in_seconds(&self, level_sixtieths: u64) -> u64 {
        self.level_sixtieths
            .saturating_sub(level_sixtieths)
            .div_ceil(self.rate_per_minute.into())
    }

    /// The numbers of an allowance whose time has been moved to now.
    fn status(
        &self,
        limits: Limits,
        fits_in_seconds: Option<u64>,
        now: Timestamp,
    ) -> RateLimitStatus {
        let unused_sixtieths = limits
            .burst_sixtieths()
            .saturating_sub(self.used_sixtieths());
        let burst_remaining = u32::try_from(unused_sixtieths / SIXTIETHS).unwrap_or(limits.burst);
        let mut empty = *self;
        let mut empty_in_seconds = 0;
        while empty.window > 0 {
            empty.step();
            empty_in_seconds += 1;
        }
        // When time stands still because the clock went back, the wait is counted from the clock's
        // time.
        let behind_seconds = self
            .second
            .saturating_sub(now.unix_seconds())
            .unsigned_abs();
        let reset_after_seconds = behind_seconds + empty_in_seconds;
        RateLimitStatus {
            allowed: fits_in_seconds.is_none(),
            limit: limits.rate_per_minute,
            burst: limits.burst,
            remaining: limits.rate_per_minute.saturating_sub(self.window),
            burst_remaining,
            reset_unix_seconds: now
                .unix_seconds()
                .saturating_add_unsigned(reset_after_seconds),
            reset_after_seconds,
            burst_reset_after_seconds: behind_seconds
                + empty_in_seconds
                + empty.drained_to_in_seconds(0),
            retry_after_seconds: fits_in_seconds.map(|seconds| behind_seconds + seconds),
        }
    }
}

#[cfg(test)]
#[path = "allowance_tests.rs"]
mod tests;
