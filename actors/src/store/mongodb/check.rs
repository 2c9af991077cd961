//! `colloquy check` on MongoDB: whether the log is whole, and whether what is carried over from it
//! agrees with it. Nothing is read as a whole: memory holds a page at a time.

use std::collections::HashSet;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::codec::uint;
use super::findings::{Findings, page};
use super::log::log_id;
use super::open::OpenError;
use super::positions::{Standing, standing};
use super::schema::{CONVERSATIONS, Collections, DOCUMENTS, LOG, NAMES, RECORDS};
use super::transfer::{MongoTransfer, import_of};
use super::{check_counters, check_log, loads};
use crate::store::{Finding, KnownAttachment};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::NameField;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AttachmentId;
use colloquy_model::sequence::Sequence;

/// Checks a database that no server uses, and says what is wrong in it. It is first brought to the
/// state that a server would begin with.
///
/// # Errors
/// A server uses it, there is nothing in it, it has only a part of a dump, or it does not answer.
pub fn check(uri: &str, database: &str) -> Result<Vec<Finding>, OpenError> {
    let opened = MongoTransfer::to_check(uri, database)?;
    let found = opened.runtime.block_on(findings(&opened.collections))?;
    Ok(found)
}

/// The attachments of a database, and whether their bytes must be there.
///
/// # Errors
/// A server uses it, or MongoDB does not answer.
pub fn attachments(uri: &str, database: &str) -> Result<Vec<KnownAttachment>, OpenError> {
    let opened = MongoTransfer::to_check(uri, database)?;
    Ok(opened.runtime.block_on(known(&opened.collections))?)
}

async fn known(collections: &Collections) -> Result<Vec<KnownAttachment>, Error> {
    let database = &collections.database;
    let (records, log) = (
        database.collection::<Document>(RECORDS),
        database.collection::<Document>(LOG),
    );
    let attachments = doc! {"kind": Kind::Attachment as i32, "gone": false};
    let mut cursor = records.find(attachments).await?;
    let mut known = Vec::new();
    while cursor.advance().await? {
        let record = cursor.deserialize_current()?;
        let field = |name| record.get_i64(name).unwrap_or(0);
        let own = loads::log_of(uint(field("_id")));
        let last = log.find_one(own).sort(doc! {"_id": -1}).await?;
        let rows = last.as_ref().and_then(|last| last.get_array("rows").ok());
        let row = rows.and_then(|rows| rows.last()?.as_document());
        let code = row.and_then(|row| row.get_i32("kind").ok());
        let kind = code.and_then(|code| EventKind::of_row(code.into()));
        known.push(KnownAttachment {
            tenant: Tenant::from_number(field("tenant")),
            id: AttachmentId::from_parts(uint(field("_id")), uint(field("tail"))),
            is_whole: kind.is_some_and(EventKind::leaves_an_attachment),
        });
    }
    Ok(known)
}

/// What is wrong in a database that is recovered.
///
/// # Errors
/// The server does not answer.
pub(super) async fn findings(collections: &Collections) -> Result<Vec<Finding>, Error> {
    let mut findings = Findings::default();
    positions(collections, &mut findings).await?;
    check_log::entities(collections, &mut findings).await?;
    for collection in [CONVERSATIONS, RECORDS, DOCUMENTS] {
        headers_without_log(collections, collection, &mut findings).await?;
    }
    names(collections, &mut findings).await?;
    check_counters::counters(collections, &mut findings).await?;
    Ok(findings.all())
}

/// Where a document of the log stands. A void has no rows.
#[derive(Debug, Deserialize)]
struct Placed {
    position: i64,
    #[serde(default)]
    node: i64,
    #[serde(default)]
    rows: Vec<IgnoredAny>,
    key: Option<IgnoredAny>,
    answer: Option<IgnoredAny>,
}

/// Checks that every position is taken once, and none is missing up to the one up to which everything
/// is decided. What was imported may have gaps.
async fn positions(collections: &Collections, findings: &mut Findings) -> Result<(), Error> {
    let Standing { next, carried } = standing(collections).await?;
    let log = collections.database.collection::<Placed>(LOG);
    let fields = doc! {"position": 1, "node": 1, "rows.kind": 1, "key": 1, "answer.at": 1};
    let found = log.find(doc! {}).projection(fields);
    let mut cursor = found.sort(doc! {"position": 1}).await?;
    let mut is_dense = import_of(collections).await?.is_none();
    let mut end: i64 = 1;
    while cursor.advance().await? {
        let placed = cursor.deserialize_current()?;
        is_dense |= placed.node != 0;
        let position = placed.position;
        if position < end {
            let found = format!("position {position} is taken twice");
            findings.note("positions are taken once", found);
        }
        if position > end && is_dense && end <= carried.0 {
            let last = (position - 1).min(carried.0);
            findings.note(
                "positions without gap",
                format!("positions {end} to {last}"),
            );
        }
        if placed.key.is_some() != placed.answer.is_some() {
            let found = format!("position {position}");
            findings.note("kept answers have their keys", found);
        }
        let rows = i64::try_from(placed.rows.len()).unwrap_or(i64::MAX);
        end = end.max(position.saturating_add(rows.max(1)));
    }
    if is_dense && end <= carried.0 {
        let found = format!("positions {end} to {}", carried.0);
        findings.note("positions without gap", found);
    }
    if end > next.0 {
        let found = format!("position {} is not given yet", end - 1);
        findings.note("positions are given before they are taken", found);
    }
    Ok(())
}

/// Which of these `_id`s a collection has, of documents for which this holds, too.
async fn there(
    collections: &Collections,
    collection: &str,
    ids: Vec<Bson>,
    holds: Document,
) -> Result<HashSet<String>, Error> {
    let mut filter = doc! {"_id": {"$in": ids}};
    filter.extend(holds);
    let found = collections.database.collection::<Document>(collection);
    let mut cursor = found.find(filter).projection(doc! {"_id": 1}).await?;
    let mut there = HashSet::new();
    while cursor.advance().await? {
        there.extend(
            cursor
                .deserialize_current()?
                .get("_id")
                .map(Bson::to_string),
        );
    }
    Ok(there)
}

/// Checks that every header has a log. What never had a row has the sequence 0.
async fn headers_without_log(
    collections: &Collections,
    collection: &'static str,
    findings: &mut Findings,
) -> Result<(), Error> {
    let headers = collections.database.collection::<Document>(collection);
    let found = headers.find(doc! {"seq": {"$gt": 0_i64}});
    let found = found.projection(doc! {"_id": 1}).sort(doc! {"_id": 1});
    let mut cursor = found.await?;
    loop {
        let page = page(&mut cursor).await?;
        if page.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = page
            .iter()
            .flat_map(|header| header.get_i64("_id"))
            .collect();
        let first = |number: &i64| Bson::from(log_id(uint(*number), Sequence::ZERO.next()));
        let ids = numbers.iter().map(first).collect();
        let there = there(collections, LOG, ids, Document::new()).await?;
        for number in numbers {
            if !there.contains(&first(&number).to_string()) {
                findings.note("headers have a log", format!("{collection} {number}"));
            }
        }
    }
}

/// Checks that every name is that of a record.
async fn names(collections: &Collections, findings: &mut Findings) -> Result<(), Error> {
    let names = collections.database.collection::<Document>(NAMES);
    // Of an attachment that a conversation has taken it names the conversation.
    let of_records = doc! {"field": {"$ne": NameField::TakenAttachment as i32}};
    let found = names.find(of_records).projection(doc! {"record": 1});
    let mut cursor = found.sort(doc! {"_id": 1}).await?;
    loop {
        let page = page(&mut cursor).await?;
        if page.is_empty() {
            return Ok(());
        }
        let records = page.iter().flat_map(|name| name.get("record").cloned());
        let there = there(
            collections,
            RECORDS,
            records.collect(),
            doc! {"gone": false},
        )
        .await?;
        for name in page {
            let record = name.get("record").map(Bson::to_string).unwrap_or_default();
            if !there.contains(&record) {
                let name = name.get_str("_id").unwrap_or_default();
                findings.note(
                    "names have records",
                    format!("name {name}: record {record}"),
                );
            }
        }
    }
}
