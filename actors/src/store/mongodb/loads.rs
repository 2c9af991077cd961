//! Single entities, for their actors.

use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};

use super::codec::{damaged, failed, int, uint};
use super::connection::answered;
use super::entity_documents::{ConversationDocument, RecordDocument};
use super::find::{all, named, one};
use super::header::HeaderDocument;
use super::log::{self, LogDocument, log_id};
use super::positions;
use super::schema::{CONVERSATIONS, Collections, DOCUMENTS, LOG, RECORDS};
use crate::store::{ReadError, Stored, StoredConversation, StoredRecord};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// An entity as it is committed.
pub(super) async fn load(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<Stored>, ReadError> {
    match subject.kind {
        Kind::Conversation => {
            let found = conversation(collections, subject).await?;
            Ok(found.map(|stored| Stored::Conversation(Box::new(stored))))
        }
        Kind::Document => {
            wait_for_header(collections, subject.kind, subject.number).await?;
            let found = super::document_loads::load(collections, subject).await?;
            Ok(found.map(|stored| Stored::Document(Box::new(stored))))
        }
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision
        | Kind::Audit
        | Kind::Client
        | Kind::Attachment
        | Kind::Erasure
        | Kind::Grant
        | Kind::SigningKeys
        | Kind::Alerts => {
            wait_for_header(collections, subject.kind, subject.number).await?;
            Ok(record(collections, subject).await?.map(Stored::Record))
        }
    }
}

/// The collection that has the headers of entities of this kind.
fn headers_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Conversation => CONVERSATIONS,
        Kind::Document => DOCUMENTS,
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision
        | Kind::Audit
        | Kind::Client
        | Kind::Attachment
        | Kind::Erasure
        | Kind::Grant
        | Kind::SigningKeys
        | Kind::Alerts => RECORDS,
    }
}

/// Waits until the last commit of an entity is carried over: the node that made it does that before
/// it answers, and whoever leads where that node is gone.
pub(super) async fn wait_for_header(
    collections: &Collections,
    kind: Kind,
    number: EntityNumber,
) -> Result<(), ReadError> {
    let until = Instant::now() + CARRIED_WITHIN;
    loop {
        let last = end_of(collections, number).await?;
        // The identifier of another kind's entity names nothing of this one.
        let is_of_kind = |last: &Document| last.get_i32("kind").is_ok_and(|of| of == kind as i32);
        let waits = |last: &Document| is_of_kind(last) && last.contains_key("header");
        let Some(last) = last.filter(waits) else {
            return Ok(());
        };
        let sequence = log::last_sequence(&last);
        let carried = doc! {"_id": int(number), "seq": {"$gte": int(sequence.0)}};
        if one::<Document>(collections, headers_of(kind), carried)
            .await?
            .is_some()
        {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(ReadError::Away);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until what was committed to webhook endpoints is carried over: the node that did it may
/// have ended before.
pub(super) async fn wait_for_endpoints(collections: &Collections) -> Result<(), ReadError> {
    let standing = positions::standing(collections).await;
    let carried = standing.map_err(|error| failed(&error))?.carried;
    let filter = doc! {"kind": Kind::Webhook as i32, "position": {"$gt": carried.0}};
    let changed: Vec<LogDocument> = all(collections, LOG, filter, doc! {"position": 1}).await?;
    let mut endpoints: Vec<i64> = changed.iter().map(|changed| changed.entity).collect();
    endpoints.dedup();
    for endpoint in endpoints {
        wait_for_header(collections, Kind::Webhook, uint(endpoint)).await?;
    }
    Ok(())
}

/// How long a load waits for the node that committed last …
const CARRIED_WITHIN: Duration = Duration::from_secs(5);
/// … and how often it looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Which documents of the log are an entity's.
pub(super) fn log_of(entity: EntityNumber) -> Document {
    let (first, end) = (
        log_id(entity, Sequence::ZERO),
        log_id(entity, Sequence(u64::MAX)),
    );
    doc! {"_id": {"$gte": first, "$lte": end}}
}

/// The same for what every load asks: FerretDB compares ranges itself, on whole collections, and leaves
/// equal fields to its database. On MongoDB the bounds of `_id` are what the index is asked for.
fn loaded_log_of(entity: EntityNumber) -> Document {
    let mut filter = log_of(entity);
    filter.insert("entity", int(entity));
    filter
}

/// The last document of an entity's log, whatever of it but the entity can't be read.
pub(super) async fn end_of(
    collections: &Collections,
    entity: EntityNumber,
) -> Result<Option<Document>, ReadError> {
    let log = collections.log.clone_with_type::<Document>();
    let last = log.find_one(loaded_log_of(entity)).sort(doc! {"_id": -1});
    let found = answered(last.into_future()).await;
    found.map_err(|error| failed(&error))
}

/// The last document of an entity's log.
pub(super) async fn last_of(
    collections: &Collections,
    entity: EntityNumber,
) -> Result<Option<LogDocument>, ReadError> {
    let last = collections
        .log
        .find_one(loaded_log_of(entity))
        .sort(doc! {"_id": -1});
    let found = answered(last.into_future()).await;
    found.map_err(|error| failed(&error))
}

/// The node that wrote what follows in an entity's log directly behind this sequence; none where
/// nothing follows. What this node writes itself behind what it has read does not make that old.
pub(super) async fn writer_behind(
    collections: &Collections,
    entity: Subject,
    sequence: Sequence,
) -> Result<Option<i64>, ReadError> {
    let (next, end) = (
        log_id(entity.number, sequence.next()),
        log_id(entity.number, Sequence(u64::MAX)),
    );
    let log = collections.log.clone_with_type::<Document>();
    let found = log
        .find_one(doc! {"entity": int(entity.number), "_id": {"$gte": next, "$lte": end}})
        .projection(doc! {"node": 1})
        .sort(doc! {"_id": 1});
    let found = answered(found.into_future())
        .await
        .map_err(|error| failed(&error))?;
    Ok(found.map(|document| document.get_i64("node").unwrap_or(0)))
}

/// Whether an entity of which nothing was found is not there: its log is empty, or ends with its
/// deletion, or is that of another one whose identifier has the same number.
pub(super) async fn is_vacant(
    collections: &Collections,
    entity: Subject,
) -> Result<bool, ReadError> {
    let last = last_of(collections, entity.number).await?;
    Ok(last.is_none_or(|last| {
        let is_deletion = matches!(
            last.header,
            Some(
                HeaderDocument::RecordGone
                    | HeaderDocument::RecordErased
                    | HeaderDocument::ConversationGone { .. }
                    | HeaderDocument::DocumentGone { .. }
            )
        ) || ends_a_conversation(&last);
        is_deletion || last.subject() != Some(entity)
    }))
}

/// The `_id` of the last document of the log that holds rows of this entity.
pub(super) async fn last_id_of(
    collections: &Collections,
    entity: EntityNumber,
) -> Result<Option<String>, ReadError> {
    let log = collections.log.clone_with_type::<Document>();
    let last = log
        .find_one(log_of(entity))
        .projection(doc! {"_id": 1})
        .sort(doc! {"_id": -1});
    let found = answered(last.into_future()).await;
    let found = found.map_err(|error| failed(&error))?;
    Ok(found.and_then(|last| last.get_str("_id").ok().map(str::to_owned)))
}

/// Whether this very conversation is there, and has not been taken away for good.
pub(super) async fn is_conversation_there(
    collections: &Collections,
    conversation: Subject,
) -> Result<bool, ReadError> {
    let mut filter = named(conversation);
    filter.insert("gone", doc! {"$ne": true});
    let found = one::<Document>(collections, CONVERSATIONS, filter).await?;
    Ok(found.is_some())
}

/// Whether this document of the log takes its conversation away; one that was imported has no header.
fn ends_a_conversation(last: &LogDocument) -> bool {
    let row = last.rows.last();
    row.is_some_and(|row| row.kind == EventKind::ConversationErased as i32)
}

async fn record(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<StoredRecord>, ReadError> {
    let mut filter = named(subject);
    filter.insert("kind", subject.kind as i32);
    filter.insert("gone", false);
    let found: Option<RecordDocument> = one(collections, RECORDS, filter).await?;
    Ok(found.map(|record| record.stored(subject.kind)))
}

/// A conversation's header and the last document of its log, both as of the same commit: waits
/// until that one is carried over. None where this very conversation is not there.
pub(super) async fn header_and_last(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<(Document, LogDocument)>, ReadError> {
    let until = Instant::now() + CARRIED_WITHIN;
    loop {
        let filter = doc! {"_id": int(subject.number)};
        let (header, last) = tokio::join!(
            one::<Document>(collections, CONVERSATIONS, filter),
            last_of(collections, subject.number)
        );
        let (header, last) = (header?, last?);
        let is_it = |last: &LogDocument| last.subject() == Some(subject);
        if last.as_ref().is_some_and(ends_a_conversation) {
            return Ok(None);
        }
        let is_told = |error| damaged(&subject.to_string(), error);
        let numbers = header.as_ref().map(tail_and_sequence).transpose();
        match (header.zip(numbers.map_err(is_told)?), last) {
            (Some((_, (tail, _))), None) if tail == int(subject.tail) => {
                return Err(damaged(&subject.to_string(), "its log is not there").into());
            }
            (Some((header, (_, sequence))), Some(last))
                if is_it(&last) && is_of(sequence, &last) =>
            {
                return Ok(Some((header, last)));
            }
            (_, Some(last)) if is_it(&last) => {}
            (_, _) => return Ok(None),
        }
        if Instant::now() >= until {
            return Err(ReadError::Away);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The rest of a header's identifier, and the sequence up to which it is carried over.
fn tail_and_sequence(header: &Document) -> Result<(i64, i64), mongodb::bson::error::Error> {
    Ok((header.get_i64("tail")?, header.get_i64("seq")?))
}

/// Whether a header that is carried over up to this sequence shows what this document leaves of it, and
/// nothing later: the two are read at the same time, so that either may be older.
fn is_of(carried: i64, last: &LogDocument) -> bool {
    let sequence = int(last.last_sequence().0);
    carried == sequence || (carried < sequence && last.header.is_none())
}

async fn conversation(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<StoredConversation>, ReadError> {
    let Some((header, last)) = header_and_last(collections, subject).await? else {
        return Ok(None);
    };
    let row = last.rows.last();
    let row = row.ok_or_else(|| damaged(&subject.to_string(), "its last commit has no rows"))?;
    let header = mongodb::bson::deserialize_from_document::<ConversationDocument>(header);
    let header = header.map_err(|error| damaged(&subject.to_string(), error))?;
    let state = header.state.state(&subject.to_string())?;
    let customer = doc! {"_id": int(state.customer.number())};
    let customer: Option<RecordDocument> = one(collections, RECORDS, customer).await?;
    let (customer_name, customer_revision) = customer
        .map(|customer| (customer.name.into(), Sequence(uint(customer.seq))))
        .unwrap_or_default();
    Ok(Some(StoredConversation {
        tenant: Tenant::from_number(header.tenant),
        state,
        customer_name,
        customer_revision,
        sequence: last.last_sequence(),
        updated_at: Timestamp(row.at),
        counts: row.counts(),
    }))
}
