//! Makes one backup.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::catalog::Catalog;
use super::manifest::{BackupState, FILE, FileOfBackup, KEY, Manifest, SEALED_FILE};
use super::restore::{Fetched, RestoreError, WholeBackup};
use super::settings::BackupSettings;
use super::{packing, scratch};
use crate::sealing::{GivenKeys, texts};
use crate::store::{SnapshotError, Store, sqlite};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use colloquy_model::position::Position;
use colloquy_objects::{ObjectError, remove_large};
use colloquy_runtime::{offload, private_file};

/// Between two syncs of the copy: some megabytes.
const SYNC_EVERY: Duration = Duration::from_millis(20);

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
    #[error("it was made, and can't be restored: {0}")]
    Restore(#[from] RestoreError),
    #[error("it was made and restored, and is not sound: {0}")]
    Unsound(String),
}

/// Makes backups, one after the other.
pub(super) struct Maker<'m> {
    pub(super) catalog: &'m Catalog,
    pub(super) settings: &'m BackupSettings,
    pub(super) store: &'m dyn Store,
}

impl Maker<'_> {
    /// Copies the store, packs the copy, puts it, and has it checked.
    ///
    /// # Errors
    /// Says which of these failed.
    pub(super) async fn make(&self, manifest: &mut Manifest) -> Result<(), MakeError> {
        let (copy, packed) = (self.scratch("colloquy.db"), self.scratch("packed"));
        let scratch = &self.settings.scratch;
        scratch::clear(scratch).await;
        private_file::ensure_folder(scratch).map_err(|error| self.failed(error))?;
        self.has_room()?;
        manifest.position = Some(self.snapshot(&copy).await?.0);
        let keys = self.store.master_keys();
        let sealed_under = texts::are_encrypted().then(|| keys.present().clone());
        let name = sealed_under.as_ref().map(crate::sealing::MasterKey::name);
        let file = {
            let (copy, packed) = (copy.clone(), packed.clone());
            let pack = move || packing::pack(&copy, &packed, sealed_under.as_ref());
            self.aside(pack).await?
        };
        let file = FileOfBackup {
            name: match name {
                None => FILE.to_owned(),
                Some(_) => SEALED_FILE.to_owned(),
            },
            bytes: file.bytes,
            sha256: file.sha256,
            // A backup is to be restored where this machine is gone, and with it what stood beside
            // the store. One that the settings give is the operator's to keep.
            has_key: keys.is_kept_with_store(),
            key_name: keys.is_kept_with_store().then(|| keys.present().name()),
            sealed_under: name,
        };
        self.aside(move || remove_large(&copy)).await?;
        let place = manifest.place(self.catalog.objects());
        place.put_file(&file.name, &packed).await?;
        if file.has_key {
            let key = BASE64_STANDARD.encode(keys.present().bytes());
            place.put_secret(KEY, key.into()).await?;
        }
        self.aside(move || remove_large(&packed)).await?;
        manifest.file = Some(file);
        if self.settings.verify {
            self.verify(manifest).await?;
            manifest.verified = true;
        }
        Ok(())
    }

    /// Copies the store, and syncs the copy as it grows, for the reason that
    /// [`colloquy_objects::SyncedWriter`] gives.
    async fn snapshot(&self, copy: &Path) -> Result<Position, MakeError> {
        let mut copied = self.store.snapshot(copy.to_owned());
        let mut synced = Ok(());
        loop {
            match tokio::time::timeout(SYNC_EVERY, &mut copied).await {
                Ok(copied) => {
                    let position = copied?;
                    return synced.map(|()| position);
                }
                Err(_) => {
                    let copy = copy.to_owned();
                    let sync = self.aside(move || File::open(copy)?.sync_data());
                    synced = synced.and(sync.await);
                }
            }
        }
    }

    /// Whether there is room for two files of the store's size: the server needs what is left, too.
    fn has_room(&self) -> Result<(), MakeError> {
        let health = self.store.health();
        let needed = 2 * (health.database_bytes + health.log_bytes);
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
        let backup = WholeBackup::of(&place, manifest).await?;
        let Fetched { database, .. } = backup.fetch(&folder, keys).await?;
        let restored = database.clone();
        let check = move || Ok(sqlite::check(&database));
        let findings = self.aside(check).await?.map_err(RestoreError::Open)?;
        self.aside(move || remove_large(&restored)).await?;
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
