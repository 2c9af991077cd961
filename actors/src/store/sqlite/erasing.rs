//! Texts of what is gone for good leave the file in slices: parts of frames whose version is gone or
//! never came, a document's versions and comments, then what events and kept answers show of it, or of
//! a conversation, a customer or an attachment. The events stay, with their places and without words:
//! the sink says what may stay. What is done waits in its table until the log has lost the texts, too.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, Columns, columns, int, only, uint, whole};
use super::schema::MIGRATIONS;
use super::{delivery_logs, frame_parts};
use crate::store::CommitSink;
use colloquy_model::commit::NameField;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::AttachmentId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// Rows of one table that are erased at once, however small they are.
const ROWS_AT_ONCE: i64 = 1_024;
/// What erasing a row costs beside its text, in bytes of text.
const ROW_BYTES: usize = 1 << 10;

/// Up to here are the rows of an entity erased of which pages may still hold something, and the log.
const ERASED: i64 = i64::MAX - 1;
/// The same from when the pages are scrubbed: once they are, only the log may hold anything.
const SCRUBBED: i64 = i64::MAX;

columns! {
    /// An entity that is gone: what its rows say is erased up to this position.
    struct Erasure {
        /// Its number, whatever kind of entity it is.
        document: i64,
        erased_to: i64,
    }
}

columns! {
    /// A row of what is gone, with all that people may have written in it.
    struct TextsRow<'r> {
        pos: Position,
        seq: Option<Sequence>,
        payload: Option<&'r [u8]>,
        answer: Option<&'r [u8]>,
    }
}

/// Has all texts of an entity erased that the running transaction takes away.
pub(super) fn note(connection: &Connection, entity: EntityNumber) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO erasures(document, erased_to) VALUES (?1, 0)")?
        .execute([int(entity.0)])?;
    Ok(())
}

/// Erases texts of what is gone, about so many bytes of them; whether any may be left.
pub(super) fn slice(
    connection: &Connection,
    sink: &dyn CommitSink,
    bytes: usize,
) -> rusqlite::Result<bool> {
    let mut room = bytes;
    let sql = format!(
        "SELECT {} FROM erasures WHERE erased_to < {ERASED} LIMIT 1",
        Erasure::COLUMNS
    );
    while room > 0 {
        if frame_parts::delete_given_up(connection, &mut room)? {
            continue;
        }
        let gone = connection
            .prepare_cached(&sql)?
            .query_row([], whole::<Erasure>)
            .optional()?;
        let Some(erasure) = gone else {
            return Ok(false);
        };
        step(connection, sink, &erasure, &mut room)?;
        room = room.saturating_sub(ROW_BYTES);
    }
    Ok(true)
}

/// Goes on with what is gone, as far as there is room.
fn step(
    connection: &Connection,
    sink: &dyn CommitSink,
    erasure: &Erasure,
    room: &mut usize,
) -> rusqlite::Result<()> {
    for texts in [Texts::Versions, Texts::Comments] {
        if delete(connection, texts, erasure.document, room)? {
            return Ok(());
        }
    }
    let erased_to = erase_events(connection, sink, erasure, room)?;
    connection
        .prepare_cached("UPDATE erasures SET erased_to = ?2 WHERE document = ?1")?
        .execute([erasure.document, erased_to.unwrap_or(ERASED)])?;
    Ok(())
}

/// The pages are scrubbed from now on of everything whose rows are erased.
pub(super) fn begin_scrubbing(connection: &Connection) -> rusqlite::Result<()> {
    moved(connection, ERASED, SCRUBBED)
}

/// Whoever scrubbed the pages has ended before its time.
pub(super) fn scrubbing_was_cut_short(connection: &Connection) -> rusqlite::Result<()> {
    moved(connection, SCRUBBED, ERASED)
}

fn moved(connection: &Connection, from: i64, to: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE erasures SET erased_to = ?2 WHERE erased_to = ?1")?
        .execute([from, to])
        .map(drop)
}

/// Whether anything was erased of which, once the pages are scrubbed, only the log may hold something.
pub(super) fn is_any_being_scrubbed(connection: &Connection) -> rusqlite::Result<bool> {
    let mut find = connection.prepare_cached("SELECT 1 FROM erasures WHERE erased_to = ?1")?;
    find.exists([SCRUBBED])
}

/// The pages are scrubbed, and the log is empty behind that: nothing is left of what was erased.
pub(super) fn log_is_empty(connection: &Connection) -> rusqlite::Result<()> {
    if is_any_being_scrubbed(connection)? {
        connection
            .prepare_cached("DELETE FROM erasures WHERE erased_to = ?1")?
            .execute([SCRUBBED])?;
    }
    Ok(())
}

/// Notes, at the end of the store, that all of its pages are scrubbed.
pub(super) fn note_all_scrubbed(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT OR REPLACE INTO meta(key, value) VALUES ('scrubbed', ?1)",
            [schema_version()],
        )
        .map(drop)
}

/// Whether all pages of a file are scrubbed that is opened and not brought to this version yet. From now on
/// nothing says so: it is going to be changed.
pub(super) fn are_all_scrubbed(connection: &Connection) -> rusqlite::Result<bool> {
    let version: i64 = connection.pragma_query_value(None, "user_version", only)?;
    if version != schema_version() {
        // A new file, or one in which moving to this version leaves more.
        let pages: i64 = connection.pragma_query_value(None, "page_count", only)?;
        return Ok(pages == 0);
    }
    let sql = "DELETE FROM meta WHERE key = 'scrubbed' RETURNING value";
    let noted: Option<i64> = connection.query_row(sql, [], only).optional()?;
    // Another version may have changed it since.
    Ok(noted == Some(version))
}

fn schema_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Those of these entities of which the file or its log may still hold a text.
pub(super) fn left(
    connection: &Connection,
    entities: &[EntityNumber],
) -> rusqlite::Result<Vec<EntityNumber>> {
    let mut find = connection.prepare_cached("SELECT 1 FROM erasures WHERE document = ?1")?;
    let mut left = Vec::new();
    for entity in entities {
        if find.exists([int(entity.0)])? {
            left.push(*entity);
        }
    }
    Ok(left)
}

/// By how many bytes an entity's rows have changed the texts of its account.
pub(super) fn text_bytes(connection: &Connection, entity: EntityNumber) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT ifnull(sum(text_bytes), 0) FROM rows WHERE entity = ?1")?
        .query_row([int(entity.0)], only)
}

/// The attachments that a conversation has taken.
pub(super) fn attachments(
    connection: &Connection,
    conversation: EntityNumber,
) -> rusqlite::Result<Vec<AttachmentId>> {
    let taken = NameField::TakenAttachment as i64;
    let mut find =
        connection.prepare_cached("SELECT value FROM names WHERE n = ?1 AND field = ?2")?;
    let found = find.query_map([int(conversation.0), taken], only::<String>)?;
    let read = |id: rusqlite::Result<String>| {
        let id = id?;
        let unreadable = |error| codec::damaged(format_args!("the attachment {id}"), error);
        id.parse().map_err(unreadable)
    };
    found.map(read).collect()
}

/// The tables that hold texts of a document by number.
#[derive(Debug, Clone, Copy)]
enum Texts {
    Versions,
    Comments,
}

columns! {
    /// A row of [`Texts`], and how long its text is.
    struct TextLength {
        number: i64,
        bytes: usize = "length(text)",
    }
}

/// Deletes the document's first rows of a table; whether there were any.
fn delete(
    connection: &Connection,
    texts: Texts,
    n: i64,
    room: &mut usize,
) -> rusqlite::Result<bool> {
    let (table, text) = match texts {
        Texts::Versions => ("versions", "frame"),
        Texts::Comments => ("comments", "body"),
    };
    let sql = format!(
        "SELECT {} FROM (SELECT document, number, {text} AS text FROM {table})
         WHERE document = ?1 ORDER BY number LIMIT ?2",
        TextLength::COLUMNS
    );
    let mut find = connection.prepare_cached(&sql)?;
    let mut found = find.query([n, ROWS_AT_ONCE])?;
    let mut last: Option<i64> = None;
    while *room > 0
        && let Some(row) = found.next()?
    {
        let row = TextLength::read(row)?;
        last = Some(row.number);
        *room = room.saturating_sub(ROW_BYTES + row.bytes);
    }
    let Some(last) = last else { return Ok(false) };
    if matches!(texts, Texts::Versions) {
        frame_parts::give_up_to(connection, n, last)?;
    }
    let sql = format!("DELETE FROM {table} WHERE document = ?1 AND number <= ?2");
    connection.prepare_cached(&sql)?.execute([n, last])?;
    Ok(true)
}

/// Takes the words out of the entity's next rows; gives the last one's position, none where none
/// was left.
fn erase_events(
    connection: &Connection,
    sink: &dyn CommitSink,
    erasure: &Erasure,
    room: &mut usize,
) -> rusqlite::Result<Option<i64>> {
    let n = erasure.document;
    let mut find = connection.prepare_cached(&format!(
        "SELECT {} FROM rows WHERE entity = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3",
        TextsRow::COLUMNS
    ))?;
    let mut update = connection.prepare_cached(
        "UPDATE rows SET payload = ?2, answer = ?3, salt = NULL, request = substr(request, 17) WHERE pos = ?1",
    )?;
    let mut found = find.query([n, erasure.erased_to, ROWS_AT_ONCE])?;
    let mut last = None;
    while *room > 0
        && let Some(row) = found.next()?
    {
        let row = TextsRow::read(row)?;
        let texts = [row.payload, row.answer];
        let held: usize = texts.iter().flatten().map(|text| text.len()).sum();
        let [payload, answer] = texts.map(|text| text.map(|text| sink.redacted(text)));
        update.execute(params![row.pos.0, payload, answer])?;
        if let Some(seq) = row.seq {
            delivery_logs::erase_answers(connection, EntityNumber(uint(n)), seq)?;
        }
        last = Some(row.pos.0);
        *room = room.saturating_sub(ROW_BYTES + held);
    }
    Ok(last)
}
