//! Pages of conversations and records. A total comes from a counter wherever one field, alone or
//! with `status`, is asked for.

use std::collections::HashMap;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::codec::{failed, int, uint};
use super::connection::answered;
use super::counters::{Counted, Counter};
use super::entity_documents::{ConversationDocument, RecordDocument};
use super::find::{Find, LIST_MAX, one};
use super::schema::{CONVERSATIONS, COUNTERS, Collections, NAMES, RECORDS};
use crate::store::{
    ConversationHeader, ConversationQuery, Facets, OwnedConversation, ReadError, RecordQuery,
    StoredPage, StoredRecord,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::RecordName;
use colloquy_model::conversation::Status;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{ConversationId, first_number_at};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;

/// In which direction documents are read: `Before` reads the page backwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    direction: i32,
    is_reversed: bool,
    pub(super) bound: Option<u64>,
}

impl Scan {
    pub(super) fn new(order: Order, start: Start) -> Self {
        let forwards = if order == Order::Desc { -1 } else { 1 };
        match start {
            Start::Offset(_) => Scan {
                direction: forwards,
                is_reversed: false,
                bound: None,
            },
            Start::After(at) => Scan {
                direction: forwards,
                is_reversed: false,
                bound: Some(at.number.0),
            },
            Start::Before(at) => Scan {
                direction: -forwards,
                is_reversed: true,
                bound: Some(at.number.0),
            },
        }
    }

    /// The direction as an index has it: 1 upwards, -1 downwards.
    pub(super) fn direction(self) -> i32 {
        self.direction
    }

    /// The operator by which what follows a bound is found.
    pub(super) fn compare(self) -> &'static str {
        if self.direction < 0 { "$lt" } else { "$gt" }
    }

    /// Turns `limit + 1` documents that were read into a page.
    pub(super) fn page<T>(self, mut items: Vec<T>, paging: Paging, total: u64) -> StoredPage<T> {
        let limit = usize::try_from(paging.limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        if self.is_reversed {
            items.reverse();
            return StoredPage {
                items,
                total,
                before: more,
                after: true,
            };
        }
        StoredPage {
            items,
            total,
            before: offset(paging.start) > 0 || self.bound.is_some(),
            after: more,
        }
    }
}

/// How many documents stand before the page.
pub(super) fn offset(start: Start) -> u64 {
    match start {
        Start::Offset(offset) => offset.min(i64::MAX.unsigned_abs()),
        Start::After(_) | Start::Before(_) => 0,
    }
}

/// What is read of a collection for a page.
pub(super) struct Reading {
    pub(super) collection: &'static str,
    pub(super) filter: Document,
    pub(super) sort: Document,
}

/// The documents of a page, and one more where any follow.
pub(super) async fn read<T: DeserializeOwned + Send + Sync>(
    collections: &Collections,
    reading: Reading,
    paging: Paging,
) -> Result<Vec<T>, ReadError> {
    let Reading {
        collection,
        filter,
        sort,
    } = reading;
    let collection = collections.database.collection::<T>(collection);
    let found = async {
        let mut cursor = collection
            .find(filter)
            .sort(sort)
            .skip(offset(paging.start))
            .limit(i64::from(paging.limit) + 1)
            .max_time(LIST_MAX)
            .await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok(found)
    };
    answered(found).await.map_err(|error| failed(&error))
}

/// How many documents match, where no counter tells it.
pub(super) async fn count(
    collections: &Collections,
    collection: &str,
    filter: Document,
) -> Result<u64, ReadError> {
    let collection = collections.database.collection::<Document>(collection);
    let count = collection.count_documents(filter).max_time(LIST_MAX);
    let counted = answered(count.into_future()).await;
    counted.map_err(|error| failed(&error))
}

/// What a counter says; of one status, or of all.
pub(super) async fn counted(
    collections: &Collections,
    counter: (i64, Counted, i64),
    status: Option<Status>,
) -> Result<u64, ReadError> {
    let (tenant, field, value) = counter;
    let mut filter = Counter::filter(tenant, field, value);
    if let Some(status) = status {
        filter.insert("status", super::codec::code(status.code()));
    }
    let found: Vec<Document> =
        super::find::all(collections, COUNTERS, filter, Document::new()).await?;
    let totals = found
        .iter()
        .map(|found| found.get_i64("total").unwrap_or(0));
    Ok(uint(totals.sum()))
}

/// A page of conversations.
pub(super) async fn conversations(
    collections: &Collections,
    query: ConversationQuery,
) -> Result<StoredPage<ConversationHeader>, ReadError> {
    if let Some((at, field)) = query.paging.start.cursor() {
        let tenant = query.tenant.number();
        let filter = doc! {
            "_id": int(at.number), "tail": int(at.tail),
            "$or": [{"tenant": tenant}, {"gone_from": tenant}],
        };
        if one::<Document>(collections, CONVERSATIONS, filter)
            .await?
            .is_none()
        {
            return Err(ReadError::NoCursor(field));
        }
    }
    let scan = if query.by_update {
        Scan {
            bound: None,
            ..Scan::new(query.paging.order, Start::Offset(0))
        }
    } else {
        Scan::new(query.paging.order, query.paging.start)
    };
    let mut filter = filters(&query);
    let total = total(collections, &query, filter.clone());
    if let Some(bound) = scan.bound {
        and(&mut filter, "_id", doc! {scan.compare(): int(bound)});
    }
    let direction = scan.direction();
    let sort = if query.by_update {
        doc! {"updated_at": direction, "_id": direction}
    } else {
        doc! {"_id": direction}
    };
    let reading = Reading {
        collection: CONVERSATIONS,
        filter,
        sort,
    };
    let items = read::<ConversationDocument>(collections, reading, query.paging);
    let (total, items) = tokio::join!(total, items);
    let items: Result<Vec<_>, _> = items?.into_iter().map(header).collect();
    Ok(scan.page(items?, query.paging, total?))
}

/// The headers of these conversations, in this order, as far as they are there.
pub(super) async fn among(
    collections: &Collections,
    tenant: Tenant,
    numbers: &[EntityNumber],
) -> Result<Vec<ConversationHeader>, ReadError> {
    let these: Vec<i64> = numbers.iter().copied().map(int).collect();
    let filter = doc! {"_id": {"$in": these}, "tenant": tenant.number()};
    let find = Find::all(CONVERSATIONS, filter, Document::new());
    let found: Vec<ConversationDocument> = find.read(collections).await?;
    let found = found.into_iter().map(|found| (found.number, found));
    let mut found: HashMap<i64, ConversationDocument> = found.collect();
    let there = numbers
        .iter()
        .filter_map(|number| found.remove(&int(*number)));
    there.map(header).collect()
}

/// A conversation, and whose it is.
#[derive(Debug, Deserialize)]
struct OwnedRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    tenant: i64,
}

/// Conversations of all accounts, by number.
pub(super) async fn behind(
    collections: &Collections,
    number: EntityNumber,
    most: u32,
) -> Result<Vec<OwnedConversation>, ReadError> {
    let filter = doc! {"_id": {"$gt": int(number)}, "gone": {"$ne": true}};
    let find = Find {
        limit: most,
        ..Find::all(CONVERSATIONS, filter, doc! {"tail": 1, "tenant": 1})
    };
    let found: Vec<OwnedRow> = find.read(collections).await?;
    let owned = found.into_iter().map(|row| OwnedConversation {
        id: ConversationId::from_parts(uint(row.number), uint(row.tail)),
        tenant: Tenant::from_number(row.tenant),
    });
    Ok(owned.collect())
}

/// Adds a condition on a field that may have one; both hold.
fn and(filter: &mut Document, field: &str, condition: Document) {
    let Ok(before) = filter.get_document_mut(field) else {
        filter.insert(field, condition);
        return;
    };
    for (operator, bound) in condition {
        // An operator stands once in a document: of two upper ends the lower one says both.
        let known = before.get_i64(&operator).ok();
        let is_lower = |known: &i64| bound.as_i64().is_some_and(|bound| *known < bound);
        let lower = known.filter(|known| operator == "$lt" && is_lower(known));
        before.insert(operator, lower.map_or(bound, Bson::from));
    }
}

fn header(found: ConversationDocument) -> Result<ConversationHeader, ReadError> {
    let id = ConversationId::from_parts(uint(found.number), uint(found.tail));
    Ok(ConversationHeader {
        id,
        state: found.state.state(&id.to_string())?,
        customer_name: found.customer_name.into(),
        messages: uint(found.messages),
        last_message_at: found.last_message_at.map(Timestamp),
        updated_at: Timestamp(found.updated_at),
    })
}

/// What conversations are filtered by.
fn filters(query: &ConversationQuery) -> Document {
    let Facets {
        status,
        channel,
        priority,
        customer,
        assignee,
        created_after,
        created_before,
    } = query.facets;
    let mut filter = doc! {"tenant": query.tenant.number()};
    let fields = [
        ("status", status.map(|status| status.code())),
        ("channel", channel.map(|channel| channel.code())),
        ("priority", priority.map(|priority| priority.code())),
    ];
    for (field, code) in fields {
        if let Some(code) = code {
            filter.insert(field, super::codec::code(code));
        }
    }
    if let Some(customer) = customer {
        filter.insert("customer", int(customer.number()));
    }
    if let Some(assignee) = assignee {
        filter.insert("assignee", int(assignee.number()));
    }
    if let Some(after) = created_after {
        let first = first_number_at(after + Duration::from_millis(1));
        and(&mut filter, "_id", doc! {"$gte": int(first)});
    }
    if let Some(before) = created_before {
        let end = first_number_at(before);
        and(&mut filter, "_id", doc! {"$lt": int(end)});
    }
    filter
}

/// How many conversations match.
async fn total(
    collections: &Collections,
    query: &ConversationQuery,
    filter: Document,
) -> Result<u64, ReadError> {
    let Facets {
        status,
        channel,
        priority,
        customer,
        assignee,
        created_after,
        created_before,
    } = query.facets;
    let fields = [
        channel.map(|channel| (Counted::Channel, channel.code())),
        priority.map(|priority| (Counted::Priority, priority.code())),
        customer.map(|customer| (Counted::Customer, int(customer.number()))),
        assignee.map(|assignee| (Counted::Assignee, int(assignee.number()))),
    ];
    let mut given = fields.into_iter().flatten();
    let (first, second) = (given.next(), given.next());
    if second.is_some() || created_after.is_some() || created_before.is_some() {
        return count(collections, CONVERSATIONS, filter).await;
    }
    let (field, value) = first.unwrap_or((Counted::All, 0));
    counted(collections, (query.tenant.number(), field, value), status).await
}

/// A page of records in order of creation. A cursor is a place, whatever has become of its record.
pub(super) async fn records(
    collections: &Collections,
    query: RecordQuery,
) -> Result<StoredPage<StoredRecord>, ReadError> {
    let tenant = query.tenant.number();
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = doc! {"tenant": tenant, "kind": query.kind as i32, "gone": false};
    if !query.names.is_empty() {
        let Bearers { records, names } = bearers(collections, &query).await?;
        and(&mut filter, "_id", doc! {"$in": records});
        // A name that was carried over late may lead to a record that has given it up.
        filter.insert("$and", names);
    }
    let total = async {
        if query.names.is_empty() {
            let counter = (tenant, Counted::Records, query.kind as i64);
            counted(collections, counter, None).await
        } else {
            count(collections, RECORDS, filter.clone()).await
        }
    };
    let mut page = filter.clone();
    if let Some(bound) = scan.bound {
        and(&mut page, "_id", doc! {scan.compare(): int(bound)});
    }
    let reading = Reading {
        collection: RECORDS,
        filter: page,
        sort: doc! {"_id": scan.direction()},
    };
    let items = read::<RecordDocument>(collections, reading, query.paging);
    let (total, items) = tokio::join!(total, items);
    let kind = query.kind;
    let items = items?.into_iter().map(|record| record.stored(kind));
    Ok(scan.page(items.collect(), query.paging, total?))
}

/// The records that names which are asked for lead to.
struct Bearers {
    /// The numbers of those that have all of them.
    records: Vec<Bson>,
    /// That a record has each of them itself.
    names: Vec<Bson>,
}

async fn bearers(collections: &Collections, query: &RecordQuery) -> Result<Bearers, ReadError> {
    let mut bearers: Option<Vec<i64>> = None;
    let mut names = Vec::new();
    for RecordName { field, value } in &query.names {
        let filter = doc! {
            "tenant": query.tenant.number(), "field": *field as i32, "value": value,
        };
        let found: Vec<Document> =
            super::find::all(collections, NAMES, filter, doc! {"record": 1}).await?;
        let ids = found.iter().filter_map(|name| name.get("_id").cloned());
        names.push(doc! {"names": {"$in": ids.collect::<Vec<_>>()}}.into());
        let found = found.iter().filter_map(|name| name.get_i64("record").ok());
        let found: Vec<i64> = match bearers.take() {
            None => found.collect(),
            Some(before) => found.filter(|record| before.contains(record)).collect(),
        };
        bearers = Some(found);
    }
    let records = bearers.unwrap_or_default().into_iter().map(Bson::from);
    Ok(Bearers {
        records: records.collect(),
        names,
    })
}
