//! Conversations in the order of the time at which they do something by themselves, each from an
//! index of its own.

use rusqlite::{Connection, params};

use super::codec::{Columns, columns, int};
use super::dirty_headers::DirtyHeaders;
use crate::store::{Timed, TimedCursor, TimedQuery, Timing};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::Status;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::ConversationId;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// The next of them; the last is the first that is not due.
pub(super) fn timed(
    connection: &Connection,
    lagging: &DirtyHeaders,
    query: &TimedQuery,
) -> rusqlite::Result<Vec<Timed>> {
    match query.timing {
        Timing::Snooze => snoozed(connection, query),
        Timing::Inactivity(tenant) => idle(connection, lagging, tenant, query),
    }
}

/// Before every conversation.
const BEGINNING: TimedCursor = TimedCursor {
    listed_at: Timestamp::MIN,
    number: EntityNumber::ZERO,
};

columns! {
    /// A conversation that sleeps.
    struct SnoozedRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
        snoozed_until: Timestamp,
    }
}

fn snoozed(connection: &Connection, query: &TimedQuery) -> rusqlite::Result<Vec<Timed>> {
    let TimedCursor { listed_at, number } = query.behind.unwrap_or(BEGINNING);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM conversations INDEXED BY conversations_snoozed
         WHERE snoozed_until IS NOT NULL AND (snoozed_until, n) > (?1, ?2) ORDER BY snoozed_until, n LIMIT ?3",
        SnoozedRow::COLUMNS
    ))?;
    let mut rows = statement.query(params![listed_at.0, int(number.0), query.limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = SnoozedRow::read(row)?;
        found.push(Timed {
            id: ConversationId::from_parts(row.n, row.tail),
            tenant: row.scope,
            listed_at: row.snoozed_until,
            at: row.snoozed_until,
        });
        if row.snoozed_until > query.until {
            break;
        }
    }
    Ok(found)
}

columns! {
    /// A conversation that does not sleep, and its last activity as its header says it.
    struct IdleRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
        active_at: Timestamp = "max(roused_at, ifnull(last_message_at, 0))",
        seq: Sequence,
    }
}

/// The index shows the activity as of the headers; whoever has spoken since stands in the view of
/// those that lag. They are read over again until their headers are folded: at most for a minute.
fn idle(
    connection: &Connection,
    lagging: &DirtyHeaders,
    tenant: Tenant,
    query: &TimedQuery,
) -> rusqlite::Result<Vec<Timed>> {
    let TimedCursor { listed_at, number } = query.behind.unwrap_or(BEGINNING);
    // Row values don't use an index over an expression: the first term does, the second leaves out
    // what was read. A partial index is used where its condition is written out, not where a part
    // of it is bound.
    let closed = Status::Closed.code();
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM conversations INDEXED BY conversations_idle
         WHERE scope = ?1 AND status <> {closed} AND snoozed_until IS NULL AND max(roused_at, ifnull(last_message_at, 0)) >= ?2
           AND (max(roused_at, ifnull(last_message_at, 0)) > ?2 OR n > ?3)
         ORDER BY max(roused_at, ifnull(last_message_at, 0)), n LIMIT ?4",
        IdleRow::COLUMNS
    ))?;
    let mut rows = statement.query(params![
        tenant.number(),
        listed_at.0,
        int(number.0),
        query.limit
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = IdleRow::read(row)?;
        let newer = lagging.of(row.n).filter(|lag| lag.seq > row.seq);
        let said_at = newer.and_then(|lag| lag.last_message_at);
        found.push(Timed {
            id: ConversationId::from_parts(row.n, row.tail),
            tenant: row.scope,
            listed_at: row.active_at,
            at: said_at.map_or(row.active_at, |said_at| said_at.max(row.active_at)),
        });
        if row.active_at > query.until {
            break;
        }
    }
    Ok(found)
}
