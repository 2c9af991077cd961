//! Reads deliveries: what waits, for whoever delivers, and what became of it, for lists.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::codec::{Columns, PENDING, RecordRow, columns, int, only, uint, whole};
use super::counters::Counted;
use super::deliveries::kinds;
use super::delivery_logs::{read_log, silent};
use super::redacting::Veil;
use super::row_page::Scan;
use crate::store::{
    DeliveryQuery, DeliveryState, DueLanes, DueQuery, EndpointTotals, LaneKey, Matched, OpenReplay,
    Replay, StoredDelivery, StoredEndpoint, StoredPage, Waiting, WebhookState,
};
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::first_number_at;
use colloquy_model::page::{Cursor, Start};
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// What whoever delivers begins with.
pub(super) fn state(connection: &Connection) -> rusqlite::Result<WebhookState> {
    let meta = |key: &str| -> rusqlite::Result<i64> {
        connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], only)
    };
    let within = meta("matched_within").optional()?;
    let matched = Matched {
        position: Position(meta("matched")?),
        within: EntityNumber(uint(within.unwrap_or(0))),
    };
    let newest: Option<i64> = connection.query_row("SELECT max(d) FROM deliveries", [], only)?;
    let last_lane: Option<i64> = connection.query_row("SELECT max(lane) FROM replays", [], only)?;
    Ok(WebhookState {
        matched,
        last_delivery: meta("last_delivery")?.max(newest.unwrap_or(0)),
        last_lane: last_lane.unwrap_or(0),
        endpoints: endpoints(connection, matched.position)?,
        replays: replays(connection)?,
    })
}

fn endpoints(connection: &Connection, matched: Position) -> rusqlite::Result<Vec<StoredEndpoint>> {
    let sql = format!("SELECT {} FROM records WHERE kind = ?1", RecordRow::COLUMNS);
    let mut query = connection.prepare(&sql)?;
    let mut made = connection.prepare("SELECT pos FROM rows WHERE entity = ?1 AND seq = 1")?;
    let mut version = connection.prepare(
        "SELECT payload FROM rows WHERE entity = ?1 AND seq IS NOT NULL AND pos <= ?2 ORDER BY seq DESC LIMIT 1",
    )?;
    let mut failing = connection.prepare("SELECT failing_since FROM endpoints WHERE n = ?1")?;
    let mut found = Vec::new();
    let mut rows = query.query([Kind::Webhook as i64])?;
    while let Some(row) = rows.next()? {
        let record = RecordRow::stored(row, Kind::Webhook)?;
        let n = int(record.subject.number.0);
        let as_matched: Option<Option<Vec<u8>>> =
            version.query_row([n, matched.0], only).optional()?;
        let failing_since: Option<Option<Timestamp>> = failing.query_row([n], only).optional()?;
        found.push(StoredEndpoint {
            made: made.query_row([n], only).optional()?.unwrap_or_default(),
            as_matched: as_matched.flatten().map(Into::into),
            pending: total(
                connection,
                record.subject.number,
                None,
                Some(DeliveryState::Pending),
            )?,
            failing_since: failing_since.flatten(),
            record,
        });
    }
    Ok(found)
}

columns! {
    /// A replay that is not done.
    struct ReplayRow {
        lane: i64,
        endpoint: EntityNumber,
        scope: Tenant,
        next: StreamOffset,
        last: Position,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        kinds: String,
    }
}

fn replays(connection: &Connection) -> rusqlite::Result<Vec<OpenReplay>> {
    let mut query = connection.prepare(&format!(
        "SELECT {} FROM replays ORDER BY lane",
        ReplayRow::COLUMNS
    ))?;
    let mut count = connection.prepare(&format!(
        "SELECT count(*) FROM deliveries WHERE {PENDING} AND endpoint = ?1 AND lane = ?2"
    ))?;
    let replay = |row: &Row<'_>| {
        let row = ReplayRow::read(row)?;
        let Some(kinds) = kinds(&row.kinds) else {
            // It rests: with other kinds it would send what nobody asked for.
            Unreadable::found(format_args!("replay {}: kinds", row.lane), row.kinds);
            return Ok(None);
        };
        let waiting = count.query_row([int(row.endpoint.0), row.lane], only)?;
        let replay = Replay {
            lane: row.lane,
            endpoint: row.endpoint,
            tenant: row.scope,
            next: row.next,
            last: row.last,
            since: row.since,
            until: row.until,
            kinds,
        };
        Ok(Some(OpenReplay { replay, waiting }))
    };
    query
        .query_map([], replay)?
        .filter_map(Result::transpose)
        .collect()
}

fn given_up(connection: &Connection, endpoint: EntityNumber) -> rusqlite::Result<i64> {
    let found = connection
        .prepare_cached("SELECT given_up FROM endpoints WHERE n = ?1")?
        .query_row([int(endpoint.0)], only)
        .optional()?;
    Ok(found.unwrap_or(0))
}

columns! {
    /// A delivery that waits, as whoever delivers reads it.
    struct WaitingRow {
        d: i64,
        lane: i64,
        entity: EntityNumber,
        pos: Position,
        attempts: u32,
        due: Option<Timestamp>,
    }
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    let row = WaitingRow::read(row)?;
    Ok(Waiting {
        number: row.d,
        key: LaneKey {
            lane: row.lane,
            entity: row.entity,
        },
        position: row.pos,
        attempts: row.attempts,
        due: row.due,
    })
}

/// Heads of lanes that are due, each with what follows it, as far as there is room.
pub(super) fn due(connection: &Connection, query: &DueQuery) -> rusqlite::Result<DueLanes> {
    let DueQuery {
        endpoint,
        until,
        lanes,
        deliveries,
    } = *query;
    let given_up = given_up(connection, endpoint)?;
    let mut heads = connection.prepare_cached(&format!(
        "SELECT {} FROM deliveries INDEXED BY deliveries_due
         WHERE endpoint = ?1 AND due IS NOT NULL AND (d > ?2 OR lane < 0) ORDER BY due, d",
        WaitingRow::COLUMNS
    ))?;
    let mut found = DueLanes::default();
    let mut rows = heads.query([int(endpoint.0), given_up])?;
    while let Some(row) = rows.next()? {
        let head = waiting(row)?;
        if found.lanes.len() >= lanes || head.due.is_some_and(|due| due > until) {
            found.next_due = head.due;
            break;
        }
        found.lanes.push(vec![head]);
    }
    let spare = deliveries
        .saturating_sub(found.lanes.len())
        .checked_div(found.lanes.len())
        .unwrap_or(0);
    let mut behind = connection.prepare_cached(&format!(
        "SELECT {} FROM deliveries INDEXED BY deliveries_waiting
         WHERE {PENDING} AND endpoint = ?1 AND lane = ?2 AND entity = ?3 AND d > ?4 ORDER BY d LIMIT ?5",
        WaitingRow::COLUMNS
    ))?;
    let spare = i64::try_from(spare).unwrap_or(i64::MAX);
    for lane in found.lanes.iter_mut().filter(|_| spare > 0) {
        let Some(head) = lane.first() else { continue };
        let bounds = params![
            int(endpoint.0),
            head.key.lane,
            int(head.key.entity.0),
            head.number,
            spare
        ];
        let run = behind
            .query_map(bounds, waiting)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        lane.extend(run);
    }
    Ok(found)
}

columns! {
    /// A delivery as lists show it, without its log.
    struct DeliveryRow {
        d: i64,
        lane: i64,
        entity: EntityNumber,
        pos: Position = "deliveries.pos",
        event_at: Timestamp = "ifnull((SELECT at FROM rows WHERE rows.pos = deliveries.pos), at)",
        happened: EventKind,
        at: Timestamp,
        state: DeliveryState,
        attempts: u32,
        due: Option<Timestamp>,
    }
}

columns! {
    /// What [`DeliveryRow`] leaves out.
    struct LogRow<'r> {
        log: Option<&'r [u8]>,
    }
}

fn delivery(row: &Row<'_>, given_up: i64) -> rusqlite::Result<StoredDelivery> {
    let row = DeliveryRow::read_from(row, 0)?;
    let is_given_up = row.d <= given_up && row.lane >= 0;
    let state = if row.state == DeliveryState::Pending && is_given_up {
        DeliveryState::Failed
    } else {
        row.state
    };
    Ok(StoredDelivery {
        number: row.d,
        key: LaneKey {
            lane: row.lane,
            entity: row.entity,
        },
        position: row.pos,
        event_at: row.event_at,
        kind: row.happened,
        at: row.at,
        state,
        attempts: row.attempts,
        due: row.due.filter(|_| state == DeliveryState::Pending),
        log: Vec::new(),
    })
}

/// One delivery with its log.
pub(super) fn one(
    connection: &Connection,
    endpoint: EntityNumber,
    number: i64,
) -> rusqlite::Result<Option<StoredDelivery>> {
    let given_up = given_up(connection, endpoint)?;
    let found = connection
        .prepare_cached(&format!(
            "SELECT {}, {} FROM deliveries WHERE d = ?1 AND endpoint = ?2",
            DeliveryRow::COLUMNS,
            LogRow::COLUMNS
        ))?
        .query_row([number, int(endpoint.0)], |row| {
            Ok(StoredDelivery {
                log: read_log(LogRow::read_from(row, DeliveryRow::COUNT)?.log)?,
                ..delivery(row, given_up)?
            })
        })
        .optional()?;
    let Some(mut found) = found else {
        return Ok(None);
    };
    if Veil::of(connection)?.hides_at(found.position)? {
        found.log = found.log.into_iter().map(silent).collect();
    }
    Ok(Some(found))
}

/// A page of an endpoint's deliveries: a merge of what the index holds in order, by what happened
/// and where it stands.
pub(super) fn page(
    connection: &Connection,
    query: &DeliveryQuery,
) -> rusqlite::Result<Result<StoredPage<StoredDelivery>, &'static str>> {
    let DeliveryQuery {
        endpoint,
        state,
        kind,
        paging,
        ..
    } = *query;
    if let Some((cursor, parameter)) = paging.start.cursor()
        && !was_in(connection, endpoint, cursor)?
    {
        return Ok(Err(parameter));
    }
    let total = total(connection, endpoint, kind, state)?;
    let given_up = given_up(connection, endpoint)?;
    // A delivery's number is the tail of its identifier.
    let start = match paging.start {
        Start::Offset(_) => paging.start,
        Start::After(at) => Start::After(Cursor {
            number: EntityNumber(at.tail),
            ..at
        }),
        Start::Before(at) => Start::Before(Cursor {
            number: EntityNumber(at.tail),
            ..at
        }),
    };
    let scan = Scan::new(paging.order, start);
    let skip = match start {
        Start::Offset(offset) => offset,
        Start::After(_) | Start::Before(_) => 0,
    };
    let sql = page_sql(&scan, kind, state);
    let most = int(skip)
        .saturating_add(i64::from(paging.limit))
        .saturating_add(1);
    let values = [
        int(endpoint.0),
        given_up,
        scan.bound.map_or(0, int),
        most,
        int(skip),
    ]
    .map(Value::from);
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| delivery(row, given_up))?;
    let items = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Ok(scan.page(items, paging, total)))
}

/// The statement of a page: of the endpoint ?1, which gave up those before ?2, from ?3 on, at most
/// ?4 of each kind and state, without the first ?5.
fn page_sql(scan: &Scan, kind: Option<EventKind>, state: Option<DeliveryState>) -> String {
    let (direction, compare) = (scan.direction(), scan.compare());
    let bound = scan
        .bound
        .map_or_else(String::new, |_| format!(" AND d {compare} ?3"));
    let kinds = EventKind::EVENTS
        .iter()
        .filter(|one| kind.is_none_or(|wanted| wanted == **one));
    let stored = stored_as(state);
    let part = |kind: EventKind, stored: &str| {
        format!(
            "SELECT d FROM (SELECT d FROM deliveries INDEXED BY deliveries_by_endpoint WHERE endpoint = ?1
             AND happened = {} AND {stored}{bound} AND ?2 <> -1 ORDER BY d {direction} LIMIT ?4)",
            kind as i64
        )
    };
    let parts: Vec<String> = kinds
        .flat_map(|kind| stored.iter().map(|stored| part(*kind, stored)))
        .collect();
    format!(
        "SELECT {} FROM deliveries WHERE d IN (SELECT d FROM ({}) ORDER BY d {direction} LIMIT ?4)
         ORDER BY d {direction} LIMIT -1 OFFSET ?5",
        DeliveryRow::COLUMNS,
        parts.join(" UNION ALL ")
    )
}

/// How the rows of a state are found: as the row says it, and what may stand behind.
fn stored_as(state: Option<DeliveryState>) -> Vec<String> {
    let is = |state: DeliveryState| format!("state = {}", state as i64);
    match state {
        None => DeliveryState::ALL.map(is).to_vec(),
        Some(DeliveryState::Pending) => vec![format!("{PENDING} AND (d > ?2 OR lane < 0)")],
        Some(DeliveryState::Delivered) => vec![is(DeliveryState::Delivered)],
        Some(DeliveryState::Failed) => vec![
            is(DeliveryState::Failed),
            format!("{PENDING} AND d <= ?2 AND lane >= 0"),
        ],
    }
}

columns! {
    /// Where a delivery is listed.
    struct ListedAt {
        endpoint: EntityNumber,
        at: Timestamp,
    }
}

/// Whether a delivery with this identifier is, or may have been, in the endpoint's list.
fn was_in(
    connection: &Connection,
    endpoint: EntityNumber,
    cursor: Cursor,
) -> rusqlite::Result<bool> {
    let number = int(cursor.tail);
    let sql = format!("SELECT {} FROM deliveries WHERE d = ?1", ListedAt::COLUMNS);
    let found = connection
        .prepare_cached(&sql)?
        .query_row([number], whole::<ListedAt>)
        .optional()?;
    if let Some(found) = found {
        return Ok(found.endpoint == endpoint && first_number_at(found.at) == cursor.number);
    }
    let last: i64 = connection.query_row(
        "SELECT value FROM meta WHERE key = 'last_delivery'",
        [],
        only,
    )?;
    Ok((1..=last).contains(&number))
}

fn total(
    connection: &Connection,
    endpoint: EntityNumber,
    kind: Option<EventKind>,
    state: Option<DeliveryState>,
) -> rusqlite::Result<u64> {
    let span = |value: Option<i64>| value.map_or((0, i64::MAX), |value| (value, value));
    let (first, last) = span(kind.map(|kind| kind as i64));
    let (low, high) = span(state.map(|state| state as i64));
    connection
        .prepare_cached(
            "SELECT coalesce(sum(total), 0) FROM counters WHERE scope = ?1 AND field = ?2 AND value BETWEEN ?3 AND ?4
             AND status BETWEEN ?5 AND ?6",
        )?
        .query_row([int(endpoint.0), Counted::Deliveries as i64, first, last, low, high], only)
}

/// How many deliveries of an endpoint stand where.
pub(super) fn totals(
    connection: &Connection,
    endpoint: EntityNumber,
) -> rusqlite::Result<EndpointTotals> {
    let given_up = given_up(connection, endpoint)?;
    let count = |state| total(connection, endpoint, None, Some(state));
    let (mut oldest, mut newest): (Option<i64>, Option<i64>) = (None, None);
    for kind in EventKind::EVENTS {
        let happened = *kind as i64;
        let first: Option<i64> = connection
            .prepare_cached("SELECT min(d) FROM deliveries INDEXED BY deliveries_by_endpoint WHERE endpoint = ?1 AND happened = ?2 AND state = ?3 AND d > ?4")?
            .query_row([int(endpoint.0), happened, DeliveryState::Pending as i64, given_up], only)?;
        let last: Option<i64> = connection
            .prepare_cached("SELECT max(d) FROM deliveries INDEXED BY deliveries_by_endpoint WHERE endpoint = ?1 AND happened = ?2 AND state = ?3")?
            .query_row([int(endpoint.0), happened, DeliveryState::Delivered as i64], only)?;
        oldest = oldest.into_iter().chain(first).min();
        newest = newest.into_iter().chain(last).max();
    }
    let taken = newest
        .map(|number| one(connection, endpoint, number))
        .transpose()?
        .flatten();
    let waits = oldest
        .map(|number| one(connection, endpoint, number))
        .transpose()?
        .flatten();
    Ok(EndpointTotals {
        pending: count(DeliveryState::Pending)?,
        delivered: count(DeliveryState::Delivered)?,
        failed: count(DeliveryState::Failed)?,
        last_success_at: taken
            .and_then(|taken| taken.log.last().map(|attempt| attempt.attempted_at)),
        oldest_pending_at: waits.map(|waits| waits.at),
    })
}
