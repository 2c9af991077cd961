//! The folder into which a backup is restored: empty before, and after a restore that failed as it was
//! before. A restore that was killed has left what it had; the next one knows it by its names.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::attachments;
use super::manifest::KEY;
use colloquy_objects::{Disk, Location, remove_large};
use colloquy_runtime::{file_lock, private_file};

/// What the names begin with of files that are not yet what a server looks for.
const UNFINISHED: &str = "colloquy-restore.";
/// What follows in these names: a backup's file as it is fetched, what is unpacked, and what SQLite and
/// the check have beside that.
const PARTS: [&str; 9] = [
    PACKED,
    TAR,
    ATTACHMENTS,
    DATABASE,
    KEY,
    "colloquy.db-journal",
    LOG,
    "colloquy.db-shm",
    LOCK,
];
pub(super) const PACKED: &str = "packed";
pub(super) const TAR: &str = "tar";
/// The folder of attachments, beside the file of the store.
pub(super) const ATTACHMENTS: &str = "objects";
const LOG: &str = "colloquy.db-wal";
/// The file of a store, and what beside it keeps other processes from it.
pub(super) const DATABASE: &str = "colloquy.db";
const LOCK: &str = "colloquy.db.lock";

/// Why nothing can be restored into a folder.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// It has something in it.
    #[error("{0} is not empty: name an empty folder, or one that is not there")]
    NotEmpty(PathBuf),
    /// There is something of this name that is no folder.
    #[error("{0} is no folder: name an empty folder, or one that is not there")]
    NoFolder(PathBuf),
    /// It is a part of the backup.
    #[error("{0} lies in the backup itself: name a folder elsewhere")]
    Inside(PathBuf),
    /// Another process has it.
    #[error("{0} is in use: another restore goes there, or a server runs on it")]
    InUse(PathBuf),
    /// It can't be read, or something in it not be written.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
}

/// Where a part of a backup is put, in this folder, until all of it is there.
pub(super) fn unfinished(folder: &Path, part: &str) -> PathBuf {
    folder.join(format!("{UNFINISHED}{part}"))
}

/// What was fetched into the folder, under the names of what is not there yet.
#[derive(Debug)]
pub(super) struct Fetched {
    /// A file that a server could be started on if it had its name.
    pub(super) database: PathBuf,
    /// The master key that goes along.
    pub(super) key: Option<PathBuf>,
    /// The folder of attachments.
    pub(super) attachments: Option<PathBuf>,
}

/// A folder that nobody else restores into, and on which no server starts meanwhile. What was put into
/// it goes with this value, unless it is kept.
pub(super) struct Destination {
    folder: PathBuf,
    placed: Vec<PathBuf>,
    is_kept: bool,
    _lock: File,
    /// Dropped behind what stands in them.
    made: MadeFolders,
}

impl Destination {
    /// Takes the folder, which is made, and removes what an earlier restore has left. `key` is the
    /// master key of the backup, where one goes along.
    ///
    /// # Errors
    /// It has something else in it, somebody uses it, or it can't be written.
    pub(super) fn take(folder: &Path, key: Option<&[u8]>) -> Result<Self, DestinationError> {
        let made = MadeFolders::make(folder)?;
        Contents::checked(folder, key)?;
        let lock = file_lock::try_lock(&folder.join(DATABASE));
        let lock = lock.map_err(|error| failed(folder, error))?;
        let destination = Destination {
            folder: folder.to_owned(),
            placed: Vec::new(),
            is_kept: false,
            _lock: lock.ok_or_else(|| DestinationError::InUse(folder.to_owned()))?,
            made,
        };
        // Another restore may have ended before the lock was free.
        let contents = Contents::checked(folder, key)?;
        for (is_there, name) in [
            (contents.has_key, KEY),
            (contents.has_attachments, ATTACHMENTS),
        ] {
            if is_there {
                let path = folder.join(name);
                removed(&path).map_err(|error| failed(&path, error))?;
            }
        }
        destination.remove_unfinished()?;
        Ok(destination)
    }

    /// Puts what was fetched where a server looks for it, the database last; gives its path.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(super) fn keep(mut self, fetched: &Fetched) -> Result<PathBuf, DestinationError> {
        let log = unfinished(&self.folder, LOG);
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            // What stands in it alone would be lost.
            return Err(failed(&log, io::Error::other("it was not emptied")));
        }
        let place = self.folder.join(DATABASE);
        let key = fetched.key.iter().map(|key| (key, self.folder.join(KEY)));
        let attachments = fetched.attachments.iter();
        let attachments = attachments.map(|files| (files, self.folder.join(ATTACHMENTS)));
        let database = [(&fetched.database, place.clone())];
        for (from, to) in key.chain(attachments).chain(database) {
            fs::rename(from, &to).map_err(|error| failed(&to, error))?;
            self.placed.push(to);
        }
        self.remove_unfinished()?;
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(&self.folder, error))?;
        self.is_kept = true;
        self.made.keep();
        Ok(place)
    }

    fn remove_unfinished(&self) -> Result<(), DestinationError> {
        for path in Contents::of(&self.folder)?.unfinished {
            removed(&path).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

/// Removes a file, or a folder with everything in it.
fn removed(path: &Path) -> io::Result<()> {
    match path.is_dir() {
        true => attachments::remove(path),
        false => remove_large(path, Disk::Own),
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut left = self.remove_unfinished();
        let lock = self.folder.join(LOCK);
        for path in self.placed.iter().chain([&lock]) {
            left = left.and(removed(path).map_err(|error| failed(path, error)));
        }
        if let Err(error) = left {
            tracing::warn!(%error, "a part of the backup that was not restored is left");
        }
    }
}

/// The folders that had to be made, the innermost first. They go with this value, unless they are kept
/// or have something in them.
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    fn make(folder: &Path) -> Result<Self, DestinationError> {
        let is_missing = |one: &&Path| !one.as_os_str().is_empty() && !one.exists();
        let missing = folder.ancestors().take_while(is_missing);
        let made = MadeFolders(missing.map(Path::to_owned).collect());
        private_file::ensure_folder(folder).map_err(|error| failed(folder, error))?;
        Ok(made)
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// What stands in a folder.
#[derive(Debug, Default)]
struct Contents {
    /// What a restore has not put in its place.
    unfinished: Vec<PathBuf>,
    has_key: bool,
    has_attachments: bool,
    has_others: bool,
}

/// Refuses a folder that lies in the backup, before anything is read of it.
///
/// # Errors
/// It does.
pub(super) fn check_apart(folder: &Path, backup: &Location) -> Result<(), DestinationError> {
    let Some(backup) = backup.folder().and_then(|path| path.canonicalize().ok()) else {
        return Ok(());
    };
    let whole = std::path::absolute(folder).map_err(|error| failed(folder, error))?;
    // What is not there yet would be made in the nearest folder that is.
    let nearest = whole.ancestors().find_map(|one| one.canonicalize().ok());
    match nearest.is_some_and(|nearest| nearest.starts_with(&backup)) {
        true => Err(DestinationError::Inside(folder.to_owned())),
        false => Ok(()),
    }
}

/// Refuses a folder with something in it that no restore has left.
///
/// # Errors
/// There is such a thing, or it is no folder.
pub(super) fn check_empty(folder: &Path) -> Result<(), DestinationError> {
    Contents::of(folder)?.check(folder)
}

impl Contents {
    /// Nothing where there is no such folder.
    fn of(folder: &Path) -> Result<Self, DestinationError> {
        let mut contents = Contents::default();
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(contents),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(DestinationError::NoFolder(folder.to_owned()));
            }
            entries => entries.map_err(|error| failed(folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(folder, error))?;
            let about = entry.metadata().map_err(|error| failed(folder, error))?;
            let name = entry.file_name();
            match name.to_str() {
                Some(name) if is_unfinished(name, about.is_dir()) => {
                    contents.unfinished.push(entry.path());
                }
                // It says nothing once its holder is gone.
                Some(LOCK) if about.is_file() && about.len() == 0 => {}
                Some(KEY) if about.is_file() => contents.has_key = true,
                Some(ATTACHMENTS) if about.is_dir() => contents.has_attachments = true,
                Some(_) | None => contents.has_others = true,
            }
        }
        Ok(contents)
    }

    /// What stands in a folder into which a backup with this key, if any, can be restored.
    fn checked(folder: &Path, key: Option<&[u8]>) -> Result<Self, DestinationError> {
        let contents = Contents::of(folder)?;
        contents.check(folder)?;
        if contents.has_key {
            let path = folder.join(KEY);
            let own = fs::read(&path).map_err(|error| failed(&path, error))?;
            if key != Some(own.as_slice()) {
                return Err(DestinationError::NotEmpty(folder.to_owned()));
            }
        }
        Ok(contents)
    }

    /// A key or a folder of attachments alone is somebody's. Beside a database that is not in its place it
    /// may be that of a restore that was killed at its end; of a key that shows when it is compared.
    fn check(&self, folder: &Path) -> Result<(), DestinationError> {
        let has_database = || self.unfinished.contains(&unfinished(folder, DATABASE));
        let has_placed = self.has_key || self.has_attachments;
        match !self.has_others && (!has_placed || has_database()) {
            true => Ok(()),
            false => Err(DestinationError::NotEmpty(folder.to_owned())),
        }
    }
}

fn is_unfinished(name: &str, is_folder: bool) -> bool {
    let part = name.strip_prefix(UNFINISHED);
    part.is_some_and(|part| PARTS.contains(&part) && (part == ATTACHMENTS) == is_folder)
}

fn failed(path: &Path, error: io::Error) -> DestinationError {
    DestinationError::File(path.to_owned(), error)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const KEY_OF_IT: &[u8] = b"the master key that goes along";

    /// As a restore leaves a folder that has fetched everything.
    fn fetched(folder: &Path) -> Fetched {
        let [database, key, files] =
            [DATABASE, KEY, ATTACHMENTS].map(|part| unfinished(folder, part));
        fs::write(&database, "rows").unwrap();
        fs::write(&key, KEY_OF_IT).unwrap();
        fs::create_dir_all(files.join("attachments/1")).unwrap();
        fs::write(files.join("attachments/1/att_1"), "bytes").unwrap();
        Fetched {
            database,
            key: Some(key),
            attachments: Some(files),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
            .into_iter()
            .map(|name| name.into_string().unwrap())
            .collect()
    }

    fn is_refused(folder: &Path, key: Option<&[u8]>) -> bool {
        let taken = Destination::take(folder, key);
        matches!(taken, Err(DestinationError::NotEmpty(_)))
    }

    #[test]
    fn what_is_kept_has_its_names_and_what_is_not_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("made/for it");
        let destination = Destination::take(&folder, Some(KEY_OF_IT)).unwrap();
        fetched(&folder);
        let second = Destination::take(&folder, Some(KEY_OF_IT));
        assert!(matches!(second, Err(DestinationError::InUse(_))));
        drop(destination);
        assert_eq!(names(root.path()), [] as [&str; 0]);
        let destination = Destination::take(&folder, Some(KEY_OF_IT)).unwrap();
        let placed = destination.keep(&fetched(&folder)).unwrap();
        assert_eq!(fs::read(placed).unwrap(), b"rows");
        let kept = [
            "colloquy.db",
            "colloquy.db.key",
            "colloquy.db.lock",
            ATTACHMENTS,
        ];
        assert_eq!(names(&folder), kept);
        let file = folder.join(ATTACHMENTS).join("attachments/1/att_1");
        assert_eq!(fs::read(file).unwrap(), b"bytes");
        assert!(is_refused(&folder, Some(KEY_OF_IT)));
    }

    #[test]
    fn of_one_that_was_killed_between_key_and_database_only_its_own_key_goes() {
        let root = tempfile::tempdir().unwrap();
        let fetched = fetched(root.path());
        let placed = root.path().join(KEY);
        fs::rename(fetched.key.unwrap(), &placed).unwrap();
        let files = root.path().join(ATTACHMENTS);
        fs::rename(fetched.attachments.unwrap(), &files).unwrap();
        let left = names(root.path());
        for other in [None, Some(&b"another key"[..])] {
            assert!(is_refused(root.path(), other));
            assert_eq!(names(root.path()), left);
        }
        drop(Destination::take(root.path(), Some(KEY_OF_IT)).unwrap());
        assert_eq!(names(root.path()), [] as [&str; 0]);
        // Beside no database that is not in its place it is somebody's.
        fs::write(&placed, KEY_OF_IT).unwrap();
        assert!(is_refused(root.path(), Some(KEY_OF_IT)));
        assert!(placed.exists());
        fs::remove_file(&placed).unwrap();
        fs::create_dir(&files).unwrap();
        assert!(is_refused(root.path(), None));
        assert!(files.exists());
    }

    #[test]
    fn a_log_that_was_not_emptied_is_not_left_behind() {
        let root = tempfile::tempdir().unwrap();
        let destination = Destination::take(root.path(), None).unwrap();
        let fetched = fetched(root.path());
        fs::write(unfinished(root.path(), LOG), "more rows").unwrap();
        assert!(destination.keep(&fetched).is_err());
        assert_eq!(names(root.path()), [] as [&str; 0]);
    }
}
