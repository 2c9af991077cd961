//! Whether an identifier names something. Rows are found by a number or a sequence, which is a part
//! of an identifier: here, and nowhere else, all its bits are compared, so that one with a changed
//! digit names nothing.

use rusqlite::{Connection, OptionalExtension, Row};
use serde::Deserialize;

use super::codec::{self, Columns, columns, int, only, whole};
use crate::sealing::texts;
use crate::store::StoredMessage;
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::MessageView;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ActivityId, DocumentId, MessageId};
use colloquy_model::page::Cursor;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Whose this very thing is; none where there is no such thing.
pub(super) fn scope_of(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<Tenant>> {
    let (n, tail) = (int(subject.number.0), int(subject.tail));
    let found = match subject.kind {
        Kind::Conversation => connection
            .prepare_cached("SELECT scope FROM conversations WHERE n = ?1 AND tail = ?2")?
            .query_row([n, tail], only),
        Kind::Document => connection
            .prepare_cached("SELECT scope FROM documents WHERE n = ?1 AND tail = ?2")?
            .query_row([n, tail], only),
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision
        | Kind::Audit
        | Kind::Client
        | Kind::Attachment
        | Kind::Erasure
        | Kind::Grant
        | Kind::SigningKeys
        | Kind::Alerts => connection
            .prepare_cached("SELECT scope FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3")?
            .query_row([n, tail, subject.kind as i64], only),
    };
    found.optional()
}

/// The small number of this very account.
pub(super) fn account_number(
    connection: &Connection,
    account: Subject,
) -> rusqlite::Result<Option<u32>> {
    let values = [int(account.number.0), int(account.tail)];
    connection
        .prepare_cached(
            "SELECT json_extract(body, '$.number') FROM records WHERE n = ?1 AND tail = ?2",
        )?
        .query_row(values, only)
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

/// Whether this very conversation is there for callers of this tenant, or was.
pub(super) fn was_conversation(
    connection: &Connection,
    tenant: Tenant,
    subject: Subject,
) -> rusqlite::Result<bool> {
    if is_there(connection, tenant, subject)? {
        return Ok(true);
    }
    let sql = "SELECT 1 FROM departed d JOIN rows r ON r.entity = d.n AND r.seq = 1
               WHERE d.n = ?1 AND d.tail = ?2 AND r.scope = ?3 AND r.happened = ?4";
    connection.prepare_cached(sql)?.exists([
        int(subject.number.0),
        int(subject.tail),
        tenant.number(),
        EventKind::ConversationCreated as i64,
    ])
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
    Ok(actor.kind == Kind::User && departed.exists([int(actor.number.0), int(actor.tail)])?)
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
        .query_row([int(subject.number.0), tenant.number(), EventKind::DocumentCreated as i64], only)
        .optional()?;
    // Retention takes a first event away.
    let Some(first) = first.flatten() else {
        return Ok(false);
    };
    let place = || format!("entity {}: its first event", subject.number);
    let first = texts::opened(&first).map_err(|error| codec::damaged(place(), error))?;
    let Named { id } =
        serde_json::from_slice(&first).map_err(|error| codec::damaged(place(), error))?;
    Ok((id.number(), id.tail()) == (subject.number, subject.tail))
}

columns! {
    /// A message as it stands: ?1 is its conversation, ?2 its sequence there.
    struct MessageRow<'r> {
        /// The sequence of the row that it stands in.
        latest: Sequence = "coalesce(e.seq, r.seq)",
        payload: &'r [u8] = "coalesce(e.payload, r.payload)",
        edits: u64 = "coalesce((SELECT max(number) FROM edits WHERE entity = ?1 AND original = ?2), 0)",
    }
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
    let sql = format!(
        "SELECT {} FROM rows r LEFT JOIN rows e ON e.pos = r.edit
         WHERE r.entity = ?1 AND r.seq = ?2 AND r.happened = ?3",
        MessageRow::COLUMNS
    );
    let values = [
        int(conversation.number.0),
        int(id.sequence().0),
        EventKind::MessageCreated as i64,
    ];
    let read = |row: &Row<'_>| {
        let row = MessageRow::read(row)?;
        Ok(StoredMessage {
            tenant,
            sequence: id.sequence(),
            latest: row.latest,
            edits: row.edits,
            now: text(row.payload).map_err(|error| codec::damaged(id, error))?,
        })
    };
    let found = connection
        .prepare_cached(&sql)?
        .query_row(values, read)
        .optional()?;
    Ok(found.filter(|found| found.now.message_id == id))
}

/// A text of a message, as its row holds it in JSON.
pub(super) fn text(payload: &[u8]) -> rusqlite::Result<MessageView> {
    let damaged = |error: &dyn std::fmt::Display| codec::damaged("a message's text", error);
    let text = texts::opened(payload).map_err(|error| damaged(&error))?;
    serde_json::from_slice(&text).map_err(|error| damaged(&error))
}

columns! {
    /// Where an activity of a document stands.
    struct ActivityPlace {
        seq: Option<i64>,
        at: Timestamp,
    }
}

/// The sequence of the document's row that this very activity is.
pub(super) fn activity(
    connection: &Connection,
    document: Subject,
    at: Cursor,
) -> rusqlite::Result<Option<i64>> {
    let position = int(at.tail);
    let sql = format!(
        "SELECT {} FROM rows WHERE pos = ?1 AND entity = ?2",
        ActivityPlace::COLUMNS
    );
    let found = connection
        .prepare_cached(&sql)?
        .query_row([position, int(document.number.0)], whole::<ActivityPlace>)
        .optional()?;
    let meant = ActivityId::from_parts(at.number, at.tail);
    Ok(found
        .filter(|found| ActivityId::of_row(found.at, position) == meant)
        .and_then(|found| found.seq))
}
