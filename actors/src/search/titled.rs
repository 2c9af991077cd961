//! The layout of an index of texts that have a title, each found by itself.
//!
//! `texts` holds words only. To take one text out again FTS5 wants its words, so `entries` keeps
//! them, compressed: kept as they were put in, they fit even if a later Unicode folds otherwise. Long
//! texts stand in tables of their own, by parts (`long_texts.rs`).

use rusqlite::{Connection, OptionalExtension, params};

use super::found::{Found, Hit, Window};
use super::index::{damaged, key};
use super::layout::Layout;
use super::long_texts::{self, Part};
use super::separators::TakenOut;
use super::words;
use crate::store::sqlite::codec::{Columns, columns, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;

/// A word in the title counts as much as so many in the content.
pub(super) const TITLE_WEIGHT: f64 = 10.0;
/// Fast is enough: unpacking is what has to be cheap.
const COMPRESSION_LEVEL: i32 = 1;

const SHORT: Rows = Rows {
    texts: "texts",
    kept: "entries",
};

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
    Put(EntityNumber, Box<Words>),
    /// The same by parts, which follow one another.
    Part(Box<Part>),
    /// It is taken out, if it is there.
    Remove(EntityNumber),
}

impl EntryChange {
    /// What puts a text in: one change, or one for each part of a long text.
    #[must_use]
    pub fn put(entry: &Entry) -> Vec<Self> {
        let words = Words {
            title: words::indexed(entry.tenant, &entry.title),
            content: words::indexed(entry.tenant, &entry.content),
        };
        match long_texts::parts(entry.number, &words) {
            Some(parts) => parts
                .into_iter()
                .map(|part| EntryChange::Part(Box::new(part)))
                .collect(),
            None => vec![EntryChange::Put(entry.number, Box::new(words))],
        }
    }
}

/// Texts that have a title, each found by itself.
#[derive(Debug)]
pub struct Titled;

impl Layout for Titled {
    /// "CoQs".
    const APPLICATION_ID: i64 = 0x436f_5173;
    const VERSION: i64 = 4;
    const SCHEMA: &'static [&'static str] = &[
        "
    CREATE TABLE progress (
        one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL, scrubbed INTEGER NOT NULL
    );
    INSERT INTO progress VALUES (1, 0, 0);
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY, title TEXT NOT NULL, content BLOB NOT NULL, content_bytes INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE texts USING fts5(title, content, content = '', tokenize = 'ascii');
    INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);",
        long_texts::SCHEMA,
    ];
    const MERGED: &'static [&'static str] = &["texts", "part_texts"];
    const PROBE: &'static str = "SELECT count(*) FROM texts WHERE texts MATCH '\"0zx\"'";

    type Change = EntryChange;
    type Subject = EntityNumber;

    fn subject(change: &EntryChange) -> Option<EntityNumber> {
        match change {
            EntryChange::Put(number, _) | EntryChange::Remove(number) => Some(*number),
            EntryChange::Part(_) => None,
        }
    }

    fn bytes(change: &EntryChange) -> usize {
        match change {
            EntryChange::Put(_, words) => words.bytes(),
            EntryChange::Part(part) => part.bytes(),
            EntryChange::Remove(_) => 0,
        }
    }

    fn write(connection: &Connection, changes: &[EntryChange]) -> rusqlite::Result<bool> {
        let mut taken_out = TakenOut::of(SHORT.texts);
        let mut any_old = false;
        for change in changes {
            match change {
                EntryChange::Put(number, words) => {
                    any_old |= long_texts::remove(connection, *number)?;
                    put(connection, (*number, words), &mut taken_out)?;
                }
                EntryChange::Part(part) => {
                    if long_texts::put(connection, part)? {
                        any_old = true;
                        SHORT.remove(connection, key(part.number()), &mut taken_out)?;
                    }
                }
                EntryChange::Remove(number) => {
                    any_old |= long_texts::remove(connection, *number)?;
                    SHORT.remove(connection, key(*number), &mut taken_out)?;
                }
            }
        }
        Ok(taken_out.finish(connection)? || any_old)
    }

    fn sweep(connection: &Connection) -> rusqlite::Result<bool> {
        long_texts::sweep(connection)
    }
}

/// Puts a text in, in place of the one before. If it is the same, nothing is written.
fn put(
    connection: &Connection,
    (number, new): (EntityNumber, &Words),
    taken_out: &mut TakenOut,
) -> rusqlite::Result<()> {
    let number = key(number);
    let before = SHORT.words_of(connection, number)?;
    if before.as_ref() == Some(new) {
        return Ok(());
    }
    if let Some(before) = before {
        SHORT.take_out(connection, (number, &before), taken_out)?;
    }
    SHORT.put(connection, number, new)
}

columns! {
    /// The words of a text, those of its content compressed.
    struct KeptRow {
        title: String,
        content: Vec<u8>,
        content_bytes: usize,
    }
}

/// The words of a text, as they are put in.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    pub(super) title: String,
    pub(super) content: String,
}

impl Words {
    pub(super) fn bytes(&self) -> usize {
        self.title.len() + self.content.len()
    }
}

/// A table of words, which can't be read out of it, and the one that keeps them.
pub(super) struct Rows {
    pub(super) texts: &'static str,
    pub(super) kept: &'static str,
}

impl Rows {
    /// Puts words in, where there are none with this number.
    pub(super) fn put(
        &self,
        connection: &Connection,
        number: i64,
        words: &Words,
    ) -> rusqlite::Result<()> {
        let Rows { texts, kept } = self;
        let Words { title, content } = words;
        let sql = format!("INSERT INTO {texts} (rowid, title, content) VALUES (?1, ?2, ?3)");
        connection
            .prepare_cached(&sql)?
            .execute(params![number, title, content])?;
        let packed =
            zstd::bulk::compress(content.as_bytes(), COMPRESSION_LEVEL).map_err(unpackable)?;
        let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
        let sql = format!(
            "INSERT INTO {kept} (id, title, content, content_bytes) VALUES (?1, ?2, ?3, ?4)"
        );
        connection
            .prepare_cached(&sql)?
            .execute(params![number, title, packed, bytes])
            .map(drop)
    }

    /// The words with this number, if there are any.
    fn words_of(&self, connection: &Connection, number: i64) -> rusqlite::Result<Option<Words>> {
        let sql = format!(
            "SELECT {} FROM {} WHERE id = ?1",
            KeptRow::COLUMNS,
            self.kept
        );
        let mut select = connection.prepare_cached(&sql)?;
        let Some(row) = select.query_row([number], whole::<KeptRow>).optional()? else {
            return Ok(None);
        };
        let content =
            zstd::bulk::decompress(&row.content, row.content_bytes).map_err(unpackable)?;
        let content = String::from_utf8(content).map_err(|_| damaged())?;
        Ok(Some(Words {
            title: row.title,
            content,
        }))
    }

    /// Takes out the words with this number, if there are any.
    pub(super) fn remove(
        &self,
        connection: &Connection,
        number: i64,
        taken_out: &mut TakenOut,
    ) -> rusqlite::Result<()> {
        match self.words_of(connection, number)? {
            Some(words) => self.take_out(connection, (number, &words), taken_out),
            None => Ok(()),
        }
    }

    fn take_out(
        &self,
        connection: &Connection,
        (number, words): (i64, &Words),
        taken_out: &mut TakenOut,
    ) -> rusqlite::Result<()> {
        let Rows { texts, kept } = self;
        let sql = format!(
            "INSERT INTO {texts} ({texts}, rowid, title, content) VALUES ('delete', ?1, ?2, ?3)"
        );
        connection
            .prepare_cached(&sql)?
            .execute(params![number, words.title, words.content])?;
        taken_out.add(connection, &words.title)?;
        taken_out.add(connection, &words.content)?;
        connection
            .prepare_cached(&format!("DELETE FROM {kept} WHERE id = ?1"))?
            .execute([number])
            .map(drop)
    }
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
    let phrases = words::phrases(tenant, typed);
    if phrases.is_empty() {
        return Ok(Found::nothing());
    }
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
    let mut hits = select
        .query_map(params![words::all_of(&phrases), TITLE_WEIGHT], hit)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    hits.extend(long_texts::find(connection, &phrases)?);
    Ok(Found::of(hits, window))
}
