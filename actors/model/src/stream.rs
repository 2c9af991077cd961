//! How far the events of one entity, or of one account and mode, have been read.

use std::fmt;

use crate::sequence::Sequence;

/// The number of an event in the feed of its account and mode, upwards in the order of commits: 1,
/// 2, 3 … without gaps in the embedded store; on MongoDB its position, so that nothing has to count
/// between nodes.
///
/// The store's writer hands it out to what is a public event: a row of a conversation or of a
/// document. Clients see it as a cursor, never as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FeedNumber(pub u64);

impl FeedNumber {
    /// Before the first event of a feed.
    pub const ZERO: FeedNumber = FeedNumber(0);

    /// This number and all behind it, in order: those of a commit's rows from its first one on.
    pub fn and_following(self) -> impl Iterator<Item = FeedNumber> {
        (self.0..).map(FeedNumber)
    }
}

/// The place of an event in the stream that is read: its [`Sequence`] where that is an entity's, its
/// [`FeedNumber`] where it is an account and mode's.
///
/// Whoever has read up to an offset goes on behind it and misses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamOffset(pub u64);

impl StreamOffset {
    /// Before the first event, or before the oldest that retention has left.
    pub const BEGINNING: StreamOffset = StreamOffset(0);
}

impl From<Sequence> for StreamOffset {
    fn from(sequence: Sequence) -> Self {
        StreamOffset(sequence.0)
    }
}

impl From<FeedNumber> for StreamOffset {
    fn from(number: FeedNumber) -> Self {
        StreamOffset(number.0)
    }
}

impl fmt::Display for StreamOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
