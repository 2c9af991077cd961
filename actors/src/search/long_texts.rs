//! Texts that are too long to be put in at once. Each is put in by parts, each part in a transaction of its
//! own, so that what others wait for comes in between. It is found once all of its parts are there, and what
//! it replaces is found until then, whose parts are taken out behind, one by one.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::found::Hit;
use super::index::key;
use super::separators::TakenOut;
use super::titled::{Rows, TITLE_WEIGHT, Words};
use super::words::QUERY_WORDS_MAX;
use crate::store::sqlite::codec::{Columns, columns, only, whole};
use colloquy_model::entity_number::EntityNumber;

/// Bytes of words that a part has at most.
pub(super) const PART_BYTES: usize = 128 << 10;
/// A text with more bytes of words is long.
const SHORT_BYTES_MAX: usize = 2 * PART_BYTES;
/// Words with which a part begins that end the one before: a phrase stands whole in one of them.
const OVERLAP_WORDS: usize = QUERY_WORDS_MAX - 1;
/// Bits of a part's number that say which of its text's it is; the others hold the text's number.
const PLACE_BITS: u32 = 16;

/// What stands of a long text: some of its parts, all of them, or what is to be taken out.
const BEGUN: i64 = 0;
const WHOLE: i64 = 1;
const OLD: i64 = 2;

pub(super) const SCHEMA: &str = "
    CREATE TABLE long_texts (
        id INTEGER PRIMARY KEY, number INTEGER NOT NULL, digest BLOB NOT NULL, state INTEGER NOT NULL
    );
    CREATE INDEX long_texts_by_number ON long_texts(number, state);
    CREATE INDEX old_long_texts ON long_texts(id) WHERE state = 2;
    CREATE TABLE parts (
        id INTEGER PRIMARY KEY, title TEXT NOT NULL, content BLOB NOT NULL, content_bytes INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE part_texts USING fts5(title, content, content = '', tokenize = 'ascii');
    INSERT INTO part_texts (part_texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO part_texts (part_texts, rank) VALUES ('hashsize', 8388608);";

const PARTS: Rows = Rows {
    texts: "part_texts",
    kept: "parts",
};

/// A part of a long text.
#[derive(Debug)]
pub struct Part {
    /// The number of the text.
    number: EntityNumber,
    /// Of all words of the text: where the same are there already, nothing is written.
    digest: [u8; 32],
    /// 0, 1, 2 … among the parts of its text.
    place: i64,
    is_last: bool,
    /// The title stands in the first part.
    words: Words,
}

impl Part {
    pub(super) fn number(&self) -> EntityNumber {
        self.number
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.bytes()
    }
}

/// The parts of a text with these words; none where it is not long.
pub(super) fn parts(number: EntityNumber, words: &Words) -> Option<Vec<Part>> {
    if words.content.len() <= SHORT_BYTES_MAX {
        return None;
    }
    // No word has a line break in it.
    let digest = Sha256::new()
        .chain_update(&words.title)
        .chain_update("\n")
        .chain_update(&words.content)
        .finalize();
    let pieces = pieces(&words.content);
    let last = pieces.len() - 1;
    let part = |(place, content): (usize, &str)| Part {
        number,
        digest: digest.into(),
        place: i64::try_from(place).unwrap_or(i64::MAX),
        is_last: place == last,
        words: Words {
            title: match place {
                0 => words.title.clone(),
                _ => String::new(),
            },
            content: content.to_owned(),
        },
    };
    Some(pieces.into_iter().enumerate().map(part).collect())
}

/// Words in pieces, each of which begins with the last words of the one before; at least one.
fn pieces(words: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = words;
    loop {
        let end = rest.floor_char_boundary(PART_BYTES);
        let (head, tail) = rest.split_at(end);
        let head = match (tail.is_empty(), head.rsplit_once(' ')) {
            (false, Some((whole, _))) => whole,
            (true, _) | (false, None) => head,
        };
        pieces.push(head);
        if tail.is_empty() {
            return pieces;
        }
        let overlap = head.rmatch_indices(' ').nth(OVERLAP_WORDS - 1);
        let next = overlap.map_or(head.len(), |(at, _)| at);
        rest = rest.split_at(next).1.trim_start_matches(' ');
    }
}

/// Puts a part in. Whether the text is there with it, in place of an earlier one.
pub(super) fn put(connection: &Connection, part: &Part) -> rusqlite::Result<bool> {
    let (number, digest) = (key(part.number), part.digest);
    if part.place == 0 {
        let is_there = connection
            .prepare_cached(
                "SELECT 1 FROM long_texts WHERE number = ?1 AND state = ?2 AND digest = ?3",
            )?
            .exists(params![number, WHOLE, digest])?;
        // What was begun before a crash begins anew.
        mark_old(connection, number, BEGUN)?;
        if is_there {
            return Ok(false);
        }
        connection
            .prepare_cached("INSERT INTO long_texts (number, digest, state) VALUES (?1, ?2, ?3)")?
            .execute(params![number, digest, BEGUN])?;
    }
    let begun: Option<i64> = connection
        .prepare_cached("SELECT id FROM long_texts WHERE number = ?1 AND state = ?2")?
        .query_row([number, BEGUN], only)
        .optional()?;
    // Without, its first part has found the same words.
    let Some(id) = begun else { return Ok(false) };
    PARTS.put(connection, id << PLACE_BITS | part.place, &part.words)?;
    if part.is_last {
        mark_old(connection, number, WHOLE)?;
        connection
            .prepare_cached("UPDATE long_texts SET state = ?2 WHERE id = ?1")?
            .execute([id, WHOLE])?;
    }
    Ok(part.is_last)
}

/// Has a long text found no more, if there is one; whether there is.
pub(super) fn remove(connection: &Connection, number: EntityNumber) -> rusqlite::Result<bool> {
    let begun = mark_old(connection, key(number), BEGUN)?;
    Ok(mark_old(connection, key(number), WHOLE)? || begun)
}

/// Marks what stands of a text as to be taken out; whether there is something.
fn mark_old(connection: &Connection, number: i64, state: i64) -> rusqlite::Result<bool> {
    let sql = "UPDATE long_texts SET state = ?3 WHERE number = ?1 AND state = ?2";
    let marked = connection
        .prepare_cached(sql)?
        .execute([number, state, OLD])?;
    Ok(marked > 0)
}

/// Takes out a part of what is old; whether there was something.
pub(super) fn sweep(connection: &Connection) -> rusqlite::Result<bool> {
    let old: Option<i64> = connection
        .prepare_cached("SELECT id FROM long_texts WHERE state = 2 LIMIT 1")?
        .query_row([], only)
        .optional()?;
    let Some(id) = old else { return Ok(false) };
    let part: Option<i64> = connection
        .prepare_cached("SELECT id FROM parts WHERE id >= ?1 AND id < ?2 LIMIT 1")?
        .query_row([id << PLACE_BITS, (id + 1) << PLACE_BITS], only)
        .optional()?;
    let Some(part) = part else {
        connection
            .prepare_cached("DELETE FROM long_texts WHERE id = ?1")?
            .execute([id])?;
        return Ok(true);
    };
    let mut taken_out = TakenOut::of(PARTS.texts);
    PARTS.remove(connection, part, &mut taken_out)?;
    taken_out.finish(connection)?;
    Ok(true)
}

columns! {
    /// A part in which the phrase ?1 is, and how well it fits: a word in the title counts ?2 times.
    struct PartRow {
        rowid: i64,
        rank: f64 = "bm25(part_texts, ?2, 1.0)",
    }
}

/// The long texts that have all phrases, each in whichever of its parts. A phrase counts as much as where
/// it fits best.
pub(super) fn find(connection: &Connection, phrases: &[String]) -> rusqlite::Result<Vec<Hit>> {
    let mut found: Option<HashMap<i64, f64>> = None;
    let sql = format!(
        "SELECT {} FROM part_texts WHERE part_texts MATCH ?1",
        PartRow::COLUMNS
    );
    let mut select = connection.prepare_cached(&sql)?;
    for phrase in phrases {
        let mut ranks: HashMap<i64, f64> = HashMap::new();
        for row in select.query_map(params![phrase, TITLE_WEIGHT], whole::<PartRow>)? {
            let PartRow { rowid, rank } = row?;
            let best = ranks.entry(rowid >> PLACE_BITS).or_insert(rank);
            *best = best.min(rank);
        }
        let both = match found.take() {
            None => ranks,
            Some(before) => {
                let both = before.into_iter();
                both.filter_map(|(id, rank)| Some((id, rank + ranks.get(&id)?)))
                    .collect()
            }
        };
        if both.is_empty() {
            return Ok(Vec::new());
        }
        found = Some(both);
    }
    let mut whole =
        connection.prepare_cached("SELECT number FROM long_texts WHERE id = ?1 AND state = ?2")?;
    let mut hits = Vec::new();
    for (id, rank) in found.into_iter().flatten() {
        let number: Option<EntityNumber> = whole.query_row([id, WHOLE], only).optional()?;
        hits.extend(number.map(|number| Hit { number, rank }));
    }
    Ok(hits)
}
