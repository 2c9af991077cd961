//! Brings a backup back into a folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::manifest::{BackupState, KEY, Manifest};
use super::packing;
use crate::sealing::{GivenKeys, SealedFileError};
use crate::store::{Finding, sqlite};
use colloquy_model::time::Timestamp;
use colloquy_objects::{Location, NotALocation, ObjectError, Objects, remove_large};
use colloquy_runtime::{offload, private_file};

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The URL names no backup.
    #[error("{0}: {1}")]
    Url(String, NotALocation),
    /// The folder has something in it.
    #[error("{0} is not empty: name an empty folder, or one that is not there")]
    NotEmpty(PathBuf),
    /// There is no such backup.
    #[error("there is no backup at {0}")]
    Absent(String),
    /// It was not made to its end.
    #[error("this backup was not made to its end: {0}")]
    NotWhole(String),
    /// Where it is kept can't be read.
    #[error(transparent)]
    Storage(#[from] ObjectError),
    /// It is not the file that was put there.
    #[error("its file is damaged: its SHA-256 is not the one that was noted")]
    Damaged,
    /// It can't be unpacked.
    #[error("its file can't be opened: {0}")]
    Sealed(#[from] SealedFileError),
    /// The folder can't be written.
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
    /// What was restored can't be opened.
    #[error(transparent)]
    Open(#[from] sqlite::OpenError),
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// The file that `[store] path` is to name.
    pub database: PathBuf,
    /// When the backup was begun: what came later may not be in it.
    pub begun_at: Timestamp,
    /// What is wrong with it, if anything.
    pub findings: Vec<Finding>,
}

/// Brings the backup at this URL back into a folder, which is made, and checks it there. Where the
/// backup is sealed, one of these keys must be the one that it is sealed under.
///
/// # Errors
/// Nothing was restored, or a part that can't be used, in files with other names.
pub async fn restore(
    (url, endpoint): (&str, &str),
    folder: &Path,
    keys: GivenKeys,
) -> Result<Restored, RestoreError> {
    let absent = || RestoreError::Absent(url.to_owned());
    let (location, backup) = url
        .trim_end_matches('/')
        .rsplit_once('/')
        .ok_or_else(absent)?;
    let location = Location::parse(location, endpoint)
        .map_err(|error| RestoreError::Url(url.to_owned(), error))?;
    let here = |error| RestoreError::Folder(folder.to_owned(), error);
    if fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()) {
        return Err(RestoreError::NotEmpty(folder.to_owned()));
    }
    let objects = location.open()?;
    let manifest = Manifest::read(&objects, backup).await;
    let manifest = manifest.map_err(|error| match error.is_missing() {
        true => absent(),
        false => error.into(),
    })?;
    private_file::ensure_folder(folder).map_err(here)?;
    let Fetched { database } = fetch(&objects, &manifest, folder, keys).await?;
    let findings = sqlite::check(&database)?;
    Ok(Restored {
        database,
        begun_at: manifest.started_at,
        findings,
    })
}

/// What was fetched: a file that a server can be started on.
pub(super) struct Fetched {
    pub(super) database: PathBuf,
}

/// Fetches a backup into a folder and unpacks it there.
///
/// # Errors
/// There is no file of the name that a server would look for.
pub(super) async fn fetch(
    objects: &Objects,
    manifest: &Manifest,
    folder: &Path,
    keys: GivenKeys,
) -> Result<Fetched, RestoreError> {
    let Some(file) = &manifest.file else {
        let why = manifest.error.clone();
        return Err(RestoreError::NotWhole(match manifest.state {
            BackupState::Running => "it is being made".to_owned(),
            BackupState::Finished | BackupState::Failed => {
                why.unwrap_or_else(|| "it has no file".to_owned())
            }
        }));
    };
    let here = |error| RestoreError::Folder(folder.to_owned(), error);
    let (packed, unpacked) = (folder.join("packed"), folder.join("unpacked"));
    let database = folder.join("colloquy.db");
    packing::private(&packed).map_err(here)?;
    objects
        .get_file(&manifest.named(&file.name), &packed)
        .await?;
    let is_sealed = file.sealed_under.is_some();
    let (expected, from, to) = (file.sha256.clone(), packed.clone(), unpacked.clone());
    let opened = offload::run_on_batch_cores((), move || {
        if packing::sha256(&from).map_err(SealedFileError::Read)? != expected {
            return Err(RestoreError::Damaged);
        }
        Ok(packing::unpack(&from, &to, is_sealed.then_some(&keys))?)
    });
    opened
        .await
        .unwrap_or_else(|| Err(here(io::Error::other("it panicked"))))?;
    if file.has_key {
        let key = objects.get(&manifest.named(KEY)).await?;
        let path = folder.join(KEY);
        let written = packing::private(&path).and_then(|mut file| {
            file.write_all(&key)?;
            file.sync_all()
        });
        written.map_err(here)?;
    }
    remove_large(&packed).map_err(here)?;
    fs::rename(&unpacked, &database).map_err(here)?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(here)?;
    Ok(Fetched { database })
}
