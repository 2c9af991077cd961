//! The embedded store: one SQLite file, one writing thread, a few reading ones.
//!
//! Acknowledged means that the transaction's fsync has returned. What makes it lean, and why,
//! stands in `schema`.

mod activity;
mod audit;
mod batch;
mod chain;
pub(crate) mod changed_pages;
mod check;
mod checkpointing;
mod chores;
pub(crate) mod codec;
mod conditions;
mod counters;
mod deliveries;
mod delivery_lists;
mod delivery_logs;
mod delivery_tidying;
mod dirty_headers;
mod document_lists;
mod document_loads;
mod documents;
mod emptied_rows;
mod erasable;
mod erasing;
mod events;
mod export;
mod failure;
mod feed_numbers;
mod figures;
mod file;
mod frame_parts;
mod gate;
mod headers;
mod housekeeping;
mod identifiers;
mod import;
mod lists;
mod loads;
mod log_erasing;
mod lost_attachments;
mod message_lists;
mod migrating;
mod nonces;
mod older_keys;
mod pace;
pub(crate) mod readers;
mod recent_events;
mod recovery;
mod redacting;
mod renames;
mod retention;
mod revisions;
mod roles;
mod row_page;
mod schema;
pub(crate) mod scrubbing;
mod sealed_rows;
mod slices;
mod snapshots;
mod store_key;
mod timed;
mod timeline;
mod trails;
mod transfer;
mod usage;
mod versions;
mod wal_preallocation;
mod work;
mod write_queue;
mod writer;

#[cfg(test)]
mod redacting_tests;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

pub use chain::SqliteChain;
pub use check::{attachments, check, check_beside_requests};
pub use file::OpenError;
pub use lost_attachments::erase_lost_attachments;
pub use migrating::{DryRun, Migration};
pub use store_key::use_key_of;
pub use transfer::SqliteTransfer;

use self::changed_pages::ChangedPages;
use self::checkpointing::{Checkpointing, Checkpoints};
use self::dirty_headers::DirtyHeaders;
use self::feed_numbers::FeedLeads;
use self::file::{BUSY_MAX, OPENING_MAX, connect, lock, log_of};
use self::gate::Gate;
use self::housekeeping::Housekeeping;
use self::pace::Pace;
use self::readers::Readers;
use self::recent_events::{RecentEvents, SegmentWriter};
use self::wal_preallocation::WalPreallocation;
use self::work::Work;
use self::writer::{Writer, WriterParts};
use crate::sealing::{GivenKeys, MasterKeys};
use crate::store::writer_metrics::WriterCounters;
use crate::store::{CommitSink, FirstStartMark, OnlyNode, Operator};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Kind;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::{cores, threads};

/// For whom something is read: these take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReadClass {
    /// An account, by its small number; 0: the server.
    Account(u32),
    /// Entities of one kind, which begin.
    Entities(Kind),
    /// Whoever comes with a share link.
    Links,
    /// Whoever delivers to webhook endpoints.
    Deliveries,
}

impl ReadClass {
    const SERVER: ReadClass = ReadClass::Account(0);

    fn of(tenant: Tenant) -> Self {
        ReadClass::Account(tenant.account_number())
    }
}

/// How the embedded store is opened.
#[derive(Debug, Clone, Copy)]
pub struct StoreSettings<'s> {
    /// The operators' token; none: one is made at the first start.
    pub operator_token: Option<&'s str>,
    /// The master keys; where none is given, one is kept beside the file.
    pub master_keys: &'s GivenKeys,
    /// How long events are kept; none: for ever.
    pub events_kept: Option<Duration>,
    /// What may wait for a reading connection.
    pub reads: QueueBounds,
}

#[cfg(test)]
impl StoreSettings<'static> {
    /// A token is set, events are kept for ever, and nothing that a test asks is refused.
    pub(crate) fn for_tests() -> Self {
        let reads = QueueBounds {
            each: 1_000,
            all: 10_000,
            wait: Duration::from_secs(60),
        };
        StoreSettings {
            operator_token: Some("op_a-token"),
            master_keys: &GivenKeys::NONE,
            events_kept: None,
            reads,
        }
    }
}

/// The embedded store: a file, its writer and its readers.
pub struct SqliteStore {
    inbox: Mutex<Option<Sender<Work>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// What actors wait for: entities, messages, kept answers.
    loads: Readers<ReadClass>,
    lists: Readers<ReadClass>,
    /// Contents of documents' versions.
    contents: Readers<ReadClass>,
    /// What streams and replays catch up with.
    streams: Readers<ReadClass>,
    /// What the server asks by itself: due deliveries, timers, what the search index has not taken
    /// in.
    chores: Readers<ReadClass>,
    lagging: Arc<DirtyHeaders>,
    fresh: Arc<RecentEvents>,
    counters: Arc<WriterCounters>,
    healthy: Arc<AtomicBool>,
    checkpoints: Checkpoints,
    path: PathBuf,
    node: Arc<OnlyNode>,
    master_keys: MasterKeys,
    /// Held as long as the store is open: a second process is refused.
    _lock: File,
}

impl SqliteStore {
    /// Opens or makes the file, recovers what a crash left, and tells the sink what it has to know.
    ///
    /// # Errors
    /// The file is in use, newer than this server, or can't be read.
    pub fn open(
        path: &Path,
        sink: Arc<dyn CommitSink>,
        settings: StoreSettings<'_>,
    ) -> Result<(Self, Operator), OpenError> {
        let pace = Pace {
            events_kept: settings.events_kept,
            ..Pace::default()
        };
        Self::open_at(pace, path, sink, settings)
    }

    /// The same, with the writer's chores at another pace.
    fn open_at(
        pace: Pace,
        path: &Path,
        sink: Arc<dyn CommitSink>,
        settings: StoreSettings<'_>,
    ) -> Result<(Self, Operator), OpenError> {
        let lock = lock(path)?;
        let first_start = marked(path)?;
        let mut connection = connect(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )?;
        connection.busy_timeout(OPENING_MAX)?;
        let changed = changed_pages(path, &mut connection)?;
        let (counts, master_keys) =
            transfer::recovered(&mut connection, path, settings.master_keys)?;
        let counts = counts.linking(chain::ChainEnd::open(&mut connection)?);
        recovery::tell(&connection, &*sink)?;
        let operator = recovery::operator(&connection, &first_start, settings.operator_token)?;
        sink.opened(counts.next_pos.previous());
        let gate = Arc::new(Gate::default());
        let behind = (Arc::clone(&gate), changed.clone());
        let housekeeping = Housekeeping::open(pace, &connection, &*sink, behind)?;
        let [loads, lists, contents, streams, chores] = readers(path, settings.reads, &gate)?;
        connection.busy_timeout(BUSY_MAX)?;
        let checkpointing = Checkpointing::start(path, &mut connection, changed)?;
        let checkpoints = checkpointing.checkpoints();
        let (lagging, counters) = (Arc::default(), Arc::<WriterCounters>::default());
        let slicing = SegmentWriter::open(&connection)?;
        let healthy = Arc::new(AtomicBool::new(true));
        let fresh = slicing.fresh();
        let writer = WriterParts {
            leads: FeedLeads::read(&connection)?,
            connection,
            counts,
            lagging: Arc::clone(&lagging),
            slicing,
            sink,
            housekeeping,
            counters: Arc::clone(&counters),
            healthy: Arc::clone(&healthy),
            wal_preallocation: WalPreallocation::of(&log_of(path)),
            checkpointing,
        };
        let (inbox, thread) =
            started(writer).map_err(|error| OpenError::File(path.to_owned(), error))?;
        let store = SqliteStore {
            inbox: Mutex::new(Some(inbox)),
            writer: Mutex::new(Some(thread)),
            loads,
            lists,
            contents,
            streams,
            chores,
            lagging,
            fresh,
            counters,
            healthy,
            checkpoints,
            node: Arc::new(OnlyNode::new(first_start)),
            path: path.to_owned(),
            master_keys,
            _lock: lock,
        };
        Ok((store, operator))
    }

    fn send(&self, work: Work) -> Result<(), Work> {
        match &*self.inbox.lock() {
            Some(inbox) => {
                self.counters.sent();
                inbox.send(work).map_err(|unsent| unsent.0)
            }
            None => Err(work),
        }
    }
}

/// Notes what the writer's connection changes of a file that is being opened, from the first page on.
fn changed_pages(path: &Path, connection: &mut Connection) -> rusqlite::Result<ChangedPages> {
    let changed = ChangedPages::of(connection, log_of(path))?;
    changed.follow(connection)?;
    if !erasing::are_all_scrubbed(connection)? {
        changed.forget();
    }
    Ok(changed)
}

/// The mark of the store in this file; set before there is one.
fn marked(path: &Path) -> Result<FirstStartMark, OpenError> {
    let first_start = FirstStartMark::of(path);
    if !path.exists() {
        let set = first_start.set();
        set.map_err(|error| OpenError::File(path.to_owned(), error))?;
    }
    Ok(first_start)
}

/// Starts the writer's thread, and gives the inbox that it works off.
fn started(writer: WriterParts) -> std::io::Result<(Sender<Work>, JoinHandle<()>)> {
    let (inbox, works) = channel();
    // A writer that is gone would leave every caller waiting: its panic ends the process.
    let run = move || {
        cores::mark_latency_sensitive();
        Writer::of(writer).run(&works);
    };
    let thread = threads::spawn("writer", threads::EndProcess, run)?;
    Ok((inbox, thread))
}

/// The reading threads: for loads, lists, contents, streams and chores. What is read for no account
/// in particular is bounded by those who ask.
fn readers(
    path: &Path,
    bounds: QueueBounds,
    gate: &Arc<Gate>,
) -> Result<[Readers<ReadClass>; 5], OpenError> {
    let start = |name: &'static str, connections: usize, bounds| {
        let connect = |_| connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let connections = (0..connections).map(connect).collect::<Result<_, _>>()?;
        Readers::start(name, connections, bounds)
            .map_err(|error| OpenError::File(path.to_owned(), error))
    };
    let shared = QueueBounds {
        each: bounds.all,
        ..bounds
    };
    Ok([
        start("loads", 1, shared)?,
        start("lists", 3, bounds)?.short().behind(gate),
        start("texts", 2, bounds)?.behind(gate),
        start("streams", 1, bounds)?.behind(gate),
        start("upkeep", 1, shared)?.behind(gate),
    ])
}
