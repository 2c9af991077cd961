//! Which conversations a caller may read and which it may write: decided where the assignee is
//! known, in the conversation's rules.

use crate::id::UserId;

/// The conversations that something is allowed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No conversation.
    Nothing,
    /// Those that are assigned to this user.
    AssignedTo(UserId),
    /// All of the account and mode.
    All,
}

impl Reach {
    /// Whether a conversation with this assignee is among them.
    #[must_use]
    pub fn includes(self, assignee: Option<UserId>) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::AssignedTo(user) => assignee == Some(user),
            Reach::All => true,
        }
    }

    /// Whether every conversation of the other reach is among them.
    #[must_use]
    pub fn covers(self, other: Reach) -> bool {
        self == other || self == Reach::All || other == Reach::Nothing
    }

    /// The user to whose conversations it is narrowed.
    #[must_use]
    pub fn assignee(self) -> Option<UserId> {
        match self {
            Reach::AssignedTo(user) => Some(user),
            Reach::Nothing | Reach::All => None,
        }
    }
}

/// What a caller may do with conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationAccess {
    /// What it may read.
    pub reads: Reach,
    /// What it may write. Narrowed to a user's, it may not change whose conversation it is, nor what
    /// the account has written about it.
    pub writes: Reach,
}

impl ConversationAccess {
    /// Reads and writes all: the server itself, and whoever is not narrowed.
    pub const ALL: ConversationAccess = ConversationAccess {
        reads: Reach::All,
        writes: Reach::All,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn what_is_narrowed_to_a_user_is_that_users_alone() {
        let (one, other) = (UserId::new(Timestamp(1)), UserId::new(Timestamp(1)));
        let own = Reach::AssignedTo(one);
        assert!(own.includes(Some(one)) && Reach::All.includes(None));
        assert!(!own.includes(Some(other)) && !own.includes(None));
        assert!(!Reach::Nothing.includes(Some(one)));
        assert!(Reach::All.covers(own) && own.covers(own) && own.covers(Reach::Nothing));
        assert!(!own.covers(Reach::All) && !own.covers(Reach::AssignedTo(other)));
        assert!(!Reach::Nothing.covers(own));
    }
}
