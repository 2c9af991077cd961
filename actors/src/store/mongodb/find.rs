//! One read of a collection: which documents, what of them, in which order and how many.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use serde::de::DeserializeOwned;

use super::codec::{failed, int};
use super::connection::answered;
use super::schema::Collections;
use crate::store::ReadError;
use colloquy_model::entity::Subject;

/// Documents that come with one answer where no number is asked for.
const BATCH: u32 = 1_000;

/// How many documents may come with the first answer, so that a page costs one round trip: one more
/// than are asked for, for then the server keeps no cursor.
pub(super) fn at_once(limit: i64) -> u32 {
    let limit = u32::try_from(limit).unwrap_or(BATCH);
    if limit == 0 {
        BATCH
    } else {
        limit.saturating_add(1)
    }
}

/// What is read of a collection.
#[derive(Debug)]
pub(super) struct Find {
    pub(super) collection: &'static str,
    pub(super) filter: Document,
    /// The fields that come, or those that don't; empty: all come.
    pub(super) fields: Document,
    pub(super) sort: Document,
    pub(super) skip: u64,
    /// How many documents are read at most; 0: all.
    pub(super) limit: u32,
}

impl Find {
    /// All documents that match, in the order of their `_id`s.
    pub(super) fn all(collection: &'static str, filter: Document, fields: Document) -> Self {
        Find {
            collection,
            filter,
            fields,
            sort: mongodb::bson::doc! {"_id": 1},
            skip: 0,
            limit: 0,
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// It takes longer than a list may, the server does not answer, or a document can't be read.
    pub(super) async fn read<T>(self, collections: &Collections) -> Result<Vec<T>, ReadError>
    where
        T: DeserializeOwned + Send + Sync,
    {
        let collection = collections.database.collection::<T>(self.collection);
        let found = async {
            let mut cursor = collection
                .find(self.filter)
                .projection(self.fields)
                .sort(self.sort)
                .skip(self.skip)
                .limit(self.limit.into())
                .batch_size(at_once(self.limit.into()))
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
}

/// How long a list may take.
pub(super) const LIST_MAX: Duration = Duration::from_secs(2);

/// A document of a collection; none where there is none.
pub(super) async fn one<T: DeserializeOwned + Send + Sync>(
    collections: &Collections,
    collection: &str,
    filter: Document,
) -> Result<Option<T>, ReadError> {
    let collection = collections.database.collection::<T>(collection);
    let found = answered(collection.find_one(filter).into_future()).await;
    found.map_err(|error| failed(&error))
}

/// What names a thing with all of its identifier.
pub(super) fn named(subject: Subject) -> Document {
    doc! {"_id": int(subject.number), "tail": int(subject.tail)}
}

/// All documents of a collection that match, in this order.
pub(super) async fn all<T: DeserializeOwned + Send + Sync>(
    collections: &Collections,
    collection: &str,
    filter: Document,
    order: Document,
) -> Result<Vec<T>, ReadError> {
    let collection = collections.database.collection::<T>(collection);
    let found = async {
        let mut cursor = collection.find(filter).sort(order).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok(found)
    };
    super::connection::answered(found)
        .await
        .map_err(|error| failed(&error))
}
