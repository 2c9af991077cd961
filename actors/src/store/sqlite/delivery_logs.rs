//! The logs of deliveries: what receivers answered, and how that goes with a redacted message.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, Columns, columns, int, only};
use colloquy_model::attempt::Attempt;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// What erasing the answers of one delivery costs beside their text, in bytes of text.
const ANSWERS_BYTES: usize = 512;
/// Attempts that a log keeps: the newest.
const LOG_MAX: usize = 32;

/// A message was redacted: what receivers answered to its deliveries may repeat it.
pub(super) fn erase_answers(
    connection: &Connection,
    entity: EntityNumber,
    sequence: Sequence,
) -> rusqlite::Result<()> {
    let found = connection
        .prepare_cached("SELECT pos FROM rows WHERE entity = ?1 AND seq = ?2")?
        .query_row([int(entity.0), int(sequence.0)], only)
        .optional()?;
    if let Some(position) = found {
        let mut room = usize::MAX;
        erase_some_answers(connection, position, 0, &mut room)?;
    }
    Ok(())
}

/// The same for the deliveries of the event at this position, behind one of them, as long as there
/// is room, in bytes; the last one where there may be more.
pub(super) fn erase_some_answers(
    connection: &Connection,
    position: Position,
    behind: i64,
    room: &mut usize,
) -> rusqlite::Result<Option<i64>> {
    let mut query = connection.prepare_cached(&format!(
        "SELECT {} FROM deliveries WHERE pos = ?1 AND d > ?2 AND log IS NOT NULL ORDER BY d",
        LogRow::COLUMNS
    ))?;
    let mut update = connection.prepare_cached("UPDATE deliveries SET log = ?2 WHERE d = ?1")?;
    let mut rows = query.query([position.0, behind])?;
    let mut last = behind;
    while *room > 0 {
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let row = LogRow::read(row)?;
        *room = room.saturating_sub(ANSWERS_BYTES + row.log.len());
        last = row.d;
        // What can't be read may hold the text all the same: it goes as a whole.
        let log = read_log(Some(row.log)).unwrap_or_default();
        update.execute(params![
            last,
            written(&log.into_iter().map(silent).collect::<Vec<_>>())
        ])?;
    }
    Ok(Some(last))
}

columns! {
    /// A delivery that has been tried, and the log of its attempts.
    struct LogRow<'r> {
        d: i64,
        log: &'r [u8],
    }
}

/// The attempts of a delivery, as its row holds them in JSON.
pub(super) fn read_log(log: Option<&[u8]>) -> rusqlite::Result<Vec<Attempt>> {
    let Some(log) = log else {
        return Ok(Vec::new());
    };
    serde_json::from_slice(log).map_err(|error| codec::damaged("a delivery's log", error))
}

/// A log as a row holds it; none for an empty one.
pub(super) fn written(log: &[Attempt]) -> Option<Vec<u8>> {
    // A shape of ours: it can't fail.
    if log.is_empty() {
        None
    } else {
        serde_json::to_vec(log).ok()
    }
}

/// An attempt without what the receiver said.
pub(super) fn silent(attempt: Attempt) -> Attempt {
    Attempt {
        answer: None,
        error: None,
        ..attempt
    }
}

/// A log without what a redacted message's receivers may have repeated, and not longer than a
/// log may be.
pub(super) fn sayable(
    connection: &Connection,
    position: Position,
    mut log: Vec<Attempt>,
) -> rusqlite::Result<Vec<Attempt>> {
    log.drain(..log.len().saturating_sub(LOG_MAX));
    if log.is_empty() {
        return Ok(log);
    }
    // Redaction takes the salt.
    let redacted = connection
        .prepare_cached("SELECT salt IS NULL FROM rows WHERE pos = ?1")?
        .query_row([position.0], only)
        .optional()?
        .unwrap_or(true);
    Ok(if redacted {
        log.into_iter().map(silent).collect()
    } else {
        log
    })
}
