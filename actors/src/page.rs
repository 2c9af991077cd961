//! A page of a list: where it begins, how much of it, and what came.

use bytes::Bytes;

use crate::damage::Unreadable;

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// At most so many.
    pub limit: u32,
    /// Where it begins.
    pub start: Start,
    /// In which direction the list runs.
    pub order: Order,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After so many.
    Offset(u64),
    /// With what follows this thing in the list's order.
    After(Cursor),
    /// With what stands directly before this thing in the list's order.
    Before(Cursor),
}

/// A thing of a list, by the two parts of its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// [`crate::id::Id::number`]
    pub number: u64,
    /// [`crate::id::Id::tail`]
    pub tail: u64,
}

impl Start {
    /// The cursor and the name of its parameter.
    #[must_use]
    pub fn cursor(self) -> Option<(Cursor, &'static str)> {
        match self {
            Start::Offset(_) => None,
            Start::After(cursor) => Some((cursor, "after")),
            Start::Before(cursor) => Some((cursor, "before")),
        }
    }
}

/// A list's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// What came, in the list's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// A JSON array.
    pub data: Bytes,
    /// How many stand in it.
    pub count: u32,
    /// How many the whole list has.
    pub total: u64,
    /// The identifier of the first one.
    pub first: Option<String>,
    /// The identifier of the last one.
    pub last: Option<String>,
    /// Whether anything stands before the first one.
    pub before: bool,
    /// Whether anything follows the last one.
    pub after: bool,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListFailure {
    /// What the list belongs to is not there for this caller.
    #[error("no such list")]
    NotFound,
    /// A parameter is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(crate::answer::Invalid),
    /// It took longer than a list may; nothing was changed by asking.
    #[error("the list took too long")]
    TooSlow,
    /// Too many others were asked for; nothing was done.
    #[error("its turn did not come in time")]
    Busy,
    /// Retention has taken what follows the cursor.
    #[error("the cursor has expired")]
    Expired,
    /// The store is away.
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

impl From<crate::runtime::LoadError> for ListFailure {
    fn from(error: crate::runtime::LoadError) -> Self {
        match error {
            crate::runtime::LoadError::Away => ListFailure::Away,
            crate::runtime::LoadError::Busy => ListFailure::Busy,
            crate::runtime::LoadError::Unreadable => ListFailure::Unreadable,
        }
    }
}

impl From<crate::store::ReadError> for ListFailure {
    fn from(error: crate::store::ReadError) -> Self {
        match error {
            crate::store::ReadError::TooSlow => ListFailure::TooSlow,
            crate::store::ReadError::Busy => ListFailure::Busy,
            crate::store::ReadError::Away => ListFailure::Away,
            crate::store::ReadError::Unreadable => ListFailure::Unreadable,
            crate::store::ReadError::NoCursor(field) => ListFailure::Invalid(
                crate::answer::Invalid::new(field, "must be an ID or a cursor of this list"),
            ),
            crate::store::ReadError::Expired => ListFailure::Expired,
        }
    }
}
