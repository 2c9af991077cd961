//! How long something took, of however many: their number, their sum, and a histogram with fixed
//! bounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets to each power of two of milliseconds.
const BUCKETS: u64 = 64;
/// Below it each number of milliseconds has a bucket of its own.
const EXACT_BELOW: u64 = 2 * BUCKETS;
/// The power of two at which [`EXACT_BELOW`] lies.
const EXACT_POWER: u32 = EXACT_BELOW.trailing_zeros();

/// Durations in whole milliseconds. Together with others they are what all of them would have been:
/// the sum is exact, and so is the bucket that a percentile falls into.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// All of them together, in milliseconds.
    #[serde(rename = "s")]
    sum: u64,
    /// How many fell into each bucket that is not empty.
    #[serde(rename = "b")]
    buckets: BTreeMap<u16, u64>,
}

/// What is shown of some durations, in whole milliseconds; none where there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DurationSummary {
    /// How many there are.
    pub count: u64,
    /// Their mean, exact and rounded half up.
    pub mean_ms: Option<u64>,
    /// The median, …
    pub p50_ms: Option<u64>,
    /// … what nine of ten don't exceed, …
    pub p90_ms: Option<u64>,
    /// … and what 99 of 100 don't.
    pub p99_ms: Option<u64>,
}

impl Durations {
    /// What is shown of them.
    #[must_use]
    pub fn summary(&self) -> DurationSummary {
        DurationSummary {
            count: self.count(),
            mean_ms: self.mean_ms(),
            p50_ms: self.percentile_ms(50),
            p90_ms: self.percentile_ms(90),
            p99_ms: self.percentile_ms(99),
        }
    }

    /// Counts one of so many milliseconds.
    pub fn add(&mut self, ms: u64) {
        self.sum += ms;
        *self.buckets.entry(bucket_of(ms)).or_default() += 1;
    }

    /// Counts all of the others, too.
    pub fn merge(&mut self, others: &Durations) {
        self.sum += others.sum;
        for (bucket, count) in &others.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Whether no duration was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// Their mean in whole milliseconds, exact and rounded half up; none where there are none.
    #[must_use]
    pub fn mean_ms(&self) -> Option<u64> {
        let count = u128::from(self.count());
        let rounded = (u128::from(self.sum) * 2 + count).checked_div(count * 2)?;
        u64::try_from(rounded).ok()
    }

    /// The nearest rank: the upper bound, in milliseconds, of the bucket into which the duration
    /// falls that so many percent are not longer than. None where there are none.
    #[must_use]
    pub fn percentile_ms(&self, percent: u64) -> Option<u64> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map(|(bucket, _)| upper_bound_of(*bucket))
    }
}

/// The bucket that so many milliseconds fall into.
fn bucket_of(ms: u64) -> u16 {
    let bucket = match ms.checked_ilog2() {
        Some(power) if power >= EXACT_POWER => {
            let width = power - EXACT_POWER + 1;
            u64::from(width) * BUCKETS + (ms >> width)
        }
        _ => ms,
    };
    // The last of them is 3,775.
    u16::try_from(bucket).unwrap_or(u16::MAX)
}

/// The last whole millisecond that falls into a bucket.
fn upper_bound_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < EXACT_BELOW {
        return bucket;
    }
    let width = bucket / BUCKETS - 1;
    let first_beyond = u128::from(bucket - width * BUCKETS + 1) << width;
    u64::try_from(first_beyond - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn durations(all: &[u64]) -> Durations {
        let mut durations = Durations::default();
        all.iter().for_each(|ms| durations.add(*ms));
        durations
    }

    #[test]
    fn buckets_are_exact_below_128_ms_and_64_to_each_power_of_two_from_there_on() {
        for ms in 0..128 {
            assert_eq!(upper_bound_of(bucket_of(ms)), ms);
        }
        for (ms, upper) in [
            (128, 129),
            (129, 129),
            (130, 131),
            (255, 255),
            (256, 259),
            (259, 259),
            (260, 263),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(upper_bound_of(bucket_of(ms)), upper, "{ms}");
        }
        for power in 7..63 {
            let (first, last) = (1_u64 << power, (1_u64 << (power + 1)) - 1);
            assert_eq!(bucket_of(last) - bucket_of(first), 63, "{power}");
            assert_eq!(bucket_of(last) + 1, bucket_of(last + 1), "{power}");
        }
    }

    #[test]
    fn a_mean_is_rounded_half_up_and_a_percentile_is_the_nearest_rank() {
        let empty = Durations::default();
        assert_eq!(
            (empty.count(), empty.mean_ms(), empty.percentile_ms(50)),
            (0, None, None)
        );
        assert_eq!(durations(&[1, 2]).mean_ms(), Some(2));
        assert_eq!(durations(&[1, 1, 2]).mean_ms(), Some(1));
        let ten = durations(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let percentiles = [50, 90, 99].map(|percent| ten.percentile_ms(percent));
        assert_eq!(percentiles, [Some(5), Some(9), Some(10)]);
    }

    proptest! {
        #[test]
        fn a_duration_lies_in_its_bucket_and_in_no_other(ms: u64) {
            let bucket = bucket_of(ms);
            prop_assert!(ms <= upper_bound_of(bucket));
            prop_assert!(bucket == 0 || ms > upper_bound_of(bucket - 1));
        }

        #[test]
        fn parts_together_are_the_whole(all in prop::collection::vec(0..10_000_000_u64, 0..60), at in 0..60_usize) {
            let (first, second) = all.split_at(at.min(all.len()));
            let mut merged = durations(first);
            merged.merge(&durations(second));
            prop_assert_eq!(&merged, &durations(&all));
            let mut sorted = all.clone();
            sorted.sort_unstable();
            for percent in [50, 90, 99] {
                let rank = (all.len() * percent).div_ceil(100).max(1);
                let exact = sorted.get(rank - 1).map(|ms| upper_bound_of(bucket_of(*ms)));
                prop_assert_eq!(merged.percentile_ms(u64::try_from(percent).unwrap_or(0)), exact);
            }
            let stored = serde_json::to_string(&merged).unwrap_or_default();
            prop_assert_eq!(serde_json::from_str::<Durations>(&stored).ok(), Some(merged));
        }
    }
}
