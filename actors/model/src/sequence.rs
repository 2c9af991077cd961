//! The number of an event among the events of one entity.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of an event in its entity: 1, 2, 3 … without gaps, in the order of its changes.
///
/// The entity counts; the store takes a commit only directly behind the sequence that it expects.
/// The sequence of the last event is the entity's revision: what has the same one is the same.
/// Events show it as `seq`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before an entity's first event: it does not exist yet.
    pub const ZERO: Sequence = Sequence(0);

    /// The sequence of the event that comes next.
    #[must_use]
    pub const fn next(self) -> Self {
        Sequence(self.0 + 1)
    }

    /// The sequence of the last of so many events that follow.
    #[must_use]
    pub fn plus(self, events: usize) -> Self {
        Sequence(self.0 + u64::try_from(events).unwrap_or(0))
    }

    /// The sequences behind this one, in order: those of a commit's rows from the one on that it
    /// expects.
    pub fn following(self) -> impl Iterator<Item = Sequence> {
        (self.0 + 1..).map(Sequence)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_in_json_as_the_bare_number() {
        assert_eq!(serde_json::to_string(&Sequence(12)).ok(), Some("12".into()));
        assert_eq!(
            serde_json::from_str::<Sequence>("12").ok(),
            Some(Sequence(12))
        );
    }

    #[test]
    fn the_rows_of_a_commit_end_where_the_next_commit_expects_them_to() {
        let expected = Sequence(4);
        assert_eq!(expected.following().nth(2), Some(expected.plus(3)));
        assert_eq!(expected.plus(1), expected.next());
    }
}
