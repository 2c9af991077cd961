//! Writes what became of deliveries, in the writer's transaction. Two things hold behind every
//! slice: the first pending delivery of each lane, and no other, has a `due`; and the counters say
//! how many stand where.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{Columns, PENDING, columns, insert, int, only, optional_millis, whole};
use super::counters::{Counted, Counter, CounterMoves};
use super::delivery_logs::{read_log, sayable, written};
use super::delivery_tidying::{SETTLED, TO_END, TO_GO, Tidying};
use super::failure::{Failure, judge};
use crate::store::{
    Change, DeliveryChange, DeliverySlice, DeliveryState, FailingEndpoint, Fate, GivenUp, LaneKey,
    NewDelivery, ReplayChange, Written,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// What becomes of a slice of which something can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Nothing of it is written: it is tried again with more care.
    Whole,
    /// That alone is given up, with a word in the log.
    Each,
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
        counters: CounterMoves::default(),
        given_up: HashMap::new(),
        now: slice.now,
        care,
    };
    for DeliveryChange { number, change } in &slice.changes {
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
    for FailingEndpoint { endpoint, since } in &slice.failing {
        pen.failing(*endpoint, *since)?;
    }
    for change in &slice.replays {
        pen.replay(change)?;
    }
    if let Some(matched) = slice.matched {
        pen.mark("matched", matched.position.0)?;
        pen.mark("matched_within", int(matched.within.0))?;
    }
    let left = tidying.run(connection, slice.keep_from, &mut pen.counters)?;
    pen.counters.write(connection)?;
    Ok(Written { left })
}

/// One slice on its way into the file.
struct Pen<'c> {
    connection: &'c Connection,
    counters: CounterMoves,
    given_up: HashMap<EntityNumber, i64>,
    now: Timestamp,
    care: Care,
}

columns! {
    /// A delivery's row, as a change reads it.
    struct DeliveryRow<'r> {
        endpoint: EntityNumber,
        lane: i64,
        entity: EntityNumber,
        happened: i64,
        pos: Position,
        state: i64,
        log: Option<&'r [u8]>,
    }
}

/// What a change has to know of a row.
struct Found {
    number: i64,
    endpoint: EntityNumber,
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

    fn count_one(&mut self, endpoint: EntityNumber, kind: i64, state: DeliveryState, delta: i64) {
        let counter = Counter::of_delivery(endpoint, kind, state);
        self.counters.add(counter, delta);
    }

    fn mark(&self, key: &str, value: i64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
            )?
            .execute(params![key, value])?;
        Ok(())
    }

    fn given_up(&mut self, endpoint: EntityNumber) -> rusqlite::Result<i64> {
        if let Some(known) = self.given_up.get(&endpoint) {
            return Ok(*known);
        }
        let found = self
            .connection
            .prepare_cached("SELECT given_up FROM endpoints WHERE n = ?1")?
            .query_row([int(endpoint.0)], only)
            .optional()?
            .unwrap_or(0);
        self.given_up.insert(endpoint, found);
        Ok(found)
    }

    fn find(&mut self, number: i64) -> rusqlite::Result<Option<Found>> {
        let read = |row: &Row<'_>| {
            let row = DeliveryRow::read(row)?;
            let Some(state) = DeliveryState::from_code(row.state) else {
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
                endpoint: row.endpoint,
                key: LaneKey {
                    lane: row.lane,
                    entity: row.entity,
                },
                happened: row.happened,
                position: row.pos,
                state,
                log: read_log(row.log).map_err(unreadable).ok(),
            }))
        };
        let found = self
            .connection
            .prepare_cached(&format!(
                "SELECT {} FROM deliveries WHERE d = ?1",
                DeliveryRow::COLUMNS
            ))?
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
                    .execute([number, at.0])?;
                Ok(())
            }
            Change::Again(at) if !waits => {
                self.count_one(found.endpoint, found.happened, found.state, -1);
                self.count_one(found.endpoint, found.happened, DeliveryState::Pending, 1);
                self.connection
                    .prepare_cached(
                        "UPDATE deliveries SET state = ?3, lane = -d, due = ?2 WHERE d = ?1",
                    )?
                    .execute([number, at.0, DeliveryState::Pending as i64])?;
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
                Some(written(&sayable(self.connection, found.position, log)?))
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
                (!ended).then_some(fate.due.0),
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

    /// The next of a lane may be tried.
    fn hand_over(&mut self, endpoint: EntityNumber, key: LaneKey) -> rusqlite::Result<()> {
        if key.lane < 0 {
            return Ok(());
        }
        let given_up = self.given_up(endpoint)?;
        self.connection
            .prepare_cached(&format!(
                "UPDATE deliveries SET due = ?5 WHERE d = (SELECT min(d) FROM deliveries
                 WHERE {PENDING} AND endpoint = ?1 AND lane = ?2 AND entity = ?3 AND d > ?4)"
            ))?
            .execute(params![
                int(endpoint.0),
                key.lane,
                int(key.entity.0),
                given_up,
                self.now.0
            ])?;
        Ok(())
    }

    fn insert(&mut self, new: &NewDelivery) -> rusqlite::Result<()> {
        let NewDelivery {
            number,
            endpoint,
            key,
            position,
            kind,
            at,
            fate,
        } = new;
        let pending = fate.state == DeliveryState::Pending;
        let head = pending && !self.anything_waits(*endpoint, *key)?;
        let log = if fate.log.is_empty() {
            None
        } else {
            written(&sayable(self.connection, *position, fate.log.clone())?)
        };
        insert!(self.connection, "INSERT INTO deliveries", {
            d: number,
            endpoint: int(endpoint.0),
            lane: key.lane,
            pos: position.0,
            entity: int(key.entity.0),
            happened: *kind as i64,
            at: at.0,
            state: fate.state as i64,
            attempts: fate.attempts,
            due: head.then_some(fate.due.0),
            log: log,
        })?;
        self.count_one(*endpoint, *kind as i64, fate.state, 1);
        Ok(())
    }

    fn anything_waits(&mut self, endpoint: EntityNumber, key: LaneKey) -> rusqlite::Result<bool> {
        let given_up = self.given_up(endpoint)?;
        self.connection
            .prepare_cached(&format!(
                "SELECT 1 FROM deliveries WHERE {PENDING} AND endpoint = ?1 AND lane = ?2 AND entity = ?3 AND d > ?4"
            ))?
            .exists(params![int(endpoint.0), key.lane, int(key.entity.0), given_up])
    }

    /// All that waits counts as failed at once; the rows follow behind.
    fn give_up(&mut self, given_up: GivenUp) -> rusqlite::Result<()> {
        let GivenUp {
            endpoint,
            up_to,
            gone,
        } = given_up;
        self.counters.write(self.connection)?;
        let n = int(endpoint.0);
        let pending = {
            let mut query = self.connection.prepare_cached(&format!(
                "SELECT {} FROM counters WHERE scope = ?1 AND field = ?2 AND status = ?3 AND total <> 0",
                KindTotal::COLUMNS
            ))?;
            let values = [n, Counted::Deliveries as i64, DeliveryState::Pending as i64];
            let rows = query.query_map(values, whole)?;
            rows.collect::<rusqlite::Result<Vec<KindTotal>>>()?
        };
        for KindTotal { value, total } in pending {
            self.count_one(endpoint, value, DeliveryState::Pending, -total);
            self.count_one(endpoint, value, DeliveryState::Failed, total);
        }
        self.connection
            .prepare_cached(&format!(
                "UPDATE deliveries SET state = ?2, due = NULL WHERE {PENDING} AND endpoint = ?1 AND lane < 0"
            ))?
            .execute([n, DeliveryState::Failed as i64])?;
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

    fn failing(&self, endpoint: EntityNumber, since: Option<Timestamp>) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO endpoints(n, failing_since, given_up, unsettled) VALUES (?1, ?2, 0, ?3)
                 ON CONFLICT DO UPDATE SET failing_since = excluded.failing_since",
            )?
            .execute(params![int(endpoint.0), optional_millis(since), SETTLED])?;
        Ok(())
    }

    fn replay(&self, change: &ReplayChange) -> rusqlite::Result<()> {
        match change {
            ReplayChange::Open(replay) => {
                let kinds: Vec<&str> = replay.kinds.iter().map(|kind| kind.word()).collect();
                insert!(self.connection, "INSERT INTO replays", {
                    lane: replay.lane,
                    endpoint: int(replay.endpoint.0),
                    scope: replay.tenant.number(),
                    next: int(replay.next.0),
                    last: replay.last.0,
                    since: optional_millis(replay.since),
                    until: optional_millis(replay.until),
                    kinds: kinds.join(" "),
                })?;
            }
            ReplayChange::Reached(lane, next) => {
                self.connection
                    .prepare_cached("UPDATE replays SET next = ?2 WHERE lane = ?1")?
                    .execute([*lane, int(next.0)])?;
            }
            ReplayChange::Done(lane) => {
                self.connection
                    .prepare_cached("DELETE FROM replays WHERE lane = ?1")?
                    .execute([lane])?;
            }
        }
        Ok(())
    }
}

columns! {
    /// How many deliveries of one kind of event there are.
    struct KindTotal {
        value: i64,
        total: i64,
    }
}

/// The kinds of events that a text names; none where it names something else.
pub(super) fn kinds(text: &str) -> Option<Vec<EventKind>> {
    text.split_ascii_whitespace()
        .map(EventKind::from_word)
        .collect()
}
