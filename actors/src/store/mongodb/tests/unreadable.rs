//! A document of the log that can't be read holds up nobody but its own entity, and that not where it
//! is erased.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mongodb::bson::{Document, doc};

use super::{OwnDatabase, database, runtime};
use crate::conversation::messages::CloseConversation;
use crate::conversation::{EraseConversation, erase_unreadable};
use crate::store::contract::{Bench, House, wait};
use crate::store::mongodb::codec::int;
use crate::store::mongodb::positions;
use crate::store::mongodb::schema::{Collections, LOG};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;

#[test]
fn a_document_of_the_log_that_cant_be_read_holds_up_no_node() {
    let live = Tenant::of(1, Mode::Live);
    let mut second = OwnDatabase::new();
    let first = OwnDatabase::new();
    second.name.clone_from(&first.name);
    let name = first.name.clone();
    let (writes, follows) = (House::at(first), House::at(second));
    runtime().block_on(async {
        let collections = Collections::of(database(&name).await);
        let position = positions::reserve(&collections, 2).await.unwrap();
        // As a later version might write it.
        let strange = doc! {"_id": "strange", "position": position.0, "rows": ["one", "two"]};
        let log = collections.database.collection(LOG);
        log.insert_one(strange).await.unwrap();
    });
    let user = writes.user(live, "ada@example.org").unwrap().id;
    follows.until("the other node knows the user", || {
        follows.views.identity.user(live, user).is_some()
    });
}

/// Damages the documents of an entity's log, each in a way of its own, and gives their `_id`s.
async fn damage(collections: &Collections, entity: EntityNumber) -> Vec<String> {
    let log = collections.database.collection::<Document>(LOG);
    let of_it = doc! {"entity": int(entity)};
    let mut cursor = log.find(of_it).sort(doc! {"_id": 1}).await.unwrap();
    let mut ids = Vec::new();
    while cursor.advance().await.unwrap() {
        ids.push(cursor.current().get_str("_id").unwrap().to_owned());
    }
    let changes = [
        doc! {"$unset": {"rows.0.at": "", "first": ""}},
        doc! {"$set": {"rows.0.payload": {"text": "markedword"}}},
        doc! {"$set": {"rows": "markedword"}},
        doc! {"$set": {"node": "markedword", "takes": "markedword", "more": ["markedword"]}},
        doc! {"$set": {"rows.0.by": "markedword", "rows.0.hash": "markedword", "position": "one"}},
        doc! {"$set": {"rows.0": "markedword", "header": {"record": {"body": "markedword"}}}},
        doc! {
            "$set": {"answer": "markedword"}, "$unset": {"rows.0.from_agent": "", "tenant": ""},
        },
        doc! {"$set": {"answer.etag": 7, "answer.id": 7}},
    ];
    assert_eq!(ids.len(), changes.len(), "{ids:?}");
    for (id, change) in ids.iter().zip(changes) {
        let changed = log.update_one(doc! {"_id": id}, change).await.unwrap();
        assert_eq!(changed.modified_count, 1, "{id}");
    }
    ids
}

#[test]
fn documents_of_the_log_of_the_wrong_shape_are_erased_by_their_ids() {
    let live = Tenant::of(1, Mode::Live);
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let customer = house.customer(live, "Ada");
    let mut talk = house.conversation(live, customer, Some("markedword"));
    for _ in 0..5 {
        talk.send("markedword").unwrap();
    }
    // Answers are kept under the keys; the second changes nothing.
    for key in ["of it", "of nothing"] {
        talk.ask_with_key(key, CloseConversation::default())
            .unwrap();
    }
    house.settle();
    let subject = talk.subject();
    let ids = runtime().block_on(async {
        let collections = Collections::of(database(&name).await);
        damage(&collections, subject.number).await
    });
    assert!(
        wait(house.store().load(subject)).is_err(),
        "nobody can load it"
    );
    let erase = EraseConversation {
        caller: Caller {
            tenant: live,
            actor: Actor::server("a test"),
        },
        erasure: EntityNumber::ZERO,
        closed_before: None,
        files: None,
    };
    wait(erase_unreadable(&*house.store(), talk.id, erase)).unwrap();
    let erased = || wait(house.store().still_erasing(vec![subject.number])).unwrap();
    house.until("nothing is left", || erased().is_empty());
    assert!(!house.holds("markedword"));
    // Each stands in its place.
    runtime().block_on(async {
        let log = database(&name).await.collection::<Document>(LOG);
        for id in ids {
            let found = log.find_one(doc! {"_id": &id}).await.unwrap();
            assert!(found.is_some(), "{id}");
        }
    });
}
