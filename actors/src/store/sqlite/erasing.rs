//! Texts of documents that were deleted for good leave the file in slices: versions, comments, then
//! what events and kept answers show of them. The events stay, with their places and without words:
//! the sink says what may stay.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Columns, columns, uint, whole};
use super::delivery_logs;
use crate::store::CommitSink;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// Rows of one table that are erased at once, however small they are.
const ROWS_AT_ONCE: i64 = 1_024;
/// What erasing a row costs beside its text, in bytes of text.
const ROW_BYTES: usize = 256;

columns! {
    /// A document that is gone: what its rows say is erased up to this position.
    struct Erasure {
        document: i64,
        erased_to: i64,
    }
}

columns! {
    /// A row of a document, with all that people may have written in it.
    struct TextsRow<'r> {
        pos: Position,
        seq: Option<Sequence>,
        payload: Option<&'r [u8]>,
        answer: Option<&'r [u8]>,
    }
}

/// Erases texts of one document that is gone, about so many bytes of them; whether any may be left.
pub(super) fn slice(
    connection: &Connection,
    sink: &dyn CommitSink,
    bytes: usize,
) -> rusqlite::Result<bool> {
    let sql = format!("SELECT {} FROM erasures LIMIT 1", Erasure::COLUMNS);
    let gone = connection
        .prepare_cached(&sql)?
        .query_row([], whole::<Erasure>)
        .optional()?;
    let Some(erasure) = gone else {
        return Ok(false);
    };
    let n = erasure.document;
    for texts in [Texts::Versions, Texts::Comments] {
        if delete(connection, texts, n, bytes)? {
            return Ok(true);
        }
    }
    match erase_events(connection, sink, &erasure, bytes)? {
        Some(last) => connection
            .prepare_cached("UPDATE erasures SET erased_to = ?2 WHERE document = ?1")?
            .execute([n, last])?,
        None => connection
            .prepare_cached("DELETE FROM erasures WHERE document = ?1")?
            .execute([n])?,
    };
    Ok(true)
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
fn delete(connection: &Connection, texts: Texts, n: i64, bytes: usize) -> rusqlite::Result<bool> {
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
    let mut left = bytes;
    let mut last: Option<i64> = None;
    while left > 0
        && let Some(row) = found.next()?
    {
        let row = TextLength::read(row)?;
        last = Some(row.number);
        left = left.saturating_sub(ROW_BYTES + row.bytes);
    }
    let Some(last) = last else { return Ok(false) };
    let sql = format!("DELETE FROM {table} WHERE document = ?1 AND number <= ?2");
    connection.prepare_cached(&sql)?.execute([n, last])?;
    Ok(true)
}

/// Takes the words out of the document's next rows; gives the last one's position, none where none
/// was left.
fn erase_events(
    connection: &Connection,
    sink: &dyn CommitSink,
    erasure: &Erasure,
    bytes: usize,
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
    let mut left = bytes;
    let mut last = None;
    while left > 0
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
        left = left.saturating_sub(ROW_BYTES + held);
    }
    Ok(last)
}
