//! Events by their place: in one entity its sequence, in an account and mode its number.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;

use super::codec::{int, uint};
use crate::caller::Scope;
use crate::conversation::messages::{Channel, Priority};
use crate::feed::{Event, Place, SeenNow};
use crate::id::WebhookId;
use crate::store::{EventPage, EventQuery, FeedRow, Happened, ReadError, Span};

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

/// What retention has left of the rows.
const LEFT: &str = "NOT EXISTS (SELECT 1 FROM scopes WHERE scope = rows.scope AND floor >= rows.number)";

/// The event at this position, if one is left there.
pub(super) fn at(connection: &Connection, position: i64) -> rusqlite::Result<Option<Arc<Event>>> {
    let sql = format!("SELECT {EVENT} FROM rows WHERE pos = ?1 AND number IS NOT NULL AND {LEFT}");
    let found = connection.prepare_cached(&sql)?.query_row([position], event).optional()?;
    Ok(found.flatten().map(Arc::new))
}

/// The first field of an endpoint, as its rows hold it; no other record has it.
#[derive(Deserialize)]
struct Endpoint {
    webhook_id: WebhookId,
}

/// The next events and changes of endpoints behind this position.
pub(super) fn behind(connection: &Connection, position: i64, limit: u32) -> rusqlite::Result<Vec<FeedRow>> {
    let sql = format!("SELECT {EVENT} FROM rows WHERE pos > ?1 AND happened <> 0 AND {LEFT} ORDER BY pos");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([position])?;
    let mut found = Vec::new();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        found.extend(feed_row(row)?);
    }
    Ok(found)
}

fn feed_row(row: &Row<'_>) -> rusqlite::Result<Option<FeedRow>> {
    if row.get::<_, Option<i64>>(2)?.is_some() {
        return Ok(event(row)?.map(|event| FeedRow::Event(Arc::new(event))));
    }
    let (position, number, payload) = (row.get(0)?, uint(row.get(3)?), row.get_ref(10)?.as_blob_or_null()?);
    let shown = payload.and_then(|payload| Some((payload, serde_json::from_slice::<Endpoint>(payload).ok()?)));
    let deleted = row.get::<_, i64>(5)? == Happened::RecordDeleted as i64;
    Ok(shown.filter(|(_, endpoint)| endpoint.webhook_id.number() == number).map(|(payload, _)| {
        let body = (!deleted).then(|| Bytes::copy_from_slice(payload));
        FeedRow::Endpoint { position, number, body }
    }))
}
