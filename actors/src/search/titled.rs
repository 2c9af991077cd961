//! The layout of an index of texts that have a title, each found by itself. Long ones have tables of their
//! own ([`long_texts`]).
//!
//! `texts` holds words only. To take one text out again FTS5 wants its words, so `entries` keeps
//! them, compressed: kept as they were put in, they fit even if a later Unicode folds otherwise.

use rusqlite::{Connection, OptionalExtension, params};

use super::found::{Found, Hit, Window};
use super::index::{damaged, key};
use super::layout::{Gone, Layout};
use super::long_texts::{self, LongHit, Part, SHORT_BYTES_MAX};
use super::separators::{self, TakenOut};
use super::words::{self, Phrase};
use crate::store::sqlite::codec::{Columns, columns, only, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;

/// A word in the title counts as much as so many in the content.
const TITLE_WEIGHT: f64 = 10.0;
/// The constants with which FTS5 ranks by BM25 (<https://sqlite.org/fts5.html#the_bm25_function>): how soon
/// further occurrences count less, how much a long text counts less than a short one, and what a phrase
/// counts at least that is in more than half of the texts.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
const RARITY_MIN: f64 = 1e-6;
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
    /// A part of a long one is put in; with the last one, the text takes the place of the one with the
    /// same number.
    PutPart(Box<Part>),
    /// It is taken out, if it is there.
    Remove(EntityNumber),
}

impl EntryChange {
    /// Whether a content of so many bytes is put in by parts.
    #[must_use]
    pub fn is_long(bytes: usize) -> bool {
        bytes > SHORT_BYTES_MAX
    }

    /// What puts a text in, in this order, with changes of other texts in between or not.
    #[must_use]
    pub fn put(entry: Entry) -> Vec<Self> {
        if !Self::is_long(entry.content.len()) {
            return vec![EntryChange::Put(Box::new(entry))];
        }
        let parts = long_texts::parts((entry.number, entry.tenant), &entry.title, &entry.content);
        let parts = parts.into_iter().map(Box::new);
        parts.map(EntryChange::PutPart).collect()
    }
}

/// Texts that have a title, each found by itself.
#[derive(Debug)]
pub struct Titled;

impl Layout for Titled {
    /// "CoQs".
    const APPLICATION_ID: i64 = 0x436f_5173;
    const VERSION: i64 = 4;
    const SCHEMA: &'static [&'static str] = &["
    CREATE TABLE progress (
        one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL, scrubbed INTEGER NOT NULL
    );
    INSERT INTO progress VALUES (1, 0, 0);
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY, title TEXT NOT NULL, content BLOB NOT NULL, content_bytes INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE texts USING fts5(title, content, content = '', tokenize = 'ascii');
    INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);",
    long_texts::SCHEMA];
    const ANY: &'static str =
        "SELECT EXISTS(SELECT 1 FROM entries) OR EXISTS(SELECT 1 FROM long_texts)
        OR EXISTS(SELECT 1 FROM gone_texts)";
    const PROBE: &'static str = "SELECT
        (SELECT count(*) FROM texts WHERE texts MATCH '\"0zx\"')
        + EXISTS(SELECT 1 FROM long_texts) + EXISTS(SELECT 1 FROM long_blocks)";

    type Change = EntryChange;
    type Subject = EntityNumber;

    fn subject(change: &EntryChange) -> Option<EntityNumber> {
        Some(match change {
            EntryChange::Put(entry) => entry.number,
            EntryChange::PutPart(part) => part.number(),
            EntryChange::Remove(number) => *number,
        })
    }

    fn replaces(change: &EntryChange) -> bool {
        match change {
            EntryChange::Put(_) | EntryChange::Remove(_) => true,
            EntryChange::PutPart(_) => false,
        }
    }

    fn bytes(change: &EntryChange) -> usize {
        match change {
            EntryChange::Put(entry) => entry.title.len() + entry.content.len(),
            EntryChange::PutPart(part) => part.bytes(),
            EntryChange::Remove(_) => 0,
        }
    }

    fn write(connection: &Connection, changes: &[EntryChange]) -> rusqlite::Result<bool> {
        let mut taken_out = TakenOut::of("texts");
        for change in changes {
            match change {
                EntryChange::Put(entry) => {
                    long_texts::remove(connection, entry.number)?;
                    put(connection, entry, &mut taken_out)?;
                }
                EntryChange::PutPart(part) => {
                    if long_texts::put(connection, part)? {
                        remove(connection, part.number(), &mut taken_out)?;
                    }
                }
                EntryChange::Remove(number) => {
                    long_texts::remove(connection, *number)?;
                    remove(connection, *number, &mut taken_out)?;
                }
            }
        }
        taken_out.finish(connection)
    }

    fn delete_gone(connection: &Connection) -> rusqlite::Result<()> {
        long_texts::delete_part(connection)
    }

    fn gone(connection: &Connection) -> rusqlite::Result<Gone> {
        long_texts::gone(connection)
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
    let phrases = words::phrases(typed);
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
        .query_map(params![words::query(tenant, &phrases), TITLE_WEIGHT], hit)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let long = long_texts::find(connection, tenant, &phrases)?;
    if !long.is_empty() {
        let ranks = Ranks::of(connection, &long, (tenant, &phrases))?;
        hits.extend(long.iter().map(|hit| ranks.ranked(hit)));
    }
    Ok(Found::of(hits, window))
}

/// What long texts are ranked with: what FTS5 ranks the others with, so that both can be compared. Where there
/// are only long ones, all phrases count as much.
struct Ranks {
    /// How much each phrase counts: the more the fewer texts it is in.
    rarities: Vec<f64>,
    /// How many words a text has on average.
    usual_words: f64,
}

impl Ranks {
    fn of(
        connection: &Connection,
        long: &[LongHit],
        (tenant, phrases): (Tenant, &[Phrase]),
    ) -> rusqlite::Result<Self> {
        let Totals { texts, words } = Totals::of(connection)?;
        if texts == 0 {
            let words: f64 = long.iter().map(|hit| hit.words).sum();
            return Ok(Ranks {
                rarities: vec![1.0; phrases.len()],
                usual_words: words / as_weight(long.len().max(1)),
            });
        }
        let (texts, words) = (as_weight(texts), as_weight(words));
        let mut count =
            connection.prepare_cached("SELECT count(*) FROM texts WHERE texts MATCH ?1")?;
        let mut rarities = Vec::with_capacity(phrases.len());
        for phrase in phrases {
            let with = as_weight(count.query_row([phrase.query(tenant)], only::<usize>)?);
            let rarity = ((texts - with + 0.5) / (with + 0.5)).ln();
            rarities.push(rarity.max(RARITY_MIN));
        }
        Ok(Ranks {
            rarities,
            usual_words: words / texts,
        })
    }

    fn ranked(&self, hit: &LongHit) -> Hit {
        let longer = hit.words / self.usual_words.max(1.0);
        let damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * longer);
        let parts = hit.counts.iter().zip(&self.rarities);
        let score: f64 = parts
            .map(|([title, content], rarity)| {
                let weight = title * TITLE_WEIGHT + content;
                rarity * weight * (SATURATION + 1.0) / (weight + damping)
            })
            .sum();
        Hit {
            number: hit.number,
            rank: -score,
        }
    }
}

/// How much there is in the FTS5 table.
struct Totals {
    texts: usize,
    words: usize,
}

impl Totals {
    /// They stand in the table's data, in its row 1: how many rows, and the words of each column
    /// (<https://sqlite.org/fts5.html#fts5_data_structures>). To count them costs a row for each text.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let row: Vec<u8> = connection
            .prepare_cached("SELECT block FROM texts_data WHERE id = 1")?
            .query_row([], only)?;
        let mut rest = row.as_slice();
        let mut next = || {
            // A table that was never written has an empty row.
            let (number, behind) = separators::number(rest).unwrap_or((0, &[]));
            rest = behind;
            number
        };
        let texts = next();
        Ok(Totals {
            texts,
            words: next() + next(),
        })
    }
}

fn as_weight(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
