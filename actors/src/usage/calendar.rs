//! The day and the month in which something counts, in UTC, held so that few requests ask the
//! calendar.

use std::time::Duration;

use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;

/// How far an instant may lie before the month and still count as jitter between threads. Beyond
/// this the clock was set back.
const JITTER_MAX: Duration = Duration::from_secs(60);

/// The day and the month that something counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calendar {
    day: Timestamp,
    next_day: Timestamp,
    month: Timestamp,
    next_month: Timestamp,
}

/// Whether another month began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    SameMonth,
    OtherMonth,
}

impl Calendar {
    /// The calendar at this instant.
    pub(super) fn at(now: Timestamp) -> Self {
        let (day, month) = (Interval::Day.start_of(now), Interval::Month.start_of(now));
        Calendar {
            day,
            next_day: Interval::Day.next(day),
            month,
            next_month: Interval::Month.next(month),
        }
    }

    /// Goes on to this instant. Whoever came a little before a month's turn and is counted after it
    /// counts in the new month.
    pub(super) fn turn_to(&mut self, now: Timestamp) -> Turn {
        let is_late = now < self.month && self.month.since(now) <= JITTER_MAX;
        if is_late || (self.day..self.next_day).contains(&now) {
            return Turn::SameMonth;
        }
        let before = std::mem::replace(self, Calendar::at(now));
        match before.month == self.month {
            true => Turn::SameMonth,
            false => Turn::OtherMonth,
        }
    }

    /// When the day begins that an instant falls into, mostly this one.
    pub(super) fn day_of(&self, now: Timestamp) -> Timestamp {
        match (self.day..self.next_day).contains(&now) {
            true => self.day,
            false => Interval::Day.start_of(now),
        }
    }

    /// When the month begins.
    pub(super) fn month(&self) -> Timestamp {
        self.month
    }

    /// When the next month begins.
    pub(super) fn next_month(&self) -> Timestamp {
        self.next_month
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or(Timestamp::MIN)
    }

    #[test]
    fn a_month_turns_at_its_end_and_not_back_for_whoever_is_late() {
        let mut calendar = Calendar::at(at("2026-11-30T23:59:59.999Z"));
        assert_eq!(calendar.month(), at("2026-11-01T00:00:00Z"));
        assert_eq!(
            calendar.turn_to(at("2026-12-01T00:00:00Z")),
            Turn::OtherMonth
        );
        assert_eq!(
            calendar.turn_to(at("2026-11-30T23:59:59.999Z")),
            Turn::SameMonth
        );
        assert_eq!(
            calendar.day_of(at("2026-11-30T23:59:59.999Z")),
            at("2026-11-30T00:00:00Z")
        );
        assert_eq!(calendar.next_month(), at("2027-01-01T00:00:00Z"));
    }

    #[test]
    fn a_clock_that_was_set_back_turns_the_month_back() {
        let mut calendar = Calendar::at(at("2026-12-05T00:00:00Z"));
        assert_eq!(
            calendar.turn_to(at("2026-12-02T10:00:00Z")),
            Turn::SameMonth
        );
        assert_eq!(calendar.day, at("2026-12-02T00:00:00Z"));
        assert_eq!(
            calendar.turn_to(at("2026-11-02T10:00:00Z")),
            Turn::OtherMonth
        );
        assert_eq!(calendar.month(), at("2026-11-01T00:00:00Z"));
    }
}
