//! A page of a list: where it begins, how much of it, and what came.

use bytes::Bytes;

use crate::entity_number::EntityNumber;
use crate::id::{Id, Prefix};

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

/// A thing of a list, by the two parts of its identifier. Ordered by creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// [`colloquy_model::id::Id::number`]
    pub number: EntityNumber,
    /// [`colloquy_model::id::Id::tail`]
    pub tail: u64,
}

impl Cursor {
    /// What this identifier names.
    #[must_use]
    pub fn of<K: Prefix>(id: Id<K>) -> Self {
        Cursor {
            number: id.number(),
            tail: id.tail(),
        }
    }
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

/// A part of a list that is whole in memory.
#[derive(Debug)]
pub struct Part<T> {
    /// What stands in the part, in the order that was asked for.
    pub items: Vec<T>,
    /// How many the whole list has.
    pub total: u64,
    /// Whether anything stands before the first one.
    pub before: bool,
    /// Whether anything follows the last one.
    pub after: bool,
}

impl<T> Part<T> {
    /// The part that is asked for of these, which come in order of their creation.
    #[must_use]
    pub fn of(mut all: Vec<T>, place: impl Fn(&T) -> Cursor, paging: Paging) -> Self {
        if paging.order == Order::Desc {
            all.reverse();
        }
        let is_before = |one: Cursor, other: Cursor| match paging.order {
            Order::Asc => one < other,
            Order::Desc => one > other,
        };
        let limit = usize::try_from(paging.limit).unwrap_or(0);
        // The thing that a cursor names may be gone.
        let (first, end) = match paging.start {
            Start::Offset(offset) => {
                let first = usize::try_from(offset).unwrap_or(usize::MAX);
                (first, first.saturating_add(limit).min(all.len()))
            }
            Start::After(cursor) => {
                let first = all.partition_point(|one| !is_before(cursor, place(one)));
                (first, first.saturating_add(limit).min(all.len()))
            }
            Start::Before(cursor) => {
                let end = all.partition_point(|one| is_before(place(one), cursor));
                (end.saturating_sub(limit), end)
            }
        };
        Part {
            total: u64::try_from(all.len()).unwrap_or(u64::MAX),
            before: first > 0 && !all.is_empty(),
            after: end < all.len(),
            items: all.drain(first.min(end)..end).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_where_it_is_asked_to_in_either_direction() {
        let place = |number: &u64| Cursor {
            number: EntityNumber(*number),
            tail: 0,
        };
        let part = |start, order| {
            let paging = Paging {
                limit: 2,
                start,
                order,
            };
            // The one of number 4 is gone.
            let part = Part::of(vec![1, 2, 3, 5, 6], place, paging);
            assert_eq!(part.total, 5);
            (part.items, part.before, part.after)
        };
        let (after, before) = (Start::After(place(&4)), Start::Before(place(&4)));
        for (start, order, expected) in [
            (Start::Offset(0), Order::Asc, (vec![1, 2], false, true)),
            (Start::Offset(0), Order::Desc, (vec![6, 5], false, true)),
            (Start::Offset(3), Order::Desc, (vec![2, 1], true, false)),
            (Start::Offset(9), Order::Desc, (vec![], true, false)),
            (after, Order::Asc, (vec![5, 6], true, false)),
            (after, Order::Desc, (vec![3, 2], true, true)),
            (before, Order::Asc, (vec![2, 3], true, true)),
            (before, Order::Desc, (vec![6, 5], false, true)),
        ] {
            assert_eq!(part(start, order), expected, "{start:?} {order:?}");
        }
    }
}
