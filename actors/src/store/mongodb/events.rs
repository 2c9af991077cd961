//! Events by their place: in one entity its sequence, in an account and mode its position. Nothing
//! behind the position that is decided is shown: below it no event comes late, so that a page ends
//! where the next begins.

use std::sync::Arc;

use bytes::Bytes;
use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;

use super::codec::{int, uint};
use super::event_pages::{By, Found, PageEnd, Reading, Span};
use super::event_rows::{PlacedRow, Wanted, documents, extent, placed, public_kinds, public_of};
use super::feed_numbers::FeedNumbers;
use super::log::LogDocument;
use super::retention::FeedBounds;
use super::schema::Collections;
use super::veil::Veil;
use super::{entity_events, event_totals, retention};
use crate::sealing::texts;
use crate::store::{EventPage, EventQuery, FeedRow, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Kind;
use colloquy_model::event::Event;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{CustomerId, WebhookId};
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;

/// The last document of the log that matches, in the order of positions.
async fn last_document(
    collections: &Collections,
    filter: Document,
) -> Result<Option<LogDocument>, ReadError> {
    let order = doc! {"position": -1};
    let mut found = documents(collections, filter, order, 1).await?;
    Ok(found.pop())
}

/// A page of events; none where the entity is not there. Nothing behind `decided` is on it.
pub(super) async fn page(
    collections: &Collections,
    query: EventQuery,
    decided: Position,
) -> Result<Option<EventPage>, ReadError> {
    match query.source {
        EventSource::Account => of_account(collections, &query, decided).await.map(Some),
        EventSource::Entity(subject) => {
            entity_events::page(collections, subject, &query, decided).await
        }
    }
}

/// The position of the last public event of an account and mode up to this one; 0 where there is
/// none.
async fn last_at(
    collections: &Collections,
    tenant: Tenant,
    upto: Position,
) -> Result<Position, ReadError> {
    let mut filter = public_of(tenant);
    filter.insert("first", doc! {"$gt": 0});
    filter.insert("position", doc! {"$lte": upto.0});
    let order = doc! {"position": -1};
    let last = extent(collections, filter, order).await?;
    Ok(last.map_or(Position::ZERO, |last| last.last_position().min(upto)))
}

/// A page of the events of an account and mode.
///
/// It costs one read of the index on tenant and position from where the page begins, past what the
/// filter does not let through, one for where it begins and one for what is hidden; at the end of
/// the list, one for its last event. An exact total costs what [`event_totals`] says where the page
/// does not hold all that match.
async fn of_account(
    collections: &Collections,
    query: &EventQuery,
    decided: Position,
) -> Result<EventPage, ReadError> {
    let tenant = query.tenant;
    let at = Position(int(query.after.0));
    let (bounds, around) = tokio::join!(
        retention::bounds(collections, tenant),
        document_around(collections, public_of(tenant), at)
    );
    let FeedBounds { floor, numbered_to } = bounds?;
    let numbers = FeedNumbers {
        collections,
        tenant,
        upto: numbered_to,
    };
    let asked = numbers.read_up_to(query.after).await?;
    let begun_with = if asked == at {
        around?
    } else {
        document_around(collections, public_of(tenant), asked).await?
    };
    if asked > Position::ZERO && asked < floor {
        return Err(ReadError::Expired);
    }
    let after = asked.max(floor);
    let end = query.until.map_or(decided, |until| until.min(decided));
    let offset = |position: Position| StreamOffset(uint(position.0));
    let span = Span {
        after: offset(after),
        end: offset(end),
    };
    let reading = Reading {
        begun_with,
        filter: public_of(tenant),
        by: By::Position,
        behind: after.0.into(),
        upto: end.0.into(),
    };
    let found = Found::read(collections, reading, query, span).await?;
    if found.last().is_none() && asked > last_at(collections, tenant, decided).await? {
        return Err(ReadError::NoCursor("after"));
    }
    let wanted = Wanted::new(&query.filter);
    let total = match query.total {
        true if found.has_more() => {
            let begun_with = found.first_document();
            event_totals::between(collections, (tenant, begun_with), (after, end), &wanted).await?
        }
        true => found.count(),
        false => 0,
    };
    let shows_last = query.limit > 0 && (found.has_more() || wanted.is_all());
    let end = match found.last().filter(|_| shows_last) {
        Some(last) => last,
        None => offset(last_at(collections, tenant, end).await?),
    };
    let page = found
        .page(collections, query, PageEnd { total, end })
        .await?;
    numbers.show(page).await
}

/// The document among these that holds both this position and the one behind it.
async fn document_around(
    collections: &Collections,
    filter: Document,
    after: Position,
) -> Result<Option<LogDocument>, ReadError> {
    if after == Position::ZERO {
        return Ok(None);
    }
    let mut filter = filter;
    filter.insert("position", doc! {"$lte": after.0});
    let before = last_document(collections, filter).await?;
    Ok(before.filter(|before| before.last_position() > after))
}

/// The event at this position, if it is stored: what is to be delivered is delivered, also where
/// retention has taken it out of the lists meanwhile.
pub(super) async fn at(
    collections: &Collections,
    position: Position,
) -> Result<Option<Arc<Event>>, ReadError> {
    let filter = doc! {"position": {"$lte": position.0}, "rows": {"$exists": true}};
    let Some(document) = last_document(collections, filter).await? else {
        return Ok(None);
    };
    let documents = [document];
    let veil = Veil::over(collections, &documents).await?;
    let is_public = documents.iter().any(is_public);
    let mut rows = placed(&documents).filter(|row| is_public && !row.is_freed());
    let row = rows.find(|row| row.position == position);
    row.map(|row| row.shown(&veil).map(Arc::new)).transpose()
}

/// The request that did what stands at this position.
pub(super) async fn request_at(
    collections: &Collections,
    position: Position,
) -> Result<Option<String>, ReadError> {
    let filter = doc! {"position": {"$lte": position.0}, "rows": {"$exists": true}};
    let Some(document) = last_document(collections, filter).await? else {
        return Ok(None);
    };
    let mut rows = document.placed_rows();
    let row = rows.find(|(place, ..)| *place == position);
    Ok(row.map(|(_, _, row)| row.by.request.clone()))
}

fn is_public(document: &LogDocument) -> bool {
    Kind::from_code(document.kind.into()).is_some_and(Kind::is_public)
}

/// The next events, changes of endpoints and new names of customers behind this position, up to
/// `decided`.
pub(super) async fn behind(
    collections: &Collections,
    position: Position,
    limit: u32,
    decided: Position,
) -> Result<Vec<FeedRow>, ReadError> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut kinds = public_kinds();
    kinds.extend([Kind::Webhook, Kind::Customer].map(|kind| Bson::from(kind as i32)));
    let of_kinds = doc! {"kind": {"$in": kinds}, "first": {"$gt": 0}};
    let around = document_around(collections, of_kinds.clone(), position).await?;
    let mut some: Vec<LogDocument> = around.into_iter().collect();
    let mut found = Vec::new();
    let mut from = position;
    loop {
        let veil = Veil::over(collections, &some).await?;
        for row in placed(&some) {
            let is_in = row.position > position && row.position <= decided;
            if is_in && !row.is_freed() && found.len() < most {
                found.extend(feed_row(&row, &veil)?);
            }
        }
        if found.len() >= most {
            return Ok(found);
        }
        let mut filter = of_kinds.clone();
        filter.insert("position", doc! {"$gt": from.0, "$lte": decided.0});
        let order = doc! {"position": 1};
        some = documents(collections, filter, order, limit.into()).await?;
        let Some(last) = some.last() else {
            return Ok(found);
        };
        from = last.last_position();
    }
}

fn feed_row(row: &PlacedRow<'_>, veil: &Veil) -> Result<Option<FeedRow>, ReadError> {
    if !is_public(row.document) {
        return Ok(endpoint(row).or_else(|| renamed(row)));
    }
    match row.event(veil) {
        Ok(event) => Ok(Some(FeedRow::Event(Arc::new(event)))),
        // Told, and passed by: it must not hold up what happened to everybody else.
        Err(ReadError::Unreadable) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first field of an endpoint, as its rows hold it.
#[derive(Deserialize)]
struct Endpoint {
    webhook_id: WebhookId,
}

/// What a row tells of a webhook endpoint; none where it does not name it.
fn endpoint(row: &PlacedRow<'_>) -> Option<FeedRow> {
    let payload = &row.row.payload;
    let Endpoint { webhook_id } = serde_json::from_str(payload).ok()?;
    let number = uint(row.document.entity);
    let is_deleted = row.row.kind == EventKind::RecordDeleted as i32;
    let body = (!is_deleted).then(|| Bytes::copy_from_slice(payload.as_bytes()));
    (webhook_id.number() == number).then_some(FeedRow::Endpoint {
        position: row.position,
        number,
        body,
    })
}

/// The first fields of a customer, as its rows hold it.
#[derive(Deserialize)]
struct Customer {
    customer_id: CustomerId,
    name: Box<str>,
}

/// What a row tells of a customer's name; none where it does not name it.
fn renamed(row: &PlacedRow<'_>) -> Option<FeedRow> {
    if row.row.kind != EventKind::RecordUpdated as i32 {
        return None;
    }
    let payload = texts::opened_text(&row.row.payload).ok()?;
    let Customer { customer_id, name } = serde_json::from_str(&payload).ok()?;
    let customer = uint(row.document.entity);
    (customer_id.number() == customer).then_some(FeedRow::Renamed {
        position: row.position,
        customer,
        tenant: Tenant::from_number(row.document.tenant),
        name,
    })
}
