//! A database, opened to take everything out of it, to put a dump into it or to check it, while no
//! server uses it. That one does is told by its lease.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use tokio::runtime::{Builder, Runtime};

use super::codec::binary;
use super::codec::{int, uint};
use super::connection::{self, answered};
use super::open::OpenError;
use super::positions::Standing;
use super::recovery;
use super::redacting::{self, Left};
use super::schema::{Collections, META};
use super::{deliveries, erasing, figure_generations, nodes, store_key};
use crate::sealing::{GivenKeys, MasterKeys};
use crate::store::eraser::Eraser;
use crate::store::{ImportMark, ReadError, TransferError};

/// The `_id` of the document that says how far an import has come.
const IMPORT: &str = "import";

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        TransferError::Store(Box::new(error))
    }
}

impl From<ReadError> for TransferError {
    fn from(error: ReadError) -> Self {
        TransferError::Store(Box::new(error))
    }
}

/// A database that no server uses.
#[derive(Debug)]
pub struct MongoTransfer {
    pub(super) runtime: Runtime,
    pub(super) collections: Collections,
    /// Whether an import has begun before this one.
    pub(super) was_begun: bool,
    /// What unwraps the store key of an import.
    pub(super) master_keys: Option<MasterKeys>,
    /// By how much positions are ahead of the numbers that cursors show, by tenant.
    pub(super) leads: HashMap<i64, i64>,
}

impl MongoTransfer {
    /// Opens a database to take everything out of it. It is first brought to the state that a server
    /// would begin with, without what is still to be erased: `redacted` says what may stay of the
    /// JSON of a document that is gone.
    ///
    /// # Errors
    /// There is nothing in it, a server uses it, it has only a part of a dump, or it does not answer.
    pub fn to_export(
        uri: &str,
        database: &str,
        redacted: fn(&[u8]) -> Vec<u8>,
    ) -> Result<Self, OpenError> {
        let opened = Self::open(uri, database)?;
        let collections = &opened.collections;
        opened.runtime.block_on(async {
            let standing = recover(collections).await?;
            erase(collections, &Eraser(redacted), standing.carried)
                .await
                .map_err(OpenError::Erasing)
        })?;
        Ok(opened)
    }

    /// Opens a database to check it. It is first brought to the state that a server would begin
    /// with.
    ///
    /// # Errors
    /// There is nothing in it, a server uses it, it has only a part of a dump, or it does not answer.
    pub(super) fn to_check(uri: &str, database: &str) -> Result<Self, OpenError> {
        let opened = Self::open(uri, database)?;
        opened.runtime.block_on(recover(&opened.collections))?;
        Ok(opened)
    }

    /// Opens a database to put a dump into it, whose store key one of these master keys must unwrap.
    ///
    /// # Errors
    /// A server uses it, or it does not answer.
    pub fn to_import(uri: &str, database: &str, given: &GivenKeys) -> Result<Self, OpenError> {
        let mut opened = Self::open(uri, database)?;
        let collections = &opened.collections;
        opened.master_keys = opened.runtime.block_on(async {
            collections.ensure_indexes().await?;
            store_key::at_hand(collections, given).await
        })?;
        Ok(opened)
    }

    fn open(uri: &str, name: &str) -> Result<Self, OpenError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let collections = runtime.block_on(async {
            let collections = Collections::of(connection::database(uri, name).await?);
            refuse_used(&collections, name).await?;
            Ok::<_, OpenError>(collections)
        })?;
        Ok(MongoTransfer {
            runtime,
            collections,
            was_begun: false,
            master_keys: None,
            leads: HashMap::new(),
        })
    }
}

/// Whether nothing was ever written.
pub(super) async fn is_empty(collections: &Collections) -> Result<bool, Error> {
    let log = collections.log.clone_with_type::<Document>();
    for (collection, filter) in [
        (&log, doc! {}),
        (
            &collections.meta,
            doc! {"_id": {"$in": ["operator", IMPORT]}},
        ),
    ] {
        let any = collection.find_one(filter).projection(doc! {"_id": 1});
        if answered(any.into_future()).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Erases all that is left to be erased.
async fn erase(
    collections: &Collections,
    eraser: &Eraser,
    listed: colloquy_model::position::Position,
) -> Result<(), TransferError> {
    while redacting::erase_some(collections, listed).await? == Left::More {}
    while erasing::erase_some(collections, eraser).await? == Left::More {}
    Ok(())
}

/// Refuses a database that a server uses.
///
/// # Errors
/// That one does, or that the database does not answer.
async fn refuse_used(collections: &Collections, name: &str) -> Result<(), OpenError> {
    if nodes::used::is_used(collections).await? {
        return Err(OpenError::InUse(name.to_owned()));
    }
    Ok(())
}

/// Brings a database that no server uses to the state that one would begin with. Says from where on
/// it would follow the log.
///
/// # Errors
/// There is nothing in it, it has only a part of a dump, or it does not answer.
async fn recover(collections: &Collections) -> Result<Standing, OpenError> {
    if is_empty(collections).await? {
        return Err(OpenError::Absent(collections.database.name().to_owned()));
    }
    refuse_part(collections).await?;
    collections.ensure_indexes().await?;
    deliveries::recover(collections).await?;
    figure_generations::ensure_generation(collections).await?;
    figure_generations::recover(collections).await?;
    let standing = recovery::recover(collections).await?;
    nodes::used::recover_all(collections).await?;
    Ok(standing)
}

/// An import into a database.
#[derive(Debug, Clone, Copy)]
pub(super) struct DatabaseImport {
    pub(super) mark: ImportMark,
    pub(super) is_done: bool,
}

/// How far an import into this database has come; none where there was none.
pub(super) async fn import_of(collections: &Collections) -> Result<Option<DatabaseImport>, Error> {
    let found = collections.meta.find_one(doc! {"_id": IMPORT});
    let Some(found) = answered(found.into_future()).await? else {
        return Ok(None);
    };
    let unreadable = || Error::custom("how far the import has come can't be read");
    let digest = found.get_binary_generic("digest").ok().cloned();
    let digest = digest.and_then(|digest| digest.try_into().ok());
    Ok(Some(DatabaseImport {
        mark: ImportMark {
            lines: uint(found.get_i64("lines").map_err(|_| unreadable())?),
            digest: digest.ok_or_else(unreadable)?,
        },
        is_done: found.get_bool("done").map_err(|_| unreadable())?,
    }))
}

/// Notes how far an import has come.
pub(super) async fn note_import(
    collections: &Collections,
    import: DatabaseImport,
) -> Result<(), Error> {
    let DatabaseImport {
        mark: ImportMark { lines, digest },
        is_done,
    } = import;
    let set = doc! {"lines": int(lines), "digest": binary(&digest), "done": is_done};
    let meta = collections.database.collection::<Document>(META);
    let noted = meta
        .update_one(doc! {"_id": IMPORT}, doc! {"$set": set})
        .upsert(true);
    answered(noted.into_future()).await.map(|_| ())
}

/// Refuses a database that has only a part of a dump.
///
/// # Errors
/// That it has.
pub(super) async fn refuse_part(collections: &Collections) -> Result<(), OpenError> {
    match import_of(collections).await? {
        Some(import) if !import.is_done => {
            Err(OpenError::Importing(collections.database.name().to_owned()))
        }
        Some(_) | None => Ok(()),
    }
}
