//! Why a list can't be shown, in terms that the edge turns into statuses.

use colloquy_model::answer::Invalid;
use colloquy_model::damage::Unreadable;

use super::ReadError;
use colloquy_runtime::LoadError;

/// Why there is no page of a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListFailure {
    /// What the list belongs to is not there for this caller.
    #[error("no such list")]
    NotFound,
    /// A parameter is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
    /// It took longer than a list may; nothing was changed by asking.
    #[error("the list took too long")]
    TooSlow,
    /// Too many others were asked for; nothing was done.
    #[error("its turn did not come in time")]
    Busy,
    /// Retention has taken what follows the cursor.
    #[error("the cursor has expired")]
    Expired,
    /// The store is away: its file or disk can not be used.
    #[error("the store is away")]
    Away,
    /// What is stored can't be read; that was told where it was found.
    #[error("what is stored can't be read")]
    Unreadable,
}

impl From<Unreadable> for ListFailure {
    fn from(_: Unreadable) -> Self {
        ListFailure::Unreadable
    }
}

impl From<LoadError> for ListFailure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Unavailable => ListFailure::Away,
            LoadError::Busy => ListFailure::Busy,
            LoadError::Unreadable => ListFailure::Unreadable,
        }
    }
}

impl From<ReadError> for ListFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooSlow => ListFailure::TooSlow,
            ReadError::Busy => ListFailure::Busy,
            ReadError::Away => ListFailure::Away,
            ReadError::Unreadable => ListFailure::Unreadable,
            ReadError::NoCursor(field) => ListFailure::Invalid(Invalid::new(
                field,
                "must be an ID or a cursor of this list",
            )),
            ReadError::Expired => ListFailure::Expired,
        }
    }
}
