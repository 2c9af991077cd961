//! Copies of a file that is written meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::rc::Rc;

use rusqlite::Connection;

use super::super::check;
use super::super::snapshots::{Copying, target};
use super::{Bare, Folder, row_of};
use crate::store::contract::Bench;
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
    let mut copying = Copying::begin(&source, &mut copy).unwrap();
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

/// What is wrong with the file itself: a writer without its thread does not keep all of it up.
fn bare_findings(bare: Bare, source: Rc<Connection>) -> Vec<String> {
    drop(source);
    let Bare { writer, folder } = bare;
    drop(writer);
    folder.findings()
}
