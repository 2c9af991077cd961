//! Whether an identifier names something. Rows are found by a number or a sequence, which is a part
//! of an identifier: here, and nowhere else, all its bits are compared, so that one with a changed
//! digit names nothing.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;

use super::codec::{self, int, uint};
use crate::store::StoredMessage;
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::MessageView;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, DocumentId, MessageId};
use colloquy_model::page::Cursor;

/// Whose this very thing is; none where there is no such thing.
pub(super) fn scope_of(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<Tenant>> {
    let sql = match subject.kind {
        Kind::Conversation => {
            "SELECT scope FROM conversations WHERE n = ?1 AND tail = ?2 AND ?3 = 5"
        }
        Kind::Document => "SELECT scope FROM documents WHERE n = ?1 AND tail = ?2 AND ?3 = 7",
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision => "SELECT scope FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3",
    };
    connection
        .prepare_cached(sql)?
        .query_row(
            params![int(subject.number), int(subject.tail), subject.kind as i64],
            |row| Ok(Tenant::from_number(row.get(0)?)),
        )
        .optional()
}

/// Whether this very thing is there for callers of this tenant.
pub(super) fn is_there(
    connection: &Connection,
    tenant: Tenant,
    subject: Subject,
) -> rusqlite::Result<bool> {
    Ok(scope_of(connection, subject)? == Some(tenant))
}

/// Whether this very user or key is of the document's account, or was a user before it was deleted.
pub(super) fn is_actor(
    connection: &Connection,
    document: Subject,
    actor: Subject,
) -> rusqlite::Result<bool> {
    let account = |tenant: Option<Tenant>| tenant.map(Tenant::account_number);
    if let Some(own) = account(scope_of(connection, actor)?) {
        return Ok(account(scope_of(connection, document)?) == Some(own));
    }
    let mut departed =
        connection.prepare_cached("SELECT 1 FROM departed WHERE n = ?1 AND tail = ?2")?;
    Ok(actor.kind == Kind::User && departed.exists([int(actor.number), int(actor.tail)])?)
}

/// Whether this very document is there, or was: its first event names it.
pub(super) fn was_document(
    connection: &Connection,
    tenant: Tenant,
    subject: Subject,
) -> rusqlite::Result<bool> {
    /// All that is to be known of it here.
    #[derive(Deserialize)]
    struct Named {
        id: DocumentId,
    }
    let first: Option<Option<Vec<u8>>> = connection
        .prepare_cached("SELECT payload FROM rows WHERE entity = ?1 AND seq = 1 AND scope = ?2 AND happened = ?3")?
        .query_row([int(subject.number), tenant.number(), EventKind::DocumentCreated as i64], |row| row.get(0))
        .optional()?;
    // Retention takes a first event away.
    let Some(first) = first.flatten() else {
        return Ok(false);
    };
    let place = || format!("entity {}: its first event", subject.number);
    let Named { id } =
        serde_json::from_slice(&first).map_err(|error| codec::damaged(place(), error))?;
    Ok((id.number(), id.tail()) == (subject.number, subject.tail))
}

/// This very message of this very conversation as it stands; one row of it is read, however often
/// it was edited.
pub(super) fn message(
    connection: &Connection,
    conversation: Subject,
    id: MessageId,
) -> rusqlite::Result<Option<StoredMessage>> {
    let Some(tenant) = scope_of(connection, conversation)? else {
        return Ok(None);
    };
    let found = connection
        .prepare_cached(
            "SELECT coalesce(e.seq, r.seq), coalesce(e.payload, r.payload),
               coalesce((SELECT max(number) FROM edits WHERE entity = ?1 AND original = ?2), 0)
             FROM rows r LEFT JOIN rows e ON e.pos = r.edit WHERE r.entity = ?1 AND r.seq = ?2 AND r.happened = 4",
        )?
        .query_row([int(conversation.number), int(id.sequence())], |row| {
            let now = text(row, 1).map_err(|error| codec::damaged(id, error))?;
            let (latest, edits) = (uint(row.get(0)?), uint(row.get(2)?));
            Ok(StoredMessage { tenant, sequence: id.sequence(), latest, edits, now })
        })
        .optional()?;
    Ok(found.filter(|found| found.now.message_id == id))
}

/// A text of a message that a column holds.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<MessageView> {
    serde_json::from_slice(row.get_ref(column)?.as_blob()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
    })
}

/// The sequence of the document's row that this very activity is.
pub(super) fn activity(
    connection: &Connection,
    document: Subject,
    at: Cursor,
) -> rusqlite::Result<Option<i64>> {
    let position = int(at.tail);
    let found: Option<(Option<i64>, i64)> = connection
        .prepare_cached("SELECT seq, at FROM rows WHERE pos = ?1 AND entity = ?2")?
        .query_row([position, int(document.number)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let meant = codec::id(int(at.number), int(at.tail));
    Ok(found
        .filter(|(_, at)| ActivityId::of_row(*at, position) == meant)
        .and_then(|(seq, _)| seq))
}
