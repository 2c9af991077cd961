//! Taking out of the file what stays in the gaps of its pages. `secure_delete` overwrites what is
//! deleted where it stands; but a page whose cells were moved to others, to balance a tree, keeps copies of
//! them between its cell pointers and its cells (<https://sqlite.org/fileformat2.html#b_tree_pages>),
//! and nothing overwrites these when the cells are deleted where they are now. So after an erasure all
//! pages are looked through, and what stands in a gap is overwritten. Nothing reads a gap: it is changed by
//! `sqlite_dbpage` (<https://sqlite.org/dbpage.html>) in a transaction like any other.

use std::ops::Range;

use rusqlite::{Connection, params};

use super::codec::only;

/// Cargo reads what SQLite is built with from the folder in which it is called, and those above.
const _: &str = env!(
    "LIBSQLITE3_FLAGS",
    "call cargo in the project's folder: its .cargo/config.toml says how SQLite is built"
);
/// Pages that are looked at in one slice: some milliseconds.
const PAGES_AT_ONCE: u32 = 512;
/// In a file of so many pages (128 GiB), the number of the next one with which an overflow page begins might
/// be taken for the kind of a page of a tree, and its content for a gap: then none is looked at.
const PAGES_MAX: u32 = 0x0200_0000;
/// The head of the file, before that of its first page.
const FILE_HEAD: usize = 100;

/// How far the pages were looked through.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// The next page; none where nothing is to be looked for.
    next: Option<u32>,
}

impl Gaps {
    /// Something was deleted: from now on all pages are looked through.
    pub(super) fn begin(&mut self) {
        self.next = Some(1);
    }

    /// Whether nothing of what was deleted before [`Gaps::begin`] is in a gap.
    pub(super) fn are_clean(&self) -> bool {
        self.next.is_none()
    }

    /// Looks through some pages; whether there was anything to do.
    pub(super) fn slice(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let Some(first) = self.next else {
            return Ok(false);
        };
        let pages: u32 = connection.pragma_query_value(None, "page_count", only)?;
        if pages >= PAGES_MAX {
            tracing::warn!(
                pages,
                "the file is too long for gaps of its pages to be emptied"
            );
            self.next = None;
            return Ok(false);
        }
        let last = first.saturating_add(PAGES_AT_ONCE - 1).min(pages);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        scrub(connection, first..=last)?;
        connection.execute_batch("COMMIT")?;
        self.next = (last < pages).then_some(last + 1);
        Ok(true)
    }
}

/// Overwrites what stands in the gaps of these pages.
fn scrub(connection: &Connection, pages: std::ops::RangeInclusive<u32>) -> rusqlite::Result<()> {
    let mut read = connection.prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1")?;
    let mut write =
        connection.prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")?;
    for number in pages {
        let mut page: Vec<u8> = read.query_row([number], only)?;
        let Some(gap) = gap(&page, number).and_then(|gap| page.get_mut(gap)) else {
            continue;
        };
        if gap.iter().any(|byte| *byte != 0) {
            gap.fill(0);
            write.execute(params![number, page])?;
        }
    }
    Ok(())
}

/// What a page of a tree has between its cell pointers and its cells; none of another page.
fn gap(page: &[u8], number: u32) -> Option<Range<usize>> {
    let head = if number == 1 { FILE_HEAD } else { 0 };
    let head_bytes = match page.get(head)? {
        // Inside of a tree, with the number of the page to the right.
        2 | 5 => 12,
        // Leaves.
        10 | 13 => 8,
        _ => return None,
    };
    let two = |at: usize| {
        let bytes = page.get(head + at..head + at + 2)?;
        Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)))
    };
    let cells = two(3)?;
    let content = match two(5)? {
        0 => 65_536,
        content => content,
    };
    let start = head + head_bytes + 2 * cells;
    (start <= content && content <= page.len()).then_some(start..content)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::fs;

    use rusqlite::OpenFlags;

    use super::super::file::connect;
    use super::*;

    /// Whether anything of a word is left in the file of a store whose log is empty.
    fn holds(path: &std::path::Path, connection: &Connection, word: &str) -> bool {
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        let file = fs::read(path).unwrap();
        file.windows(word.len()).any(|part| part == word.as_bytes())
    }

    #[test]
    fn what_was_moved_between_pages_and_deleted_is_in_none_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(&path, flags).unwrap();
        connection
            .execute_batch("CREATE TABLE texts(n INTEGER PRIMARY KEY, text TEXT) STRICT")
            .unwrap();
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        connection.execute_batch("BEGIN").unwrap();
        // In no order, so that pages are split and joined in the middle.
        for round in 0..20_000_u32 {
            let text = "erasable ".repeat(1 + random(60) as usize);
            connection
                .execute(
                    "INSERT OR REPLACE INTO texts VALUES (?1, ?2)",
                    params![random(5_000), text],
                )
                .unwrap();
            if round % 3 == 0 {
                let gone = random(5_000);
                connection
                    .execute("DELETE FROM texts WHERE n = ?1", [gone])
                    .unwrap();
            }
        }
        connection
            .execute("DELETE FROM texts WHERE n % 4 <> 0", [])
            .unwrap();
        connection
            .execute("UPDATE texts SET text = upper(text)", [])
            .unwrap();
        connection.execute_batch("COMMIT").unwrap();
        assert!(
            holds(&path, &connection, "erasable"),
            "this is what gaps keep"
        );
        let shown = |connection: &Connection| -> Vec<String> {
            let mut all = connection
                .prepare("SELECT text FROM texts ORDER BY n")
                .unwrap();
            let rows = all.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        };
        let before = shown(&connection);
        let mut gaps = Gaps::default();
        assert!(!gaps.slice(&connection).unwrap());
        gaps.begin();
        while gaps.slice(&connection).unwrap() {}
        assert!(gaps.are_clean());
        assert!(!holds(&path, &connection, "erasable"));
        assert!(shown(&connection) == before);
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }
}
