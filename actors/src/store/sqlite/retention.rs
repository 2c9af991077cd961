//! Retention: events older than is set are no events any more. Each account's floor, the last
//! number that was taken away, moves up at once; what the rows below it need not hold is freed
//! later, a slice at a time. Rows stay, so that sequences and numbers have no gap.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::codec::{self, int, only};
use super::slices::{self, Entry, SLICE, Slice, first_of};
use crate::store::DeliveryState;
use colloquy_model::event_kind::EventKind;
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::time::Timestamp;

/// Between two looks at the floors where events are kept for no longer than this.
const LOOK_AT_LEAST: Duration = Duration::from_millis(500);
/// Tenants looked at in one turn of the writer.
const TENANTS_PER_TURN: usize = 64;
/// Slices that a floor passes in one turn.
const SLICES: usize = 64;
/// Rows that are freed in one turn: half a millisecond.
const ROWS_PER_TURN: usize = if cfg!(test) { 3 } else { 128 };

/// What rows need not hold when they are events no more: messages and their edits hold state, and
/// events of documents tell a search index that lags what has changed.
pub(super) const FREED: [EventKind; 3] = [
    EventKind::ConversationCreated,
    EventKind::ConversationUpdated,
    EventKind::ConversationClosed,
];

/// How far retention has come, and when it looks again.
#[derive(Debug)]
pub(super) struct Retention {
    kept: Option<Duration>,
    every: Duration,
    next_at: Instant,
    /// While it looks: the last tenant that was looked at.
    behind: Option<i64>,
    /// The slice whose rows are being freed.
    freeing: Option<Freeing>,
}

/// How far a slice's rows are freed. After a restart they are freed once more, which changes nothing.
#[derive(Debug, Clone, Copy)]
struct Freeing {
    tenant: i64,
    first: u64,
    /// How many of the slice's rows are freed.
    rows: usize,
}

impl Retention {
    /// Begins with the first turn, and looks again after `every` or sooner; without a duration
    /// events are kept for ever.
    pub(super) fn new(kept: Option<Duration>, every: Duration) -> Self {
        Retention {
            kept,
            every,
            next_at: Instant::now(),
            behind: None,
            freeing: None,
        }
    }

    /// How long an event may wait for its slice: the floor passes only what is written.
    pub(super) fn patience(&self) -> Duration {
        self.kept.map_or(Duration::MAX, |kept| {
            (kept / 4).max(LOOK_AT_LEAST).min(self.every)
        })
    }

    /// One turn; whether there was anything to do.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        let Some(kept) = self.kept else {
            return Ok(false);
        };
        if self.behind.is_none() && self.next_at > Instant::now() {
            return Ok(false);
        }
        let until = now - kept;
        for _ in 0..TENANTS_PER_TURN {
            let behind = self.behind.unwrap_or(i64::MIN);
            let Some(tenant) = next_scope(connection, behind)? else {
                self.behind = None;
                self.next_at = Instant::now() + self.patience();
                return Ok(true);
            };
            let trimmed = match self.trim(connection, tenant, until, now) {
                // Told where it was found. The floors of other accounts move on, and so does what
                // comes behind this.
                Err(error) if connection.is_autocommit() && codec::unreadable(&error).is_some() => {
                    false
                }
                trimmed => trimmed?,
            };
            if trimmed {
                self.behind = Some(tenant.saturating_sub(1));
                return Ok(true);
            }
            self.behind = Some(tenant);
        }
        Ok(true)
    }

    /// Moves the floor over what is older than `until` and frees some rows of a slice below it, which goes with
    /// the last of them; whether there was anything to do.
    fn trim(
        &mut self,
        connection: &Connection,
        tenant: i64,
        until: Timestamp,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        let before = slices::floor(connection, tenant)?;
        let floor = reached(connection, tenant, before, until)?;
        // An answer that is kept may be the payload of its row.
        let free_until = until.min(now - KEPT_FOR);
        let free = |slice: &Slice| {
            slice.first < first_of(floor) && slice.entries.iter().all(|entry| entry.at < free_until)
        };
        let freed = slices::oldest(connection, tenant, 0)?.filter(free);
        if floor == before && freed.is_none() {
            return Ok(false);
        }
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection
            .prepare_cached(
                "INSERT INTO scopes(scope, number, floor) VALUES (?1, ?2, ?2)
             ON CONFLICT DO UPDATE SET floor = excluded.floor",
            )?
            .execute([tenant, int(floor)])?;
        let freeing = freed
            .map(|slice| self.free(connection, tenant, &slice))
            .transpose()?;
        connection.execute_batch("COMMIT")?;
        self.freeing = freeing.flatten();
        Ok(true)
    }

    /// Frees the next rows of a slice; how far that has come, none where it was all of them.
    fn free(
        &self,
        connection: &Connection,
        tenant: i64,
        slice: &Slice,
    ) -> rusqlite::Result<Option<Freeing>> {
        let before = self
            .freeing
            .filter(|freeing| (freeing.tenant, freeing.first) == (tenant, slice.first));
        let from = before.map_or(0, |freeing| freeing.rows);
        let to = from + ROWS_PER_TURN;
        free_rows(
            connection,
            slice.entries.iter().skip(from).take(ROWS_PER_TURN),
        )?;
        if to < slice.entries.len() {
            return Ok(Some(Freeing {
                tenant,
                first: slice.first,
                rows: to,
            }));
        }
        slices::delete(connection, tenant, slice)?;
        Ok(None)
    }
}

fn next_scope(connection: &Connection, behind: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT scope FROM feed WHERE scope > ?1 AND scope % 4 <> 0 ORDER BY scope LIMIT 1",
        )?
        .query_row([behind], only)
        .optional()
}

/// How far the floor gets: up to the first event that is not older.
fn reached(
    connection: &Connection,
    tenant: i64,
    mut floor: u64,
    until: Timestamp,
) -> rusqlite::Result<u64> {
    for _ in 0..SLICES {
        let Some(slice) = slices::read(connection, tenant, first_of(floor + 1))? else {
            break;
        };
        let behind = slice.numbered().skip_while(|(number, _)| *number <= floor);
        let Some((last, _)) = behind.take_while(|(_, entry)| entry.at < until).last() else {
            break;
        };
        floor = last;
        if floor < slice.first + SLICE - 1 {
            break;
        }
    }
    Ok(floor)
}

/// Messages and their edits hold state and stay, and so does what an entity ends with, and what is
/// still to be delivered. Events of documents stay too: a search index that lags, put back from a
/// copy perhaps, learns from them what has changed.
fn free_rows<'e>(
    connection: &Connection,
    entries: impl Iterator<Item = &'e Entry>,
) -> rusqlite::Result<()> {
    let mut free = connection.prepare_cached(
        "UPDATE rows SET payload = NULL, salt = NULL WHERE pos = ?1 AND happened IN (?2, ?3, ?4)
         AND seq < (SELECT max(seq) FROM rows AS own WHERE own.entity = rows.entity)
         AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.pos = rows.pos AND deliveries.state = ?5)",
    )?;
    let [created, updated, closed] = FREED.map(|kind| kind as i64);
    let pending = DeliveryState::Pending as i64;
    for entry in entries {
        free.execute([entry.pos.0, created, updated, closed, pending])?;
    }
    Ok(())
}
