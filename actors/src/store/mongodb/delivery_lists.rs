//! Reads deliveries: what waits, for whoever delivers, and what became of it, for lists.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};

use super::codec::{failed, int, uint};
use super::connection::answered;
use super::deliveries;
use super::delivery_documents::{DeliveryDocument, EndpointDocument, First, ReplayDocument, first};
use super::delivery_logs::events_at;
use super::delivery_reads::endpoints;
use super::entity_documents::RecordDocument;
use super::find::{all, one};
use super::lists::{Scan, count, read};
use super::loads::log_of;
use super::log::{LogDocument, log_id};
use super::schema::{Collections, DELIVERIES, LOG, RECORDS, REPLAYS};
use crate::store::{
    DeliveryQuery, DeliveryState, DueLanes, DueQuery, EndpointTotals, Matched, OpenReplay,
    ReadError, StoredDelivery, StoredEndpoint, StoredPage, WebhookState,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::first_number_at;
use colloquy_model::page::{Cursor, Paging, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// What whoever delivers begins with.
pub(super) async fn state(collections: &Collections) -> Result<WebhookState, ReadError> {
    let mark = deliveries::mark(collections).await;
    let mark = mark.map_err(|error| failed(&error))?;
    let said = |name: &str| mark.get_i64(name).unwrap_or(0);
    let matched = Matched {
        position: Position(said("matched")),
        within: uint(said("within")),
    };
    let stored: Vec<ReplayDocument> = all(collections, REPLAYS, doc! {}, doc! {"_id": 1}).await?;
    let last_lane = stored.last().map_or(0, |replay| replay.lane);
    Ok(WebhookState {
        matched,
        last_delivery: said("last_delivery"),
        last_lane,
        endpoints: stored_endpoints(collections, matched.position).await?,
        replays: replays(collections, stored).await?,
    })
}

async fn replays(
    collections: &Collections,
    stored: Vec<ReplayDocument>,
) -> Result<Vec<OpenReplay>, ReadError> {
    let mut replays = Vec::with_capacity(stored.len());
    for replay in stored {
        let filter = doc! {
            "endpoint": replay.endpoint, "lane": replay.lane,
            "state": DeliveryState::Pending as i32,
        };
        let waiting = count(collections, DELIVERIES, filter).await?;
        replays.extend(replay.replay().map(|replay| OpenReplay { replay, waiting }));
    }
    Ok(replays)
}

async fn stored_endpoints(
    collections: &Collections,
    matched: Position,
) -> Result<Vec<StoredEndpoint>, ReadError> {
    let filter = doc! {"kind": Kind::Webhook as i32, "gone": false};
    let records: Vec<RecordDocument> = all(collections, RECORDS, filter, doc! {"_id": 1}).await?;
    let numbers: Vec<i64> = records.iter().map(|record| record.number).collect();
    let known = endpoints(collections, numbers).await?.into_iter();
    let mut known: HashMap<i64, EndpointDocument> =
        known.map(|known| (known.number, known)).collect();
    let logged = logged(collections, &records).await?;
    let mut found = Vec::with_capacity(records.len());
    for record in records {
        let number = uint(record.number);
        let made = logged.get(&log_id(number, Sequence::ZERO.next()));
        let last = logged.get(&log_id(number, Sequence(uint(record.seq))));
        let as_matched = match last.filter(|last| last.last_position() <= matched) {
            Some(last) => version(last, matched),
            // It has changed since, or its last change is not the only one of its commit.
            None => version_before(collections, number, matched).await?,
        };
        let known = known.remove(&record.number).unwrap_or_default();
        found.push(StoredEndpoint {
            made: made.map_or_else(Position::default, |made| Position(made.position)),
            as_matched: as_matched.map(Into::into),
            pending: known.total(None, Some(DeliveryState::Pending)),
            failing_since: known.failing_since.map(Timestamp),
            record: record.stored(Kind::Webhook),
        });
    }
    Ok(found)
}

/// The first and the last document of the log of each of these records, by their `_id`s.
async fn logged(
    collections: &Collections,
    records: &[RecordDocument],
) -> Result<HashMap<String, LogDocument>, ReadError> {
    let ids: Vec<String> = records
        .iter()
        .flat_map(|record| {
            let sequences = [Sequence::ZERO.next(), Sequence(uint(record.seq))];
            sequences.map(|sequence| log_id(uint(record.number), sequence))
        })
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let filter = doc! {"_id": {"$in": ids}};
    let found: Vec<LogDocument> = all(collections, LOG, filter, doc! {"_id": 1}).await?;
    Ok(found
        .into_iter()
        .map(|found| (found.id.clone(), found))
        .collect())
}

/// The data of the last row up to this position.
fn version(document: &LogDocument, matched: Position) -> Option<String> {
    let rows = document.placed_rows();
    let before = rows.filter(|(position, ..)| *position <= matched);
    before.last().map(|(.., row)| row.payload.clone())
}

async fn version_before(
    collections: &Collections,
    endpoint: EntityNumber,
    matched: Position,
) -> Result<Option<String>, ReadError> {
    let mut filter = log_of(endpoint);
    filter.insert("position", doc! {"$lte": matched.0});
    let last = collections.log.find_one(filter).sort(doc! {"_id": -1});
    let last = answered(last.into_future()).await;
    let last = last.map_err(|error| failed(&error))?;
    Ok(last.and_then(|last| version(&last, matched)))
}

async fn endpoint(
    collections: &Collections,
    number: EntityNumber,
) -> Result<EndpointDocument, ReadError> {
    let found = endpoints(collections, vec![int(number)]).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Heads of lanes that are due, each with what follows it, as far as there is room: what waits
/// longest comes first, whatever its lane.
pub(super) async fn due(collections: &Collections, query: DueQuery) -> Result<DueLanes, ReadError> {
    let DueQuery {
        endpoint: number,
        until,
        lanes,
        deliveries,
    } = query;
    let given_up = endpoint(collections, number).await?.given_up;
    let mut filter = doc! {"endpoint": int(number), "due": {"$gt": i64::MIN}};
    if given_up > 0 {
        let waits = vec![doc! {"_id": {"$gt": given_up}}, doc! {"lane": {"$lt": 0}}];
        filter.insert("$or", waits);
    }
    let which = First {
        filter,
        sort: doc! {"due": 1, "_id": 1},
        limit: i64::try_from(lanes).unwrap_or(i64::MAX).saturating_add(1),
    };
    let heads: Vec<DeliveryDocument> = first(collections, DELIVERIES, which).await?;
    let mut found = DueLanes::default();
    for head in heads {
        if found.lanes.len() >= lanes || head.due.is_some_and(|due| due > until.0) {
            found.next_due = head.due.map(Timestamp);
            break;
        }
        found.lanes.push(vec![head.waiting()]);
    }
    let room = deliveries.saturating_sub(found.lanes.len());
    if room > 0 && !found.lanes.is_empty() {
        follow(collections, number, &mut found, room).await?;
    }
    Ok(found)
}

/// Adds what follows the heads in their lanes.
async fn follow(
    collections: &Collections,
    endpoint: EntityNumber,
    found: &mut DueLanes,
    room: usize,
) -> Result<(), ReadError> {
    let heads = found.lanes.iter().filter_map(|lane| lane.first());
    let behind: Vec<Document> = heads
        .map(|head| {
            doc! {
                "lane": head.key.lane, "entity": int(head.key.entity),
                "_id": {"$gt": head.number},
            }
        })
        .collect();
    let which = First {
        filter: doc! {
            "endpoint": int(endpoint), "state": DeliveryState::Pending as i32, "$or": behind,
        },
        sort: doc! {"_id": 1},
        limit: i64::try_from(room).unwrap_or(i64::MAX),
    };
    let waiting: Vec<DeliveryDocument> = first(collections, DELIVERIES, which).await?;
    let heads = found.lanes.iter().enumerate();
    let by_key: HashMap<_, usize> = heads
        .filter_map(|(index, lane)| Some((lane.first()?.key, index)))
        .collect();
    for delivery in waiting {
        let lane = by_key.get(&delivery.key());
        if let Some(lane) = lane.and_then(|index| found.lanes.get_mut(*index)) {
            lane.push(delivery.waiting());
        }
    }
    Ok(())
}

/// One delivery with its log.
pub(super) async fn delivery(
    collections: &Collections,
    number: EntityNumber,
    delivery: i64,
) -> Result<Option<StoredDelivery>, ReadError> {
    let given_up = endpoint(collections, number).await?.given_up;
    let filter = doc! {"_id": delivery, "endpoint": int(number)};
    let Some(found) = one::<DeliveryDocument>(collections, DELIVERIES, filter).await? else {
        return Ok(None);
    };
    let mut log = found.attempts();
    let position = Position(found.position);
    if log.iter().any(says_something) {
        let events = events_at(collections, vec![position]).await?;
        if events.get(&position).is_some_and(|event| event.is_redacted) {
            log = log.into_iter().map(silent).collect();
        }
    }
    let stored = found.stored(given_up)?;
    Ok(Some(StoredDelivery { log, ..stored }))
}

fn says_something(attempt: &Attempt) -> bool {
    attempt.answer.is_some() || attempt.error.is_some()
}

/// An attempt without what the receiver said.
fn silent(attempt: Attempt) -> Attempt {
    Attempt {
        answer: None,
        error: None,
        ..attempt
    }
}

/// A page of an endpoint's deliveries.
pub(super) async fn page(
    collections: &Collections,
    query: DeliveryQuery,
) -> Result<StoredPage<StoredDelivery>, ReadError> {
    let DeliveryQuery {
        endpoint: number,
        state,
        kind,
        paging,
        ..
    } = query;
    if let Some((cursor, parameter)) = paging.start.cursor()
        && !was_in(collections, number, cursor).await?
    {
        return Err(ReadError::NoCursor(parameter));
    }
    let endpoint = endpoint(collections, number).await?;
    let given_up = endpoint.given_up;
    // A delivery's number is the tail of its identifier.
    let by_tail = |at: Cursor| Cursor {
        number: EntityNumber(at.tail),
        ..at
    };
    let start = match paging.start {
        Start::Offset(_) => paging.start,
        Start::After(at) => Start::After(by_tail(at)),
        Start::Before(at) => Start::Before(by_tail(at)),
    };
    let scan = Scan::new(paging.order, start);
    let mut filter = doc! {"endpoint": int(number), "kind": {"$in": kinds(kind)}};
    filter.extend(stored_as(state, given_up));
    if let Some(bound) = scan.bound {
        filter.insert("_id", doc! {scan.compare(): int(bound)});
    }
    let reading = super::lists::Reading {
        collection: DELIVERIES,
        filter,
        sort: doc! {"_id": scan.direction()},
    };
    let paging = Paging { start, ..paging };
    let items = read::<DeliveryDocument>(collections, reading, paging).await?;
    let items = items.iter().map(|item| item.stored(given_up));
    let items: Vec<StoredDelivery> = items.collect::<Result<_, _>>()?;
    Ok(scan.page(items, paging, endpoint.total(kind, state)))
}

/// The kinds of events that are asked for, each of them named.
fn kinds(kind: Option<EventKind>) -> Vec<i32> {
    let kinds = kind.map_or_else(|| EventKind::EVENTS.to_vec(), |kind| vec![kind]);
    kinds.into_iter().map(|kind| kind as i32).collect()
}

/// How the deliveries in a state are found: as they say it themselves, and what may stand behind.
fn stored_as(state: Option<DeliveryState>, given_up: i64) -> Document {
    let all = DeliveryState::ALL.map(|state| state as i32);
    match state {
        None => doc! {"state": {"$in": all.to_vec()}},
        Some(DeliveryState::Pending) if given_up > 0 => doc! {
            "state": DeliveryState::Pending as i32,
            "$or": [{"_id": {"$gt": given_up}}, {"lane": {"$lt": 0}}],
        },
        Some(DeliveryState::Failed) if given_up > 0 => doc! {
            "$or": [
                {"state": DeliveryState::Failed as i32},
                {
                    "state": DeliveryState::Pending as i32, "_id": {"$lte": given_up},
                    "lane": {"$gte": 0},
                },
            ],
        },
        Some(state) => doc! {"state": state as i32},
    }
}

/// Whether a delivery with this identifier is, or may have been, in the endpoint's list.
async fn was_in(
    collections: &Collections,
    endpoint: EntityNumber,
    cursor: Cursor,
) -> Result<bool, ReadError> {
    let number = int(cursor.tail);
    let filter = doc! {"_id": number};
    if let Some(found) = one::<DeliveryDocument>(collections, DELIVERIES, filter).await? {
        let begins = first_number_at(Timestamp(found.at));
        return Ok(found.endpoint == int(endpoint) && begins == cursor.number);
    }
    let mark = deliveries::mark(collections).await;
    let mark = mark.map_err(|error| failed(&error))?;
    let last = mark.get_i64("last_delivery").unwrap_or(0);
    Ok((1..=last).contains(&number))
}

/// How many deliveries of these endpoints stand where.
pub(super) async fn totals(
    collections: &Collections,
    numbers: Vec<EntityNumber>,
) -> Result<Vec<EndpointTotals>, ReadError> {
    let asked = numbers.iter().copied().map(int).collect();
    let known = endpoints(collections, asked).await?;
    let known: HashMap<i64, EndpointDocument> = known
        .into_iter()
        .map(|known| (known.number, known))
        .collect();
    let mut totals = Vec::with_capacity(numbers.len());
    for number in numbers {
        let endpoint = known.get(&int(number)).cloned().unwrap_or_default();
        let taken = doc! {"state": DeliveryState::Delivered as i32};
        let taken = outermost(collections, number, taken, -1).await?;
        let waits = doc! {
            "state": DeliveryState::Pending as i32, "_id": {"$gt": endpoint.given_up},
        };
        let waits = outermost(collections, number, waits, 1).await?;
        let count = |state| endpoint.total(None, Some(state));
        let last = taken.and_then(|taken| taken.attempts().last().cloned());
        totals.push(EndpointTotals {
            pending: count(DeliveryState::Pending),
            delivered: count(DeliveryState::Delivered),
            failed: count(DeliveryState::Failed),
            last_success_at: last.map(|attempt| attempt.attempted_at),
            oldest_pending_at: waits.map(|waits| Timestamp(waits.at)),
        });
    }
    Ok(totals)
}

/// The first or the last delivery of an endpoint that matches.
async fn outermost(
    collections: &Collections,
    endpoint: EntityNumber,
    which: Document,
    direction: i32,
) -> Result<Option<DeliveryDocument>, ReadError> {
    let mut filter = doc! {"endpoint": int(endpoint), "kind": {"$in": kinds(None)}};
    filter.extend(which);
    let deliveries = collections
        .database
        .collection::<DeliveryDocument>(DELIVERIES);
    let found = deliveries.find_one(filter).sort(doc! {"_id": direction});
    let found = answered(found.into_future()).await;
    found.map_err(|error| failed(&error))
}
