//! Taking words out of an FTS5 table so that nothing of them is left. FTS5's `secure-delete` takes them out
//! of the leaves of its trees (<https://sqlite.org/fts5.html#the_secure_delete_configuration_option>), not
//! out of the separators between one leaf and the next: a separator is the beginning of what was the leaf's
//! first word when it was written, as much of it as tells it from the word before. Where that word is gone,
//! the separator becomes the word that is the leaf's first now. Only a rebuild of the trees would do the same
//! by FTS5's own means (`optimize`), at the cost of all that is in them.
//!
//! The trees stand in ordinary tables, whose format SQLite keeps
//! (<https://sqlite.org/fts5.html#fts5_data_structures>): `{table}_idx` has the separators with their
//! leaves' numbers, `{table}_data` the leaves.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::index::damaged;
use crate::store::sqlite::codec::{Columns, columns, only, whole};

/// Bytes of words that are kept at most until their separators are looked for.
const KEPT_MAX: usize = 1 << 20;
/// Words stand in FTS5's trees behind this byte; other ones mark indexes of prefixes.
const MAIN_INDEX: u8 = b'0';
/// The bits of a leaf's row that hold its number; the others hold its segment's.
const LEAF_BITS: u32 = 37;
/// In the head of a leaf, behind two bytes: where its footer begins.
const FOOTER_AT: usize = 2;

/// The words that a transaction has taken out of an FTS5 table with `secure-delete`.
pub(super) struct TakenOut {
    table: &'static str,
    words: BTreeSet<Vec<u8>>,
    bytes: usize,
    any: bool,
}

columns! {
    /// The last separator that is not behind a word.
    struct Separator {
        term: Vec<u8>,
        /// The number of the leaf, and in the last bit whether that has an index of its own.
        pgno: i64,
    }
}

impl TakenOut {
    pub(super) fn of(table: &'static str) -> Self {
        TakenOut {
            table,
            words: BTreeSet::new(),
            bytes: 0,
            any: false,
        }
    }

    /// Notes words that were taken out, a space between them.
    pub(super) fn add(&mut self, connection: &Connection, words: &str) -> rusqlite::Result<()> {
        self.any = true;
        for word in words.split_terminator(' ') {
            let mut term = vec![MAIN_INDEX];
            term.extend_from_slice(word.as_bytes());
            let bytes = term.len();
            if self.words.insert(term) {
                self.bytes += bytes;
            }
            if self.bytes > KEPT_MAX {
                self.clear_separators(connection)?;
            }
        }
        Ok(())
    }

    /// Clears the separators of the words, too; whether there were any.
    pub(super) fn finish(mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.clear_separators(connection)?;
        Ok(self.any)
    }

    fn clear_separators(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.bytes = 0;
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return Ok(());
        }
        let table = self.table;
        // Until now they may be taken out in memory only.
        connection
            .prepare_cached(&format!("INSERT INTO {table} ({table}) VALUES ('flush')"))?
            .execute([])?;
        let mut next = connection.prepare_cached(&format!(
            "SELECT min(segid) FROM {table}_idx WHERE segid > ?1"
        ))?;
        let mut segment = 0;
        while let Some(found) = next.query_row([segment], only::<Option<i64>>)? {
            segment = found;
            self.clear_segment(connection, segment, &words)?;
        }
        Ok(())
    }

    /// In each segment a word stood behind the last separator that is not behind it.
    fn clear_segment(
        &self,
        connection: &Connection,
        segment: i64,
        words: &BTreeSet<Vec<u8>>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT {} FROM {}_idx WHERE segid = ?1 AND term <= ?2 ORDER BY term DESC LIMIT 1",
            Separator::COLUMNS,
            self.table
        );
        let mut find = connection.prepare_cached(&sql)?;
        for word in words {
            let found = find
                .query_row(params![segment, word], whole::<Separator>)
                .optional()?;
            // The first leaf's separator is empty.
            if let Some(separator) = found
                && !separator.term.is_empty()
                && word.starts_with(&separator.term)
            {
                self.replace(connection, segment, &separator)?;
            }
        }
        Ok(())
    }

    /// Makes a separator the first word of its leaf. That of a leaf which was merged into another segment
    /// goes: nobody looks for it any more.
    fn replace(
        &self,
        connection: &Connection,
        segment: i64,
        separator: &Separator,
    ) -> rusqlite::Result<()> {
        let table = self.table;
        let leaf: Option<Vec<u8>> = connection
            .prepare_cached(&format!("SELECT block FROM {table}_data WHERE id = ?1"))?
            .query_row([segment << LEAF_BITS | separator.pgno >> 1], only)
            .optional()?;
        let Some(leaf) = leaf else {
            connection
                .prepare_cached(&format!(
                    "DELETE FROM {table}_idx WHERE segid = ?1 AND term = ?2"
                ))?
                .execute(params![segment, separator.term])?;
            return Ok(());
        };
        let first = first_word(&leaf).ok_or_else(damaged)?;
        if first != separator.term {
            connection
                .prepare_cached(&format!(
                    "UPDATE {table}_idx SET term = ?3 WHERE segid = ?1 AND term = ?2"
                ))?
                .execute(params![segment, separator.term, first])?;
        }
        Ok(())
    }
}

/// The first word of a leaf that has any: the footer tells where it begins, and it stands there in whole
/// behind its length.
fn first_word(leaf: &[u8]) -> Option<&[u8]> {
    let footer = leaf.get(FOOTER_AT..FOOTER_AT + 2)?;
    let footer = u16::from_be_bytes(footer.try_into().ok()?);
    let (offset, _) = number(leaf.get(usize::from(footer)..)?)?;
    let (length, word) = number(leaf.get(offset..)?)?;
    word.get(..length)
}

/// A number in SQLite's format (<https://sqlite.org/fileformat2.html#varint>), and what is behind it.
pub(super) fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    let mut rest = bytes;
    // The ninth byte of the format has eight bits: what needs it is no place and no count.
    for _ in 0..8 {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        number = number << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "texts";

    fn table() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE VIRTUAL TABLE texts USING fts5(words, content = '', columnsize = 0, tokenize = 'ascii');
                 INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
                 INSERT INTO texts (texts, rank) VALUES ('pgsz', 64);",
            )
            .unwrap();
        connection
    }

    fn put(connection: &Connection, row: i64, words: &str) {
        connection
            .prepare_cached("INSERT INTO texts (rowid, words) VALUES (?1, ?2)")
            .unwrap()
            .execute(params![row, words])
            .unwrap();
    }

    fn take_out(connection: &Connection, row: i64, words: &str) {
        connection
            .prepare_cached("INSERT INTO texts (texts, rowid, words) VALUES ('delete', ?1, ?2)")
            .unwrap()
            .execute(params![row, words])
            .unwrap();
    }

    fn separators(connection: &Connection) -> Vec<Vec<u8>> {
        let mut separators = connection
            .prepare("SELECT term FROM texts_idx WHERE term <> x''")
            .unwrap();
        let separators = separators.query_map([], only).unwrap();
        separators.collect::<rusqlite::Result<_>>().unwrap()
    }

    fn is_found(connection: &Connection, row: i64, word: &str) -> bool {
        connection
            .prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ?1 AND rowid = ?2")
            .unwrap()
            .exists(params![format!("\"{word}\""), row])
            .unwrap()
    }

    /// Many words are each other's beginnings, and some are in many texts: trees of several leaves, with
    /// separators that are whole words, and lists that go over leaves.
    fn texts() -> impl Strategy<Value = Vec<Vec<String>>> {
        let word = prop_oneof!["[ab]{1,24}", "[ab]{20,40}", "c"];
        proptest::collection::vec(proptest::collection::vec(word, 1..12), 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn words_that_are_taken_out_are_left_in_no_separator(texts in texts(), seed in any::<u64>()) {
            let connection = table();
            let joined: Vec<(i64, String)> = (1..).zip(texts.iter().map(|words| words.join(" "))).collect();
            // Several segments, merged now and then.
            for some in joined.chunks(5) {
                connection.execute_batch("BEGIN").unwrap();
                for (row, words) in some {
                    put(&connection, *row, words);
                }
                connection.execute_batch("COMMIT").unwrap();
            }
            let goes = |row: i64| (seed.rotate_left(u32::try_from(row % 64).unwrap()) & 3) != 0;
            connection.execute_batch("BEGIN").unwrap();
            let mut taken_out = TakenOut::of(TABLE);
            for (row, words) in joined.iter().filter(|(row, _)| goes(*row)) {
                take_out(&connection, *row, words);
                taken_out.add(&connection, words).unwrap();
            }
            let any = taken_out.finish(&connection).unwrap();
            connection.execute_batch("COMMIT").unwrap();
            prop_assert_eq!(any, joined.iter().any(|(row, _)| goes(*row)));
            let left: BTreeSet<&str> = joined
                .iter()
                .filter(|(row, _)| !goes(*row))
                .flat_map(|(_, words)| words.split(' '))
                .collect();
            for separator in separators(&connection) {
                let separator = String::from_utf8(separator).unwrap();
                let separator = separator.strip_prefix('0').unwrap();
                prop_assert!(left.iter().any(|word| word.starts_with(separator)), "{}", separator);
                let is_gone = joined.iter().any(|(_, words)| words.split(' ').any(|word| word == separator));
                prop_assert!(left.contains(separator) || !is_gone, "{}", separator);
            }
            connection.execute_batch("INSERT INTO texts (texts) VALUES ('integrity-check')").unwrap();
            for (row, words) in &joined {
                for word in words.split(' ') {
                    prop_assert_eq!(is_found(&connection, *row, word), !goes(*row), "{} in {}", word, row);
                }
            }
        }
    }

    #[test]
    fn what_fts5_leaves_of_words_goes() {
        let connection = table();
        // Each is the beginning of the next, so a separator is a whole word.
        let words: Vec<(i64, String)> = (1..=60).map(|n| (n, "a".repeat(n as usize))).collect();
        let goes = |row: &i64| row % 4 != 0;
        connection.execute_batch("BEGIN").unwrap();
        for (row, word) in &words {
            put(&connection, *row, word);
        }
        connection.execute_batch("COMMIT; BEGIN").unwrap();
        for (row, word) in words.iter().filter(|(row, _)| goes(row)) {
            take_out(&connection, *row, word);
        }
        connection.execute_batch("COMMIT").unwrap();
        let left = |connection: &Connection| {
            let separators = separators(connection);
            separators
                .iter()
                .filter(|separator| (separator.len() - 1) % 4 != 0)
                .count()
        };
        assert!(left(&connection) > 0, "{:?}", separators(&connection));
        let mut taken_out = TakenOut::of(TABLE);
        for (_, word) in words.iter().filter(|(row, _)| goes(row)) {
            taken_out.add(&connection, word).unwrap();
        }
        assert!(taken_out.finish(&connection).unwrap());
        assert_eq!(left(&connection), 0, "{:?}", separators(&connection));
        for (row, word) in &words {
            assert_eq!(is_found(&connection, *row, word), !goes(row), "{row}");
        }
    }
}
