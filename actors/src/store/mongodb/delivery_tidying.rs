//! What is tidied behind the slices: deliveries of endpoints that were given up or are no more, and
//! deliveries that ended and are old. A bounded part goes with each slice, as a slice of its own.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Document, doc};

use super::codec::failed;
use super::connection::answered;
use super::delivery_documents::{
    DeliveryDocument, EndpointDocument, First, SETTLED, TO_GO, first, total_key,
};
use super::delivery_slices::Redo;
use super::find::all;
use super::schema::{Collections, DELIVERIES, ENDPOINTS, RECORDS, REPLAYS};
use super::statements::Statements;
use crate::store::{DeliveryState, ReadError};
use colloquy_model::entity::Kind;
use colloquy_model::time::Timestamp;

/// Deliveries that one slice gives up or takes away besides what it came for. Tests want many slices.
const TIDIED: i64 = if cfg!(test) { 16 } else { 128 };

/// Where the search for old deliveries goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tidying {
    behind: i64,
}

impl Tidying {
    /// What is to be tidied next, as the slice with this number; where the search goes on then, and
    /// whether more may be left. Deliveries that ended and were made before `keep_from` are old.
    ///
    /// # Errors
    /// The store can't be read now.
    pub(super) async fn next(
        self,
        collections: &Collections,
        number: i64,
        keep_from: Timestamp,
    ) -> Result<(Redo, Tidying, bool), ReadError> {
        let mut statements = Statements::default();
        let settles = settle_one(collections, number, &mut statements).await?;
        let old = self.old(collections, keep_from).await?;
        let more = i64::try_from(old.len()).unwrap_or(0) == TIDIED;
        let behind = old.last().filter(|_| more).map_or(0, |last| last.number);
        take_away(&old, number, &mut statements);
        let redo = Redo {
            statements,
            ..Redo::default()
        };
        Ok((redo, Tidying { behind }, settles || more))
    }

    /// The next deliveries that are old, whether they have ended or not. One is looked at first:
    /// mostly there are none.
    async fn old(
        self,
        collections: &Collections,
        keep_from: Timestamp,
    ) -> Result<Vec<DeliveryDocument>, ReadError> {
        let mut old: Vec<DeliveryDocument> = Vec::new();
        for limit in [1, TIDIED] {
            let which = First {
                filter: doc! {"_id": {"$gt": self.behind}},
                sort: doc! {"_id": 1},
                limit,
            };
            old = first(collections, DELIVERIES, which).await?;
            let end = old.iter().position(|delivery| delivery.at >= keep_from.0);
            old.truncate(end.unwrap_or(old.len()));
            if old.is_empty() {
                break;
            }
        }
        Ok(old)
    }
}

/// Takes those away that have ended.
fn take_away(old: &[DeliveryDocument], number: i64, statements: &mut Statements) {
    let mut moves: BTreeMap<i64, BTreeMap<String, i64>> = BTreeMap::new();
    let mut ended = Vec::new();
    for delivery in old {
        let state = delivery.stored_state().ok();
        let Some(state) = state.filter(|state| *state != DeliveryState::Pending) else {
            continue;
        };
        ended.push(delivery.number);
        let key = format!("totals.{}", total_key(delivery.kind, state));
        let moves = moves.entry(delivery.endpoint).or_default();
        *moves.entry(key).or_insert(0) -= 1;
    }
    if ended.is_empty() {
        return;
    }
    statements.delete(DELIVERIES, doc! {"_id": {"$in": ended}});
    for (endpoint, moves) in moves {
        let moves = moves.into_iter().map(|(key, delta)| (key, delta.into()));
        let moves: Document = moves.collect();
        let filter = doc! {"_id": endpoint, "slice": {"$lt": number}};
        let change = doc! {"$inc": moves, "$set": {"slice": number}};
        statements.update(ENDPOINTS, filter, change);
    }
}

/// Some deliveries of one endpoint that was given up say so themselves, or go; true where any are
/// left, or may be of another endpoint.
async fn settle_one(
    collections: &Collections,
    number: i64,
    statements: &mut Statements,
) -> Result<bool, ReadError> {
    let which = First {
        filter: doc! {"unsettled": {"$gt": SETTLED}},
        sort: doc! {"unsettled": 1},
        limit: 1,
    };
    let unsettled: Vec<EndpointDocument> = first(collections, ENDPOINTS, which).await?;
    let Some(endpoint) = unsettled.into_iter().next() else {
        return Ok(false);
    };
    let goes = endpoint.unsettled == TO_GO;
    let filter = if goes {
        doc! {"endpoint": endpoint.number}
    } else {
        doc! {
            "endpoint": endpoint.number, "lane": {"$gte": 0},
            "state": DeliveryState::Pending as i32, "_id": {"$lte": endpoint.given_up},
        }
    };
    let some = some_of(collections, filter).await?;
    let are_all = i64::try_from(some.len()).unwrap_or(0) < TIDIED;
    if goes {
        statements.delete(DELIVERIES, doc! {"_id": {"$in": some}});
        if are_all {
            let filter = doc! {"_id": endpoint.number, "slice": {"$lt": number}};
            statements.delete(ENDPOINTS, filter);
        }
        return Ok(true);
    }
    let filter = doc! {"_id": {"$in": some}, "slice": {"$lt": number}};
    let set = doc! {"state": DeliveryState::Failed as i32, "due": null, "slice": number};
    statements.update(DELIVERIES, filter, doc! {"$set": set});
    if are_all {
        let filter = doc! {
            "_id": endpoint.number, "given_up": endpoint.given_up, "slice": {"$lte": number},
        };
        let set = doc! {"unsettled": SETTLED};
        statements.update(ENDPOINTS, filter, doc! {"$set": set});
    }
    Ok(true)
}

/// The numbers of some deliveries that match.
async fn some_of(collections: &Collections, filter: Document) -> Result<Vec<i64>, ReadError> {
    let deliveries = collections.database.collection::<Document>(DELIVERIES);
    let found = async {
        let find = deliveries.find(filter).projection(doc! {"_id": 1});
        let mut cursor = find.limit(TIDIED).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            let number = cursor.deserialize_current()?.get_i64("_id");
            found.extend(number.ok());
        }
        Ok(found)
    };
    answered(found).await.map_err(|error| failed(&error))
}

/// Endpoints that are no more, and whose deliveries did not go: a crash came between. They go from
/// here on, in slices. Whatever an endpoint has, it has a document of its own here.
///
/// # Errors
/// The store can't be read now.
pub(super) async fn forget_gone(collections: &Collections, number: i64) -> Result<Redo, ReadError> {
    let mut known: Vec<Document> = all(collections, ENDPOINTS, doc! {}, doc! {"_id": 1}).await?;
    known.retain(|endpoint| endpoint.get_i32("unsettled").ok() != Some(TO_GO));
    let replays: Vec<Document> = all(collections, REPLAYS, doc! {}, doc! {"_id": 1}).await?;
    let numbers_of = |found: &[Document], field: &str| -> BTreeSet<i64> {
        let numbers = found.iter().filter_map(|found| found.get_i64(field).ok());
        numbers.collect()
    };
    let (known, replayed) = (numbers_of(&known, "_id"), numbers_of(&replays, "endpoint"));
    let asked: Vec<i64> = known.union(&replayed).copied().collect();
    let mut redo = Redo::default();
    if asked.is_empty() {
        return Ok(redo);
    }
    let filter = doc! {"_id": {"$in": asked}, "kind": Kind::Webhook as i32, "gone": false};
    let there: Vec<Document> = all(collections, RECORDS, filter, doc! {"_id": 1}).await?;
    let there = numbers_of(&there, "_id");
    let gone: Vec<i64> = known.difference(&there).copied().collect();
    if !gone.is_empty() {
        let filter = doc! {"_id": {"$in": gone}, "slice": {"$lt": number}};
        let set = doc! {"unsettled": TO_GO, "slice": number};
        redo.statements
            .update(ENDPOINTS, filter, doc! {"$set": set});
    }
    let gone: Vec<i64> = replayed.difference(&there).copied().collect();
    if !gone.is_empty() {
        let filter = doc! {"endpoint": {"$in": gone}, "slice": {"$lt": number}};
        redo.statements.delete(REPLAYS, filter);
    }
    Ok(redo)
}
