//! The contract on the embedded store, and what only it can do.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags, params};
use tempfile::TempDir;

use super::checkpointing::Checkpointing;
use super::dirty_headers::{DirtyHeader, DirtyHeaders, HeaderFlusher};
use super::file::{BUSY_MAX, connect, log_of};
use super::housekeeping::Housekeeping;
use super::pace::{Pace, Phase};
use super::recent_events::SegmentWriter;
use super::retention::Retention;
use super::wal_preallocation::WalPreallocation;
use super::work::Work;
use super::writer::Writer;
use super::writer_metrics::WriterCounters;
use super::{ReadClass, SqliteStore, StoreSettings, check, recovery, schema};
use crate::store::contract::{Bench, House, Opened, contract, wait};
use crate::store::{CommitLog, EventQuery, ReadError, Store};
use crate::views::Views;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, ConstraintViolation, NewRow};
use colloquy_model::conversation::MessageCounts;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::idempotency::KEPT_MS;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

/// What is waited for takes no longer, however busy the machine is.
const SOON: Duration = Duration::from_secs(20);

/// A folder with a store's files.
pub(super) struct Folder(TempDir);

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
    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("colloquy.db")
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
    fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    fn open(&self, views: Views) -> Opened {
        self.open_at(QUICK, views)
    }

    fn open_lagging(&self, views: Views) -> Opened {
        self.open_at(
            Pace {
                age_max: Duration::from_secs(3600),
                ..QUICK
            },
            views,
        )
    }

    fn open_keeping(&self, views: Views, kept: Duration) -> Opened {
        self.open_at(
            Pace {
                events_kept: Some(kept),
                ..QUICK
            },
            views,
        )
    }

    fn killed(&self) -> Self {
        let copy = Self::new();
        // A checkpoint between the two would tear the copy; it can't come before so much has been
        // written.
        for name in ["colloquy.db", "colloquy.db-wal"] {
            let from = self.0.path().join(name);
            if from.exists() {
                std::fs::copy(from, copy.0.path().join(name)).unwrap();
            }
        }
        copy
    }

    fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.0.path()).unwrap();
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

contract! {
    Folder:
    a_commit_that_names_a_document_needs_it_in_its_own_account_and_mode,
    a_document_comes_back_as_it_was_committed,
    a_version_comes_back_with_the_frames_that_make_its_content,
    lists_of_documents_hold_and_count_what_one_may_read,
    a_list_of_documents_is_by_title_or_among_some_where_it_is_asked_so,
    a_document_in_the_bin_is_listed_there_only_and_is_still_a_place,
    a_link_leads_to_its_document_until_it_is_taken_back,
    what_was_erased_of_a_document_leaves_the_files,
    a_user_who_owns_documents_stays,
    an_acknowledged_commit_is_there_after_a_crash,
    a_sequence_is_accepted_once_and_only_behind_the_one_before,
    an_answer_without_a_change_is_refused_where_another_change_came_first,
    what_follows_a_lost_commit_is_lost_even_where_its_sequence_fits,
    a_loser_in_a_batch_leaves_nothing_and_the_batch_goes_on,
    a_broken_condition_refuses_its_commit_alone,
    a_unique_name_is_taken_once_even_within_one_batch,
    positions_and_numbers_have_no_gap,
    a_kept_answer_survives,
    memory_holds_a_bounded_number_of_keys_and_none_is_forgotten,
    a_renamed_customer_is_renamed_everywhere_at_once,
    a_redacted_text_is_gone_from_every_file,
    a_last_use_of_a_key_is_written_down,
    a_chore_stays_until_it_is_done,
    after_its_end_nothing_is_acknowledged,
    a_thing_is_loaded_by_its_whole_identifier,
    what_sleeps_is_found_in_the_order_of_its_waking,
    who_spoke_is_not_idle_even_where_the_header_lags,
    lists_totals_and_transcripts_are_what_the_model_says,
    events_and_their_totals_are_what_the_model_says,
    a_page_is_whole_while_events_are_written_behind,
    a_reader_that_joins_misses_nothing_and_sees_nothing_twice,
    a_reader_that_is_too_slow_goes_on_from_the_store_or_ends,
    a_reader_is_let_go_when_the_feed_closes,
    what_retention_took_is_no_event_of_its_account_any_more,
    what_retention_took_is_no_event_of_its_entity_any_more,
    what_retention_took_is_found_by_no_position,
    endpoints_are_read_among_the_events_by_position,
    the_first_of_each_lane_is_due_and_hands_over_when_it_ends,
    what_is_sent_again_is_due_at_once_beside_its_lane,
    deliveries_are_listed_newest_first_with_exact_totals,
    what_is_given_up_counts_as_failed_at_once_and_the_rows_follow,
    what_lands_after_it_was_given_up_does_not_count,
    deliveries_of_an_endpoint_that_is_no_more_go_with_it,
    deliveries_that_ended_go_when_they_are_old,
    what_receivers_answered_goes_with_the_redacted_message,
    whoever_delivers_finds_after_a_crash_what_it_had_written,
    whoever_begins_anew_reads_behind_what_was_handed_in,
    what_is_left_of_an_endpoint_that_is_no_more_goes,
}

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
        let checkpointing = Checkpointing::start(&path, &mut connection).unwrap();
        let writer = Writer {
            checkpointing,
            housekeeping: Housekeeping::open(Pace::default(), &connection, &views, Arc::default())
                .unwrap(),
            connection,
            counts,
            sequences: HashMap::new(),
            fold: HeaderFlusher::default(),
            lagging: Arc::default(),
            slicing: SegmentWriter::default(),
            sink: Arc::new(views),
            counters: Arc::new(WriterCounters::default()),
            healthy: Arc::new(AtomicBool::new(true)),
            banned: HashMap::new(),
            tidying: super::delivery_tidying::Tidying::default(),
            wal_preallocation: WalPreallocation::of(&log_of(&path)),
        };
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
                let digests = super::roles::payload_digests(&commit);
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
pub(super) fn row_of(entity: u64, expected: u64, bytes: usize) -> Commit {
    let tallies = MessageCounts {
        customer: expected + 1,
        last_message_at: Some(1),
        ..MessageCounts::default()
    };
    let payload = Bytes::from(vec![b'x'; bytes]);
    let row = NewRow {
        happened: EventKind::MessageCreated,
        payload,
        tallies,
        seen: None,
        edits: None,
    };
    let subject = Subject {
        kind: Kind::Conversation,
        number: entity,
        tail: 1,
    };
    let caller = Caller {
        tenant: Tenant::of(1, Mode::Live),
        by: Actor::server("a test"),
    };
    Commit {
        rows: vec![row],
        ..Commit::new(subject, expected, caller, 1)
    }
}

#[test]
fn the_log_grows_in_steps_and_what_stands_before_the_zeros_is_recovered() {
    const COMMITS: u64 = 200;
    let mut bare = Bare::new();
    let log = log_of(&bare.folder.path());
    let one = Incarnation::next();
    let mut lengths = std::collections::BTreeSet::new();
    for n in 0..COMMITS {
        assert_eq!(bare.batch(vec![(one, row_of(1, n, 10_000))]), [Ok(())]);
        lengths.insert(std::fs::metadata(&log).unwrap().len());
    }
    assert!(lengths.last() > Some(&3_000_000), "{lengths:?}");
    assert!(lengths.len() < 20, "{lengths:?}");
    let crashed = tempfile::tempdir().unwrap();
    let path = crashed.path().join("colloquy.db");
    std::fs::copy(bare.folder.path(), &path).unwrap();
    std::fs::copy(&log, log_of(&path)).unwrap();
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, bare.rows());
    assert_eq!(rows, i64::try_from(COMMITS).unwrap());
}

#[test]
fn a_full_disk_acknowledges_nothing_and_later_goes_on() {
    let mut bare = Bare::new();
    let first = Incarnation::next();
    assert_eq!(bare.batch(vec![(first, row_of(1, 0, 10))]), [Ok(())]);
    bare.writer
        .connection
        .query_row("PRAGMA max_page_count = 1", [], |_| Ok(()))
        .unwrap();
    let other = Incarnation::next();
    let refused = bare.batch(vec![
        (other, row_of(2, 0, 10)),
        (first, row_of(1, 1, 500_000)),
        (first, row_of(1, 2, 10)),
    ]);
    assert_eq!(
        refused,
        [
            Err(CommitFailure::Unavailable),
            Err(CommitFailure::Unavailable),
            Err(CommitFailure::Unavailable)
        ]
    );
    assert_eq!(bare.rows(), 1);
    assert!(!bare.writer.healthy.load(Ordering::Relaxed));
    bare.writer
        .connection
        .query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(()))
        .unwrap();
    assert_eq!(
        bare.batch(vec![(first, row_of(1, 1, 10))]),
        [Err(CommitFailure::Unavailable)],
        "it lost a commit"
    );
    let again = Incarnation::next();
    assert_eq!(
        bare.batch(vec![
            (again, row_of(1, 1, 500_000)),
            (again, row_of(1, 2, 10))
        ]),
        [Ok(()), Ok(())]
    );
    assert_eq!(
        (bare.rows(), bare.gaps()),
        (3, 0),
        "positions and numbers were given back"
    );
    assert!(bare.writer.healthy.load(Ordering::Relaxed));
}

#[test]
fn a_disk_that_was_full_is_not_well_because_nothing_was_due() {
    let mut bare = Bare::new();
    bare.writer
        .connection
        .execute_batch("PRAGMA query_only = 1")
        .unwrap();
    assert_eq!(
        bare.batch(vec![(Incarnation::next(), row_of(1, 0, 10))]),
        [Err(CommitFailure::Unavailable)]
    );
    bare.writer.keep_house(Phase::Running);
    assert!(!bare.writer.healthy.load(Ordering::Relaxed));
    bare.writer
        .connection
        .execute_batch("PRAGMA query_only = 0")
        .unwrap();
    let begun = Instant::now();
    while !bare.writer.healthy.load(Ordering::Relaxed) {
        bare.writer.keep_house(Phase::Running);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_file_that_another_connection_holds_is_away_at_once_and_comes_back() {
    let mut bare = Bare::new();
    let one = Incarnation::next();
    assert_eq!(bare.batch(vec![(one, row_of(1, 0, 10))]), [Ok(())]);
    let stranger = Connection::open(bare.folder.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let many = (2..200).map(|entity| (Incarnation::next(), row_of(entity, 0, 10)));
    let begun = Instant::now();
    let refused = bare.batch(
        std::iter::once((one, row_of(1, 1, 10)))
            .chain(many)
            .collect(),
    );
    assert!(
        refused
            .iter()
            .all(|outcome| *outcome == Err(CommitFailure::Unavailable)),
        "{refused:?}"
    );
    assert!(
        begun.elapsed() < 3 * BUSY_MAX,
        "waited once for all of them: {:?}",
        begun.elapsed()
    );
    bare.writer.keep_house(Phase::Running);
    assert!(!bare.writer.healthy.load(Ordering::Relaxed));
    stranger.execute_batch("ROLLBACK").unwrap();
    let again = (2..200).map(|entity| (Incarnation::next(), row_of(entity, 0, 10)));
    assert!(bare.batch(again.collect()).iter().all(Result::is_ok));
    assert_eq!((bare.rows(), bare.gaps()), (199, 0));
}

#[test]
fn a_damaged_slice_of_one_accounts_events_keeps_no_commit_out() {
    let mut bare = Bare::new();
    let of = |account: u32, expected: u64| {
        let tenant = Tenant::of(account, Mode::Live);
        (
            Incarnation::next(),
            Commit {
                tenant,
                ..row_of(account.into(), expected, 10)
            },
        )
    };
    for expected in 0..20 {
        assert_eq!(bare.batch(vec![of(1, expected)]), [Ok(())]);
    }
    assert!(
        bare.writer
            .connection
            .execute("UPDATE feed SET entries = x'00'", [])
            .unwrap()
            > 0
    );
    for expected in 20..40 {
        assert_eq!(
            bare.batch(vec![of(1, expected), of(2, expected - 20)]),
            [Ok(()), Ok(())]
        );
    }
    let whole = "SELECT count(*) FROM feed WHERE scope = ?1 AND length(entries) > 1";
    let slices: i64 = bare
        .writer
        .connection
        .query_row(whole, [Tenant::of(2, Mode::Live).number()], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(
        (slices, bare.rows()),
        (2, 60),
        "the other's are written along with its commits"
    );
}

#[test]
fn a_commit_that_can_not_be_written_fails_alone() {
    let mut bare = Bare::new();
    let [one, two, three] = [(); 3].map(|()| Incarnation::next());
    let mut poisoned = row_of(2, 0, 10);
    poisoned.rows[0].edits = Some(77);
    let batch = vec![
        (one, row_of(1, 0, 10)),
        (two, poisoned),
        (two, row_of(2, 0, 10)),
        (three, row_of(3, 0, 10)),
    ];
    assert_eq!(
        bare.batch(batch),
        [
            Ok(()),
            Err(CommitFailure::Unavailable),
            Err(CommitFailure::Unavailable),
            Ok(())
        ]
    );
    assert_eq!((bare.rows(), bare.gaps()), (2, 0));
}

#[test]
fn the_low_water_mark_never_passes_what_is_not_folded() {
    let (lagging, mut fold) = (DirtyHeaders::default(), HeaderFlusher::default());
    let lag = |seq| DirtyHeader {
        tenant: 1,
        seq,
        messages: seq,
        last_message_at: None,
        updated_at: 1,
    };
    for n in 1..=10 {
        fold.note(&lagging, n, lag(1), 1, Position(i64::try_from(n).unwrap()));
    }
    fold.note(&lagging, 7, lag(40), 39, Position(11));
    let due = fold.due(&lagging, Duration::ZERO, 5);
    fold.put_back(&lagging, &due);
    assert_eq!(
        fold.low_water(Position(100)),
        Position(1),
        "nothing could be folded"
    );
    let mut left: Vec<u64> = (1..=10).collect();
    while !left.is_empty() {
        let due = fold.due(&lagging, Duration::ZERO, 3);
        assert!(!due.is_empty());
        for (n, lag) in due {
            left.retain(|held| *held != n);
            fold.wrote(&lagging, n, lag);
        }
        let lowest = left
            .iter()
            .min()
            .map_or(100, |n| i64::try_from(*n).unwrap());
        assert!(
            fold.low_water(Position(100)) <= Position(lowest),
            "{} of {left:?}",
            fold.low_water(Position(100))
        );
    }
}

#[test]
fn a_reader_of_older_pages_holds_up_neither_commits_nor_for_ever_the_redaction() {
    const MARKER: &str = "abracadabra-314159";
    let house = House::<Folder>::new();
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    let mut conversation = house.conversation(tenant, customer, None);
    let id = conversation
        .send(MARKER)
        .unwrap()
        .id
        .unwrap()
        .parse()
        .unwrap();
    let reader =
        Connection::open_with_flags(house.bench().path(), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    reader.execute_batch("BEGIN").unwrap();
    reader
        .query_row("SELECT count(*) FROM rows", [], |_| Ok(()))
        .unwrap();
    conversation
        .ask(crate::conversation::messages::RedactMessage { message: id })
        .unwrap();
    let (begun, mut sent) = (Instant::now(), 0);
    // So long that the log was to be emptied meanwhile.
    while sent < 20 || begun.elapsed() < 10 * QUICK.erase_within {
        conversation.send("goes on").unwrap();
        sent += 1;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{sent} commits took {:?}",
        begun.elapsed()
    );
    assert!(house.holds(MARKER), "the reader still sees it");
    drop(reader);
    house.until("the text is gone", || !house.holds(MARKER));
}

/// What readers and whoever commits tell each other.
#[derive(Default)]
struct Told {
    reads_begun: usize,
    commits_settled: usize,
    over: bool,
}

type Telling = (Mutex<Told>, Condvar);

/// Begins a read, and ends it after some commits when another one has begun, or after more of them
/// while none may begin; false where neither happens. Few enough for the time that readers are kept
/// off, on a busy machine too.
fn overlapping(connection: &Connection, (told, news): &Telling) -> rusqlite::Result<bool> {
    const SOME: usize = 3;
    const MORE: usize = 15;
    const COMPUTE: &str =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
         SELECT count(*) FROM n";
    connection.query_row("SELECT count(*) FROM rows", [], |_| Ok(()))?;
    let mut told = told.lock();
    told.reads_begun += 1;
    news.notify_all();
    let (begun, settled) = (told.reads_begun, told.commits_settled);
    let mut goes_on = |told: &mut Told| {
        let commits = if told.reads_begun > begun { SOME } else { MORE };
        !told.over && told.commits_settled < settled + commits
    };
    let until = Instant::now() + SOON;
    while news
        .wait_while_for(&mut told, &mut goes_on, Duration::from_millis(5))
        .timed_out()
    {
        if Instant::now() > until {
            return Ok(false);
        }
        // A read computes all the while: that is what wakes another connection for the next one.
        parking_lot::MutexGuard::unlocked(&mut told, || {
            connection.query_row(COMPUTE, [], |_| Ok(()))
        })?;
    }
    Ok(true)
}

/// Reads one long read after the other until all is over.
fn read_on(store: &SqliteStore, telling: &Arc<Telling>, class: ReadClass) {
    while !telling.0.lock().over {
        let told = Arc::clone(telling);
        let read = store
            .lists
            .read(class, move |connection| overlapping(connection, &told));
        // On a busy machine one may last longer than reads may: the next one begins.
        let read = wait(read);
        assert!(
            matches!(read, Ok(true) | Err(ReadError::TooSlow)),
            "neither a read nor a commit goes on: {read:?}"
        );
    }
}

#[test]
fn long_reads_one_after_the_other_neither_hold_up_commits_nor_keep_a_text_in_the_log_after_a_redaction()
 {
    const MARKER: &str = "abracadabra-271828";
    /// More than fit on the page of the first: what is committed behind these brings that page into
    /// the log no more.
    const BEFORE: u64 = 100;
    let folder = Folder::new();
    let path = folder.path();
    let store = SqliteStore::open_at(
        QUICK,
        &path,
        Arc::new(Views::default()),
        StoreSettings::for_tests(),
    )
    .unwrap()
    .0;
    let telling: Arc<Telling> = Arc::default();
    let tell = |change: fn(&mut Told)| {
        change(&mut telling.0.lock());
        telling.1.notify_all();
    };
    let submit = |expected: u64, redacts: Option<u64>| {
        let mut commit = row_of(1, expected, 10);
        if expected == 0 {
            commit.rows[0].payload = Bytes::from_static(MARKER.as_bytes());
        }
        commit.redacts = redacts;
        let (settled, outcome) = sync_channel(1);
        store.submit(
            Incarnation::next(),
            commit,
            Box::new(move |outcome| settled.send(outcome).unwrap()),
        );
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        tell(|told| told.commits_settled += 1);
    };
    (0..BEFORE).for_each(|expected| submit(expected, None));
    let holds = || contains(&std::fs::read(log_of(&path)).unwrap(), MARKER);
    assert!(holds());
    std::thread::scope(|threads| {
        // Each ends when the other's has begun: there is no moment without any.
        for account in [0, 1] {
            let (store, telling) = (&store, &telling);
            threads.spawn(move || read_on(store, telling, ReadClass::Account(account)));
        }
        telling
            .1
            .wait_while_for(&mut telling.0.lock(), |told| told.reads_begun < 2, SOON);
        submit(BEFORE, Some(1_000));
        let begun = Instant::now();
        let mut expected = BEFORE + 1;
        while holds() && begun.elapsed() < SOON {
            submit(expected, None);
            expected += 1;
        }
        tell(|told| told.over = true);
        assert!(!holds(), "the text is still in the log");
    });
    store.close();
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn a_check_finds_what_was_altered() {
    let house = House::<Folder>::new();
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    let assignee = house.user(tenant, "ada@example.org").unwrap().id;
    let mut conversation = house.conversation(tenant, customer, Some("one"));
    let id = conversation
        .send("two")
        .unwrap()
        .id
        .unwrap()
        .parse()
        .unwrap();
    let edit = serde_json::from_value(serde_json::json!({"content": "three"})).unwrap();
    conversation
        .ask(crate::conversation::messages::ReviseMessage { message: id, edit })
        .unwrap();
    let assign = serde_json::json!({"assignee_id": assignee});
    let assign: crate::conversation::messages::ChangeConversation =
        serde_json::from_value(assign).unwrap();
    conversation.ask(assign).unwrap();
    assert_eq!(wait(house.store().chores()).unwrap(), []);
    house.store().close();
    for plant in [
        "UPDATE counters SET total = total + 1 WHERE field = 0",
        "DELETE FROM counters WHERE field = 3",
        "UPDATE conversations SET messages = messages + 1",
        "UPDATE conversations SET status = 2",
        "UPDATE conversations SET updated_at = updated_at + 1",
        "UPDATE records SET seq = seq + 1",
        "UPDATE rows SET payload = x'7b7d' WHERE pos = 2",
        "UPDATE rows SET edit = 1 WHERE edit IS NOT NULL",
        "UPDATE edits SET number = number + 1",
        "UPDATE edits SET pos = pos + 1",
        "DELETE FROM edits",
        "UPDATE rows SET number = NULL WHERE number = 1",
        "DELETE FROM rows WHERE seq = 2",
        "DELETE FROM rows WHERE pos = (SELECT max(pos) FROM rows)",
        "DELETE FROM rows",
        "DELETE FROM records WHERE kind = 3",
        "DELETE FROM feed",
        "DELETE FROM feed_assignees",
        "UPDATE feed SET before = x'0102030405060708090a', first = first + 512",
        "UPDATE feed SET entries = CAST(substr(entries, 1, length(entries) - 26) AS BLOB)",
        "UPDATE feed SET entries = CAST(substr(entries, 27) || substr(entries, 1, 26) AS BLOB)",
        "UPDATE feed_assignees SET here = here + 1",
        "UPDATE feed_assignees SET assignee = assignee + 1",
        "UPDATE scopes SET number = number + 1",
        "UPDATE scopes SET floor = number + 1",
    ] {
        let altered = house.bench().killed();
        assert_eq!(altered.findings(), Vec::<String>::new());
        Connection::open(altered.path())
            .unwrap()
            .execute_batch(plant)
            .unwrap();
        assert!(!altered.findings().is_empty(), "{plant}");
    }
}

/// Events in a file of the first version of the schema.
const FIRST_ROWS: i64 = 2_000;
/// Every so many of them is a change of a conversation.
const RARE: i64 = 97;

/// Which of five conversations the event at a position is about, and the tenant of that.
fn entity_and_scope(pos: i64) -> (i64, i64) {
    let entity = pos * 7 % 5;
    (entity, if entity < 3 { 1 } else { 2 })
}

/// A file of the first version of the schema, with events of five conversations in two scopes.
fn file_of_the_first_version() -> Folder {
    let folder = Folder::new();
    let connection = Connection::open(folder.path()).unwrap();
    connection.execute_batch(schema::MIGRATIONS[0]).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let mut insert = connection
        .prepare(
            "INSERT INTO rows(pos, entity, seq, happened, scope, number, at, from_customer, from_agent, from_system,
             channel, assignee, by_request, hash, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 7, 0, 0, 0, ?7, ?8, '', x'', x'7b7d')",
        )
        .unwrap();
    let (mut sequences, mut numbers) = (HashMap::new(), HashMap::new());
    for pos in 1..=FIRST_ROWS {
        let (entity, tenant) = entity_and_scope(pos);
        let sequence: &mut i64 = sequences.entry(entity).or_default();
        let number: &mut i64 = numbers.entry(tenant).or_default();
        *sequence += 1;
        *number += 1;
        let happened = if pos % RARE == 0 {
            2
        } else {
            1 + pos % 5 / 4 * 4
        };
        let assignee = (pos % 11 == 0).then_some(77 + pos % 2);
        insert
            .execute(params![
                pos,
                100 + entity,
                *sequence,
                happened,
                tenant,
                *number,
                pos % 3,
                assignee
            ])
            .unwrap();
    }
    drop(insert);
    connection.execute_batch("COMMIT").unwrap();
    drop(connection);
    folder
}

#[test]
fn a_file_of_the_first_version_gets_its_feed_once() {
    let folder = file_of_the_first_version();
    assert_eq!(folder.findings(), Vec::<String>::new());
    let house = House::<Folder>::at(folder);
    for (mode, in_file, events) in [(Mode::Live, 1, 1200), (Mode::Test, 2, 800)] {
        let filter = EventFilter {
            kinds: vec![EventKind::ConversationUpdated],
            ..EventFilter::default()
        };
        let query = EventQuery {
            tenant: Tenant::of(0, mode),
            source: EventSource::Account,
            after: 0,
            until: None,
            filter,
            limit: 5,
            total: true,
        };
        let page = wait(house.store().events(query.clone())).unwrap().unwrap();
        let rare: Vec<i64> = (1..=FIRST_ROWS)
            .filter(|pos| pos % RARE == 0 && entity_and_scope(*pos).1 == in_file)
            .collect();
        assert_eq!(page.total, u64::try_from(rare.len()).unwrap());
        let positions: Vec<i64> = page.events.iter().map(|event| event.position.0).collect();
        assert_eq!(positions, &rare[..5]);
        let all = EventQuery {
            filter: EventFilter::default(),
            after: 1,
            ..query
        };
        let total = wait(house.store().events(all)).unwrap().unwrap().total;
        assert_eq!(total, events - 1);
    }
    house.is_sound();
}

#[test]
fn rows_that_retention_took_are_freed_but_for_messages_and_the_last() {
    let mut bare = Bare::new();
    let happened = [
        EventKind::ConversationCreated,
        EventKind::ConversationUpdated,
        EventKind::MessageCreated,
    ];
    for expected in 0..30_u64 {
        let mut commit = row_of(1, expected, 10);
        commit.rows[0].happened = happened[usize::try_from(expected % 3).unwrap()];
        assert_eq!(bare.batch(vec![(Incarnation::next(), commit)]), [Ok(())]);
    }
    bare.writer.keep_house(Phase::Closing);
    let connection = &bare.writer.connection;
    let mut retention = Retention::new(Some(Duration::from_secs(1)), Duration::ZERO);
    let freed = || {
        let sql = "SELECT count(*) FILTER (WHERE payload IS NULL AND salt IS NULL AND happened < 4),
                   count(*) FILTER (WHERE payload IS NULL), (SELECT count(*) FROM feed), (SELECT max(floor) FROM scopes)
                   FROM rows";
        connection
            .query_row(sql, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .unwrap()
    };
    assert_eq!(freed(), (0, 0, 4, 0));
    retention.run(connection, Timestamp(2000)).unwrap();
    assert_eq!(
        freed(),
        (0, 0, 4, 30),
        "an answer may still be a row's payload"
    );
    for _ in 0..10 {
        retention
            .run(connection, Timestamp(KEPT_MS + 2000))
            .unwrap();
    }
    // Three slices of eight; what stands with the floor in the fourth waits for it to be left
    // behind.
    assert_eq!(freed(), (16, 16, 1, 30));
}
