//! Moving what the log holds into the file, on a thread of its own beside the commits: a commit
//! that moves 64 MB holds up all others for a quarter of a second. The log begins at its start
//! again only when all of it has been moved; the last bit the writer moves itself, for then nobody
//! adds to it meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::changed_pages::ChangedPages;
use super::failure::judge;
use super::file::{OpenError, connect};
use crate::store::Checkpoint;
use colloquy_model::time::Timestamp;
use colloquy_runtime::threads;

/// So many new pages in the log are moved at once: mostly a few hundred of the file, each several times.
const STEP: u32 = 2_000;
/// So many bytes of large works are moved at once: each of their pages is another one, and commits wait
/// until the disk has taken them.
const LARGE_STEP_BYTES: usize = 256 << 10;
/// From so many pages on the log is to begin at its start again …
const FULL: u32 = 16_000;
/// … where no more than these are left to be moved, a few ms for the commit that does it …
const REST_MAX: u32 = STEP / 4;
/// … from here on some more, where large commits follow so closely that there is never so little
/// left …
const LATE: u32 = 2 * FULL;
const LATE_REST_MAX: u32 = 2 * STEP;
/// … or where it has so many, because whoever moves them does not keep up: this bounds the log.
pub(super) const LONG: u32 = 4 * FULL;
/// Between two attempts of the writer, while a reader of older pages is in the way of the log's
/// beginning again.
const AGAIN: Duration = Duration::from_millis(100);

/// What is asked of the thread.
enum Ask {
    /// To move what the log holds.
    Move,
    /// To end, because the store closes.
    End,
}

/// How many pages the log has, and how many of them have been moved.
#[derive(Debug)]
struct Progress {
    log: u32,
    moved: u32,
    /// The latest move; at first that of the start.
    latest: Checkpoint,
    /// Bytes of large works since the thread was last asked to move them.
    large: usize,
    /// How often the log has begun at its start: what was moved of an earlier one says nothing of
    /// this one.
    begun: u64,
    tried: Option<Instant>,
}

impl Progress {
    /// That of a log that the start has emptied.
    fn begin() -> Self {
        Progress {
            log: 0,
            moved: 0,
            latest: Checkpoint {
                at: Timestamp::now(),
                pages: 0,
            },
            large: 0,
            begun: 0,
            tried: None,
        }
    }

    /// Notes that so many pages of the log are in the file.
    fn moved(&mut self, pages: u32) {
        self.moved = pages;
        self.latest = Checkpoint {
            at: Timestamp::now(),
            pages,
        };
    }
}

/// Tells what has been moved into the file, for as long as anybody asks.
pub(super) struct Checkpoints(Arc<Mutex<Progress>>);

impl Checkpoints {
    /// The latest move of the log into the file.
    pub(super) fn latest(&self) -> Checkpoint {
        self.0.lock().latest
    }
}

/// A handle of the thread that moves the log into the file; dropped, it ends the thread.
pub(super) struct Checkpointing {
    asks: SyncSender<Ask>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Mutex<Progress>>,
}

impl Checkpointing {
    /// Starts the thread, which is told of every commit of this writer, and so is who notes what it changes.
    ///
    /// # Errors
    /// The file can't be opened once more, or the system starts no further thread.
    pub(super) fn start(
        path: &Path,
        writer: &mut Connection,
        changed: ChangedPages,
    ) -> Result<Self, OpenError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let progress = Arc::new(Mutex::new(Progress::begin()));
        let (asks, asked) = sync_channel(1);
        let thread = {
            let progress = Arc::clone(&progress);
            // Not kept to the cores for long computations: SQLite locks its log by system calls behind which it
            // may lose the core to those, with a mutex for which the writer then waits, up to 10 ms.
            threads::spawn("checkpoints", threads::EndProcess, move || {
                run(&connection, &asked, &progress)
            })
        };
        let thread = thread.map_err(|error| OpenError::File(path.to_owned(), error))?;
        {
            // It takes the place of SQLite's own, which would move all of it within a commit.
            let (progress, asks) = (Arc::clone(&progress), asks.clone());
            writer.wal_hook(Some(move |wal: &mut Wal, pages| {
                changed.committed(pages);
                committed(&progress, &asks, wal, u32::try_from(pages).unwrap_or(0));
                // An error here would say that the commit failed, and it has not.
                Ok(())
            }))?;
        }
        Ok(Checkpointing {
            asks,
            thread: Some(thread),
            progress,
        })
    }

    /// Tells what has been moved.
    pub(super) fn checkpoints(&self) -> Checkpoints {
        Checkpoints(Arc::clone(&self.progress))
    }

    /// The next commit, or one before it, has so many bytes of large works.
    pub(super) fn note_large(&self, bytes: usize) {
        self.progress.lock().large += bytes;
    }

    /// Whether the log is longer than it gets where no reader of older pages is in the way.
    pub(super) fn is_long(&self) -> bool {
        self.progress.lock().log >= LONG
    }
}

impl Drop for Checkpointing {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.asks.send(Ask::End);
        if let Some(thread) = self.thread.take() {
            // A panic in there has ended the process.
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, asked: &Receiver<Ask>, progress: &Mutex<Progress>) {
    while let Ok(Ask::Move) = asked.recv() {
        let begun = progress.lock().begun;
        match moved(connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)) {
            Some(moved) => {
                let mut progress = progress.lock();
                if progress.begun == begun {
                    progress.moved(moved);
                }
            }
            // A full disk, for instance: not again at once.
            None => std::thread::sleep(AGAIN),
        }
    }
}

/// A commit has left so many pages in the log.
fn committed(progress: &Mutex<Progress>, asks: &SyncSender<Ask>, wal: &mut Wal, pages: u32) {
    let mut progress = progress.lock();
    if pages < progress.log {
        progress.moved = 0;
        progress.begun += 1;
    }
    progress.log = pages;
    let left = pages.saturating_sub(progress.moved);
    let rest_max = if pages >= LATE {
        LATE_REST_MAX
    } else {
        REST_MAX
    };
    if pages >= FULL && (left <= rest_max || pages >= LONG) {
        if progress.tried.is_none_or(|tried| tried.elapsed() >= AGAIN) {
            progress.tried = Some(Instant::now());
            if let Some(moved) = moved(wal.checkpoint_v2(CheckpointMode::PASSIVE)) {
                progress.moved(moved);
            }
        }
    } else if left >= STEP || progress.large >= LARGE_STEP_BYTES || pages >= FULL {
        progress.large = 0;
        // Full, it has been asked already.
        let _ = asks.try_send(Ask::Move);
    }
}

/// How many pages have been moved; none where another one was at it, or the disk refused.
fn moved(tried: rusqlite::Result<(i32, i32)>) -> Option<u32> {
    match tried {
        Ok((_, moved)) => u32::try_from(moved).ok(),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => None,
        Err(error) => {
            judge(&error);
            None
        }
    }
}
