//! A document of the log that can't be read holds up nobody but its own entity.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mongodb::bson::doc;

use super::{OwnDatabase, database, runtime};
use crate::store::contract::{Bench, House};
use crate::store::mongodb::positions;
use crate::store::mongodb::schema::{Collections, LOG};
use colloquy_model::caller::{Mode, Tenant};

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
