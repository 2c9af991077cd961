//! What a start does before anything is served: headers that a crash left behind are folded, the
//! views are filled.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use super::batch::Counts;
use super::codec::{self, RECORD, uint};
use super::slices::{self, Entry};
use super::{OpenError, Operator, older_keys};
use crate::store::CommitSink;
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Kind;
use colloquy_model::key::secret_hash;
use colloquy_model::position::Position;
use colloquy_model::secret;
use colloquy_model::time::Timestamp;

/// Folds what lags and finds where the counts stand.
pub(super) fn recover(connection: &mut Connection) -> rusqlite::Result<Counts> {
    let folded: i64 =
        connection.query_row("SELECT value FROM meta WHERE key = 'folded'", [], |row| {
            row.get(0)
        })?;
    let transaction = connection.transaction()?;
    transaction.execute(
        "UPDATE conversations SET (seq, messages, last_message_at, updated_at) =
           (SELECT seq, from_customer + from_agent + from_system, last_message_at, at FROM rows
            WHERE entity = conversations.n ORDER BY seq DESC LIMIT 1)
         WHERE n IN (SELECT entity FROM rows WHERE pos >= ?1 AND happened IN (4, 5))",
        [folded],
    )?;
    let mut numbers = HashMap::new();
    {
        let mut collect = |sql: &str, from: Option<i64>| -> rusqlite::Result<()> {
            let mut query = transaction.prepare(sql)?;
            let mut rows = match from {
                Some(from) => query.query([from])?,
                None => query.query([])?,
            };
            while let Some(row) = rows.next()? {
                let (tenant, number): (i64, i64) = (row.get(0)?, row.get(1)?);
                let held = numbers.entry(tenant).or_insert(0);
                *held = number.max(*held);
            }
            Ok(())
        };
        collect("SELECT scope, number FROM scopes", None)?;
        collect(
            "SELECT scope, max(number) FROM rows WHERE pos >= ?1 AND number IS NOT NULL GROUP BY scope",
            Some(folded),
        )?;
    }
    let last: Option<i64> =
        transaction.query_row("SELECT max(pos) FROM rows", [], |row| row.get(0))?;
    let next_pos = Position(last.unwrap_or(0)).next();
    transaction.execute(
        "UPDATE meta SET value = ?1 WHERE key = 'folded'",
        [next_pos.0],
    )?;
    for (tenant, number) in &numbers {
        transaction.execute(
            "INSERT INTO scopes(scope, number) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET number = excluded.number",
            [tenant, number],
        )?;
    }
    let newest: Option<i64> =
        transaction.query_row("SELECT max(entity) FROM rows", [], |row| row.get(0))?;
    colloquy_model::id::never_below(uint(newest.unwrap_or(0)));
    transaction.commit()?;
    feed(connection, next_pos)?;
    // A text redacted just before a crash may still stand in the log.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(Counts::new(next_pos, numbers))
}

/// Positions that are taken into the feed by account in one transaction.
const FED_AT_ONCE: i64 = 50_000;

/// Writes what a crash left out of the feed by account; all of it where the file comes from an
/// older version.
fn feed(connection: &mut Connection, next_pos: Position) -> rusqlite::Result<()> {
    let mut from = connection.query_row("SELECT value FROM meta WHERE key = 'fed'", [], |row| {
        row.get(0).map(Position)
    })?;
    while from < next_pos {
        let to = Position(from.0.saturating_add(FED_AT_ONCE)).min(next_pos);
        let transaction = connection.transaction()?;
        for (tenant, (first, entries)) in unfed(&transaction, from, to)? {
            slices::append(&transaction, tenant, first, &entries)?;
        }
        transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'fed'", [to.0])?;
        transaction.commit()?;
        from = to;
    }
    Ok(())
}

/// The events at these positions, by scope, with the number of the first.
fn unfed(
    connection: &Connection,
    from: Position,
    to: Position,
) -> rusqlite::Result<HashMap<i64, (u64, Vec<Entry>)>> {
    let mut query = connection.prepare_cached(
        "SELECT scope, number, pos, at, assignee, happened, channel FROM rows
         WHERE pos >= ?1 AND pos < ?2 AND number IS NOT NULL ORDER BY pos",
    )?;
    let mut rows = query.query([from.0, to.0])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let (tenant, number, assignee): (i64, i64, Option<i64>) =
            (row.get(0)?, row.get(1)?, row.get(4)?);
        let entry = Entry {
            pos: Position(row.get(2)?),
            at: row.get(3)?,
            assignee: uint(assignee.unwrap_or(0)),
            happened: row.get(5)?,
            channel: slices::channel_code(row.get(6)?),
        };
        found
            .entry(tenant)
            .or_insert_with(|| (uint(number), Vec::new()))
            .1
            .push(entry);
    }
    Ok(found)
}

/// Tells the sink what it has to know before anything is asked.
pub(super) fn tell(connection: &Connection, sink: &dyn CommitSink) -> Result<(), OpenError> {
    let mut uses = HashMap::new();
    let mut query = connection.prepare("SELECT n, at FROM key_uses")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        uses.insert(row.get::<_, i64>(0)?, row.get::<_, i64>(1)?);
    }
    for kind in [Kind::Account, Kind::Key, Kind::User, Kind::Supervision] {
        let mut query =
            connection.prepare(&format!("SELECT {RECORD} FROM records WHERE kind = ?1"))?;
        let mut rows = query.query([kind as i64])?;
        while let Some(row) = rows.next()? {
            let record = codec::record(row, kind)?;
            let used = uses
                .get(&codec::int(record.subject.number))
                .copied()
                .unwrap_or(0);
            sink.recovered_record(&record, used)
                .map_err(|error| OpenError::Record(record.subject, error))?;
        }
    }
    tell_endpoints(connection, sink)?;
    Ok(older_keys::fill(connection, sink.keys(), Timestamp::now())?)
}

/// Tells the sink which webhook endpoints there are.
fn tell_endpoints(connection: &Connection, sink: &dyn CommitSink) -> rusqlite::Result<()> {
    let mut query = connection.prepare("SELECT n, tail, scope FROM records WHERE kind = ?1")?;
    let mut rows = query.query([Kind::Webhook as i64])?;
    while let Some(row) = rows.next()? {
        let id = codec::id(row.get(0)?, row.get(1)?);
        sink.recovered_endpoint(id, Tenant::from_number(row.get(2)?));
    }
    Ok(())
}

/// How operators are known: by the token that is set, else by the one that the first start made.
pub(super) fn operator(connection: &Connection, set: Option<&str>) -> rusqlite::Result<Operator> {
    if let Some(token) = set {
        return Ok(Operator {
            hash: secret_hash(token),
            fresh: None,
        });
    }
    let made = connection
        .query_row("SELECT hash FROM operator", [], |row| row.get(0))
        .optional()?;
    if let Some(hash) = made {
        return Ok(Operator { hash, fresh: None });
    }
    let token = secret::generate("op_");
    let hash = secret_hash(&token);
    connection.execute("INSERT INTO operator(hash) VALUES (?1)", [hash])?;
    Ok(Operator {
        hash,
        fresh: Some(token),
    })
}
