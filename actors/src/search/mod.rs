//! Full-text search: each index a file of its own beside the store, which can be lost, with threads
//! of its own. Knows texts by number and tenant; what they are the texts of, and who may read them,
//! is its users' business.
//!
//! - `words.rs`: what is one word, and how a query is read.
//! - `index.rs`: the file; `layout.rs`: what its tables have to offer; `titled.rs`: texts that have a
//!   title, each found by itself; `grouped.rs`: texts in groups, found as groups.
//! - `long_texts.rs`: those that would hold up everybody in the table of the others; `word_blocks.rs`: how
//!   one is kept.
//! - `separators.rs`: what of a word would stay when it is taken out.
//! - `writer.rs`: the thread that fills it; `following.rs`: the one that hands in what happened;
//!   `backlog.rs`: what waits in between.
//! - here: the handle.
//!
//! # Promises
//!
//! - Accounts take turns with what happened, each in its order. The position up to which the index
//!   knows everything of all of them stands in the file in the same transaction as the words: a crash,
//!   of the machine too, means that some of it is handed in again, which changes nothing.
//! - [`Indexer::find`] knows everything of its own account that was acknowledged before, and waits for
//!   that alone: one account that changes more than the index keeps up with delays no other's searches.
//!   No transaction takes more than 128 KiB of text, or one text.
//! - What was replaced or removed is gone from the disk at most 30 s later: words, kept texts, keys of
//!   trees, copies between the cells of pages, and the log.
//! - A file that is missing, damaged, of another version, left while it was made, ahead of the store in
//!   anything or further behind than the store can tell is begun anew from position 0.
//! - Accounts take turns with searches. One that takes longer than 2 s is interrupted, so is one
//!   whose asker has left; what finds no room in the queue, or waits in it for too long, is
//!   refused. Memory: 32 MiB of texts that wait, then what happens waits without its text, which is read
//!   when its turn comes; a million changes, then nothing further is read of the feed; 64 MiB of long
//!   texts that are put in by parts, then no further one is begun; 256 KiB of texts in the writer's queue.
//!   What is in there holds nothing that anybody else waits for.
//! - While the disk is full, searches are behind and everything else goes on; when there is room
//!   again, it catches up.

mod backlog;
mod following;
mod found;
mod grouped;
mod index;
mod layout;
mod long_texts;
mod separators;
mod titled;
mod word_blocks;
mod words;
mod writer;

#[cfg(test)]
mod grouped_tests;
#[cfg(test)]
mod long_text_tests;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::OpenFlags;
use tokio::sync::watch;

pub(crate) use self::backlog::{Pending, TURN_BYTES};
pub(crate) use self::following::{Adding, Indexer, Source, insist, insist_if_readable};
pub use self::found::{Found, Hit, Window};
pub use self::grouped::{FACETS, Group, GroupChange, GroupFilter, Grouped, Label};
pub use self::layout::{Layout, Progress};
pub use self::titled::{Entry, EntryChange, Titled};

use self::index::{Followed, Opened};
use self::writer::{Pace, QUEUE_KIB, Shared, Work, Writer, Written};
use crate::store::sqlite::readers::Readers;
use crate::store::{Later, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::position::Position;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::{cores, file_lock, threads};

/// Why the search index could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The file or its folder can't be used.
    #[error("the search index {0}: {1}")]
    File(PathBuf, std::io::Error),
    /// Another process has the file.
    #[error(
        "the search index {0} is in use by another process; stop that one, or set [store] path to \
         another file"
    )]
    InUse(PathBuf),
    /// SQLite can't open or read the file.
    #[error("the search index {0} can't be opened: {1}")]
    Sqlite(PathBuf, rusqlite::Error),
}

/// The index takes nothing any more: it was closed, or its file is damaged ([`Search::damaged`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the search index takes nothing any more")]
pub struct Closed;

/// Where an index is, and how it is kept.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// What may wait for a reading connection.
    pub reads: QueueBounds,
    /// For how long what happened can be read from the store; none: for ever. An index that lags
    /// further is begun anew.
    pub told_for: Option<Duration>,
    /// What its threads are called.
    pub threads: ThreadNames,
}

/// What the threads of an index are called.
#[derive(Debug, Clone, Copy)]
pub struct ThreadNames {
    /// The one that follows the feed.
    pub follower: &'static str,
    /// The one that writes the file.
    pub writer: &'static str,
    /// Those that search in it.
    pub readers: &'static str,
}

/// A place in the life of an index: behind an erasing that begins later its files hold nothing of what was
/// taken out before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErasingDue {
    account: u32,
    position: Position,
    erasings: u64,
    gone: i64,
}

/// The search index: one thread that writes it, and a few connections that search in it.
pub struct Search<L: Layout> {
    path: PathBuf,
    inbox: Mutex<Option<Sender<Work<L>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Searches take turns by account number.
    readers: Readers<u32>,
    shared: Arc<Shared>,
    reached: watch::Receiver<Position>,
}

impl<L: Layout> Search<L> {
    /// Opens the index, and tells up to which position of the feed it knows everything: hand in what
    /// follows. `newest` is the store's last position; an index that is ahead of it belongs to
    /// another past.
    ///
    /// # Errors
    /// The file can't be used, nor made anew.
    pub fn open(place: &Place, newest: Position) -> Result<(Self, Position), SearchError> {
        Self::open_at(Pace::default(), place, newest)
    }

    fn open_at(
        pace: Pace,
        place: &Place,
        newest: Position,
    ) -> Result<(Self, Position), SearchError> {
        let Place {
            ref path,
            reads,
            told_for,
            threads: names,
        } = *place;
        let path = &resolved(path);
        let Opened {
            connection,
            progress,
            gone,
            scrubber,
            is_scrubbed,
        } = open_or_begin::<L>(path, Followed { newest, told_for })?;
        let reader = || {
            index::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .map_err(|error| no_sqlite(path, error))
        };
        let no_thread = |error| SearchError::File(path.to_owned(), error);
        let readers =
            Readers::start(names.readers, vec![reader()?, reader()?], reads).map_err(no_thread)?;
        let (sender, reached) = watch::channel(progress.position);
        let holds_erased = !is_scrubbed || gone.any();
        let shared = Arc::new(Shared::new(sender, holds_erased, gone));
        let (inbox, works) = channel();
        let writer = Writer {
            connection,
            inbox: works,
            shared: Arc::clone(&shared),
            pace,
            written: progress.position,
            progress,
            scrubber,
            unerased: holds_erased.then(Instant::now),
            erasing: false,
            busy: true,
            unmerged: true,
            gone,
            erased_gone: 0,
        };
        let ending = Arc::clone(&shared);
        let on_panic = threads::Report(move || ending.end());
        let thread = threads::spawn(names.writer, on_panic, move || {
            cores::mark_background();
            writer.run();
        });
        Ok((
            Search {
                path: path.to_owned(),
                inbox: Mutex::new(Some(inbox)),
                thread: Mutex::new(Some(thread.map_err(no_thread)?)),
                readers,
                shared,
                reached,
            },
            progress.position,
        ))
    }

    /// Makes these changes, in their order; with them the index has come as far as `progress` says.
    /// Waits while the queue is full. `written` is called once searches know them.
    ///
    /// # Errors
    /// [`Closed`].
    pub async fn hand_in(
        &self,
        progress: Progress,
        changes: Vec<L::Change>,
        written: Option<Written>,
    ) -> Result<(), Closed> {
        let bytes: usize = changes.iter().map(L::bytes).sum();
        let kib = u32::try_from(bytes / 1_024 + 1)
            .unwrap_or(u32::MAX)
            .min(QUEUE_KIB);
        let room = Arc::clone(&self.shared.room)
            .acquire_many_owned(kib)
            .await
            .map_err(|_| Closed)?;
        match &*self.inbox.lock() {
            Some(inbox) => inbox
                .send(Work {
                    progress,
                    changes,
                    room,
                    written,
                })
                .map_err(|_| Closed),
            None => Err(Closed),
        }
    }

    /// The position up to which searches know everything.
    #[must_use]
    pub fn position(&self) -> Position {
        *self.reached.borrow()
    }

    /// From where on the files hold nothing of what was taken out of an account's texts up to now, which is
    /// everything up to this position.
    fn erasing_due(&self, account: u32, position: Position) -> ErasingDue {
        ErasingDue {
            account,
            position,
            erasings: self.shared.erasings.load(Ordering::Acquire),
            gone: self.shared.gone.load(Ordering::Acquire),
        }
    }

    /// Whether an erasing that began later, and behind the deletion of what had gone, has ended, or nothing
    /// is to be erased.
    fn is_erased_behind(&self, due: ErasingDue) -> bool {
        let later = self.shared.erased.load(Ordering::Acquire) > due.erasings
            && self.shared.erased_gone.load(Ordering::Acquire) >= due.gone;
        later || !self.shared.holds_erased.load(Ordering::Acquire)
    }

    /// Reads in the turn of this tenant's account.
    fn read(
        &self,
        tenant: Tenant,
        find: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<Found> + Send + 'static,
    ) -> Later<Result<Found, ReadError>> {
        let shared = Arc::clone(&self.shared);
        // A tenant's number and its complement, which has an account's other texts, are one
        // account's.
        let account = Tenant::from_number(tenant.number().max(!tenant.number())).account_number();
        let found = self.readers.read(account, move |connection| {
            find(connection).inspect_err(|error| shared.note(error))
        });
        // A damaged index is made anew: soon it answers.
        Box::pin(async move {
            found.await.map_err(|error| {
                if error == ReadError::Unreadable {
                    ReadError::Away
                } else {
                    error
                }
            })
        })
    }

    /// Whether the last attempt to write worked.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Relaxed)
    }

    /// Waits until it takes nothing any more.
    async fn ended(&self) {
        let mut ended = self.shared.ended.subscribe();
        // The sender lives as long as this.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Whether the file has turned out to be damaged: closing deletes it, and the next opening
    /// begins anew.
    #[must_use]
    pub fn damaged(&self) -> bool {
        self.shared.damaged.load(Ordering::Relaxed)
    }

    /// Ends after what is being written; the rest is to be handed in again. Deletes a file that is
    /// damaged. Blocks: not for an arbiter.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.inbox.lock().take();
        let thread = self.thread.lock().take();
        let is_first = thread.is_some();
        if let Some(thread) = thread {
            // A panic in there was caught.
            let _ = thread.join();
        }
        self.shared.end();
        self.readers.close();
        // Only once: by then the path may be that of the index which was opened after this one.
        if is_first && self.damaged() {
            // What stays is found damaged again.
            if let Err(error) = begin_anew(&self.path, "it is damaged") {
                tracing::error!(%error, "the damaged search index can't be deleted");
            }
        }
    }
}

impl<L: Layout> Drop for Search<L> {
    fn drop(&mut self) {
        self.close();
    }
}

impl Search<Titled> {
    /// What fits in this tenant: the part of it that is wanted. All words of the query must be in
    /// title or content, whatever their case and accents; those in quotation marks one behind the
    /// other; the last may go on. No query is wrong: one without a word finds nothing.
    #[must_use]
    pub fn find(
        &self,
        tenant: Tenant,
        query: &str,
        window: Window,
    ) -> Later<Result<Found, ReadError>> {
        let query = query.to_owned();
        self.read(tenant, move |connection| {
            titled::find(connection, tenant, &query, window)
        })
    }
}

impl Search<Grouped> {
    /// The groups of this tenant that fit and pass the filter: the part of them that is wanted. All
    /// words of the query must be in texts of the group or in its label, whatever their case and
    /// accents; those in quotation marks one behind the other in one text; the last may go on. No
    /// query is wrong: one without a word finds nothing.
    #[must_use]
    pub fn find(
        &self,
        (tenant, query): (Tenant, &str),
        filter: GroupFilter,
        window: Window,
    ) -> Later<Result<Found, ReadError>> {
        let query = query.to_owned();
        self.read(tenant, move |connection| {
            grouped::find(connection, (tenant, &query), &filter, window)
        })
    }
}

/// Deletes the index in this file, where there is one: what is not followed must not stay.
///
/// # Errors
/// The file can't be deleted, or another process has it.
pub fn discard(path: &Path) -> Result<(), SearchError> {
    let path = &resolved(path);
    if !index::files(path).iter().any(|file| file.exists()) {
        return Ok(());
    }
    let failed = |error| SearchError::File(path.to_owned(), error);
    let lock = file_lock::try_lock(path).map_err(failed)?;
    let _lock = lock.ok_or_else(|| SearchError::InUse(path.to_owned()))?;
    tracing::warn!(path = %path.display(), "the search index is deleted: it is switched off");
    delete(path)
}

/// Where a symbolic link leads: what stands beside an index stands beside the file itself.
fn resolved(path: &Path) -> PathBuf {
    let beside = |target: PathBuf| {
        path.parent()
            .map_or_else(|| target.clone(), |folder| folder.join(&target))
    };
    std::fs::read_link(path).map_or_else(|_| path.to_owned(), beside)
}

fn no_sqlite(path: &Path, error: rusqlite::Error) -> SearchError {
    SearchError::Sqlite(path.to_owned(), error)
}

fn open_or_begin<L: Layout>(path: &Path, followed: Followed) -> Result<Opened, SearchError> {
    let why = if unsynced_mark(path).exists() {
        "an earlier version was writing it, without syncing it".to_owned()
    } else {
        match index::open::<L>(path, followed) {
            Ok(opened) => return Ok(opened),
            Err(unusable) if unusable.is_worthless() => unusable.to_string(),
            Err(index::Unusable::Sqlite(error)) => return Err(no_sqlite(path, error)),
            Err(index::Unusable::Worthless(why)) => why.to_owned(),
        }
    };
    begin_anew(path, &why)?;
    match index::open::<L>(path, followed) {
        Ok(opened) => Ok(opened),
        Err(index::Unusable::Sqlite(error)) => Err(no_sqlite(path, error)),
        Err(index::Unusable::Worthless(why)) => Err(SearchError::File(
            path.to_owned(),
            std::io::Error::other(why),
        )),
    }
}

/// Names the mark that earlier versions kept beside an index while they wrote it. They did not sync
/// it: what a crash of the machine left of it could be anything.
fn unsynced_mark(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".writing");
    PathBuf::from(name)
}

/// Deletes an index that can't be used, so that the next opening begins anew.
fn begin_anew(path: &Path, why: &str) -> Result<(), SearchError> {
    tracing::warn!(why, path = %path.display(), "the search index is made anew");
    delete(path)
}

fn delete(path: &Path) -> Result<(), SearchError> {
    // The mark goes last: a crash in between leaves the rest to be done again.
    for file in index::files(path).into_iter().chain([unsynced_mark(path)]) {
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(SearchError::File(file, error)),
        }
    }
    Ok(())
}
