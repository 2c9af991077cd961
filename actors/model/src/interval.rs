//! Intervals of the calendar, in UTC: what figures are kept and asked for by.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Utc};

use crate::coded_enum;
use crate::time::Timestamp;

coded_enum! {
    /// How long an interval of figures is.
    Interval {
        /// An hour.
        Hour = 0 "hour",
        /// A day, from midnight to midnight UTC.
        Day = 1 "day",
        /// A month of the calendar, in UTC.
        Month = 2 "month",
    }
}

impl Interval {
    /// When the interval that an instant falls into begins. The same instant where it is no date
    /// of the calendar that there is.
    #[must_use]
    pub fn start_of(self, at: Timestamp) -> Timestamp {
        let start = || {
            let date = DateTime::from_timestamp_millis(at.0)?;
            let midnight = date.date_naive();
            Some(match self {
                Interval::Hour => Timestamp(at.0 - at.0.rem_euclid(MS_PER_HOUR)),
                Interval::Day => at_midnight(midnight),
                Interval::Month => at_midnight(midnight.with_day(1)?),
            })
        };
        start().unwrap_or(at)
    }

    /// When the interval behind the one that begins at `start` begins. [`Timestamp::MAX`] where
    /// the calendar ends.
    #[must_use]
    pub fn next(self, start: Timestamp) -> Timestamp {
        let next = || {
            let date = DateTime::from_timestamp_millis(start.0)?;
            let next = match self {
                Interval::Hour => date.checked_add_signed(TimeDelta::hours(1)),
                Interval::Day => date.checked_add_days(Days::new(1)),
                Interval::Month => date.checked_add_months(Months::new(1)),
            };
            Some(Timestamp(next?.timestamp_millis()))
        };
        next().unwrap_or(Timestamp::MAX)
    }

    /// Whether an interval begins at this instant.
    #[must_use]
    pub fn begins_at(self, at: Timestamp) -> bool {
        self.start_of(at) == at
    }

    /// How many intervals lie between two instants at which one begins.
    #[must_use]
    pub fn count(self, from: Timestamp, to: Timestamp) -> u64 {
        let span = to.0.saturating_sub(from.0);
        let count = match self {
            Interval::Hour => span / MS_PER_HOUR,
            Interval::Day => span / MS_PER_DAY,
            Interval::Month => month_number(to) - month_number(from),
        };
        u64::try_from(count).unwrap_or(0)
    }

    /// The beginnings of the intervals between two instants at which one begins.
    pub fn starts(self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(Some(from), move |start| Some(self.next(*start)))
            .take_while(move |start| *start < to)
    }
}

const MS_PER_HOUR: i64 = 3_600_000;
const MS_PER_DAY: i64 = 24 * MS_PER_HOUR;

fn at_midnight(date: NaiveDate) -> Timestamp {
    let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc();
    Timestamp(midnight.timestamp_millis())
}

/// Months since the year 0.
fn month_number(at: Timestamp) -> i64 {
    let date = DateTime::<Utc>::from_timestamp_millis(at.0).unwrap_or_default();
    i64::from(date.year()) * 12 + i64::from(date.month0())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or(Timestamp::MIN)
    }

    #[test]
    fn an_instant_falls_into_the_interval_that_began_last() {
        for (interval, within, start, next) in [
            (
                Interval::Hour,
                "2028-02-29T23:59:59.999Z",
                "2028-02-29T23:00:00Z",
                "2028-03-01T00:00:00Z",
            ),
            (
                Interval::Hour,
                "2026-11-24T12:00:00.000Z",
                "2026-11-24T12:00:00Z",
                "2026-11-24T13:00:00Z",
            ),
            (
                Interval::Day,
                "2028-02-28T00:00:00.001Z",
                "2028-02-28T00:00:00Z",
                "2028-02-29T00:00:00Z",
            ),
            (
                Interval::Day,
                "2026-12-31T23:59:59.999Z",
                "2026-12-31T00:00:00Z",
                "2027-01-01T00:00:00Z",
            ),
            (
                Interval::Month,
                "2026-12-31T23:59:59.999Z",
                "2026-12-01T00:00:00Z",
                "2027-01-01T00:00:00Z",
            ),
            (
                Interval::Month,
                "2026-02-01T00:00:00.000Z",
                "2026-02-01T00:00:00Z",
                "2026-03-01T00:00:00Z",
            ),
        ] {
            assert_eq!(
                interval.start_of(at(within)),
                at(start),
                "{interval:?} {within}"
            );
            assert_eq!(interval.next(at(start)), at(next), "{interval:?} {within}");
            assert!(interval.begins_at(at(start)));
            assert_eq!(interval.begins_at(at(within)), at(within) == at(start));
        }
    }

    #[test]
    fn there_are_as_many_intervals_as_are_listed() {
        let (from, to) = (at("2027-12-01T00:00:00Z"), at("2028-04-01T00:00:00Z"));
        for (interval, count) in [
            (Interval::Hour, 122 * 24),
            (Interval::Day, 122),
            (Interval::Month, 4),
        ] {
            assert_eq!(interval.count(from, to), count, "{interval:?}");
            let starts: Vec<_> = interval.starts(from, to).collect();
            assert_eq!(u64::try_from(starts.len()), Ok(count), "{interval:?}");
            assert!(starts.iter().all(|start| interval.begins_at(*start)));
            assert_eq!(interval.count(to, from), 0);
        }
    }

    #[test]
    fn an_instant_outside_the_calendar_is_no_panic() {
        for interval in Interval::ALL {
            for at in [Timestamp::MAX, Timestamp::MIN] {
                assert_eq!(interval.start_of(at), at);
                assert_eq!(interval.count(at, at), 0);
            }
            assert_eq!(interval.next(Timestamp::MAX), Timestamp::MAX);
        }
    }
}
