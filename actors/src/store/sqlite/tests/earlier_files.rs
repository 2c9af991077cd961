//! Files of earlier versions are brought to this one, and rows that retention took are freed.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::super::pace::Phase;
use super::super::retention::Retention;
use super::super::schema;
use super::{Bare, Folder, row_of};
use crate::store::EventQuery;
use crate::store::contract::{Bench, House, wait};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Incarnation;

/// Events in a file of the first version of the schema.
const FIRST_ROWS: i64 = 2_000;
/// Every so many of them is a change of a conversation.
const RARE: i64 = 97;

/// Which of five conversations the event at a position is about, and the tenant of that.
fn entity_and_scope(pos: i64) -> (i64, i64) {
    let entity = pos * 7 % 5;
    (entity, if entity < 3 { 1 } else { 2 })
}

/// A file of the first version of the schema, with events of five conversations of two tenants.
fn file_of_the_first_version() -> Folder {
    let folder = Folder::new();
    let connection = Connection::open(folder.path()).unwrap();
    connection
        .execute_batch(schema::MIGRATIONS[0].script)
        .unwrap();
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
            after: StreamOffset(0),
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
            after: StreamOffset(1),
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
        let mut commit = row_of(EntityNumber(1), expected, 10);
        commit.rows[0].kind = happened[usize::try_from(expected % 3).unwrap()];
        assert_eq!(bare.batch(vec![(Incarnation::next(), commit)]), [Ok(())]);
    }
    bare.writer.keep_house(Phase::Closing);
    let connection = &bare.writer.connection;
    let mut retention = Retention::new(Some(Duration::from_secs(1)), Duration::ZERO);
    let freed = || {
        let sql = "SELECT count(*) FILTER (WHERE payload IS NULL AND salt IS NULL AND happened < 4),
                   count(*) FILTER (WHERE payload IS NULL), (SELECT count(*) FROM feed WHERE scope % 4 <> 0), (SELECT max(floor) FROM scopes)
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
            .run(connection, Timestamp(2000) + KEPT_FOR)
            .unwrap();
    }
    // Three slices of eight; what stands with the floor in the fourth waits for it to be left
    // behind.
    assert_eq!(freed(), (16, 16, 1, 30));
}
