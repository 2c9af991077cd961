//! What of its source a line shows to a caller who is narrowed to the conversations of a user. It is
//! judged by whose conversation it was when an event was committed, so a change of the assignee and
//! what comes behind it can't overtake one another.

use colloquy_model::conversation_access::Reach;
use colloquy_model::event::Event;
use colloquy_model::id::UserId;
use colloquy_model::sequence::Sequence;

/// What a line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrowing {
    /// All that comes.
    Unnarrowed,
    /// Of many conversations what happens while they are this user's.
    Assigned(UserId),
    /// One conversation, which was this user's when its log stood at this sequence: all up to there,
    /// and then what comes for as long as it stays theirs.
    WhileAssigned(UserId, Sequence),
    /// Nothing: what was asked for and what may be seen have nothing in common.
    Nothing,
}

/// What becomes of an event that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is shown.
    Shown,
    /// It is left out.
    Hidden,
    /// It is left out, and the line ends: it shows a conversation that is the user's no more.
    Taken,
}

impl Narrowing {
    /// The narrowing of a line for all conversations.
    pub(crate) fn of_account(reads: Reach) -> Self {
        match reads {
            Reach::All => Narrowing::Unnarrowed,
            Reach::AssignedTo(user) => Narrowing::Assigned(user),
            Reach::Nothing => Narrowing::Nothing,
        }
    }

    /// The narrowing of a line for one conversation, whose log was found readable up to this
    /// sequence; none where nobody had to ask.
    pub(crate) fn of_conversation(reads: Reach, readable_to: Option<Sequence>) -> Self {
        match (reads, readable_to) {
            (Reach::All, _) => Narrowing::Unnarrowed,
            (Reach::AssignedTo(user), Some(sequence)) => Narrowing::WhileAssigned(user, sequence),
            (Reach::AssignedTo(_), None) | (Reach::Nothing, _) => Narrowing::Nothing,
        }
    }

    pub(super) fn judge(self, event: &Event) -> Verdict {
        let is_of = |user: UserId| event.assignee == Some(user.number());
        match self {
            Narrowing::Unnarrowed => Verdict::Shown,
            Narrowing::Assigned(user) if is_of(user) => Verdict::Shown,
            Narrowing::Assigned(_) | Narrowing::Nothing => Verdict::Hidden,
            Narrowing::WhileAssigned(user, to) if event.sequence <= to || is_of(user) => {
                Verdict::Shown
            }
            Narrowing::WhileAssigned(..) => Verdict::Taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use colloquy_model::caller::{Mode, Tenant};
    use colloquy_model::entity_number::EntityNumber;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::event_kind::EventKind;
    use colloquy_model::position::Position;
    use colloquy_model::stream::FeedNumber;
    use colloquy_model::time::Timestamp;

    use super::*;

    fn event(sequence: u64, assignee: Option<UserId>) -> Event {
        let row = EventRow {
            position: Position(7),
            tenant: Tenant::of(1, Mode::Live),
            number: FeedNumber(5),
            entity: EntityNumber(9),
            sequence: Sequence(sequence),
            kind: EventKind::MessageCreated,
            at: Timestamp(1_000),
            credential: None,
            text_bytes: 0,
        };
        let seen = SeenNow {
            assignee: assignee.map(|user| user.number()),
            ..SeenNow::default()
        };
        Event::new(row, seen, Bytes::from_static(b"{}"))
    }

    #[test]
    fn a_line_goes_as_far_as_the_assignment() {
        let (own, other) = (UserId::new(Timestamp(1)), UserId::new(Timestamp(1)));
        let line = Narrowing::of_conversation(Reach::AssignedTo(own), Some(Sequence(3)));
        for (sequence, assignee, verdict) in [
            (2, Some(other), Verdict::Shown),
            (3, None, Verdict::Shown),
            (4, Some(own), Verdict::Shown),
            (4, Some(other), Verdict::Taken),
            (4, None, Verdict::Taken),
        ] {
            assert_eq!(line.judge(&event(sequence, assignee)), verdict);
        }
        let account = Narrowing::of_account(Reach::AssignedTo(own));
        assert_eq!(account.judge(&event(2, Some(own))), Verdict::Shown);
        assert_eq!(account.judge(&event(2, Some(other))), Verdict::Hidden);
        assert_eq!(account.judge(&event(2, None)), Verdict::Hidden);
        let nobody = Narrowing::of_conversation(Reach::AssignedTo(own), None);
        assert_eq!(nobody.judge(&event(1, Some(own))), Verdict::Hidden);
    }
}
