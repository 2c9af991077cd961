//! What a slice of deliveries needs to know of the store, read with few requests however many
//! deliveries it is about.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Document, doc};

use super::codec::int;
use super::delivery_documents::{DeliveryDocument, EndpointDocument, First, first};
use super::delivery_logs::events_at;
use super::delivery_slices::{Lane, Pen, Redo};
use super::find::all;
use super::schema::{Collections, DELIVERIES, ENDPOINTS};
use crate::store::{
    Change, DeliveryChange, DeliverySlice, DeliveryState, FailingEndpoint, GivenUp, NewDelivery,
    ReadError, ReplayChange,
};
use colloquy_model::commit::Commit;
use colloquy_model::time::Timestamp;

/// Changes that are written at once: with them, a slice stays far below what a document may hold.
const CHANGES_MAX: usize = 1_000;

/// A part of a slice that is written whole or not at all: a slice of very many changes is written
/// in several, of which only the last has anything else. A change says by itself what became of its
/// delivery, so that it does no harm where nothing follows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SlicePart<'s> {
    pub(super) changes: &'s [DeliveryChange],
    given_up: &'s [GivenUp],
    new: &'s [NewDelivery],
    failing: &'s [FailingEndpoint],
    replays: &'s [ReplayChange],
    answers: &'s [Commit],
    now: Timestamp,
}

impl<'s> SlicePart<'s> {
    /// Those of a slice in their order: the changes that come first, and the last one.
    pub(super) fn of(slice: &'s DeliverySlice) -> (Vec<Self>, Self) {
        let mut chunks = slice.changes.chunks(CHANGES_MAX);
        let last = SlicePart {
            changes: chunks.next_back().unwrap_or_default(),
            given_up: &slice.given_up,
            new: &slice.new,
            failing: &slice.failing,
            replays: &slice.replays,
            answers: &slice.answers,
            now: slice.now,
        };
        let first = chunks.map(|changes| SlicePart {
            changes,
            now: slice.now,
            ..SlicePart::default()
        });
        (first.collect(), last)
    }

    /// What it writes as the slice with this number, behind all slices before it.
    ///
    /// # Errors
    /// What it needs to know can't be read.
    pub(super) async fn redo(
        self,
        collections: &Collections,
        number: i64,
    ) -> Result<Redo, ReadError> {
        let changed: Vec<i64> = self.changes.iter().map(|change| change.number).collect();
        let deliveries = deliveries(collections, &changed).await?;
        let endpoints = endpoints(collections, self.endpoints(&deliveries)).await?;
        let mut pen = Pen::new(number, self.now, endpoints);
        let next = next_in(collections, self.ended(&deliveries), &changed, &pen).await?;
        let heads = heads(collections, self.new.iter().map(Lane::of_new)).await?;
        // Those that the slice changes come last: what they say is the same.
        for known in [heads, next, deliveries] {
            pen.know(known);
        }
        let positions = self.new.iter().map(|new| new.position).collect();
        let events = events_at(collections, positions).await?;
        for DeliveryChange { number, change } in self.changes {
            pen.change(*number, change);
        }
        for given_up in self.given_up {
            pen.give_up(*given_up);
        }
        for new in self.new {
            pen.insert(new, events.get(&new.position));
        }
        for failing in self.failing {
            pen.failing(*failing);
        }
        for replay in self.replays {
            pen.replay(replay);
        }
        for answer in self.answers {
            pen.answer(answer);
        }
        Ok(pen.finish())
    }

    /// The endpoints that it is about.
    fn endpoints(&self, deliveries: &[DeliveryDocument]) -> Vec<i64> {
        let changed = deliveries.iter().map(|delivery| delivery.endpoint);
        let given_up = self.given_up.iter().map(|given_up| given_up.endpoint);
        let new = self.new.iter().map(|new| new.endpoint);
        let failing = self.failing.iter().map(|failing| failing.endpoint);
        let numbers = given_up.chain(new).chain(failing).map(int);
        let numbers: BTreeSet<i64> = changed.chain(numbers).collect();
        numbers.into_iter().collect()
    }

    /// The lanes in which something ends.
    fn ended(&self, deliveries: &[DeliveryDocument]) -> BTreeSet<Lane> {
        let ends = |change: &&DeliveryChange| match &change.change {
            Change::Attempted(fate) => fate.state != DeliveryState::Pending,
            Change::Due(_) | Change::Again(_) => false,
        };
        let ended = self.changes.iter().filter(ends);
        let ended: BTreeSet<i64> = ended.map(|change| change.number).collect();
        let deliveries = deliveries.iter();
        deliveries
            .filter(|delivery| delivery.lane >= 0 && ended.contains(&delivery.number))
            .map(Lane::of)
            .collect()
    }
}

/// The deliveries with these numbers.
async fn deliveries(
    collections: &Collections,
    numbers: &[i64],
) -> Result<Vec<DeliveryDocument>, ReadError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let which = First {
        filter: doc! {"_id": {"$in": numbers}},
        sort: doc! {"_id": 1},
        limit: 0,
    };
    first(collections, DELIVERIES, which).await
}

/// What is known of these endpoints.
pub(super) async fn endpoints(
    collections: &Collections,
    numbers: Vec<i64>,
) -> Result<Vec<EndpointDocument>, ReadError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let filter = doc! {"_id": {"$in": numbers}};
    all(collections, ENDPOINTS, filter, doc! {"_id": 1}).await
}

/// What names these lanes, one condition for those of an endpoint that differ in their entities.
fn named(lanes: impl IntoIterator<Item = Lane>, given_up: impl Fn(i64) -> i64) -> Vec<Document> {
    let mut by_lane: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    for lane in lanes {
        let entities = by_lane.entry((lane.endpoint, lane.lane)).or_default();
        entities.push(lane.entity);
    }
    let condition = |((endpoint, lane), entities): ((i64, i64), Vec<i64>)| {
        let behind = if lane < 0 { 0 } else { given_up(endpoint) };
        doc! {
            "endpoint": endpoint, "lane": lane, "entity": {"$in": entities},
            "_id": {"$gt": behind},
        }
    };
    by_lane.into_iter().map(condition).collect()
}

/// The deliveries of these lanes that may be tried: the first that waits in each.
async fn heads(
    collections: &Collections,
    lanes: impl IntoIterator<Item = Lane>,
) -> Result<Vec<DeliveryDocument>, ReadError> {
    let lanes: BTreeSet<Lane> = lanes.into_iter().collect();
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    let which = First {
        filter: doc! {"$or": named(lanes, |_| 0), "due": {"$gt": i64::MIN}},
        sort: doc! {"_id": 1},
        limit: 0,
    };
    first(collections, DELIVERIES, which).await
}

/// The first delivery that waits in each of these lanes beside those that the slice is about. One
/// request tells it of all lanes unless very much waits in some: then those that wait longest come
/// first, and the others are asked for again.
async fn next_in(
    collections: &Collections,
    mut lanes: BTreeSet<Lane>,
    changed: &[i64],
    pen: &Pen,
) -> Result<Vec<DeliveryDocument>, ReadError> {
    let mut found = Vec::new();
    while !lanes.is_empty() {
        let limit = lanes.len().saturating_mul(2).saturating_add(64);
        let lanes_left = named(lanes.iter().copied(), |endpoint| pen.given_up(endpoint));
        let which = First {
            filter: doc! {
                "$or": lanes_left, "state": DeliveryState::Pending as i32,
                "_id": {"$nin": changed},
            },
            sort: doc! {"_id": 1},
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let waiting: Vec<DeliveryDocument> = first(collections, DELIVERIES, which).await?;
        let are_all = waiting.len() < limit;
        for delivery in waiting {
            if lanes.remove(&Lane::of(&delivery)) {
                found.push(delivery);
            }
        }
        if are_all {
            break;
        }
    }
    Ok(found)
}
