//! Single things out of the file: entities for their actors, messages with their texts, kept answers.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, RECORD, STATE, STATE_COLUMNS, TALLIES, int, uint};
use crate::answer::Done;
use crate::caller::Scope;
use crate::store::{KeptRow, Kind, Stored, StoredConversation, StoredMessage, StoredRecord, Subject};

/// An entity as it is committed.
pub(super) fn load(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<Stored>> {
    match subject.kind {
        Kind::Conversation => {
            Ok(conversation(connection, subject)?.map(|stored| Stored::Conversation(Box::new(stored))))
        }
        Kind::Account | Kind::Key | Kind::User | Kind::Customer | Kind::Webhook => {
            Ok(record(connection, subject)?.map(Stored::Record))
        }
    }
}

fn record(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<StoredRecord>> {
    let sql = format!("SELECT {RECORD} FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3");
    connection
        .prepare_cached(&sql)?
        .query_row(params![int(subject.number), int(subject.tail), subject.kind as i64], |row| {
            codec::record(row, subject.kind)
        })
        .optional()
}

fn conversation(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<StoredConversation>> {
    let sql = format!(
        "SELECT {STATE}, scope, (SELECT name FROM records WHERE n = customer), (SELECT seq FROM records WHERE n = customer)
         FROM conversations WHERE n = ?1 AND tail = ?2"
    );
    let header = connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number), int(subject.tail)], |row| {
            let (scope, name, revision): (i64, Option<Box<str>>, Option<i64>) =
                (row.get(STATE_COLUMNS)?, row.get(STATE_COLUMNS + 1)?, row.get(STATE_COLUMNS + 2)?);
            Ok((codec::state(row)?, scope, name.unwrap_or_default(), uint(revision.unwrap_or(0))))
        })
        .optional()?;
    let Some((state, scope, name, revision)) = header else { return Ok(None) };
    let sql = format!("SELECT seq, at, {TALLIES} FROM rows WHERE entity = ?1 ORDER BY seq DESC LIMIT 1");
    connection.prepare_cached(&sql)?.query_row([int(subject.number)], |row| {
        Ok(Some(StoredConversation {
            scope: Scope::from_number(scope),
            state,
            customer_name: (name, revision),
            sequence: uint(row.get(0)?),
            updated_at: row.get(1)?,
            tallies: codec::tallies(row, 2)?,
        }))
    })
}

/// A message and its edits, oldest first.
pub(super) fn message(
    connection: &Connection,
    conversation: Subject,
    sequence: u64,
) -> rusqlite::Result<Option<StoredMessage>> {
    type Text = (Option<i64>, u64, i64, Bytes, i64);
    let text = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Text> {
        Ok((row.get(0)?, uint(row.get(1)?), row.get(2)?, row.get::<_, Vec<u8>>(3)?.into(), row.get(4)?))
    };
    let first = connection
        .prepare_cached(
            "SELECT edit, seq, at, payload, scope FROM rows WHERE entity = ?1 AND seq = ?2 AND happened = 4",
        )?
        .query_row([int(conversation.number), int(sequence)], text)
        .optional()?;
    let Some((latest, seq, at, payload, scope)) = first else { return Ok(None) };
    let mut edits = Vec::new();
    let mut next = latest;
    while let Some(pos) = next {
        let (before, seq, at, payload, _) = connection
            .prepare_cached("SELECT edit, seq, at, payload, scope FROM rows WHERE pos = ?1")?
            .query_row([pos], text)?;
        edits.push((seq, at, payload));
        next = before;
    }
    edits.push((seq, at, payload));
    edits.reverse();
    Ok(Some(StoredMessage { scope: Scope::from_number(scope), texts: edits }))
}

/// The answer that was kept at this position.
pub(super) fn kept(connection: &Connection, position: i64) -> rusqlite::Result<Option<KeptRow>> {
    let found = connection
        .prepare_cached("SELECT key, request, at, done, answer_id, etag, coalesce(answer, payload, x'') FROM rows WHERE pos = ?1 AND key IS NOT NULL")?
        .query_row([position], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, i64>(3)?, row.get(4)?, row.get(5)?, row.get::<_, Vec<u8>>(6)?))
        })
        .optional()?;
    Ok(found.and_then(|(hash, request, at, done, id, etag, body)| {
        Some(KeptRow { hash, request, at, done: Done::from_code(done)?, id, etag, body: body.into() })
    }))
}
