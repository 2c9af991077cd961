//! Events by their place: in one entity its sequence, in an account and mode its number.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;

use super::codec::{self, Columns, columns, int, only};
use super::feed_numbers::FeedNumbers;
use super::identifiers;
use super::readers;
use super::redacting::Veil;
use super::slices::{self, Entry, Wanted, WantedRows, WantedValues};
use super::timeline::{self, PageEnd, Places};
use crate::sealing::texts;
use crate::store::{EventPage, EventQuery, FeedRow, ReadError};
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::{self, Event, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{CustomerId, WebhookId};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

columns! {
    /// Where a row of the log of changes stands. What is no public event has no number; what
    /// changed nothing has no sequence.
    struct PlaceRow {
        pos: Position,
        entity: EntityNumber,
        seq: Option<Sequence>,
        number: Option<FeedNumber>,
    }
}

columns! {
    /// What a row of the log of changes says beside its [`PlaceRow`].
    struct EventRow<'r> {
        scope: Tenant,
        /// A kind of event; records and kept answers have other codes.
        happened: i64,
        at: Timestamp,
        channel: Option<Channel>,
        priority: Option<Priority>,
        assignee: Option<EntityNumber>,
        by_key: Option<i64>,
        text_bytes: Option<i64>,
        payload: Option<&'r [u8]>,
    }
}

/// A SELECT of the rows for which this holds, to be read by [`shown`], [`event`] or [`feed_row`].
fn select(condition: &str) -> String {
    format!(
        "SELECT {}, {} FROM rows WHERE {condition}",
        PlaceRow::COLUMNS,
        EventRow::COLUMNS
    )
}

/// What events are looked at through: what is hidden of them, and their numbers.
struct View<'c> {
    veil: Veil<'c>,
    numbers: FeedNumbers<'c>,
}

impl<'c> View<'c> {
    /// As of the running transaction.
    fn of(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(View {
            veil: Veil::of(connection)?,
            numbers: FeedNumbers::of(connection)?,
        })
    }
}

/// A row as the event that it is, with data that can be shown.
fn shown(row: &Row<'_>, view: &View<'_>) -> rusqlite::Result<Event> {
    let event = event(row, view)?;
    codec::check_json(&event.payload, || {
        format!("{}: an event's data", event.id())
    })?;
    Ok(event)
}

/// A row as the event that it is, without what is hidden.
fn event(row: &Row<'_>, view: &View<'_>) -> rusqlite::Result<Event> {
    let place = PlaceRow::read_from(row, 0)?;
    let row = EventRow::read_from(row, PlaceRow::COUNT)?;
    let unreadable =
        |what: &'static str| codec::damaged(format_args!("the event at {}", place.pos), what);
    let payload = row.payload.ok_or_else(|| unreadable("it has no data"))?;
    let payload = view
        .veil
        .shown(int(place.entity.0), row.happened, payload.to_vec())?;
    let kind = EventKind::from_code(row.happened)
        .ok_or_else(|| unreadable("the code of its kind stands for nothing"))?;
    let number = place.number.ok_or_else(|| unreadable("it has no number"))?;
    let written = event::EventRow {
        position: place.pos,
        tenant: row.scope,
        number: FeedNumber(view.numbers.shown(row.scope.number(), number.0)?),
        entity: place.entity,
        sequence: place.seq.ok_or_else(|| unreadable("it has no sequence"))?,
        kind,
        at: row.at,
        credential: row.by_key.map(CredentialCode),
        text_bytes: row.text_bytes.unwrap_or(0),
    };
    let seen = SeenNow {
        channel: row.channel,
        priority: row.priority,
        assignee: row.assignee,
    };
    Ok(Event::new(written, seen, payload.into()))
}

/// A page of events; `fresh` was taken from memory before anything was read.
pub(super) fn page(
    connection: &Connection,
    fresh: Option<(u64, Vec<Entry>)>,
    query: &EventQuery,
) -> rusqlite::Result<Result<Option<EventPage>, ReadError>> {
    if let EventSource::Entity(subject) = query.source {
        return of_entity(connection, subject, query);
    }
    let tenant = query.tenant.number();
    let view = View::of(connection)?;
    let asked = EventQuery {
        after: StreamOffset(view.numbers.read_up_to(tenant, query.after.0)?),
        ..query.clone()
    };
    let places = match timeline::page(connection, fresh, &asked)? {
        Ok(places) => places,
        Err(error) => return Ok(Err(error)),
    };
    let mut statement = connection.prepare_cached(&select("pos = ?1"))?;
    let Places { positions, end } = places;
    let mut found = Found::with_room(positions.len());
    for position in positions {
        let goes_on = statement.query_row([position.0], |row| {
            found.take(row, |place| place.number.map(StreamOffset::from), &view)
        })?;
        if !goes_on {
            break;
        }
    }
    let page = found.page(query, end)?;
    let shown = |StreamOffset(number)| view.numbers.shown(tenant, number).map(StreamOffset);
    Ok(Ok(Some(EventPage {
        cursor: shown(page.cursor)?,
        unreadable: page.unreadable.map(shown).transpose()?,
        ..page
    })))
}

/// The events of a page, up to one that can't be read.
struct Found {
    events: Vec<Arc<Event>>,
    /// The offset of that one, and why.
    unreadable: Option<(StreamOffset, rusqlite::Error)>,
}

impl Found {
    fn with_room(events: usize) -> Self {
        Found {
            events: Vec::with_capacity(events),
            unreadable: None,
        }
    }

    /// Takes in the next row, of which `offset` is the offset in the stream; whether it could be
    /// read.
    fn take(
        &mut self,
        row: &Row<'_>,
        offset: fn(&PlaceRow) -> Option<StreamOffset>,
        view: &View<'_>,
    ) -> rusqlite::Result<bool> {
        match shown(row, view) {
            Ok(event) => {
                readers::note_value(event.payload.len());
                self.events.push(Arc::new(event));
            }
            Err(error) => {
                let offset = offset(&PlaceRow::read_from(row, 0)?);
                self.unreadable = Some((offset.unwrap_or_default(), error));
            }
        }
        Ok(self.unreadable.is_none())
    }

    /// The page, as far as it can be read where no total of it was asked for.
    fn page(self, query: &EventQuery, end: PageEnd) -> rusqlite::Result<EventPage> {
        let events = self.events;
        let PageEnd {
            total,
            cursor,
            more,
        } = end;
        let Some((offset, error)) = self.unreadable else {
            return Ok(EventPage {
                events,
                total,
                cursor: StreamOffset(cursor),
                more,
                unreadable: None,
            });
        };
        if query.total || codec::unreadable(&error).is_none() {
            return Err(error);
        }
        // Offsets have no gap: what stands before it was shown, or is not asked for.
        Ok(EventPage {
            events,
            total,
            cursor: StreamOffset(offset.0.saturating_sub(1)),
            more: true,
            unreadable: Some(offset),
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
        let last: Option<u64> = connection
            .prepare_cached("SELECT max(seq) FROM rows WHERE entity = ?1")?
            .query_row([entity], only)?;
        Ok(Log {
            connection,
            entity,
            last: last.unwrap_or(0),
        })
    }

    /// The last sequence whose row is not beyond; 0 where there is none.
    fn last_where(&self, within: impl Fn(&PlaceRow) -> bool) -> rusqlite::Result<u64> {
        let mut query = self.connection.prepare_cached(&format!(
            "SELECT {} FROM rows WHERE entity = ?1 AND seq = ?2",
            PlaceRow::COLUMNS
        ))?;
        let mut holds = |seq: u64| {
            query.query_row([self.entity, int(seq)], |row| {
                Ok(within(&PlaceRow::read(row)?))
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
            .query_row([self.entity, int(seq)], only)
            .optional()?
            .unwrap_or(0))
    }

    /// The first row behind `after`, up to `end`, that may match by kind: runs of a million
    /// messages are passed over, for each row tells how many messages stand up to it.
    fn next(&self, range: RowRange, wanted: &Wanted) -> rusqlite::Result<Option<u64>> {
        let RowRange { after, end } = range;
        let rows = wanted.rows();
        match rows {
            WantedRows::Both => return Ok((after < end).then_some(after + 1)),
            WantedRows::Neither => return Ok(None),
            WantedRows::Messages | WantedRows::Others => {}
        }
        let rank = |seq: u64| -> rusqlite::Result<u64> {
            let messages = self.messages(seq)?;
            Ok(if rows == WantedRows::Messages {
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

    /// Shows the ranges of these rows in which something may match, for as long as it is wanted.
    fn ranges(
        &self,
        all: RowRange,
        wanted: &Wanted,
        mut goes_on: impl FnMut(RowRange) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        let end = all.end;
        let length = if wanted.rows() == WantedRows::Both {
            u64::MAX
        } else {
            RANGE_ROWS
        };
        let mut after = all.after;
        while let Some(first) = self.next(RowRange { after, end }, wanted)? {
            let before = first - 1;
            after = before.saturating_add(length).min(end);
            let range = RowRange {
                after: before,
                end: after,
            };
            if !goes_on(range)? {
                break;
            }
        }
        Ok(())
    }

    /// The matching events of these rows, at most one more than `limit`.
    fn find(&self, rows: RowRange, wanted: &Wanted, limit: u32) -> rusqlite::Result<Found> {
        let WantedValues {
            kinds,
            channel,
            assignee,
        } = wanted.values();
        let sql = select(&format!("{MATCHING} ORDER BY seq LIMIT ?7"));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let most = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let view = View::of(self.connection)?;
        let mut found = Found::with_room(0);
        self.ranges(rows, wanted, |RowRange { after, end }| {
            let left = i64::try_from(most.saturating_sub(found.events.len())).unwrap_or(i64::MAX);
            let values = params![
                self.entity,
                int(after),
                int(end),
                kinds,
                channel,
                assignee,
                left
            ];
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                if !found.take(row, |place| place.seq.map(StreamOffset::from), &view)? {
                    return Ok(false);
                }
            }
            Ok(found.events.len() < most)
        })?;
        Ok(found)
    }

    fn count(&self, rows: RowRange, wanted: &Wanted) -> rusqlite::Result<u64> {
        let RowRange { after, end } = rows;
        if wanted.is_all() {
            return Ok(end.saturating_sub(after));
        }
        let messages_pass = matches!(wanted.rows(), WantedRows::Both | WantedRows::Messages);
        if messages_pass && wanted.is_of_kinds_alone() {
            let messages = self.messages(end)?.saturating_sub(self.messages(after)?);
            return Ok(messages + self.count(rows, &wanted.of_others())?);
        }
        let WantedValues {
            kinds,
            channel,
            assignee,
        } = wanted.values();
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT count(*) FROM rows WHERE {MATCHING}"))?;
        let mut total = 0;
        self.ranges(rows, wanted, |RowRange { after, end }| {
            let values = params![self.entity, int(after), int(end), kinds, channel, assignee];
            total += statement.query_row(values, only::<u64>)?;
            Ok(true)
        })?;
        Ok(total)
    }
}

/// Consecutive rows of one entity: those behind `after`, up to and with `end`.
#[derive(Debug, Clone, Copy)]
struct RowRange {
    after: u64,
    end: u64,
}

/// Rows of one entity that are read one after the other before the next that may match is looked
/// for.
const RANGE_ROWS: u64 = 64;

const MATCHING: &str = "entity = ?1 AND seq > ?2 AND seq <= ?3 AND (?4 >> happened) & 1
    AND (?5 IS NULL OR channel = ?5) AND (?6 IS NULL OR assignee = ?6)";

/// A page of one entity's events; none where the entity is not there.
fn of_entity(
    connection: &Connection,
    subject: Subject,
    query: &EventQuery,
) -> rusqlite::Result<Result<Option<EventPage>, ReadError>> {
    // Of all entities, conversations alone show theirs one by one.
    if subject.kind != Kind::Conversation
        || !identifiers::is_there(connection, query.tenant, subject)?
    {
        return Ok(Ok(None));
    }
    let log = Log::open(connection, int(subject.number.0))?;
    let after = query.after.0;
    if after > log.last {
        return Ok(Err(ReadError::NoCursor("after")));
    }
    let floor = slices::floor(connection, query.tenant.number())?;
    let trimmed = if floor == 0 {
        0
    } else {
        log.last_where(|place| place.number.is_none_or(|number| number.0 <= floor))?
    };
    if after > 0 && after < trimmed {
        return Ok(Err(ReadError::Expired));
    }
    let after = after.max(trimmed);
    let end = match query.until {
        Some(position) => log.last_where(|place| place.pos <= position)?,
        None => log.last,
    };
    let wanted = Wanted::new(&query.filter);
    let rows = RowRange { after, end };
    let mut found = log.find(rows, &wanted, query.limit)?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = found.events.len() > limit;
    found.events.truncate(limit);
    let cursor = match found.events.last() {
        Some(event) if more => event.sequence.0,
        Some(_) | None => end.max(after),
    };
    let total = match query.total {
        true if more => log.count(rows, &wanted)?,
        true => u64::try_from(found.events.len()).unwrap_or(u64::MAX),
        false => 0,
    };
    let end = PageEnd {
        total,
        cursor,
        more,
    };
    found.page(query, end).map(|page| Ok(Some(page)))
}

/// The event at this position, if it is stored: what is to be delivered is delivered, also where
/// retention has taken it out of the lists meanwhile.
pub(super) fn at(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<Arc<Event>>> {
    let sql = select("pos = ?1 AND number IS NOT NULL AND payload IS NOT NULL");
    let view = View::of(connection)?;
    Ok(connection
        .prepare_cached(&sql)?
        .query_row([position.0], |row| shown(row, &view))
        .optional()?
        .map(Arc::new))
}

/// The request that did what stands at this position.
pub(super) fn request_at(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT by_request FROM rows WHERE pos = ?1")?
        .query_row([position.0], |row| row.get(0))
        .optional()
}

/// The first field of an endpoint, as its rows hold it; no other record has it.
#[derive(Deserialize)]
struct Endpoint {
    webhook_id: WebhookId,
}

/// The next events, changes of endpoints and new names of customers behind this position.
pub(super) fn behind(
    connection: &Connection,
    position: Position,
    limit: u32,
) -> rusqlite::Result<Vec<FeedRow>> {
    let sql = select("pos > ?1 AND happened <> ?2 AND payload IS NOT NULL ORDER BY pos");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([position.0, codec::NO_EVENT])?;
    let view = View::of(connection)?;
    let mut found = Vec::new();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        found.extend(feed_row(row, &view)?);
    }
    Ok(found)
}

fn feed_row(row: &Row<'_>, view: &View<'_>) -> rusqlite::Result<Option<FeedRow>> {
    let place = PlaceRow::read_from(row, 0)?;
    let read = if place.number.is_some() {
        event(row, view).map(|event| Some(FeedRow::Event(Arc::new(event))))
    } else {
        EventRow::read_from(row, PlaceRow::COUNT)
            .map(|row| endpoint(&place, &row).or_else(|| renamed(&place, &row)))
    };
    match read {
        // Told, and passed by: it must not hold up what happened to everybody else.
        Err(error) if codec::unreadable(&error).is_some() => Ok(None),
        read => read,
    }
}

/// What a row tells of a webhook endpoint; none where it is another record's.
fn endpoint(place: &PlaceRow, row: &EventRow<'_>) -> Option<FeedRow> {
    let payload = row.payload?;
    let Endpoint { webhook_id } = serde_json::from_slice(payload).ok()?;
    let is_deleted = row.happened == EventKind::RecordDeleted as i64;
    let body = (!is_deleted).then(|| Bytes::copy_from_slice(payload));
    (webhook_id.number() == place.entity).then_some(FeedRow::Endpoint {
        position: place.pos,
        number: place.entity,
        body,
    })
}

/// The first fields of a customer, as its rows hold it; no other record has both.
#[derive(Deserialize)]
struct Customer {
    customer_id: CustomerId,
    name: Box<str>,
}

/// What a row tells of a customer's name; none where it is another record's.
fn renamed(place: &PlaceRow, row: &EventRow<'_>) -> Option<FeedRow> {
    if row.happened != EventKind::RecordUpdated as i64 {
        return None;
    }
    let payload = texts::opened(row.payload?).ok()?;
    let Customer { customer_id, name } = serde_json::from_slice(&payload).ok()?;
    (customer_id.number() == place.entity).then_some(FeedRow::Renamed {
        position: place.pos,
        customer: place.entity,
        tenant: row.scope,
        name,
    })
}
