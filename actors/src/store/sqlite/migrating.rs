//! Brings a file of an earlier version to this one before a server starts on it, a step for each
//! version; and does the same to a copy (a dry run).

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::file::{OpenError, connect, lock, log_of};
use super::schema::{self, MIGRATIONS};
use crate::store::Finding;

/// A file that is in use by nobody, on its way to this version.
pub struct Migration {
    _lock: File,
    path: PathBuf,
    connection: Connection,
    version: usize,
}

/// A copy of a file, which goes when this is dropped.
pub struct DryRun {
    /// Its way to this version.
    pub migration: Migration,
    /// Keeps others from the file that it is a copy of.
    _original: File,
}

impl Migration {
    /// Opens the file, and changes nothing in it.
    ///
    /// # Errors
    /// It is not there, in use, or of a newer version.
    pub fn of(path: &Path) -> Result<Self, OpenError> {
        let lock = locked(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        Ok(Migration {
            _lock: lock,
            path: path.to_owned(),
            version: schema::version(&connection)?,
            connection,
        })
    }

    /// The version that the file has now.
    #[must_use]
    pub fn version(&self) -> usize {
        self.version
    }

    /// What the version of each step that is left has, for people.
    #[must_use]
    pub fn steps(&self) -> Vec<&'static str> {
        let left = MIGRATIONS.iter().skip(self.version);
        left.map(|migration| migration.description).collect()
    }

    /// Takes the next step, whole or not at all; whether there was one.
    ///
    /// # Errors
    /// It was not taken.
    pub fn step(&mut self) -> Result<bool, OpenError> {
        let Some(next) = MIGRATIONS.get(self.version) else {
            return Ok(false);
        };
        self.version += 1;
        schema::step(&mut self.connection, next, self.version)?;
        Ok(true)
    }
}

impl DryRun {
    /// Copies the file beside it. The file itself is only read.
    ///
    /// # Errors
    /// It is not there, in use, or of a newer version; or there is no room for the copy.
    pub fn of(path: &Path) -> Result<Self, OpenError> {
        let original = locked(path)?;
        let mut copy = path.as_os_str().to_owned();
        copy.push(".dry-run");
        let copy = PathBuf::from(copy);
        remove(&copy);
        let source = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::version(&source)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut target = connect(&copy, flags)?;
        let copied = Backup::new(&source, &mut target).and_then(|copying| copying.step(-1));
        drop(target);
        if let Err(error) = copied {
            remove(&copy);
            return Err(error.into());
        }
        Ok(DryRun {
            migration: Migration::of(&copy)?,
            _original: original,
        })
    }

    /// Checks the copy, as `colloquy check` would the file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn check(self) -> Result<Vec<Finding>, OpenError> {
        let DryRun {
            migration,
            _original,
        } = self;
        let path = migration.path.clone();
        drop(migration);
        let found = super::check(&path);
        remove(&path);
        found
    }
}

fn locked(path: &Path) -> Result<File, OpenError> {
    match path.exists() {
        true => lock(path),
        false => Err(OpenError::Absent(path.to_owned())),
    }
}

/// Removes a copy; one that stays is removed by the next dry run.
fn remove(copy: &Path) {
    let mut beside = copy.as_os_str().to_owned();
    beside.push("-shm");
    let mut lock = copy.as_os_str().to_owned();
    lock.push(".lock");
    for path in [copy, &log_of(copy), Path::new(&beside), Path::new(&lock)] {
        let _ = std::fs::remove_file(path);
    }
}
