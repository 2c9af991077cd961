//! The index as a file: which words stand where, and up to which position of the feed they have
//! been taken in. Knows SQL; knows no thread and no queue.
//!
//! `texts` holds words only. To take one text out again FTS5 wants its words, so `entries` keeps
//! them, compressed: kept as they were put in, they fit even if a later Unicode folds otherwise.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::{Entry, Found, Hit, words};
use colloquy_model::caller::Tenant;
use colloquy_model::position::Position;

/// Marks the file as ours: "CoQs".
const APPLICATION_ID: i32 = 0x436f_5173;
/// Counted up when the schema or the folding of words changes: another version is built anew.
const VERSION: i32 = 2;
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
    /// SQLite's own word.
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

/// A connection with the settings of this file.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let writes = !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY);
    // A read takes at most 2 s: a checkpoint waits that out.
    connection.pragma_update(None, "busy_timeout", "4000")?;
    connection.pragma_update(None, "cache_size", if writes { "-8192" } else { "-4096" })?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if writes {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "secure_delete", "ON")?;
    }
    Ok(connection)
}

/// The writing connection, and the position that the file has reached; a new file if there is none.
/// Synced, what a crash of the machine takes away is indexed again: the position goes with it.
pub(super) fn open(
    path: &Path,
    synced: bool,
    newest: Position,
) -> Result<(Connection, Position), Unusable> {
    let mut connection = connect(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )?;
    connection.pragma_update(None, "synchronous", if synced { "NORMAL" } else { "OFF" })?;
    let pragma = |connection: &Connection, name| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
    };
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
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
        .query_row("SELECT position FROM progress", [], |row| {
            row.get::<_, i64>(0)
        })
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
    if position > newest.0 {
        return Err(Unusable::Worthless(
            "it knows more than the store, which was put back to an earlier state",
        ));
    }
    // Whatever was erased before a crash must not outlive it in the log.
    erase(&connection)?;
    Ok((connection, Position(position)))
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
    let (title, content) = (
        words::indexed(entry.tenant, &entry.title),
        words::indexed(entry.tenant, &entry.content),
    );
    let before = words_of(connection, number)?;
    if before
        .as_ref()
        .is_some_and(|(old_title, old_content)| *old_title == title && *old_content == content)
    {
        return Ok(false);
    }
    if let Some((old_title, old_content)) = before {
        take_out(connection, number, &old_title, &old_content)?;
    }
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
pub(super) fn remove(connection: &Connection, number: u64) -> rusqlite::Result<bool> {
    let number = key(number);
    let Some((title, content)) = words_of(connection, number)? else {
        return Ok(false);
    };
    take_out(connection, number, &title, &content)?;
    connection
        .prepare_cached("DELETE FROM entries WHERE number = ?1")?
        .execute([number])?;
    Ok(true)
}

fn take_out(
    connection: &Connection,
    number: i64,
    title: &str,
    content: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO texts (texts, rowid, title, content) VALUES ('delete', ?1, ?2, ?3)";
    connection
        .prepare_cached(sql)?
        .execute(params![number, title, content])
        .map(|_| ())
}

fn words_of(connection: &Connection, number: i64) -> rusqlite::Result<Option<(String, String)>> {
    let sql = "SELECT title, content, content_bytes FROM entries WHERE number = ?1";
    let mut select = connection.prepare_cached(sql)?;
    let row = |row: &rusqlite::Row<'_>| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, Vec<u8>>(1)?,
            row.get::<_, i64>(2)?,
        ))
    };
    let Some((title, packed, bytes)) = select.query_row([number], row).optional()? else {
        return Ok(None);
    };
    let content =
        zstd::bulk::decompress(&packed, usize::try_from(bytes).unwrap_or(0)).map_err(unpackable)?;
    String::from_utf8(content)
        .map(|content| Some((title, content)))
        .map_err(|_| damaged())
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
            row.get::<_, i64>(0)
        })
        .map(|busy| busy == 0)
}

/// What fits a query, best first; of equal ones the newest first.
pub(super) fn find(
    connection: &Connection,
    tenant: Tenant,
    typed: &str,
    (limit, offset): (usize, usize),
) -> rusqlite::Result<Found> {
    let Some(query) = words::query(tenant, typed) else {
        return Ok(Found {
            hits: Vec::new(),
            total: 0,
        });
    };
    // Ranked and counted in one pass: a second one, for the total, would cost half as much again.
    let sql = "SELECT rowid, bm25(texts, ?2, 1.0) FROM texts WHERE texts MATCH ?1";
    let mut select = connection.prepare_cached(sql)?;
    let hit = |row: &rusqlite::Row<'_>| {
        Ok(Hit {
            number: number(row.get(0)?),
            rank: row.get(1)?,
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
fn key(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(key: i64) -> u64 {
    u64::try_from(key).unwrap_or(0)
}
