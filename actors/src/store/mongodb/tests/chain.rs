//! The chain of the audit trail: whole in a store that only served, one chain whoever makes it, and
//! broken where something was done to what it tells of.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::damage::served;
use super::{OwnDatabase, database, runtime};
use crate::store::Broken;
use crate::store::audit_chain::{Link, from_hex, to_hex};
use crate::store::contract::{Bench, House};
use crate::store::mongodb::schema::{AUDIT_LINKS, Collections, LOG, META};
use crate::store::mongodb::{chain, linking, positions};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::position::Position;

/// What was read of a chain from its beginning to its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    records: usize,
    unlinked: u64,
    broken: Option<Broken>,
}

impl Found {
    fn position(&self) -> Option<i64> {
        self.broken.as_ref().map(|broken| broken.position)
    }
}

/// Goes over the chain as whoever verifies it does, so many records at a time.
async fn verified(database: &Database, most: u32) -> Found {
    let collections = Collections::of(database.clone());
    let (mut found, mut before, mut position) = (Found::default(), Link::default(), 0);
    let broken = |position, what: &str| Some(Broken::at(position, what));
    loop {
        let page = chain::page(&collections, position, most).await.unwrap();
        for record in &page.data {
            position = record.position();
            found.records += 1;
            let expected = record.expected(&before).unwrap();
            if record.link != Some(to_hex(&expected)) {
                found.broken = broken(position, "another link");
                break;
            }
            before = expected;
        }
        let stored = page.broken.into_iter().chain(found.broken.take());
        found.broken = stored.min_by_key(|broken| broken.position);
        if found.broken.is_some() || !page.is_last {
            if found.broken.is_some() {
                return found;
            }
            continue;
        }
        found.unlinked = page.unlinked;
        found.broken = match page.head {
            None => broken(position, "no end"),
            Some(_) if page.signed != Some(true) => broken(position, "not signed"),
            Some(head) if from_hex(&head.link).unwrap() != before => {
                broken(position, "another end")
            }
            Some(_) => page.beyond.and_then(|what| broken(position, &what)),
        };
        return found;
    }
}

/// The position of the last record, and how many there are.
async fn end(database: &Database) -> (i64, usize) {
    let collections = Collections::of(database.clone());
    let all = linking::Behind::read(&collections, Position::ZERO, Position(i64::MAX));
    let documents = all.await.unwrap().documents;
    let records: Vec<i64> = documents
        .iter()
        .flat_map(|document| document.records())
        .map(|record| record.position)
        .collect();
    (*records.last().unwrap(), records.len())
}

/// Changes one document, or deletes it; gives it as it was.
async fn plant(
    database: &Database,
    (collection, filter): (&str, Document),
    change: Option<Document>,
) -> Document {
    let collection = database.collection::<Document>(collection);
    let before = match change {
        Some(change) => collection.find_one_and_update(filter, change).await,
        None => collection.find_one_and_delete(filter).await,
    };
    before.unwrap().unwrap()
}

async fn mend(database: &Database, collection: &str, before: Document) {
    let collection = database.collection::<Document>(collection);
    let own = doc! {"_id": before.get("_id").cloned()};
    collection.delete_one(own).await.unwrap();
    collection.insert_one(before).await.unwrap();
}

#[test]
fn what_a_store_wrote_is_linked_when_it_is_closed_and_read_in_pages_of_any_size() {
    let own = served();
    runtime().block_on(async {
        let database = database(&own.name).await;
        let (_, records) = end(&database).await;
        for most in [1, 3, 7, 1_000] {
            let found = verified(&database, most).await;
            let whole = Found {
                records,
                ..Found::default()
            };
            assert_eq!(found, whole, "{most} at a time");
        }
    });
}

#[test]
fn several_that_link_at_the_same_time_make_one_chain() {
    let own = served();
    runtime().block_on(async {
        let database = database(&own.name).await;
        database
            .collection::<Document>(AUDIT_LINKS)
            .drop()
            .await
            .unwrap();
        let unset = doc! {"$unset": {"chained": ""}};
        plant(
            &database,
            (META, doc! {"_id": positions::COUNT}),
            Some(unset),
        )
        .await;
        plant(&database, (META, doc! {"_id": linking::HEAD}), None).await;
        let (last, records) = end(&database).await;
        let collections = Collections::of(database.clone());
        let link = |upto| linking::link_up_to(&collections, Position(upto));
        let (one, two, three) = tokio::join!(link(last), link(last - 3), link(last));
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        link(last).await.unwrap();
        let whole = Found {
            records,
            ..Found::default()
        };
        assert_eq!(verified(&database, 5).await, whole);
    });
}

#[test]
fn what_was_done_to_a_record_is_found_where_it_stands() {
    let own = served();
    runtime().block_on(async {
        let database = database(&own.name).await;
        let of_log = || (LOG, doc! {"first": 4_i64});
        let set = |set: Document| Some(doc! {"$set": set});
        let damages = [
            set(doc! {"rows.0.by.request": "another"}),
            set(doc! {"rows.0.by.address": "192.0.2.1"}),
            set(doc! {"rows.0.by.key": 7_i64}),
            set(doc! {"rows.0.at": 7_i64}),
            set(doc! {"rows.0.kind": 5}),
            set(doc! {"rows.0.hash": "none"}),
            set(doc! {"rows.0.assignee": 7_i64}),
            set(doc! {"rows.0.payload": "{}"}),
            set(doc! {"tenant": 7_i64}),
            set(doc! {"kind": 2}),
            set(doc! {"tail": 7_i64}),
            set(doc! {"position": 1_000_000_i64}),
            None,
        ];
        for damage in damages {
            let before = plant(&database, of_log(), damage.clone()).await;
            let position = before.get_i64("position").unwrap();
            let found = verified(&database, 1_000).await;
            assert_eq!(found.position(), Some(position), "{damage:?}: {found:?}");
            mend(&database, LOG, before).await;
        }
        // What is put where nothing stood is no part of the chain.
        let last = end(&database).await.0;
        let of_last = (LOG, doc! {"position": {"$lte": last}, "first": 4_i64});
        let before = plant(
            &database,
            of_last,
            Some(doc! {"$push": {"rows": {"kind": 0}}}),
        )
        .await;
        assert!(verified(&database, 1_000).await.broken.is_some());
        mend(&database, LOG, before).await;
        assert_eq!(verified(&database, 1_000).await.broken, None);
    });
}

/// Takes away the last slice and the records of which it tells.
async fn cut(database: &Database) -> i64 {
    let slices = database.collection::<Document>(AUDIT_LINKS);
    let last = slices.find_one_and_delete(doc! {}).sort(doc! {"_id": -1});
    let first = last.await.unwrap().unwrap().get_i64("first").unwrap();
    let log = database.collection::<Document>(LOG);
    let behind = log.delete_many(doc! {"position": {"$gte": first}});
    assert!(behind.await.unwrap().deleted_count > 0);
    first - 1
}

#[test]
fn a_tail_that_was_cut_off_is_found_and_stays_so_whatever_follows() {
    let own = served();
    let name = own.name.clone();
    let kept = runtime().block_on(async {
        let database = database(&own.name).await;
        let kept = cut(&database).await;
        let found = verified(&database, 1_000).await;
        assert_eq!(found.position(), Some(kept), "{found:?}");
        kept
    });
    drop(own);
    let house = House::at(reopened(&name));
    house.customer(Tenant::of(1, Mode::Live), "Bea");
    drop(house);
    let own = reopened(&name);
    runtime().block_on(async {
        let found = verified(&database(&own.name).await, 1_000).await;
        assert!(found.position().unwrap() > kept, "{found:?}");
    });
}

fn reopened(name: &str) -> OwnDatabase {
    let mut own = OwnDatabase::new();
    name.clone_into(&mut own.name);
    own
}

#[test]
fn an_end_that_is_gone_or_put_back_is_found_and_no_server_begins_anew() {
    let own = served();
    let name = own.name.clone();
    runtime().block_on(async {
        let database = database(&name).await;
        let slices = database.collection::<Document>(AUDIT_LINKS);
        // The slice before the last has its own signature, which is none of a head.
        let second = slices.find_one(doc! {"_id": 2_i64}).await.unwrap().unwrap();
        let head = doc! {
            "number": 2_i64, "position": second.get_i64("last").unwrap(),
            "link": second.get("link").cloned(), "signature": second.get("signature").cloned(),
        };
        slices
            .delete_many(doc! {"_id": {"$gt": 2_i64}})
            .await
            .unwrap();
        let log = database.collection::<Document>(LOG);
        let behind = doc! {"position": {"$gt": second.get_i64("last").unwrap()}};
        log.delete_many(behind).await.unwrap();
        let whole = plant(
            &database,
            (META, doc! {"_id": linking::HEAD}),
            Some(doc! {"$set": head}),
        )
        .await;
        let found = verified(&database, 1_000).await;
        assert_eq!(found.position(), second.get_i64("last").ok(), "{found:?}");
        mend(&database, META, whole).await;
        assert!(verified(&database, 1_000).await.broken.is_some());
        plant(&database, (META, doc! {"_id": linking::HEAD}), None).await;
        assert!(verified(&database, 1_000).await.broken.is_some());
    });
    drop(own);
    let house = House::at(reopened(&name));
    house.customer(Tenant::of(1, Mode::Live), "Bea");
    drop(house);
    let own = reopened(&name);
    runtime().block_on(async {
        let found = verified(&database(&own.name).await, 1_000).await;
        assert!(found.broken.is_some(), "{found:?}");
    });
}
