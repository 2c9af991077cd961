//! Texts that are too long for the FTS5 table: to put one of some MB in takes it seconds, to take its words
//! out more than that, and whoever searches meanwhile waits.
//!
//! Each has its own words, sorted, with their places ([`word_blocks`]). It is put in by parts, each part in a
//! transaction of its own, so that what others wait for comes in between; it is found once all of its parts
//! are there, and what it replaces is found until then. What goes is not found any more, and its parts are
//! deleted behind, one by one, whatever words they have. A search looks at each part of the long texts of
//! its own tenant, and costs some 3 µs a word for each.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::index::{damaged, key};
use super::layout::Gone;
use super::word_blocks::{self, NoBlock, Wanted, WordPlaces};
use super::words::{self, Phrase};
use crate::store::sqlite::codec::{Columns, columns, only, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;

/// Bytes of text up to which it is not long: those in the FTS5 table are taken out as quickly, at worst, as
/// a long one's part is put in.
pub(super) const SHORT_BYTES_MAX: usize = 64 << 10;
/// Bytes of text from which a part takes no more.
const PART_BYTES: usize = 128 << 10;
/// Bits of a part's number that say which of its text's it is, and of a block's that say which of its
/// part's.
const PART_BITS: u32 = 16;
const BLOCK_BITS: u32 = 14;

/// How often a phrase counts in one text at most: for its rank, a word more or less is nothing then.
const COUNTED_MAX: usize = 10_000;
/// Places where a phrase may begin, between two looks at the clock.
const LOOK_EVERY: usize = 1_024;
/// Places that are looked at one by one before they are searched.
const NEAR: usize = 8;
/// A search that takes longer is interrupted.
const SEARCHED_FOR: Duration = Duration::from_secs(2);

pub(super) const SCHEMA: &str = "
    CREATE TABLE long_texts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, tenant INTEGER NOT NULL,
        is_whole INTEGER NOT NULL, digest BLOB NOT NULL, title TEXT NOT NULL, words INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX long_texts_by_number ON long_texts(number, is_whole);
    CREATE INDEX whole_long_texts ON long_texts(tenant) WHERE is_whole = 1;
    CREATE TABLE long_parts (id INTEGER PRIMARY KEY, firsts BLOB NOT NULL);
    CREATE TABLE long_blocks (id INTEGER PRIMARY KEY, words BLOB NOT NULL);
    CREATE TABLE gone_texts (place INTEGER PRIMARY KEY AUTOINCREMENT, text INTEGER NOT NULL);";

/// A part of a long text.
#[derive(Debug)]
pub struct Part {
    number: EntityNumber,
    tenant: Tenant,
    /// Of the text: one that is there already is not written again.
    digest: [u8; 32],
    /// 0, 1, 2 … among the parts of its text.
    ordinal: i64,
    is_last: bool,
    title: String,
    content: String,
}

impl Part {
    /// The number of the text.
    pub(super) fn number(&self) -> EntityNumber {
        self.number
    }

    pub(super) fn bytes(&self) -> usize {
        self.content.len()
    }
}

/// A long text in the parts that are to be put in, in their order.
pub(super) fn parts(
    (number, tenant): (EntityNumber, Tenant),
    title: &str,
    content: &str,
) -> Vec<Part> {
    let title = words::folded(title);
    // No word has a line break in it.
    let digest = Sha256::new()
        .chain_update(&title)
        .chain_update("\n")
        .chain_update(content)
        .finalize();
    let pieces = pieces(content, PART_BYTES);
    let last = pieces.len() - 1;
    let part = |(place, content): (usize, &str)| Part {
        number,
        tenant,
        digest: digest.into(),
        ordinal: i64::try_from(place).unwrap_or(i64::MAX),
        is_last: place == last,
        title: title.clone(),
        content: content.to_owned(),
    };
    pieces.into_iter().enumerate().map(part).collect()
}

/// A text in pieces of so many bytes, each up to twice as long where no word ends there; at least one. Where
/// no word ends in so much text either, it ends here.
fn pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > bytes {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(bytes));
        let (near, _) = behind.split_at(behind.floor_char_boundary(bytes));
        let further = near.find(words::begins_anew).unwrap_or(0);
        let (piece, behind) = rest.split_at(piece.len() + further);
        pieces.push(piece);
        rest = behind;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(rest);
    }
    pieces
}

columns! {
    /// A text of which parts are missing, and how many words those have that are there.
    struct BegunRow {
        id: i64,
        words: u64,
    }
}

/// Puts a part in. Whether the text is there with it, in place of an earlier one.
pub(super) fn put(connection: &Connection, part: &Part) -> rusqlite::Result<bool> {
    let number = key(part.number);
    if part.ordinal == 0 && !begin(connection, part)? {
        return Ok(false);
    }
    let sql = format!(
        "SELECT {} FROM long_texts WHERE number = ?1 AND is_whole = 0",
        BegunRow::COLUMNS
    );
    let begun = connection
        .prepare_cached(&sql)?
        .query_row([number], whole::<BegunRow>)
        .optional()?;
    // Without, its first part has found the same text.
    let Some(BegunRow { id: text, words }) = begun else {
        return Ok(false);
    };
    let mut place = words;
    let mut places = WordPlaces::default();
    words::each(&part.content, &mut |word| {
        places.add(word, place);
        place += 1;
    });
    let made = places.into_blocks();
    let id = text << PART_BITS | part.ordinal;
    connection
        .prepare_cached("INSERT INTO long_parts (id, firsts) VALUES (?1, ?2)")?
        .execute(params![id, made.firsts])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO long_blocks (id, words) VALUES (?1, ?2)")?;
    for (block, block_id) in made.blocks.iter().zip(id << BLOCK_BITS..) {
        insert.execute(params![block_id, block])?;
    }
    if part.is_last {
        let_go(connection, part.number, true)?;
    }
    connection
        .prepare_cached("UPDATE long_texts SET words = ?2, is_whole = ?3 WHERE id = ?1")?
        .execute(params![
            text,
            i64::try_from(place).unwrap_or(i64::MAX),
            part.is_last
        ])?;
    Ok(part.is_last)
}

/// Begins a text anew; false where the same is there already.
fn begin(connection: &Connection, part: &Part) -> rusqlite::Result<bool> {
    let number = key(part.number);
    // What was begun before a crash, or has changed since.
    let_go(connection, part.number, false)?;
    // It may have been put into the bin, or taken out of it.
    let same = connection
        .prepare_cached(
            "UPDATE long_texts SET tenant = ?3 WHERE number = ?1 AND is_whole = 1 AND digest = ?2",
        )?
        .execute(params![number, part.digest, part.tenant.number()])?;
    if same > 0 {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT INTO long_texts (number, tenant, is_whole, digest, title, words)
             VALUES (?1, ?2, 0, ?3, ?4, 0)",
        )?
        .execute(params![
            number,
            part.tenant.number(),
            part.digest,
            part.title
        ])?;
    Ok(true)
}

/// Has a long text found no more, if there is one.
pub(super) fn remove(connection: &Connection, number: EntityNumber) -> rusqlite::Result<()> {
    let any = connection
        .prepare_cached("SELECT 1 FROM long_texts WHERE number = ?1")?
        .exists([key(number)])?;
    if any {
        let_go(connection, number, false)?;
        let_go(connection, number, true)?;
    }
    Ok(())
}

/// Leaves the parts of a text to be deleted, if there is one.
fn let_go(connection: &Connection, number: EntityNumber, is_whole: bool) -> rusqlite::Result<()> {
    let sql = "DELETE FROM long_texts WHERE number = ?1 AND is_whole = ?2 RETURNING id";
    let gone: Option<i64> = connection
        .prepare_cached(sql)?
        .query_row(params![key(number), is_whole], only)
        .optional()?;
    if let Some(text) = gone {
        connection
            .prepare_cached("INSERT INTO gone_texts (text) VALUES (?1)")?
            .execute([text])?;
    }
    Ok(())
}

/// Deletes a part of the text that went first, if there is one.
pub(super) fn delete_part(connection: &Connection) -> rusqlite::Result<()> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT text FROM gone_texts ORDER BY place LIMIT 1")?
        .query_row([], only)
        .optional()?;
    let Some(text) = first else { return Ok(()) };
    let parts: Vec<i64> = connection
        .prepare_cached("SELECT id FROM long_parts WHERE id >= ?1 AND id < ?2 LIMIT 2")?
        .query_map([text << PART_BITS, (text + 1) << PART_BITS], only)?
        .collect::<rusqlite::Result<_>>()?;
    if let Some(part) = parts.first() {
        connection
            .prepare_cached("DELETE FROM long_blocks WHERE id >= ?1 AND id < ?2")?
            .execute([part << BLOCK_BITS, (part + 1) << BLOCK_BITS])?;
        connection
            .prepare_cached("DELETE FROM long_parts WHERE id = ?1")?
            .execute([part])?;
    }
    if parts.len() <= 1 {
        connection
            .prepare_cached("DELETE FROM gone_texts WHERE text = ?1")?
            .execute([text])?;
    }
    Ok(())
}

/// How many texts have gone since the index was made, and how many of them are deleted.
pub(super) fn gone(connection: &Connection) -> rusqlite::Result<Gone> {
    let gone = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'gone_texts'";
    let gone: i64 = connection.prepare_cached(gone)?.query_row([], only)?;
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(place) FROM gone_texts")?
        .query_row([], only)?;
    Ok(Gone {
        all: gone,
        deleted: first.map_or(gone, |first| first - 1),
    })
}

/// A long text that has all phrases.
pub(super) struct LongHit {
    pub(super) number: EntityNumber,
    /// How many words it has.
    pub(super) words: f64,
    /// How often it has each phrase, in its title and in its content.
    pub(super) counts: Vec<[f64; 2]>,
}

columns! {
    /// A long text that is whole.
    struct LongTextRow {
        id: i64,
        number: EntityNumber,
        title: String,
        words: u64,
    }
}

columns! {
    /// A part, and the first word of each of its blocks.
    struct PartRow {
        id: i64,
        firsts: Vec<u8>,
    }
}

/// The long texts of a tenant that have all phrases.
pub(super) fn find(
    connection: &Connection,
    tenant: Tenant,
    phrases: &[Phrase],
) -> rusqlite::Result<Vec<LongHit>> {
    let sql = format!(
        "SELECT {} FROM long_texts WHERE tenant = ?1 AND is_whole = 1",
        LongTextRow::COLUMNS
    );
    let mut texts = connection.prepare_cached(&sql)?;
    let patience = Patience(Instant::now());
    let mut hits = Vec::new();
    for text in texts.query_map([tenant.number()], whole::<LongTextRow>)? {
        let text = text?;
        let title: Vec<&str> = text.title.split_terminator(' ').collect();
        let mut content = Content::of(connection, text.id, patience)?;
        let mut counts = Vec::with_capacity(phrases.len());
        for phrase in phrases {
            let count = [in_title(&title, phrase), content.count(phrase)?];
            if count == [0, 0] {
                break;
            }
            counts.push(count.map(as_weight));
        }
        if counts.len() == phrases.len() {
            hits.push(LongHit {
                number: text.number,
                words: as_weight(title.len())
                    + as_weight(usize::try_from(text.words).unwrap_or(usize::MAX)),
                counts,
            });
        }
    }
    Ok(hits)
}

/// How often a phrase is in a title.
fn in_title(title: &[&str], phrase: &Phrase) -> usize {
    let Some((last, before)) = phrase.words.split_last() else {
        return 0;
    };
    let fits = |words: &&[&str]| {
        words.split_last().is_some_and(|(word, others)| {
            let ends = word == last || (phrase.goes_on && word.starts_with(last.as_str()));
            ends && others == before
        })
    };
    title.windows(phrase.words.len()).filter(fits).count()
}

/// The content of a long text.
struct Content<'c> {
    patience: Patience,
    parts: Vec<PartRow>,
    block: CachedStatement<'c>,
}

impl<'c> Content<'c> {
    fn of(connection: &'c Connection, text: i64, patience: Patience) -> rusqlite::Result<Self> {
        let sql = format!(
            "SELECT {} FROM long_parts WHERE id >= ?1 AND id < ?2",
            PartRow::COLUMNS
        );
        let mut parts = connection.prepare_cached(&sql)?;
        let range = [text << PART_BITS, (text + 1) << PART_BITS];
        let parts = parts.query_map(range, whole::<PartRow>)?;
        Ok(Content {
            patience,
            parts: parts.collect::<rusqlite::Result<_>>()?,
            block: connection.prepare_cached("SELECT words FROM long_blocks WHERE id = ?1")?,
        })
    }

    /// How often a phrase is in it; what is more than enough is not counted.
    fn count(&mut self, phrase: &Phrase) -> rusqlite::Result<usize> {
        let last = phrase.words.len().saturating_sub(1);
        // A word may stand in it several times.
        let mut read: HashMap<(&str, bool), Rc<[u64]>> = HashMap::new();
        let mut walks = Vec::with_capacity(phrase.words.len());
        for (place, word) in phrase.words.iter().enumerate() {
            let wanted = Wanted {
                word,
                goes_on: phrase.goes_on && place == last,
            };
            let key = (wanted.word, wanted.goes_on);
            let places = match read.get(&key) {
                Some(places) => Rc::clone(places),
                None => Rc::clone(read.entry(key).or_insert(self.places(wanted)?.into())),
            };
            if places.is_empty() {
                return Ok(0);
            }
            walks.push(Walk {
                distance: u64::try_from(place).unwrap_or(u64::MAX),
                places,
                at: 0,
            });
        }
        // Whatever word is the rarest says where it may begin.
        walks.sort_by_key(|walk| walk.places.len());
        let Some((rarest, others)) = walks.split_first_mut() else {
            return Ok(0);
        };
        if others.is_empty() {
            return Ok(rarest.places.len());
        }
        let mut count = 0;
        for (tried, place) in rarest.places.iter().enumerate() {
            if tried % LOOK_EVERY == 0 {
                self.patience.check()?;
            }
            let start = place.checked_sub(rarest.distance);
            let is_there = |start| others.iter_mut().all(|walk| walk.reaches(start));
            count += usize::from(start.is_some_and(is_there));
            if count == COUNTED_MAX {
                break;
            }
        }
        Ok(count)
    }

    /// The places of what is wanted, in their order.
    fn places(&mut self, wanted: Wanted<'_>) -> rusqlite::Result<Vec<u64>> {
        let no_block = |_: NoBlock| damaged();
        let mut places = Vec::new();
        for part in &self.parts {
            self.patience.check()?;
            let (first, count) =
                word_blocks::first_block(&part.firsts, wanted).map_err(no_block)?;
            let id = part.id << BLOCK_BITS;
            for block in (id..).take(count).skip(first) {
                let more = self.block.query_row([block], |row| {
                    let block = row.get_ref(0)?.as_blob()?;
                    word_blocks::add_places(block, wanted, &mut places).map_err(no_block)
                });
                if !more.optional()?.ok_or_else(damaged)? {
                    break;
                }
            }
        }
        if wanted.goes_on {
            places.sort_unstable();
        }
        Ok(places)
    }
}

/// The places of one word of a phrase, walked along with the others'.
struct Walk {
    /// How many words stand before it in the phrase.
    distance: u64,
    places: Rc<[u64]>,
    at: usize,
}

impl Walk {
    /// Whether it stands where it has to if the phrase begins there; asked for one place after the other.
    fn reaches(&mut self, start: u64) -> bool {
        let wanted = start.saturating_add(self.distance);
        let rest = self.places.get(self.at..).unwrap_or_default();
        let near = rest.iter().take(NEAR).position(|place| *place >= wanted);
        let further = near.unwrap_or_else(|| rest.partition_point(|place| *place < wanted));
        self.at += further;
        rest.get(further) == Some(&wanted)
    }
}

/// How long long texts are searched: SQLite's own look at the clock sees nothing of what is done with what
/// it has read.
#[derive(Debug, Clone, Copy)]
struct Patience(Instant);

impl Patience {
    fn check(self) -> rusqlite::Result<()> {
        if self.0.elapsed() < SEARCHED_FOR {
            return Ok(());
        }
        let interrupted = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
        Err(rusqlite::Error::SqliteFailure(interrupted, None))
    }
}

fn as_weight(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
