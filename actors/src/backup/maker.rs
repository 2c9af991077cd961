//! Makes one backup.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::attachments::{TAR_BYTES, TarError, TarFile};
use super::catalog::Catalog;
use super::manifest::{
    AttachmentsOfBackup, BackupState, FILE, FileOfBackup, KEY, Manifest, PackedFile, SEALED_FILE,
    name_of_attachments,
};
use super::restore::{RestoreError, WholeBackup};
use super::settings::BackupSettings;
use super::{packing, scratch};
use crate::attachments::{is_shown, name_of};
use crate::sealing::{GivenKeys, MasterKey, texts};
use crate::store::{KnownAttachment, SnapshotError, Store, sqlite};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use colloquy_model::position::Position;
use colloquy_objects::{Disk, ObjectError, Objects, remove_large, sync_growing};
use colloquy_runtime::{offload, private_file};

/// Between two looks at whether the copy of the store waits to be synced.
const LOOK: Duration = Duration::from_millis(1);

/// Why a backup was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum MakeError {
    #[error("the store could not be copied: {0}")]
    Snapshot(#[from] SnapshotError),
    #[error("it could not be kept: {0}")]
    Storage(#[from] ObjectError),
    #[error("it could not be made in {0}: {1}")]
    Scratch(PathBuf, io::Error),
    #[error("it needs {needed} bytes beside the store's file, and {free} are free")]
    NoRoom { needed: u64, free: u64 },
    #[error("the attachments of the copy can't be told: {0}")]
    Copy(#[from] sqlite::OpenError),
    #[error("{0}")]
    Attachments(#[from] TarError),
    #[error("it was made, and can't be restored: {0}")]
    Restore(#[from] RestoreError),
    #[error("it was made and restored, and is not sound: {0}")]
    Unsound(String),
}

/// Makes backups, one after the other.
pub(super) struct Maker<'m> {
    pub(super) catalog: &'m Catalog,
    pub(super) settings: &'m BackupSettings,
    /// Where attachments are, where they go along.
    pub(super) attachments: Option<&'m Objects>,
    pub(super) store: &'m dyn Store,
}

impl Maker<'_> {
    /// Copies the store and what goes along, packs the copies, puts them, and has them checked.
    ///
    /// # Errors
    /// Says which of these failed.
    pub(super) async fn make(&self, manifest: &mut Manifest) -> Result<(), MakeError> {
        let copy = self.scratch("colloquy.db");
        let scratch = &self.settings.scratch;
        scratch::clear(scratch).await;
        private_file::ensure_folder(scratch).map_err(|error| self.failed(error))?;
        let health = self.store.health();
        self.has_room(2 * (health.database_bytes + health.log_bytes))?;
        manifest.position = Some(self.snapshot(&copy).await?.0);
        let keys = self.store.master_keys();
        let sealed_under = texts::are_encrypted().then(|| keys.present().clone());
        let place = manifest.place(self.catalog.objects());
        let into = (&place, sealed_under.as_ref());
        if let Some(objects) = self.attachments {
            manifest.attachments = Some(self.copy_attachments(objects, &copy, into).await?);
        }
        let name = if sealed_under.is_some() {
            SEALED_FILE
        } else {
            FILE
        };
        let file = FileOfBackup {
            packed: self.keep(copy, name.to_owned(), into).await?,
            // A backup is to be restored where this machine is gone, and with it what stood beside
            // the store. One that the settings give is the operator's to keep.
            has_key: keys.is_kept_with_store(),
            key_name: keys.is_kept_with_store().then(|| keys.present().name()),
        };
        if file.has_key {
            let key = BASE64_STANDARD.encode(keys.present().bytes());
            place.put_secret(KEY, key.into()).await?;
        }
        manifest.file = Some(file);
        if self.settings.verify {
            self.verify(manifest).await?;
            manifest.verified = true;
        }
        Ok(())
    }

    /// Packs a file, puts it there, and removes it here.
    async fn keep(
        &self,
        file: PathBuf,
        name: String,
        (place, sealed_under): (&Objects, Option<&MasterKey>),
    ) -> Result<PackedFile, MakeError> {
        let packed = self.scratch("packed");
        let (to, master) = (packed.clone(), sealed_under.cloned());
        let pack = move || {
            let done = packing::pack(&file, &to, master.as_ref())?;
            remove_large(&file, Disk::Shared)?;
            Ok(done)
        };
        let done = self.aside(pack).await?;
        place.put_file(&name, &packed).await?;
        self.aside(move || remove_large(&packed, Disk::Shared))
            .await?;
        Ok(PackedFile {
            name,
            bytes: done.bytes,
            sha256: done.sha256,
            sealed_under: sealed_under.map(MasterKey::name),
        })
    }

    /// Puts the attachments that a copy of the store knows.
    async fn copy_attachments(
        &self,
        objects: &Objects,
        copy: &Path,
        into: (&Objects, Option<&MasterKey>),
    ) -> Result<AttachmentsOfBackup, MakeError> {
        let from = copy.to_owned();
        let known = self.aside(move || Ok(sqlite::attachments(&from))).await??;
        let (mut kept, mut lost) = (AttachmentsOfBackup::default(), Vec::new());
        let mut open: Option<TarFile> = None;
        for one in known.into_iter().filter(|one| one.is_whole) {
            let name = name_of(&one);
            let (length, content) = match objects.open(&name).await {
                Ok(found) => found,
                Err(error) if error.is_missing() => {
                    lost.push(one);
                    continue;
                }
                Err(error) => return Err(TarError::from(error).into()),
            };
            if let Some(full) = open.take_if(|tar| tar.bytes + length > TAR_BYTES) {
                self.keep_tar(full, &mut kept, into).await?;
            }
            // Beside what is there of it, it is packed.
            let there = open.as_ref().map_or(0, |tar| tar.bytes);
            self.has_room(there + 2 * length)?;
            let tar = match &mut open {
                Some(tar) => tar,
                none => none.insert(self.begin_tar()?),
            };
            tar.add(&name, (length, content)).await?;
        }
        if let Some(last) = open {
            self.keep_tar(last, &mut kept, into).await?;
        }
        self.note_lost(copy, lost).await?;
        Ok(kept)
    }

    fn begin_tar(&self) -> Result<TarFile, MakeError> {
        TarFile::create(&self.scratch("attachments")).map_err(|error| self.failed(error))
    }

    async fn keep_tar(
        &self,
        tar: TarFile,
        kept: &mut AttachmentsOfBackup,
        into: (&Objects, Option<&MasterKey>),
    ) -> Result<(), MakeError> {
        let attachments = tar.attachments;
        tar.finish().await.map_err(|error| self.failed(error))?;
        let name = name_of_attachments(kept.files.len() + 1, into.1.is_some());
        let file = self.keep(self.scratch("attachments"), name, into).await?;
        kept.files.push(file);
        kept.count += attachments;
        Ok(())
    }

    /// What has no bytes any more was erased since the store was copied: then it is to be erased of the
    /// copy, too. Otherwise they are lost, which keeps nothing else from being backed up.
    async fn note_lost(&self, copy: &Path, lost: Vec<KnownAttachment>) -> Result<(), MakeError> {
        let mut erased = Vec::new();
        for one in lost {
            match is_shown(self.store, &one).await {
                Ok(true) => {
                    tracing::error!(attachment = %one.id, "an attachment has no bytes: it is in no backup");
                }
                Ok(false) => erased.push(one),
                // It counts as there: what can't be told now is not erased for that.
                Err(_) => {}
            }
        }
        if erased.is_empty() {
            return Ok(());
        }
        let copy = copy.to_owned();
        let note = move || Ok(sqlite::erase_lost_attachments(&copy, &erased));
        Ok(self.aside(note).await??)
    }

    /// Copies the store, and syncs the copy as it grows, for the reason that
    /// [`colloquy_objects::SyncedWriter`] gives.
    async fn snapshot(&self, copy: &Path) -> Result<Position, MakeError> {
        let unsynced = Arc::<AtomicBool>::default();
        let mut copied = self.store.snapshot(copy.to_owned(), Arc::clone(&unsynced));
        let mut synced = Ok(());
        loop {
            if let Ok(copied) = tokio::time::timeout(LOOK, &mut copied).await {
                let position = copied?;
                return synced.map(|()| position);
            }
            if unsynced.load(Ordering::Acquire) {
                let sync = sync_growing(copy).await;
                synced = synced.and(sync.map_err(|error| self.failed(error)));
                unsynced.store(false, Ordering::Release);
            }
        }
    }

    /// Whether there is room for so much: the server needs what is left, too.
    fn has_room(&self, needed: u64) -> Result<(), MakeError> {
        let disk = rustix::fs::statvfs(&self.settings.scratch);
        let disk = disk.map_err(|error| self.failed(error.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        match free >= needed {
            true => Ok(()),
            false => Err(MakeError::NoRoom { needed, free }),
        }
    }

    /// Restores it into a folder of its own, and checks it there.
    async fn verify(&self, manifest: &Manifest) -> Result<(), MakeError> {
        let folder = self.scratch("restored");
        std::fs::create_dir_all(&folder).map_err(|error| self.failed(error))?;
        let keys = GivenKeys {
            present: Some(self.store.master_keys().present().clone()),
            previous: None,
        };
        let place = manifest.place(self.catalog.objects());
        let backup = WholeBackup::of(&place, manifest, Disk::Shared).await?;
        let database = backup.fetch(&folder, &keys).await?.database;
        let restored = database.clone();
        let check = move || Ok(sqlite::check_beside_requests(&database));
        let findings = self.aside(check).await?.map_err(RestoreError::Open)?;
        self.aside(move || remove_large(&restored, Disk::Shared))
            .await?;
        backup.check_attachments(&folder, &keys).await?;
        match findings.first() {
            None => Ok(()),
            Some(first) => Err(MakeError::Unsound(format!(
                "{}: {}",
                first.check, first.found
            ))),
        }
    }

    /// Lets those of this store go that are more than are to be kept: of whole ones and of others so
    /// many.
    ///
    /// # Errors
    /// They are still there.
    pub(super) async fn let_go(&self, store: &str) -> Result<(), ObjectError> {
        let all = self.catalog.all(store).await?;
        for whole in [true, false] {
            // None is being made: what says so was left by an earlier process.
            let of_them = all
                .iter()
                .rev()
                .filter(|one| (one.state == BackupState::Finished) == whole);
            for old in of_them.skip(self.settings.keep) {
                old.delete(self.catalog.objects()).await?;
            }
        }
        Ok(())
    }

    fn scratch(&self, name: &str) -> PathBuf {
        self.settings.scratch.join(name)
    }

    fn failed(&self, error: io::Error) -> MakeError {
        MakeError::Scratch(Path::to_owned(&self.settings.scratch), error)
    }

    /// Computes off the thread that goes on with connections.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, MakeError> {
        let done = offload::run_on_batch_cores((), work).await;
        let done = done.unwrap_or_else(|| Err(io::Error::other("it panicked")));
        done.map_err(|error| self.failed(error))
    }
}
