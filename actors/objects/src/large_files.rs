//! Large files of this machine, written and removed so that the disk is left to others in between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

/// How many bytes of a file may be written that the disk has not taken yet, for the reason that
/// [`SyncedWriter`] gives.
pub(crate) const UNSYNCED_MAX: usize = 128 << 10;

/// How much of a file is given back to the file system at once, for the reason that [`remove_large`]
/// gives.
const FREED_AT_ONCE: u64 = 1 << 20;

/// The rests after a sync, in times of what it took: of what was written, and of what was given back,
/// since a file system goes on with that behind its sync.
const WRITTEN_REST: u32 = 1;
const FREED_REST: u32 = 3;

/// Who waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Somebody's commits, too: it is left to them for as long as it was used, or longer.
    Shared,
    /// Nobody else: it is used without a rest.
    Own,
}

impl Disk {
    fn rest(self, used: Duration) -> Duration {
        match self {
            Disk::Shared => used,
            Disk::Own => Duration::ZERO,
        }
    }
}

/// A file that is synced as it is written. Otherwise a large one is dirty memory until its only sync,
/// and whoever syncs a small write meanwhile waits behind all of it.
///
/// On a virtual disk, the p99 of writes of 8 KiB, each synced, was 2 ms alone; beside one file 25 ms
/// where that was synced after each megabyte, 5 ms after 256 KiB, and 2 ms after 128 KiB with such a
/// rest, which left the file a third of its speed.
#[derive(Debug)]
pub struct SyncedWriter {
    file: File,
    disk: Disk,
    unsynced: usize,
}

impl SyncedWriter {
    /// Goes on writing where this file stands.
    #[must_use]
    pub fn new(file: File, disk: Disk) -> Self {
        SyncedWriter {
            file,
            disk,
            unsynced: 0,
        }
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
            sync_in_turn(&self.file, self.disk)?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A [`SyncedWriter`] for what comes from elsewhere.
#[derive(Debug)]
pub struct SyncedFile {
    file: tokio::fs::File,
    disk: Disk,
    unsynced: usize,
}

impl SyncedFile {
    /// Goes on writing where this file stands.
    #[must_use]
    pub fn new(file: File, disk: Disk) -> Self {
        SyncedFile {
            file: file.into(),
            disk,
            unsynced: 0,
        }
    }

    /// Writes these bytes behind the others; waits for the disk where too many are unsynced.
    ///
    /// # Errors
    /// The file can't be written, or it is not known what the disk has.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(UNSYNCED_MAX) {
            self.file.write_all(piece).await?;
            self.unsynced += piece.len();
            if self.unsynced >= UNSYNCED_MAX {
                let begun = Instant::now();
                self.file.sync_data().await?;
                self.unsynced = 0;
                tokio::time::sleep(self.disk.rest(begun.elapsed() * WRITTEN_REST)).await;
            }
        }
        Ok(())
    }

    /// As [`SyncedWriter::finish`].
    ///
    /// # Errors
    /// As [`SyncedWriter::finish`].
    pub async fn finish(self) -> io::Result<()> {
        self.file.sync_all().await
    }
}

/// Syncs what was written of a file, and leaves the disk to others, as [`SyncedWriter`] does.
///
/// # Errors
/// It is not known what the disk has.
pub fn sync_in_turn(file: &File, disk: Disk) -> io::Result<()> {
    std::thread::sleep(disk.rest(sync(file)? * WRITTEN_REST));
    Ok(())
}

/// Syncs a file that somebody else writes, and leaves the disk to others, as [`SyncedWriter`] does
/// where it is shared.
///
/// # Errors
/// It is not known what the disk has.
pub async fn sync_growing(path: &Path) -> io::Result<()> {
    let path = path.to_owned();
    let synced = tokio::task::spawn_blocking(move || sync(&File::open(path)?));
    let took = synced.await.map_err(io::Error::other)??;
    tokio::time::sleep(Disk::Shared.rest(took * WRITTEN_REST)).await;
    Ok(())
}

/// Removes a file that nobody needs any more, and gives its space back in steps, from its end on. To
/// free all of a large one takes a file system tens of milliseconds, more where it tells the disk
/// (`discard`), in which it syncs nothing: beside 200 MB the p99 of small writes, 2 ms alone, was 36 ms
/// in steps of 16 MiB, 2 ms in these.
///
/// # Errors
/// The file is still there.
pub fn remove_large(path: &Path, disk: Disk) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    fs::remove_file(path)?;
    give_back(&file, disk);
    Ok(())
}

/// Gives the space of a file back that has no name any more; one that still has another name (a hard
/// link) keeps it. What can't be given back so goes when it is closed.
pub(crate) fn give_back(file: &File, disk: Disk) {
    let mut left = match file.metadata() {
        Ok(file) if file.nlink() == 0 => file.len(),
        Ok(_) | Err(_) => return,
    };
    while left > FREED_AT_ONCE {
        left -= FREED_AT_ONCE;
        let Ok(synced) = file.set_len(left).and_then(|()| sync(file)) else {
            return;
        };
        std::thread::sleep(disk.rest(synced * FREED_REST));
    }
}

/// Syncs what was written of a file; gives how long that took.
fn sync(file: &File) -> io::Result<Duration> {
    let begun = Instant::now();
    file.sync_data()?;
    Ok(begun.elapsed())
}
