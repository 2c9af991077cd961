//! Statements that were made before, all of them or some, cost a few round trips however many they are:
//! over a slow line a process that has to make them once more would not end in time otherwise.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};

use super::commands::{self, Commands};
use super::{OwnDatabase, runtime, uri};
use crate::store::contract::Bench;
use crate::store::mongodb::schema::FIGURES;
use crate::store::mongodb::statements::Statements;

/// As many as one command makes.
const MANY: i64 = 64;
/// The command that fails, a look at what is there, what changes that, and what inserts the others.
const COMMANDS: usize = 4;

/// What makes all of them stand where this is counted.
fn slice(counted: i64) -> Statements {
    some(0..MANY, counted)
}

fn some(which: impl IntoIterator<Item = i64>, counted: i64) -> Statements {
    let mut statements = Statements::default();
    for id in which {
        let behind = doc! {"counted": {"$lt": counted}};
        statements.put(FIGURES, id, behind, doc! {"$set": {"counted": counted}});
    }
    statements
}

/// How far each of them stands.
async fn standing(database: &Database) -> BTreeMap<i64, i64> {
    let mut cursor = database
        .collection::<Document>(FIGURES)
        .find(doc! {"_id": {"$gte": 0_i64}})
        .await
        .unwrap();
    let mut standing = BTreeMap::new();
    while cursor.advance().await.unwrap() {
        let found = cursor.deserialize_current().unwrap();
        let number = |field| found.get_i64(field).unwrap();
        standing.insert(number("_id"), number("counted"));
    }
    standing
}

#[test]
fn statements_that_were_made_before_cost_few_round_trips() {
    let own = OwnDatabase::new();
    let sent = Commands::of(&own.name);
    runtime().block_on(async {
        let mut options = ClientOptions::parse(uri()).await.unwrap();
        commands::record(&own.name, &mut options);
        let client = Client::with_options(options).unwrap();
        let database = client.database(&own.name);
        // A third is newer, a third is older, and a third is not there.
        let third = |third: i64| (0..MANY).filter(move |id| id % 3 == third);
        some(third(0), 9).run(&database).await.unwrap();
        some(third(1), 1).run(&database).await.unwrap();
        let before = sent.count();
        slice(5).run(&database).await.unwrap();
        assert!(
            sent.count() - before <= COMMANDS,
            "{:?}",
            sent.behind(before)
        );
        let expected = |id: i64| (id, if id % 3 == 0 { 9 } else { 5 });
        let expected: BTreeMap<i64, i64> = (0..MANY).map(expected).collect();
        assert_eq!(standing(&database).await, expected);
        // All of them once more.
        let before = sent.count();
        slice(5).run(&database).await.unwrap();
        assert!(
            sent.count() - before <= COMMANDS,
            "{:?}",
            sent.behind(before)
        );
        assert_eq!(standing(&database).await, expected);
    });
}
