//! Whole files by name, outside the store: in a folder of this machine, or in the object storage of
//! a cloud (S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage).
//!
//! Nothing here says what may be lost: a file is there, whole, when the call that put it has
//! answered, and gone when the call that deleted it has.

mod large_files;
mod location;
mod probe;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use large_files::UNSYNCED_MAX;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayloadMut, WriteMultipart,
};
use reqwest::Method;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

pub use large_files::{Disk, SyncedFile, SyncedWriter, remove_large, sync_growing, sync_in_turn};
pub use location::{Location, NotALocation};
pub use probe::Unusable;

/// What is sent to object storage at a time. S3 takes no part under 5 MiB but the last.
const PART_BYTES: usize = 8 << 20;
/// Parts of which a file consists at most: no storage takes more.
const PARTS_MAX: u64 = 10_000;
/// A piece shorter than this is copied behind the others: kept by itself it takes more memory than it
/// brings.
const SMALL_PIECE: usize = 4 << 10;
/// The longest file of which the length is not known when it begins.
pub const FILE_BYTES_MAX: u64 = PART_BYTES as u64 * PARTS_MAX;
/// Parts that are under way at once.
const PARTS_AT_ONCE: usize = 2;
/// Characters of what a service says to a failure: some say it on a page.
const REASON_MAX: usize = 300;

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

    /// What the system or the storage's service says to it, without what was done on the way there: in
    /// one line, however it was written.
    #[must_use]
    pub fn reason(&self) -> String {
        in_one_line(&innermost(self))
    }
}

/// What the error at the end of a chain says: those before it tell what was done on the way there.
fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// A text of a service, cut where it is longer than anybody reads in a line.
fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(REASON_MAX).collect()
}

/// What a list tells of a file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name below the location.
    pub name: String,
    /// The length of its content.
    pub bytes: u64,
    /// What changes with its content, where the storage tells it.
    pub version: Option<String>,
}

/// A file's content, piece by piece.
pub type Pieces = BoxStream<'static, Result<Bytes, ObjectError>>;

/// A file on its way into the storage. Nobody sees anything of it before it is whole.
#[derive(Debug)]
pub struct Upload {
    storage: Arc<dyn ObjectStore>,
    path: Path,
    attributes: Attributes,
    part_bytes: usize,
    sending: Sending,
    /// How it grows, where that is in a folder.
    growing: Option<Growing>,
}

/// A file that is put into a folder.
#[derive(Debug)]
struct Growing {
    /// Where its parts are written.
    beside: PathBuf,
    /// Bytes that were taken and not synced yet.
    unsynced: usize,
}

/// How a file is sent to the storage: in one request, or in several.
#[derive(Debug)]
enum Sending {
    /// As one request, at its end: it is no longer than a part so far, which is kept here.
    Whole(PutPayloadMut),
    /// As a multipart upload, since it is longer than a part.
    Parts(WriteMultipart),
}

impl Upload {
    /// Has it sent in parts, beginning with what is there of it.
    async fn begin_parts(&mut self, first: PutPayloadMut) -> Result<(), ObjectError> {
        let options = PutMultipartOptions {
            attributes: self.attributes.clone(),
            ..PutMultipartOptions::default()
        };
        let upload = self.storage.put_multipart_opts(&self.path, options).await?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, self.part_bytes);
        for piece in first.freeze() {
            parts.put(piece);
        }
        self.sending = Sending::Parts(parts);
        Ok(())
    }

    /// Has a cloud tell those who are led to the file this of it (`Content-Type`,
    /// `Content-Disposition`), if nothing of it has been sent yet. A folder keeps the bytes alone.
    pub fn describe(&mut self, content_type: &str, disposition: String) {
        self.attributes = Attributes::from_iter([
            (Attribute::ContentType, content_type.to_owned()),
            (Attribute::ContentDisposition, disposition),
        ]);
    }

    /// Adds a piece; waits where the storage is slower than whoever brings them.
    ///
    /// # Errors
    /// The storage has refused a part.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), ObjectError> {
        if let Sending::Whole(first) = &mut self.sending {
            if first.content_length() + piece.len() <= self.part_bytes {
                match piece.len() < SMALL_PIECE {
                    true => first.extend_from_slice(&piece),
                    false => first.push(piece),
                }
                return Ok(());
            }
            let first = mem::take(first);
            self.begin_parts(first).await?;
        }
        if let Sending::Parts(parts) = &mut self.sending {
            let bytes = piece.len();
            parts.wait_for_capacity(PARTS_AT_ONCE).await?;
            match bytes < SMALL_PIECE {
                true => parts.write(&piece),
                false => parts.put(piece),
            }
            if let Some(growing) = &mut self.growing {
                growing.unsynced += bytes;
                if growing.unsynced >= UNSYNCED_MAX {
                    // Until all of them are written.
                    parts.wait_for_capacity(1).await?;
                    sync_growing(&growing.beside).await?;
                    growing.unsynced = 0;
                }
            }
        }
        Ok(())
    }

    /// Ends it: from then on it is there.
    ///
    /// # Errors
    /// It is not there.
    pub async fn finish(self) -> Result<(), ObjectError> {
        match self.sending {
            Sending::Whole(content) => {
                let options = PutOptions {
                    attributes: self.attributes,
                    ..PutOptions::default()
                };
                let put = self.storage.put_opts(&self.path, content.into(), options);
                put.await?;
            }
            Sending::Parts(parts) => {
                parts.finish().await?;
            }
        }
        Ok(())
    }

    /// Lets go what has been put of it.
    pub async fn abort(self) {
        match self.sending {
            Sending::Whole(_) => {}
            Sending::Parts(parts) => {
                // What is left of it goes with the deletion of its name.
                let _ = parts.abort().await;
            }
        }
    }
}

/// The files of one location.
#[derive(Debug, Clone)]
pub struct Objects {
    storage: Arc<dyn ObjectStore>,
    /// What their names begin with in the storage.
    prefix: Path,
    /// How settings name the location, whichever folder a process works in.
    url: String,
    /// The folder, where they are in one.
    folder: Option<PathBuf>,
    /// What makes addresses at which a cloud lets anybody read one.
    signer: Option<Arc<dyn Signer>>,
}

impl Objects {
    /// Whether they are in a folder of this machine.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// The files whose names begin with this folder, each by the rest of its name.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        Objects {
            storage: Arc::clone(&self.storage),
            prefix: self.path(folder),
            url: self.url(folder),
            folder: self.folder.as_ref().map(|own| own.join(folder)),
            signer: self.signer.clone(),
        }
    }

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

    /// Puts a small file that is a secret, in place of one of the same name. In a folder nobody but
    /// its owner may read it, at no time.
    ///
    /// # Errors
    /// It is not there, or not the new one.
    pub async fn put_secret(&self, name: &str, content: Bytes) -> Result<(), ObjectError> {
        let Some(folder) = &self.folder else {
            return self.put(name, content).await;
        };
        let path = folder.join(name);
        let written = tokio::task::spawn_blocking(move || write_secret(&path, &content));
        Ok(written.await.map_err(io::Error::other)??)
    }

    /// Puts a small file unless there is one of that name; whether it was put. Of several that try
    /// at once one succeeds.
    ///
    /// # Errors
    /// It is not known whether it was put.
    pub async fn create(&self, name: &str, content: Bytes) -> Result<bool, ObjectError> {
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let path = self.path(name);
        match self.storage.put_opts(&path, content.into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a file of this machine. It takes a few parts of memory, however large it is.
    ///
    /// # Errors
    /// It is not there; parts of it may be, which are never seen under its name.
    pub async fn put_file(&self, name: &str, from: &FilePath) -> Result<u64, ObjectError> {
        if let Some(folder) = &self.folder {
            let (from, to) = (from.to_owned(), folder.join(name));
            let copied = tokio::task::spawn_blocking(move || copy_file(&from, &to));
            return Ok(copied.await.map_err(io::Error::other)??);
        }
        let mut file = File::open(from).await?;
        let mut upload = self.begin(name).await?;
        upload.part_bytes = part_bytes(file.metadata().await?.len());
        match write_pieces(&mut file, &mut upload).await {
            Ok(bytes) => {
                upload.finish().await?;
                Ok(bytes)
            }
            Err(error) => {
                upload.abort().await;
                Err(error)
            }
        }
    }

    /// Begins to put a file of which the pieces come one after the other. A cloud is asked to keep it
    /// only when it is whole or longer than a part, a folder from the first piece on.
    ///
    /// # Errors
    /// The storage does not take it.
    pub async fn begin(&self, name: &str) -> Result<Upload, ObjectError> {
        let mut upload = Upload {
            storage: Arc::clone(&self.storage),
            path: self.path(name),
            attributes: Attributes::default(),
            part_bytes: PART_BYTES,
            sending: Sending::Whole(PutPayloadMut::new()),
            growing: None,
        };
        if let Some(folder) = &self.folder {
            upload.part_bytes = UNSYNCED_MAX;
            upload.growing = Some(Growing {
                beside: folder.join(first_part(name)),
                unsynced: 0,
            });
            upload.begin_parts(PutPayloadMut::new()).await?;
        }
        Ok(upload)
    }

    /// Reads a file, as it comes; gives its length, too.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub async fn open(&self, name: &str) -> Result<(u64, Pieces), ObjectError> {
        let found = self.storage.get(&self.path(name)).await?;
        let length = found.meta.size;
        Ok((
            length,
            found.into_stream().map_err(ObjectError::from).boxed(),
        ))
    }

    /// Reads a part of a file, as it comes.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub async fn read(&self, name: &str, part: Range<u64>) -> Result<Pieces, ObjectError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(part)),
            ..GetOptions::default()
        };
        let found = self.storage.get_opts(&self.path(name), options).await?;
        Ok(found.into_stream().map_err(ObjectError::from).boxed())
    }

    /// The address at which anybody can read a file for so long; none where it is in a folder.
    ///
    /// # Errors
    /// There are no credentials to sign it with.
    pub async fn presigned(
        &self,
        name: &str,
        holds: Duration,
    ) -> Result<Option<String>, ObjectError> {
        let Some(signer) = &self.signer else {
            return Ok(None);
        };
        let path = self.path(name);
        let url = signer.signed_url(Method::GET, &path, holds).await?;
        Ok(Some(url.to_string()))
    }

    /// Deletes a file that nobody reads, of which a process that died may have put some of the parts. In
    /// a folder these stand beside it, and large ones go as [`remove_large`] has it; a cloud's storage
    /// deletes them by a rule of the bucket.
    ///
    /// # Errors
    /// The storage did not answer, or refused: some of it may still be kept.
    pub async fn delete_unfinished(&self, name: &str) -> Result<(), ObjectError> {
        let Some(folder) = &self.folder else {
            return self.delete(name).await;
        };
        let path = folder.join(name);
        // While it is open, it keeps its space.
        let open = File::options().write(true).open(&path).await;
        self.delete(name).await?;
        if let Ok(file) = open {
            let file = file.into_std().await;
            let given_back = move || large_files::give_back(&file, Disk::Shared);
            let given_back = tokio::task::spawn_blocking(given_back);
            given_back.await.map_err(io::Error::other)?;
        }
        let (Some(beside), Some(own)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let own = format!("{}#", own.to_string_lossy());
        let mut entries = match tokio::fs::read_dir(beside).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        while let Some(entry) = entries.next_entry().await? {
            if entry.file_name().to_string_lossy().starts_with(&own) {
                let removed = move || remove_large(&entry.path(), Disk::Shared);
                let removed = tokio::task::spawn_blocking(removed);
                removed.await.map_err(io::Error::other)??;
            }
        }
        Ok(())
    }

    /// Deletes a file that was begun once at most, by [`Objects::begin`], with what a process that died
    /// has put of it. It costs the same however many files stand beside it.
    ///
    /// # Errors
    /// As [`Objects::delete_unfinished`].
    pub async fn delete_upload(&self, name: &str) -> Result<(), ObjectError> {
        self.delete(name).await?;
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let part = folder.join(first_part(name));
        match tokio::fs::remove_file(part).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
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
    pub async fn get_file(
        &self,
        name: &str,
        to: &FilePath,
        disk: Disk,
    ) -> Result<u64, ObjectError> {
        let mut content = self.storage.get(&self.path(name)).await?.into_stream();
        let mut file = SyncedFile::new(std::fs::File::create(to)?, disk);
        let mut bytes = 0;
        while let Some(piece) = content.next().await {
            let piece = piece?;
            file.write(&piece).await?;
            bytes += piece.len() as u64;
        }
        file.finish().await?;
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
        self.check_folder(folder).await?;
        let below = self.path(folder);
        let found = self.storage.list(Some(&below));
        let found = found.map_ok(|object| Object {
            name: self.name(&object.location),
            bytes: object.size,
            version: object.e_tag,
        });
        Ok(found.try_collect().await?)
    }

    /// Refuses a folder that can't be read, which [`ObjectStore::list`] takes for an empty one; a folder
    /// that is not there passes, since it holds nothing yet.
    async fn check_folder(&self, folder: &str) -> Result<(), ObjectError> {
        let Some(own) = &self.folder else {
            return Ok(());
        };
        match tokio::fs::read_dir(own.join(folder)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
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

/// How much of a file of this length is sent at a time, so that it has no more parts than it may.
fn part_bytes(length: u64) -> usize {
    let least = usize::try_from(length.div_ceil(PARTS_MAX)).unwrap_or(usize::MAX);
    PART_BYTES.max(least)
}

/// Writes a secret that nobody but its owner may read.
fn write_secret(path: &FilePath, content: &[u8]) -> io::Result<()> {
    put_beside(path, |mut file| {
        file.write_all(content)?;
        file.sync_all()
    })
}

/// What `object_store` calls the first upload of a name into a folder until it is whole.
fn first_part(name: &str) -> String {
    format!("{name}#1")
}

/// Copies a file of this machine; gives its length.
fn copy_file(from: &FilePath, to: &FilePath) -> io::Result<u64> {
    let from = std::fs::File::open(from)?;
    let mut from = io::BufReader::with_capacity(UNSYNCED_MAX, from);
    put_beside(to, |file| {
        let mut to = SyncedWriter::new(file, Disk::Shared);
        let bytes = io::copy(&mut from, &mut to)?;
        to.finish()?;
        Ok(bytes)
    })
}

/// Has a file written beside its place, and puts it there when it is whole. What a process that died
/// has left of one is seen by no list.
fn put_beside<T>(
    path: &FilePath,
    write: impl FnOnce(std::fs::File) -> io::Result<T>,
) -> io::Result<T> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(FilePath::new("."));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!("#{}{number}", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let written = write(file).and_then(|written| {
        std::fs::rename(&beside, path)?;
        Ok(written)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    let written = written?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(written)
}

async fn write_pieces(file: &mut File, upload: &mut Upload) -> Result<u64, ObjectError> {
    let mut bytes = 0;
    loop {
        let mut piece = bytes::BytesMut::with_capacity(PART_BYTES);
        while piece.len() < PART_BYTES && file.read_buf(&mut piece).await? > 0 {}
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes += piece.len() as u64;
        upload.write(piece.freeze()).await?;
    }
}
