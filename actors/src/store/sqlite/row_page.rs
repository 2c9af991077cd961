//! What the lists have in common: their filters as SQL, in which direction a page is read, and how
//! rows become a page.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::codec::{int, only};
use crate::store::StoredPage;
use colloquy_model::page::{Order, Paging, Start};

/// The most that an offset may be: SQLite's integers.
pub(super) fn offset(start: Start) -> u64 {
    match start {
        Start::Offset(offset) => offset.min(i64::MAX.unsigned_abs()),
        Start::After(_) | Start::Before(_) => 0,
    }
}

/// How many rows are read for a page: one more than it shows, to know whether any follow; none
/// where it begins behind the last of them, so that nothing is gone over only to be skipped.
pub(super) fn rows_read(limit: u32, skip: u64, total: u64) -> i64 {
    if skip > 0 && skip >= total {
        0
    } else {
        i64::from(limit) + 1
    }
}

/// In which direction rows are read: `Before` reads the page backwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    descending: bool,
    reversed: bool,
    /// The number of the thing that the page begins at; none where it begins at an offset.
    pub(super) bound: Option<u64>,
}

impl Scan {
    /// How the rows of a page are read that begins there.
    pub(super) fn new(order: Order, start: Start) -> Self {
        let descending = order == Order::Desc;
        match start {
            Start::Offset(_) => Scan {
                descending,
                reversed: false,
                bound: None,
            },
            Start::After(at) => Scan {
                descending,
                reversed: false,
                bound: Some(at.number.0),
            },
            Start::Before(at) => Scan {
                descending: !descending,
                reversed: true,
                bound: Some(at.number.0),
            },
        }
    }

    /// The direction in an `ORDER BY`.
    pub(super) fn direction(self) -> &'static str {
        if self.descending { "DESC" } else { "ASC" }
    }

    /// How a row that the page may show compares with where it begins.
    pub(super) fn compare(self) -> &'static str {
        if self.descending { "<" } else { ">" }
    }

    /// Turns `limit + 1` rows that were read into a page of a list that has `total` of them.
    pub(super) fn page<T>(self, mut items: Vec<T>, paging: Paging, total: u64) -> StoredPage<T> {
        let limit = usize::try_from(paging.limit).unwrap_or(0);
        let more = items.len() > limit;
        items.truncate(limit);
        if self.reversed {
            items.reverse();
            return StoredPage {
                items,
                total,
                before: more,
                after: true,
            };
        }
        StoredPage {
            items,
            total,
            before: offset(paging.start) > 0 || self.bound.is_some(),
            after: more,
        }
    }
}

/// The conditions of a statement, and its values in order of their question marks.
#[derive(Default)]
pub(super) struct Where {
    pub(super) conditions: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Where {
    /// Adds a condition over one value, which `?` stands for.
    pub(super) fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.conditions
            .push(condition.replace('?', &format!("?{}", self.values.len())));
    }

    /// Adds a value, and gives what stands for it in the statement.
    pub(super) fn value(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// The conditions as they stand behind a `WHERE`.
    pub(super) fn sql(&self) -> String {
        self.conditions.join(" AND ")
    }

    /// Counts the rows of a table that pass, by the expression that is given.
    pub(super) fn total(
        &self,
        connection: &Connection,
        counted: &str,
        table: &str,
    ) -> rusqlite::Result<u64> {
        let sql = format!("SELECT {counted} FROM {table} WHERE {}", self.sql());
        connection
            .prepare_cached(&sql)?
            .query_row(params_from_iter(&self.values), only)
    }
}

/// A page of the rows of one table, in the order of its columns.
pub(super) struct RowPage<'q> {
    /// `SELECT … FROM …`, without a condition.
    pub(super) select: &'q str,
    /// The columns that the list is sorted by, the first one before the others.
    pub(super) sorted_by: &'q [&'q str],
    /// The part of the list that is wanted.
    pub(super) paging: Paging,
    /// How many rows the whole list has.
    pub(super) total: u64,
}

impl RowPage<'_> {
    /// Reads the page out of the rows that pass the filter. Where a page begins at a cursor, it is
    /// the filter that leaves out what comes before.
    pub(super) fn read<T>(
        self,
        connection: &Connection,
        mut filter: Where,
        item: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<StoredPage<T>> {
        let Paging {
            limit,
            start,
            order,
        } = self.paging;
        let scan = Scan::new(order, start);
        let skip = offset(start);
        let limit = filter.value(rows_read(limit, skip, self.total));
        let skipped = filter.value(int(skip));
        let direction = scan.direction();
        let sql = format!(
            "{} WHERE {} ORDER BY {} {direction} LIMIT {limit} OFFSET {skipped}",
            self.select,
            filter.sql(),
            self.sorted_by.join(&format!(" {direction}, ")),
        );
        let items = connection
            .prepare_cached(&sql)?
            .query_map(params_from_iter(filter.values), item)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(scan.page(items, self.paging, self.total))
    }
}
