//! Earlier texts of redacted messages leave the file in slices, so that no commit waits for a
//! message that was edited a thousand times. From the redaction on they are shown to nobody: until
//! the file has lost them, what is read of a message goes through [`Veil`]. What a redaction has
//! still to erase stands in the file, so a crash only delays it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;

use super::codec::{Columns, columns, insert, int, only, whole};
use super::pace::Phase;
use super::{delivery_logs, identifiers};
use crate::sealing::texts;
use colloquy_model::conversation::MessageView;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::MessageId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Bytes of texts that are erased in one slice, half a millisecond or, if it is longer, one text …
const SLICE_BYTES: usize = 64 << 10;
/// … and so many times what it took until the next one: commits have the writer for most of the time.
const REST: u32 = 3;
/// The same of texts that are late; where the store closes, nothing waits for the slices.
const LATE_SLICE_BYTES: usize = 1 << 20;
const LATE_REST: Duration = Duration::from_millis(1);
/// A store that closes goes on with them for so long; what is left goes after the next start.
const AT_END: Duration = Duration::from_secs(3);

/// What erasing a row costs beside their text, in bytes of text.
const ROW_BYTES: usize = 512;

/// Bytes that earlier versions kept of a request: a digest of all of it.
const EARLIER_BYTES: usize = 16;
/// How far apart operations of one bulk request stand at most, about, in positions.
const BULK_REACH: i64 = 10_000;

/// When the next slice of redacted messages' earlier texts is to be erased. A slice is short and leaves
/// commits most of the time, unless the texts have been left for so long that they are late: 30 s after a
/// redaction no file may hold them.
#[derive(Debug)]
pub(super) struct Redacting {
    /// None where no text is left.
    due: Option<Due>,
    /// Texts that have been left for longer are late.
    late_after: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    /// Texts have been left since then.
    since: Instant,
    /// When the next slice is to be erased.
    next: Instant,
}

impl Redacting {
    /// With what an earlier run may have left.
    pub(super) fn open(late_after: Duration) -> Self {
        let mut redacting = Redacting {
            due: None,
            late_after,
        };
        redacting.begin();
        redacting
    }

    /// Some texts may be left from now on.
    pub(super) fn begin(&mut self) {
        let now = Instant::now();
        self.due.get_or_insert(Due {
            since: now,
            next: now,
        });
    }

    /// How long the writer may sleep, at most this long.
    pub(super) fn tick(&self, tick: Duration) -> Duration {
        let Some(due) = self.due else {
            return tick;
        };
        // Where the disk is full nothing is done that is due.
        let left = due.next.saturating_duration_since(Instant::now());
        tick.min(left.max(LATE_REST))
    }

    /// Erases a slice, if it is due; where the store closes, as many as there is time for. Gives about how
    /// many bytes were erased.
    pub(super) fn run(&mut self, connection: &Connection, phase: Phase) -> rusqlite::Result<usize> {
        let (asked, mut erased) = (Instant::now(), 0);
        while let Some(Due { since, next }) = self.due {
            let begun = Instant::now();
            if phase == Phase::Running && next > begun {
                break;
            }
            let is_late = phase == Phase::Closing || since.elapsed() > self.late_after;
            let bytes = if is_late {
                LATE_SLICE_BYTES
            } else {
                SLICE_BYTES
            };
            connection.execute_batch("BEGIN IMMEDIATE")?;
            let any_was_left = slice(connection, bytes)?;
            connection.execute_batch("COMMIT")?;
            let rest = if is_late {
                LATE_REST
            } else {
                REST * begun.elapsed()
            };
            self.due = any_was_left.then(|| Due {
                since,
                next: Instant::now() + rest,
            });
            if any_was_left {
                erased += bytes;
            }
            if phase == Phase::Running || asked.elapsed() > AT_END {
                break;
            }
        }
        Ok(erased)
    }
}

columns! {
    /// How far a redaction has come.
    #[derive(Debug, Clone, Copy)]
    struct Redaction {
        entity: i64,
        /// The sequence of the message's own row.
        original: i64,
        /// The number of the edit that is to be erased next; 0 is the message's own row.
        next: i64,
        /// The last delivery of that row whose answers were erased.
        delivery: i64,
    }
}

/// Erases what the running transaction has room for, in bytes of text, and notes what is left.
pub(super) fn begin(
    connection: &Connection,
    entity: EntityNumber,
    original: Sequence,
    room: &mut usize,
) -> rusqlite::Result<()> {
    let mut redaction = Redaction {
        entity: int(entity.0),
        original: int(original.0),
        next: 0,
        delivery: 0,
    };
    if redaction.erase(connection, room)? {
        return Ok(());
    }
    insert!(connection, "INSERT OR REPLACE INTO redactions", {
        entity: redaction.entity,
        original: redaction.original,
        next: redaction.next,
        delivery: redaction.delivery,
    })?;
    Ok(())
}

/// Goes on with one redaction, for about so many bytes of text; whether there was any.
pub(super) fn slice(connection: &Connection, bytes: usize) -> rusqlite::Result<bool> {
    let sql = format!("SELECT {} FROM redactions LIMIT 1", Redaction::COLUMNS);
    let found = connection
        .prepare_cached(&sql)?
        .query_row([], whole::<Redaction>)
        .optional()?;
    let Some(mut redaction) = found else {
        return Ok(false);
    };
    let mut room = bytes;
    let Redaction {
        entity, original, ..
    } = redaction;
    if redaction.erase(connection, &mut room)? {
        let mut done = connection
            .prepare_cached("DELETE FROM redactions WHERE entity = ?1 AND original = ?2")?;
        done.execute([entity, original])?;
    } else {
        connection
            .prepare_cached("UPDATE redactions SET next = ?3, delivery = ?4 WHERE entity = ?1 AND original = ?2")?
            .execute([entity, original, redaction.next, redaction.delivery])?;
    }
    Ok(true)
}

columns! {
    /// A row that holds a text of the message.
    struct Text {
        pos: Position = "r.pos",
        at: Timestamp = "r.at",
        bytes: usize = "ifnull(length(r.payload), 0)",
    }
}

/// A message that is redacted.
struct Redacted {
    /// Where the redaction stands.
    position: Position,
    /// The message as the redaction left it; none where that can't be read.
    message: Option<MessageView>,
}

columns! {
    /// The row to which a redaction points its message.
    struct RedactedRow<'r> {
        pos: Position = "e.pos",
        payload: &'r [u8] = "e.payload",
    }
}

impl Redaction {
    /// Erases texts as long as there is room; whether none is left.
    fn erase(&mut self, connection: &Connection, room: &mut usize) -> rusqlite::Result<bool> {
        let Some(redacted) = self.redacted(connection)? else {
            return Ok(true);
        };
        while *room > 0 {
            let Some(text) = self.next_text(connection, redacted.position)? else {
                return Ok(true);
            };
            if self.delivery == 0 {
                *room = room.saturating_sub(ROW_BYTES + text.bytes);
                self.erase_text(connection, redacted.message.as_ref(), &text)?;
            }
            match delivery_logs::erase_some_answers(connection, text.pos, self.delivery, room)? {
                Some(behind) => self.delivery = behind,
                None => (self.next, self.delivery) = (self.next + 1, 0),
            }
        }
        Ok(false)
    }

    /// What the redaction left of the message; none where there is no redaction.
    fn redacted(&self, connection: &Connection) -> rusqlite::Result<Option<Redacted>> {
        let sql = format!(
            "SELECT {} FROM rows r JOIN rows e ON e.pos = r.edit WHERE r.entity = ?1 AND r.seq = ?2",
            RedactedRow::COLUMNS
        );
        connection
            .prepare_cached(&sql)?
            .query_row([self.entity, self.original], |row| {
                let RedactedRow { pos, payload } = RedactedRow::read(row)?;
                let unreadable =
                    |error| Unreadable::found(format_args!("{pos}: a redaction"), error);
                Ok(Redacted {
                    position: pos,
                    message: identifiers::text(payload).map_err(unreadable).ok(),
                })
            })
            .optional()
    }

    /// The next row that is to be erased; the last is the redaction itself.
    fn next_text(&self, connection: &Connection, last: Position) -> rusqlite::Result<Option<Text>> {
        let texts = if self.next == 0 {
            "rows r WHERE r.entity = ?1 AND r.seq = ?2 AND ?3 = 0 AND r.pos < ?4"
        } else {
            "edits e JOIN rows r ON r.pos = e.pos
             WHERE e.entity = ?1 AND e.original = ?2 AND e.number = ?3 AND e.pos < ?4"
        };
        connection
            .prepare_cached(&format!("SELECT {} FROM {texts}", Text::COLUMNS))?
            .query_row([self.entity, self.original, self.next, last.0], whole)
            .optional()
    }

    /// Leaves of a text what its redaction left of the message, with the time of the edit. What is
    /// made of a text goes with it: the salt of its digest, and the digest of the request that
    /// brought it, which may have begun the conversation.
    fn erase_text(
        &self,
        connection: &Connection,
        redacted: Option<&MessageView>,
        text: &Text,
    ) -> rusqlite::Result<()> {
        let edited_at = (self.next > 0).then_some(text.at);
        let left = |redacted: &MessageView| {
            colloquy_model::json::bytes(&MessageView {
                edited_at,
                ..redacted.clone()
            })
        };
        // It goes, also where nobody can tell any more what would be left of it.
        let payload = redacted.map_or_else(|| Bytes::from_static(b"null"), left);
        if self.next == 0 {
            forget_request(connection, text.pos)?;
        }
        connection
            .prepare_cached(
                "UPDATE rows SET payload = ?2, answer = NULL, salt = NULL WHERE pos = ?1",
            )?
            .execute(params![text.pos.0, &payload[..]])?;
        Ok(())
    }
}

/// Takes the digest of the body from the request that brought the message at this position, and
/// from the one that began its conversation with it, which stands before. Earlier versions kept
/// that of a whole bulk request beside each of its operations: it goes from all of them that stand
/// near.
fn forget_request(connection: &Connection, pos: Position) -> rusqlite::Result<()> {
    let request: Option<Option<Vec<u8>>> = connection
        .prepare_cached("SELECT request FROM rows WHERE pos = ?1")?
        .query_row([pos.0], only)
        .optional()?;
    if let Some(Some(request)) = request
        && request.len() == EARLIER_BYTES
    {
        connection
            .prepare_cached(
                "UPDATE rows SET request = x'' WHERE key IS NOT NULL AND pos BETWEEN ?1 - ?2 AND ?1 + ?2 AND request = ?3",
            )?
            .execute(params![pos.0, BULK_REACH, request])?;
    }
    let mut forget = connection.prepare_cached(
        "UPDATE rows SET request = substr(request, 17) WHERE pos = ?1 AND entity = (SELECT entity FROM rows WHERE pos = ?2)
         AND happened = ?3 AND key IS NOT NULL",
    )?;
    forget.execute([pos.0, pos.0, EventKind::MessageCreated as i64])?;
    forget.execute([
        pos.previous().0,
        pos.0,
        EventKind::ConversationCreated as i64,
    ])?;
    Ok(())
}

columns! {
    /// A row that may hold a text.
    struct PayloadRow<'r> {
        entity: i64,
        happened: i64,
        payload: Option<&'r [u8]>,
    }
}

/// What readers look through: it hides texts that are redacted and that the file still holds.
pub(super) struct Veil<'c>(Option<&'c Connection>);

impl<'c> Veil<'c> {
    /// As of the running transaction; mostly nothing is hidden.
    pub(super) fn of(connection: &'c Connection) -> rusqlite::Result<Self> {
        let any = connection
            .prepare_cached("SELECT 1 FROM redactions")?
            .exists([])?;
        Ok(Veil(any.then_some(connection)))
    }

    /// The payload of an entity's row as it may be shown.
    pub(super) fn shown(
        &self,
        entity: i64,
        happened: i64,
        payload: Vec<u8>,
    ) -> rusqlite::Result<Vec<u8>> {
        if !self.hides(entity, happened, &payload)? {
            return Ok(payload);
        }
        let mut text = identifiers::text(&payload)?;
        text.erase();
        Ok(colloquy_model::json::text(&text).into_bytes())
    }

    /// Whether the text at this position is hidden.
    pub(super) fn hides_at(&self, position: Position) -> rusqlite::Result<bool> {
        let Some(connection) = self.0 else {
            return Ok(false);
        };
        let sql = format!("SELECT {} FROM rows WHERE pos = ?1", PayloadRow::COLUMNS);
        let hides = |row: &Row<'_>| {
            let row = PayloadRow::read(row)?;
            match row.payload {
                Some(payload) => self.hides(row.entity, row.happened, payload),
                None => Ok(false),
            }
        };
        let found = connection
            .prepare_cached(&sql)?
            .query_row([position.0], hides)
            .optional()?;
        Ok(found.unwrap_or(false))
    }

    fn hides(&self, entity: i64, happened: i64, payload: &[u8]) -> rusqlite::Result<bool> {
        /// All that is to be known of a text here.
        #[derive(Deserialize)]
        struct Named {
            message_id: MessageId,
        }
        let Some(connection) = self.0 else {
            return Ok(false);
        };
        let texts = [
            EventKind::MessageCreated as i64,
            EventKind::MessageUpdated as i64,
        ];
        let (true, Ok(Ok(named))) = (
            texts.contains(&happened),
            texts::opened(payload).map(|text| serde_json::from_slice::<Named>(&text)),
        ) else {
            return Ok(false);
        };
        connection
            .prepare_cached("SELECT 1 FROM redactions WHERE entity = ?1 AND original = ?2")?
            .exists([entity, int(named.message_id.sequence().0)])
    }
}
