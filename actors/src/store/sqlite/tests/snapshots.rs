//! Copies of a file that is written meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::timeout;

use super::super::check;
use super::super::snapshots::{Copying, target};
use super::{Bare, Folder, row_of};
use crate::store::contract::Bench;
use crate::views::Views;
use colloquy_model::entity_number::EntityNumber;
use colloquy_runtime::Incarnation;

/// Bytes of each message, so that the file has some thousand pages.
const BYTES: usize = 16 << 10;

fn write(bare: &mut Bare, expected: u64) {
    let commit = row_of(EntityNumber(1 << 12), expected, BYTES);
    let settled = bare.batch(vec![(Incarnation(1), commit)]);
    assert!(settled.iter().all(Result::is_ok));
}

/// The rows of a file and a digest of what they say.
fn rows(connection: &Connection) -> (i64, String) {
    let sql = "SELECT count(*), group_concat(hex(hash)) FROM (SELECT hash FROM rows ORDER BY pos)";
    let read = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    read.unwrap()
}

#[test]
fn a_copy_holds_what_was_committed_while_it_was_made_and_is_never_begun_again() {
    let (mut bare, copied) = (Bare::new(), Folder::new());
    for expected in 0..400 {
        write(&mut bare, expected);
    }
    let source = Rc::clone(&bare.writer.connection);
    let mut copy = target(&copied.path()).unwrap();
    let unsynced = AtomicBool::new(false);
    let mut copying = Copying::begin(&source, &mut copy, &unsynced).unwrap();
    let (mut written, mut left) = (400, i32::MAX);
    while !copying.copy_pages().unwrap() {
        // Every page is copied once: a copy that begins again has more to do than before.
        assert!(copying.left() <= left, "{} > {left}", copying.left());
        left = copying.left() + i32::try_from(BYTES / 4096).unwrap() + 8;
        write(&mut bare, written);
        written += 1;
        if written % 5 == 0 {
            // As after a redaction: the log is emptied.
            let emptied = source.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            emptied.unwrap();
        }
    }
    drop(copying);
    drop(copy);
    assert!(written > 410, "{written}");
    let copy = Connection::open(copied.path()).unwrap();
    assert_eq!(rows(&copy), rows(&source));
    drop(copy);
    assert_eq!(copied.findings(), bare_findings(bare, source));
    assert!(check(&copied.path()).is_ok());
}

#[test]
fn each_piece_is_synced_before_the_next_one_is_copied() {
    let (mut bare, copied) = (Bare::new(), Folder::new());
    for expected in 0..100 {
        write(&mut bare, expected);
    }
    let source = Rc::clone(&bare.writer.connection);
    let mut copy = target(&copied.path()).unwrap();
    let unsynced = AtomicBool::new(false);
    let mut copying = Copying::begin(&source, &mut copy, &unsynced).unwrap();
    let mut step = || {
        std::thread::sleep(copying.rest());
        assert!(!copying.step().unwrap());
        copying.left()
    };
    let left = step();
    assert!(unsynced.load(Ordering::Acquire));
    assert_eq!(step(), left);
    assert_eq!(step(), left);
    unsynced.store(false, Ordering::Release);
    assert!(step() < left);
}

#[test]
fn a_copy_for_which_nobody_waits_any_more_makes_room_for_the_next() {
    let mut bare = Bare::new();
    for expected in 0..100 {
        write(&mut bare, expected);
    }
    let Bare { writer, folder } = bare;
    drop(writer);
    let (left, copied) = (Folder::new(), Folder::new());
    let store = folder.open(Views::default());
    let begun = Arc::<AtomicBool>::default();
    let given_up = store.snapshot(left.path(), Arc::clone(&begun));
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    drop(given_up);
    let unsynced = Arc::<AtomicBool>::default();
    let mut copying = store.snapshot(copied.path(), Arc::clone(&unsynced));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        loop {
            match timeout(Duration::from_millis(1), &mut copying).await {
                Ok(outcome) => break outcome,
                Err(_) => unsynced.store(false, Ordering::Release),
            }
        }
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    store.close();
}

/// What is wrong with the file itself: a writer without its thread does not keep all of it up.
fn bare_findings(bare: Bare, source: Rc<Connection>) -> Vec<String> {
    drop(source);
    let Bare { writer, folder } = bare;
    drop(writer);
    folder.findings()
}
