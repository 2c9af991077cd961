//! An index as a file: opened, begun anew, written up to a position of the feed, erased. What its
//! tables hold is its layout's business. Knows SQL; knows no thread and no queue.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::layout::{Gone, Layout, Progress};
use crate::store::sqlite::changed_pages::ChangedPages;
use crate::store::sqlite::codec::{column, only};
use crate::store::sqlite::scrubbing::Scrubber;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_objects::{Disk, sync_in_turn};
use colloquy_runtime::private_file;

/// What can't be used as it is, but can be made anew.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// No index, a damaged one, or one of another version.
    #[error("{0}")]
    Worthless(&'static str),
    /// SQLite's own error, which may mean damage, too.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl Unusable {
    /// Whether a new file would do better than this one.
    pub(super) fn is_worthless(&self) -> bool {
        match self {
            Unusable::Worthless(_) => true,
            Unusable::Sqlite(error) => is_damage(error),
        }
    }
}

/// Whether the file itself is wrong, and not what is around it. A row that is there though it can't be is
/// damage, too: the same would be tried again for ever.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation)
    )
}

/// So many new pages of its log are synced at once, and from so many on they are moved into the file.
/// SQLite by itself does both after 1,000, and commits to the store wait meanwhile for a disk that takes
/// megabytes: at 500 messages a second their p99 was 17 ms.
const UNSYNCED_PAGES_MAX: i32 = 32;
const LOG_PAGES_MAX: i32 = 128;

/// Opens a connection with the settings of this file. A commit is not synced by itself: what a power
/// cut takes away is indexed again, as the position goes with it.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let writes = !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
    if writes {
        // What can't be made can't be opened either, which is told.
        let _ = private_file::ensure(path);
    }
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Without it, FTS5's own statements are planned anew for each word that they look up: a quarter of
    // what taking a text out cost.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A read takes at most 2 s: a checkpoint waits that out.
    connection.pragma_update(None, "busy_timeout", "4000")?;
    connection.pragma_update(None, "cache_size", if writes { "-8192" } else { "-4096" })?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if writes {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "secure_delete", "ON")?;
    }
    Ok(connection)
}

/// An index that can be written.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// How far the file has come.
    pub(super) progress: Progress,
    /// What has gone, and is deleted behind it.
    pub(super) gone: Gone,
    /// Knows what is changed from now on.
    pub(super) scrubber: Scrubber,
    /// Whether nothing that was taken out before is in it: not after a crash.
    pub(super) is_scrubbed: bool,
}

/// Up to where an index has to have come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    /// The last position of the store.
    pub(super) newest: Position,
    /// For how long what happened can be read from the store; none: for ever.
    pub(super) told_for: Option<Duration>,
}

/// Opens the index in this file, or makes a new one where there is none.
///
/// # Errors
/// The file can't be used; [`Unusable::is_worthless`] says whether a new one would do better.
pub(super) fn open<L: Layout>(path: &Path, followed: Followed) -> Result<Opened, Unusable> {
    let mut connection = connect(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    let [_, log, _] = files(path);
    let changed = ChangedPages::of(&connection, log.clone())?;
    follow(&mut connection, changed.clone(), log)?;
    let pragma =
        |connection: &Connection, name| connection.pragma_query_value(None, name, only::<i64>);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], only)?;
    if tables == 0 {
        let transaction = connection.transaction()?;
        for sql in L::SCHEMA {
            transaction.execute_batch(sql)?;
        }
        transaction.pragma_update(None, "application_id", L::APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", L::VERSION)?;
        transaction.commit()?;
    }
    if (
        pragma(&connection, "application_id")?,
        pragma(&connection, "user_version")?,
    ) != (L::APPLICATION_ID, L::VERSION)
    {
        return Err(Unusable::Worthless("it is of another version"));
    }
    let progress = progress::<L>(&connection, followed)?;
    merge_in_steps(&connection)?;
    // It is going to be changed, so from now on nothing says that it is scrubbed.
    let was = "UPDATE progress SET scrubbed = 0 WHERE scrubbed = 1";
    let is_scrubbed = tables == 0 || connection.execute(was, [])? > 0;
    if !is_scrubbed {
        changed.forget();
    }
    // Whatever was erased before a crash must not outlive it in the log.
    erase(&connection)?;
    Ok(Opened {
        gone: L::gone(&connection)?,
        connection,
        progress,
        scrubber: Scrubber::new(changed),
        is_scrubbed,
    })
}

/// How far the index has come, where what it knows is to be trusted.
fn progress<L: Layout>(connection: &Connection, followed: Followed) -> Result<Progress, Unusable> {
    if connection.prepare("SELECT ahead FROM progress").is_err() {
        let sql = "ALTER TABLE progress ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0";
        connection.execute(sql, [])?;
    }
    let place = |name| {
        let sql = format!("SELECT {name} FROM progress");
        connection.query_row(&sql, [], only::<Position>).optional()
    };
    let (position, ahead) = (place("position"), place("ahead"));
    // A read of the words too: damage there must not wait for the first search.
    let readable = connection.query_row(L::PROBE, [], |_| Ok(()));
    let (Ok(Some(position)), Ok(Some(ahead))) = (readable.and(position), ahead) else {
        return Err(Unusable::Worthless("it can't be read"));
    };
    if position.max(ahead) > followed.newest {
        return Err(Unusable::Worthless(
            "it knows more than the store, which was put back to an earlier state",
        ));
    }
    // What has gone since is told by nothing.
    if position == Position::ZERO && connection.query_row(L::ANY, [], only::<bool>)? {
        return Err(Unusable::Worthless("it was left while it was made"));
    }
    // At the beginning everything is taken in anyway.
    if position > Position::ZERO
        && position < followed.newest
        && let Some(told_for) = followed.told_for
        && L::lags(connection, told_for)?
    {
        return Err(Unusable::Worthless(
            "it lags behind what the store can still tell of what happened",
        ));
    }
    Ok(Progress {
        position,
        ahead,
        lags: true,
    })
}

/// Notes what the connection changes, in place of SQLite's own hook, whose work is done, too.
fn follow(
    connection: &mut Connection,
    changed: ChangedPages,
    log: PathBuf,
) -> rusqlite::Result<()> {
    let (mut opened, mut synced) = (None, 0);
    connection.wal_hook(Some(move |wal: &mut Wal, frames| {
        changed.committed(frames);
        if frames < synced {
            // It has begun at its start again.
            synced = 0;
        }
        if frames - synced >= UNSYNCED_PAGES_MAX {
            // It is there with the first commit. What fails here fails again at the checkpoint.
            opened = opened.take().or_else(|| File::open(&log).ok());
            let _ = opened.as_ref().map(|log| sync_in_turn(log, Disk::Shared));
            synced = frames;
        }
        if frames >= LOG_PAGES_MAX {
            // Where a reader is in the way, the next commit tries it again.
            let _ = wal.checkpoint_v2(CheckpointMode::PASSIVE);
        }
        Ok(())
    }))
}

/// Has trees merged by [`merge`] alone.
fn merge_in_steps(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT INTO texts (texts, rank) VALUES ('automerge', 0)";
    connection.execute(sql, []).map(drop)
}

/// Pages that one step of merging writes: some come along with them.
const MERGED_PAGES: i64 = 32;

/// Merges the trees of the texts by one step; whether there may be more of them to be merged. By itself FTS5
/// does it with what is put in: a text of 700 KB, which is 260 pages, then wrote 1,100 in its transaction.
/// (<https://sqlite.org/fts5.html#the_merge_command>)
pub(super) fn merge(connection: &Connection) -> rusqlite::Result<bool> {
    let before = connection.total_changes();
    connection
        .prepare_cached("INSERT INTO texts (texts, rank) VALUES ('merge', ?1)")?
        .execute([MERGED_PAGES])?;
    // The command itself counts as one.
    Ok(connection.total_changes() - before > 1)
}

/// Notes, at the end, that all pages are scrubbed.
pub(super) fn note_all_scrubbed(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute("UPDATE progress SET scrubbed = 1", [])
        .map(drop)
}

/// The files that make up this index.
pub(super) fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    })
}

/// Moves everything from the log into the file and empties the log, so that nothing that was erased
/// is left in it. False while a reader is in the way.
pub(super) fn erase(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            column::<i64>(row, 0, "busy")
        })
        .map(|busy| busy == 0)
}

/// That what stands in the file makes no sense.
pub(super) fn damaged() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        None,
    )
}

/// Numbers of identifiers have 60 bits.
pub(super) fn key(number: EntityNumber) -> i64 {
    i64::try_from(number.0).unwrap_or(i64::MAX)
}
