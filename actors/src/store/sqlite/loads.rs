//! Single things out of the file: entities for their actors, kept answers.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, RECORD, STATE, STATE_COLUMNS, TALLIES, int, uint};
use super::redacting::Veil;
use crate::store::{KeptRow, Stored, StoredConversation, StoredRecord};
use colloquy_model::answer::Done;
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::position::Position;

/// An entity as it is committed.
pub(super) fn load(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<Stored>> {
    match subject.kind {
        Kind::Conversation => {
            Ok(conversation(connection, subject)?
                .map(|stored| Stored::Conversation(Box::new(stored))))
        }
        Kind::Document => Ok(super::documents::load(connection, subject)?
            .map(|stored| Stored::Document(Box::new(stored)))),
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision => Ok(record(connection, subject)?.map(Stored::Record)),
    }
}

fn record(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<StoredRecord>> {
    let sql = format!("SELECT {RECORD} FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3");
    connection
        .prepare_cached(&sql)?
        .query_row(
            params![int(subject.number), int(subject.tail), subject.kind as i64],
            |row| codec::record(row, subject.kind),
        )
        .optional()
}

fn conversation(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<StoredConversation>> {
    let sql = format!(
        "SELECT {STATE}, scope, (SELECT name FROM records WHERE n = customer), (SELECT seq FROM records WHERE n = customer)
         FROM conversations WHERE n = ?1 AND tail = ?2"
    );
    let header = connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number), int(subject.tail)], |row| {
            let (tenant, name, revision): (i64, Option<Box<str>>, Option<i64>) = (
                row.get(STATE_COLUMNS)?,
                row.get(STATE_COLUMNS + 1)?,
                row.get(STATE_COLUMNS + 2)?,
            );
            Ok((
                codec::state(row)?,
                tenant,
                name.unwrap_or_default(),
                uint(revision.unwrap_or(0)),
            ))
        })
        .optional()?;
    let Some((state, tenant, name, revision)) = header else {
        return Ok(None);
    };
    codec::check_metadata(codec::id(int(subject.number), int(subject.tail)), &state)?;
    let sql =
        format!("SELECT seq, at, {TALLIES} FROM rows WHERE entity = ?1 ORDER BY seq DESC LIMIT 1");
    connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number)], |row| {
            Ok(Some(StoredConversation {
                tenant: Tenant::from_number(tenant),
                state,
                customer_name: (name, revision),
                sequence: uint(row.get(0)?),
                updated_at: row.get(1)?,
                tallies: codec::tallies(row, 2)?,
            }))
        })
}

/// The answer that was kept at this position, without what is hidden.
pub(super) fn kept(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<KeptRow>> {
    let mut query = connection.prepare_cached(
        "SELECT key, request, at, done, answer_id, etag, entity, happened, coalesce(answer, payload, x'') FROM rows
         WHERE pos = ?1 AND key IS NOT NULL",
    )?;
    let mut rows = query.query([position.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    // Never none: what is not kept is done again.
    let done = codec::word(
        &format!("position {position}: what a kept answer did"),
        row.get(3)?,
        Done::from_code,
    )?;
    let body = Veil::of(connection)?
        .shown(row.get(6)?, row.get(7)?, row.get(8)?)?
        .into();
    let (hash, at) = (row.get(0)?, row.get(2)?);
    let request = row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default();
    Ok(Some(KeptRow {
        hash,
        request,
        at,
        done,
        id: row.get(4)?,
        etag: row.get(5)?,
        body,
    }))
}
