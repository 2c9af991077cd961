//! What a check finds: nothing in a store that only served, and each damage that is planted.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

use mongodb::Database;
use mongodb::bson::{Document, doc};
use serde_json::json;

use super::{OwnDatabase, database, runtime};
use crate::conversation::messages::{CloseConversation, ReviseMessage};
use crate::store::contract::{Bench, House};
use crate::store::mongodb::counters::Counted;
use crate::store::mongodb::schema::{
    CONVERSATIONS, COUNTERS, Collections, LOG, MESSAGES, META, RECORDS,
};
use crate::store::mongodb::{check, positions};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity::Kind;

/// A store that has served, and is closed.
pub(super) fn served() -> OwnDatabase {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    house.user(tenant, "ada@example.org").unwrap();
    let mut first = house.conversation(tenant, customer, Some("hello"));
    for text in ["one", "two", "three"] {
        first.send(text).unwrap();
    }
    let message: serde_json::Value =
        serde_json::from_str(&house.transcript(tenant, first.id).items[0]).unwrap();
    let edit = ReviseMessage {
        message: message["message_id"].as_str().unwrap().parse().unwrap(),
        edit: serde_json::from_value(json!({"content": "edited"})).unwrap(),
    };
    first.prepare(edit).settled().unwrap();
    let mut second = house.conversation(tenant, customer, Some("again"));
    second
        .prepare(CloseConversation::default())
        .settled()
        .unwrap();
    house.settle();
    drop(house);
    let mut closed = OwnDatabase::new();
    closed.name = name;
    closed
}

/// The names of the checks that find something.
async fn found(database: &Database) -> BTreeSet<&'static str> {
    let findings = check::findings(&Collections::of(database.clone())).await;
    let findings = findings.unwrap().into_iter();
    findings.map(|finding| finding.check).collect()
}

/// A write that damages a store, and the check that finds it.
struct Damage {
    check: &'static str,
    collection: &'static str,
    filter: Document,
    /// None: it is deleted.
    change: Option<Document>,
}

/// A change of one document.
fn change(
    check: &'static str,
    collection: &'static str,
    filter: Document,
    change: Document,
) -> Damage {
    Damage {
        check,
        collection,
        filter,
        change: Some(change),
    }
}

/// The loss of one document.
fn loss(check: &'static str, collection: &'static str, filter: Document) -> Damage {
    Damage {
        check,
        collection,
        filter,
        change: None,
    }
}

/// A change of a document in the middle of a conversation's log.
fn change_in_log(check: &'static str, what: Document) -> Damage {
    change(check, LOG, doc! {"first": 4_i64}, what)
}

/// Damages of where documents of the log stand.
fn of_places() -> Vec<Damage> {
    let twice = doc! {"$push": {"rows": {"kind": 0}}};
    let not_given = doc! {"$set": {"next": 2_i64}};
    let gap = doc! {"$set": {"first": 5_i64}};
    vec![
        loss("positions without gap", LOG, doc! {"first": 4_i64}),
        change_in_log("positions are taken once", twice),
        change(
            "positions are given before they are taken",
            META,
            doc! {"_id": positions::COUNT},
            not_given,
        ),
        change_in_log("sequences without gap", gap),
        loss("headers have a log", LOG, doc! {"first": 1_i64}),
    ]
}

/// Damages of what documents of the log hold.
fn of_rows() -> Vec<Damage> {
    let other = doc! {"$inc": {"tail": 1_i64}};
    let altered = doc! {"$set": {"rows.0.payload": "{}"}};
    let counts = doc! {"rows.0.from_agent": 1_i64, "rows.0.from_customer": 1_i64};
    let unknown = doc! {"$set": {"kind": 99}};
    vec![
        change_in_log(
            "kept answers have their keys",
            doc! {"$set": {"key": "a key"}},
        ),
        change_in_log("an entity keeps its identifier", other),
        change_in_log("payloads as they were sealed", altered),
        change_in_log("messages are counted", doc! {"$inc": counts}),
        change_in_log("documents of the log", doc! {"$unset": {"rows": ""}}),
        change("kinds of entities", LOG, doc! {"first": 1_i64}, unknown),
    ]
}

/// Damages of headers.
fn of_headers() -> Vec<Damage> {
    let check = "headers as their last row";
    let behind = || doc! {"$inc": {"seq": -1_i64}};
    let beyond = doc! {"$inc": {"seq": 1_i64}};
    let miscounted = doc! {"$inc": {"messages": 1_i64}};
    let later = doc! {"$inc": {"updated_at": 1_i64}};
    let other = doc! {"$inc": {"tail": 1_i64}};
    vec![
        change(check, CONVERSATIONS, doc! {}, behind()),
        change(check, CONVERSATIONS, doc! {}, beyond),
        change(check, CONVERSATIONS, doc! {}, miscounted),
        change(check, CONVERSATIONS, doc! {}, later),
        change(check, CONVERSATIONS, doc! {}, other),
        change(check, RECORDS, doc! {}, behind()),
        loss(check, RECORDS, doc! {}),
    ]
}

/// Damages of what else is carried over.
fn of_lists() -> Vec<Damage> {
    let edited = doc! {"edits": {"$exists": true}};
    let user = doc! {"kind": Kind::User as i32};
    let records = doc! {"field": Counted::Records as i32};
    let one_more = doc! {"$inc": {"total": 1_i64}};
    vec![
        loss("messages have their places", MESSAGES, doc! {}),
        change(
            "messages have their places",
            MESSAGES,
            edited,
            doc! {"$unset": {"edits": ""}},
        ),
        loss("names have records", RECORDS, user),
        change("counters", COUNTERS, doc! {}, one_more),
        loss("counters", COUNTERS, records),
    ]
}

fn damages() -> impl Iterator<Item = Damage> {
    [of_places(), of_rows(), of_headers(), of_lists()]
        .into_iter()
        .flatten()
}

/// Makes a write, and gives the document as it was.
async fn plant(database: &Database, damage: &Damage) -> Document {
    let collection = database.collection::<Document>(damage.collection);
    let before = match &damage.change {
        Some(change) => {
            let changed = collection.find_one_and_update(damage.filter.clone(), change.clone());
            changed.await
        }
        None => collection.find_one_and_delete(damage.filter.clone()).await,
    };
    let Damage { check, filter, .. } = damage;
    let before = before.unwrap();
    before.unwrap_or_else(|| panic!("{check}: {filter} matches nothing"))
}

/// Puts a document back as it was.
async fn mend(database: &Database, damage: &Damage, before: Document) {
    let collection = database.collection::<Document>(damage.collection);
    let own = doc! {"_id": before.get("_id").cloned()};
    collection.delete_one(own).await.unwrap();
    collection.insert_one(before).await.unwrap();
}

#[test]
fn a_check_finds_each_damage_and_nothing_where_there_is_none() {
    let own = served();
    assert_eq!(own.findings(), Vec::<String>::new());
    runtime().block_on(async {
        let database = database(&own.name).await;
        // What is noted by whoever leads, now and then.
        let collections = Collections::of(database.clone());
        let end = positions::standing(&collections).await.unwrap().next;
        let carried = positions::note_carried(&collections, end.previous());
        carried.await.unwrap();
        for damage in damages() {
            let before = plant(&database, &damage).await;
            let found = found(&database).await;
            let Damage { check, change, .. } = &damage;
            assert!(found.contains(check), "{check}, {change:?}: {found:?}");
            mend(&database, &damage, before).await;
        }
        assert_eq!(found(&database).await, BTreeSet::new(), "all is mended");
    });
}
