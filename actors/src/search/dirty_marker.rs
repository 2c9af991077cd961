//! Whether the index can be trusted. It is not synced while it is written: its bytes would stand
//! before those of the commits in the disk's queue. What a process leaves behind when it crashes is
//! whole all the same, as the kernel has it; only what a crash of the machine leaves may be
//! anything. So a mark beside the file says under which boot of the machine it is being written;
//! closed and synced, it has none. One that was found damaged has an empty mark.
//!
//! What not syncing saves is not seen in pairs with `synchronous=NORMAL`, on a disk whose fsync
//! takes a millisecond: 1.05 of the CPU of creating a document (quartiles 0.91 to 1.16), p99 44
//! and 45 ms.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Linux: an identifier that is another one after each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The mark beside an index that is being written.
pub(super) struct DirtyMarker {
    file: PathBuf,
    log: PathBuf,
    mark: PathBuf,
}

impl DirtyMarker {
    /// The mark beside the index in this file, whether it is there or not.
    pub(super) fn of(path: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        DirtyMarker {
            file: path.to_owned(),
            log: beside("-wal"),
            mark: beside(".writing"),
        }
    }

    /// Why the index is not to be trusted.
    pub(super) fn distrusted(&self) -> Option<&'static str> {
        let written = std::fs::read_to_string(&self.mark).ok()?;
        if written.is_empty() {
            return Some("it was found damaged");
        }
        let is_stale = boot().is_none_or(|boot| boot != written);
        is_stale.then_some("the machine stopped while it was being written")
    }

    /// Lets the next opening begin anew. Where that can't be written, it may find the damage by
    /// itself.
    pub(super) fn mark_corrupt(&self) {
        let _ = std::fs::write(&self.mark, b"");
    }

    /// The file that is there while the index is marked.
    pub(super) fn mark(&self) -> &Path {
        &self.mark
    }

    /// Marks the index before it is written; false where that can't be done durably, so that it has
    /// to be synced.
    pub(super) fn mark_dirty(&self) -> bool {
        let marked = || -> io::Result<bool> {
            let Some(boot) = boot() else { return Ok(false) };
            let mut mark = File::create(&self.mark)?;
            mark.write_all(boot.as_bytes())?;
            mark.sync_all()?;
            self.sync_folder()?;
            Ok(true)
        };
        marked().unwrap_or(false)
    }

    /// Takes the mark away, of an index whose log is empty and which nobody writes any more.
    ///
    /// # Errors
    /// It can't be synced: the mark stays.
    pub(super) fn close(&self) -> io::Result<()> {
        self.close_on(&Real)
    }

    /// File and log are synced before the mark goes: an emptied log that comes back would be played
    /// into the file again.
    fn close_on(&self, disk: &impl Disk) -> io::Result<()> {
        disk.sync(&self.file)?;
        missing_or(disk.sync(&self.log))?;
        disk.sync(self.folder())?;
        missing_or(disk.remove(&self.mark))
    }

    fn sync_folder(&self) -> io::Result<()> {
        Real.sync(self.folder())
    }

    fn folder(&self) -> &Path {
        let folder = self
            .mark
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new("."))
    }
}

/// What is done to the disk when the index is closed.
trait Disk {
    /// Brings a file, or the names in a folder, to the disk.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Takes a file away.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The real disk; a test puts one in its place that notes what is done to it.
struct Real;

impl Disk for Real {
    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

/// A file that is not there needs nothing done to it.
fn missing_or(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn boot() -> Option<String> {
    std::fs::read_to_string(BOOT_ID)
        .ok()
        .filter(|boot| !boot.is_empty())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::cell::RefCell;

    use super::*;

    /// Notes what is done to it, and refuses one thing.
    #[derive(Default)]
    struct Noted {
        done: RefCell<Vec<String>>,
        refuses: &'static str,
    }

    impl Noted {
        fn note(&self, what: &str, path: &Path) -> io::Result<()> {
            let done = format!("{what} {}", path.display());
            if done == self.refuses {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.done.borrow_mut().push(done);
            Ok(())
        }
    }

    impl Disk for Noted {
        fn sync(&self, path: &Path) -> io::Result<()> {
            self.note("sync", path)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.note("remove", path)
        }
    }

    #[test]
    fn the_mark_goes_after_the_file_its_log_and_their_names_are_synced() {
        const STEPS: [&str; 4] = [
            "sync data/c.search",
            "sync data/c.search-wal",
            "sync data",
            "remove data/c.search.writing",
        ];
        let marker = DirtyMarker::of(Path::new("data/c.search"));
        let disk = Noted::default();
        marker.close_on(&disk).unwrap();
        assert_eq!(*disk.done.borrow(), STEPS);
        for (refused, refuses) in STEPS.into_iter().enumerate() {
            let disk = Noted {
                refuses,
                ..Noted::default()
            };
            assert!(marker.close_on(&disk).is_err());
            let done: Vec<&str> = STEPS.into_iter().take(refused).collect();
            assert_eq!(
                *disk.done.borrow(),
                done,
                "what can't be synced stays marked"
            );
        }
    }
}
