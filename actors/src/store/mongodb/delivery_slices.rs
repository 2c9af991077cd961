//! What a slice of deliveries does, as statements. Two things hold behind every slice: the first
//! pending delivery of each lane, and no other, has a `due`; and an endpoint's totals say how many
//! stand where.
//!
//! What a slice needs to know is read first, then it is worked out here, then written: one slice
//! after the other, so that what was read still stands.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};

use super::codec::int;
use super::delivery_documents::{
    DeliveryDocument, EndpointDocument, NewAttempts, TO_END, TO_GO, replay_fields, total_key,
};
use super::delivery_logs::LoggedEvent;
use super::log::LogDocument;
use super::schema::{DELIVERIES, ENDPOINTS, REPLAYS};
use super::statements::Statements;
use crate::store::{
    Change, DeliveryState, FailingEndpoint, Fate, GivenUp, NewDelivery, Replay, ReplayChange,
};
use colloquy_model::commit::Commit;
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// What a slice writes, kept until all of it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Redo {
    /// New deliveries; one that is there is this one.
    pub(super) new: Vec<Document>,
    pub(super) statements: Statements,
    /// Positions of events of which receivers said something.
    pub(super) said: Vec<i64>,
    /// Answers that are kept under idempotency keys.
    pub(super) answers: Vec<LogDocument>,
}

impl Redo {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.statements.is_empty() && self.answers.is_empty()
    }
}

/// A lane of an endpoint: what stands in it leaves one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) endpoint: i64,
    pub(super) lane: i64,
    pub(super) entity: i64,
}

impl Lane {
    /// Where a delivery stands that the store has.
    pub(super) fn of(delivery: &DeliveryDocument) -> Self {
        Lane {
            endpoint: delivery.endpoint,
            lane: delivery.lane,
            entity: delivery.entity,
        }
    }

    /// Where a new delivery stands.
    pub(super) fn of_new(delivery: &NewDelivery) -> Self {
        Lane {
            endpoint: int(delivery.endpoint),
            lane: delivery.key.lane,
            entity: int(delivery.key.entity),
        }
    }
}

/// A delivery as the slice leaves it.
#[derive(Debug)]
struct Row {
    lane: Lane,
    position: i64,
    kind: i32,
    state: DeliveryState,
    attempts: i64,
    due: Option<i64>,
    new_attempts: NewAttempts,
    is_changed: bool,
}

/// An endpoint as the slice leaves it.
#[derive(Debug, Default)]
struct EndpointRow {
    before: EndpointDocument,
    given_up: i64,
    moves: BTreeMap<String, i64>,
    set: Document,
}

/// What becomes of a replay.
#[derive(Debug)]
enum ReplayRow {
    Open(Replay),
    Reached(StreamOffset),
    Done,
}

/// A slice as it is worked out.
#[derive(Debug)]
pub(super) struct Pen {
    number: i64,
    now: i64,
    rows: BTreeMap<i64, Row>,
    /// What waits, as far as it was read.
    waiting: BTreeMap<Lane, BTreeSet<i64>>,
    endpoints: BTreeMap<i64, EndpointRow>,
    replays: BTreeMap<i64, ReplayRow>,
    redo: Redo,
}

impl Pen {
    /// Begins the slice with this number.
    pub(super) fn new(number: i64, now: Timestamp, endpoints: Vec<EndpointDocument>) -> Self {
        let row = |before: EndpointDocument| {
            let row = EndpointRow {
                given_up: before.given_up,
                before,
                ..EndpointRow::default()
            };
            (row.before.number, row)
        };
        Pen {
            number,
            now: now.0,
            rows: BTreeMap::new(),
            waiting: BTreeMap::new(),
            endpoints: endpoints.into_iter().map(row).collect(),
            replays: BTreeMap::new(),
            redo: Redo::default(),
        }
    }

    /// What waits of an endpoint up to here is given up.
    pub(super) fn given_up(&self, endpoint: i64) -> i64 {
        self.endpoints
            .get(&endpoint)
            .map_or(0, |endpoint| endpoint.given_up)
    }

    /// Takes in deliveries that the store has. One that can't be read stays as it is.
    pub(super) fn know(&mut self, deliveries: Vec<DeliveryDocument>) {
        for delivery in deliveries {
            let Ok(state) = delivery.stored_state() else {
                continue;
            };
            let (number, lane) = (delivery.number, Lane::of(&delivery));
            let row = Row {
                lane,
                position: delivery.position,
                kind: delivery.kind,
                state,
                attempts: delivery.attempts,
                due: delivery.due,
                new_attempts: NewAttempts::default(),
                is_changed: false,
            };
            self.rows.insert(number, row);
            if state == DeliveryState::Pending && !self.is_given_up(lane, number) {
                self.waiting.entry(lane).or_default().insert(number);
            }
        }
    }

    fn is_given_up(&self, lane: Lane, number: i64) -> bool {
        lane.lane >= 0 && number <= self.given_up(lane.endpoint)
    }

    fn endpoint(&mut self, number: i64) -> &mut EndpointRow {
        self.endpoints.entry(number).or_default()
    }

    fn count(&mut self, endpoint: i64, kind: i32, state: DeliveryState, delta: i64) {
        let moves = &mut self.endpoint(endpoint).moves;
        *moves.entry(total_key(kind, state)).or_insert(0) += delta;
    }

    /// What was given up stays so, and what has gone is not missed.
    pub(super) fn change(&mut self, number: i64, change: &Change) {
        let Some(row) = self.rows.get(&number) else {
            return;
        };
        let (lane, kind, has_due) = (row.lane, row.kind, row.due.is_some());
        let state = match row.state {
            DeliveryState::Pending if self.is_given_up(lane, number) => DeliveryState::Failed,
            state @ (DeliveryState::Pending | DeliveryState::Delivered | DeliveryState::Failed) => {
                state
            }
        };
        let waits = state == DeliveryState::Pending;
        match change {
            Change::Attempted(fate) if waits => self.attempted(number, fate),
            Change::Due(at) if waits && has_due => self.set_due(number, Some(at.0)),
            Change::Again(at) if !waits => {
                self.count(lane.endpoint, kind, state, -1);
                self.count(lane.endpoint, kind, DeliveryState::Pending, 1);
                let beside = Lane {
                    lane: -number,
                    ..lane
                };
                if let Some(row) = self.rows.get_mut(&number) {
                    (row.lane, row.state) = (beside, DeliveryState::Pending);
                }
                self.waiting.entry(beside).or_default().insert(number);
                self.set_due(number, Some(at.0));
            }
            Change::Attempted(_) | Change::Due(_) | Change::Again(_) => {}
        }
    }

    fn set_due(&mut self, number: i64, due: Option<i64>) {
        if let Some(row) = self.rows.get_mut(&number) {
            row.due = due;
            row.is_changed = true;
        }
    }

    fn attempted(&mut self, number: i64, fate: &Fate) {
        let Some(row) = self.rows.get_mut(&number) else {
            return;
        };
        let ended = fate.state != DeliveryState::Pending;
        row.state = fate.state;
        row.attempts = fate.attempts.into();
        row.due = (!ended).then_some(fate.due.0);
        row.new_attempts.add(fate.attempts, &fate.log);
        row.is_changed = true;
        let (lane, kind) = (row.lane, row.kind);
        if ended {
            self.count(lane.endpoint, kind, DeliveryState::Pending, -1);
            self.count(lane.endpoint, kind, fate.state, 1);
            self.hand_over(lane, number);
        }
    }

    /// The next of a lane may be tried.
    fn hand_over(&mut self, lane: Lane, ended: i64) {
        let Some(waiting) = self.waiting.get_mut(&lane) else {
            return;
        };
        waiting.remove(&ended);
        let next = waiting.first().copied();
        if lane.lane >= 0
            && let Some(next) = next
        {
            self.set_due(next, Some(self.now));
        }
    }

    /// All that waits counts as failed at once; the deliveries follow behind.
    pub(super) fn give_up(&mut self, given_up: GivenUp) {
        let GivenUp {
            endpoint,
            up_to,
            gone,
        } = given_up;
        let number = int(endpoint);
        let row = self.endpoint(number);
        let mut pending: BTreeMap<i32, i64> = row.before.pending().collect();
        for (key, delta) in &row.moves {
            let moved = key.split_once('_').and_then(|(kind, state)| {
                let is_pending = state.parse() == Ok(DeliveryState::Pending as i32);
                kind.parse().ok().filter(|_| is_pending)
            });
            if let Some(kind) = moved {
                *pending.entry(kind).or_insert(0) += delta;
            }
        }
        let unsettled = if gone { TO_GO } else { TO_END };
        row.given_up = up_to;
        row.set.extend(doc! {
            "failing_since": null, "given_up": up_to, "unsettled": unsettled,
        });
        for (kind, total) in pending {
            self.count(number, kind, DeliveryState::Pending, -total);
            self.count(number, kind, DeliveryState::Failed, total);
        }
        self.waiting.retain(|lane, waiting| {
            if lane.endpoint == number {
                waiting.retain(|waits| lane.lane >= 0 && *waits > up_to);
            }
            !waiting.is_empty()
        });
        self.end_beside(number);
        let replays = doc! {"endpoint": number, "slice": {"$lt": self.number}};
        self.redo.statements.delete(REPLAYS, replays);
    }

    /// What was sent again by hand has failed, too.
    fn end_beside(&mut self, endpoint: i64) {
        let mut known = Vec::new();
        for (number, row) in &mut self.rows {
            if row.lane.endpoint != endpoint || row.lane.lane >= 0 {
                continue;
            }
            known.push(*number);
            if row.state == DeliveryState::Pending {
                (row.state, row.due, row.is_changed) = (DeliveryState::Failed, None, true);
            }
        }
        let filter = doc! {
            "endpoint": endpoint, "lane": {"$lt": 0}, "state": DeliveryState::Pending as i32,
            "_id": {"$nin": known}, "slice": {"$lt": self.number},
        };
        let set = doc! {
            "state": DeliveryState::Failed as i32, "due": null, "slice": self.number,
        };
        let statements = &mut self.redo.statements;
        statements.update(DELIVERIES, filter, doc! {"$set": set});
    }

    /// Adds a new delivery of an event that was committed then.
    pub(super) fn insert(&mut self, new: &NewDelivery, event: Option<&LoggedEvent>) {
        let NewDelivery {
            number,
            position,
            kind,
            at,
            fate,
            ..
        } = new;
        let (lane, kind) = (Lane::of_new(new), *kind as i32);
        let is_pending = fate.state == DeliveryState::Pending;
        let is_first = self.waiting.get(&lane).is_none_or(BTreeSet::is_empty);
        if is_pending && !self.is_given_up(lane, *number) {
            self.waiting.entry(lane).or_default().insert(*number);
        }
        let mut attempts = NewAttempts::default();
        attempts.add(fate.attempts, &fate.log);
        self.note_texts(&attempts, *position);
        let mut new = doc! {
            "_id": *number, "slice": self.number, "endpoint": lane.endpoint, "lane": lane.lane,
            "entity": lane.entity, "position": position.0,
            "event_at": event.map_or(at.0, |event| event.at.0), "kind": kind, "at": at.0,
            "state": fate.state as i32, "attempts": i64::from(fate.attempts),
            "due": (is_pending && is_first).then_some(fate.due.0),
        };
        new.extend(attempts.into_fields());
        self.redo.new.push(new);
        self.count(lane.endpoint, kind, fate.state, 1);
    }

    fn note_texts(&mut self, attempts: &NewAttempts, position: Position) {
        if attempts.has_texts() {
            self.redo.said.push(position.0);
        }
    }

    fn behind(&self) -> Document {
        doc! {"slice": {"$lt": self.number}}
    }

    /// Notes since when an endpoint only fails.
    pub(super) fn failing(&mut self, failing: FailingEndpoint) {
        let FailingEndpoint { endpoint, since } = failing;
        let row = self.endpoint(int(endpoint));
        row.set.insert("failing_since", since.map(|since| since.0));
    }

    /// Notes what becomes of a replay.
    pub(super) fn replay(&mut self, change: &ReplayChange) {
        match change {
            ReplayChange::Open(replay) => {
                let row = ReplayRow::Open(replay.clone());
                self.replays.insert(replay.lane, row);
            }
            ReplayChange::Reached(lane, next) => match self.replays.get_mut(lane) {
                Some(ReplayRow::Open(replay)) => replay.next = *next,
                Some(ReplayRow::Done) => {}
                Some(ReplayRow::Reached(_)) | None => {
                    self.replays.insert(*lane, ReplayRow::Reached(*next));
                }
            },
            ReplayChange::Done(lane) => {
                self.replays.insert(*lane, ReplayRow::Done);
            }
        }
    }

    /// Keeps an answer under its key.
    pub(super) fn answer(&mut self, answer: &Commit) {
        let document = LogDocument::of(answer, &Vec::new());
        self.redo.answers.push(document);
    }

    /// All that the slice writes.
    pub(super) fn finish(mut self) -> Redo {
        for (number, row) in std::mem::take(&mut self.rows) {
            if row.is_changed {
                self.write_row(number, row);
            }
        }
        let behind = self.behind();
        let statements = &mut self.redo.statements;
        for (number, row) in self.endpoints {
            let moves: Document = row
                .moves
                .into_iter()
                .filter(|(_, delta)| *delta != 0)
                .map(|(key, delta)| (format!("totals.{key}"), delta.into()))
                .collect();
            if moves.is_empty() && row.set.is_empty() {
                continue;
            }
            let mut set = row.set;
            set.insert("slice", self.number);
            let mut change = doc! {"$set": set};
            if !moves.is_empty() {
                change.insert("$inc", moves);
            }
            statements.put(ENDPOINTS, number, behind.clone(), change);
        }
        for (lane, row) in self.replays {
            match row {
                ReplayRow::Open(replay) => {
                    let mut set = replay_fields(&replay);
                    set.insert("slice", self.number);
                    statements.put(REPLAYS, lane, behind.clone(), doc! {"$set": set});
                }
                ReplayRow::Reached(next) => {
                    let filter = doc! {"_id": lane, "slice": {"$lt": self.number}};
                    let set = doc! {"next": int(next.0), "slice": self.number};
                    statements.update(REPLAYS, filter, doc! {"$set": set});
                }
                ReplayRow::Done => {
                    let filter = doc! {"_id": lane, "slice": {"$lte": self.number}};
                    statements.delete(REPLAYS, filter);
                }
            }
        }
        self.redo
    }

    fn write_row(&mut self, number: i64, row: Row) {
        self.note_texts(&row.new_attempts, Position(row.position));
        let mut set = doc! {
            "slice": self.number, "lane": row.lane.lane, "state": row.state as i32,
            "attempts": row.attempts, "due": row.due,
        };
        set.extend(row.new_attempts.into_changes());
        let filter = doc! {"_id": number, "slice": {"$lt": self.number}};
        let statements = &mut self.redo.statements;
        statements.update(DELIVERIES, filter, doc! {"$set": set});
    }
}
