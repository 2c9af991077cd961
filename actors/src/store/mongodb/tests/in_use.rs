//! Whether a database is in use, as the lease of a node says whose process is on another machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::{OwnDatabase, database, runtime};
use crate::store::contract::{Bench, House};
use crate::store::mongodb::nodes;
use crate::store::mongodb::schema::{Collections, NODES};

/// How long other nodes wait for one that they do not hear of.
const WAITED_FOR: Duration = Duration::from_secs(7);

/// A database that was served, and its only node's document, which says that it has ended.
async fn served(name: String) -> (Collections, Collection<Document>) {
    let collections = Collections::of(database(&name).await);
    let nodes = collections.database.collection(NODES);
    let left = nodes.count_documents(doc! {"ended": true}).await.unwrap();
    assert_eq!(left, 1);
    (collections, nodes)
}

/// Opens and closes a store; gives its database's name.
fn closed() -> String {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    drop(House::at(own));
    name
}

#[test]
fn a_node_that_has_ended_uses_nothing() {
    let name = closed();
    runtime().block_on(async {
        let (collections, _) = served(name).await;
        assert!(!nodes::used::is_used(&collections).await.unwrap());
    });
}

#[test]
fn a_node_elsewhere_uses_the_database_as_long_as_it_renews_its_lease() {
    let name = closed();
    runtime().block_on(async {
        let (collections, documents) = served(name).await;
        let elsewhere = doc! {"$set": {"ended": false, "process": "elsewhere/pid:[1] 1 1"}};
        documents.update_one(doc! {}, elsewhere).await.unwrap();
        // The last renewal is waited for: one that is let go of lands all the same, at any time.
        let answered = Cell::new(false);
        let renewals = async {
            while !answered.get() {
                let beat = doc! {"$inc": {"beat": 1_i64}};
                documents.update_one(doc! {}, beat).await.unwrap();
            }
        };
        let asked = async {
            let used = nodes::used::is_used(&collections).await;
            answered.set(true);
            used.unwrap()
        };
        let ((), used) = tokio::join!(renewals, asked);
        assert!(used);
        let begun = Instant::now();
        assert!(!nodes::used::is_used(&collections).await.unwrap());
        assert!(begun.elapsed() >= WAITED_FOR, "{:?}", begun.elapsed());
    });
}
