//! Texts of documents that were deleted for good leave the file in slices: versions, comments, then
//! what events and kept answers show of them. The events stay, with their places and without words:
//! the sink says what may stay.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::uint;
use super::deliveries;
use crate::store::CommitSink;

/// Rows of one table that are erased at once, however small they are.
const ROWS_AT_ONCE: i64 = 1_024;
/// What erasing a row costs beside its text, in bytes of text.
const ROW_BYTES: usize = 256;

/// Erases texts of one document that is gone, about so many bytes of them; whether any may be left.
pub(super) fn slice(
    connection: &Connection,
    sink: &dyn CommitSink,
    bytes: usize,
) -> rusqlite::Result<bool> {
    let gone: Option<(i64, i64)> = connection
        .prepare_cached("SELECT document, erased_to FROM erasures LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((n, erased_to)) = gone else {
        return Ok(false);
    };
    for (table, text) in [("versions", "frame"), ("comments", "body")] {
        if delete(connection, (table, text), n, bytes)? {
            return Ok(true);
        }
    }
    match erase_events(connection, sink, n, erased_to, bytes)? {
        Some(last) => connection
            .prepare_cached("UPDATE erasures SET erased_to = ?2 WHERE document = ?1")?
            .execute([n, last])?,
        None => connection
            .prepare_cached("DELETE FROM erasures WHERE document = ?1")?
            .execute([n])?,
    };
    Ok(true)
}

/// Deletes the document's first rows of a table; whether there were any.
fn delete(
    connection: &Connection,
    (table, text): (&str, &str),
    n: i64,
    bytes: usize,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT number, length({text}) FROM {table} WHERE document = ?1 ORDER BY number LIMIT ?2"
    );
    let mut find = connection.prepare_cached(&sql)?;
    let mut found = find.query([n, ROWS_AT_ONCE])?;
    let mut left = bytes;
    let mut last: Option<i64> = None;
    while left > 0
        && let Some(row) = found.next()?
    {
        last = Some(row.get(0)?);
        left = left.saturating_sub(ROW_BYTES + usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0));
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
    n: i64,
    behind: i64,
    bytes: usize,
) -> rusqlite::Result<Option<i64>> {
    let mut find = connection.prepare_cached(
        "SELECT pos, seq, payload, answer FROM rows WHERE entity = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3",
    )?;
    let mut update = connection.prepare_cached(
        "UPDATE rows SET payload = ?2, answer = ?3, salt = NULL, request = substr(request, 17) WHERE pos = ?1",
    )?;
    let mut found = find.query([n, behind, ROWS_AT_ONCE])?;
    let mut left = bytes;
    let mut last = None;
    while left > 0
        && let Some(row) = found.next()?
    {
        let (pos, seq): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        let texts: [Option<Vec<u8>>; 2] = [row.get(2)?, row.get(3)?];
        let held: usize = texts.iter().flatten().map(Vec::len).sum();
        let [payload, answer] = texts.map(|text| text.map(|text| sink.redacted(&text)));
        update.execute(params![pos, payload, answer])?;
        if let Some(seq) = seq {
            deliveries::erase_answers(connection, uint(n), uint(seq))?;
        }
        last = Some(pos);
        left = left.saturating_sub(ROW_BYTES + held);
    }
    Ok(last)
}
