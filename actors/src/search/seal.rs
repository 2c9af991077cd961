//! Whether the index can be trusted. It is not synced while it is written: its bytes would stand
//! before those of the commits in the disk's queue. What a process leaves behind when it crashes is whole all the same, as the
//! kernel has it; only what a crash of the machine leaves may be anything. So a mark beside the file says under which boot of
//! the machine it is being written; closed and synced, it has none. One that was found damaged has an empty mark.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Linux: an identifier that is another one after each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The mark beside an index that is being written.
pub(super) struct Seal {
    file: PathBuf,
    mark: PathBuf,
}

impl Seal {
    /// The seal of this index.
    pub(super) fn of(path: &Path) -> Self {
        let mut mark = path.as_os_str().to_owned();
        mark.push(".writing");
        Seal { file: path.to_owned(), mark: PathBuf::from(mark) }
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

    /// Lets the next opening begin anew. Where that can't be written, it may find the damage by itself.
    pub(super) fn distrust(&self) {
        let _ = std::fs::write(&self.mark, b"");
    }

    /// The mark's file.
    pub(super) fn mark(&self) -> &Path {
        &self.mark
    }

    /// Marks the index before it is written; false where that can't be done durably, so that it has to be synced.
    pub(super) fn break_open(&self) -> bool {
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
        File::open(&self.file)?.sync_all()?;
        self.sync_folder()?;
        match std::fs::remove_file(&self.mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.mark.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn boot() -> Option<String> {
    std::fs::read_to_string(BOOT_ID).ok().filter(|boot| !boot.is_empty())
}
