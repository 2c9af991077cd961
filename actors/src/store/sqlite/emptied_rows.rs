//! Rows that say less than was hashed: what tells why. A redaction and an erasing are rows of the chain
//! themselves, retention has its floor; whatever else takes a salt away is no work of the server.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Columns, columns, int, only, uint};
use super::retention::FREED;
use super::slices;
use crate::store::audit_chain::{Left, is_altered, redacted_message};
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;

/// A row whose salt is gone.
pub(super) struct EmptiedRow<'r> {
    pub(super) pos: i64,
    pub(super) entity: i64,
    pub(super) seq: i64,
    pub(super) happened: i64,
    pub(super) scope: i64,
    pub(super) number: Option<i64>,
    /// What it still says.
    pub(super) left: &'r [u8],
}

columns! {
    /// The row to which a message points.
    struct LastEdit<'r> {
        pos: i64 = "e.pos",
        happened: i64 = "e.happened",
        salt: Option<&'r [u8]> = "e.salt",
        hash: &'r [u8] = "e.hash",
        payload: Option<&'r [u8]> = "e.payload",
    }
}

impl EmptiedRow<'_> {
    /// Whether anything tells why its salt is gone.
    pub(super) fn is_explained(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let Some(event) = EventKind::of_row(self.happened) else {
            return Ok(false);
        };
        if self.is_erased(connection)? {
            Ok(true)
        } else if event == EventKind::MessageCreated {
            self.is_redacted(connection, Sequence(uint(self.seq)))
        } else if event == EventKind::MessageUpdated {
            match redacted_message(self.left).or(self.edited(connection)?) {
                Some(original) => self.is_redacted(connection, original),
                None => Ok(false),
            }
        } else if FREED.contains(&event) {
            self.is_expired(connection)
        } else {
            Ok(false)
        }
    }

    /// The message that it edits, where it does not say so itself.
    fn edited(&self, connection: &Connection) -> rusqlite::Result<Option<Sequence>> {
        connection
            .prepare_cached("SELECT original FROM edits WHERE entity = ?1 AND pos = ?2")?
            .query_row([self.entity, self.pos], only)
            .optional()
    }

    /// Whether a later row, which is as it was written, redacts this message and has left it so.
    fn is_redacted(&self, connection: &Connection, original: Sequence) -> rusqlite::Result<bool> {
        let left = Left {
            original,
            said: self.left,
        };
        let sql = format!(
            "SELECT {} FROM rows r JOIN rows e ON e.pos = r.edit
             WHERE r.entity = ?1 AND r.seq = ?2 AND e.entity = ?1",
            LastEdit::COLUMNS
        );
        let found = connection
            .prepare_cached(&sql)?
            .query_row(params![self.entity, int(original.0)], |row| {
                let edit = LastEdit::read(row)?;
                let (Some(salt), Some(said)) = (edit.salt, edit.payload) else {
                    return Ok(false);
                };
                Ok(edit.pos > self.pos
                    && edit.happened == EventKind::MessageUpdated as i64
                    && !is_altered(salt, said, edit.hash)
                    && left.is_by(said))
            })
            .optional()?;
        Ok(found.unwrap_or(false))
    }

    /// Whether what it happened to was taken away for good, with all that was said of it.
    fn is_erased(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let last: Option<i64> = connection
            .prepare_cached(
                "SELECT happened FROM rows WHERE entity = ?1 AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1",
            )?
            .query_row([self.entity], only)
            .optional()?;
        let last = last.and_then(EventKind::of_row);
        if !last.is_some_and(EventKind::ends_with_its_words) {
            return Ok(false);
        }
        let is_there = "SELECT 1 FROM documents WHERE n = ?1 UNION ALL
            SELECT 1 FROM conversations WHERE n = ?1 UNION ALL SELECT 1 FROM records WHERE n = ?1";
        let is_there = connection.prepare_cached(is_there)?.exists([self.entity])?;
        Ok(!is_there)
    }

    /// Whether retention has taken it away.
    fn is_expired(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let floor = slices::floor(connection, self.scope)?;
        let is_below = self.number.is_some_and(|number| number <= int(floor));
        Ok(is_below && self.left.is_empty())
    }
}
