//! Whole files by name, outside the store: in a folder of this machine, or in the object storage of
//! a cloud (S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage).
//!
//! Nothing here says what may be lost: a file is there, whole, when the call that put it has
//! answered, and gone when the call that deleted it has.

mod location;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub use location::{Location, NotALocation};

/// What is sent to object storage at a time. S3 takes no part under 5 MiB but the last.
const PART_BYTES: usize = 8 << 20;
/// Parts that are under way at once.
const PARTS_AT_ONCE: usize = 2;

/// Why a file could not be put, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// What keeps the files does not do it.
    #[error(transparent)]
    Storage(#[from] object_store::Error),
    /// The file on this machine can't be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl ObjectError {
    /// Whether there is no file of that name.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            ObjectError::Storage(object_store::Error::NotFound { .. })
        )
    }
}

/// What a list tells of a file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name below the location.
    pub name: String,
    /// The length of its content.
    pub bytes: u64,
}

/// The files of one location.
#[derive(Debug, Clone)]
pub struct Objects {
    storage: Arc<dyn ObjectStore>,
    /// What their names begin with in the storage.
    prefix: Path,
    /// How settings name the location, whichever folder a process works in.
    url: String,
}

impl Objects {
    /// How whoever reads settings finds what these names begin with.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Puts a small file, in place of one of the same name.
    ///
    /// # Errors
    /// It is not there, or not the new one.
    pub async fn put(&self, name: &str, content: Bytes) -> Result<(), ObjectError> {
        self.storage.put(&self.path(name), content.into()).await?;
        Ok(())
    }

    /// Puts a file of this machine, in parts: it takes a few of them of memory, however large it is.
    ///
    /// # Errors
    /// It is not there; parts of it may be, which are never seen under its name.
    pub async fn put_file(&self, name: &str, from: &FilePath) -> Result<u64, ObjectError> {
        let mut file = tokio::fs::File::open(from).await?;
        let upload = self.storage.put_multipart(&self.path(name)).await?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        match write_parts(&mut file, &mut parts).await {
            Ok(bytes) => {
                parts.finish().await?;
                Ok(bytes)
            }
            Err(error) => {
                // What it said first is what is told.
                let _ = parts.abort().await;
                Err(error)
            }
        }
    }

    /// Reads a small file whole.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        Ok(self.storage.get(&self.path(name)).await?.bytes().await?)
    }

    /// Writes a file to this machine, as it comes.
    ///
    /// # Errors
    /// There is none, or the copy is not whole.
    pub async fn get_file(&self, name: &str, to: &FilePath) -> Result<u64, ObjectError> {
        let mut content = self.storage.get(&self.path(name)).await?.into_stream();
        let mut file = tokio::fs::File::create(to).await?;
        let mut bytes = 0;
        while let Some(piece) = content.next().await {
            let piece = piece?;
            file.write_all(&piece).await?;
            bytes += piece.len() as u64;
        }
        file.sync_all().await?;
        Ok(bytes)
    }

    /// Deletes a file. One that is not there is gone already.
    ///
    /// # Errors
    /// The storage did not answer, or refused: the file may still be kept.
    pub async fn delete(&self, name: &str) -> Result<(), ObjectError> {
        match self.storage.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The files whose names begin with these folders; all, where it is empty.
    ///
    /// # Errors
    /// The storage did not answer, or refused to list them.
    pub async fn list(&self, folder: &str) -> Result<Vec<Object>, ObjectError> {
        let below = self.path(folder);
        let found = self.storage.list(Some(&below));
        let found = found.map_ok(|object| Object {
            name: self.name(&object.location),
            bytes: object.size,
        });
        Ok(found.try_collect().await?)
    }

    fn path(&self, name: &str) -> Path {
        self.prefix
            .parts()
            .chain(Path::from(name).parts())
            .collect()
    }

    fn name(&self, path: &Path) -> String {
        let parts = path.prefix_match(&self.prefix);
        parts.map_or_else(String::new, |parts| Path::from_iter(parts).to_string())
    }
}

async fn write_parts(
    file: &mut tokio::fs::File,
    parts: &mut WriteMultipart,
) -> Result<u64, ObjectError> {
    let mut bytes = 0;
    loop {
        let mut piece = bytes::BytesMut::with_capacity(PART_BYTES);
        while piece.len() < PART_BYTES && file.read_buf(&mut piece).await? > 0 {}
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes += piece.len() as u64;
        parts.wait_for_capacity(PARTS_AT_ONCE).await?;
        parts.put(piece.freeze());
    }
}
