//! A customer's new name is held on to for lists at every node, and only until every header shows it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use mongodb::bson::{Document, doc};
use serde_json::json;

use super::{OwnDatabase, database, runtime};
use crate::accounts::{ChangeCustomer, Customer};
use crate::store::Facets;
use crate::store::contract::{Bench, House};
use crate::store::mongodb::carry_over;
use crate::store::mongodb::log::LogDocument;
use crate::store::mongodb::schema::RENAMES;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, Header};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

#[test]
fn a_node_lets_a_name_go_that_another_one_has_copied_into_every_header() {
    let live = Tenant::of(1, Mode::Live);
    let mut second = OwnDatabase::new();
    let first = OwnDatabase::new();
    second.name.clone_from(&first.name);
    let (renames, follows) = (House::at(first), House::at(second));
    let customer = renames.customer(live, "before");
    renames.conversation(live, customer, None);
    renames
        .record::<Customer>(live, customer)
        .ask(serde_json::from_value::<ChangeCustomer>(json!({"name": "after"})).unwrap())
        .unwrap();
    let shown = || {
        let headers = follows.list(live, Facets::default()).items;
        headers
            .iter()
            .all(|header| &*follows.name_of(header) == "after")
    };
    assert!(shown(), "at once, at the other node");
    follows.until("the name is known to be copied", || {
        follows.views.names.held().is_empty()
    });
    assert!(shown());
}

#[test]
fn a_name_that_waits_to_be_copied_goes_with_its_customer() {
    let number = |customer: i64| doc! {"_id": customer};
    let own = OwnDatabase::new();
    let subject = Subject {
        kind: Kind::Customer,
        number: EntityNumber(7),
        tail: 0,
    };
    let caller = Caller {
        tenant: Tenant::of(1, Mode::Live),
        actor: Actor::server("a test"),
    };
    let erasing = Commit {
        header: Header::RecordErased,
        ..Commit::new(subject, Sequence(2), caller, Timestamp::now())
    };
    let document = LogDocument::of(&erasing, &Vec::new());
    runtime().block_on(async {
        let database = database(&own.name).await;
        let renames = database.collection::<Document>(RENAMES);
        renames.insert_many([number(7), number(8)]).await.unwrap();
        let statements = carry_over::header_of(&document, &HashMap::new());
        statements.run(&database).await.unwrap();
        let left = renames.find_one(number(7)).await.unwrap();
        assert!(left.is_none(), "{left:?}");
        assert!(renames.find_one(number(8)).await.unwrap().is_some());
    });
}
