//! The contract on the embedded store, and what only it can do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod earlier_files;
mod frame_parts;
mod log_erasing;
mod snapshots;
mod soundness;
mod waiting_names;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::OpenFlags;
use tempfile::TempDir;

use super::changed_pages::ChangedPages;
use super::checkpointing::Checkpointing;
use super::codec::only;
use super::file::{connect, log_of};
use super::housekeeping::Housekeeping;
use super::pace::Pace;
use super::recent_events::SegmentWriter;
use super::wal_preallocation::WalPreallocation;
use super::work::Work;
use super::writer::{Writer, WriterParts};
use super::{SqliteStore, StoreSettings, check, recovery, schema};
use crate::store::contract::{Bench, Numbering, Opened, Volume, contract};
use crate::store::writer_metrics::WriterCounters;
use crate::views::Views;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, ConstraintViolation, NewRow};
use colloquy_model::conversation::MessageCounts;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

/// A folder with a store's files, and how often whoever opens it does what.
pub(super) struct Folder {
    dir: TempDir,
    pace: Pace,
}

const QUICK: Pace = Pace {
    tick: Duration::from_millis(5),
    age_max: Duration::ZERO,
    uses_every: Duration::from_millis(5),
    erase_within: Duration::from_millis(20),
    trim_every: Duration::from_millis(10),
    events_kept: None,
    rest: Duration::from_millis(1),
};

impl Folder {
    fn at(pace: Pace) -> Self {
        Folder {
            dir: TempDir::new().unwrap(),
            pace,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("colloquy.db")
    }

    /// The header of the log, which is another each time the log begins at its start:
    /// <https://sqlite.org/fileformat2.html#walformat>.
    fn log_header(&self) -> Vec<u8> {
        let mut header = Vec::new();
        if let Ok(log) = File::open(self.dir.path().join("colloquy.db-wal")) {
            log.take(32).read_to_end(&mut header).unwrap();
        }
        header
    }

    fn open_at(&self, pace: Pace, views: Views) -> Opened {
        Arc::new(
            SqliteStore::open_at(
                pace,
                &self.path(),
                Arc::new(views),
                StoreSettings::for_tests(),
            )
            .unwrap()
            .0,
        )
    }
}

impl Bench for Folder {
    const NUMBERING: Numbering = Numbering::WithoutGaps;
    const VOLUME: Volume = Volume::Large;

    fn new() -> Self {
        Folder::at(QUICK)
    }

    fn open(&self, views: Views) -> Opened {
        self.open_at(self.pace, views)
    }

    fn open_lagging(&self, views: Views) -> Opened {
        self.open_at(
            Pace {
                age_max: Duration::from_secs(3600),
                ..self.pace
            },
            views,
        )
    }

    fn open_keeping(&self, views: Views, kept: Duration) -> Opened {
        self.open_at(
            Pace {
                events_kept: Some(kept),
                ..self.pace
            },
            views,
        )
    }

    fn killed(&self) -> Self {
        let copy = Self::at(self.pace);
        // As long as somebody reads, no checkpoint takes anything out of the log: whatever one writes
        // into the file meanwhile stands in the log, too, which is copied behind it.
        let reader = connect(&self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let _: i64 = reader
            .query_row("SELECT count(*) FROM meta", [], only)
            .unwrap();
        // A reader of a log of which all stands in the file does not keep it from beginning at its
        // start again. A copy made meanwhile has the beginning of the older log without its end, as
        // no kill leaves it.
        loop {
            let log = self.log_header();
            for name in ["colloquy.db", "colloquy.db-wal", "colloquy.db.key"] {
                let from = self.dir.path().join(name);
                if from.exists() {
                    std::fs::copy(from, copy.dir.path().join(name)).unwrap();
                }
            }
            if self.log_header() == log {
                return copy;
            }
        }
    }

    fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| {
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            })
    }

    fn findings(&self) -> Vec<String> {
        check(&self.path())
            .unwrap()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.check, finding.found))
            .collect()
    }
}

contract!(Folder);

/// A writer without its thread.
pub(super) struct Bare {
    pub(super) writer: Writer,
    pub(super) folder: Folder,
}

type Outcome = Receiver<Result<(), CommitFailure<ConstraintViolation>>>;

impl Bare {
    fn new() -> Self {
        Self::on(Folder::new())
    }

    /// On files that are there.
    pub(super) fn on(folder: Folder) -> Self {
        let path = folder.path();
        let mut connection = connect(
            &path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )
        .unwrap();
        schema::migrate(&mut connection).unwrap();
        let counts = recovery::recover(&mut connection).unwrap();
        let views = Views::default();
        let changed = ChangedPages::of(&connection, log_of(&path)).unwrap();
        let behind = (Arc::default(), changed.clone());
        let checkpointing = Checkpointing::start(&path, &mut connection, changed).unwrap();
        let slicing = SegmentWriter::open(&connection).unwrap();
        let writer = Writer::of(WriterParts {
            leads: Default::default(),
            checkpointing,
            housekeeping: Housekeeping::open(Pace::default(), &connection, &views, behind).unwrap(),
            connection,
            counts,
            lagging: Arc::default(),
            slicing,
            sink: Arc::new(views),
            counters: Arc::new(WriterCounters::default()),
            healthy: Arc::new(AtomicBool::new(true)),
            wal_preallocation: WalPreallocation::of(&log_of(&path)),
        });
        Bare { writer, folder }
    }

    /// One batch of commits.
    pub(super) fn batch(
        &mut self,
        commits: Vec<(Incarnation, Commit)>,
    ) -> Vec<Result<(), CommitFailure<ConstraintViolation>>> {
        let mut works = Vec::new();
        let outcomes: Vec<Outcome> = commits
            .into_iter()
            .map(|(incarnation, commit)| {
                let (settled, outcome) = sync_channel(1);
                let digests = crate::store::digest::payload_digests(&commit);
                let settle = Box::new(move |outcome| settled.send(outcome).unwrap());
                works.push(Work::Commit {
                    incarnation,
                    commit: Box::new(commit),
                    digests,
                    settle,
                });
                outcome
            })
            .collect();
        self.writer.take(&mut works);
        outcomes
            .into_iter()
            .map(|outcome| outcome.recv().unwrap())
            .collect()
    }

    fn rows(&self) -> i64 {
        self.writer
            .connection
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
            .unwrap()
    }

    fn gaps(&self) -> i64 {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM rows GROUP BY scope HAVING count(*) <> max(number))";
        self.writer
            .connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }
}

/// A message of an entity, of so many bytes.
pub(super) fn row_of(entity: EntityNumber, expected: u64, bytes: usize) -> Commit {
    let counts = MessageCounts {
        customer: expected + 1,
        last_message_at: Some(Timestamp(1)),
        ..MessageCounts::default()
    };
    let payload = Bytes::from(vec![b'x'; bytes]);
    let row = NewRow {
        counts,
        ..NewRow::new(EventKind::MessageCreated, payload)
    };
    let subject = Subject {
        kind: Kind::Conversation,
        number: entity,
        tail: 1,
    };
    let caller = Caller {
        tenant: Tenant::of(1, Mode::Live),
        actor: Actor::server("a test"),
    };
    Commit {
        rows: vec![row],
        ..Commit::new(subject, Sequence(expected), caller, Timestamp(1))
    }
}
