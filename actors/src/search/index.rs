//! The index as a file: which words stand where, and up to which position of the feed they have
//! been taken in. Knows SQL; knows no thread and no queue.
//!
//! `texts` holds words only. To take one text out again FTS5 wants its words, so `entries` keeps
//! them, compressed: kept as they were put in, they fit even if a later Unicode folds otherwise.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::{Entry, Found, Hit, words};
use crate::store::sqlite::codec::{Columns, column, columns, only, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

/// Marks the file as ours: "CoQs".
const APPLICATION_ID: i64 = 0x436f_5173;
/// Counted up when the schema or the folding of words changes: another version is built anew.
const VERSION: i64 = 2;
/// A word in the title counts as much as so many in the content.
const TITLE_WEIGHT: f64 = 10.0;
/// Fast is enough: unpacking is what has to be cheap.
const COMPRESSION_LEVEL: i32 = 1;

const SCHEMA: &str = "
    CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL);
    INSERT INTO progress VALUES (1, 0);
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY, title TEXT NOT NULL, content BLOB NOT NULL, content_bytes INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE texts USING fts5(title, content, content = '', tokenize = 'ascii');
    INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);";

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

/// Whether the file itself is wrong, and not what is around it.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Opens a connection with the settings of this file. It is synced at each checkpoint only: what a
/// power cut takes away is indexed again, as the position goes with it.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let writes = !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
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
    /// The position that the file has reached.
    pub(super) position: Position,
}

/// Opens the index in this file, or makes a new one where there is none. `newest` is the last
/// position of the store.
///
/// # Errors
/// The file can't be used; [`Unusable::is_worthless`] says whether a new one would do better.
pub(super) fn open(path: &Path, newest: Position) -> Result<Opened, Unusable> {
    let mut connection = connect(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    let pragma =
        |connection: &Connection, name| connection.pragma_query_value(None, name, only::<i64>);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], only)?;
    if tables == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    if (
        pragma(&connection, "application_id")?,
        pragma(&connection, "user_version")?,
    ) != (APPLICATION_ID, VERSION)
    {
        return Err(Unusable::Worthless("it is of another version"));
    }
    let position = connection
        .query_row("SELECT position FROM progress", [], only::<Position>)
        .optional();
    // A read of the words too: damage there must not wait for the first search.
    let readable = connection.query_row(
        "SELECT count(*) FROM texts WHERE texts MATCH '\"0zx\"'",
        [],
        |_| Ok(()),
    );
    let Ok(Some(position)) = readable.and(position) else {
        return Err(Unusable::Worthless("it can't be read"));
    };
    if position > newest {
        return Err(Unusable::Worthless(
            "it knows more than the store, which was put back to an earlier state",
        ));
    }
    // Whatever was erased before a crash must not outlive it in the log.
    erase(&connection)?;
    Ok(Opened {
        connection,
        position,
    })
}

/// The files that make up this index.
pub(super) fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    })
}

/// Puts a text in, in place of the one before. False if it is the same: then nothing is written.
pub(super) fn put(connection: &Connection, entry: &Entry) -> rusqlite::Result<bool> {
    let number = key(entry.number);
    let new = Words {
        title: words::indexed(entry.tenant, &entry.title),
        content: words::indexed(entry.tenant, &entry.content),
    };
    let before = words_of(connection, number)?;
    if before.as_ref() == Some(&new) {
        return Ok(false);
    }
    if let Some(before) = before {
        take_out(connection, number, &before)?;
    }
    let Words { title, content } = new;
    let mut insert = connection
        .prepare_cached("INSERT INTO texts (rowid, title, content) VALUES (?1, ?2, ?3)")?;
    insert.execute(params![number, title, content])?;
    let packed = zstd::bulk::compress(content.as_bytes(), COMPRESSION_LEVEL).map_err(unpackable)?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO entries (number, title, content, content_bytes) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![number, title, packed, i64::try_from(content.len()).unwrap_or(i64::MAX)])?;
    Ok(true)
}

/// Takes a text out. False if there is none.
pub(super) fn remove(connection: &Connection, number: EntityNumber) -> rusqlite::Result<bool> {
    let number = key(number);
    let Some(words) = words_of(connection, number)? else {
        return Ok(false);
    };
    take_out(connection, number, &words)?;
    connection
        .prepare_cached("DELETE FROM entries WHERE number = ?1")?
        .execute([number])?;
    Ok(true)
}

fn take_out(connection: &Connection, number: i64, words: &Words) -> rusqlite::Result<()> {
    let sql = "INSERT INTO texts (texts, rowid, title, content) VALUES ('delete', ?1, ?2, ?3)";
    connection
        .prepare_cached(sql)?
        .execute(params![number, words.title, words.content])
        .map(|_| ())
}

columns! {
    /// The words of a text, those of its content compressed.
    struct EntryRow {
        title: String,
        content: Vec<u8>,
        content_bytes: usize,
    }
}

/// The words of a text, as they were put in.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    title: String,
    content: String,
}

fn words_of(connection: &Connection, number: i64) -> rusqlite::Result<Option<Words>> {
    let sql = format!(
        "SELECT {} FROM entries WHERE number = ?1",
        EntryRow::COLUMNS
    );
    let mut select = connection.prepare_cached(&sql)?;
    let Some(row) = select.query_row([number], whole::<EntryRow>).optional()? else {
        return Ok(None);
    };
    let content = zstd::bulk::decompress(&row.content, row.content_bytes).map_err(unpackable)?;
    let content = String::from_utf8(content).map_err(|_| damaged())?;
    Ok(Some(Words {
        title: row.title,
        content,
    }))
}

fn unpackable(_: std::io::Error) -> rusqlite::Error {
    damaged()
}

fn damaged() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        None,
    )
}

/// Writes down how far it has come, in the transaction of what it has taken in.
pub(super) fn set_position(connection: &Connection, position: Position) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE progress SET position = ?1")?
        .execute([position.0])
        .map(|_| ())
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

/// The part of what fits that is wanted: so many behind so many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) limit: usize,
    pub(super) offset: usize,
}

columns! {
    /// A text that fits the query ?1, and how well: a word in the title counts ?2 times.
    struct HitRow {
        rowid: u64,
        rank: f64 = "bm25(texts, ?2, 1.0)",
    }
}

/// What fits a query, best first; of equal ones the newest first.
pub(super) fn find(
    connection: &Connection,
    tenant: Tenant,
    typed: &str,
    window: Window,
) -> rusqlite::Result<Found> {
    let Window { limit, offset } = window;
    let Some(query) = words::query(tenant, typed) else {
        return Ok(Found {
            hits: Vec::new(),
            total: 0,
        });
    };
    // Ranked and counted in one pass: a second one, for the total, would cost half as much again.
    let sql = format!("SELECT {} FROM texts WHERE texts MATCH ?1", HitRow::COLUMNS);
    let mut select = connection.prepare_cached(&sql)?;
    let hit = |row: &rusqlite::Row<'_>| {
        let row = HitRow::read(row)?;
        Ok(Hit {
            number: EntityNumber(row.rowid),
            rank: row.rank,
        })
    };
    let mut hits: Vec<Hit> = select
        .query_map(params![query, TITLE_WEIGHT], hit)?
        .collect::<rusqlite::Result<_>>()?;
    let total = hits.len();
    let better = |a: &Hit, b: &Hit| a.rank.total_cmp(&b.rank).then(b.number.cmp(&a.number));
    let last = offset.saturating_add(limit).min(total);
    if last < total {
        hits.select_nth_unstable_by(last, better);
        hits.truncate(last);
    }
    hits.sort_unstable_by(better);
    hits.drain(..offset.min(hits.len()));
    Ok(Found {
        hits,
        total: u64::try_from(total).unwrap_or(u64::MAX),
    })
}

/// Numbers of identifiers have 60 bits.
fn key(number: EntityNumber) -> i64 {
    i64::try_from(number.0).unwrap_or(i64::MAX)
}
