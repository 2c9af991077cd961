//! What a start does before anything is served: the views are filled.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use serde::de::DeserializeOwned;

use super::codec::{binary, malformed, uint};
use super::connection::answered;
use super::entity_documents::RecordDocument;
use super::schema::{Collections, KEY_USES, RECORDS, RENAMES};
use crate::sealing::UnwrapError;
use crate::store::{CommitSink, Operator, RECOVERED, TransferError};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::WebhookId;
use colloquy_model::idempotency::{KEPT_FOR, KeyHash};
use colloquy_model::key::secret_hash;
use colloquy_model::position::Position;
use colloquy_model::secret;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Why the store on MongoDB can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server does not answer, or refuses.
    #[error("MongoDB can't be used: {0}; does `[store] uri` name a server that runs?")]
    Server(#[from] Error),
    /// A record can't be read, and going on without it would lose something.
    #[error("{0} can't be read: {1}")]
    Record(Subject, serde_json::Error),
    /// There is nothing in it.
    #[error("the database {0} holds nothing: there is no store to export or to check")]
    Absent(String),
    /// Another process uses it.
    #[error("the database {0} is in use by a server; stop that one first")]
    InUse(String),
    /// A dump is not imported to its end.
    #[error(
        "the database {0} has only a part of a dump; run the same `colloquy import` again, or drop \
         it"
    )]
    Importing(String),
    /// The master keys at hand do not open it.
    #[error("the master key: {0}")]
    OtherMasterKey(#[from] UnwrapError),
    /// The master key is gone.
    #[error(
        "the master key is missing: the database holds secrets that are sealed under one, and keeps none itself; give it by \
         [encryption] master_key_file"
    )]
    NoMasterKey,
    /// What is to be erased before an export can't be.
    #[error("what is to be erased can't be: {0}")]
    Erasing(TransferError),
    /// The operating system starts no further thread.
    #[error("a thread can't be started: {0}; is the limit of threads too low?")]
    Thread(#[from] std::io::Error),
}

/// The `_id` of the document that says how operators are known.
pub(super) const OPERATOR: &str = "operator";

/// Tells the sink what it has to know before anything is asked.
pub(super) async fn tell(
    collections: &Collections,
    sink: &dyn CommitSink,
) -> Result<(), OpenError> {
    let uses: Vec<Document> = all(collections, KEY_USES, doc! {}).await?;
    let uses: HashMap<i64, i64> = uses
        .iter()
        .filter_map(|used| Some((used.get_i64("_id").ok()?, used.get_i64("at").ok()?)))
        .collect();
    for kind in RECOVERED {
        let filter = doc! {"kind": kind as i32, "gone": false};
        let records: Vec<RecordDocument> = all(collections, RECORDS, filter).await?;
        for record in records {
            let used = uses
                .get(&record.number)
                .copied()
                .map_or(Timestamp::EPOCH, Timestamp);
            let record = record.stored(kind);
            sink.recovered_record(&record, used)
                .map_err(|error| OpenError::Record(record.subject, error))?;
        }
    }
    let filter = doc! {"kind": Kind::Webhook as i32, "gone": false};
    let endpoints: Vec<RecordDocument> = all(collections, RECORDS, filter).await?;
    for endpoint in endpoints {
        let record = endpoint.stored(Kind::Webhook);
        let id = WebhookId::from_parts(record.subject.number, record.subject.tail);
        sink.recovered_endpoint(id, record.tenant);
    }
    tell_names(collections, sink).await?;
    tell_keys(collections, sink).await
}

/// Tells the sink of the idempotency keys whose time is not over, oldest first.
async fn tell_keys(collections: &Collections, sink: &dyn CommitSink) -> Result<(), OpenError> {
    let since = (Timestamp::now() - KEPT_FOR).0;
    let filter = doc! {"answer.at": {"$gt": since}};
    let log = collections.log.clone_with_type::<Document>();
    let fields = doc! {"key": 1, "position": 1};
    let found = log
        .find(filter)
        .projection(fields)
        .sort(doc! {"answer.at": 1});
    let mut cursor = found.await?;
    while cursor.advance().await.map_err(OpenError::Server)? {
        let document = cursor.deserialize_current().map_err(OpenError::Server)?;
        let key = document.get_binary_generic("key");
        let key = key
            .ok()
            .and_then(|key| KeyHash::try_from(key.as_slice()).ok());
        if let (Some(key), Ok(position)) = (key, document.get_i64("position")) {
            sink.keys().note_recovered(&key, Position(position));
        }
    }
    Ok(())
}

async fn all<T: DeserializeOwned + Send + Sync>(
    collections: &Collections,
    collection: &str,
    filter: Document,
) -> Result<Vec<T>, Error> {
    let collection = collections.database.collection::<T>(collection);
    let mut cursor = collection.find(filter).sort(doc! {"_id": 1}).await?;
    let mut found = Vec::new();
    while cursor.advance().await? {
        found.push(cursor.deserialize_current()?);
    }
    Ok(found)
}

/// The newest number that an entity has.
pub(super) async fn newest(collections: &Collections) -> Result<EntityNumber, Error> {
    let log = collections.log.clone_with_type::<Document>();
    let last = log
        // Numbers have 60 bits: the first of their 16 digits is 0, and no answer or void is below.
        .find_one(doc! {"_id": {"$lt": "1"}})
        .projection(doc! {"entity": 1})
        .sort(doc! {"_id": -1});
    let found = answered(last.into_future()).await?;
    Ok(found
        .and_then(|last| last.get_i64("entity").ok())
        .map_or(EntityNumber::ZERO, uint))
}

/// How operators are known: by the token that is set, else by the one that the first start made.
pub(super) async fn operator(
    collections: &Collections,
    set: Option<&str>,
) -> Result<Operator, Error> {
    if let Some(token) = set {
        return Ok(Operator {
            hash: secret_hash(token),
            fresh: None,
        });
    }
    let token = secret::generate("op_");
    let hash = secret_hash(&token);
    let made = doc! {"$setOnInsert": {"hash": binary(&hash)}};
    let update = collections
        .meta
        .find_one_and_update(doc! {"_id": OPERATOR}, made)
        .upsert(true)
        .return_document(mongodb::options::ReturnDocument::After);
    let kept = answered(update.into_future()).await?;
    let kept = kept.and_then(|kept| kept.get_binary_generic("hash").ok().cloned());
    let missing = || malformed("the hash of the operators' token is not what it must be");
    let kept = kept
        .and_then(|kept| kept.try_into().ok())
        .ok_or_else(missing)?;
    Ok(Operator {
        hash: kept,
        fresh: (kept == hash).then_some(token),
    })
}

/// The operators' token in place of one that nobody has seen.
pub(super) async fn new_operator(collections: &Collections) -> Result<Operator, Error> {
    let token = secret::generate("op_");
    let hash = secret_hash(&token);
    let replace = collections.meta.update_one(
        doc! {"_id": OPERATOR},
        doc! {"$set": {"hash": binary(&hash)}},
    );
    answered(replace.upsert(true).into_future()).await?;
    Ok(Operator {
        hash,
        fresh: Some(token),
    })
}

/// Tells the sink which names some headers do not show yet.
pub(super) async fn tell_names(
    collections: &Collections,
    sink: &dyn CommitSink,
) -> Result<(), Error> {
    let renames = collections.database.collection::<Document>(RENAMES);
    let mut cursor = renames.find(doc! {}).await?;
    while cursor.advance().await? {
        let rename = cursor.deserialize_current()?;
        let customer = rename.get("_id").and_then(Bson::as_i64).unwrap_or(0);
        let revision = Sequence(uint(rename.get_i64("revision").unwrap_or(0)));
        let name = rename.get_str("name").unwrap_or_default();
        sink.recovered_name(uint(customer), name, revision);
    }
    Ok(())
}
