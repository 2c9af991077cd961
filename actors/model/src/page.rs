//! A page of a list: where it begins, how much of it, and what came.

use bytes::Bytes;

use crate::entity_number::EntityNumber;

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// How many items are given at most.
    pub limit: u32,
    /// Where in the list the page begins.
    pub start: Start,
    /// In which direction the list runs.
    pub order: Order,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Behind so many items, counted in the list's order.
    Offset(u64),
    /// With what follows this thing in the list's order.
    After(Cursor),
    /// With what stands directly before this thing in the list's order.
    Before(Cursor),
}

/// A thing of a list, by the two parts of its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// [`colloquy_model::id::Id::number`]
    pub number: EntityNumber,
    /// [`colloquy_model::id::Id::tail`]
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
    /// The items, as a JSON array in text.
    pub data: Bytes,
    /// How many items stand on the page.
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

impl Page {
    /// The page of a list that has nothing.
    #[must_use]
    pub fn empty() -> Self {
        Page {
            data: Bytes::from_static(b"[]"),
            count: 0,
            total: 0,
            first: None,
            last: None,
            before: false,
            after: false,
        }
    }
}
