//! Events by their place: in one entity its sequence, in an account and mode its number.

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::codec::{int, uint};
use crate::caller::Scope;
use crate::conversation::messages::{Channel, Priority};
use crate::feed::{Event, Place, SeenNow};
use crate::store::{EventPage, EventQuery, Happened, ReadError, Span};

/// The columns that [`event`] reads.
const EVENT: &str = "pos, scope, number, entity, seq, happened, at, channel, priority, assignee, payload";

/// A row as the event that it is.
fn event(row: &Row<'_>) -> rusqlite::Result<Option<Event>> {
    let Some(happened) = Happened::from_code(row.get(5)?) else { return Ok(None) };
    let place = Place {
        position: row.get(0)?,
        scope: Scope::from_number(row.get(1)?),
        number: uint(row.get(2)?),
        entity: uint(row.get(3)?),
        sequence: uint(row.get(4)?),
    };
    let seen = SeenNow {
        channel: row.get::<_, Option<i64>>(7)?.and_then(Channel::from_code),
        priority: row.get::<_, Option<i64>>(8)?.and_then(Priority::from_code),
        assignee: row.get::<_, Option<i64>>(9)?.map(uint),
    };
    let payload: Bytes = row.get::<_, Vec<u8>>(10)?.into();
    Ok(Some(Event::new(place, happened, row.get(6)?, seen, payload)))
}

/// A page of events.
pub(super) fn page(
    connection: &Connection,
    query: &EventQuery,
) -> rusqlite::Result<Result<Option<EventPage>, ReadError>> {
    let (condition, owner, place) = match query.span {
        Span::Entity(_, subject) => ("entity = ?1", int(subject.number), "seq"),
        Span::Scope(scope) => ("scope = ?1", scope.number(), "number"),
    };
    let sql = format!(
        "SELECT {EVENT} FROM rows WHERE {condition} AND {place} > ?2 AND pos <= ?3 AND number IS NOT NULL ORDER BY {place}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([owner, int(query.after), query.until.unwrap_or(i64::MAX)])?;
    let mut page = EventPage { events: Vec::new(), total: 0, cursor: query.after, more: false };
    while let Some(row) = rows.next()? {
        let Some(event) = event(row)? else { continue };
        if query.filter.admits(&event) {
            page.total += 1;
            if page.total > u64::from(query.limit) {
                page.more = true;
                if query.total {
                    continue;
                } else {
                    break;
                };
            }
            page.events.push(event.into());
        }
        if !page.more {
            page.cursor = uint(row.get(if place == "seq" { 4 } else { 2 })?);
        }
    }
    Ok(Ok(Some(page)))
}
