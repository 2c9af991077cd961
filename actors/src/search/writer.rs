//! The thread that takes texts into the index: what has gathered, in one transaction, with the
//! position that it reaches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::index;
use super::layout::{Gone, Layout, Progress};
use crate::store::sqlite::scrubbing::Scrubber;
use colloquy_model::position::Position;
use colloquy_runtime::{cores, offload};

/// Room in the queue, in KiB of text; nothing takes less than one. Whoever's turn comes next waits for
/// what is in it.
pub(super) const QUEUE_KIB: u32 = 256;
/// How many texts one transaction takes at most.
const BATCH_TEXTS_MAX: usize = 512;
/// Bytes of text from which a transaction takes no further one: commits to the store wait until the disk
/// has taken it, and whoever searches for what comes next waits until it is done.
const BATCH_BYTES_MAX: usize = 128 << 10;
/// Behind so many bytes of text the trees are merged by another step.
const MERGED_EVERY: usize = 32 << 10;
/// For how long what has gone is deleted at most behind what was put in …
const DELETED_AT_ONCE: Duration = Duration::from_millis(200);
/// … and when it ends; the rest is for the next start.
const DELETED_FOR: Duration = Duration::from_secs(2);
/// So often the wait after a failure is doubled.
const DOUBLED_MAX: u32 = 3;
/// Between two looks, while it waits, at whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How the writer does its chores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long further work is waited for, so that it comes into the same transaction.
    pub(super) gather: Duration,
    pub(super) chores_every: Duration,
    pub(super) erase_after: Duration,
    /// After a first failure; twice as long after each further one.
    pub(super) retry_after: Duration,
    /// Between two slices of pages that are scrubbed.
    pub(super) rest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            gather: Duration::from_millis(20),
            chores_every: Duration::from_secs(1),
            erase_after: Duration::from_secs(10),
            retry_after: Duration::from_secs(1),
            rest: Duration::from_millis(20),
        }
    }
}

/// What the writer is asked to do at once.
pub(super) struct Work<L: Layout> {
    /// How far the index has come with it.
    pub(super) progress: Progress,
    /// What is to be done to the index because of it; nothing: only the position.
    pub(super) changes: Vec<L::Change>,
    /// The room that it takes in the queue, until it is done.
    pub(super) room: OwnedSemaphorePermit,
    /// Called once searches know it.
    pub(super) written: Option<Written>,
}

/// Is called once searches know what was handed in.
pub(super) type Written = Box<dyn FnOnce() + Send>;

/// What the writer shares with those who ask.
pub(super) struct Shared {
    /// The position up to which searches know everything.
    pub(super) reached: watch::Sender<Position>,
    /// Room in the writer's queue, in KiB of text.
    pub(super) room: Arc<Semaphore>,
    /// Whether the last attempt to write worked.
    pub(super) healthy: AtomicBool,
    /// Whether the file is damaged: it is deleted when the index is closed.
    pub(super) damaged: AtomicBool,
    /// Whether it takes nothing any more: its thread has ended, or its file is damaged.
    pub(super) ended: watch::Sender<bool>,
    /// Whether to give up what can't be written.
    pub(super) closing: AtomicBool,
    /// Whether the files may hold something that was taken out.
    pub(super) holds_erased: AtomicBool,
    /// How often erasing has begun: what was taken out before leaves the files with it.
    pub(super) erasings: AtomicU64,
    /// The last of them that has ended.
    pub(super) erased: AtomicU64,
    /// How many texts have gone that are deleted behind it.
    pub(super) gone: AtomicI64,
    /// How many of them were deleted before the last erasing began that has ended.
    pub(super) erased_gone: AtomicI64,
}

impl Shared {
    pub(super) fn new(reached: watch::Sender<Position>, holds_erased: bool, gone: Gone) -> Self {
        let room = usize::try_from(QUEUE_KIB).unwrap_or(usize::MAX);
        Shared {
            reached,
            room: Arc::new(Semaphore::new(room)),
            healthy: AtomicBool::new(true),
            damaged: AtomicBool::new(false),
            ended: watch::channel(false).0,
            closing: AtomicBool::new(false),
            holds_erased: AtomicBool::new(holds_erased),
            erasings: AtomicU64::new(0),
            erased: AtomicU64::new(0),
            gone: AtomicI64::new(gone.all),
            erased_gone: AtomicI64::new(0),
        }
    }

    /// Remembers if this error means that the file is damaged, which ends the index.
    pub(super) fn note(&self, error: &rusqlite::Error) {
        if index::is_damage(error) && !self.damaged.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the search index is damaged");
            self.end();
        }
    }

    /// Sends away whoever waits for room, which would be for ever, and tells whoever fills the index.
    pub(super) fn end(&self) {
        self.room.close();
        self.ended.send_replace(true);
    }
}

pub(super) struct Writer<L: Layout> {
    pub(super) connection: Connection,
    pub(super) inbox: Receiver<Work<L>>,
    pub(super) shared: Arc<Shared>,
    pub(super) pace: Pace,
    /// The position that stands in the file.
    pub(super) written: Position,
    /// The progress with all that was handed in.
    pub(super) progress: Progress,
    pub(super) scrubber: Scrubber,
    /// Since when there is something that was taken out since erasing began.
    pub(super) unerased: Option<Instant>,
    /// Whether the pages are being scrubbed, or the log is to be emptied behind that.
    pub(super) erasing: bool,
    /// Whether there may be pages to be scrubbed at once.
    pub(super) busy: bool,
    /// Whether there may be trees to be merged.
    pub(super) unmerged: bool,
    /// What has gone, and is deleted behind it.
    pub(super) gone: Gone,
    /// How much of that was deleted when erasing began.
    pub(super) erased_gone: i64,
}

/// What has gathered: of each text only its last state.
struct Batch<L: Layout> {
    changes: Vec<L::Change>,
    /// Where in there what was told last of a text stands.
    places: HashMap<L::Subject, usize>,
    bytes: usize,
    progress: Progress,
    rooms: Vec<OwnedSemaphorePermit>,
    written: Vec<Written>,
}

impl<L: Layout> Batch<L> {
    fn up_to(progress: Progress) -> Self {
        Batch {
            changes: Vec::new(),
            places: HashMap::new(),
            bytes: 0,
            progress,
            rooms: Vec::new(),
            written: Vec::new(),
        }
    }

    fn add(&mut self, work: Work<L>) {
        self.progress = self.progress.then(work.progress);
        self.rooms.push(work.room);
        self.written.extend(work.written);
        for change in work.changes {
            self.bytes += L::bytes(&change);
            let subject = L::subject(&change);
            let earlier = subject
                .as_ref()
                .and_then(|subject| self.places.get(subject));
            match earlier.and_then(|place| self.changes.get_mut(*place)) {
                Some(earlier) if L::replaces(&change) => *earlier = change,
                Some(_) | None => {
                    if let Some(subject) = subject {
                        self.places.insert(subject, self.changes.len());
                    }
                    self.changes.push(change);
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= BATCH_TEXTS_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

impl<L: Layout> Writer<L> {
    /// Works until the queue is closed, or the file turns out to be damaged. What is in the queue
    /// then is handed in again by the position in the file: a stop must not take as long as the
    /// index is behind.
    pub(super) fn run(mut self) {
        let mut deleting = Duration::ZERO;
        while !self.shared.closing.load(Ordering::Relaxed) {
            let deletes = self.gone.any() && self.shared.healthy.load(Ordering::Relaxed);
            let patience = match self.busy || self.unmerged {
                true => self.pace.rest.min(self.pace.chores_every),
                false => self.pace.chores_every,
            };
            // Half of the time: what it writes, commits to the store may wait for.
            let patience = if deletes {
                patience.min(deleting)
            } else {
                patience
            };
            match self.inbox.recv_timeout(patience) {
                Ok(first) => {
                    let mut batch = Batch::up_to(self.progress);
                    batch.add(first);
                    self.gather(&mut batch);
                    let begun = Instant::now();
                    if !self.take_in(&mut batch) {
                        break;
                    }
                    self.delete_for(begun.elapsed().min(DELETED_AT_ONCE));
                    self.merge_behind(&batch);
                    self.erase(Turn::Busy);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.write_position();
                    self.merge();
                    let begun = Instant::now();
                    self.delete_for(Duration::ZERO);
                    deleting = begun.elapsed();
                    self.erase(Turn::Idle);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.shared.damaged.load(Ordering::Relaxed) {
            self.write_position();
            self.close();
        }
        self.shared.end();
    }

    /// Adds what comes a little later: a transaction for each message would write the same pages again
    /// and again, 16 KB a message.
    fn gather(&self, batch: &mut Batch<L>) {
        let end = Instant::now() + self.pace.gather;
        let left = || end.saturating_duration_since(Instant::now());
        while !batch.is_full()
            && let Ok(work) = self.inbox.recv_timeout(left())
        {
            batch.add(work);
        }
    }

    /// Writes a batch, however often it takes. False where there is no sense in going on.
    fn take_in(&mut self, batch: &mut Batch<L>) -> bool {
        let mut failed = 0;
        // Positions that bring no text need not be written each time: after a crash they are only
        // passed once more.
        while !batch.changes.is_empty() {
            match self.write(batch) {
                Ok(()) => break,
                Err(error) if index::is_damage(&error) => {
                    self.shared.note(&error);
                    return false;
                }
                Err(_) => {
                    let pause = self.pace.retry_after * 2_u32.pow(failed);
                    failed = (failed + 1).min(DOUBLED_MAX);
                    if !self.rest(pause) {
                        return false;
                    }
                }
            }
        }
        self.progress = batch.progress;
        self.shared.reached.send_if_modified(|reached| {
            let further = batch.progress.position > *reached;
            *reached = batch.progress.position.max(*reached);
            further
        });
        batch.written.drain(..).for_each(|written| written());
        true
    }

    /// Waits so long; false where it is to end.
    fn rest(&self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        while !self.shared.closing.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        false
    }

    /// Writes down how far it has come where no text did.
    fn write_position(&mut self) {
        if self.progress.position > self.written {
            // Unwritten, it is tried again with the next chore, or indexed once more.
            let _ = self.write(&Batch::up_to(self.progress));
        }
    }

    /// Writes a batch in one transaction, and notes whether the file could be written.
    fn write(&mut self, batch: &Batch<L>) -> rusqlite::Result<()> {
        let written = self.transact(batch);
        self.note_health(&written);
        let (taken_out, gone) = written?;
        self.written = batch.progress.position;
        self.unmerged |= !batch.changes.is_empty();
        self.gone = gone;
        self.shared.gone.store(gone.all, Ordering::Release);
        if taken_out || gone.any() {
            self.note_erased();
        }
        Ok(())
    }

    /// Notes whether the file could be written.
    fn note_health<T>(&self, written: &rusqlite::Result<T>) {
        let was_healthy = self.shared.healthy.swap(written.is_ok(), Ordering::Relaxed);
        if let Err(error) = written
            && was_healthy
        {
            tracing::error!(%error, "the search index can't be written; trying again");
        }
    }

    /// Whether something was taken out, and what has gone.
    fn transact(&mut self, batch: &Batch<L>) -> rusqlite::Result<(bool, Gone)> {
        let _pin = offload::pin_if_long(batch.bytes);
        let transaction = self.connection.transaction()?;
        let taken_out = L::write(&transaction, &batch.changes)?;
        L::set_progress(&transaction, batch.progress)?;
        let gone = L::gone(&transaction)?;
        transaction.commit()?;
        Ok((taken_out, gone))
    }

    /// Merges trees, about as much as a batch has added to them.
    fn merge_behind(&mut self, batch: &Batch<L>) {
        let _pin = offload::pin_if_long(batch.bytes);
        for _ in 0..=batch.bytes / MERGED_EVERY {
            self.merge();
        }
    }

    /// Merges trees by one step, if there are any to be merged.
    fn merge(&mut self) {
        if !self.unmerged {
            return;
        }
        self.unmerged = match index::merge(&self.connection) {
            Ok(are_more_left) => are_more_left,
            Err(error) => {
                // What is not merged is found all the same; the next batch tries it again.
                self.shared.note(&error);
                false
            }
        };
    }

    /// Deletes what has gone, for as long as it took to put something in: what goes must not become more
    /// and more.
    fn delete_for(&mut self, time: Duration) {
        if !self.gone.any() {
            return;
        }
        let _pin = cores::pin_to_batch_cores();
        let begun = Instant::now();
        // What fails is tried again with the next batch or chore.
        while self.delete_some().is_ok() && self.gone.any() && begun.elapsed() < time {}
    }

    /// Deletes some of what has gone.
    fn delete_some(&mut self) -> rusqlite::Result<()> {
        let gone = self.try_delete();
        self.note_health(&gone);
        match gone {
            Ok(gone) => {
                self.gone = gone;
                self.note_erased();
                Ok(())
            }
            Err(error) => {
                self.shared.note(&error);
                Err(error)
            }
        }
    }

    /// What has gone then.
    fn try_delete(&mut self) -> rusqlite::Result<Gone> {
        let transaction = self.connection.transaction()?;
        L::delete_gone(&transaction)?;
        let gone = L::gone(&transaction)?;
        transaction.commit()?;
        Ok(gone)
    }

    fn note_erased(&mut self) {
        self.unerased.get_or_insert_with(Instant::now);
        self.shared.holds_erased.store(true, Ordering::Release);
    }

    /// Leaves everything in the file, and neither pages nor a log with what was taken out.
    fn close(&mut self) {
        self.delete_for(DELETED_FOR);
        let scrubbed = self.scrubber.finish(&self.connection);
        let noted = scrubbed.and_then(|is_done| match is_done && !self.gone.any() {
            true => index::note_all_scrubbed(&self.connection),
            false => Ok(()),
        });
        let emptied = index::erase(&self.connection);
        if let Err(error) = noted.and(emptied) {
            tracing::error!(%error, "what was taken out of the search index can't be erased");
        }
    }

    /// Goes on with what makes the files lose what was taken out.
    fn erase(&mut self, turn: Turn) {
        match self.try_erase(turn) {
            Ok(is_busy) => self.busy = is_busy,
            Err(error) => {
                tracing::error!(%error, "what was taken out of the search index can't be erased; trying again");
                self.busy = false;
                self.erasing = false;
                self.unerased = Some(Instant::now());
            }
        }
    }

    /// Whether it is to be gone on with at once.
    fn try_erase(&mut self, turn: Turn) -> rusqlite::Result<bool> {
        let is_due = |since: Instant| since.elapsed() >= self.pace.erase_after;
        if !self.erasing && self.unerased.is_some_and(is_due) {
            self.scrubber.begin(&self.connection)?;
            self.unerased = None;
            self.erasing = true;
            self.erased_gone = self.gone.deleted;
            self.shared.erasings.fetch_add(1, Ordering::AcqRel);
        }
        if !self.erasing {
            return match turn {
                Turn::Busy => Ok(false),
                Turn::Idle => self.scrubber.slice_ahead(&self.connection),
            };
        }
        if self.scrubber.slice(&self.connection)? {
            return Ok(true);
        }
        // With a reader in the way: again with the next chore.
        if index::erase(&self.connection)? {
            self.erasing = false;
            let nothing_since = self.unerased.is_none() && !self.gone.any();
            let of = self.shared.erasings.load(Ordering::Acquire);
            self.shared
                .holds_erased
                .store(!nothing_since, Ordering::Release);
            self.shared
                .erased_gone
                .store(self.erased_gone, Ordering::Release);
            self.shared.erased.store(of, Ordering::Release);
        }
        Ok(false)
    }
}

/// Whether there was a batch to write in this turn.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Busy,
    Idle,
}
