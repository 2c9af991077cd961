//! Property tests of the limiter's rules over arbitrary arrivals in simulated time, against a
//! brute-force reading of the whole history.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;

use super::*;

/// Some time passes, then `requests` come at once.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    gap_ms: i64,
    requests: u32,
}

fn gaps_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => 0_i64..50,
        2 => prop_oneof![Just(600_i64), Just(1_000), Just(3_000)],
        3 => (0_i64..3, -1_i64..=1).prop_map(|(seconds, edge_ms)| (seconds * 1_000 + edge_ms).max(0)),
        3 => (58_i64..=63, -1_i64..=1).prop_map(|(seconds, edge_ms)| seconds * 1_000 + edge_ms),
        2 => 0_i64..20_000,
        1 => 60_000_i64..400_000,
        1 => Just(1_000_000_000_i64),
    ]
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let any = (gaps_ms(), prop_oneof![3 => 1_u32..4, 1 => 4_u32..40])
        .prop_map(|(gap_ms, requests)| Arrival { gap_ms, requests });
    let regular = (200_i64..5_000, 1_u32..4, 1_usize..200)
        .prop_map(|(gap_ms, requests, times)| vec![Arrival { gap_ms, requests }; times]);
    prop_oneof![4 => prop::collection::vec(any, 1..80), 1 => regular]
}

fn limits() -> impl Strategy<Value = Limits> {
    prop_oneof![
        4 => (1_u32..25, 0_u32..25).prop_map(|(rate, more)| Limits::new(rate, rate + more)),
        1 => (1_u32..200, 1_u32..40).prop_map(|(rate, burst)| Limits::new(rate, burst)),
        1 => Just(Limits::new(100, 150)),
    ]
}

fn starts_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0_i64),
        Just(-500),
        1_760_000_000_000_i64..1_760_000_100_000
    ]
}

/// Every moment at which a request comes.
fn moments(start_ms: i64, arrivals: &[Arrival]) -> Vec<i64> {
    let mut now_ms = start_ms;
    let mut moments = Vec::new();
    for arrival in arrivals {
        now_ms += arrival.gap_ms;
        moments.extend(std::iter::repeat_n(now_ms, arrival.requests as usize));
    }
    moments
}

/// The promises (a) and (b), in sixtieths of a request: what may pass in a span of so many whole
/// seconds.
fn span_max_sixtieths(limits: Limits, span_seconds: i64) -> i64 {
    let beyond_seconds = (span_seconds - 60).max(0);
    i64::from(limits.burst()) * 60 + i64::from(limits.rate_per_minute()) * beyond_seconds
}

/// The oracle: whether one more at `now_ms` breaks no span, looking at every span over the whole
/// history.
fn may_pass(limits: Limits, passed_ms: &[i64], now_ms: i64) -> bool {
    (0..=passed_ms.len()).all(|first| {
        let count = i64::try_from(passed_ms.len() - first).unwrap() + 1;
        let began_ms = passed_ms.get(first).copied().unwrap_or(now_ms);
        count * 60 <= span_max_sixtieths(limits, second_of(now_ms) - second_of(began_ms))
    })
}

/// In real milliseconds and over every pair of requests, a span's length rounded up to whole
/// seconds.
fn assert_no_span_has_too_many(limits: Limits, passed_ms: &[i64]) {
    for (first, began_ms) in passed_ms.iter().enumerate() {
        for (last, ended_ms) in passed_ms.iter().enumerate().skip(first) {
            let span_seconds = (ended_ms - began_ms + 999).div_euclid(1_000);
            let count = i64::try_from(last - first).unwrap() + 1;
            assert!(
                count * 60 <= span_max_sixtieths(limits, span_seconds),
                "{count} passed in {span_seconds} s with {limits:?}"
            );
        }
    }
}

fn run(limits: Limits, moments: &[i64]) -> (Allowance, Vec<i64>) {
    let mut allowance = Allowance::new(limits, Timestamp(moments[0]));
    let mut passed_ms = Vec::new();
    for now_ms in moments {
        if allowance.take(limits, 1, Timestamp(*now_ms)).allowed {
            passed_ms.push(*now_ms);
        }
    }
    (allowance, passed_ms)
}

fn second_of(unix_ms: i64) -> i64 {
    Timestamp(unix_ms).unix_seconds()
}

fn seconds_later(now_ms: i64, seconds: u64) -> i64 {
    now_ms + i64::try_from(seconds).unwrap() * 1_000
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn in_no_span_pass_more_than_promised(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let (_, passed_ms) = run(limits, &moments(start_ms, &arrivals));
        assert_no_span_has_too_many(limits, &passed_ms);
    }

    #[test]
    fn a_request_passes_exactly_when_it_breaks_no_span(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let mut allowance = Allowance::new(limits, Timestamp(start_ms));
        let mut passed_ms = Vec::new();
        for now_ms in moments(start_ms, &arrivals) {
            let allowed = allowance.take(limits, 1, Timestamp(now_ms)).allowed;
            prop_assert_eq!(allowed, may_pass(limits, &passed_ms, now_ms), "after {:?} at {}", &passed_ms, now_ms);
            if allowed {
                passed_ms.push(now_ms);
            }
        }
    }

    #[test]
    fn an_idle_key_can_spend_its_whole_burst_at_once(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let moments = moments(start_ms, &arrivals);
        let (mut allowance, _) = run(limits, &moments);
        let now_ms = *moments.last().unwrap();
        let whole_ms = seconds_later(now_ms, allowance.peek(limits, Timestamp(now_ms)).burst_reset_after_seconds);
        let mut one_by_one = allowance;
        for _ in 0..limits.burst() {
            prop_assert!(one_by_one.take(limits, 1, Timestamp(whole_ms)).allowed);
        }
        prop_assert!(!one_by_one.take(limits, 1, Timestamp(whole_ms)).allowed);
        let mut at_once = allowance;
        prop_assert!(at_once.take(limits, limits.burst(), Timestamp(whole_ms)).allowed);
        // Idle for a window and the time that the burst takes to drain is always enough.
        prop_assert!(whole_ms - now_ms <= 61_000 + i64::from(60 * limits.burst()).div_ceil_of(limits) * 1_000);
    }

    #[test]
    fn retry_after_is_the_first_second_that_lets_in(
        limits in limits(), start_ms in starts_ms(), arrivals in arrivals(), permits in 1_u32..30,
    ) {
        let permits = permits.min(limits.burst());
        let mut allowance = Allowance::new(limits, Timestamp(start_ms));
        for now_ms in moments(start_ms, &arrivals) {
            let status = allowance.take(limits, permits, Timestamp(now_ms));
            prop_assert_eq!(status.retry_after_seconds.is_none(), status.allowed);
            if let Some(wait_seconds) = status.retry_after_seconds {
                prop_assert!(wait_seconds >= 1);
                let (mut patient, mut hasty) = (allowance, allowance);
                prop_assert!(patient.take(limits, permits, Timestamp(seconds_later(now_ms, wait_seconds))).allowed);
                prop_assert!(!hasty.take(limits, permits, Timestamp(seconds_later(now_ms, wait_seconds - 1))).allowed);
            }
        }
    }

    #[test]
    fn what_is_refused_or_only_looked_at_costs_nothing(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let mut pestered = Allowance::new(limits, Timestamp(start_ms));
        let mut alone = pestered;
        for now_ms in moments(start_ms, &arrivals) {
            for _ in 0..3 {
                pestered.peek(limits, Timestamp(now_ms));
                prop_assert!(!pestered.take(limits, limits.burst() + 1, Timestamp(now_ms)).allowed);
            }
            let status = pestered.take(limits, 1, Timestamp(now_ms));
            if status.allowed {
                prop_assert_eq!(status, alone.take(limits, 1, Timestamp(now_ms)));
            } else {
                // The lone key is not even asked.
                prop_assert_eq!(status, alone.clone().peek(limits, Timestamp(now_ms)));
            }
        }
    }

    #[test]
    fn several_permits_cost_as_much_as_one_by_one(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let mut together = Allowance::new(limits, Timestamp(start_ms));
        let mut singly = together;
        let mut now_ms = start_ms;
        for arrival in arrivals {
            now_ms += arrival.gap_ms;
            let status = together.take(limits, arrival.requests, Timestamp(now_ms));
            if status.allowed {
                let last = (0..arrival.requests).map(|_| singly.take(limits, 1, Timestamp(now_ms))).last();
                prop_assert_eq!(Some(status), last);
            } else {
                prop_assert!(singly.peek(limits, Timestamp(now_ms)).burst_remaining < arrival.requests);
            }
        }
    }

    #[test]
    fn what_remains_can_be_spent_and_is_whole_at_reset(limits in limits(), start_ms in starts_ms(), arrivals in arrivals()) {
        let mut allowance = Allowance::new(limits, Timestamp(start_ms));
        let mut passed_ms = Vec::new();
        for now_ms in moments(start_ms, &arrivals) {
            let status = allowance.take(limits, 1, Timestamp(now_ms));
            if status.allowed {
                passed_ms.push(now_ms);
            }
            assert_numbers_are_true(limits, &allowance, &passed_ms, now_ms, status)?;
        }
    }

    #[test]
    fn a_key_is_forgotten_only_when_that_changes_nothing(limits in limits(), start_ms in starts_ms(), arrivals in arrivals(), idle_ms in gaps_ms()) {
        let moments = moments(start_ms, &arrivals);
        let (mut kept, _) = run(limits, &moments);
        let now_ms = moments.last().unwrap() + idle_ms;
        let mut fresh = Allowance::new(limits, Timestamp(now_ms));
        if kept.is_whole(Timestamp(now_ms)) {
            for later_ms in [0, 0, 999, 60_000, 61_000, 90_000] {
                prop_assert_eq!(kept.take(limits, limits.burst(), Timestamp(now_ms + later_ms)), fresh.take(limits, limits.burst(), Timestamp(now_ms + later_ms)));
            }
        } else {
            prop_assert!(kept.peek(limits, Timestamp(now_ms)).burst_remaining < limits.burst());
        }
    }

    #[test]
    fn a_plan_that_changes_keeps_to_the_widest_and_its_retry_after_is_true(
        changes in prop::collection::vec((limits(), gaps_ms(), 1_u32..20), 1..80), start_ms in starts_ms(),
    ) {
        let widest = Limits::new(
            changes.iter().map(|(limits, ..)| limits.rate_per_minute()).max().unwrap(),
            changes.iter().map(|(limits, ..)| limits.burst()).max().unwrap(),
        );
        let mut allowance = Allowance::new(changes[0].0, Timestamp(start_ms));
        let (mut now_ms, mut passed_ms) = (start_ms, Vec::new());
        for (limits, gap_ms, requests) in changes {
            now_ms += gap_ms;
            for _ in 0..requests {
                let status = allowance.take(limits, 1, Timestamp(now_ms));
                if let Some(wait_seconds) = status.retry_after_seconds {
                    let (mut patient, mut hasty) = (allowance, allowance);
                    prop_assert!(patient.take(limits, 1, Timestamp(seconds_later(now_ms, wait_seconds))).allowed);
                    prop_assert!(!hasty.take(limits, 1, Timestamp(seconds_later(now_ms, wait_seconds - 1))).allowed);
                } else {
                    passed_ms.push(now_ms);
                    // What passes under a burst is within that burst, whatever came before.
                    let in_window = passed_ms.iter().filter(|ms| second_of(**ms) >= second_of(now_ms) - 60).count();
                    prop_assert!(in_window <= limits.burst() as usize);
                }
            }
        }
        assert_no_span_has_too_many(widest, &passed_ms);
    }

    #[test]
    fn no_time_and_no_limit_is_too_strange(
        asks in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), strange_times_ms()), 1..40),
    ) {
        let mut allowance = Allowance::new(Limits::new(asks[0].0, asks[0].1), Timestamp(asks[0].3));
        for (rate, burst, permits, now_ms) in asks {
            let limits = Limits::new(rate, burst);
            allowance.is_whole(Timestamp(now_ms));
            allowance.peek(limits, Timestamp(now_ms));
            let status = allowance.take(limits, permits, Timestamp(now_ms));
            prop_assert_eq!(status.allowed, status.retry_after_seconds.is_none());
            prop_assert_eq!(u64::from(allowance.window), allowance.passed.iter().map(|count| u64::from(*count)).sum::<u64>());
        }
    }

    #[test]
    fn while_the_clock_jitters_time_stands_still(
        limits in limits(), start_ms in starts_ms(), arrivals in arrivals(), jitter_ms in prop::collection::vec(0_i64..60_000, 80),
    ) {
        let mut allowance = Allowance::new(limits, Timestamp(start_ms));
        let mut newest_ms = start_ms;
        let mut passed_ms = Vec::new();
        for (now_ms, back_ms) in moments(start_ms, &arrivals).into_iter().zip(jitter_ms.into_iter().cycle()) {
            let seen_ms = now_ms - back_ms;
            newest_ms = newest_ms.max(seen_ms);
            if second_of(newest_ms) - second_of(seen_ms) > JITTER_SECONDS_MAX {
                continue;
            }
            let status = allowance.take(limits, 1, Timestamp(seen_ms));
            prop_assert_eq!(status.allowed, may_pass(limits, &passed_ms, newest_ms));
            match status.retry_after_seconds {
                None => passed_ms.push(newest_ms),
                Some(wait_seconds) => {
                    let mut patient = allowance;
                    prop_assert!(patient.take(limits, 1, Timestamp(seconds_later(seen_ms, wait_seconds))).allowed);
                }
            }
            let whole_ms = seconds_later(seen_ms, status.reset_after_seconds);
            prop_assert_eq!(allowance.clone().peek(limits, Timestamp(whole_ms)).remaining, limits.rate_per_minute());
        }
    }
}

trait DivCeilOf {
    fn div_ceil_of(self, limits: Limits) -> i64;
}

impl DivCeilOf for i64 {
    /// Sixtieths, drained at the rate: whole seconds.
    fn div_ceil_of(self, limits: Limits) -> i64 {
        let rate = i64::from(limits.rate_per_minute());
        (self + rate - 1) / rate
    }
}

fn strange_times_ms() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        -200_000_i64..200_000
    ]
}

fn assert_numbers_are_true(
    limits: Limits,
    allowance: &Allowance,
    passed_ms: &[i64],
    now_ms: i64,
    status: RateLimitStatus,
) -> Result<(), TestCaseError> {
    let in_window = passed_ms
        .iter()
        .filter(|ms| second_of(**ms) >= second_of(now_ms) - 60)
        .count();
    let rate_left = limits
        .rate_per_minute()
        .saturating_sub(u32::try_from(in_window).unwrap());
    prop_assert_eq!(status.limit, limits.rate_per_minute());
    prop_assert_eq!(status.burst, limits.burst());
    prop_assert_eq!(status.remaining, rate_left);
    prop_assert_eq!(status.allowed || status.burst_remaining == 0, true);
    prop_assert_eq!(
        status.reset_unix_seconds,
        second_of(seconds_later(now_ms, status.reset_after_seconds))
    );
    let (mut enough, mut too_many) = (*allowance, *allowance);
    if status.burst_remaining > 0 {
        prop_assert!(
            enough
                .take(limits, status.burst_remaining, Timestamp(now_ms))
                .allowed
        );
    }
    prop_assert!(
        !too_many
            .take(limits, status.burst_remaining + 1, Timestamp(now_ms))
            .allowed
    );
    // Whole at the reset, and not a second before.
    let whole = |seconds| {
        allowance
            .clone()
            .peek(limits, Timestamp(seconds_later(now_ms, seconds)))
    };
    prop_assert_eq!(
        whole(status.reset_after_seconds).remaining,
        limits.rate_per_minute()
    );
    if in_window > 0 {
        prop_assert!(whole(status.reset_after_seconds - 1).remaining < limits.rate_per_minute());
    }
    prop_assert_eq!(
        whole(status.burst_reset_after_seconds).burst_remaining,
        limits.burst()
    );
    prop_assert!(whole(status.burst_reset_after_seconds - 1).burst_remaining < limits.burst());
    Ok(())
}

const BASIC: fn() -> Limits = || Limits::new(100, 150);

#[test]
fn a_basic_key_that_spends_its_burst_sees_these_numbers() {
    let mut allowance = Allowance::new(BASIC(), Timestamp(1_000_000));
    let first = allowance.take(BASIC(), 1, Timestamp(1_000_000));
    let expected = RateLimitStatus {
        allowed: true,
        limit: 100,
        burst: 150,
        remaining: 99,
        burst_remaining: 149,
        reset_unix_seconds: 1_061,
        reset_after_seconds: 61,
        burst_reset_after_seconds: 61,
        retry_after_seconds: None,
    };
    assert_eq!(first, expected);
    let hundredth = allowance.take(BASIC(), 99, Timestamp(1_000_999));
    assert_eq!((hundredth.remaining, hundredth.burst_remaining), (0, 50));
    let last = allowance.take(BASIC(), 50, Timestamp(1_000_999));
    assert_eq!(
        (last.allowed, last.remaining, last.burst_remaining),
        (true, 0, 0)
    );
    // All 150 leave the window in 61 seconds; the bucket needs 90 more to drain at 100/60 a second,
    // less what it drained meanwhile.
    assert_eq!(
        (last.reset_after_seconds, last.burst_reset_after_seconds),
        (61, 150)
    );
    let refused = allowance.take(BASIC(), 1, Timestamp(1_000_999));
    assert_eq!(
        (refused.allowed, refused.retry_after_seconds),
        (false, Some(61))
    );
    assert!(!allowance.take(BASIC(), 1, Timestamp(1_060_999)).allowed);
    assert!(allowance.take(BASIC(), 1, Timestamp(1_061_000)).allowed);
}

#[test]
fn a_steady_client_at_its_rate_is_never_refused() {
    let mut allowance = Allowance::new(BASIC(), Timestamp(0));
    for request in 0..10_000 {
        let status = allowance.take(BASIC(), 1, Timestamp(request * 600));
        assert!(status.allowed);
        assert!(request > 150 || status.remaining > 0 || request >= 99);
    }
}

#[test]
fn more_than_the_burst_never_fits_and_is_told_when_the_whole_burst_would() {
    let mut allowance = Allowance::new(BASIC(), Timestamp(0));
    assert_eq!(
        allowance
            .take(BASIC(), 151, Timestamp(0))
            .retry_after_seconds,
        Some(1)
    );
    allowance.take(BASIC(), 150, Timestamp(0));
    let refused = allowance.take(BASIC(), 1_000, Timestamp(0));
    assert_eq!(
        refused.retry_after_seconds,
        Some(refused.burst_reset_after_seconds)
    );
}

#[test]
fn a_clock_set_back_by_hours_leaves_what_was_spent_its_age() {
    let mut allowance = Allowance::new(BASIC(), Timestamp(10_000_000));
    assert!(allowance.take(BASIC(), 150, Timestamp(10_000_000)).allowed);
    assert_eq!(
        allowance
            .take(BASIC(), 1, Timestamp(10_030_000))
            .retry_after_seconds,
        Some(31)
    );
    assert_eq!(
        allowance
            .take(BASIC(), 1, Timestamp(5_000))
            .retry_after_seconds,
        Some(31)
    );
    assert!(!allowance.take(BASIC(), 1, Timestamp(35_999)).allowed);
    assert!(allowance.take(BASIC(), 1, Timestamp(36_000)).allowed);
}

#[test]
fn a_wider_plan_counts_from_the_request_that_brings_it() {
    let wide = Limits::new(500, 750);
    let mut allowance = Allowance::new(BASIC(), Timestamp(0));
    assert!(allowance.take(BASIC(), 150, Timestamp(0)).allowed);
    assert!(!allowance.take(BASIC(), 1, Timestamp(0)).allowed);
    let widened = allowance.take(wide, 1, Timestamp(0));
    assert_eq!(
        (
            widened.allowed,
            widened.limit,
            widened.remaining,
            widened.burst_remaining
        ),
        (true, 500, 349, 599)
    );
    let narrowed = allowance.take(BASIC(), 1, Timestamp(0));
    assert_eq!(
        (narrowed.allowed, narrowed.limit, narrowed.remaining),
        (false, 100, 0)
    );
}

#[test]
fn the_bucket_drains_at_the_rate_that_the_last_request_came_with() {
    let faster = Limits::new(600, 150);
    let mut told_early = Allowance::new(BASIC(), Timestamp(0));
    assert!(told_early.take(BASIC(), 150, Timestamp(0)).allowed);
    let mut told_late = told_early;
    assert!(!told_early.take(faster, 1, Timestamp(0)).allowed);
    assert_eq!(
        told_early.peek(faster, Timestamp(61_000)).burst_remaining,
        10
    );
    assert_eq!(told_late.peek(faster, Timestamp(61_000)).burst_remaining, 1);
    assert_eq!(
        told_late.peek(faster, Timestamp(62_000)).burst_remaining,
        11
    );
}

#[test]
fn a_limit_of_nothing_is_a_limit_of_one() {
    assert_eq!(Limits::new(0, 0), Limits::new(1, 1));
}

#[test]
fn a_key_costs_few_bytes() {
    assert!(size_of::<Allowance>() <= 288, "{}", size_of::<Allowance>());
}
