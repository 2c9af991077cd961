//! The store's file: how it is locked and opened, and why it can't be.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::sealing::{KeyFileError, UnwrapError};
use colloquy_model::entity::Subject;
use colloquy_runtime::{file_lock, private_file};

/// How long another process that holds the file is waited for: callers are told that nothing was
/// done before they stop waiting, behind a batch before theirs and behind chores.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(1);

/// How long another process that holds the file is waited for while it is opened.
pub(super) const OPENING_MAX: Duration = Duration::from_secs(10);

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the file.
    #[error("{0} is in use by another process; stop that one, or set [store] path to another file")]
    InUse(PathBuf),
    /// Written by a newer version.
    #[error(
        "the store has schema version {found}, this server knows {known}; start a newer server"
    )]
    Newer {
        /// The file's schema version.
        found: usize,
        /// The newest that is known here.
        known: usize,
    },
    /// There is no file.
    #[error("{0} is not there: there is no store to export or to migrate")]
    Absent(PathBuf),
    /// A dump is not imported to its end.
    #[error(
        "{0} has only a part of a dump; run the same `colloquy import` again, or remove the file"
    )]
    Importing(PathBuf),
    /// The file or its folder can't be used.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// SQLite's own error, as it says it.
    #[error("the store can't be opened: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The master key can't be read or kept.
    #[error("the master key: {0}")]
    MasterKey(#[from] KeyFileError),
    /// The master key is gone.
    #[error(
        "the master key is missing: {0} is not there, and the store holds secrets that are sealed under it; put the file back, or \
         give the key by [encryption] master_key_file"
    )]
    NoMasterKey(PathBuf),
    /// The master keys at hand do not open it.
    #[error("the master key: {0}")]
    OtherMasterKey(#[from] UnwrapError),
    /// A record without which the others can't be told apart.
    #[error("{0} can't be read: {1}; put its record right, or go back to a backup")]
    Record(Subject, serde_json::Error),
}

/// SQLite's log, beside the file.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// The master key of a store that is given none, beside its file.
pub(super) fn key_of(path: &Path) -> PathBuf {
    let mut key = path.as_os_str().to_owned();
    key.push(".key");
    PathBuf::from(key)
}

/// Keeps other processes from the store, until it is dropped.
///
/// # Errors
/// Another process has it, or there is no folder to lock it in.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let lock = file_lock::try_lock(path);
    lock.map_err(|error| OpenError::File(path.to_owned(), error))?
        .ok_or_else(|| OpenError::InUse(path.to_owned()))
}

/// A connection to the store's file with the settings that all of them have.
///
/// # Errors
/// The file can't be opened, or is none of SQLite's.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, OpenError> {
    if flags.contains(OpenFlags::SQLITE_OPEN_CREATE) {
        // SQLite makes its other files as this one is.
        let made = private_file::ensure(path);
        made.map_err(|error| OpenError::File(path.to_owned(), error))?;
    }
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let reads_only = flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
    let settings = [
        ("journal_mode", "WAL"),
        ("synchronous", "FULL"),
        ("secure_delete", "ON"),
        ("wal_autocheckpoint", "0"),
        ("cache_size", if reads_only { "-4096" } else { "-16384" }),
        ("temp_store", "MEMORY"),
    ];
    for (name, value) in settings {
        if !(reads_only
            && matches!(
                name,
                "journal_mode" | "wal_autocheckpoint" | "secure_delete"
            ))
        {
            connection.pragma_update(None, name, value)?;
        }
    }
    // Without it, each new value of a parameter that an index depends on has its statement planned
    // anew: a third of the cost of a list.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(96);
    connection.busy_timeout(BUSY_MAX)?;
    Ok(connection)
}
