//! A copy of the file while it is in use, by SQLite's backup of an open database
//! (<https://sqlite.org/backup.html>), in steps between transactions.
//!
//! It is the writer's own connection that copies: then what is committed meanwhile goes into the
//! copy, too. A reader would have to hold one old state of the file for as long as it takes, and
//! the log would keep until then what a redaction has to take out of it within seconds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::store::SnapshotError;
use colloquy_model::position::Position;
use colloquy_runtime::private_file;

/// Pages that are copied in one step, which are also what a disk takes without others noticing: 128 KiB.
/// An eighth of a millisecond, which a commit may have to wait.
const PAGES: i32 = 32;
/// The rest after a step, in times of what the step took: nine tenths of the writer's time stay
/// with commits.
const REST: u32 = 9;
/// Between two looks at whether what was copied is synced.
const LOOK: Duration = Duration::from_millis(1);

/// A copy that somebody waits for.
pub(super) struct Asked {
    pub(super) target: Box<Connection>,
    /// As [`crate::store::Snapshots::snapshot`] takes it.
    pub(super) unsynced: Arc<AtomicBool>,
    pub(super) reply: oneshot::Sender<Result<Position, SnapshotError>>,
}

/// Makes the file for a copy. Whoever makes it syncs it: nothing is lost that was acknowledged.
pub(super) fn target(path: &Path) -> Result<Connection, SnapshotError> {
    private_file::ensure(path).map_err(|error| SnapshotError::NotWritten(error.to_string()))?;
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let target = Connection::open_with_flags(path, flags)?;
        for (name, value) in [("journal_mode", "OFF"), ("synchronous", "OFF")] {
            target.pragma_update(None, name, value)?;
        }
        Ok(target)
    };
    open().map_err(|error: rusqlite::Error| SnapshotError::NotWritten(error.to_string()))
}

/// A copy that is under way.
pub(super) struct Copying<'c> {
    backup: Backup<'c, 'c>,
    unsynced: &'c AtomicBool,
    due: Instant,
}

impl<'c> Copying<'c> {
    /// Begins to copy. It sets `unsynced` behind each step, and goes on once that is cleared.
    ///
    /// # Errors
    /// The target is not empty or in use.
    pub(super) fn begin(
        source: &'c Connection,
        target: &'c mut Connection,
        unsynced: &'c AtomicBool,
    ) -> Result<Self, SnapshotError> {
        Ok(Copying {
            backup: Backup::new(source, target).map_err(not_written)?,
            unsynced,
            due: Instant::now(),
        })
    }

    /// How long until the next step is due.
    pub(super) fn rest(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Pages that are still to be copied.
    #[cfg(test)]
    pub(super) fn left(&self) -> i32 {
        self.backup.progress().remaining
    }

    /// Copies some pages, where that is due; whether all are there.
    ///
    /// # Errors
    /// The copy can't be written: nothing will come of it.
    pub(super) fn step(&mut self) -> Result<bool, SnapshotError> {
        let begun = Instant::now();
        if begun < self.due {
            return Ok(false);
        }
        if self.unsynced.load(Ordering::Acquire) {
            self.due = begun + LOOK;
            return Ok(false);
        }
        let is_done = self.copy_pages()?;
        self.unsynced.store(true, Ordering::Release);
        self.due = Instant::now() + begun.elapsed() * REST;
        Ok(is_done)
    }

    /// Copies the next pages; whether all are there.
    pub(super) fn copy_pages(&mut self) -> Result<bool, SnapshotError> {
        let stepped = self.backup.step(PAGES).map_err(not_written)?;
        // Busy or locked: the checkpoints' thread has the file for a moment.
        Ok(matches!(stepped, StepResult::Done))
    }
}

fn not_written(error: rusqlite::Error) -> SnapshotError {
    SnapshotError::NotWritten(error.to_string())
}
