//! What the tables of an index hold: how a change is written and how much it is. Knows no thread
//! and no queue.

use std::hash::Hash;
use std::time::Duration;

use rusqlite::Connection;

use colloquy_model::position::Position;

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// It knows everything up to here.
    pub position: Position,
    /// It may know some of what happened up to here.
    pub ahead: Position,
    /// Whether something behind the position waits to be taken in.
    pub lags: bool,
}

impl Progress {
    /// Where everything is known up to here, and nothing further.
    #[must_use]
    pub fn at(position: Position) -> Self {
        Progress {
            position,
            ahead: position,
            lags: false,
        }
    }

    /// The progress with what was handed in later.
    #[must_use]
    pub(super) fn then(self, later: Self) -> Self {
        Progress {
            position: self.position.max(later.position),
            ahead: self.ahead.max(later.ahead),
            lags: later.lags,
        }
    }
}

/// What is not found any more, and deleted behind that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gone {
    /// How many have gone since the index was made.
    pub all: i64,
    /// So many of them, the first ones, are deleted.
    pub deleted: i64,
}

impl Gone {
    /// Whether something is left to be deleted.
    pub(super) fn any(self) -> bool {
        self.deleted < self.all
    }
}

/// The tables of an index: the table `progress` with one row, in it the `position` and whether the pages are
/// `scrubbed` (the column `ahead` is added where it is missing), the FTS5 table `texts`, and others.
pub trait Layout: Send + 'static {
    /// Marks the file as one of this layout.
    const APPLICATION_ID: i64;
    /// Counted up when the schema or the folding of words changes: another version is built anew.
    const VERSION: i64;
    /// Makes the tables.
    const SCHEMA: &'static [&'static str];
    /// A SELECT that tells whether anything was taken in.
    const ANY: &'static str;
    /// A SELECT that reads some of the words: damage there must not wait for the first search.
    const PROBE: &'static str;

    /// One change of what is found.
    type Change: Send + 'static;
    /// What a change is about, where a later one about the same stands in for it.
    type Subject: Eq + Hash + Send;

    /// What this change is about; none where it must be made whatever follows.
    fn subject(change: &Self::Change) -> Option<Self::Subject>;

    /// Whether this change stands in for an earlier one about the same.
    fn replaces(_: &Self::Change) -> bool {
        true
    }

    /// Bytes of text in a change.
    fn bytes(change: &Self::Change) -> usize;

    /// Writes changes, in their order. Whether any words were taken out; what has gone with them is told by
    /// [`Layout::gone`].
    ///
    /// # Errors
    /// The file can't be written, or is damaged.
    fn write(connection: &Connection, changes: &[Self::Change]) -> rusqlite::Result<bool>;

    /// Deletes some of what has gone, if there is something, what went first before the rest.
    ///
    /// # Errors
    /// The file can't be written, or is damaged.
    fn delete_gone(_: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// What has gone.
    ///
    /// # Errors
    /// The file can't be read.
    fn gone(_: &Connection) -> rusqlite::Result<Gone> {
        Ok(Gone::default())
    }

    /// Writes down how far it has come, in the transaction of what it has taken in.
    ///
    /// # Errors
    /// The file can't be written.
    fn set_progress(connection: &Connection, progress: Progress) -> rusqlite::Result<()> {
        connection
            .prepare_cached("UPDATE progress SET position = ?1, ahead = ?2")?
            .execute([progress.position.0, progress.ahead.0])
            .map(|_| ())
    }

    /// Whether what it does not know yet may have happened longer ago than this.
    ///
    /// # Errors
    /// The file can't be read.
    fn lags(_: &Connection, _: Duration) -> rusqlite::Result<bool> {
        Ok(false)
    }
}
