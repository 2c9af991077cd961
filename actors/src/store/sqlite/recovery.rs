//! What a start does before anything is served: headers that a crash left behind are folded, the
//! views are filled.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use super::batch::Counts;
use super::codec::{Columns, RecordRow, columns, only};
use super::file::OpenError;
use super::older_keys;
use super::slices::{self, Entry, EntryRow};
use super::trails;
use crate::store::RECOVERED;
use crate::store::{CommitSink, FirstStartMark, Operator};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::WebhookId;
use colloquy_model::key::secret_hash;
use colloquy_model::position::Position;
use colloquy_model::secret;
use colloquy_model::time::Timestamp;

/// Folds what lags and finds where the counts stand.
pub(super) fn recover(connection: &mut Connection) -> rusqlite::Result<Counts> {
    let folded: i64 =
        connection.query_row("SELECT value FROM meta WHERE key = 'folded'", [], only)?;
    let transaction = connection.transaction()?;
    transaction.execute(
        "UPDATE conversations SET (seq, messages, last_message_at, updated_at) =
           (SELECT seq, from_customer + from_agent + from_system, last_message_at, at FROM rows
            WHERE entity = conversations.n ORDER BY seq DESC LIMIT 1)
         WHERE n IN (SELECT entity FROM rows WHERE pos >= ?1 AND happened IN (?2, ?3))",
        [
            folded,
            EventKind::MessageCreated as i64,
            EventKind::MessageUpdated as i64,
        ],
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
                let last = LastNumber::read(row)?;
                let held = numbers.entry(last.scope).or_insert(0);
                *held = last.number.max(*held);
            }
            Ok(())
        };
        let columns = LastNumber::COLUMNS;
        collect(
            &format!("SELECT {columns} FROM scopes GROUP BY scope"),
            None,
        )?;
        collect(
            &format!(
                "SELECT {columns} FROM rows WHERE pos >= ?1 AND number IS NOT NULL GROUP BY scope"
            ),
            Some(folded),
        )?;
    }
    let last: Option<Position> = transaction.query_row("SELECT max(pos) FROM rows", [], only)?;
    // Where a dump was imported, its last positions may have no row.
    let next_pos = last.unwrap_or_default().next().max(Position(folded));
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
    let newest: Option<EntityNumber> =
        transaction.query_row("SELECT max(entity) FROM rows", [], only)?;
    colloquy_model::id::never_below(newest.unwrap_or(EntityNumber::ZERO));
    transaction.commit()?;
    feed(connection, next_pos)?;
    // A text redacted just before a crash may still stand in the log.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(Counts::new(next_pos, numbers))
}

columns! {
    /// The last number that was given in an account and mode.
    struct LastNumber {
        scope: i64,
        number: i64 = "max(number)",
    }
}

/// Positions that are taken into the feed by account in one transaction.
const FED_AT_ONCE: i64 = 50_000;

/// Writes what a crash left out of the feed by account and of the audit trails; all of it where the file comes from an
/// older version.
fn feed(connection: &mut Connection, next_pos: Position) -> rusqlite::Result<()> {
    let mut from: Position =
        connection.query_row("SELECT value FROM meta WHERE key = 'fed'", [], only)?;
    while from < next_pos {
        let to = Position(from.0.saturating_add(FED_AT_ONCE)).min(next_pos);
        let transaction = connection.transaction()?;
        for (tenant, (first, entries)) in unfed(&transaction, from, to)? {
            slices::append(&transaction, tenant, first, &entries)?;
        }
        trails::catch_up(&transaction, from, to)?;
        transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'fed'", [to.0])?;
        transaction.commit()?;
        from = to;
    }
    Ok(())
}

/// The events at these positions, by tenant, with the number of the first.
fn unfed(
    connection: &Connection,
    from: Position,
    to: Position,
) -> rusqlite::Result<HashMap<i64, (u64, Vec<Entry>)>> {
    let mut query = connection.prepare_cached(&format!(
        "SELECT {} FROM rows WHERE pos >= ?1 AND pos < ?2 AND number IS NOT NULL ORDER BY pos",
        EntryRow::COLUMNS
    ))?;
    let mut rows = query.query([from.0, to.0])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let row = EntryRow::read(row)?;
        let number = row.number.unwrap_or(0);
        found
            .entry(row.scope)
            .or_insert_with(|| (number, Vec::new()))
            .1
            .push(row.entry());
    }
    Ok(found)
}

columns! {
    /// When a key was used last, in Unix milliseconds.
    struct KeyUseRow {
        n: EntityNumber,
        at: Timestamp,
    }
}

columns! {
    /// A webhook endpoint, as the sink has to know it.
    struct EndpointRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
    }
}

/// Tells the sink what it has to know before anything is asked.
pub(super) fn tell(connection: &Connection, sink: &dyn CommitSink) -> Result<(), OpenError> {
    let mut uses = HashMap::new();
    let sql = format!("SELECT {} FROM key_uses", KeyUseRow::COLUMNS);
    let mut query = connection.prepare(&sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let used = KeyUseRow::read(row)?;
        uses.insert(used.n, used.at);
    }
    for kind in RECOVERED {
        let sql = format!("SELECT {} FROM records WHERE kind = ?1", RecordRow::COLUMNS);
        let mut query = connection.prepare(&sql)?;
        let mut rows = query.query([kind as i64])?;
        while let Some(row) = rows.next()? {
            let record = RecordRow::stored(row, kind)?;
            let used = uses
                .get(&record.subject.number)
                .copied()
                .unwrap_or(Timestamp::EPOCH);
            sink.recovered_record(&record, used)
                .map_err(|error| OpenError::Record(record.subject, error))?;
        }
    }
    tell_endpoints(connection, sink)?;
    Ok(older_keys::fill(connection, sink.keys(), Timestamp::now())?)
}

/// Tells the sink which webhook endpoints there are.
fn tell_endpoints(connection: &Connection, sink: &dyn CommitSink) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT {} FROM records WHERE kind = ?1",
        EndpointRow::COLUMNS
    );
    let mut query = connection.prepare(&sql)?;
    let mut rows = query.query([Kind::Webhook as i64])?;
    while let Some(row) = rows.next()? {
        let row = EndpointRow::read(row)?;
        sink.recovered_endpoint(WebhookId::from_parts(row.n, row.tail), row.scope);
    }
    Ok(())
}

/// How operators are known: by the token that is set, else by the one that the first start made.
pub(super) fn operator(
    connection: &Connection,
    first_start: &FirstStartMark,
    set: Option<&str>,
) -> rusqlite::Result<Operator> {
    if first_start.is_set() {
        // Nobody has seen its token.
        connection.execute("DELETE FROM operator", [])?;
    }
    if let Some(token) = set {
        return Ok(Operator {
            hash: secret_hash(token),
            fresh: None,
        });
    }
    let made = connection
        .query_row("SELECT hash FROM operator", [], only)
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
