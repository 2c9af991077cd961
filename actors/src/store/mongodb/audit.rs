//! Pages of the audit trail, out of the log. No totals are kept of it here: a list goes over all
//! that is of its trail, without what it says, and is given up where that takes too long.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{int, uint};
use super::find::Find;
use super::lists::{Scan, offset};
use super::log::log_id;
use super::schema::{Collections, LOG, RECORDS};
use crate::store::{AuditQuery, AuditRow, ReadError, StoredPage};
use colloquy_model::audit::AuditAction;
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AuditId, UserId};
use colloquy_model::page::Cursor;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A document of the log; one that only takes a position has no more than that.
#[derive(Debug, Deserialize)]
struct AuditDocument {
    #[serde(rename = "_id")]
    id: String,
    position: i64,
    #[serde(default)]
    first: i64,
    #[serde(default)]
    kind: i32,
    #[serde(default)]
    entity: i64,
    #[serde(default)]
    tail: i64,
    #[serde(default)]
    tenant: i64,
    #[serde(default)]
    rows: Vec<AuditedRow>,
}

/// One row of it.
#[derive(Debug, Deserialize)]
struct AuditedRow {
    kind: i32,
    at: i64,
    by: AuditedActor,
    /// Empty where it was not asked for.
    #[serde(default)]
    payload: String,
}

#[derive(Debug, Deserialize)]
struct AuditedActor {
    key: Option<i64>,
    user: Option<i64>,
    address: Option<String>,
    request: String,
}

impl AuditedActor {
    fn credential_number(&self) -> Option<i64> {
        self.key.map(|code| code & CredentialId::NUMBER_MASK)
    }

    /// The number of who did it.
    fn number(&self) -> Option<i64> {
        self.user.or(self.credential_number())
    }
}

/// Where a record stands.
#[derive(Debug, Clone)]
struct Place {
    /// The document of the log that holds it.
    document: String,
    position: Position,
    at: Timestamp,
}

/// A page of the audit trail.
pub(super) async fn page(
    collections: &Collections,
    query: AuditQuery,
) -> Result<StoredPage<AuditRow>, ReadError> {
    let places = matched(collections, &query).await?;
    let total = u64::try_from(places.len()).unwrap_or(u64::MAX);
    let scan = Scan::new(query.paging.order, query.paging.start);
    let picked = pick(&places, scan, &query)?;
    let items = rows(collections, &picked).await?;
    Ok(scan.page(items, query.paging, total))
}

/// The documents that may hold records of the trail.
fn filter(query: &AuditQuery) -> Document {
    let mut filter = doc! {"rows.kind": {"$gt": 0}};
    if let Some(subject) = query.subject {
        filter.insert("entity", int(subject.number));
        filter.insert("tail", int(subject.tail));
    }
    if query.trail == Tenant::OPERATORS {
        return filter;
    }
    let trail = query.trail.number();
    let own = doc! {"tenant": {"$gte": trail, "$lte": trail + 3}};
    match query.account {
        Some(account) => filter.insert("$or", vec![own, doc! {"entity": int(account)}]),
        None => filter.insert("$or", vec![own]),
    };
    filter
}

/// All records that a list shows, in the order of their positions.
async fn matched(collections: &Collections, query: &AuditQuery) -> Result<Vec<Place>, ReadError> {
    let fields = doc! {"position": 1, "kind": 1, "rows.kind": 1, "rows.at": 1, "rows.by": 1};
    let find = Find {
        sort: doc! {"position": 1},
        ..Find::all(LOG, filter(query), fields)
    };
    let found: Vec<AuditDocument> = find.read(collections).await?;
    let mut places = Vec::new();
    for document in found {
        let kind = Kind::from_code(document.kind.into());
        let positions = Position(document.position).and_following();
        for (row, position) in document.rows.iter().zip(positions) {
            let event = EventKind::of_row(row.kind.into());
            let action = kind
                .zip(event)
                .map(|(kind, event)| AuditAction::of(kind, event));
            let at = Timestamp(row.at);
            let is_shown = action.is_some_and(|action| query.admits(action))
                && query
                    .actor
                    .is_none_or(|actor| row.by.number() == Some(int(actor)))
                && query.since.is_none_or(|since| at > since)
                && query.until.is_none_or(|until| at < until);
            if is_shown {
                places.push(Place {
                    document: document.id.clone(),
                    position,
                    at,
                });
            }
        }
    }
    Ok(places)
}

/// Those of a page and one more where any follow, in the direction in which is read.
fn pick(places: &[Place], scan: Scan, query: &AuditQuery) -> Result<Vec<Place>, ReadError> {
    let skip = usize::try_from(offset(query.paging.start)).unwrap_or(usize::MAX);
    let most = usize::try_from(query.paging.limit).unwrap_or(usize::MAX);
    let most = most.saturating_add(1);
    let is_upwards = scan.direction() > 0;
    let mut within = places;
    if let Some((Cursor { number, tail }, field)) = query.paging.start.cursor() {
        let meant = AuditId::from_parts(number, tail);
        let is_meant = |place: &Place| AuditId::at_position(place.at, place.position) == meant;
        let at = places.iter().position(is_meant);
        let at = at.ok_or(ReadError::NoCursor(field))?;
        let (before, behind) = places.split_at(at);
        within = match is_upwards {
            true => behind.split_first().map_or(behind, |(_, behind)| behind),
            false => before,
        };
    }
    Ok(match is_upwards {
        true => within.iter().skip(skip).take(most).cloned().collect(),
        false => within.iter().rev().skip(skip).take(most).cloned().collect(),
    })
}

/// What was read for a page.
#[derive(Default)]
struct Held {
    rows: HashMap<Position, (Subject, Tenant, AuditedRow)>,
    /// What a record's last row says, by the `_id` of its document.
    said: HashMap<String, String>,
    /// By position, the `_id` of the document before, of a record that has changed.
    before: HashMap<Position, String>,
}

impl Held {
    fn take(&mut self, document: AuditDocument) {
        let AuditDocument {
            id,
            position,
            first,
            kind,
            entity,
            tail,
            tenant,
            rows,
        } = document;
        let Some(kind) = Kind::from_code(kind.into()) else {
            return;
        };
        let subject = Subject {
            kind,
            number: uint(entity),
            tail: uint(tail),
        };
        if let Some(row) = rows.last() {
            self.said.insert(id, row.payload.clone());
        }
        let positions = Position(position).and_following();
        for (row, position) in rows.into_iter().zip(positions) {
            if row.kind == EventKind::RecordUpdated as i32 && first > 1 {
                let before = log_id(subject.number, Sequence(uint(first - 1)));
                self.before.insert(position, before);
            }
            let tenant = Tenant::from_number(tenant);
            self.rows.insert(position, (subject, tenant, row));
        }
    }

    async fn read(&mut self, collections: &Collections, ids: Vec<String>) -> Result<(), ReadError> {
        if ids.is_empty() {
            return Ok(());
        }
        let filter = doc! {"_id": {"$in": ids}};
        let find = Find::all(LOG, filter, doc! {"header": 0, "answer": 0});
        let found: Vec<AuditDocument> = find.read(collections).await?;
        found.into_iter().for_each(|document| self.take(document));
        Ok(())
    }
}

/// The records that were picked, in this order.
async fn rows(collections: &Collections, picked: &[Place]) -> Result<Vec<AuditRow>, ReadError> {
    let mut held = Held::default();
    let mut ids: Vec<String> = picked.iter().map(|place| place.document.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    held.read(collections, ids).await?;
    let before = held.before.values().cloned().collect();
    held.read(collections, before).await?;
    let numbers = held.rows.values();
    let numbers = numbers.flat_map(|(.., row)| [row.by.user, row.by.credential_number()]);
    let tails = tails(collections, numbers.flatten().collect()).await?;
    let shown = picked.iter().filter_map(|place| {
        let (subject, tenant, row) = held.rows.get(&place.position)?;
        let before = held.before.get(&place.position);
        let before = before.and_then(|id| held.said.get(id));
        let mut shown = audit_row(place, (*subject, *tenant), row, &tails)?;
        shown.before = before.map(|said| said.clone().into());
        Some(shown)
    });
    Ok(shown.collect())
}

fn audit_row(
    place: &Place,
    (subject, tenant): (Subject, Tenant),
    row: &AuditedRow,
    tails: &HashMap<i64, u64>,
) -> Option<AuditRow> {
    let event = EventKind::of_row(row.kind.into())?;
    let by = &row.by;
    let tail = |number: i64| tails.get(&number).copied();
    let user = by
        .user
        .and_then(|user| Some(UserId::from_parts(uint(user), tail(user)?)));
    let credential = match by.key {
        None if by.user.is_some() => Some(CredentialId::Session),
        code => CredentialId::known(code, by.credential_number().and_then(tail)),
    };
    Some(AuditRow {
        position: place.position,
        at: place.at,
        tenant,
        subject: Some(subject),
        action: Some(AuditAction::of(subject.kind, event)),
        event,
        credential,
        user,
        address: by.address.clone(),
        request_id: by.request.clone(),
        payload: Some(row.payload.clone())
            .filter(|said| !said.is_empty())
            .map(Into::into),
        before: None,
    })
}

/// The rest of an identifier.
#[derive(Debug, Deserialize)]
struct TailRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
}

/// The rest of the identifiers of users, keys and clients, those that are no more too.
async fn tails(
    collections: &Collections,
    mut numbers: Vec<i64>,
) -> Result<HashMap<i64, u64>, ReadError> {
    if numbers.is_empty() {
        return Ok(HashMap::new());
    }
    numbers.sort_unstable();
    numbers.dedup();
    let filter = doc! {"_id": {"$in": numbers}};
    let find = Find::all(RECORDS, filter, doc! {"tail": 1});
    let found: Vec<TailRow> = find.read(collections).await?;
    Ok(found
        .iter()
        .map(|row| (row.number, uint(row.tail)))
        .collect())
}
