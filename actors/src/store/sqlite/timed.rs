//! Conversations in the order of the time at which they do something by themselves, each from an
//! index of its own.

use rusqlite::{Connection, Row, params};

use super::codec::{id, int, uint};
use super::dirty_headers::DirtyHeaders;
use crate::store::{Timed, TimedQuery, Timing};
use colloquy_model::caller::Tenant;

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

fn snoozed(connection: &Connection, query: &TimedQuery) -> rusqlite::Result<Vec<Timed>> {
    let (at, n) = query.behind.unwrap_or((i64::MIN, 0));
    let mut statement = connection.prepare_cached(
        "SELECT n, tail, scope, snoozed_until FROM conversations INDEXED BY conversations_snoozed
         WHERE snoozed_until IS NOT NULL AND (snoozed_until, n) > (?1, ?2) ORDER BY snoozed_until, n LIMIT ?3",
    )?;
    let mut rows = statement.query(params![at, int(n), query.limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let one = read(row)?;
        let due = one.at <= query.until;
        found.push(one);
        if !due {
            break;
        }
    }
    Ok(found)
}

/// The index shows the activity as of the headers; whoever has spoken since stands in the view of
/// those that lag. They are read over again until their headers are folded: at most for a minute.
fn idle(
    connection: &Connection,
    lagging: &DirtyHeaders,
    tenant: Tenant,
    query: &TimedQuery,
) -> rusqlite::Result<Vec<Timed>> {
    let (at, n) = query.behind.unwrap_or((i64::MIN, 0));
    // Row values don't use an index over an expression: the first term does, the second leaves out
    // what was read.
    let mut statement = connection.prepare_cached(
        "SELECT n, tail, scope, max(roused_at, ifnull(last_message_at, 0)) active_at, seq
         FROM conversations INDEXED BY conversations_idle
         WHERE scope = ?1 AND status <> 2 AND snoozed_until IS NULL AND max(roused_at, ifnull(last_message_at, 0)) >= ?2
           AND (max(roused_at, ifnull(last_message_at, 0)) > ?2 OR n > ?3)
         ORDER BY max(roused_at, ifnull(last_message_at, 0)), n LIMIT ?4",
    )?;
    let mut rows = statement.query(params![tenant.number(), at, int(n), query.limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut one = read(row)?;
        let listed_due = one.listed_at <= query.until;
        let header = uint(row.get(4)?);
        let newer = lagging.of(one.id.number()).filter(|lag| lag.seq > header);
        one.at = newer
            .and_then(|lag| lag.last_message_at)
            .map_or(one.at, |said| said.max(one.at));
        found.push(one);
        if !listed_due {
            break;
        }
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Timed> {
    let at = row.get(3)?;
    Ok(Timed {
        id: id(row.get(0)?, row.get(1)?),
        tenant: Tenant::from_number(row.get(2)?),
        listed_at: at,
        at,
    })
}
