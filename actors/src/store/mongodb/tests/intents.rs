//! What commits of other nodes announced holds back those that it meets, and no longer than that: a
//! crash between two writes leaves nothing stuck.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mongodb::bson::{Document, doc};

use super::{OwnDatabase, database, runtime};
use crate::accounts::User;
use crate::store::contract::{Bench, House};
use crate::store::mongodb::schema::{INTENTS, LOG, META, NAMES, RECORDS};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::commit::{ConstraintViolation, NameField};
use colloquy_runtime::CommitFailure;

/// The node that announced something, and is not heard of.
const STRANGER: i64 = 4_711;

fn account() -> Tenant {
    Tenant::of(1, Mode::Live).account_wide()
}

/// The `_id` of the name of a user with this email.
fn name_of(email: &str) -> String {
    let field = NameField::UserEmail as i32;
    format!("{}.{field}.{email}", account().number())
}

/// Announces, as another node, that the commit at this position takes this name.
async fn announce(own: &str, email: &str, position: i64) {
    let thing = format!("name.{}", name_of(email));
    let intent = doc! {
        "_id": format!("{position:016x}.{thing}"), "thing": thing, "hold": "taken",
        "position": position, "round": position, "node": STRANGER,
    };
    let intents = database(own).await.collection::<Document>(INTENTS);
    intents.insert_one(intent).await.unwrap();
}

fn taken() -> CommitFailure<ConstraintViolation> {
    CommitFailure::Violated(ConstraintViolation::Taken(NameField::UserEmail))
}

#[test]
fn what_a_node_announced_and_never_wrote_is_void_and_can_not_land_later() {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let position = runtime().block_on(async {
        let meta = database(&name).await.collection::<Document>(META);
        let reserve = doc! {"$inc": {"next": 1_i64}};
        let before = meta.find_one_and_update(doc! {"_id": "positions"}, reserve);
        let position = before.await.unwrap().unwrap().get_i64("next").unwrap();
        announce(&name, "grace@example.org", position).await;
        position
    });
    let mut user = house.vacant::<User>(account());
    let made = user.prepare(house.new_user("grace@example.org"));
    assert_eq!(made.settled(), Ok(()));
    runtime().block_on(async {
        let log = database(&name).await.collection::<Document>(LOG);
        let late = doc! {"_id": "what the other node inserts late", "position": position};
        assert!(log.insert_one(late).await.is_err(), "its position is taken");
    });
}

#[test]
fn what_landed_is_judged_by_also_where_its_node_did_not_carry_it_over() {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let first = house.user(account(), "grace@example.org").unwrap();
    runtime().block_on(async {
        let database = database(&name).await;
        let entity = i64::try_from(first.subject().number.0).unwrap();
        let log = database.collection::<Document>(LOG);
        let landed = log.find_one(doc! {"entity": entity}).await.unwrap();
        let position = landed.unwrap().get_i64("position").unwrap();
        // As the node leaves it that died directly behind its insert.
        for (collection, filter) in [
            (NAMES, doc! {"record": entity}),
            (RECORDS, doc! {"_id": entity}),
        ] {
            let collection = database.collection::<Document>(collection);
            let gone = collection.delete_many(filter).await.unwrap();
            assert_eq!(gone.deleted_count, 1);
        }
        announce(&name, "grace@example.org", position).await;
    });
    let mut second = house.vacant::<User>(account());
    let made = second.prepare(house.new_user("grace@example.org"));
    assert_eq!(made.settled(), Err(taken()));
}

#[test]
fn a_name_that_was_carried_over_late_is_nobodys_where_its_record_has_another() {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let first = house.user(account(), "grace@example.org").unwrap();
    let entity = i64::try_from(first.subject().number.0).unwrap();
    runtime().block_on(async {
        let names = database(&name).await.collection::<Document>(NAMES);
        let late = doc! {
            "_id": name_of("old@example.org"), "tenant": account().number(),
            "field": NameField::UserEmail as i32, "value": "old@example.org",
            "record": entity, "at": 1_i64,
        };
        names.insert_one(late).await.unwrap();
    });
    assert!(house.user(account(), "old@example.org").is_ok());
    let mut again = house.vacant::<User>(account());
    let made = again.prepare(house.new_user("old@example.org"));
    assert_eq!(made.settled(), Err(taken()));
}
