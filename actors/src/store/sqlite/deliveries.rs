//! Writes what became of deliveries, in the writer's transaction. Two things hold behind every
//! slice: the first pending delivery of each lane, and no other, has a `due`; and the counters say
//! how many stand where.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, Counted, int, uint};
use super::writer::{Failure, judge};
use crate::store::{
    Change, DeliverySlice, DeliveryState, Fate, GivenUp, LaneKey, NewDelivery, ReplayChange,
    Written,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;

/// Rows that one slice gives up or takes away besides what it came for.
const TIDIED: usize = 128;
/// What erasing the answers of one delivery costs beside their text, in bytes of text.
const ANSWERS_BYTES: usize = 512;
/// Attempts that a log keeps: the newest.
const LOG_MAX: usize = 32;
/// An endpoint's rows that wait up to `given_up` still have to be ended.
const TO_END: i64 = 1;
/// An endpoint is no more: its rows still have to go.
const TO_GO: i64 = 2;

/// Where the search for old deliveries goes on.
#[derive(Debug, Default)]
pub(super) struct Tidying {
    behind: i64,
}

/// What becomes of a slice of which something can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Nothing of it is written: it is tried again with more care.
    Whole,
    /// That alone is given up, with a word in the log.
    Each,
}

/// Endpoints that are no more, and whose deliveries did not go: a crash came between. They go from
/// here on, in slices.
pub(super) fn forget_gone(connection: &Connection) -> rusqlite::Result<()> {
    // From one endpoint to the next along the index, not from row to row.
    connection
        .prepare_cached(
            "INSERT INTO endpoints(n, failing_since, given_up, unsettled)
             WITH RECURSIVE with_rows(n) AS (
               SELECT min(endpoint) FROM deliveries
               UNION ALL
               SELECT (SELECT min(endpoint) FROM deliveries WHERE endpoint > with_rows.n) FROM with_rows WHERE n IS NOT NULL),
             known(n) AS (SELECT n FROM with_rows WHERE n IS NOT NULL UNION SELECT n FROM endpoints)
             SELECT n, NULL, 0, ?1 FROM known
             WHERE NOT EXISTS (SELECT 1 FROM records WHERE records.n = known.n AND kind = ?2)
             ON CONFLICT DO UPDATE SET unsettled = excluded.unsettled",
        )?
        .execute([TO_GO, Kind::Webhook as i64])?;
    connection
        .prepare_cached(
            "DELETE FROM replays WHERE NOT EXISTS (SELECT 1 FROM records WHERE n = endpoint AND kind = ?1)",
        )?
        .execute([Kind::Webhook as i64])?;
    Ok(())
}

/// Writes a slice into the running transaction, but for its answers.
pub(super) fn apply(
    connection: &Connection,
    slice: &DeliverySlice,
    tidying: &mut Tidying,
    care: Care,
) -> rusqlite::Result<Written> {
    let mut pen = Pen {
        connection,
        counters: BTreeMap::new(),
        given_up: HashMap::new(),
        now: slice.now,
        care,
    };
    for (number, change) in &slice.changes {
        pen.carefully("a delivery's outcome", *number, |pen| {
            pen.change(*number, change)
        })?;
    }
    for given_up in &slice.given_up {
        pen.give_up(*given_up)?;
    }
    for new in &slice.new {
        pen.carefully("a delivery", new.number, |pen| pen.insert(new))?;
    }
    if let Some(last) = slice.new.last() {
        pen.mark("last_delivery", last.number)?;
    }
    for (endpoint, since) in &slice.failing {
        pen.failing(*endpoint, *since)?;
    }
    for change in &slice.replays {
        pen.replay(change)?;
    }
    if let Some(matched) = slice.matched {
        pen.mark("matched", matched.position.0)?;
        pen.mark("matched_within", int(matched.within))?;
    }
    let left = pen.settle_one()? | pen.prune(slice.keep_from, tidying)?;
    pen.count()?;
    Ok(Written { left })
}

/// A message was redacted: what receivers answered to its deliveries may repeat it.
pub(super) fn erase_answers(
    connection: &Connection,
    entity: u64,
    sequence: u64,
) -> rusqlite::Result<()> {
    let found = connection
        .prepare_cached("SELECT pos FROM rows WHERE entity = ?1 AND seq = ?2")?
        .query_row([int(entity), int(sequence)], |row| row.get(0).map(Position))
        .optional()?;
    if let Some(position) = found {
        let mut room = usize::MAX;
        erase_some_answers(connection, (position, 0), &mut room)?;
    }
    Ok(())
}

/// The same for the deliveries of the event at this position, behind one of them, as long as there
/// is room, in bytes; the last one where there may be more.
pub(super) fn erase_some_answers(
    connection: &Connection,
    (position, behind): (Position, i64),
    room: &mut usize,
) -> rusqlite::Result<Option<i64>> {
    let mut query = connection.prepare_cached(
        "SELECT d, log FROM deliveries WHERE pos = ?1 AND d > ?2 AND log IS NOT NULL ORDER BY d",
    )?;
    let mut update = connection.prepare_cached("UPDATE deliveries SET log = ?2 WHERE d = ?1")?;
    let mut rows = query.query([position.0, behind])?;
    let mut last = behind;
    while *room > 0 {
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let bytes = row.get_ref(1)?.as_blob()?.len();
        *room = room.saturating_sub(ANSWERS_BYTES + bytes);
        last = row.get(0)?;
        // What can't be read may hold the text all the same: it goes as a whole.
        let log = read_log(row, 1).unwrap_or_default();
        update.execute(params![
            last,
            written(&log.into_iter().map(silent).collect::<Vec<_>>())
        ])?;
    }
    Ok(Some(last))
}

/// The attempts that a column holds.
pub(super) fn read_log(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Attempt>> {
    let log = row.get_ref(column)?.as_blob_or_null()?;
    let Some(log) = log else {
        return Ok(Vec::new());
    };
    serde_json::from_slice(log).map_err(|error| codec::damaged("a delivery's log", error))
}

fn written(log: &[Attempt]) -> Option<Vec<u8>> {
    // A shape of ours: it can't fail.
    if log.is_empty() {
        None
    } else {
        serde_json::to_vec(log).ok()
    }
}

/// An attempt without what the receiver said.
pub(super) fn silent(attempt: Attempt) -> Attempt {
    Attempt {
        answer: None,
        error: None,
        ..attempt
    }
}

/// One slice on its way into the file.
struct Pen<'c> {
    connection: &'c Connection,
    /// By endpoint, what happened and where it stands.
    counters: BTreeMap<(u64, i64, i64), i64>,
    given_up: HashMap<u64, i64>,
    now: i64,
    care: Care,
}

/// What a change has to know of a row.
struct Found {
    number: i64,
    endpoint: u64,
    key: LaneKey,
    happened: i64,
    position: Position,
    /// Given up means failed, whatever the row says.
    state: DeliveryState,
    /// None: it can't be read, and stays as it is.
    log: Option<Vec<Attempt>>,
}

impl Pen<'_> {
    /// Writes one thing of the slice; where each is taken care of, one that can't be written is
    /// given up, alone.
    fn carefully(
        &mut self,
        what: &str,
        number: i64,
        write: impl FnOnce(&mut Self) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        if self.care == Care::Whole {
            return write(self);
        }
        let counters = self.counters.clone();
        self.connection.execute_batch("SAVEPOINT careful")?;
        match write(self) {
            Ok(()) => self.connection.execute_batch("RELEASE careful"),
            Err(error) if judge(&error) == Failure::Poisoned => {
                tracing::error!(%error, number, "{what} can't be written: it is given up");
                self.counters = counters;
                self.connection
                    .execute_batch("ROLLBACK TO careful; RELEASE careful")
            }
            Err(error) => Err(error),
        }
    }

    fn count_one(&mut self, endpoint: u64, happened: i64, state: DeliveryState, delta: i64) {
        *self
            .counters
            .entry((endpoint, happened, state as i64))
            .or_insert(0) += delta;
    }

    fn count(&mut self) -> rusqlite::Result<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO counters(scope, field, value, status, total) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET total = total + excluded.total",
        )?;
        for ((endpoint, happened, state), delta) in std::mem::take(&mut self.counters) {
            if delta != 0 {
                upsert.execute(params![
                    int(endpoint),
                    Counted::Deliveries as i64,
                    happened,
                    state,
                    delta
                ])?;
            }
        }
        Ok(())
    }

    fn mark(&self, key: &str, value: i64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
            )?
            .execute(params![key, value])?;
        Ok(())
    }

    fn given_up(&mut self, endpoint: u64) -> rusqlite::Result<i64> {
        if let Some(known) = self.given_up.get(&endpoint) {
            return Ok(*known);
        }
        let found = self
            .connection
            .prepare_cached("SELECT given_up FROM endpoints WHERE n = ?1")?
            .query_row([int(endpoint)], |row| row.get(0))
            .optional()?
            .unwrap_or(0);
        self.given_up.insert(endpoint, found);
        Ok(found)
    }

    fn find(&mut self, number: i64) -> rusqlite::Result<Option<Found>> {
        let read = |row: &Row<'_>| {
            let Some(state) = DeliveryState::from_code(row.get(5)?) else {
                Unreadable::found(
                    format_args!("delivery {number}: state"),
                    "the code stands for nothing",
                );
                return Ok(None);
            };
            let unreadable =
                |error| Unreadable::found(format_args!("delivery {number}: log"), error);
            Ok(Some(Found {
                number,
                endpoint: uint(row.get(0)?),
                key: LaneKey {
                    lane: row.get(1)?,
                    entity: uint(row.get(2)?),
                },
                happened: row.get(3)?,
                position: Position(row.get(4)?),
                state,
                log: read_log(row, 6).map_err(unreadable).ok(),
            }))
        };
        let found = self
            .connection
            .prepare_cached("SELECT endpoint, lane, entity, happened, pos, state, log FROM deliveries WHERE d = ?1")?
            .query_row([number], read)
            .optional()?;
        let Some(mut found) = found.flatten() else {
            return Ok(None);
        };
        if found.state == DeliveryState::Pending
            && found.key.lane >= 0
            && number <= self.given_up(found.endpoint)?
        {
            found.state = DeliveryState::Failed;
        }
        Ok(Some(found))
    }

    /// What was given up stays so, and what has gone is not missed.
    fn change(&mut self, number: i64, change: &Change) -> rusqlite::Result<()> {
        let Some(found) = self.find(number)? else {
            return Ok(());
        };
        let waits = found.state == DeliveryState::Pending;
        match change {
            Change::Attempted(fate) if waits => self.attempted(found, fate),
            Change::Due(at) if waits => {
                self.connection
                    .prepare_cached(
                        "UPDATE deliveries SET due = ?2 WHERE d = ?1 AND due IS NOT NULL",
                    )?
                    .execute([number, *at])?;
                Ok(())
            }
            Change::Again(at) if !waits => {
                self.count_one(found.endpoint, found.happened, found.state, -1);
                self.count_one(found.endpoint, found.happened, DeliveryState::Pending, 1);
                self.connection
                    .prepare_cached(
                        "UPDATE deliveries SET state = 0, lane = -d, due = ?2 WHERE d = ?1",
                    )?
                    .execute([number, *at])?;
                Ok(())
            }
            Change::Attempted(_) | Change::Due(_) | Change::Again(_) => Ok(()),
        }
    }

    fn attempted(&mut self, mut found: Found, fate: &Fate) -> rusqlite::Result<()> {
        let ended = fate.state != DeliveryState::Pending;
        let log = match found.log.take() {
            Some(mut log) => {
                log.extend(fate.log.iter().cloned());
                Some(written(&self.sayable(found.position, log)?))
            }
            None => None,
        };
        let stays = log.is_none();
        self.connection
            .prepare_cached(
                "UPDATE deliveries SET state = ?2, attempts = ?3, due = ?4, log = CASE WHEN ?6 THEN log ELSE ?5 END
                 WHERE d = ?1",
            )?
            .execute(params![
                found.number,
                fate.state as i64,
                fate.attempts,
                (!ended).then_some(fate.due),
                log.flatten(),
                stays
            ])?;
        if ended {
            self.count_one(found.endpoint, found.happened, DeliveryState::Pending, -1);
            self.count_one(found.endpoint, found.happened, fate.state, 1);
            self.hand_over(found.endpoint, found.key)?;
        }
        Ok(())
    }

    /// A log without what a redacted message's receivers may have repeated, and not longer than a
    /// log may be.
    fn sayable(&self, position: Position, mut log: Vec<Attempt>) -> rusqlite::Result<Vec<Attempt>> {
        log.drain(..log.len().saturating_sub(LOG_MAX));
        if log.is_empty() {
            return Ok(log);
        }
        // Redaction takes the salt.
        let redacted = self
            .connection
            .prepare_cached("SELECT salt IS NULL FROM rows WHERE pos = ?1")?
            .query_row([position.0], |row| row.get(0))
            .optional()?
            .unwrap_or(true);
        Ok(if redacted {
            log.into_iter().map(silent).collect()
        } else {
            log
        })
    }

    /// The next of a lane may be tried.
    fn hand_over(&mut self, endpoint: u64, key: LaneKey) -> rusqlite::Result<()> {
        if key.lane < 0 {
            return Ok(());
        }
        let given_up = self.given_up(endpoint)?;
        self.connection
            .prepare_cached(
                "UPDATE deliveries SET due = ?5 WHERE d = (SELECT min(d) FROM deliveries
                 WHERE state = 0 AND endpoint = ?1 AND lane = ?2 AND entity = ?3 AND d > ?4)",
            )?
            .execute(params![
                int(endpoint),
                key.lane,
                int(key.entity),
                given_up,
                self.now
            ])?;
        Ok(())
    }

    fn insert(&mut self, new: &NewDelivery) -> rusqlite::Result<()> {
        let NewDelivery {
            number,
            endpoint,
            key,
            position,
            happened,
            at,
            fate,
        } = new;
        let pending = fate.state == DeliveryState::Pending;
        let head = pending && !self.anything_waits(*endpoint, *key)?;
        let log = if fate.log.is_empty() {
            None
        } else {
            written(&self.sayable(*position, fate.log.clone())?)
        };
        self.connection
            .prepare_cached(
                "INSERT INTO deliveries(
             d, endpoint, lane, pos, entity, happened, at, state, attempts, due, log)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                number,
                int(*endpoint),
                key.lane,
                position.0,
                int(key.entity),
                *happened as i64,
                at,
                fate.state as i64,
                fate.attempts,
                head.then_some(fate.due),
                log
            ])?;
        self.count_one(*endpoint, *happened as i64, fate.state, 1);
        Ok(())
    }

    fn anything_waits(&mut self, endpoint: u64, key: LaneKey) -> rusqlite::Result<bool> {
        let given_up = self.given_up(endpoint)?;
        self.connection
            .prepare_cached(
                "SELECT 1 FROM deliveries WHERE state = 0 AND endpoint = ?1 AND lane = ?2 AND entity = ?3 AND d > ?4",
            )?
            .exists(params![int(endpoint), key.lane, int(key.entity), given_up])
    }

    /// All that waits counts as failed at once; the rows follow behind.
    fn give_up(&mut self, given_up: GivenUp) -> rusqlite::Result<()> {
        let GivenUp {
            endpoint,
            up_to,
            gone,
        } = given_up;
        self.count()?;
        let n = int(endpoint);
        let pending = {
            let mut query = self.connection.prepare_cached(
                "SELECT value, total FROM counters WHERE scope = ?1 AND field = ?2 AND status = 0 AND total <> 0",
            )?;
            let rows = query.query_map([n, Counted::Deliveries as i64], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<(i64, i64)>>>()?
        };
        for (happened, total) in pending {
            self.count_one(endpoint, happened, DeliveryState::Pending, -total);
            self.count_one(endpoint, happened, DeliveryState::Failed, total);
        }
        self.connection
            .prepare_cached(
                "UPDATE deliveries SET state = 2, due = NULL WHERE state = 0 AND endpoint = ?1 AND lane < 0",
            )?
            .execute([n])?;
        self.connection
            .prepare_cached(
                "INSERT INTO endpoints(n, failing_since, given_up, unsettled) VALUES (?1, NULL, ?2, ?3)
                 ON CONFLICT DO UPDATE SET failing_since = NULL, given_up = excluded.given_up, unsettled = excluded.unsettled",
            )?
            .execute([n, up_to, if gone { TO_GO } else { TO_END }])?;
        self.connection
            .prepare_cached("DELETE FROM replays WHERE endpoint = ?1")?
            .execute([n])?;
        self.given_up.insert(endpoint, up_to);
        Ok(())
    }

    fn failing(&self, endpoint: u64, since: Option<i64>) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO endpoints(n, failing_since, given_up, unsettled) VALUES (?1, ?2, 0, 0)
                 ON CONFLICT DO UPDATE SET failing_since = excluded.failing_since",
            )?
            .execute(params![int(endpoint), since])?;
        Ok(())
    }

    fn replay(&self, change: &ReplayChange) -> rusqlite::Result<()> {
        match change {
            ReplayChange::Open(replay) => {
                let kinds: Vec<&str> = replay.kinds.iter().map(|kind| kind.word()).collect();
                self.connection
                    .prepare_cached("INSERT INTO replays(lane, endpoint, scope, next, last, since, until, kinds) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
                    .execute(params![
                        replay.lane,
                        int(replay.endpoint),
                        replay.tenant.number(),
                        int(replay.next),
                        replay.last.0,
                        replay.since,
                        replay.until,
                        kinds.join(" ")
                    ])?;
            }
            ReplayChange::Reached(lane, next) => {
                self.connection
                    .prepare_cached("UPDATE replays SET next = ?2 WHERE lane = ?1")?
                    .execute([*lane, int(*next)])?;
            }
            ReplayChange::Done(lane) => {
                self.connection
                    .prepare_cached("DELETE FROM replays WHERE lane = ?1")?
                    .execute([lane])?;
            }
        }
        Ok(())
    }

    /// Some rows of one endpoint that was given up say so themselves, or go; true where any are
    /// left.
    fn settle_one(&mut self) -> rusqlite::Result<bool> {
        let found: Option<(i64, i64, i64)> = self
            .connection
            .prepare_cached(
                "SELECT n, given_up, unsettled FROM endpoints WHERE unsettled <> 0 LIMIT 1",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((n, given_up, unsettled)) = found else {
            return Ok(false);
        };
        let sql = if unsettled == TO_GO {
            "DELETE FROM deliveries WHERE d IN (SELECT d FROM deliveries WHERE endpoint = ?1 AND d <= ?2 LIMIT ?3)"
        } else {
            "UPDATE deliveries SET state = 2, due = NULL WHERE d IN
             (SELECT d FROM deliveries WHERE state = 0 AND endpoint = ?1 AND d <= ?2 AND lane >= 0 LIMIT ?3)"
        };
        let up_to = if unsettled == TO_GO {
            i64::MAX
        } else {
            given_up
        };
        let limit = i64::try_from(TIDIED).unwrap_or(i64::MAX);
        if self
            .connection
            .prepare_cached(sql)?
            .execute([n, up_to, limit])?
            == TIDIED
        {
            return Ok(true);
        }
        if unsettled == TO_GO {
            self.count()?;
            self.connection
                .prepare_cached("DELETE FROM counters WHERE scope = ?1 AND field = ?2")?
                .execute([n, Counted::Deliveries as i64])?;
            self.connection
                .prepare_cached("DELETE FROM endpoints WHERE n = ?1")?
                .execute([n])?;
        } else {
            self.connection
                .prepare_cached("UPDATE endpoints SET unsettled = 0 WHERE n = ?1")?
                .execute([n])?;
        }
        Ok(true)
    }

    /// Takes some deliveries away that ended and are old; true where more may be.
    fn prune(&mut self, keep_from: i64, tidying: &mut Tidying) -> rusqlite::Result<bool> {
        let limit = i64::try_from(TIDIED).unwrap_or(i64::MAX);
        let seen = {
            let mut query = self.connection.prepare_cached(
                "SELECT d, endpoint, happened, state, at FROM deliveries WHERE d > ?1 ORDER BY d LIMIT ?2",
            )?;
            let row = |row: &Row<'_>| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                ))
            };
            let old = query.query_map([tidying.behind, limit], row)?;
            let old = old.take_while(|row: &rusqlite::Result<Old>| {
                row.as_ref().map_or(true, |row| row.4 < keep_from)
            });
            old.collect::<rusqlite::Result<Vec<Old>>>()?
        };
        let mut delete = self
            .connection
            .prepare_cached("DELETE FROM deliveries WHERE d = ?1")?;
        for (d, endpoint, happened, state, _) in &seen {
            if let Some(state) =
                DeliveryState::from_code(*state).filter(|state| *state != DeliveryState::Pending)
            {
                delete.execute([d])?;
                *self
                    .counters
                    .entry((uint(*endpoint), *happened, state as i64))
                    .or_insert(0) -= 1;
            }
        }
        let more = seen.len() == TIDIED;
        tidying.behind = seen.last().filter(|_| more).map_or(0, |last| last.0);
        Ok(more)
    }
}

type Old = (i64, i64, i64, i64, i64);

/// The kinds of events that a text names; none where it names something else.
pub(super) fn kinds(text: &str) -> Option<Vec<EventKind>> {
    text.split_ascii_whitespace()
        .map(EventKind::from_word)
        .collect()
}
