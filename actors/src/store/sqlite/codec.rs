//! Between the store's types and SQLite's: the only file that knows which column holds what.

use std::fmt::Display;

use rusqlite::{ErrorCode, Row, types::Type};
use serde_json::value::RawValue;

use crate::store::{ConversationHeader, ReadError, StoredRecord};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, ConversationState, MessageCounts, Priority, Status};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{ConversationId, CustomerId, Id, Prefix, UserId};

/// SQLite keeps 64-bit signed integers; numbers, tails and sequences have at most 62 bits.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The other way round.
pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn id<K: Prefix>(n: i64, tail: i64) -> Id<K> {
    Id::from_parts(uint(n), uint(tail))
}

/// What a code stands for; `field` names it where it stands for nothing.
pub(super) fn word<T>(
    field: &str,
    code: i64,
    from: impl FnOnce(i64) -> Option<T>,
) -> rusqlite::Result<T> {
    from(code).ok_or_else(|| damaged(field, format_args!("the code {code} stands for nothing")))
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

/// The columns that [`state`] reads, from index 0.
pub(super) const STATE: &str =
    "customer, customer_tail, status, channel, priority, assignee, assignee_tail, metadata, closed_at,
     snoozed_until, roused_at";
/// How many they are: what is read beside them follows.
pub(super) const STATE_COLUMNS: usize = 11;

pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<ConversationState> {
    let customer: CustomerId = id(row.get(0)?, row.get(1)?);
    let assignee: Option<UserId> = match row.get::<_, Option<i64>>(5)? {
        Some(n) => Some(id(n, row.get(6)?)),
        None => None,
    };
    Ok(ConversationState {
        customer,
        status: word("a conversation's status", row.get(2)?, Status::from_code)?,
        channel: word("a conversation's channel", row.get(3)?, Channel::from_code)?,
        priority: word(
            "a conversation's priority",
            row.get(4)?,
            Priority::from_code,
        )?,
        assignee,
        metadata: row.get::<_, Box<str>>(7)?,
        closed_at: row.get(8)?,
        snoozed_until: row.get(9)?,
        activated_at: row.get(10)?,
    })
}

/// Whether a conversation's metadata is what it must be: what is shown and patched as it stands.
pub(super) fn check_metadata(
    id: ConversationId,
    state: &ConversationState,
) -> rusqlite::Result<()> {
    // What most have need not be looked at.
    if &*state.metadata == "{}" {
        return Ok(());
    }
    let object =
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&state.metadata);
    object
        .map(|_| ())
        .map_err(|error| damaged(format_args!("{id}: metadata"), error))
}

/// The columns that follow [`STATE`] for a list.
pub(super) const LISTED: &str =
    "customer_name, n, tail, seq, messages, last_message_at, updated_at";

/// A header and the sequence that it is as of.
pub(super) fn listed(row: &Row<'_>) -> rusqlite::Result<(ConversationHeader, u64)> {
    let at = |offset: usize| STATE_COLUMNS + offset;
    let id: ConversationId = id(row.get(at(1))?, row.get(at(2))?);
    let header = ConversationHeader {
        id,
        state: state(row)?,
        customer_name: row.get(at(0))?,
        messages: uint(row.get(at(4))?),
        last_message_at: row.get(at(5))?,
        updated_at: row.get(at(6))?,
    };
    Ok((header, uint(row.get(at(3))?)))
}

/// The columns that [`tallies`] reads, from the given index on.
pub(super) const TALLIES: &str = "from_customer, from_agent, from_system, last_message_at";

pub(super) fn tallies(row: &Row<'_>, first: usize) -> rusqlite::Result<MessageCounts> {
    Ok(MessageCounts {
        customer: uint(row.get(first)?),
        agent: uint(row.get(first + 1)?),
        system: uint(row.get(first + 2)?),
        last_message_at: row.get(first + 3)?,
    })
}

/// The columns that [`record`] reads.
pub(super) const RECORD: &str = "n, tail, scope, seq, name, body";

pub(super) fn record(row: &Row<'_>, kind: Kind) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord {
        subject: Subject {
            kind,
            number: uint(row.get(0)?),
            tail: uint(row.get(1)?),
        },
        tenant: Tenant::from_number(row.get(2)?),
        sequence: uint(row.get(3)?),
        name: row.get(4)?,
        body: row.get(5)?,
    })
}

/// Which field a counter counts by. The values are SQLite's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Counted {
    All = 0,
    Channel = 1,
    Priority = 2,
    Customer = 3,
    Assignee = 4,
    Records = 10,
    Documents = 11,
    /// Deliveries: the tenant is the endpoint's number, the value what happened, the status where
    /// they stand.
    Deliveries = 20,
}
