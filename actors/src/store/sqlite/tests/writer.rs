//! What the writer does where the disk is full, the file is held, or something can't be written.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::super::codec::only;
use super::super::dirty_headers::{DirtyHeader, DirtyHeaders, HeaderFlusher};
use super::super::file::{BUSY_MAX, connect, log_of};
use super::super::pace::Phase;
use super::{Bare, row_of};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::commit::Commit;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

#[test]
fn the_log_grows_in_steps_and_what_stands_before_the_zeros_is_recovered() {
    const COMMITS: u64 = 200;
    let mut bare = Bare::new();
    let log = log_of(&bare.folder.path());
    let one = Incarnation::next();
    let mut lengths = std::collections::BTreeSet::new();
    for n in 0..COMMITS {
        assert_eq!(
            bare.batch(vec![(one, row_of(EntityNumber(1), n, 10_000))]),
            [Ok(())]
        );
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
    assert_eq!(
        bare.batch(vec![(first, row_of(EntityNumber(1), 0, 10))]),
        [Ok(())]
    );
    bare.writer
        .connection
        .query_row("PRAGMA max_page_count = 1", [], |_| Ok(()))
        .unwrap();
    let other = Incarnation::next();
    let refused = bare.batch(vec![
        (other, row_of(EntityNumber(2), 0, 10)),
        (first, row_of(EntityNumber(1), 1, 500_000)),
        (first, row_of(EntityNumber(1), 2, 10)),
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
        bare.batch(vec![(first, row_of(EntityNumber(1), 1, 10))]),
        [Err(CommitFailure::Unavailable)],
        "it lost a commit"
    );
    let again = Incarnation::next();
    assert_eq!(
        bare.batch(vec![
            (again, row_of(EntityNumber(1), 1, 500_000)),
            (again, row_of(EntityNumber(1), 2, 10))
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
        bare.batch(vec![(Incarnation::next(), row_of(EntityNumber(1), 0, 10))]),
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
fn threads_that_allocate_share_no_lock() {
    let connection = Connection::open_in_memory().unwrap();
    let mut options = connection.prepare("PRAGMA compile_options").unwrap();
    let options = options.query_map([], only).unwrap();
    let options: Vec<String> = options.map(Result::unwrap).collect();
    for wanted in ["DEFAULT_MEMSTATUS=0", "DISABLE_PAGECACHE_OVERFLOW_STATS"] {
        assert!(options.iter().any(|option| option == wanted), "{options:?}");
    }
}

#[test]
fn a_file_that_another_connection_holds_is_away_at_once_and_comes_back() {
    let mut bare = Bare::new();
    let one = Incarnation::next();
    assert_eq!(
        bare.batch(vec![(one, row_of(EntityNumber(1), 0, 10))]),
        [Ok(())]
    );
    let stranger = Connection::open(bare.folder.path()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let many = (2..200).map(|entity| (Incarnation::next(), row_of(EntityNumber(entity), 0, 10)));
    let begun = Instant::now();
    let refused = bare.batch(
        std::iter::once((one, row_of(EntityNumber(1), 1, 10)))
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
    let again = (2..200).map(|entity| (Incarnation::next(), row_of(EntityNumber(entity), 0, 10)));
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
                ..row_of(EntityNumber(account.into()), expected, 10)
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
    let mut poisoned = row_of(EntityNumber(2), 0, 10);
    poisoned.rows[0].edits = Some(Sequence(77));
    let batch = vec![
        (one, row_of(EntityNumber(1), 0, 10)),
        (two, poisoned),
        (two, row_of(EntityNumber(2), 0, 10)),
        (three, row_of(EntityNumber(3), 0, 10)),
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
    let lag = |conversation, seq| DirtyHeader {
        conversation,
        tenant: 1,
        seq,
        position: Position::ZERO,
        messages: seq.0,
        last_message_at: None,
        updated_at: Timestamp(1),
    };
    for n in 1..=10 {
        fold.note(
            &lagging,
            lag(EntityNumber(n), Sequence(1)),
            1,
            Position(i64::try_from(n).unwrap()),
        );
    }
    fold.note(
        &lagging,
        lag(EntityNumber(7), Sequence(40)),
        39,
        Position(11),
    );
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
        for lag in due {
            left.retain(|held| *held != lag.conversation.0);
            fold.wrote(&lagging, lag);
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
