//! A page of a list: where it begins, how much of it, and what came.

use bytes::{BufMut, Bytes, BytesMut};

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

/// The items of a page, as JSON in text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageData {
    /// All of them, as an array.
    Array(Bytes),
    /// Each by itself. What may be long is joined once only, where the answer is written.
    Items(Vec<Bytes>),
}

impl PageData {
    /// How many bytes the array has.
    #[must_use]
    pub fn array_bytes(&self) -> usize {
        match self {
            PageData::Array(array) => array.len(),
            PageData::Items(items) => {
                let commas = items.len().saturating_sub(1);
                items.iter().map(Bytes::len).sum::<usize>() + commas + 2
            }
        }
    }

    /// Appends all items as one JSON array.
    pub fn write(&self, to: &mut BytesMut) {
        match self {
            PageData::Array(array) => to.extend_from_slice(array),
            PageData::Items(items) => {
                to.put_u8(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        to.put_u8(b',');
                    }
                    to.extend_from_slice(item);
                }
                to.put_u8(b']');
            }
        }
    }

    /// All items as one JSON array; it is copied together where they stand apart.
    #[must_use]
    pub fn array(&self) -> Bytes {
        if let PageData::Array(array) = self {
            return array.clone();
        }
        let mut array = BytesMut::with_capacity(self.array_bytes());
        self.write(&mut array);
        array.freeze()
    }
}

impl From<Bytes> for PageData {
    fn from(array: Bytes) -> Self {
        PageData::Array(array)
    }
}

/// What came, in the list's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What stands on it.
    pub data: PageData,
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
            data: Bytes::from_static(b"[]").into(),
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
    fn items_that_stand_apart_are_the_array_that_they_make() {
        for items in [vec![], vec!["1"], vec![r#"{"a":"b"}"#, "2", "[]"]] {
            let apart = items.iter().map(|item| Bytes::from_static(item.as_bytes()));
            let apart = PageData::Items(apart.collect());
            let array = PageData::from(Bytes::from(format!("[{}]", items.join(","))));
            assert_eq!(apart.array(), array.array());
            assert_eq!(apart.array_bytes(), apart.array().len());
            assert_eq!(array.array_bytes(), apart.array_bytes());
        }
    }

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
