//! The layout of an index of texts that have a title, each found by itself.
//!
//! `texts` holds words only. To take one text out again FTS5 wants its words, so `entries` keeps
//! them, compressed: kept as they were put in, they fit even if a later Unicode folds otherwise.

use rusqlite::{Connection, OptionalExtension, params};

use super::found::{Found, Hit, Window};
use super::index::{damaged, key};
use super::layout::Layout;
use super::separators::TakenOut;
use super::words;
use crate::store::sqlite::codec::{Columns, columns, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;

/// A word in the title counts as much as so many in the content.
const TITLE_WEIGHT: f64 = 10.0;
/// Fast is enough: unpacking is what has to be cheap.
const COMPRESSION_LEVEL: i32 = 1;

/// A text that searches find, by its title and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number of the document's identifier, which names the text in all tenants.
    pub number: EntityNumber,
    /// Whose it is: found by nobody else.
    pub tenant: Tenant,
    /// Counts more than the content.
    pub title: String,
    /// The whole text, as the document holds it.
    pub content: String,
}

/// What becomes of a text.
#[derive(Debug)]
pub enum EntryChange {
    /// It is put in, in place of the one with the same number.
    Put(Box<Entry>),
    /// It is taken out, if it is there.
    Remove(EntityNumber),
}

/// Texts that have a title, each found by itself.
#[derive(Debug)]
pub struct Titled;

impl Layout for Titled {
    /// "CoQs".
    const APPLICATION_ID: i64 = 0x436f_5173;
    const VERSION: i64 = 3;
    const SCHEMA: &'static str = "
    CREATE TABLE progress (
        one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL, scrubbed INTEGER NOT NULL
    );
    INSERT INTO progress VALUES (1, 0, 0);
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY, title TEXT NOT NULL, content BLOB NOT NULL, content_bytes INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE texts USING fts5(title, content, content = '', tokenize = 'ascii');
    INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);";
    const ANY: &'static str = "SELECT EXISTS(SELECT 1 FROM entries)";
    const PROBE: &'static str = "SELECT count(*) FROM texts WHERE texts MATCH '\"0zx\"'";

    type Change = EntryChange;
    type Subject = EntityNumber;

    fn subject(change: &EntryChange) -> Option<EntityNumber> {
        Some(match change {
            EntryChange::Put(entry) => entry.number,
            EntryChange::Remove(number) => *number,
        })
    }

    fn bytes(change: &EntryChange) -> usize {
        match change {
            EntryChange::Put(entry) => entry.title.len() + entry.content.len(),
            EntryChange::Remove(_) => 0,
        }
    }

    fn write(connection: &Connection, changes: &[EntryChange]) -> rusqlite::Result<bool> {
        let mut taken_out = TakenOut::of("texts");
        for change in changes {
            match change {
                EntryChange::Put(entry) => put(connection, entry, &mut taken_out)?,
                EntryChange::Remove(number) => remove(connection, *number, &mut taken_out)?,
            }
        }
        taken_out.finish(connection)
    }
}

/// Puts a text in, in place of the one before. If it is the same, nothing is written.
fn put(connection: &Connection, entry: &Entry, taken_out: &mut TakenOut) -> rusqlite::Result<()> {
    let number = key(entry.number);
    let new = Words {
        title: words::indexed(entry.tenant, &entry.title),
        content: words::indexed(entry.tenant, &entry.content),
    };
    let before = words_of(connection, number)?;
    if before.as_ref() == Some(&new) {
        return Ok(());
    }
    if let Some(before) = before {
        take_out(connection, number, &before, taken_out)?;
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
        .execute(params![number, title, packed, i64::try_from(content.len()).unwrap_or(i64::MAX)])
        .map(|_| ())
}

/// Takes a text out, if there is one.
fn remove(
    connection: &Connection,
    number: EntityNumber,
    taken_out: &mut TakenOut,
) -> rusqlite::Result<()> {
    let number = key(number);
    let Some(words) = words_of(connection, number)? else {
        return Ok(());
    };
    take_out(connection, number, &words, taken_out)?;
    connection
        .prepare_cached("DELETE FROM entries WHERE number = ?1")?
        .execute([number])
        .map(|_| ())
}

fn take_out(
    connection: &Connection,
    number: i64,
    words: &Words,
    taken_out: &mut TakenOut,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO texts (texts, rowid, title, content) VALUES ('delete', ?1, ?2, ?3)";
    connection
        .prepare_cached(sql)?
        .execute(params![number, words.title, words.content])?;
    taken_out.add(connection, &words.title)?;
    taken_out.add(connection, &words.content)
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
    let Some(query) = words::query(tenant, typed) else {
        return Ok(Found::nothing());
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
    let hits = select
        .query_map(params![query, TITLE_WEIGHT], hit)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Found::of(hits, window))
}
