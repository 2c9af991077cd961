//! The place of an event in the log of the whole store.

use std::fmt;

/// The place of an event in the store's one log, over all accounts.
///
/// The store's writer hands positions out in the order of commits, upwards from 1 and never one
/// twice; a row that is gone leaves a gap. What follows is larger, and that is all that it says: an
/// event's number in its account's feed counts without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub i64);

impl Position {
    /// Before every event: who reads behind it reads the log from its beginning.
    pub const ZERO: Position = Position(0);

    /// The position directly behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Position(self.0.saturating_add(1))
    }

    /// The position directly before this one: who reads behind it reads this one first.
    #[must_use]
    pub const fn previous(self) -> Self {
        Position(self.0.saturating_sub(1))
    }

    /// This position and all behind it, in order: those of a commit's rows from its first one on.
    pub fn and_following(self) -> impl Iterator<Item = Position> {
        (self.0..).map(Position)
    }

    /// How many positions this one lies behind `earlier`; 0 where it does not.
    #[must_use]
    pub fn distance_from(self, earlier: Position) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_never_below_zero() {
        assert_eq!(Position(7).distance_from(Position(4)), 3);
        assert_eq!(Position(4).distance_from(Position(7)), 0);
        assert_eq!(Position(i64::MIN).distance_from(Position(i64::MAX)), 0);
    }

    #[test]
    fn what_follows_a_position_has_it_directly_before_it() {
        assert_eq!(Position::ZERO.next(), Position(1));
        assert_eq!(Position(8).next().previous(), Position(8));
    }
}
