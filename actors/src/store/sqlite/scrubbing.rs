//! Taking out of a file what stays in the unallocated regions of its pages. `secure_delete` overwrites what is
//! deleted where it stands; but a page whose cells were moved to others, to balance a tree, keeps copies of
//! them between its cell pointers and its cells (<https://sqlite.org/fileformat2.html#b_tree_pages>), and
//! nothing overwrites these when the cells are deleted where they are now. So the pages that were changed
//! are looked through, and what stands there is overwritten. Nothing reads it: it is changed by
//! `sqlite_dbpage` (<https://sqlite.org/dbpage.html>) in a transaction like any other.
//!
//! What was deleted before [`Scrubber::begin`] is nowhere any more when [`Scrubber::is_done`]: a page that is
//! changed later takes over no copy of it. Pages are also looked through while there is nothing else to do,
//! so that few are left when something is to leave the file soon.

use std::ops::Range;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::changed_pages::{ChangedPages, PageSet};
use super::codec::only;

/// Cargo reads what SQLite is built with from the folder in which it is called, and those above.
const _: &str = env!(
    "LIBSQLITE3_FLAGS",
    "call cargo in the project's folder: its .cargo/config.toml says how SQLite is built"
);
/// Pages that are looked at in one slice: some tenths of a millisecond …
const PAGES_AT_ONCE: usize = 64;
/// … and where they are late, or the file is closed.
const PAGES_IF_LATE: usize = 512;
/// When the file is closed: what is left then is looked through after the next start, with all the rest.
const AT_END: Duration = Duration::from_secs(1);
/// In a file of so many pages (128 GiB), the number of the next one with which an overflow page begins might
/// be taken for the kind of a page of a tree, and its content for unallocated: then none is looked at.
const PAGES_MAX: u32 = 0x0200_0000;
/// The head of the file, before that of its first page.
const FILE_HEAD: usize = 100;

/// Looks through the pages of a file, in slices.
#[derive(Debug)]
pub(crate) struct Scrubber {
    changed: ChangedPages,
    /// Those that are to be looked at.
    due: PageSet,
    /// Whether it was told that the file is too long.
    is_told: bool,
}

impl Scrubber {
    pub(crate) fn new(changed: ChangedPages) -> Self {
        Scrubber {
            changed,
            due: PageSet::default(),
            is_told: false,
        }
    }

    /// All pages that were changed until now are to be looked at.
    pub(crate) fn begin(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let pages: u32 = connection.pragma_query_value(None, "page_count", only)?;
        self.changed.take(&mut self.due, pages);
        if pages >= PAGES_MAX {
            if !std::mem::replace(&mut self.is_told, true) {
                tracing::warn!(
                    pages,
                    "the file is too long for unallocated regions of its pages to be overwritten"
                );
            }
            self.due = PageSet::default();
        }
        Ok(())
    }

    /// Whether nothing of what was deleted before [`Scrubber::begin`] is left.
    pub(crate) fn is_done(&self) -> bool {
        self.due.is_empty()
    }

    /// Looks at some pages; whether there were any.
    pub(crate) fn slice(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.look_at(connection, PAGES_AT_ONCE)
    }

    /// The same where somebody has waited for it for long.
    pub(crate) fn late_slice(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.look_at(connection, PAGES_IF_LATE)
    }

    /// The same where nobody waits for it.
    pub(crate) fn slice_ahead(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.look_ahead_at(connection, PAGES_AT_ONCE)
    }

    fn look_ahead_at(&mut self, connection: &Connection, pages: usize) -> rusqlite::Result<bool> {
        if self.due.is_empty() && !self.changed.are_none() {
            self.begin(connection)?;
        }
        self.look_at(connection, pages)
    }

    fn look_at(&mut self, connection: &Connection, pages: usize) -> rusqlite::Result<bool> {
        if self.due.is_empty() {
            return Ok(false);
        }
        let pages = self.due.first(pages);
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        scrub(&transaction, &pages)?;
        transaction.commit()?;
        self.due.remove(&pages);
        Ok(true)
    }

    /// Looks at all pages that are left, if there is time. Whether that was all of them.
    pub(crate) fn finish(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let begun = Instant::now();
        while self.look_ahead_at(connection, PAGES_IF_LATE)? {
            if begun.elapsed() > AT_END {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Overwrites what stands in the unallocated regions of these pages.
fn scrub(connection: &Connection, pages: &[u32]) -> rusqlite::Result<()> {
    let mut read = connection.prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1")?;
    let mut write =
        connection.prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")?;
    for number in pages {
        let page: Option<Vec<u8>> = read.query_row([number], only).optional()?;
        let Some(mut page) = page else { continue };
        let region = unallocated(&page, *number).and_then(|region| page.get_mut(region));
        if let Some(region) = region
            && region.iter().any(|byte| *byte != 0)
        {
            region.fill(0);
            write.execute(params![number, page])?;
        }
    }
    Ok(())
}

/// What a page of a tree has between its cell pointers and its cells; none of another page.
fn unallocated(page: &[u8], number: u32) -> Option<Range<usize>> {
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

    use super::super::file::{connect, log_of};
    use super::*;

    /// Whether anything of a word is left in the file of a store whose log is empty.
    fn holds(path: &std::path::Path, connection: &Connection, word: &str) -> bool {
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        let file = fs::read(path).unwrap();
        file.windows(word.len()).any(|part| part == word.as_bytes())
    }

    /// Has words moved from page to page, and then deletes them.
    fn leave_copies(connection: &Connection) {
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
    }

    fn shown(connection: &Connection) -> Vec<String> {
        let mut all = connection
            .prepare("SELECT text FROM texts ORDER BY n")
            .unwrap();
        let rows = all.query_map([], only).unwrap();
        rows.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn what_was_moved_between_pages_and_deleted_is_in_none_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(&path, flags).unwrap();
        let changed = ChangedPages::of(&connection, log_of(&path)).unwrap();
        changed.follow(&mut connection).unwrap();
        connection
            .execute_batch("CREATE TABLE texts(n INTEGER PRIMARY KEY, text TEXT) STRICT")
            .unwrap();
        leave_copies(&connection);
        assert!(
            holds(&path, &connection, "erasable"),
            "this is what SQLite keeps"
        );
        let before = shown(&connection);
        let mut scrubber = Scrubber::new(changed.clone());
        assert!(!scrubber.slice(&connection).unwrap());
        scrubber.begin(&connection).unwrap();
        assert!(!scrubber.is_done());
        while scrubber.slice(&connection).unwrap() {}
        assert!(scrubber.is_done());
        assert!(!holds(&path, &connection, "erasable"));
        assert!(shown(&connection) == before);
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        // What it has changed itself is looked at once more, to no end.
        assert!(scrubber.finish(&connection).unwrap());
        assert!(changed.are_none());
        assert!(!scrubber.slice_ahead(&connection).unwrap());
    }
}
