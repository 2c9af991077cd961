//! Single things out of the file: entities for their actors, kept answers.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, Columns, CountsRow, RecordRow, StateRow, columns, int, whole};
use super::redacting::Veil;
use crate::store::{KeptRow, Stored, StoredConversation, StoredRecord};
use bytes::Bytes;
use colloquy_model::answer::Done;
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::ConversationState;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::ConversationId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// An entity as it is committed.
pub(super) fn load(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<Stored>> {
    match subject.kind {
        Kind::Conversation => {
            Ok(conversation(connection, subject)?
                .map(|stored| Stored::Conversation(Box::new(stored))))
        }
        Kind::Document => Ok(super::document_loads::load(connection, subject)?
            .map(|stored| Stored::Document(Box::new(stored)))),
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
        | Kind::Alerts => Ok(record(connection, subject)?.map(Stored::Record)),
    }
}

fn record(connection: &Connection, subject: Subject) -> rusqlite::Result<Option<StoredRecord>> {
    let sql = format!(
        "SELECT {} FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3",
        RecordRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_row(
            params![
                int(subject.number.0),
                int(subject.tail),
                subject.kind as i64
            ],
            |row| RecordRow::stored(row, subject.kind),
        )
        .optional()
}

columns! {
    /// What a conversation's header says beside its [`StateRow`], with its customer's name now.
    struct HeaderRow {
        scope: Tenant,
        name: Option<Box<str>> = "(SELECT name FROM records WHERE n = customer)",
        revision: Option<Sequence> = "(SELECT seq FROM records WHERE n = customer)",
    }
}

columns! {
    /// What a conversation's last row says beside its [`CountsRow`].
    struct LastRow {
        seq: Sequence,
        at: Timestamp,
    }
}

fn conversation(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<StoredConversation>> {
    let sql = format!(
        "SELECT {}, {} FROM conversations WHERE n = ?1 AND tail = ?2",
        StateRow::COLUMNS,
        HeaderRow::COLUMNS
    );
    let read = |row: &Row<'_>| -> rusqlite::Result<(ConversationState, HeaderRow)> {
        Ok((
            StateRow::state(row)?,
            HeaderRow::read_from(row, StateRow::COUNT)?,
        ))
    };
    let found = connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number.0), int(subject.tail)], read)
        .optional()?;
    let Some((state, header)) = found else {
        return Ok(None);
    };
    let id = ConversationId::from_parts(subject.number, subject.tail);
    codec::check_metadata(id, &state)?;
    let sql = format!(
        "SELECT {}, {} FROM rows WHERE entity = ?1 ORDER BY seq DESC LIMIT 1",
        LastRow::COLUMNS,
        CountsRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number.0)], |row| {
            let last = LastRow::read_from(row, 0)?;
            Ok(Some(StoredConversation {
                tenant: header.scope,
                state,
                customer_name: header.name.unwrap_or_default(),
                customer_revision: header.revision.unwrap_or_default(),
                sequence: last.seq,
                updated_at: last.at,
                counts: CountsRow::read_from(row, LastRow::COUNT)?.into(),
            }))
        })
}

columns! {
    /// An answer that is kept under an idempotency key, and the row that it stands in.
    struct KeptAnswerRow {
        key: [u8; 16],
        request: Option<Vec<u8>>,
        at: Timestamp,
        done: i64,
        answer_id: Option<String>,
        etag: Option<String>,
        entity: i64,
        happened: i64,
        body: Vec<u8> = "coalesce(answer, payload, x'')",
    }
}

/// The answer that was kept at this position, without what is hidden.
pub(super) fn kept(
    connection: &Connection,
    position: Position,
) -> rusqlite::Result<Option<KeptRow>> {
    let sql = format!(
        "SELECT {} FROM rows WHERE pos = ?1 AND key IS NOT NULL",
        KeptAnswerRow::COLUMNS
    );
    let found = connection
        .prepare_cached(&sql)?
        .query_row([position.0], whole::<KeptAnswerRow>)
        .optional()?;
    let Some(row) = found else {
        return Ok(None);
    };
    // Never none: what is not kept is done again.
    let done = Done::from_code(row.done).ok_or_else(|| {
        let place = format_args!("{position}: what a kept answer did");
        codec::damaged(
            place,
            format_args!("the code {} stands for nothing", row.done),
        )
    })?;
    let body: Bytes = Veil::of(connection)?
        .shown(row.entity, row.happened, row.body)?
        .into();
    Ok(Some(KeptRow {
        hash: row.key,
        request: row.request.unwrap_or_default(),
        at: row.at,
        done,
        id: row.answer_id,
        etag: row.etag,
        body,
    }))
}
