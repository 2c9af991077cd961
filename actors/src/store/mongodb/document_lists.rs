//! Pages of documents, and single ones as lists show them.

use std::collections::{HashMap, HashSet};

use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;

use super::codec::binary;
use super::codec::{int, uint};
use super::counters::Counted;
use super::documents::role_key;
use super::find::Find;
use super::find::one;
use super::lists::{Scan, count, counted, offset};
use super::schema::{Collections, DOCUMENTS};
use crate::store::{
    DocumentOrder, DocumentQuery, DocumentRow, IndexedDocument, OwnedDocument, ReadError,
    StoredPage,
};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::UserId;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A document as lists show it.
#[derive(Debug, Deserialize)]
struct ListedDocument {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    seq: i64,
    updated_at: i64,
    body: String,
    deleted: bool,
}

impl ListedDocument {
    fn fields() -> Document {
        doc! {"tail": 1, "seq": 1, "updated_at": 1, "body": 1, "deleted": 1}
    }
}

impl From<ListedDocument> for DocumentRow {
    fn from(listed: ListedDocument) -> Self {
        DocumentRow {
            subject: subject(listed.number, listed.tail),
            sequence: Sequence(uint(listed.seq)),
            updated_at: Timestamp(listed.updated_at),
            body: listed.body,
        }
    }
}

/// A document, and whose it is.
#[derive(Debug, Deserialize)]
struct OwnedRow {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    tenant: i64,
}

impl OwnedRow {
    fn fields() -> Document {
        doc! {"tail": 1, "tenant": 1}
    }
}

impl From<OwnedRow> for OwnedDocument {
    fn from(row: OwnedRow) -> Self {
        OwnedDocument {
            subject: subject(row.number, row.tail),
            tenant: Tenant::from_number(row.tenant),
        }
    }
}

fn subject(number: i64, tail: i64) -> Subject {
    Subject {
        kind: Kind::Document,
        number: uint(number),
        tail: uint(tail),
    }
}

/// Where a document stands in lists by change and by title; one that is gone stands in neither.
#[derive(Debug, Deserialize)]
struct PlaceRow {
    #[serde(rename = "_id")]
    number: i64,
    updated_at: Option<i64>,
    sorted_title: Option<String>,
}

impl PlaceRow {
    /// What a list in this order is sorted by before the number, with what the document has there.
    fn value(&self, sort: DocumentOrder) -> Option<(&'static str, Bson)> {
        match sort {
            DocumentOrder::Creation => None,
            DocumentOrder::Update => Some((UPDATED_AT, self.updated_at.into())),
            DocumentOrder::Title => Some((SORTED_TITLE, self.sorted_title.clone().into())),
        }
    }

    /// That a document stands beyond this one, in the direction in which is read.
    fn beyond(&self, sort: DocumentOrder, scan: Scan) -> Document {
        let compare = scan.compare();
        let number = doc! {compare: self.number};
        match self.value(sort) {
            None => doc! {"_id": number},
            Some((field, value)) => {
                let elsewhere = doc! {field: {compare: value.clone()}};
                let beside = doc! {field: value, "_id": number};
                doc! {"$or": [elsewhere, beside]}
            }
        }
    }
}

const UPDATED_AT: &str = "updated_at";
const SORTED_TITLE: &str = "sorted_title";

/// A document, and whether it is in the bin.
pub(super) async fn row(
    collections: &Collections,
    tenant: Tenant,
    number: EntityNumber,
) -> Result<Option<IndexedDocument>, ReadError> {
    let filter = doc! {"_id": int(number), "tenant": tenant.number(), "gone": false};
    let find = Find::all(DOCUMENTS, filter, ListedDocument::fields());
    let found = find.read::<ListedDocument>(collections).await?;
    Ok(found.into_iter().next().map(|found| IndexedDocument {
        is_deleted: found.deleted,
        row: found.into(),
    }))
}

/// A page of documents.
pub(super) async fn page(
    collections: &Collections,
    query: DocumentQuery,
) -> Result<StoredPage<DocumentRow>, ReadError> {
    let place = match query.paging.start.cursor() {
        None => None,
        Some((at, field)) => {
            let mut filter = doc! {
                "_id": int(at.number), "tail": int(at.tail), "tenant": query.tenant.number(),
            };
            // By creation, an identifier says its place even when what it named is gone. By another order
            // that tells of the title, or when it was changed, which only whoever may read it is to
            // know; and what was put into the bin has lost its place by change.
            if query.sort != DocumentOrder::Creation {
                filter.insert("gone", false);
                if let Some(reader) = query.reader {
                    filter.insert("readers", may_read(reader, None));
                }
            }
            if query.sort == DocumentOrder::Update {
                filter.insert("deleted", query.deleted);
            }
            let place = one::<PlaceRow>(collections, DOCUMENTS, filter).await?;
            Some(place.ok_or(ReadError::NoCursor(field))?)
        }
    };
    match &query.among {
        Some(among) => searched(collections, &query, among).await,
        None => sorted(collections, &query, place).await,
    }
}

/// What a list is filtered by.
fn filters(query: &DocumentQuery) -> Document {
    let mut filter = doc! {"tenant": query.tenant.number(), "deleted": query.deleted};
    if let Some(reader) = query.reader {
        filter.insert("readers", may_read(reader, query.role));
    }
    if let Some(owner) = query.owner {
        filter.insert("owner", int(owner.number()));
    }
    if let Some(content_type) = query.content_type {
        filter.insert("content_type", content_type);
    }
    if let Some(after) = query.updated_after {
        filter.insert(UPDATED_AT, doc! {"$gt": after.0});
    }
    filter
}

/// That this user may read a document, as themselves or as everybody; with a role: that this is the
/// higher one of the two.
fn may_read(reader: UserId, role: Option<i64>) -> Document {
    let keys = |role| [0, int(reader.number())].map(|user| Bson::from(role_key(user, role)));
    let mut condition = doc! {"$in": keys(role.unwrap_or(0)).to_vec()};
    if let Some(role) = role {
        condition.insert("$nin", keys(role + 1).to_vec());
    }
    condition
}

/// How many documents match; of those in the bin and those that are not, a counter knows.
async fn total(
    collections: &Collections,
    query: &DocumentQuery,
    filter: Document,
) -> Result<u64, ReadError> {
    let is_plain = query.reader.is_none()
        && query.owner.is_none()
        && query.content_type.is_none()
        && query.updated_after.is_none();
    if is_plain {
        let value = i64::from(query.deleted);
        let counter = (query.tenant.number(), Counted::Documents, value);
        counted(collections, counter, None).await
    } else {
        count(collections, DOCUMENTS, filter).await
    }
}

async fn sorted(
    collections: &Collections,
    query: &DocumentQuery,
    place: Option<PlaceRow>,
) -> Result<StoredPage<DocumentRow>, ReadError> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = filters(query);
    let total = total(collections, query, filter.clone());
    if let Some(place) = place {
        filter.extend(place.beyond(query.sort, scan));
    }
    let direction = scan.direction();
    let find = Find {
        collection: DOCUMENTS,
        filter,
        fields: ListedDocument::fields(),
        sort: match query.sort {
            DocumentOrder::Creation => doc! {"_id": direction},
            DocumentOrder::Update => doc! {UPDATED_AT: direction, "_id": direction},
            DocumentOrder::Title => doc! {SORTED_TITLE: direction, "_id": direction},
        },
        skip: offset(query.paging.start),
        limit: query.paging.limit.saturating_add(1),
    };
    let (total, items) = tokio::join!(total, find.read::<ListedDocument>(collections));
    let items = items?.into_iter().map(DocumentRow::from).collect();
    Ok(scan.page(items, query.paging, total?))
}

/// What a search has found, in its order, as far as the filters let it pass.
async fn searched(
    collections: &Collections,
    query: &DocumentQuery,
    among: &[EntityNumber],
) -> Result<StoredPage<DocumentRow>, ReadError> {
    let mut filter = filters(query);
    filter.insert("_id", among_these(among.iter().copied()));
    let kept = Find::all(DOCUMENTS, filter, doc! {"_id": 1});
    let kept: Vec<Document> = kept.read(collections).await?;
    let kept: HashSet<i64> = kept
        .iter()
        .filter_map(|found| found.get_i64("_id").ok())
        .collect();
    let total = u64::try_from(kept.len()).unwrap_or(u64::MAX);
    let skip = usize::try_from(offset(query.paging.start)).unwrap_or(usize::MAX);
    let limit = usize::try_from(query.paging.limit).unwrap_or(usize::MAX);
    let fitting = among.iter().filter(|number| kept.contains(&int(**number)));
    let shown: Vec<EntityNumber> = fitting
        .skip(skip)
        .take(limit.saturating_add(1))
        .copied()
        .collect();
    let filter = doc! {"_id": among_these(shown.iter().copied()), "gone": false};
    let find = Find::all(DOCUMENTS, filter, ListedDocument::fields());
    let found = find.read::<ListedDocument>(collections).await?;
    let found = found.into_iter().map(|found| (found.number, found));
    let mut found: HashMap<i64, ListedDocument> = found.collect();
    // One that was erased since is left out.
    let items = shown
        .iter()
        .filter_map(|number| found.remove(&int(*number)));
    let scan = Scan::new(query.paging.order, query.paging.start);
    Ok(scan.page(items.map(DocumentRow::from).collect(), query.paging, total))
}

fn among_these(numbers: impl Iterator<Item = EntityNumber>) -> Document {
    doc! {"$in": numbers.map(int).collect::<Vec<i64>>()}
}

/// The document to which the share link with this hash leads.
pub(super) async fn link(
    collections: &Collections,
    hash: [u8; 32],
) -> Result<Option<OwnedDocument>, ReadError> {
    let filter = doc! {"links": binary(&hash)};
    let find = Find::all(DOCUMENTS, filter, OwnedRow::fields());
    let found = find.read::<OwnedRow>(collections).await?;
    Ok(found.into_iter().next().map(OwnedDocument::from))
}

/// Documents that have been in the bin since before this instant, oldest first.
pub(super) async fn overdue(
    collections: &Collections,
    before: Timestamp,
    most: u32,
) -> Result<Vec<OwnedDocument>, ReadError> {
    let find = Find {
        limit: most,
        sort: doc! {"deleted_at": 1, "_id": 1},
        ..Find::all(
            DOCUMENTS,
            doc! {"deleted_at": {"$lt": before.0}, "gone": false},
            OwnedRow::fields(),
        )
    };
    owned(collections, find).await
}

/// Documents of all accounts, those in the bin too, by number, behind this one.
pub(super) async fn behind(
    collections: &Collections,
    number: EntityNumber,
    most: u32,
) -> Result<Vec<OwnedDocument>, ReadError> {
    let filter = doc! {"_id": {"$gt": int(number)}, "gone": false};
    let find = Find {
        limit: most,
        ..Find::all(DOCUMENTS, filter, OwnedRow::fields())
    };
    owned(collections, find).await
}

async fn owned(collections: &Collections, find: Find) -> Result<Vec<OwnedDocument>, ReadError> {
    let found = find.read::<OwnedRow>(collections).await?;
    Ok(found.into_iter().map(OwnedDocument::from).collect())
}
