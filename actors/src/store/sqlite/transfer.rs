//! The store's file, opened to take everything out of it or to put a dump into it, while no server
//! uses it.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::batch::Counts;
use super::codec::{Columns, columns, whole};
use super::file::{OPENING_MAX, OpenError, connect, lock};
use super::{erasing, recovery, redacting, schema, store_key};
use crate::sealing::{GivenKeys, MasterKeys};
use crate::store::eraser::Eraser;
use crate::store::{FirstStartMark, ImportMark, TransferError};

/// Bytes of texts that are erased in one transaction.
const ERASE_BYTES: usize = 1 << 20;

impl From<rusqlite::Error> for TransferError {
    fn from(error: rusqlite::Error) -> Self {
        TransferError::Store(Box::new(error))
    }
}

/// A file that nobody else uses.
#[derive(Debug)]
pub struct SqliteTransfer {
    pub(super) connection: Connection,
    /// Blocks that an import has written.
    pub(super) blocks: u64,
    /// What unwraps the store key of an import.
    pub(super) master_keys: Option<MasterKeys>,
    /// The mark of an earlier store at this place, whose secrets nobody has seen.
    pub(super) first_start: FirstStartMark,
    /// Held as long as it is open: a server is refused.
    _lock: File,
}

impl SqliteTransfer {
    /// Opens a file to take everything out of it. It is first brought to the state that a server
    /// would begin with, without what is still to be erased: `redacted` says what may stay of the
    /// JSON of a document that is gone.
    ///
    /// # Errors
    /// There is none, a server has it, it has only a part of a dump, or it can't be read.
    pub fn to_export(path: &Path, redacted: fn(&[u8]) -> Vec<u8>) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Absent(path.to_owned()));
        }
        let mut opened = Self::open(path)?;
        refuse_part(&opened.connection, path)?;
        recovery::recover(&mut opened.connection)?;
        opened.erase(&Eraser(redacted))?;
        Ok(opened)
    }

    /// Opens or makes a file to put a dump into it, whose store key one of these master keys, or the one
    /// beside the file, must unwrap.
    ///
    /// # Errors
    /// A server has it, or it can't be read.
    pub fn to_import(path: &Path, given: &GivenKeys) -> Result<Self, OpenError> {
        let mut opened = Self::open(path)?;
        opened.master_keys = store_key::at_hand(path, given)?;
        Ok(opened)
    }

    fn open(path: &Path) -> Result<Self, OpenError> {
        let lock = lock(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(path, flags)?;
        connection.busy_timeout(OPENING_MAX)?;
        schema::migrate(&mut connection)?;
        Ok(SqliteTransfer {
            connection,
            blocks: 0,
            master_keys: None,
            first_start: FirstStartMark::of(path),
            _lock: lock,
        })
    }

    /// Erases all that is left to be erased.
    fn erase(&mut self, eraser: &Eraser) -> rusqlite::Result<()> {
        loop {
            let transaction = self.connection.transaction()?;
            let any = redacting::slice(&transaction, ERASE_BYTES)?
                || erasing::slice(&transaction, eraser, ERASE_BYTES)?;
            transaction.commit()?;
            if !any {
                self.empty_log()?;
                return erasing::log_is_empty(&self.connection);
            }
        }
    }

    /// Moves what stands in SQLite's log into the file.
    pub(super) fn empty_log(&self) -> rusqlite::Result<()> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }
}

columns! {
    /// How far an import has come.
    struct ImportRow {
        lines: u64,
        digest: [u8; 32],
        done: bool,
    }
}

/// An import into a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileImport {
    pub(super) mark: ImportMark,
    pub(super) is_done: bool,
}

/// How far an import into this file has come; none where there was none.
pub(super) fn import_of(connection: &Connection) -> rusqlite::Result<Option<FileImport>> {
    let sql = format!("SELECT {} FROM imports", ImportRow::COLUMNS);
    let found = connection
        .query_row(&sql, [], whole::<ImportRow>)
        .optional()?;
    Ok(found.map(|row| FileImport {
        mark: ImportMark {
            lines: row.lines,
            digest: row.digest,
        },
        is_done: row.done,
    }))
}

/// Brings a file to this version, unwraps its store key and recovers what a crash left.
///
/// # Errors
/// It is newer than this, has only a part of a dump, or its master key is not at hand.
pub(super) fn recovered(
    connection: &mut Connection,
    path: &Path,
    given: &GivenKeys,
) -> Result<(Counts, MasterKeys), OpenError> {
    schema::migrate(connection)?;
    refuse_part(connection, path)?;
    let master_keys = store_key::open(connection, path, given)?;
    Ok((recovery::recover(connection)?, master_keys))
}

/// Refuses a file that has only a part of a dump.
///
/// # Errors
/// That it has.
pub(super) fn refuse_part(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match import_of(connection)? {
        Some(import) if !import.is_done => Err(OpenError::Importing(path.to_owned())),
        Some(_) | None => Ok(()),
    }
}
