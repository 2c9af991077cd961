//! The store key, which all nodes share, and how a start unwraps it: before it reads or writes
//! anything else.

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::ReturnDocument;
use tokio::runtime::Builder;

use super::codec::{binary, failed, malformed};
use super::connection::{self, answered};
use super::open::OpenError;
use super::schema::{Collections, RECORDS};
use crate::sealing::{self, GivenKeys, MasterKey, MasterKeys, WrappedKey};
use crate::store::{ReadError, Rewrap};
use colloquy_model::entity::Kind;

/// The `_id` of the document that holds the store key.
pub(super) const STORE_KEY: &str = "store_key";
/// The `_id` of the document that holds the master key, where none is given.
const MASTER_KEY: &str = "master_key";

/// Unwraps the store key, with the master keys that are given and the one that the database keeps. The
/// first node makes what is not there.
pub(super) async fn open(
    collections: &Collections,
    given: &GivenKeys,
) -> Result<MasterKeys, OpenError> {
    let stored = stored(collections).await?;
    let sealed_under = sealed_under(collections).await?;
    let keys = match at_hand(collections, given).await? {
        Some(keys) => keys,
        None if stored.is_some() || sealed_under.is_some() => return Err(OpenError::NoMasterKey),
        None => MasterKeys::kept(make_kept(collections).await?),
    };
    let wrapped = match stored {
        Some(wrapped) => wrapped,
        None => first(collections, keys.first_store_key(sealed_under.as_deref())?).await?,
    };
    keys.open(&wrapped)?;
    Ok(keys)
}

/// Unwraps the store key of a database that is only read; where no master key is at hand, nothing is
/// unsealed.
pub(super) async fn open_to_read(
    collections: &Collections,
    given: &GivenKeys,
) -> Result<(), OpenError> {
    let Some(keys) = at_hand(collections, given).await? else {
        return Ok(());
    };
    let wrapped = match stored(collections).await? {
        Some(wrapped) => wrapped,
        None => keys.first_store_key(sealed_under(collections).await?.as_deref())?,
    };
    Ok(keys.open(&wrapped)?)
}

/// Uses the store key of a database, beside servers that may have it.
///
/// # Errors
/// It does not answer, or its store key is wrapped under another master key.
pub fn use_key_of(uri: &str, database: &str, given: &GivenKeys) -> Result<(), OpenError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let collections = Collections::of(connection::database(uri, database).await?);
        open_to_read(&collections, given).await
    })
}

/// The master keys that are given, and the one that the database keeps.
pub(super) async fn at_hand(
    collections: &Collections,
    given: &GivenKeys,
) -> Result<Option<MasterKeys>, Error> {
    let found = collections.meta.find_one(doc! {"_id": MASTER_KEY});
    let kept = answered(found.into_future()).await?;
    let kept = kept.map(|kept| master_key(&kept)).transpose()?;
    Ok(MasterKeys::at_hand(given, kept))
}

fn master_key(kept: &Document) -> Result<MasterKey, Error> {
    let bytes = kept.get_binary_generic("key").ok();
    let key = bytes.and_then(|bytes| MasterKey::from_bytes(bytes));
    key.ok_or_else(|| malformed("the master key is not what it must be"))
}

/// Makes the master key that the database keeps, unless another node was first.
async fn make_kept(collections: &Collections) -> Result<MasterKey, Error> {
    let made = doc! {"$setOnInsert": {"key": binary(&MasterKey::generate().bytes())}};
    master_key(&upserted(collections, MASTER_KEY, made).await?)
}

/// Keeps a first store key, unless another node was first: then it gives that one's.
async fn first(collections: &Collections, key: WrappedKey) -> Result<WrappedKey, Error> {
    let made = doc! {"$setOnInsert": {"name": key.name, "wrapped": key.wrapped}};
    wrapped_key(&upserted(collections, STORE_KEY, made).await?)
}

async fn upserted(
    collections: &Collections,
    id: &str,
    update: Document,
) -> Result<Document, Error> {
    let update = collections
        .meta
        .find_one_and_update(doc! {"_id": id}, update)
        .upsert(true)
        .return_document(ReturnDocument::After);
    let kept = answered(update.into_future()).await?;
    kept.ok_or_else(|| malformed("what was written is not there"))
}

fn wrapped_key(kept: &Document) -> Result<WrappedKey, Error> {
    let field = |name| kept.get_str(name).map(str::to_owned);
    let (Ok(name), Ok(wrapped)) = (field("name"), field("wrapped")) else {
        return Err(malformed("the store key is not what it must be"));
    };
    Ok(WrappedKey { name, wrapped })
}

/// The store key as it is kept; none before the first start.
pub(super) async fn stored(collections: &Collections) -> Result<Option<WrappedKey>, Error> {
    let found = collections.meta.find_one(doc! {"_id": STORE_KEY});
    let found = answered(found.into_future()).await?;
    found.map(|kept| wrapped_key(&kept)).transpose()
}

/// The store key as it is kept, behind a start.
pub(super) async fn read(collections: &Collections) -> Result<WrappedKey, ReadError> {
    let found = stored(collections).await.map_err(|error| failed(&error))?;
    found.ok_or(ReadError::Unreadable)
}

/// Keeps it in another way; false where it is not kept as this says.
pub(super) async fn rewrap(collections: &Collections, change: Rewrap) -> Result<bool, ReadError> {
    let Rewrap { from, to } = change;
    let as_kept = doc! {"_id": STORE_KEY, "name": from.name, "wrapped": from.wrapped};
    let set = doc! {"$set": {"name": to.name, "wrapped": to.wrapped}};
    let update = collections.meta.update_one(as_kept, set);
    let updated = answered(update.into_future()).await;
    let updated = updated.map_err(|error| failed(&error))?;
    Ok(updated.matched_count == 1)
}

/// The name of the key under which the keys that sign tokens are sealed: every start of a version
/// that seals has them.
async fn sealed_under(collections: &Collections) -> Result<Option<String>, Error> {
    let records = collections.database.collection::<Document>(RECORDS);
    let found = records.find_one(doc! {"kind": Kind::SigningKeys as i32});
    let found = answered(found.into_future()).await?;
    let body = found
        .as_ref()
        .and_then(|record| record.get_str("body").ok());
    Ok(body.and_then(sealing::sealed_under).map(str::to_owned))
}
