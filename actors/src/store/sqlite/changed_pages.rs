//! Which pages of a file were changed, as the frames of its log say
//! (<https://sqlite.org/fileformat2.html#the_write_ahead_log>). They are read behind each commit, for later
//! the log may begin at its start again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::codec::only;

/// Bytes of a log before its first frame …
const LOG_HEAD: u64 = 32;
/// … the two numbers in there that are others when it begins again …
const SALTS_AT: u64 = 16;
/// … and before the page of each frame. They begin with the page's number.
const FRAME_HEAD: u64 = 24;

/// The pages that a connection has changed and that nobody has asked for since.
#[derive(Debug, Clone)]
pub(crate) struct ChangedPages(Arc<Mutex<Noted>>);

#[derive(Debug)]
struct Noted {
    log: PathBuf,
    file: Option<File>,
    page_bytes: u64,
    salts: [u8; 8],
    /// So many frames of the log are noted.
    frames: u32,
    pages: PageSet,
    /// Any page may have been changed.
    unknown: bool,
}

impl ChangedPages {
    /// Of the file of this connection, the only one that writes it, whose log is at this path.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn of(connection: &Connection, log: PathBuf) -> rusqlite::Result<Self> {
        Ok(ChangedPages(Arc::new(Mutex::new(Noted {
            log,
            file: None,
            page_bytes: connection
                .pragma_query_value(None, "page_size", only::<u32>)?
                .into(),
            salts: [0; 8],
            frames: 0,
            pages: PageSet::default(),
            unknown: false,
        }))))
    }

    /// Notes what the connection changes, until it is given another hook.
    pub(crate) fn follow(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let noting = self.clone();
        connection.wal_hook(Some(move |_: &mut Wal, frames| {
            noting.committed(frames);
            // An error here would say that the commit failed, and it has not.
            Ok(())
        }))
    }

    /// A commit has left so many frames in the log: to be called by the connection's hook.
    pub(crate) fn committed(&self, frames: i32) {
        let mut noted = self.0.lock();
        let frames = u32::try_from(frames).unwrap_or_default();
        if noted.read(frames).is_err() {
            noted.unknown = true;
        }
    }

    /// What was changed before is not known.
    pub(crate) fn forget(&self) {
        self.0.lock().unknown = true;
    }

    /// Whether any page may have been changed.
    pub(crate) fn are_unknown(&self) -> bool {
        self.0.lock().unknown
    }

    /// Whether no page was changed since they were taken.
    pub(crate) fn are_none(&self) -> bool {
        let noted = self.0.lock();
        !noted.unknown && noted.pages.is_empty()
    }

    /// Moves them to others, in a file of so many pages.
    pub(crate) fn take(&self, into: &mut PageSet, page_count: u32) {
        let mut noted = self.0.lock();
        if std::mem::take(&mut noted.unknown) {
            into.insert_up_to(page_count);
        }
        into.append(std::mem::take(&mut noted.pages));
    }
}

impl Noted {
    fn read(&mut self, frames: u32) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.log)?,
        };
        let mut salts = [0; 8];
        file.read_exact_at(&mut salts, SALTS_AT)?;
        if salts != self.salts {
            self.salts = salts;
            self.frames = 0;
        }
        // A transaction may write a page again over an earlier frame of its own.
        for frame in self.frames..frames {
            let mut page = [0; 4];
            let at = LOG_HEAD + u64::from(frame) * (FRAME_HEAD + self.page_bytes);
            file.read_exact_at(&mut page, at)?;
            self.pages.insert(u32::from_be_bytes(page));
        }
        self.frames = frames;
        self.file = Some(file);
        Ok(())
    }
}

/// A set of pages, one bit for each page of the file.
#[derive(Debug, Default)]
pub(crate) struct PageSet {
    words: Vec<u64>,
    /// Before this word there is none.
    first: usize,
}

impl PageSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn insert(&mut self, page: u32) {
        let (word, bit) = place(page);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.first = self.first.min(word);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    fn insert_up_to(&mut self, last: u32) {
        for page in 1..=last {
            self.insert(page);
        }
    }

    fn append(&mut self, mut other: PageSet) {
        if self.words.len() < other.words.len() {
            std::mem::swap(self, &mut other);
        }
        self.first = self.first.min(other.first);
        for (word, more) in self.words.iter_mut().zip(other.words) {
            *word |= more;
        }
    }

    /// The first ones, at most so many.
    pub(crate) fn first(&self, limit: usize) -> Vec<u32> {
        let mut pages = Vec::new();
        for (number, word) in self.words.iter().enumerate().skip(self.first) {
            let mut left = *word;
            while left != 0 {
                if pages.len() == limit {
                    return pages;
                }
                let page = number * 64 + left.trailing_zeros() as usize;
                pages.extend(u32::try_from(page));
                left &= left - 1;
            }
        }
        pages
    }

    /// Takes out what [`PageSet::first`] gave.
    pub(crate) fn remove(&mut self, pages: &[u32]) {
        for page in pages {
            let (word, bit) = place(*page);
            if let Some(word) = self.words.get_mut(word) {
                *word &= !bit;
            }
        }
        let left = self.words.iter().skip(self.first);
        self.first += left.take_while(|word| **word == 0).count();
        if self.first == self.words.len() {
            *self = PageSet::default();
        }
    }
}

/// The word of a page, and its bit there.
fn place(page: u32) -> (usize, u64) {
    (page as usize / 64, 1 << (page % 64))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rusqlite::OpenFlags;

    use super::super::file::{connect, log_of};
    use super::*;

    proptest! {
        #[test]
        fn a_set_of_pages_is_a_set(pages in prop::collection::vec(1..2_000_u32, 0..60), more in prop::collection::vec(1..9_000_u32, 0..60)) {
            let (mut set, mut other) = (PageSet::default(), PageSet::default());
            pages.iter().for_each(|page| set.insert(*page));
            more.iter().for_each(|page| other.insert(*page));
            set.append(other);
            let all: BTreeSet<u32> = pages.into_iter().chain(more).collect();
            let mut taken = Vec::new();
            while !set.is_empty() {
                let some = set.first(7);
                prop_assert!((1..=7).contains(&some.len()));
                set.remove(&some);
                taken.extend(some);
            }
            prop_assert_eq!(taken, all.into_iter().collect::<Vec<_>>());
        }
    }

    /// The content of all pages.
    fn pages(connection: &Connection) -> Vec<Vec<u8>> {
        let mut all = connection
            .prepare("SELECT data FROM sqlite_dbpage ORDER BY pgno")
            .unwrap();
        let pages = all.query_map([], |row| row.get(0)).unwrap();
        pages.collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn all_pages_that_are_changed_are_noted_however_often_the_log_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(&path, flags).unwrap();
        let changed = ChangedPages::of(&connection, log_of(&path)).unwrap();
        changed.follow(&mut connection).unwrap();
        connection
            .execute_batch("CREATE TABLE texts(n INTEGER PRIMARY KEY, text TEXT) STRICT")
            .unwrap();
        let row = |n: i64, words: usize| {
            let text = "text ".repeat(words);
            let sql = "INSERT OR REPLACE INTO texts VALUES (?1, ?2)";
            connection.execute(sql, (n, text)).unwrap();
        };
        // These stay as they are.
        (1_000..2_000).for_each(|n| row(n, 100));
        let mut before = pages(&connection);
        let (mut all_noted, mut all) = (0, 0);
        changed.take(&mut PageSet::default(), 0);
        for round in 0..40_i64 {
            connection.execute_batch("BEGIN").unwrap();
            // Now more frames than before the log began again, now fewer.
            for n in 0..=(round * 7_919 % 60) {
                row(n * 31 % 97, usize::try_from(n * round % 500).unwrap());
            }
            connection.execute_batch("COMMIT").unwrap();
            if round % 3 == 0 {
                let mode = if round % 2 == 0 {
                    "RESTART"
                } else {
                    "TRUNCATE"
                };
                connection
                    .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
                    .unwrap();
            }
            let after = pages(&connection);
            let mut noted = PageSet::default();
            changed.take(&mut noted, 0);
            let noted: BTreeSet<u32> = noted.first(usize::MAX).into_iter().collect();
            for (number, page) in (1..).zip(&after) {
                let is_other = before.get(number as usize - 1) != Some(page);
                assert!(
                    !is_other || noted.contains(&number),
                    "{round}: page {number}"
                );
            }
            (all_noted, all) = (all_noted + noted.len(), all + after.len());
            before = after;
        }
        assert!(all_noted * 2 < all, "{all_noted} of {all}");
        assert!(changed.are_none());
        changed.forget();
        let mut all = PageSet::default();
        changed.take(&mut all, 5);
        assert_eq!(all.first(9), [1, 2, 3, 4, 5]);
    }
}
