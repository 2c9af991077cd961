//! Carries over what nodes that are gone left: many documents of the log at once, and no harm where
//! it was done before.

use std::collections::HashSet;

use mongodb::bson::{Document, doc};
use mongodb::error::Error;

use super::counters::{CounterMoves, CountersMoved};
use super::header_carrying::{carry_over_headers, erase_again};
use super::log::LogDocument;
use super::positions::{self, Standing};
use super::schema::{COUNTERS, Collections};
use super::{carry_over, carrying};
use colloquy_model::position::Position;

/// Documents of the log that are carried over at once.
const AT_ONCE: i64 = 1_000;

/// Carries over what nodes that are gone left of their conversations' messages. Says from where on
/// the log is to be followed: up to there everything is decided and carried over.
pub(super) async fn recover(collections: &Collections) -> Result<Standing, Error> {
    let standing = positions::standing(collections).await?;
    carry_messages_behind(collections, standing.carried).await?;
    Ok(standing)
}

/// Carries over the messages of everything that stands behind a position, where that is not done.
/// What nodes that live write meanwhile is theirs: waiting for them to pause could take for ever.
pub(super) async fn carry_messages_behind(
    collections: &Collections,
    position: Position,
) -> Result<(), Error> {
    let mut from = position;
    loop {
        let some = documents_behind(collections, from, Position(i64::MAX)).await?;
        let Some(last) = some.last() else {
            return Ok(());
        };
        from = last.last_position();
        recover_messages(collections, &some).await?;
        if i64::try_from(some.len()).is_ok_and(|found| found < AT_ONCE) {
            return Ok(());
        }
    }
}

/// Carries over what a node that is gone has committed and not carried over. Only whoever leads
/// does, and nothing of that node comes any more.
pub(super) async fn recover_node(
    collections: &Collections,
    node: i64,
    carried: Position,
) -> Result<(), Error> {
    let mut from = carried;
    loop {
        let behind = doc! {"position": {"$gt": from.0}, "node": node, "rows": {"$exists": true}};
        let some = logged(collections, behind).await?;
        let Some(last) = some.last() else {
            return Ok(());
        };
        recover_headers(collections, &some).await?;
        erase_again(collections, some.iter()).await?;
        recover_messages(collections, &some).await?;
        from = last.last_position();
    }
}

/// Carries over the headers of these documents of one node, and moves its counters.
async fn recover_headers(
    collections: &Collections,
    documents: &[LogDocument],
) -> Result<(), Error> {
    let with_header = documents.iter().filter(|document| !document.is_plain());
    let mut some: Vec<&LogDocument> = Vec::new();
    let mut entities = HashSet::new();
    for document in with_header {
        // Statements on one document don't stand in one command: a server may change their order.
        if !entities.insert(document.entity) {
            recover_headers_at_once(collections, &some).await?;
            some.clear();
            entities = HashSet::from([document.entity]);
        }
        some.push(document);
    }
    recover_headers_at_once(collections, &some).await
}

async fn recover_headers_at_once(
    collections: &Collections,
    documents: &[&LogDocument],
) -> Result<(), Error> {
    let Some(first) = documents.first() else {
        return Ok(());
    };
    // Some of them have moved their counters, those behind them may not have: what would be moved
    // by all of them together has to be left to those that have not.
    let none = CountersMoved::new();
    let mut all = CounterMoves::new(first.slot, &none);
    for document in documents {
        all.note(document);
    }
    let moved = counters_moved(collections, all.ids()).await?;
    let counters = CounterMoves::new(first.slot, &moved);
    carry_over_headers(collections, documents.iter().copied(), counters).await
}

async fn counters_moved(
    collections: &Collections,
    ids: Vec<String>,
) -> Result<CountersMoved, Error> {
    let counters = collections.database.collection::<Document>(COUNTERS);
    let found = counters.find(doc! {"_id": {"$in": ids}});
    let mut cursor = found.projection(doc! {"last": 1}).await?;
    let mut moved = CountersMoved::new();
    while cursor.advance().await? {
        let counter = cursor.deserialize_current()?;
        if let (Ok(id), Ok(last)) = (counter.get_str("_id"), counter.get_i64("last")) {
            moved.insert(id.to_owned(), Position(last));
        }
    }
    Ok(moved)
}

/// Carries over the messages of these documents, where that is not done.
async fn recover_messages(
    collections: &Collections,
    documents: &[LogDocument],
) -> Result<(), Error> {
    let lagging = carrying::lagging(collections, documents).await?;
    let messages = carry_over::messages(&lagging);
    if messages.is_empty() {
        return Ok(());
    }
    messages.run(&collections.database).await
}

/// The next documents of the log behind a position and up to another one.
async fn documents_behind(
    collections: &Collections,
    from: Position,
    end: Position,
) -> Result<Vec<LogDocument>, Error> {
    let filter = doc! {
        "position": {"$gt": from.0, "$lte": end.0}, "rows": {"$exists": true},
    };
    logged(collections, filter).await
}

/// The first documents of the log that match, in the order of their positions.
async fn logged(collections: &Collections, filter: Document) -> Result<Vec<LogDocument>, Error> {
    let log = collections.log.find(filter);
    let mut cursor = log.sort(doc! {"position": 1}).limit(AT_ONCE).await?;
    let mut found = Vec::new();
    while cursor.advance().await? {
        found.push(cursor.deserialize_current()?);
    }
    Ok(found)
}
