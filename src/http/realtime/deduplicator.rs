//! Which of two subscriptions of one socket shows an event, so that it comes once and in its order.
//!
//! Where a conversation is subscribed to beside its whole account, the account's subscription shows
//! what comes next: it alone has the account's cursor. The conversation's shows what the account's
//! began behind of, and what the account's reached before the conversation's had caught up. To
//! subscribe with an `after` of the past asks for that past; nothing else comes twice.

use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;

/// How far an account's subscription has come: it has seen every event with a number in between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watermark {
    pub(super) start: FeedNumber,
    pub(super) passed: FeedNumber,
}

/// Decides which of two subscriptions shows an event of one conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deduplicator {
    start: Sequence,
    /// Everything up to this `seq` was shown, or lies before the start.
    passed: Sequence,
    /// The first and the last that the account's left to it.
    pending: Option<(Sequence, Sequence)>,
    /// The last that it left to the account's.
    left: Sequence,
}

impl Deduplicator {
    pub(super) fn new(after: Sequence) -> Self {
        Deduplicator {
            start: after,
            passed: after,
            pending: None,
            left: Sequence::ZERO,
        }
    }

    /// Begins anew behind `after`, with what the one before still owes.
    pub(super) fn again(self, after: Sequence) -> Self {
        Deduplicator {
            pending: self.pending.filter(|_| self.has_pending()),
            ..Deduplicator::new(after)
        }
    }

    /// Whether the account's subscription shows this event, which it has reached.
    pub(super) fn by_account(&mut self, seq: Sequence) -> bool {
        if seq <= self.start {
            return true;
        }
        if seq == self.passed.next() {
            self.passed = seq;
            return true;
        }
        if seq > self.passed {
            let first = self.pending.map_or(seq, |(first, _)| first);
            self.pending = Some((first, seq));
        }
        false
    }

    /// Whether the conversation's own subscription shows this event, which it has reached.
    pub(super) fn by_itself(
        &mut self,
        seq: Sequence,
        number: FeedNumber,
        account: Option<Watermark>,
    ) -> bool {
        if seq <= self.passed {
            return false;
        }
        if account.is_some_and(|account| number > account.passed) {
            self.left = seq;
            return false;
        }
        let pending = self.pending.is_some_and(|(first, _)| first <= seq);
        self.passed = seq;
        self.pending = self.pending.filter(|(_, last)| *last > seq);
        pending || account.is_none_or(|account| number <= account.start)
    }

    /// The `seq` up to which everything was shown.
    pub(super) fn passed(&self) -> Sequence {
        self.passed
    }

    /// Whether the conversation's subscription must still show events that the account's left to it.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some_and(|(_, last)| last > self.passed)
    }

    /// Whether the account's subscription must still show events that this one left to it.
    pub(super) fn awaits_account(&self) -> bool {
        self.left > self.passed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_comes_next_is_shown_by_the_account() {
        let mut cover = Deduplicator::new(Sequence(4));
        let account = Watermark {
            start: FeedNumber(90),
            passed: FeedNumber(90),
        };
        assert!(
            !cover.by_itself(Sequence(5), FeedNumber(91), Some(account)),
            "the account's turn"
        );
        assert!(cover.awaits_account());
        assert!(cover.by_account(Sequence(5)) && !cover.awaits_account());
        assert!(!cover.by_itself(Sequence(5), FeedNumber(91), Some(account)));
    }

    #[test]
    fn without_the_account_it_shows_everything() {
        let mut cover = Deduplicator::new(Sequence::ZERO);
        assert!((1..9).all(|seq| cover.by_itself(Sequence(seq), FeedNumber(seq), None)));
    }

    proptest! {
        /// Both walk over one conversation's events (number = seq + 100), in any interleaving, from
        /// any beginning.
        #[test]
        fn each_event_comes_once_and_in_order(
            after in 0_u64..12,
            begins in 0_u64..12,
            turns in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let number = |seq: u64| FeedNumber(seq + 100);
            let mut account = Watermark { start: number(begins), passed: number(begins) };
            let mut cover = Deduplicator::new(Sequence(after));
            let (mut own, mut other) = (after, begins);
            let mut shown = Vec::new();
            let end = 20;
            for own_turn in turns.into_iter().chain([true, false].repeat(100)) {
                if own_turn && own < end {
                    own += 1;
                    if cover.by_itself(Sequence(own), number(own), Some(account)) {
                        shown.push(own);
                    }
                } else if !own_turn && other < end {
                    other += 1;
                    account.passed = number(other);
                    if cover.by_account(Sequence(other)) {
                        shown.push(other);
                    }
                }
            }
            let expected: Vec<u64> = (after.min(begins) + 1..=end).collect();
            prop_assert_eq!(shown, expected);
        }
    }
}
