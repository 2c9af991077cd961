//! Long frames on their way into the file: part by part, and what becomes of them where their version
//! does not come.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::frame_parts::PartAhead;
use super::super::pace::Phase;
use super::super::work::Work;
use super::super::write_queue::{Arrivals, LARGE_MIN};
use super::{Bare, row_of};
use crate::store::contract::Bench;
use crate::views::Views;
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::document::{DocumentHeader, DocumentListed, NewLinks, NewVersion};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::VersionId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

/// Two parts and something behind them.
const FRAME_BYTES: usize = 150_000;

/// A new document with a frame of so many bytes.
fn document(entity: EntityNumber, expected: u64, bytes: usize) -> Commit {
    let version = NewVersion {
        number: 1,
        id: VersionId::with_ordinal(Timestamp(1), 1),
        label: None,
        branch: String::new(),
        parents: Vec::new(),
        message: None,
        author: None,
        base: None,
        frame: Bytes::from(
            b"longword "
                .iter()
                .copied()
                .cycle()
                .take(bytes)
                .collect::<Vec<u8>>(),
        ),
    };
    let header = DocumentHeader {
        was_deleted: None,
        updated_at: Timestamp(1),
        listed: DocumentListed {
            title: "A title".to_owned(),
            content_type: 0,
            owner: None,
            deleted_at: None,
        },
        body: "{}".to_owned(),
        readers: None,
        links: None,
        version: Some(version),
        comments: Vec::new(),
        anchors: None,
    };
    Commit {
        subject: Subject {
            kind: Kind::Document,
            number: entity,
            tail: 1,
        },
        rows: vec![NewRow::new(
            EventKind::DocumentCreated,
            Bytes::from_static(b"{}"),
        )],
        header: Header::Document(Box::new(header)),
        ..row_of(entity, expected, 0)
    }
}

impl Bare {
    /// Writes the first parts of this commit's frame, each in a transaction of its own.
    fn put_ahead(&mut self, commit: &Commit, parts: usize) {
        for part in 0..parts {
            let part = PartAhead::of(commit, part).unwrap();
            self.writer.take(&mut vec![Work::PartAhead(part)]);
        }
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        let connection = &self.writer.connection;
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    fn tables(&self) -> [i64; 3] {
        ["versions", "frame_parts", "loose_frames"].map(|table| self.count(table))
    }
}

#[test]
fn a_version_takes_the_parts_that_went_ahead_and_writes_the_others() {
    for ahead in 0..=2 {
        let mut bare = Bare::new();
        let commit = document(EntityNumber(1), 0, FRAME_BYTES);
        assert!(PartAhead::of(&commit, 2).is_none(), "the rest is no part");
        bare.put_ahead(&commit, ahead);
        let loose = i64::from(ahead > 0);
        assert_eq!(bare.tables(), [0, i64::try_from(ahead).unwrap(), loose]);
        assert_eq!(bare.batch(vec![(Incarnation::next(), commit)]), [Ok(())]);
        assert_eq!(bare.tables(), [1, 2, 0]);
        let sql =
            "SELECT sum(length(bytes)) + (SELECT length(frame) FROM versions) FROM frame_parts";
        let bytes: i64 = bare
            .writer
            .connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap();
        assert_eq!(usize::try_from(bytes).unwrap(), FRAME_BYTES);
    }
}

#[test]
fn parts_of_a_version_that_is_refused_go() {
    let mut bare = Bare::new();
    let late = document(EntityNumber(1), 3, FRAME_BYTES);
    bare.put_ahead(&late, 2);
    let refused = bare.batch(vec![(Incarnation::next(), late)]);
    assert_eq!(refused, [Err(CommitFailure::Conflict)]);
    until(|| {
        bare.writer.keep_house(Phase::Running);
        bare.tables() == [0; 3]
    });
}

#[test]
fn parts_of_a_version_that_was_under_way_go_after_a_crash() {
    let mut bare = Bare::new();
    let commit = document(EntityNumber(1), 0, FRAME_BYTES);
    bare.put_ahead(&commit, 1);
    let crashed = bare.folder.killed();
    assert!(crashed.holds("longword"));
    assert!(
        crashed.findings().is_empty(),
        "they are not lost, but loose"
    );
    let store = crashed.open(Views::default());
    until(|| !crashed.holds("longword"));
    store.close();
    assert_eq!(Bare::on(crashed).tables(), [0; 3]);
}

#[test]
fn a_part_that_could_not_be_written_is_written_with_the_version() {
    let mut bare = Bare::new();
    let commit = document(EntityNumber(1), 0, FRAME_BYTES);
    let pages = |bare: &Bare, most: &str| {
        let sql = format!("PRAGMA max_page_count = {most}");
        let connection = &bare.writer.connection;
        connection.query_row(&sql, [], |_| Ok(())).unwrap();
    };
    pages(&bare, "1");
    bare.put_ahead(&commit, 1);
    assert_eq!(bare.tables(), [0; 3]);
    pages(&bare, "1000000");
    let second = PartAhead::of(&commit, 1).unwrap();
    bare.writer.take(&mut vec![Work::PartAhead(second)]);
    assert_eq!(bare.tables(), [0; 3], "never without the one before it");
    assert_eq!(bare.batch(vec![(Incarnation::next(), commit)]), [Ok(())]);
    assert_eq!(bare.tables(), [1, 2, 0]);
}

#[test]
fn a_check_finds_parts_that_are_missing_or_left() {
    let mut bare = Bare::new();
    let commit = document(EntityNumber(1), 0, FRAME_BYTES);
    assert_eq!(bare.batch(vec![(Incarnation::next(), commit)]), [Ok(())]);
    let sound = bare.folder.killed();
    assert_eq!(sound.findings(), Vec::<String>::new());
    for plant in [
        "DELETE FROM frame_parts WHERE part = 1",
        "UPDATE frame_parts SET part = 2 WHERE part = 1",
        "INSERT INTO frame_parts(version, part, bytes) VALUES (7, 0, x'00')",
    ] {
        let altered = sound.killed();
        rusqlite::Connection::open(altered.path())
            .unwrap()
            .execute_batch(plant)
            .unwrap();
        let found = altered.findings();
        assert!(
            found.iter().any(|found| found.contains("long frames")),
            "{plant}: {found:?}"
        );
    }
}

#[test]
fn of_a_long_frame_one_part_goes_along_with_what_is_small() {
    let mut arrivals = Arrivals::default();
    let commit = |commit: Commit| Work::Commit {
        incarnation: Incarnation(1),
        commit: Box::new(commit),
        digests: Vec::new(),
        settle: Box::new(|_| ()),
    };
    arrivals.push(commit(document(EntityNumber(1), 0, FRAME_BYTES)));
    arrivals.push(commit(document(EntityNumber(2), 0, FRAME_BYTES)));
    let mut told = Vec::new();
    while arrivals.are_left() {
        arrivals.push(commit(row_of(EntityNumber(9), 0, 10)));
        let next = arrivals.next(Phase::Running);
        let what = next.iter().map(|work| match (work, work.entity()) {
            (Work::PartAhead(_), _) => "part".to_owned(),
            (_, Some(entity)) => entity.0.to_string(),
            (_, None) => "other".to_owned(),
        });
        told.push(what.collect::<Vec<_>>().join(" "));
    }
    let first = ["9 part", "9 part", "9 1"];
    assert_eq!(
        told,
        first
            .iter()
            .copied()
            .chain(["9 part", "9 part", "9 2"])
            .collect::<Vec<_>>()
    );
}

#[test]
fn many_share_links_make_a_commit_a_large_one() {
    let mut commit = document(EntityNumber(1), 0, 0);
    assert!(commit.bytes() < LARGE_MIN);
    if let Header::Document(header) = &mut commit.header {
        header.links = Some(NewLinks {
            hashes: vec![[1; 32]; 100],
            body: "x".repeat(LARGE_MIN),
        });
    }
    assert!(commit.bytes() >= LARGE_MIN + 3_200);
}

fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}
