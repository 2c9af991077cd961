//! A customer's new name that waits to be copied into the headers of conversations goes with the
//! customer, however long the copying takes.

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::super::codec::{int, only};
use super::super::counters::CounterMoves;
use super::super::{headers, schema};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, Header, NewRow};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

const CUSTOMER: EntityNumber = EntityNumber(7);
const OTHER: EntityNumber = EntityNumber(8);

#[test]
fn a_name_that_waits_to_be_copied_goes_with_its_customer() {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection).unwrap();
    for customer in [CUSTOMER, OTHER] {
        let sql = "INSERT INTO renames(customer, name, revision) VALUES (?1, 'new', 2)";
        connection.execute(sql, params![int(customer.0)]).unwrap();
    }
    let subject = Subject {
        kind: Kind::Customer,
        number: CUSTOMER,
        tail: 0,
    };
    let caller = Caller {
        tenant: Tenant::of(1, Mode::Live),
        actor: Actor::server("a test"),
    };
    let commit = Commit {
        rows: vec![NewRow::new(EventKind::CustomerErased, Bytes::new())],
        header: Header::RecordErased,
        ..Commit::new(subject, Sequence(2), caller, Timestamp::now())
    };
    headers::write(&connection, &commit, &mut CounterMoves::default()).unwrap();
    let mut left = connection.prepare("SELECT customer FROM renames").unwrap();
    let left: Result<Vec<i64>, _> = left.query_map([], only).unwrap().collect();
    assert_eq!(left.unwrap(), [int(OTHER.0)]);
}
