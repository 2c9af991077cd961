//! Events by their place: in one entity its sequence, in an account and mode its number.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;

use super::codec::{self, int, uint};
use super::identifiers;
use super::redacting::Veil;
use super::slices::{self, Entry, Wanted};
use super::timeline::{self, Places};
use crate::store::{EventPage, EventQuery, FeedRow, ReadError, Span};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event::{Event, Place, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::WebhookId;
use colloquy_model::position::Position;

/// The columns that [`event`] reads.
const EVENT: &str =
    "pos, scope, number, entity, seq, happened, at, channel, priority, assignee, payload";

/// A row as the event that it is, with data that can be shown.
fn shown(row: &Row<'_>, veil: &Veil<'_>) -> rusqlite::Result<Event> {
    let event = event(row, veil)?;
    codec::check_json(&event.payload, || {
        format!("{}: an event's data", event.id())
    })?;
    Ok(event)
}

/// A row as the event that it is, without what is hidden.
fn event(row: &Row<'_>, veil: &Veil<'_>) -> rusqlite::Result<Event> {
    let happened = codec::word("what an event is", row.get(5)?, EventKind::from_code)?;
    let place = Place {
        position: Position(row.get(0)?),
        tenant: Tenant::from_number(row.get(1)?),
        number: uint(row.get(2)?),
        entity: uint(row.get(3)?),
        sequence: uint(row.get(4)?),
    };
    let seen = SeenNow {
        channel: seen(row.get(7)?, "an event's channel", Channel::from_code)?,
        priority: seen(row.get(8)?, "an event's priority", Priority::from_code)?,
        assignee: row.get::<_, Option<i64>>(9)?.map(uint),
    };
    let payload: Bytes = veil
        .shown(row.get(3)?, happened as i64, row.get(10)?)?
        .into();
    Ok(Event::new(place, happened, row.get(6)?, seen, payload))
}

fn seen<T>(
    code: Option<i64>,
    field: &str,
    from: fn(i64) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    code.map(|code| codec::word(field, code, from)).transpose()
}

/// A page of events; `fresh` was taken from memory before anything was read.
pub(super) fn page(
    connection: &Connection,
    fresh: Option<(u64, Vec<Entry>)>,
    query: &EventQuery,
) -> rusqlite::Result<Result<Option<EventPage>, ReadError>> {
    let tenant = match query.span {
        Span::Entity(tenant, subject) => return of_entity(connection, (tenant, subject), query),
        Span::Tenant(tenant) => tenant.number(),
    };
    let places = match timeline::page(connection, fresh, (tenant, query))? {
        Ok(places) => places,
        Err(error) => return Ok(Err(error)),
    };
    let sql = format!("SELECT {EVENT} FROM rows WHERE pos = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let Places {
        positions,
        total,
        cursor,
        more,
    } = places;
    let mut found = Found::with_room(positions.len());
    let veil = Veil::of(connection)?;
    for position in positions {
        let goes_on = statement.query_row([position.0], |row| found.take(row, 2, &veil))?;
        if !goes_on {
            break;
        }
    }
    found
        .page(query, (total, cursor, more))
        .map(|page| Ok(Some(page)))
}

/// The events of a page, up to one that can't be read.
struct Found {
    events: Vec<Arc<Event>>,
    /// The place of that one, and why.
    unreadable: Option<(u64, rusqlite::Error)>,
}

impl Found {
    fn with_room(events: usize) -> Self {
        Found {
            events: Vec::with_capacity(events),
            unreadable: None,
        }
    }

    /// Takes in the next row, whose place stands in this column; whether it could be read.
    fn take(&mut self, row: &Row<'_>, place: usize, veil: &Veil<'_>) -> rusqlite::Result<bool> {
        match shown(row, veil) {
            Ok(event) => self.events.push(Arc::new(event)),
            Err(error) => self.unreadable = Some((uint(row.get(place)?), error)),
        }
        Ok(self.unreadable.is_none())
    }

    /// The page, as far as it can be read where no total of it was asked for.
    fn page(
        self,
        query: &EventQuery,
        (total, cursor, more): (u64, u64, bool),
    ) -> rusqlite::Result<EventPage> {
        let events = self.events;
        let Some((place, error)) = self.unreadable else {
            return Ok(EventPage {
                events,
                total,
                cursor,
                more,
                unreadable: None,
            });
        };
        if query.total || codec::unreadable(&error).is_none() {
            return Err(error);
        }
        // Places have no gap: what stands before it was shown, or is not asked for.
        Ok(EventPage {
            events,
            total,
            cursor: place.saturating_sub(1),
            more: true,
            unreadable: Some(place),
        })
    }
}

/// Where the rows of one entity stand; its sequences have no gap.
struct Log<'c> {
    connection: &'c Connection,
    entity: i64,
    last: u64,
}

impl<'c> Log<'c> {
    fn open(connection: &'c Connection, entity: i64) -> rusqlite::Result<Self> {
        let last: Option<i64> = connection
            .prepare_cached("SELECT max(seq) FROM rows WHERE entity = ?1")?
            .query_row([entity], |row| row.get(0))?;
        Ok(Log {
            connection,
            entity,
            last: uint(last.unwrap_or(0)),
        })
    }

    /// The last sequence whose row's (position, number) is not beyond; 0 where there is none.
    fn last_where(&self, within: impl Fn(i64, u64) -> bool) -> rusqlite::Result<u64> {
        let mut query = self
            .connection
            .prepare_cached("SELECT pos, number FROM rows WHERE entity = ?1 AND seq = ?2")?;
        let mut holds = |seq: u64| {
            query.query_row([self.entity, int(seq)], |row| {
                Ok(within(
                    row.get(0)?,
                    uint(row.get::<_, Option<i64>>(1)?.unwrap_or(0)),
                ))
            })
        };
        // Mostly it is the very last.
        if self.last == 0 || holds(self.last)? {
            return Ok(self.last);
        }
        let (mut low, mut high) = (0, self.last);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if holds(middle)? {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(low)
    }

    /// Messages up to and with this row.
    fn messages(&self, seq: u64) -> rusqlite::Result<u64> {
        let mut query = self.connection.prepare_cached(
            "SELECT from_customer + from_agent + from_system FROM rows WHERE entity = ?1 AND seq = ?2",
        )?;
        Ok(query
            .query_row([self.entity, int(seq)], |row| row.get(0))
            .optional()?
            .map_or(0, uint))
    }

    /// The first row behind `after`, up to `end`, that may match by kind: runs of a million
    /// messages are passed over, for each row tells how many messages stand up to it.
    fn next(&self, (after, end): (u64, u64), wanted: &Wanted) -> rusqlite::Result<Option<u64>> {
        let (own, others) = wanted.sides();
        match (own, others) {
            (true, true) => return Ok((after < end).then_some(after + 1)),
            (false, false) => return Ok(None),
            (true, false) | (false, true) => {}
        }
        let rank = |seq: u64| -> rusqlite::Result<u64> {
            let messages = self.messages(seq)?;
            Ok(if own {
                messages
            } else {
                seq.saturating_sub(messages)
            })
        };
        let before = rank(after)?;
        if after >= end || rank(end)? == before {
            return Ok(None);
        }
        let (mut low, mut high) = (after, end);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if rank(middle)? > before {
                high = middle
            } else {
                low = middle
            }
        }
        Ok(Some(high))
    }

    /// Shows the stretches of rows in which something may match, each behind its first place up to
    /// its second, for as long as it is wanted.
    fn stretches(
        &self,
        (start, end): (u64, u64),
        wanted: &Wanted,
        mut goes_on: impl FnMut(u64, u64) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        let length = if wanted.sides() == (true, true) {
            u64::MAX
        } else {
            STRETCH
        };
        let mut after = start;
        while let Some(first) = self.next((after, end), wanted)? {
            after = (first - 1).saturating_add(length).min(end);
            if !goes_on(first - 1, after)? {
                break;
            }
        }
        Ok(())
    }

    /// The matching events behind `start` up to `end`, at most one more than `limit`.
    fn find(&self, span: (u64, u64), wanted: &Wanted, limit: u32) -> rusqlite::Result<Found> {
        let (kinds, channel, assignee) = wanted.values();
        let sql = format!("SELECT {EVENT} FROM rows WHERE {MATCHING} ORDER BY seq LIMIT ?7");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let most = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let veil = Veil::of(self.connection)?;
        let mut found = Found::with_room(0);
        self.stretches(span, wanted, |start, end| {
            let left = i64::try_from(most.saturating_sub(found.events.len())).unwrap_or(i64::MAX);
            let values = params![
                self.entity,
                int(start),
                int(end),
                kinds,
                channel,
                assignee,
                left
            ];
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                if !found.take(row, 4, &veil)? {
                    return Ok(false);
                }
            }
            Ok(found.events.len() < most)
        })?;
        Ok(found)
    }

    fn count(&self, (start, end): (u64, u64), wanted: &Wanted) -> rusqlite::Result<u64> {
        if wanted.is_all() {
            return Ok(end.saturating_sub(start));
        }
        if let ((true, _), true) = (wanted.sides(), wanted.is_of_kinds_alone()) {
            let messages = self.messages(end)?.saturating_sub(self.messages(start)?);
            return Ok(messages + self.count((start, end), &wanted.of_others())?);
        }
        let (kinds, channel, assignee) = wanted.values();
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT count(*) FROM rows WHERE {MATCHING}"))?;
        let mut total = 0;
        self.stretches((start, end), wanted, |start, end| {
            let values = params![self.entity, int(start), int(end), kinds, channel, assignee];
            total += statement.query_row(values, |row| row.get(0)).map(uint)?;
            Ok(true)
        })?;
        Ok(total)
    }
}

/// Rows of one entity that are read one after the other before the next that may match is looked
/// for.
const STRETCH: u64 = 64;

const MATCHING: &str = "entity = ?1 AND seq > ?2 AND seq <= ?3 AND (?4 >> happened) & 1
    AND (?5 IS NULL OR channel = ?5) AND (?6 IS NULL OR assignee = ?6)";

/// A page of one entity's events; none where the entity is not there.
fn of_entity(
    connection: &Connection,
    (tenant, subject): (Tenant, Subject),
    query: &EventQuery,
) -> rusqlite::Result<Result<Option<EventPage>, ReadError>> {
    // Of all entities, conversations alone show theirs one by one.
    if subject.kind != Kind::Conversation || !identifiers::is_there(connection, tenant, subject)? {
        return Ok(Ok(None));
    }
    let log = Log::open(connection, int(subject.number))?;
    if query.after > log.last {
        return Ok(Err(ReadError::NoCursor("after")));
    }
    let floor = slices::floor(connection, tenant.number())?;
    let trimmed = if floor == 0 {
        0
    } else {
        log.last_where(|_, number| number <= floor)?
    };
    if query.after > 0 && query.after < trimmed {
        return Ok(Err(ReadError::Expired));
    }
    let start = query.after.max(trimmed);
    let end = match query.until {
        Some(position) => log.last_where(|pos, _| pos <= position.0)?,
        None => log.last,
    };
    let wanted = Wanted::new(&query.filter);
    let mut found = log.find((start, end), &wanted, query.limit)?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = found.events.len() > limit;
    found.events.truncate(limit);
    let cursor = match found.events.last() {
        Some(event) if more => event.sequence,
        Some(_) | None => end.max(start),
    };
    let total = match query.total {
        true if more => log.count((start, end), &wanted)?,
        true => u64::try_from(found.events.len()).unwrap_or(u64::MAX),
        false => 0,
    };
    found
        .page(query, (total, cursor, more))
        .map(|page| Ok(Some(page)))
}

/// The event at this position, if it is stored: what is to be delivered is delivered, also where
/// retention has taken it out of the lists meanwhile.
pub(super) fn at(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<Arc<Event>>> {
    let sql = format!(
        "SELECT {EVENT} FROM rows WHERE pos = ?1 AND number IS NOT NULL AND payload IS NOT NULL"
    );
    let veil = Veil::of(connection)?;
    Ok(connection
        .prepare_cached(&sql)?
        .query_row([position.0], |row| shown(row, &veil))
        .optional()?
        .map(Arc::new))
}

/// The first field of an endpoint, as its rows hold it; no other record has it.
#[derive(Deserialize)]
struct Endpoint {
    webhook_id: WebhookId,
}

/// The next events and changes of endpoints behind this position.
pub(super) fn behind(
    connection: &Connection,
    position: Position,
    limit: u32,
) -> rusqlite::Result<Vec<FeedRow>> {
    let sql = format!(
        "SELECT {EVENT} FROM rows WHERE pos > ?1 AND happened <> 0 AND payload IS NOT NULL ORDER BY pos"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([position.0])?;
    let veil = Veil::of(connection)?;
    let mut found = Vec::new();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        found.extend(feed_row(row, &veil)?);
    }
    Ok(found)
}

fn feed_row(row: &Row<'_>, veil: &Veil<'_>) -> rusqlite::Result<Option<FeedRow>> {
    if row.get::<_, Option<i64>>(2)?.is_some() {
        return match event(row, veil) {
            Ok(event) => Ok(Some(FeedRow::Event(Arc::new(event)))),
            // Told, and passed by: it must not hold up what happened to everybody else.
            Err(error) if codec::unreadable(&error).is_some() => Ok(None),
            Err(error) => Err(error),
        };
    }
    let (position, number, payload) = (
        Position(row.get(0)?),
        uint(row.get(3)?),
        row.get_ref(10)?.as_blob_or_null()?,
    );
    let shown = payload
        .and_then(|payload| Some((payload, serde_json::from_slice::<Endpoint>(payload).ok()?)));
    let deleted = row.get::<_, i64>(5)? == EventKind::RecordDeleted as i64;
    Ok(shown
        .filter(|(_, endpoint)| endpoint.webhook_id.number() == number)
        .map(|(payload, _)| {
            let body = (!deleted).then(|| Bytes::copy_from_slice(payload));
            FeedRow::Endpoint {
                position,
                number,
                body,
            }
        }))
}
