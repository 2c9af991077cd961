//! Whose a first start is, and which token operators have behind it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::{OwnDatabase, database, runtime};
use crate::store::contract::Bench;
use crate::store::mongodb::schema::META;
use crate::store::mongodb::{MongoSettings, MongoStore};
use crate::store::{Operator, Store};
use crate::views::Views;
use colloquy_model::key::SecretHash;

/// One node more on a database, whose settings name no token of operators.
fn node_on(own: &OwnDatabase) -> (MongoStore, Operator) {
    let settings = MongoSettings {
        operator_token: None,
        ..own.settings()
    };
    MongoStore::open_at(own.pace, settings, Arc::new(Views::default())).unwrap()
}

/// How operators are known to whoever opens the database next.
fn known_behind(own: &OwnDatabase) -> SecretHash {
    let (store, operator) = node_on(own);
    store.close();
    assert!(operator.fresh.is_none());
    operator.hash
}

#[test]
fn a_token_that_nobody_has_seen_is_made_anew() {
    let own = OwnDatabase::new();
    // It ends behind the making of the token, before it makes the account.
    let (ended, unseen) = node_on(&own);
    assert!(unseen.fresh.is_some());
    ended.close();
    let (store, known) = node_on(&own);
    assert_eq!((known.hash, known.fresh), (unseen.hash, None));
    // One that has opened the store by now, and asks when all is over.
    let (late, _) = node_on(&own);
    let made = store.nodes().first_start(0, true).unwrap();
    assert!(made.account.is_some());
    let made = made.operator.unwrap();
    assert!(made.fresh.is_some() && made.hash != unseen.hash);
    store.nodes().secrets_shown().unwrap();
    let told = late.nodes().first_start(0, true).unwrap();
    assert!(told.account.is_none());
    assert_eq!(told.operator.unwrap().hash, made.hash);
    for node in [store, late] {
        node.close();
    }
    assert_eq!(known_behind(&own), made.hash);
}

#[test]
fn accounts_that_are_there_make_a_start_no_first_one() {
    let own = OwnDatabase::new();
    let mut hashes = Vec::new();
    // The first of them ends before it serves.
    for _ in 0..2 {
        let (store, operator) = node_on(&own);
        let made = store.nodes().first_start(1, true).unwrap();
        assert!(made.account.is_none());
        hashes.extend([operator.hash, made.operator.unwrap().hash]);
        store.close();
    }
    hashes.push(known_behind(&own));
    hashes.dedup();
    assert_eq!(hashes.len(), 1);
}

#[test]
fn whoever_was_taken_for_gone_serves_with_no_token_that_is_void() {
    let own = OwnDatabase::new();
    let (store, _) = node_on(&own);
    assert!(
        store
            .nodes()
            .first_start(0, true)
            .unwrap()
            .account
            .is_some()
    );
    let other = async {
        let meta = database(&own.name).await.collection::<Document>(META);
        let follow = doc! {"$set": {"node": "node_another", "shown": true}};
        meta.update_one(doc! {"_id": "first_account"}, follow).await
    };
    assert_eq!(runtime().block_on(other).unwrap().matched_count, 1);
    store.nodes().secrets_shown().unwrap_err();
    store.close();
}
