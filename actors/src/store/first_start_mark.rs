//! The mark of a first start whose secrets nobody has seen: a file beside the store's, from before the
//! store is made until they are shown.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What stands behind the store's path in the mark's.
const ENDING: &str = ".first-start";

/// The mark of one store.
#[derive(Debug)]
pub struct FirstStartMark(PathBuf);

impl FirstStartMark {
    /// That of the store in this file.
    #[must_use]
    pub fn of(store: &Path) -> Self {
        let mut path = OsString::from(store);
        path.push(ENDING);
        FirstStartMark(path.into())
    }

    /// Whether it is there.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.exists()
    }

    /// Sets it, durably.
    ///
    /// # Errors
    /// It may not be there after a crash.
    pub fn set(&self) -> io::Result<()> {
        File::create(&self.0)?.sync_all()?;
        self.sync_folder()
    }

    /// Takes it away, durably.
    ///
    /// # Errors
    /// It may be there again after a crash.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        self.sync_folder()
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self
            .0
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}
