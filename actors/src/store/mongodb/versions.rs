//! Documents' versions: what they are, and the frames that hold their contents.

use std::collections::HashMap;

use bytes::Bytes;
use mongodb::bson::{Binary, Document, doc};
use serde::Deserialize;

use super::codec::{damaged, int, uint};
use super::documents::part_id;
use super::find::Find;
use super::find::one;
use super::lists::{Scan, count, offset};
use super::schema::{Collections, VERSIONS};
use crate::store::{FramedVersion, ReadError, StoredPage, StoredVersion, VersionQuery};
use colloquy_model::entity::Subject;
use colloquy_model::id::{UserId, VersionId};
use colloquy_model::page::Paging;
use colloquy_model::time::Timestamp;

/// Versions whose bases are read at once: more than a chain of frames has, so that a document
/// without branches needs one read. Tests meet the end of a read soon.
const BASES_AT_ONCE: u32 = if cfg!(test) { 4 } else { 256 };

/// A version without its content.
#[derive(Debug, Deserialize)]
struct VersionRow {
    number: i64,
    id_number: i64,
    id_tail: i64,
    label: Option<String>,
    branch: String,
    /// None where the server leaves an empty array out when it inserts.
    #[serde(default)]
    parents: Vec<i64>,
    message: Option<String>,
    author: Option<i64>,
    author_tail: Option<i64>,
    at: i64,
}

impl VersionRow {
    /// All fields but those that a page does not show.
    fn fields() -> Document {
        doc! {"frame": 0, "base": 0}
    }

    fn stored(self) -> StoredVersion {
        StoredVersion {
            number: uint(self.number),
            id: VersionId::from_parts(uint(self.id_number), uint(self.id_tail)),
            label: self.label.map(String::into_boxed_str),
            branch: self.branch.into(),
            parents: self.parents.into_iter().map(uint).collect(),
            message: self.message.map(String::into_boxed_str),
            author: self
                .author
                .zip(self.author_tail)
                .map(|(number, tail)| UserId::from_parts(uint(number), uint(tail))),
            at: Timestamp(self.at),
        }
    }
}

/// The versions of a document as its actor keeps them, the oldest first.
pub(super) async fn all(
    collections: &Collections,
    document: Subject,
) -> Result<Vec<StoredVersion>, ReadError> {
    let fields = doc! {"frame": 0, "base": 0, "message": 0};
    let find = Find::all(VERSIONS, doc! {"document": int(document.number)}, fields);
    let found = find.read::<VersionRow>(collections).await?;
    Ok(found.into_iter().map(VersionRow::stored).collect())
}

/// A page of a document's versions.
pub(super) async fn page(
    collections: &Collections,
    query: VersionQuery,
) -> Result<StoredPage<StoredVersion>, ReadError> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = doc! {"document": int(query.document.number)};
    if let Some(branch) = &query.branch {
        filter.insert("branch", branch);
    }
    let total = total(collections, &query, filter.clone());
    let known = cursor(collections, query.document, query.paging);
    if let Some((at, _)) = query.paging.start.cursor() {
        // A version's identifier carries its number: that the version is there is seen meanwhile.
        let number = VersionId::from_parts(at.number, at.tail).ordinal();
        let bound = part_id(int(query.document.number), int(number));
        filter.insert("_id", doc! {scan.compare(): bound});
    }
    let find = Find {
        collection: VERSIONS,
        filter,
        fields: VersionRow::fields(),
        sort: doc! {"_id": scan.direction()},
        skip: offset(query.paging.start),
        limit: query.paging.limit.saturating_add(1),
    };
    let items = find.read::<VersionRow>(collections);
    let (known, total, items) = tokio::join!(known, total, items);
    known?;
    let items = items?.into_iter().map(VersionRow::stored).collect();
    Ok(scan.page(items, query.paging, total?))
}

/// Looks whether the page's cursor is a version of this document.
async fn cursor(
    collections: &Collections,
    document: Subject,
    paging: Paging,
) -> Result<(), ReadError> {
    let Some((at, field)) = paging.start.cursor() else {
        return Ok(());
    };
    let number = VersionId::from_parts(at.number, at.tail).ordinal();
    let filter = doc! {
        "_id": part_id(int(document.number), int(number)),
        "id_number": int(at.number), "id_tail": int(at.tail),
    };
    let found: Vec<Document> = Find::all(VERSIONS, filter, doc! {"_id": 1})
        .read(collections)
        .await?;
    found.first().map(|_| ()).ok_or(ReadError::NoCursor(field))
}

/// How many versions match. Numbers have no gap: all of them need not be counted.
async fn total(
    collections: &Collections,
    query: &VersionQuery,
    filter: Document,
) -> Result<u64, ReadError> {
    if query.branch.is_some() {
        return count(collections, VERSIONS, filter).await;
    }
    let last = Find {
        sort: doc! {"_id": -1},
        limit: 1,
        ..Find::all(VERSIONS, filter, doc! {"number": 1, "base": 1})
    };
    let last = last.read::<BaseRow>(collections).await?;
    Ok(last.first().map_or(0, |last| uint(last.number)))
}

/// On which version's content a frame stands; none: it stands alone.
#[derive(Debug, Deserialize)]
struct BaseRow {
    number: i64,
    base: Option<i64>,
}

impl BaseRow {
    /// Only an older one can be a base: broken data must not send us round for ever.
    fn base(&self) -> Option<i64> {
        self.base.filter(|base| *base < self.number)
    }
}

/// A version's content.
#[derive(Debug, Deserialize)]
struct FrameRow {
    number: i64,
    frame: Binary,
}

/// A version with its content.
#[derive(Debug, Deserialize)]
struct FramedRow {
    #[serde(flatten)]
    version: VersionRow,
    base: Option<i64>,
    frame: Binary,
}

/// A version, and the frames from which its content is made, the one that stands alone first. One
/// that stands alone takes one read, others two or three, however long the chain.
pub(super) async fn framed(
    collections: &Collections,
    document: Subject,
    number: u64,
) -> Result<Option<FramedVersion>, ReadError> {
    let filter = doc! {"_id": part_id(int(document.number), int(number))};
    let found: Option<FramedRow> = one(collections, VERSIONS, filter).await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let last = BaseRow {
        number: found.version.number,
        base: found.base,
    };
    let mut frames = match last.base() {
        Some(base) => {
            let chain = chain(collections, document, base).await?;
            frames(collections, document, &chain).await?
        }
        None => Vec::new(),
    };
    frames.push(found.frame.bytes.into());
    Ok(Some(FramedVersion {
        version: found.version.stored(),
        frames,
    }))
}

/// The numbers of the versions whose frames make the content of this one, the last one first.
async fn chain(
    collections: &Collections,
    document: Subject,
    number: i64,
) -> Result<Vec<i64>, ReadError> {
    let mut chain = Vec::new();
    let mut next = Some(number);
    while let Some(highest) = next {
        let filter = doc! {
            "document": int(document.number),
            "_id": {"$lte": part_id(int(document.number), highest)},
        };
        let find = Find {
            sort: doc! {"_id": -1},
            limit: BASES_AT_ONCE,
            ..Find::all(VERSIONS, filter, doc! {"number": 1, "base": 1})
        };
        let found = find.read::<BaseRow>(collections).await?;
        let lowest = found.last().map_or(highest, |last| last.number);
        let bases: HashMap<i64, Option<i64>> =
            found.iter().map(|row| (row.number, row.base())).collect();
        while let Some(number) = next.filter(|number| *number >= lowest) {
            let base = bases
                .get(&number)
                .ok_or_else(|| missing(document, number))?;
            chain.push(number);
            next = *base;
        }
    }
    Ok(chain)
}

/// The frames of these versions, in the opposite order.
async fn frames(
    collections: &Collections,
    document: Subject,
    chain: &[i64],
) -> Result<Vec<Bytes>, ReadError> {
    let filter = among(document, chain.iter().copied());
    let find = Find::all(VERSIONS, filter, doc! {"number": 1, "frame": 1});
    let found = find.read::<FrameRow>(collections).await?;
    let found = found.into_iter().map(|row| (row.number, row.frame.bytes));
    let mut found: HashMap<i64, Vec<u8>> = found.collect();
    let frame = |number: &i64| {
        let frame = found.remove(number);
        frame
            .map(Bytes::from)
            .ok_or_else(|| missing(document, *number))
    };
    chain.iter().rev().map(frame).collect()
}

fn missing(document: Subject, number: i64) -> ReadError {
    let place = format!("{document}: version {number}");
    damaged(&place, "it is not there").into()
}

/// The versions of a document with these numbers.
fn among(document: Subject, numbers: impl Iterator<Item = i64>) -> Document {
    let ids: Vec<String> = numbers
        .map(|number| part_id(int(document.number), number))
        .collect();
    doc! {"_id": {"$in": ids}}
}

/// The identifier of a version.
#[derive(Debug, Deserialize)]
struct VersionIdRow {
    number: i64,
    id_number: i64,
    id_tail: i64,
}

/// The identifiers of versions, in the order of the numbers.
pub(super) async fn ids(
    collections: &Collections,
    document: Subject,
    numbers: &[u64],
) -> Result<Vec<VersionId>, ReadError> {
    let filter = among(document, numbers.iter().copied().map(int));
    let fields = doc! {"number": 1, "id_number": 1, "id_tail": 1};
    let find = Find::all(VERSIONS, filter, fields);
    let found = find.read::<VersionIdRow>(collections).await?;
    let found: HashMap<i64, VersionId> = found
        .into_iter()
        .map(|row| {
            let id = VersionId::from_parts(uint(row.id_number), uint(row.id_tail));
            (row.number, id)
        })
        .collect();
    let id = |number: &u64| {
        let id = found.get(&int(*number)).copied();
        id.ok_or_else(|| missing(document, int(*number)))
    };
    numbers.iter().map(id).collect()
}
