//! What is tidied beside the deliveries that are written: rows of endpoints that were given up or are
//! no more, and deliveries that ended and are old. A bounded part goes with each slice.

use rusqlite::{Connection, OptionalExtension};

use super::codec::{Columns, PENDING, columns, whole};
use super::counters::{Counted, Counter, CounterMoves};
use crate::store::DeliveryState;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::time::Timestamp;

/// Rows that one slice gives up or takes away besides what it came for.
const TIDIED: usize = 128;

/// All rows of an endpoint say themselves what has become of them. The partial index
/// `endpoints_unsettled` is used where this code is written out.
pub(super) const SETTLED: i64 = 0;
/// An endpoint's rows that wait up to `given_up` still have to be ended.
pub(super) const TO_END: i64 = 1;
/// An endpoint is no more: its rows still have to go.
pub(super) const TO_GO: i64 = 2;

/// Where the search for old deliveries goes on.
#[derive(Debug, Default)]
pub(super) struct Tidying {
    behind: i64,
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

columns! {
    /// A delivery that may be old enough to be taken away.
    struct OldRow {
        d: i64,
        endpoint: EntityNumber,
        happened: i64,
        state: i64,
        at: Timestamp,
    }
}

columns! {
    /// An endpoint of which some rows do not say yet what has become of them.
    struct UnsettledRow {
        n: i64,
        given_up: i64,
        unsettled: i64,
    }
}

impl Tidying {
    /// Tidies a bounded part; true where more may be left. Deliveries that ended before `keep_from`
    /// are old.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        keep_from: Timestamp,
        counters: &mut CounterMoves,
    ) -> rusqlite::Result<bool> {
        let settles = settle_one(connection, counters)?;
        let prunes = self.prune(connection, keep_from, counters)?;
        Ok(settles || prunes)
    }

    /// Takes some deliveries away that ended and are old; true where more may be.
    fn prune(
        &mut self,
        connection: &Connection,
        keep_from: Timestamp,
        counters: &mut CounterMoves,
    ) -> rusqlite::Result<bool> {
        let limit = i64::try_from(TIDIED).unwrap_or(i64::MAX);
        let seen = {
            let mut query = connection.prepare_cached(&format!(
                "SELECT {} FROM deliveries WHERE d > ?1 ORDER BY d LIMIT ?2",
                OldRow::COLUMNS
            ))?;
            let old = query.query_map([self.behind, limit], whole)?;
            let old = old.take_while(|row: &rusqlite::Result<OldRow>| {
                row.as_ref().map_or(true, |row| row.at < keep_from)
            });
            old.collect::<rusqlite::Result<Vec<OldRow>>>()?
        };
        let mut delete = connection.prepare_cached("DELETE FROM deliveries WHERE d = ?1")?;
        for row in &seen {
            let state = DeliveryState::from_code(row.state);
            if let Some(state) = state.filter(|state| *state != DeliveryState::Pending) {
                delete.execute([row.d])?;
                let counter = Counter::of_delivery(row.endpoint, row.happened, state);
                counters.add(counter, -1);
            }
        }
        let more = seen.len() == TIDIED;
        self.behind = seen.last().filter(|_| more).map_or(0, |last| last.d);
        Ok(more)
    }
}

/// Some rows of one endpoint that was given up say so themselves, or go; true where any are left.
fn settle_one(connection: &Connection, counters: &mut CounterMoves) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT {} FROM endpoints WHERE unsettled <> {SETTLED} LIMIT 1",
        UnsettledRow::COLUMNS
    );
    let found = connection
        .prepare_cached(&sql)?
        .query_row([], whole::<UnsettledRow>)
        .optional()?;
    let Some(UnsettledRow {
        n,
        given_up,
        unsettled,
    }) = found
    else {
        return Ok(false);
    };
    let limit = i64::try_from(TIDIED).unwrap_or(i64::MAX);
    let tidied = if unsettled == TO_GO {
        connection
            .prepare_cached(
                "DELETE FROM deliveries WHERE d IN (SELECT d FROM deliveries WHERE endpoint = ?1 LIMIT ?2)",
            )?
            .execute([n, limit])?
    } else {
        connection
            .prepare_cached(&format!(
                "UPDATE deliveries SET state = ?4, due = NULL WHERE d IN
                 (SELECT d FROM deliveries WHERE {PENDING} AND endpoint = ?1 AND d <= ?2 AND lane >= 0 LIMIT ?3)"
            ))?
            .execute([n, given_up, limit, DeliveryState::Failed as i64])?
    };
    if tidied == TIDIED {
        return Ok(true);
    }
    if unsettled == TO_GO {
        counters.write(connection)?;
        connection
            .prepare_cached("DELETE FROM counters WHERE scope = ?1 AND field = ?2")?
            .execute([n, Counted::Deliveries as i64])?;
        connection
            .prepare_cached("DELETE FROM endpoints WHERE n = ?1")?
            .execute([n])?;
    } else {
        connection
            .prepare_cached("UPDATE endpoints SET unsettled = ?2 WHERE n = ?1")?
            .execute([n, SETTLED])?;
    }
    Ok(true)
}
