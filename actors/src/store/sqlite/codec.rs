//! Between the store's types and SQLite's: how a row's columns become values, and values a row.
//!
//! Whatever is read of more than one column goes through [`columns!`]: a struct whose fields are
//! the columns. The list for the SELECT and the reader come from that one definition, so neither
//! can be changed without the other. The reader goes by position: by name, rusqlite would compare
//! each name with those of all columns, for every row. A single value is read by [`only`]. Long
//! INSERTs go through [`insert!`], where each value stands beside its column. [`Column`] says
//! which types there are and what SQLite's values mean in them; a code that means nothing, or a
//! value of another type, is damage, and is told with the names of the struct and its field.

use std::fmt::Display;
use std::sync::Arc;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Type, ValueRef};
use rusqlite::{ErrorCode, Row};
use serde_json::value::RawValue;

use crate::sealing::texts;
use crate::store::{Base64, ConversationHeader, DeliveryState, ReadError, StoredRecord, Text};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, ConversationState, MessageCounts, Priority, Status};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, Id, Prefix};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// What a column can be read as. It may borrow from the row, as long as that stands.
pub(crate) trait Column<'r>: Sized {
    /// Takes a value as SQLite holds it.
    fn from_value(value: ValueRef<'r>) -> FromSqlResult<Self>;
}

/// Types that rusqlite reads as they should be read here.
macro_rules! plain {
    ($($type:ty),*) => {
        $(impl Column<'_> for $type {
            fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
                FromSql::column_result(value)
            }
        })*
    };
}
plain!(
    i64,
    u32,
    u8,
    f64,
    bool,
    String,
    Box<str>,
    Arc<str>,
    Vec<u8>,
    [u8; 16],
    [u8; 32]
);

impl<'r> Column<'r> for &'r [u8] {
    fn from_value(value: ValueRef<'r>) -> FromSqlResult<Self> {
        value.as_blob()
    }
}

impl<'r, T: Column<'r>> Column<'r> for Option<T> {
    fn from_value(value: ValueRef<'r>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => {
                T::from_value(value).map(Some)
            }
        }
    }
}

/// Numbers, tails, sequences and counts.
impl Column<'_> for u64 {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(uint)
    }
}

/// Lengths of texts and blobs.
impl Column<'_> for usize {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(usize::try_from(value.as_i64()?).unwrap_or(0))
    }
}

impl Column<'_> for Base64 {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_blob().map(|bytes| Base64(bytes.to_vec()))
    }
}

/// Texts, which some columns hold as blobs.
impl Column<'_> for Text {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_bytes().map(|bytes| Text(bytes.to_vec()))
    }
}

impl Column<'_> for Position {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Position)
    }
}

impl Column<'_> for EntityNumber {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u64::from_value(value).map(EntityNumber)
    }
}

/// Instants are stored in Unix milliseconds.
impl Column<'_> for Timestamp {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Timestamp)
    }
}

impl Column<'_> for Sequence {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u64::from_value(value).map(Sequence)
    }
}

impl Column<'_> for FeedNumber {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u64::from_value(value).map(FeedNumber)
    }
}

impl Column<'_> for StreamOffset {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u64::from_value(value).map(StreamOffset)
    }
}

impl Column<'_> for Tenant {
    fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Tenant::from_number)
    }
}

/// Enums that are stored as codes.
macro_rules! coded {
    ($($type:ty),*) => {
        $(impl Column<'_> for $type {
            fn from_value(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let code = value.as_i64()?;
                <$type>::from_code(code).ok_or_else(|| {
                    FromSqlError::Other(format!("the code {code} stands for nothing").into())
                })
            }
        })*
    };
}
coded!(Channel, DeliveryState, EventKind, Priority, Status);

/// One column of a row, counted from 0; `place` names it where it can't be read.
pub(crate) fn column<'r, T: Column<'r>>(
    row: &'r Row<'_>,
    index: usize,
    place: &'static str,
) -> rusqlite::Result<T> {
    let value = row.get_ref(index)?;
    T::from_value(value).map_err(|error| damaged(place, error))
}

/// The value of a statement that gives one column.
pub(crate) fn only<T: for<'r> Column<'r>>(row: &Row<'_>) -> rusqlite::Result<T> {
    column(row, 0, "a single value")
}

/// A row of one shape, as [`columns!`] defines it.
pub(crate) trait Columns<'r>: Sized {
    /// The columns, as a SELECT lists them.
    const COLUMNS: &'static str;
    /// How many columns they are.
    const COUNT: usize;

    /// Reads a row in which these columns begin at this index.
    fn read_from(row: &'r Row<'_>, first: usize) -> rusqlite::Result<Self>;

    /// Reads a row that has these columns and no others.
    fn read(row: &'r Row<'_>) -> rusqlite::Result<Self> {
        debug_assert_eq!(row.as_ref().column_count(), Self::COUNT);
        Self::read_from(row, 0)
    }
}

/// Reads a row that has these columns and no others, and borrows nothing from it.
pub(crate) fn whole<T: for<'r> Columns<'r>>(row: &Row<'_>) -> rusqlite::Result<T> {
    T::read(row)
}

/// Defines a struct whose fields are columns of a statement, and with it their list for the SELECT
/// and their reader. A field has the name of its column, or says in SQL what it is.
macro_rules! columns {
    (
        $(#[$struct_doc:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? {
            $(#[$first_doc:meta])*
            $first:ident: $first_type:ty $(= $first_sql:literal)?
            $(, $(#[$doc:meta])* $field:ident: $type:ty $(= $sql:literal)?)* $(,)?
        }
    ) => {
        $(#[$struct_doc])*
        $vis struct $name $(<$life>)? {
            $(#[$first_doc])*
            $vis $first: $first_type,
            $($(#[$doc])* $vis $field: $type,)*
        }

        $crate::store::sqlite::codec::columns! {
            @impl ($name $(<$life>)?)
            ($first $(= $first_sql)?) $(($field $(= $sql)?))*
        }
    };
    // A struct that is defined elsewhere: `columns! { of Item { number = "n", tail } }`.
    (of $name:ident { $($field:ident $(= $sql:literal)?),* $(,)? }) => {
        $crate::store::sqlite::codec::columns! { @impl ($name) $(($field $(= $sql)?))* }
    };
    (@impl ($name:ident) $($field:tt)*) => {
        impl<'r> $crate::store::sqlite::codec::Columns<'r> for $name {
            $crate::store::sqlite::codec::columns!(@items 'r $name $($field)*);
        }
    };
    (@impl ($name:ident<$life:lifetime>) $($field:tt)*) => {
        impl<$life> $crate::store::sqlite::codec::Columns<$life> for $name<$life> {
            $crate::store::sqlite::codec::columns!(@items $life $name $($field)*);
        }
    };
    (@items $life:lifetime $name:ident ($first:ident $($first_sql:tt)*) $(($field:ident $($sql:tt)*))*) => {
        const COLUMNS: &'static str = concat!(
            $crate::store::sqlite::codec::columns!(@sql $first $($first_sql)*)
            $(, ", ", $crate::store::sqlite::codec::columns!(@sql $field $($sql)*))*
        );
        const COUNT: usize = [stringify!($first) $(, stringify!($field))*].len();

        fn read_from(row: &$life rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Self> {
            use $crate::store::sqlite::codec::column;
            let mut index = first..;
            let mut next = || index.next().unwrap_or(usize::MAX);
            Ok($name {
                $first: column(row, next(), concat!(stringify!($name), ".", stringify!($first)))?,
                $($field: column(row, next(), concat!(stringify!($name), ".", stringify!($field)))?,)*
            })
        }
    };
    (@sql $field:ident) => { stringify!($field) };
    (@sql $field:ident = $sql:literal) => { $sql };
}
pub(crate) use columns;

/// Inserts one row, whose columns stand beside their values: `insert!(connection, "INSERT INTO
/// versions", { document: n, number: 1 })`, and behind it, where there is more to say, the rest of
/// the statement. Gives how many rows were changed.
macro_rules! insert {
    ($connection:expr, $into:literal, {
        $first:ident: $first_value:expr $(, $column:ident: $value:expr)* $(,)?
    } $(, $rest:literal)?) => {
        $connection
            .prepare_cached(concat!(
                $into, "(", stringify!($first) $(, ", ", stringify!($column))*, ") VALUES (?"
                $(, $crate::store::sqlite::codec::insert!(@mark $column))*, ")" $(, " ", $rest)?
            ))?
            .execute(rusqlite::params![$first_value $(, $value)*])
    };
    (@mark $column:ident) => { ", ?" };
}
pub(crate) use insert;

/// Updates rows, each column beside its new value: `update!(connection, "UPDATE versions", { label:
/// label }, "WHERE document = ?", n)`. Gives how many rows were changed.
macro_rules! update {
    ($connection:expr, $update:literal, {
        $first:ident: $first_value:expr $(, $column:ident: $value:expr)* $(,)?
    }, $where:literal $(, $bound:expr)*) => {
        $connection
            .prepare_cached(concat!(
                $update, " SET ", stringify!($first), " = ?"
                $(, ", ", stringify!($column), " = ?")*, " ", $where
            ))?
            .execute(rusqlite::params![$first_value $(, $value)* $(, $bound)*])
    };
}
pub(crate) use update;

/// SQLite keeps 64-bit signed integers; numbers, tails and sequences have at most 62 bits.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// An instant that may be absent, as it is stored.
pub(super) fn optional_millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| at.0)
}

/// The unsigned number that [`int`] wrote.
pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// An identifier of which the columns hold both halves, or neither; `place` names them where one is
/// missing.
pub(super) fn optional_id<K: Prefix>(
    number: Option<EntityNumber>,
    tail: Option<u64>,
    place: &'static str,
) -> rusqlite::Result<Option<Id<K>>> {
    match (number, tail) {
        (Some(number), Some(tail)) => Ok(Some(Id::from_parts(number, tail))),
        (Some(_), None) => Err(damaged(place, "half of an identifier is missing")),
        (None, _) => Ok(None),
    }
}

/// That a row can't be read: `place` names the entity and its field.
pub(super) fn damaged(place: impl Display, error: impl Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, format!("{place}: {error}").into())
}

/// Whether it is JSON, as all of ours is.
pub(super) fn check_json(json: &[u8], place: impl FnOnce() -> String) -> rusqlite::Result<()> {
    let checked = serde_json::from_slice::<&RawValue>(json);
    checked.map(|_| ()).map_err(|error| damaged(place(), error))
}

/// What an error of reading means to whoever asked; it is told here.
pub(super) fn failed(error: &rusqlite::Error) -> ReadError {
    if let Some(unreadable) = unreadable(error) {
        return unreadable.into();
    }
    tracing::error!(%error, "the store can't be read");
    ReadError::Away
}

/// Whether an error of reading says that what is stored can't be read, which is told here; none
/// where it says another thing.
pub(super) fn unreadable(error: &rusqlite::Error) -> Option<Unreadable> {
    use rusqlite::Error;
    let code = error.sqlite_error_code();
    let is_damaged = matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    ) || matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
            | Error::QueryReturnedNoRows
    );
    is_damaged.then(|| Unreadable::found("the store's file", error))
}

columns! {
    /// A conversation's header without its counts.
    pub(super) struct StateRow {
        customer: EntityNumber,
        customer_tail: u64,
        status: Status,
        channel: Channel,
        priority: Priority,
        assignee: Option<EntityNumber>,
        assignee_tail: Option<u64>,
        metadata: Box<str>,
        closed_at: Option<Timestamp>,
        snoozed_until: Option<Timestamp>,
        roused_at: Timestamp,
    }
}

impl StateRow {
    /// Reads a row that begins with these columns.
    pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<ConversationState> {
        let row = StateRow::read_from(row, 0)?;
        Ok(ConversationState {
            customer: Id::from_parts(row.customer, row.customer_tail),
            status: row.status,
            channel: row.channel,
            priority: row.priority,
            assignee: optional_id(row.assignee, row.assignee_tail, "StateRow.assignee")?,
            metadata: row.metadata,
            closed_at: row.closed_at,
            snoozed_until: row.snoozed_until,
            activated_at: row.roused_at,
        })
    }
}

columns! {
    /// What lists show of a conversation beside its [`StateRow`].
    pub(super) struct ListedRow {
        customer_name: Box<str>,
        n: EntityNumber,
        tail: u64,
        seq: Sequence,
        messages: u64,
        last_message_at: Option<Timestamp>,
        updated_at: Timestamp,
    }
}

/// A conversation's header as lists read it: it may lag behind the conversation's last row.
pub(super) struct ListedHeader {
    /// The header as lists show it.
    pub(super) header: ConversationHeader,
    /// The sequence of the row that it is as of.
    pub(super) sequence: Sequence,
}

impl ListedHeader {
    /// Reads a row of the columns of [`StateRow`] and behind them those of [`ListedRow`].
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        debug_assert_eq!(
            row.as_ref().column_count(),
            StateRow::COUNT + ListedRow::COUNT
        );
        let state = StateRow::state(row)?;
        let listed = ListedRow::read_from(row, StateRow::COUNT)?;
        let header = ConversationHeader {
            id: Id::from_parts(listed.n, listed.tail),
            state,
            customer_name: listed.customer_name,
            messages: listed.messages,
            last_message_at: listed.last_message_at,
            updated_at: listed.updated_at,
        };
        Ok(ListedHeader {
            header,
            sequence: listed.seq,
        })
    }
}

columns! {
    /// How many messages a conversation has up to and with a row, and when the last of them came.
    pub(super) struct CountsRow {
        from_customer: u64,
        from_agent: u64,
        from_system: u64,
        last_message_at: Option<Timestamp>,
    }
}

impl From<CountsRow> for MessageCounts {
    fn from(row: CountsRow) -> Self {
        MessageCounts {
            customer: row.from_customer,
            agent: row.from_agent,
            system: row.from_system,
            last_message_at: row.last_message_at,
        }
    }
}

columns! {
    /// An account, key, user, customer or webhook endpoint without its kind, by which it was found.
    pub(super) struct RecordRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
        seq: Sequence,
        name: Box<str>,
        body: String,
    }
}

impl RecordRow {
    /// Reads a row of these columns as a record of this kind.
    pub(super) fn stored(row: &Row<'_>, kind: Kind) -> rusqlite::Result<StoredRecord> {
        let row = RecordRow::read(row)?;
        Ok(StoredRecord {
            subject: Subject {
                kind,
                number: row.n,
                tail: row.tail,
            },
            tenant: row.scope,
            sequence: row.seq,
            name: row.name,
            body: row.body,
        })
    }
}

/// Whether a conversation's metadata is what it must be: what is shown and patched as it stands.
pub(super) fn check_metadata(
    id: ConversationId,
    state: &ConversationState,
) -> rusqlite::Result<()> {
    // What most have need not be looked at.
    if &*state.metadata == "{}" || texts::is_encrypted(state.metadata.as_bytes()) {
        return Ok(());
    }
    let object =
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&state.metadata);
    object
        .map(|_| ())
        .map_err(|error| damaged(format_args!("{id}: metadata"), error))
}

/// The code of a row that keeps an answer only: nothing has happened.
pub(super) const NO_EVENT: i64 = 0;

/// The condition of the partial index `deliveries_waiting`, which is used where it is written out
/// and not where its code is bound: a delivery waits, unless its endpoint was given up.
pub(super) const PENDING: &str = "state = 0";

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rusqlite::Connection;

    use super::*;

    columns! {
        struct Shape<'r> {
            n: u64,
            half: f64 = "n / 2.0",
            text: Option<Box<str>>,
            bytes: &'r [u8],
        }
    }

    columns! {
        struct Kind {
            kind: EventKind = "n",
            bytes: Option<i64>,
        }
    }

    fn filled() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t(bytes, text, n)")
            .unwrap();
        let rows = || -> rusqlite::Result<usize> {
            insert!(connection, "INSERT INTO t", { n: 3, text: "a", bytes: b"b" })?;
            insert!(connection, "INSERT INTO t", { n: 1000, bytes: b"b" })?;
            insert!(connection, "INSERT INTO t", { n: 4, text: "e" })?;
            update!(connection, "UPDATE t", { text: "c", bytes: b"d" }, "WHERE n = ?", 3)
        };
        assert_eq!(rows(), Ok(1));
        connection
    }

    #[test]
    fn a_field_gets_what_its_column_holds_wherever_that_stands_in_the_table() {
        let connection = filled();
        let sql = format!("SELECT {} FROM t WHERE n = 3", Shape::COLUMNS);
        let is_read = connection.query_row(&sql, [], |row| {
            let Shape {
                n,
                half,
                text,
                bytes,
            } = Shape::read(row)?;
            Ok((n, half, text.as_deref(), bytes) == (3, 1.5, Some("c"), &b"d"[..]))
        });
        assert_eq!(is_read, Ok(true));
        let sql = format!("SELECT 7, {} FROM t WHERE n = 1000", Shape::COLUMNS);
        let behind = connection.query_row(&sql, [], |row| {
            Shape::read_from(row, 1).map(|shape| (shape.n, shape.text.is_none()))
        });
        assert_eq!(behind, Ok((1000, true)));
        assert_eq!(Shape::COUNT, 4);
    }

    #[test]
    fn what_cannot_be_read_is_damage_and_says_which_field() {
        let connection = filled();
        let read = |n: i64| {
            let sql = format!("SELECT {} FROM t WHERE n = ?1", Kind::COLUMNS);
            connection.query_row(&sql, [n], |row| {
                Kind::read(row).map(|row| (row.kind, row.bytes))
            })
        };
        assert_eq!(read(4), Ok((EventKind::MessageCreated, None)));
        for (n, said) in [
            (1000, "Kind.kind: the code 1000 stands for nothing"),
            (3, "Kind.bytes: "),
        ] {
            let error = read(n).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(unreadable(&error).is_some());
        }
    }

    #[test]
    fn codes_that_stand_in_sql_are_those_of_the_model() {
        assert_eq!(
            PENDING,
            format!("state = {}", DeliveryState::Pending as i64)
        );
        assert_eq!(EventKind::from_code(NO_EVENT), None);
    }
}
