//! What the writer does between batches, in slices small enough that no commit waits for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::batch::Counts;
use super::changed_pages::ChangedPages;
use super::codec::{int, optional_millis};
use super::dirty_headers::{DirtyHeader, DirtyHeaders, HeaderFlusher};
use super::gate::Gate;
use super::log_erasing::LogErasing;
use super::older_keys::Shelving;
use super::pace::{Pace, Phase};
use super::recent_events::{PendingSegment, SegmentWriter};
use super::redacting::Redacting;
use super::renames::{self, Renames};
use super::retention::Retention;
use super::scrubbing::Scrubber;
use super::{erasing, frame_parts};
use crate::store::{CommitSink, KeyUse};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Headers folded in one slice.
const SLICE: usize = 256;
/// Bytes of texts erased in one slice: some tenths of a millisecond …
const ERASE_SLICE_BYTES: usize = 64 << 10;
/// … and where they are late: some milliseconds.
const LATE_ERASE_SLICE_BYTES: usize = 1 << 20;

/// What the writer writes behind its commits, and whom it tells.
pub(super) struct Behind<'w> {
    pub(super) counts: &'w mut Counts,
    pub(super) fold: &'w mut HeaderFlusher,
    pub(super) lagging: &'w DirtyHeaders,
    pub(super) slicing: &'w mut SegmentWriter,
    pub(super) sink: &'w dyn CommitSink,
}

/// What the writer does beside commits, and when each is due.
#[derive(Debug)]
pub(super) struct Housekeeping {
    renames: Renames,
    pace: Pace,
    uses_at: Instant,
    log: LogErasing,
    /// Since when texts of what is gone may be left.
    erasing_since: Option<Instant>,
    /// Versions that were refused: parts of their frames may be there.
    refused: Vec<EntityNumber>,
    scrubber: Scrubber,
    /// Whether something has left its place since the scrubber began.
    unscrubbed: bool,
    /// Whether somebody waits for what the scrubber is at.
    scrubs_for_somebody: bool,
    /// Until then what is erased goes along with what is being scrubbed.
    scrubs_more_until: Instant,
    /// Whether the writer had nothing to write in this turn.
    is_idle: bool,
    redacting: Redacting,
    keys: Shelving,
    low_water: Position,
    probe_at: Instant,
    retention: Retention,
    /// Which of what can wait has the next slice, whether there was anything, and when.
    turn: usize,
    busy: bool,
    rest_until: Instant,
}

impl Housekeeping {
    /// With what an earlier run left to be done.
    pub(super) fn open(
        pace: Pace,
        connection: &Connection,
        sink: &dyn CommitSink,
        (gate, changed): (Arc<Gate>, ChangedPages),
    ) -> rusqlite::Result<Self> {
        let now = Instant::now();
        erasing::scrubbing_was_cut_short(connection)?;
        frame_parts::give_all_up(connection)?;
        let mut log = LogErasing::new(pace.erase_within, gate);
        // What the log holds of an earlier run may have been redacted there, and somebody may have kept
        // the start from emptying it.
        log.note();
        Ok(Housekeeping {
            renames: Renames::open(connection, sink)?,
            pace,
            uses_at: now + pace.uses_every,
            log,
            erasing_since: Some(now),
            refused: Vec::new(),
            // What was erased before a crash may not be scrubbed.
            unscrubbed: changed.are_unknown(),
            scrubber: Scrubber::new(changed),
            scrubs_for_somebody: false,
            scrubs_more_until: now,
            is_idle: false,
            redacting: Redacting::open(pace.erase_within / 2),
            keys: Shelving::open(connection)?,
            low_water: Position::ZERO,
            probe_at: now,
            retention: Retention::new(pace.events_kept, pace.trim_every),
            turn: 0,
            busy: true,
            rest_until: now,
        })
    }

    /// A customer has a new name.
    pub(super) fn rename(&mut self, customer: EntityNumber, name: &str, revision: Sequence) {
        self.renames.add(customer, name, revision);
    }

    /// Customers whose new names are still to be copied.
    pub(super) fn renames_waiting(&self) -> usize {
        self.renames.waiting()
    }

    /// How much there was to write in this turn.
    pub(super) fn turn_begins(&mut self, works: usize) {
        self.is_idle = works == 0;
    }

    /// A message was redacted: the file must lose its earlier texts.
    pub(super) fn erase_messages(&mut self) {
        self.redacting.begin();
        self.erase_text();
    }

    /// A text was erased: pages and the log must lose it.
    pub(super) fn erase_text(&mut self) {
        self.unscrubbed = true;
        self.erase_log();
    }

    /// The log must lose what is not in the file any more.
    pub(super) fn erase_log(&mut self) {
        self.log.note();
    }

    /// Something is gone for good: its texts are to be erased.
    pub(super) fn erase_texts_of_gone(&mut self) {
        self.erasing_since.get_or_insert_with(Instant::now);
        // Its header and its names left the file with the commit.
        self.erase_text();
    }

    /// This version of a document does not come: parts of its frame that are there go.
    pub(super) fn give_up_frame(&mut self, version: EntityNumber) {
        self.refused.push(version);
        self.erasing_since.get_or_insert_with(Instant::now);
    }

    /// How long the writer may sleep.
    pub(super) fn tick(&self) -> Duration {
        let busy = self.busy || self.renames.waiting() > 0;
        let tick = self.log.tick(if busy {
            self.pace.tick.min(self.pace.rest)
        } else {
            self.pace.tick
        });
        self.redacting.tick(tick)
    }

    /// Whether the disk takes anything, after it did not.
    pub(super) fn can_write(&mut self, connection: &Connection) -> bool {
        if self.probe_at > Instant::now() {
            return false;
        }
        self.probe_at = Instant::now() + self.pace.tick;
        connection
            .execute(
                "INSERT OR REPLACE INTO meta(key, value) VALUES ('probe', 0)",
                [],
            )
            .is_ok()
    }

    /// One slice of the headers that are to be folded.
    pub(super) fn due(&self, fold: &mut HeaderFlusher, lagging: &DirtyHeaders) -> Vec<DirtyHeader> {
        fold.due(lagging, self.pace.age_max, SLICE)
    }

    /// One slice of everything that is due, or all of it where the store closes. Gives about how many bytes
    /// of redacted texts were erased: as many pages are in the log.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        behind: Behind<'_>,
        phase: Phase,
    ) -> rusqlite::Result<usize> {
        let Behind {
            counts,
            fold,
            lagging,
            slicing,
            sink,
        } = behind;
        self.slice(connection, slicing, counts.next_pos, phase)?;
        fold.release(lagging);
        let due = match phase {
            Phase::Closing => fold.due(lagging, Duration::ZERO, usize::MAX),
            Phase::Running => self.due(fold, lagging),
        };
        if !due.is_empty()
            && let Err(error) = write_folded(connection, counts, fold, &due)
        {
            fold.put_back(lagging, &due);
            return Err(error);
        }
        for lag in due {
            fold.wrote(lagging, lag);
        }
        self.renames.slice(connection, sink, renames::SLICE)?;
        let now = Instant::now();
        if phase == Phase::Closing || self.uses_at <= now {
            self.uses_at = now + self.pace.uses_every;
            write_uses(connection, sink)?;
            // Commits that write their headers themselves move the mark too.
            let low_water = fold.low_water(counts.next_pos);
            if low_water != self.low_water {
                write_folded(connection, counts, fold, &[])?;
                self.low_water = low_water;
                write_slices(connection, slicing, counts.next_pos, &[])?;
            }
            self.keys.look_for_old();
        }
        if phase == Phase::Running && self.rest_until <= Instant::now() {
            let begun = Instant::now();
            self.busy = self.slice_of_what_can_wait(connection, sink)?;
            self.rest_until = Instant::now() + self.pace.rest.max(3 * begun.elapsed());
        }
        let redacted = self.redacting.run(connection, phase)?;
        if redacted > 0 {
            self.erase_text();
        }
        let is_scrubbed = !self.scrubs_for_somebody || self.scrubber.is_done();
        if self.log.run(connection, phase)? && is_scrubbed {
            erasing::log_is_empty(connection).inspect_err(|_| self.log.note())?;
        }
        if phase == Phase::Closing {
            self.finish_scrubbing(connection)?;
        }
        Ok(redacted)
    }

    /// One slice of one thing, in turn; whether there was anything to do.
    fn slice_of_what_can_wait(
        &mut self,
        connection: &Connection,
        sink: &dyn CommitSink,
    ) -> rusqlite::Result<bool> {
        const THINGS: usize = 4;
        for _ in 0..THINGS {
            self.turn = (self.turn + 1) % THINGS;
            let did = match self.turn {
                0 => self.keys.run(connection, sink.keys(), Timestamp::now())?,
                1 => self.retention.run(connection, Timestamp::now())?,
                2 => self.scrub(connection)?,
                _ => self.erase_texts(connection, sink)?,
            };
            if did {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the newest events into slices when they are old enough; what fills a slice has mostly
    /// gone with a commit.
    fn slice(
        &self,
        connection: &Connection,
        slicing: &mut SegmentWriter,
        next_pos: Position,
        phase: Phase,
    ) -> rusqlite::Result<()> {
        loop {
            let age = match phase {
                Phase::Closing => Duration::ZERO,
                Phase::Running => self.pace.age_max.min(self.retention.patience()),
            };
            let due = slicing.aged(age, self.pace.tick);
            if due.is_empty() {
                return Ok(());
            }
            write_slices(connection, slicing, next_pos, &due)?;
            if phase == Phase::Running {
                return Ok(());
            }
        }
    }

    /// One slice of the texts of what is gone; what is left when the store closes goes
    /// after the next start.
    fn erase_texts(
        &mut self,
        connection: &Connection,
        sink: &dyn CommitSink,
    ) -> rusqlite::Result<bool> {
        let Some(since) = self.erasing_since else {
            return Ok(false);
        };
        let bytes = if since.elapsed() > self.pace.erase_within / 2 {
            LATE_ERASE_SLICE_BYTES
        } else {
            ERASE_SLICE_BYTES
        };
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for version in &self.refused {
            frame_parts::give_up(connection, *version)?;
        }
        let is_more_left = erasing::slice(connection, sink, bytes)?;
        connection.execute_batch("COMMIT")?;
        // Not before it is committed: a full disk must not end it.
        self.erasing_since = is_more_left.then_some(since);
        self.refused.clear();
        // Behind the last slice, too: the log may have been emptied before it.
        self.erase_text();
        Ok(true)
    }

    /// One slice of the pages that are to be scrubbed, for whoever waits for it, or while there is nothing to
    /// write.
    fn scrub(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.scrubs_for_somebody &= !self.scrubber.is_done();
        if self.unscrubbed && self.may_scrub_more(connection)? {
            erasing::begin_scrubbing(connection)?;
            self.scrubber.begin(connection)?;
            self.scrubs_for_somebody = true;
            self.unscrubbed = false;
        }
        if self.scrubs_for_somebody {
            self.erase_log();
            if self.scrubs_more_until <= Instant::now() {
                self.scrubber.late_slice(connection)
            } else {
                self.scrubber.slice(connection)
            }
        } else if self.is_idle {
            self.scrubber.slice_ahead(connection)
        } else {
            Ok(false)
        }
    }

    /// Whether what was erased since can go along with what is being scrubbed. What comes too late for the
    /// next emptying of the log waits until that is over, or it would never find all pages scrubbed.
    fn may_scrub_more(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let now = Instant::now();
        if erasing::is_any_being_scrubbed(connection)? {
            return Ok(now < self.scrubs_more_until);
        }
        self.scrubs_more_until = now + self.pace.erase_within / 2;
        Ok(true)
    }

    /// Scrubs what is left, as the last thing that is done to the file.
    fn finish_scrubbing(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        match self.scrubber.finish(connection)? {
            true => erasing::note_all_scrubbed(connection),
            false => Ok(()),
        }
    }
}

fn write_folded(
    connection: &Connection,
    counts: &mut Counts,
    fold: &HeaderFlusher,
    due: &[DirtyHeader],
) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    fold_into(connection, counts, fold.low_water(counts.next_pos), due)?;
    connection.execute_batch("COMMIT")?;
    counts.written();
    Ok(())
}

/// Writes headers that were left behind into the running transaction, and from where on a restart
/// has to look for others; `Counts::written` when it is durable.
pub(super) fn fold_into(
    connection: &Connection,
    counts: &Counts,
    low_water: Position,
    due: &[DirtyHeader],
) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached(
        "UPDATE conversations SET seq = ?2, messages = ?3, last_message_at = ?4, updated_at = ?5 WHERE n = ?1 AND seq < ?2",
    )?;
    for lag in due {
        update.execute(params![
            int(lag.conversation.0),
            int(lag.seq.0),
            int(lag.messages),
            optional_millis(lag.last_message_at),
            lag.updated_at.0
        ])?;
    }
    connection
        .prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'folded'")?
        .execute([low_water.0])?;
    let mut scopes = connection.prepare_cached(
        "INSERT INTO scopes(scope, number) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET number = excluded.number",
    )?;
    for (tenant, number) in counts.moved() {
        scopes.execute([tenant, number])?;
    }
    Ok(())
}

fn write_slices(
    connection: &Connection,
    slicing: &mut SegmentWriter,
    next_pos: Position,
    due: &[PendingSegment],
) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    slicing.write(connection, due, next_pos)?;
    connection.execute_batch("COMMIT")?;
    slicing.wrote(due);
    Ok(())
}

fn write_uses(connection: &Connection, sink: &dyn CommitSink) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO key_uses(n, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = excluded.at WHERE at <> excluded.at",
    )?;
    for KeyUse { key, at } in sink.key_uses() {
        upsert.execute([int(key.number().0), at.0])?;
    }
    connection.execute_batch("COMMIT")
}
