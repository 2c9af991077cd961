//! Readers and share links of documents, as commits leave them: whatever was there before.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::store::sqlite::schema;
use colloquy_model::caller::Mode;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;

/// One that is changed, and one that stays as it is.
const DOCUMENTS: [i64; 2] = [1, 2];

fn empty() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    connection
}

fn put_roles(connection: &Connection, document: i64, roles: &BTreeMap<i64, i64>) {
    let reader = |(user, role): (&i64, &i64)| DocumentReader {
        user: EntityNumber(user.cast_unsigned()),
        role: *role,
    };
    let readers: Vec<DocumentReader> = roles.iter().map(reader).collect();
    put_readers(connection, document, &readers).unwrap();
}

fn put_hashes(connection: &Connection, document: i64, hashes: &BTreeSet<u8>) {
    let subject = Subject {
        kind: Kind::Document,
        number: EntityNumber(document.cast_unsigned()),
        tail: 0,
    };
    // Every document has its own.
    let first = u8::try_from(document).unwrap();
    let links = NewLinks {
        hashes: hashes
            .iter()
            .map(|last| std::array::from_fn(|at| if at == 0 { first } else { *last }))
            .collect(),
        body: "[]".to_owned(),
    };
    put_links(connection, subject, Tenant::of(1, Mode::Live), &links).unwrap();
}

fn stored<R, T: FromIterator<R>>(
    connection: &Connection,
    sql: &str,
    document: i64,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<R>,
) -> T {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([document], read).unwrap();
    rows.map(Result::unwrap).collect()
}

fn roles(connection: &Connection, document: i64) -> BTreeMap<i64, i64> {
    let sql = "SELECT user, role FROM readers WHERE document = ?1";
    stored(connection, sql, document, |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

fn hashes(connection: &Connection, document: i64) -> BTreeSet<u8> {
    let sql = "SELECT hash FROM links WHERE document = ?1";
    stored(connection, sql, document, |row| {
        let [.., last] = row.get::<_, [u8; 32]>(0)?;
        Ok(last)
    })
}

proptest! {
    /// What another document has stays as it is.
    #[test]
    fn what_a_commit_leaves_is_there_and_nothing_else(
        other in (btree_map(0..8_i64, 0..3_i64, 0..8), btree_set(0..16_u8, 0..8)),
        left in vec((btree_map(0..8_i64, 0..3_i64, 0..8), btree_set(0..16_u8, 0..8)), 1..8),
    ) {
        let connection = empty();
        let [changed, stays] = DOCUMENTS;
        put_roles(&connection, stays, &other.0);
        put_hashes(&connection, stays, &other.1);
        for (people, links) in left {
            put_roles(&connection, changed, &people);
            put_hashes(&connection, changed, &links);
            prop_assert_eq!(roles(&connection, changed), people);
            prop_assert_eq!(hashes(&connection, changed), links);
            prop_assert_eq!(&roles(&connection, stays), &other.0);
            prop_assert_eq!(&hashes(&connection, stays), &other.1);
        }
    }
}

#[test]
fn one_more_of_many_writes_no_row_of_the_others() {
    let connection = empty();
    let [document, _] = DOCUMENTS;
    let mut people: BTreeMap<i64, i64> = (0..300).map(|user| (user, 1)).collect();
    let mut links: BTreeSet<u8> = (0..200).collect();
    put_roles(&connection, document, &people);
    put_hashes(&connection, document, &links);
    let before = connection.total_changes();
    people.insert(300, 1);
    links.insert(200);
    put_roles(&connection, document, &people);
    put_hashes(&connection, document, &links);
    // The links' body is the third.
    assert_eq!(connection.total_changes() - before, 3);
}
