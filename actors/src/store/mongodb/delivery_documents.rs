//! Deliveries, endpoints and replays as their collections have them. `slice` of a document is the
//! number of the slice that wrote it last: an earlier one, however late, changes nothing any more.

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::codec::{damaged, failed, int, uint};
use super::connection::answered;
use super::schema::Collections;
use crate::store::{DeliveryState, LaneKey, ReadError, Replay, StoredDelivery, Waiting};
use colloquy_model::attempt::Attempt;
use colloquy_model::caller::Tenant;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// Attempts that a log keeps: the newest.
const LOG_MAX: i64 = 32;

/// An endpoint's deliveries all say themselves what has become of them.
pub(super) const SETTLED: i32 = 0;
/// An endpoint's deliveries that wait up to `given_up` still have to be ended.
pub(super) const TO_END: i32 = 1;
/// An endpoint is no more: its deliveries still have to go.
pub(super) const TO_GO: i32 = 2;

/// A delivery.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DeliveryDocument {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    pub(super) endpoint: i64,
    pub(super) lane: i64,
    pub(super) entity: i64,
    pub(super) position: i64,
    pub(super) event_at: i64,
    pub(super) kind: i32,
    pub(super) at: i64,
    pub(super) state: i32,
    pub(super) attempts: i64,
    /// When it may be tried; only the first that waits in a lane has one.
    pub(super) due: Option<i64>,
    /// Its attempts by their [`slot`].
    #[serde(default)]
    log: BTreeMap<String, AttemptDocument>,
    /// What the receiver said at each: it goes with a redacted message.
    #[serde(default)]
    said: BTreeMap<String, Option<SaidDocument>>,
}

/// An attempt without what was said.
#[derive(Debug, Clone, Copy, Deserialize)]
struct AttemptDocument {
    at: i64,
    status: Option<i32>,
    ms: i64,
}

/// What the receiver answered, and why the attempt failed.
#[derive(Debug, Clone, Deserialize)]
struct SaidDocument {
    answer: Option<String>,
    error: Option<String>,
}

/// Where an attempt stands in the log of its delivery: the same place each time that it is written,
/// so that it does not stand there twice. The newest take the places of the oldest.
fn slot(attempt: i64) -> String {
    attempt.rem_euclid(LOG_MAX).to_string()
}

/// Attempts that are new in a log, by their slots.
#[derive(Debug, Clone, Default)]
pub(super) struct NewAttempts {
    log: Document,
    said: Document,
    has_texts: bool,
}

impl NewAttempts {
    /// Adds the last ones of so many attempts.
    pub(super) fn add(&mut self, attempts: u32, new: &[Attempt]) {
        let count = i64::try_from(new.len()).unwrap_or(0);
        let first = i64::from(attempts).saturating_sub(count).max(0);
        for (number, attempt) in (first..).zip(new) {
            let Attempt {
                attempted_at,
                status,
                duration_ms,
                answer,
                error,
            } = attempt;
            let made = doc! {
                "at": attempted_at.0, "status": status.map(i32::from), "ms": int(*duration_ms),
            };
            let said = doc! {"answer": answer, "error": error};
            self.log.insert(slot(number), made);
            self.said.insert(slot(number), said);
            self.has_texts |= answer.is_some() || error.is_some();
        }
    }

    /// Whether a receiver said anything.
    pub(super) fn has_texts(&self) -> bool {
        self.has_texts
    }

    /// What a new delivery has of them.
    pub(super) fn into_fields(self) -> Document {
        doc! {"log": self.log, "said": self.said}
    }

    /// What a delivery that is there gets of them.
    pub(super) fn into_changes(self) -> Document {
        let log = self.log.into_iter();
        let log = log.map(|(slot, made)| (format!("log.{slot}"), made));
        let said = self.said.into_iter();
        let said = said.map(|(slot, said)| (format!("said.{slot}"), said));
        log.chain(said).collect()
    }
}

impl DeliveryDocument {
    /// What it stands in.
    pub(super) fn key(&self) -> LaneKey {
        LaneKey {
            lane: self.lane,
            entity: uint(self.entity),
        }
    }

    /// Its state as the document has it.
    ///
    /// # Errors
    /// The code stands for nothing.
    pub(super) fn stored_state(&self) -> Result<DeliveryState, ReadError> {
        let unknown = || damaged(&format!("delivery {}: state", self.number), "unknown code");
        DeliveryState::from_code(self.state.into()).ok_or_else(|| unknown().into())
    }

    /// The delivery as whoever delivers reads it.
    pub(super) fn waiting(self) -> Waiting {
        Waiting {
            number: self.number,
            key: self.key(),
            position: Position(self.position),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            due: self.due.map(Timestamp),
        }
    }

    /// The delivery as lists show it: what was given up has failed, whatever the document says.
    ///
    /// # Errors
    /// A code stands for nothing.
    pub(super) fn stored(&self, given_up: i64) -> Result<StoredDelivery, ReadError> {
        let unknown = || damaged(&format!("delivery {}: kind", self.number), "unknown code");
        let kind = EventKind::from_code(self.kind.into()).ok_or_else(unknown)?;
        let state = match self.stored_state()? {
            DeliveryState::Pending if self.number <= given_up && self.lane >= 0 => {
                DeliveryState::Failed
            }
            state @ (DeliveryState::Pending | DeliveryState::Delivered | DeliveryState::Failed) => {
                state
            }
        };
        let due = self.due.filter(|_| state == DeliveryState::Pending);
        Ok(StoredDelivery {
            number: self.number,
            key: self.key(),
            position: Position(self.position),
            event_at: Timestamp(self.event_at),
            kind,
            at: Timestamp(self.at),
            state,
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            due: due.map(Timestamp),
            log: Vec::new(),
        })
    }

    /// Its attempts, oldest first.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        let numbers = self.attempts.saturating_sub(LOG_MAX).max(0)..self.attempts;
        let attempt = |number| {
            let AttemptDocument { at, status, ms } = *self.log.get(&slot(number))?;
            let said = self.said.get(&slot(number)).cloned().flatten();
            let (answer, error) = said.map_or((None, None), |said| (said.answer, said.error));
            Some(Attempt {
                attempted_at: Timestamp(at),
                status: status.and_then(|status| u16::try_from(status).ok()),
                duration_ms: uint(ms),
                answer,
                error,
            })
        };
        numbers.filter_map(attempt).collect()
    }
}

/// An endpoint.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct EndpointDocument {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    #[serde(default)]
    pub(super) failing_since: Option<i64>,
    /// What waits up to this delivery counts as failed.
    #[serde(default)]
    pub(super) given_up: i64,
    #[serde(default)]
    pub(super) unsettled: i32,
    /// How many deliveries there are, by their [`total_key`].
    #[serde(default)]
    totals: BTreeMap<String, i64>,
}

/// Under which key deliveries of a kind of event and a state are counted.
pub(super) fn total_key(kind: i32, state: DeliveryState) -> String {
    format!("{kind}_{}", state as i32)
}

impl EndpointDocument {
    /// How many deliveries there are of one kind of event, or of all, and in one state, or in all.
    pub(super) fn total(&self, kind: Option<EventKind>, state: Option<DeliveryState>) -> u64 {
        let kind = kind.map(|kind| (kind as i32).to_string());
        let state = state.map(|state| (state as i32).to_string());
        let is_meant = |(one_kind, one_state): (&str, &str)| {
            kind.as_deref().is_none_or(|kind| kind == one_kind)
                && state.as_deref().is_none_or(|state| state == one_state)
        };
        let totals = self.totals.iter();
        let meant = totals.filter(|(key, _)| key.split_once('_').is_some_and(is_meant));
        uint(meant.map(|(_, total)| *total).sum())
    }

    /// How many wait, by the kind of event.
    pub(super) fn pending(&self) -> impl Iterator<Item = (i32, i64)> {
        self.totals.iter().filter_map(|(key, total)| {
            let (kind, state) = key.split_once('_')?;
            let is_pending = state.parse() == Ok(DeliveryState::Pending as i32);
            Some((kind.parse().ok().filter(|_| is_pending)?, *total))
        })
    }
}

/// A replay.
#[derive(Debug, Deserialize)]
pub(super) struct ReplayDocument {
    #[serde(rename = "_id")]
    pub(super) lane: i64,
    pub(super) endpoint: i64,
    tenant: i64,
    next: i64,
    last: i64,
    since: Option<i64>,
    until: Option<i64>,
    kinds: Vec<i32>,
}

impl ReplayDocument {
    /// The replay; none where it can't be read: it rests, for with other kinds it would send what
    /// nobody asked for.
    pub(super) fn replay(self) -> Option<Replay> {
        let kinds = self.kinds.iter().map(|kind| {
            let known = EventKind::from_code((*kind).into());
            known.ok_or_else(|| damaged(&format!("replay {}: kinds", self.lane), kind))
        });
        let kinds = kinds.collect::<Result<_, _>>().ok()?;
        Some(Replay {
            lane: self.lane,
            endpoint: uint(self.endpoint),
            tenant: Tenant::from_number(self.tenant),
            next: StreamOffset(uint(self.next)),
            last: Position(self.last),
            since: self.since.map(Timestamp),
            until: self.until.map(Timestamp),
            kinds,
        })
    }
}

/// A replay as its collection has it.
pub(super) fn replay_fields(replay: &Replay) -> Document {
    let kinds: Vec<i32> = replay.kinds.iter().map(|kind| *kind as i32).collect();
    doc! {
        "endpoint": int(replay.endpoint), "tenant": replay.tenant.number(),
        "next": int(replay.next.0), "last": replay.last.0,
        "since": replay.since.map(|at| at.0), "until": replay.until.map(|at| at.0),
        "kinds": kinds,
    }
}

/// What is read of a collection, at most so much of it, without what receivers said.
pub(super) struct First {
    pub(super) filter: Document,
    pub(super) sort: Document,
    pub(super) limit: i64,
}

/// The first documents that match.
pub(super) async fn first<T: DeserializeOwned + Send + Sync>(
    collections: &Collections,
    collection: &str,
    which: First,
) -> Result<Vec<T>, ReadError> {
    let collection = collections.database.collection::<T>(collection);
    let found = async {
        let find = collection.find(which.filter).sort(which.sort);
        let find = find.projection(doc! {"log": 0, "said": 0});
        let mut cursor = find.limit(which.limit).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok(found)
    };
    answered(found).await.map_err(|error| failed(&error))
}
