//! Large files of this machine, written and removed so that the disk is left to others in between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// How many bytes of a file may be written that the disk has not taken yet, for the reason that
/// [`SyncedWriter`] gives.
pub const UNSYNCED_MAX: usize = 1 << 20;

/// How much of a file is given back to the file system at once.
const FREED_AT_ONCE: u64 = 16 << 20;

/// A file that is synced as it is written. Otherwise a large one is dirty memory until its only sync,
/// and whoever syncs a small write meanwhile waits behind all of it: 150 ms beside a backup of
/// 0.9 GB, where 7 ms are the longest without (`tests/bench/run --only backup_beside`).
#[derive(Debug)]
pub struct SyncedWriter {
    file: File,
    unsynced: usize,
}

impl SyncedWriter {
    /// Goes on writing where this file stands.
    #[must_use]
    pub fn new(file: File) -> Self {
        SyncedWriter { file, unsynced: 0 }
    }

    /// Syncs what is left, and what the file system knows of the file.
    ///
    /// # Errors
    /// It is not known what the disk has.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for SyncedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..UNSYNCED_MAX).unwrap_or(bytes);
        let written = self.file.write(piece)?;
        self.unsynced += written;
        if self.unsynced >= UNSYNCED_MAX {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Removes a file that nobody reads any more, from its end on. To free all of a large one takes a file
/// system tens of milliseconds, more where it tells the disk (`discard`), in which it syncs nothing.
///
/// # Errors
/// The file, or its beginning, is still there.
pub fn remove_large(path: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let mut left = file.metadata()?.len();
    while left > FREED_AT_ONCE {
        left -= FREED_AT_ONCE;
        file.set_len(left)?;
        file.sync_data()?;
    }
    fs::remove_file(path)
}
