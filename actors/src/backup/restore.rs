//! Brings a backup back into a folder.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::attachments;
use super::destination::{
    self, ATTACHMENTS, DATABASE, Destination, DestinationError, Fetched, PACKED, TAR, unfinished,
};
use super::manifest::{
    AttachmentsOfBackup, BackupState, FileOfBackup, KEY, Manifest, ManifestError, NAME, PackedFile,
};
use super::packing;
use crate::attachments as kept_attachments;
use crate::sealing::{GivenKeys, MasterKey, SealedFileError};
use crate::store::{Finding, KnownAttachment, sqlite};
use colloquy_model::time::Timestamp;
use colloquy_objects::{Disk, Location, NotALocation, ObjectError, Objects, remove_large};
use colloquy_runtime::offload;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The URL names no backup.
    #[error("{0}: {1}")]
    Url(String, NotALocation),
    /// The folder can't be used.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// There is no such backup.
    #[error("there is no backup at {0}: give the URL that its server shows, or that of a copy")]
    Absent(String),
    /// A part of it is gone.
    #[error("{0} is missing: copy the backup again if this is a copy, or restore another one")]
    Missing(String),
    /// It was not made to its end.
    #[error("the backup at {0} was not made to its end: {1}")]
    NotWhole(String, String),
    /// It can't be reached.
    #[error("{0} can't be read: {1}")]
    Unreadable(String, String),
    /// A part of it is not what was put there.
    #[error("{0} is damaged: {1}; copy the backup again if this is a copy, or restore another one")]
    Damaged(String, String),
    /// It can't be unpacked.
    #[error("{0} can't be opened: {1}")]
    Sealed(String, SealedFileError),
    /// What was restored can't be opened.
    #[error(transparent)]
    Open(#[from] sqlite::OpenError),
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// The file that `[store] path` is to name.
    pub database: PathBuf,
    /// The folder that `[objects] url` is to name; none where attachments did not go along.
    pub attachments: Option<PathBuf>,
    /// When the backup was begun: what came later may not be in it.
    pub begun_at: Timestamp,
    /// What is wrong with it, if anything.
    pub findings: Vec<Finding>,
}

/// Brings the backup at this URL back into a folder, which is made, and checks it there. Everything of
/// it is read below that URL, whatever it was called when it was made. Where the backup is sealed, one
/// of these keys must be the one that it is sealed under.
///
/// # Errors
/// Nothing was restored, and the folder is as it was before.
pub async fn restore(
    (url, endpoint): (&str, &str),
    folder: &Path,
    keys: GivenKeys,
) -> Result<Restored, RestoreError> {
    let location = Location::parse(url.trim_end_matches('/'), endpoint);
    let location = location.map_err(|error| RestoreError::Url(url.to_owned(), error))?;
    destination::check_apart(folder, &location)?;
    destination::check_empty(folder)?;
    let place = location.open_existing().map_err(|error| match &error {
        ObjectError::File(file) if file.kind() == io::ErrorKind::NotFound => {
            RestoreError::Absent(url.to_owned())
        }
        ObjectError::File(_) | ObjectError::Storage(_) => {
            RestoreError::Unreadable(url.to_owned(), error.reason())
        }
    })?;
    let manifest = manifest_of(&place, url).await?;
    let backup = WholeBackup::of(&place, &manifest, Disk::Own).await?;
    let destination = Destination::take(folder, backup.key.as_deref())?;
    let mut fetched = backup.fetch(folder, &keys).await?;
    let mut findings = sqlite::check(&fetched.database)?;
    fetched.attachments = backup.fetch_attachments(folder, &keys).await?;
    if let Some(files) = &fetched.attachments {
        let known = sqlite::attachments(&fetched.database)?;
        findings.extend(found_in(files, &known).await?);
    }
    Ok(Restored {
        database: destination.keep(&fetched)?,
        attachments: fetched.attachments.map(|_| folder.join(ATTACHMENTS)),
        begun_at: manifest.started_at,
        findings,
    })
}

/// What is wrong with attachments that were restored into this folder.
async fn found_in(folder: &Path, known: &[KnownAttachment]) -> Result<Vec<Finding>, RestoreError> {
    let here = |error: String| DestinationError::File(folder.to_owned(), io::Error::other(error));
    let objects = Location::folder_at(folder).open();
    let objects = objects.map_err(|error| here(error.reason()))?;
    let found = kept_attachments::check(&objects, known).await;
    Ok(found.map_err(|error| here(error.reason()))?)
}

async fn manifest_of(place: &Objects, url: &str) -> Result<Manifest, RestoreError> {
    Manifest::read(place).await.map_err(|error| match error {
        ManifestError::Storage(error) if error.is_missing() => RestoreError::Absent(url.to_owned()),
        ManifestError::Storage(error) => unreadable(place, NAME, &error),
        ManifestError::Damaged(error) => {
            let (line, column) = (error.line(), error.column());
            let what = format!("at line {line}, column {column} it is no manifest of a backup");
            RestoreError::Damaged(place.url(NAME), what)
        }
    })
}

/// A backup that was made to its end.
pub(super) struct WholeBackup<'b> {
    place: &'b Objects,
    file: &'b FileOfBackup,
    attachments: Option<&'b AttachmentsOfBackup>,
    /// The master key that goes along, in base64.
    key: Option<Bytes>,
    /// Whose disk it is unpacked on.
    disk: Disk,
}

impl<'b> WholeBackup<'b> {
    /// The one that is there; what is small of it is read.
    ///
    /// # Errors
    /// It was not made to its end, or its key is not there.
    pub(super) async fn of(
        place: &'b Objects,
        manifest: &'b Manifest,
        disk: Disk,
    ) -> Result<Self, RestoreError> {
        let Some(file) = &manifest.file else {
            let why = match (manifest.state, &manifest.error) {
                (BackupState::Running, _) => "it is being made, or its server ended",
                (BackupState::Finished | BackupState::Failed, Some(error)) => error,
                (BackupState::Finished | BackupState::Failed, None) => "it has no file",
            };
            let url = place.url("").trim_end_matches('/').to_owned();
            return Err(RestoreError::NotWhole(url, why.to_owned()));
        };
        let key = match file.has_key {
            false => None,
            true => {
                let key = place.get(KEY).await;
                let key = key.map_err(|error| unreadable(place, KEY, &error))?;
                let text = std::str::from_utf8(&key).ok();
                let held = text.and_then(MasterKey::from_base64).map(|key| key.name());
                let is_it = |held: &String| file.key_name.as_ref().is_none_or(|name| name == held);
                if !held.as_ref().is_some_and(is_it) {
                    let what = "it does not hold the master key that the store is under".to_owned();
                    return Err(RestoreError::Damaged(place.url(KEY), what));
                }
                Some(key)
            }
        };
        Ok(WholeBackup {
            place,
            file,
            attachments: manifest.attachments.as_ref(),
            key,
            disk,
        })
    }

    /// Fetches it, but for attachments, into a folder and unpacks it there, under names that no server looks for.
    ///
    /// # Errors
    /// Some of it may be in the folder.
    pub(super) async fn fetch(
        &self,
        folder: &Path,
        keys: &GivenKeys,
    ) -> Result<Fetched, RestoreError> {
        let here = |error| DestinationError::File(folder.to_owned(), error);
        let fetched = Fetched {
            database: unfinished(folder, DATABASE),
            key: self.key.as_ref().map(|_| unfinished(folder, KEY)),
            attachments: None,
        };
        let to = (folder, fetched.database.as_path());
        self.fetch_file(&self.file.packed, to, keys).await?;
        if let (Some(key), Some(path)) = (&self.key, &fetched.key) {
            let written = packing::private(path).and_then(|mut file| {
                file.write_all(key)?;
                file.sync_all()
            });
            written.map_err(here)?;
        }
        Ok(fetched)
    }

    /// Fetches the attachments into a folder below this one, under a name that no server looks for; none
    /// where they did not go along.
    ///
    /// # Errors
    /// Some of them may be in the folder.
    pub(super) async fn fetch_attachments(
        &self,
        folder: &Path,
        keys: &GivenKeys,
    ) -> Result<Option<PathBuf>, RestoreError> {
        if self.attachments.is_none() {
            return Ok(None);
        }
        let files = unfinished(folder, ATTACHMENTS);
        let made = colloquy_runtime::private_file::ensure_folder(&files);
        made.map_err(|error| DestinationError::File(files.clone(), error))?;
        self.each_tar((folder, keys), Some(&files)).await?;
        attachments::sync(&files).map_err(|error| DestinationError::File(files.clone(), error))?;
        Ok(Some(files))
    }

    /// Fetches the attachments, and keeps none of them.
    ///
    /// # Errors
    /// They are not all there, or are not what was put there.
    pub(super) async fn check_attachments(
        &self,
        folder: &Path,
        keys: &GivenKeys,
    ) -> Result<(), RestoreError> {
        self.each_tar((folder, keys), None).await
    }

    /// Fetches each tar file of attachments, and puts what is in it below that folder, if any.
    async fn each_tar(
        &self,
        (folder, keys): (&Path, &GivenKeys),
        to: Option<&Path>,
    ) -> Result<(), RestoreError> {
        let Some(all) = self.attachments else {
            return Ok(());
        };
        let tar = unfinished(folder, TAR);
        let here = |error| DestinationError::File(folder.to_owned(), error);
        let mut taken = 0;
        for file in &all.files {
            self.fetch_file(file, (folder, &tar), keys).await?;
            let (from, to) = (tar.clone(), to.map(Path::to_owned));
            let read = offload::run_on_batch_cores((), move || match to {
                Some(to) => attachments::extract(&from, &to),
                None => attachments::count(&from),
            });
            let read = read.await.unwrap_or_else(|| Err(panicked()));
            taken += read.map_err(|error| match is_damage(&error) {
                true => RestoreError::Damaged(self.place.url(&file.name), error.to_string()),
                false => here(error).into(),
            })?;
            remove_large(&tar, self.disk).map_err(here)?;
        }
        match taken == all.count {
            true => Ok(()),
            false => {
                let what = format!("of {} attachments it has {taken}", all.count);
                Err(RestoreError::Damaged(self.place.url(NAME), what))
            }
        }
    }

    /// Fetches a file into this folder, and unpacks it to this place there.
    async fn fetch_file(
        &self,
        file: &PackedFile,
        (folder, to): (&Path, &Path),
        keys: &GivenKeys,
    ) -> Result<(), RestoreError> {
        let here = |error| DestinationError::File(folder.to_owned(), error);
        let packed = unfinished(folder, PACKED);
        packing::private(&packed).map_err(here)?;
        let got = self.place.get_file(&file.name, &packed, self.disk).await;
        got.map_err(|error| match error {
            ObjectError::File(error) => here(error).into(),
            ObjectError::Storage(_) => unreadable(self.place, &file.name, &error),
        })?;
        self.unpack(file, (&packed, to), keys.clone()).await?;
        Ok(remove_large(&packed, self.disk).map_err(here)?)
    }

    async fn unpack(
        &self,
        file: &PackedFile,
        (from, to): (&Path, &Path),
        keys: GivenKeys,
    ) -> Result<(), RestoreError> {
        let url = self.place.url(&file.name);
        let is_sealed = file.sealed_under.is_some();
        let (expected, from, to) = (file.sha256.clone(), from.to_owned(), to.to_owned());
        let (full, disk) = (to.clone(), self.disk);
        let opened = offload::run_on_batch_cores((), move || {
            let found = packing::sha256(&from).map_err(SealedFileError::Read);
            match found {
                Ok(found) if found != expected => Ok(false),
                Ok(_) => {
                    packing::unpack(&from, &to, is_sealed.then_some(&keys), disk).map(|()| true)
                }
                Err(error) => Err(error),
            }
        });
        match opened.await.unwrap_or_else(|| Err(panicked().into())) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let what = "its SHA-256 is not the one that was noted".to_owned();
                Err(RestoreError::Damaged(url, what))
            }
            Err(SealedFileError::Read(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Err(DestinationError::File(full, error).into())
            }
            Err(error) => Err(RestoreError::Sealed(url, error)),
        }
    }
}

/// Whether what was read is at fault, not what reads or writes it.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof)
}

fn panicked() -> io::Error {
    io::Error::other("it panicked")
}

fn unreadable(place: &Objects, name: &str, error: &ObjectError) -> RestoreError {
    let (url, reason) = (place.url(name), error.reason());
    if error.is_missing() {
        return RestoreError::Missing(url);
    }
    RestoreError::Unreadable(
        url,
        match place.is_folder() {
            true => reason,
            false => format!(
                "{reason}; look at [backup] endpoint and at the credentials in the environment"
            ),
        },
    )
}
