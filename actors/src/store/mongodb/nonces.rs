//! Nonces of signed requests, each a document until housekeeping finds that it has ended.

use mongodb::bson::{Document, doc};
use mongodb::error::Result;

use super::codec::{Met, binary, failed, met};
use super::connection::answered;
use super::schema::{Collections, NONCES};
use crate::store::{Nonce, ReadError};
use colloquy_model::time::Timestamp;

/// Inserts the nonce; whoever inserted it has spent it.
pub(super) async fn spend(
    collections: &Collections,
    nonce: Nonce,
) -> std::result::Result<bool, ReadError> {
    let nonces = collections.database.collection::<Document>(NONCES);
    let spent = doc! {"_id": binary(&nonce.hash), "ends_at": nonce.ends_at.0};
    match answered(nonces.insert_one(spent).into_future()).await {
        Ok(_) => Ok(true),
        Err(error) if met(&error) == Met::Duplicate => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

/// Deletes the nonces that have ended.
pub(super) async fn delete_ended(collections: &Collections) -> Result<()> {
    let nonces = collections.database.collection::<Document>(NONCES);
    let ended = doc! {"ends_at": {"$lte": Timestamp::now().0}};
    let deleted = answered(nonces.delete_many(ended).into_future()).await;
    deleted.map(|_| ())
}
