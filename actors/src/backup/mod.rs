//! Backups: whole copies of the store, made while it serves, in a folder or in object storage.
//!
//! - `maker.rs` makes one: copies the store, packs the copy, puts it, checks it, lets old ones go
//! - `attachments.rs` how attachments are put together, and taken apart again
//! - `packing.rs` how the copy is compressed and sealed
//! - `manifest.rs` what is kept beside it, and is the only record that there is of backups
//! - `catalog.rs` the manifests of all that are kept, read once
//! - `restore.rs` brings one back; `destination.rs` the folder into which it comes
//! - `scratch.rs` the folder of this machine in which they are made
//! - `settings.rs` when and where they are made; `status.rs` how they fare

mod attachments;
mod catalog;
mod destination;
mod maker;
mod manifest;
mod packing;
mod restore;
mod scratch;
mod settings;
mod status;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use crate::store::{ReadError, Store};
use catalog::Catalog;
use colloquy_model::id::BackupId;
use colloquy_model::json;
use colloquy_model::page::{Cursor, Page, Paging, Part};
use colloquy_model::time::Timestamp;
use colloquy_objects::{ObjectError, Objects};
use colloquy_runtime::threads::BackgroundThread;
pub use destination::DestinationError;
use maker::Maker;
pub use manifest::BackupState;
use manifest::Manifest;
pub use restore::{RestoreError, Restored, restore};
pub use settings::BackupSettings;
pub use status::BackupStatus;

/// Between two looks whether one is due, where nobody asks.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// When one is made again that has failed, where the next is not due before.
const AGAIN_AFTER: Duration = Duration::from_mins(15);

/// A backup, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Backup)]
pub struct BackupView {
    /// Its identifier.
    pub backup_id: BackupId,
    /// How it goes.
    pub state: BackupState,
    /// When it was begun: what was acknowledged before is in it.
    pub started_at: Timestamp,
    /// When it was finished or given up; null while it is made.
    pub finished_at: Option<Timestamp>,
    /// The size of its files; null until that of the store is there.
    pub bytes: Option<u64>,
    /// How many attachments it holds; null where they do not go along, and until they are there.
    pub attachments: Option<u64>,
    /// The last position of the log that it holds; null until that is known.
    #[schema(value_type = Option<u64>)]
    pub position: Option<i64>,
    /// Whether it was restored into a folder of its own and checked there.
    pub verified: bool,
    /// What `colloquy restore` takes.
    pub url: String,
    /// Why it failed; null where it did not.
    pub error: Option<String>,
}

/// Why no backup was begun, or none can be told of.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The settings name no place for them.
    #[error("there is no place for backups: set [backup] url")]
    NoLocation,
    /// The store has tools of its own.
    #[error(
        "this store is no file: back MongoDB up by `mongodump --oplog`, or by `colloquy export` while no server runs"
    )]
    Unsupported,
    /// One is made already.
    #[error("a backup is being made already: {0}")]
    Running(BackupId),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// Where they are kept can't be reached.
    #[error("where backups are kept ([backup] url) can't be used: {0}")]
    Storage(#[from] ObjectError),
}

/// The backups of a store.
#[derive(Clone)]
pub struct Backups(Arc<Shared>);

struct Shared {
    catalog: Option<Catalog>,
    /// Where attachments are, where they go along.
    attachments: Option<Objects>,
    settings: BackupSettings,
    store: Arc<dyn Store>,
    running: Mutex<Option<Running>>,
    /// Backups that have ended, whose place has not taken that yet.
    unrecorded: Mutex<Vec<Manifest>>,
    called: Notify,
    status: Mutex<BackupStatus>,
}

/// The one that is being made.
#[derive(Clone)]
struct Running {
    manifest: Manifest,
    /// Whether its manifest is there: not before is it made, so that what says that it has begun can't
    /// come behind what says how it ended.
    is_begun: bool,
}

/// That the next backup is this caller's to begin: nobody else begins one meanwhile. It lapses when a
/// caller leaves who has not begun it.
struct Reservation<'b>(&'b Backups);

impl Reservation<'_> {
    fn begin(self) {
        if let Some(running) = &mut *self.0.0.running.lock() {
            running.is_begun = true;
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.0.running.lock().take_if(|running| !running.is_begun);
    }
}

impl Backups {
    /// Starts the thread that makes them and puts them there; none where there is no such place. Where
    /// attachments go along, `attachments` is where they are.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start(
        (objects, attachments): (Option<Objects>, Objects),
        settings: BackupSettings,
        store: Arc<dyn Store>,
    ) -> io::Result<(Self, Option<BackgroundThread>)> {
        let takes_snapshots = store.takes_snapshots();
        let makes_them = takes_snapshots && objects.is_some();
        let status = BackupStatus::of_schedule(settings.every.filter(|_| makes_them));
        let backups = Backups(Arc::new(Shared {
            catalog: objects.map(Catalog::new),
            attachments: settings.attachments.then_some(attachments),
            settings,
            store,
            running: Mutex::default(),
            unrecorded: Mutex::default(),
            called: Notify::new(),
            status: Mutex::new(status),
        }));
        // What an earlier process left on this machine goes where none are made any more, too.
        let thread = takes_snapshots.then(|| {
            let backups = backups.clone();
            BackgroundThread::start_with_connections("backups", move || {
                let backups = backups.clone();
                async move { backups.make_all().await }
            })
        });
        Ok((backups, thread.transpose()?))
    }

    /// Begins one, which is made behind the answer.
    ///
    /// # Errors
    /// None can be made, or one is made already.
    pub async fn begin(&self) -> Result<BackupView, BackupError> {
        if !self.0.store.takes_snapshots() {
            return Err(BackupError::Unsupported);
        }
        let objects = self.catalog()?.objects();
        let manifest = Manifest::begin(self.store_name().await?, Timestamp::now());
        let reservation = self.reserve(&manifest)?;
        let scratch = &self.0.settings.scratch;
        // Where that can't be written, making it fails and says so.
        let _ = scratch::note(scratch, manifest.backup_id);
        if let Err(error) = manifest.put(objects).await {
            scratch::forget(scratch, manifest.backup_id);
            return Err(error.into());
        }
        reservation.begin();
        self.0.called.notify_one();
        Ok(view(&manifest, objects))
    }

    /// A part of them, in order of their beginning.
    ///
    /// # Errors
    /// Where they are kept can't be read.
    pub async fn list(&self, paging: Paging) -> Result<Page, BackupError> {
        let Ok(catalog) = self.catalog() else {
            return Ok(Page::empty());
        };
        let place = |one: &Arc<Manifest>| Cursor::of(one.backup_id);
        let part = Part::of(self.all(catalog).await?, place, paging);
        let mut views = Vec::with_capacity(part.items.len());
        for one in part.items {
            let seen = self.seen(catalog, Manifest::clone(&one)).await?;
            views.push(view(&seen, catalog.objects()));
        }
        let id = |view: Option<&BackupView>| view.map(|view| view.backup_id.to_string());
        Ok(Page {
            data: json::bytes(&views).into(),
            count: u32::try_from(views.len()).unwrap_or(u32::MAX),
            total: part.total,
            first: id(views.first()),
            last: id(views.last()),
            before: part.before,
            after: part.after,
        })
    }

    /// One of them; none where there is none.
    ///
    /// # Errors
    /// Where they are kept can't be read.
    pub async fn get(&self, backup: BackupId) -> Result<Option<BackupView>, BackupError> {
        let Ok(catalog) = self.catalog() else {
            return Ok(None);
        };
        let Some(manifest) = catalog.get(backup, &self.store_name().await?).await? else {
            return Ok(None);
        };
        let seen = self.seen(catalog, manifest).await?;
        Ok(Some(view(&seen, catalog.objects())))
    }

    /// How they fare, without a look into their place.
    #[must_use]
    pub fn status(&self) -> BackupStatus {
        self.0.status.lock().clone()
    }

    fn reserve(&self, manifest: &Manifest) -> Result<Reservation<'_>, BackupError> {
        let mut running = self.0.running.lock();
        if let Some(running) = &*running {
            return Err(BackupError::Running(running.manifest.backup_id));
        }
        *running = Some(Running {
            manifest: manifest.clone(),
            is_begun: false,
        });
        Ok(Reservation(self))
    }

    fn running(&self, backup: BackupId) -> Option<Manifest> {
        let running = self.0.running.lock().clone();
        let running = running.map(|running| running.manifest);
        running.filter(|running| running.backup_id == backup)
    }

    /// The one that is to be made.
    fn begun(&self) -> Option<Manifest> {
        let running = self.0.running.lock().clone();
        let begun = running.filter(|running| running.is_begun);
        begun.map(|running| running.manifest)
    }

    /// All of this store, the oldest first.
    async fn all(&self, catalog: &Catalog) -> Result<Vec<Arc<Manifest>>, BackupError> {
        Ok(catalog.all(&self.store_name().await?).await?)
    }

    async fn store_name(&self) -> Result<String, ReadError> {
        Ok(self.0.store.store_key().await?.name)
    }

    fn catalog(&self) -> Result<&Catalog, BackupError> {
        self.0.catalog.as_ref().ok_or(BackupError::NoLocation)
    }

    /// As it is: one that is being made until nothing is left to be done for it, so that whoever sees
    /// how it ended can begin the next. What says that it is being made, and is not, has ended with
    /// an earlier process.
    async fn seen(&self, catalog: &Catalog, manifest: Manifest) -> Result<Manifest, ObjectError> {
        let backup = manifest.backup_id;
        if let Some(running) = self.running(backup) {
            return Ok(running);
        }
        if manifest.state != BackupState::Running {
            return Ok(manifest);
        }
        // It may have ended since it was read: that is written, or is unrecorded, before it counts as
        // running no more, and is written before it counts as unrecorded no more.
        let unrecorded = self.unrecorded(backup);
        let read = catalog.get(backup, &manifest.store).await?;
        let mut seen = read.unwrap_or(manifest);
        if seen.state == BackupState::Running {
            match unrecorded {
                Some(ended) => seen = ended,
                None => seen.interrupt(),
            }
        }
        Ok(seen)
    }

    fn unrecorded(&self, backup: BackupId) -> Option<Manifest> {
        let unrecorded = self.0.unrecorded.lock();
        let mut unrecorded = unrecorded.iter();
        unrecorded.find(|one| one.backup_id == backup).cloned()
    }

    /// Makes those that are asked for and those that are due.
    async fn make_all(&self) {
        let scratch = &self.0.settings.scratch;
        scratch::clear(scratch).await;
        let noted = scratch::noted(scratch);
        let Ok(catalog) = self.catalog() else {
            return noted
                .into_iter()
                .for_each(|backup| scratch::forget(scratch, backup));
        };
        let mut interrupted = Some(noted);
        let maker = Maker {
            catalog,
            settings: &self.0.settings,
            attachments: self.0.attachments.as_ref(),
            store: &*self.0.store,
        };
        loop {
            match self.begun() {
                Some(manifest) => self.make(&maker, manifest).await,
                None => {
                    let looked = self.look(catalog, &mut interrupted).await;
                    if let Err(error) = &looked {
                        tracing::warn!(%error, "no backup could be begun");
                    }
                    let mut status = self.0.status.lock();
                    status.looked(looked.err().map(|error| error.to_string()));
                }
            }
            if self.begun().is_none() {
                // Either somebody asks for one, or it looks by itself.
                let patience = self.0.settings.every.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
                let _ = tokio::time::timeout(patience, self.0.called.notified()).await;
            }
        }
    }

    /// Ends the backups that an earlier process has begun and did not end, where that was not done yet;
    /// then begins the next where it is due.
    ///
    /// # Errors
    /// Their place does not answer: one that is due, or may be, was not begun.
    async fn look(
        &self,
        catalog: &Catalog,
        interrupted: &mut Option<Vec<BackupId>>,
    ) -> Result<(), BackupError> {
        if let Some(backups) = interrupted {
            for backup in backups {
                self.end_interrupted(catalog, *backup).await?;
                scratch::forget(&self.0.settings.scratch, *backup);
            }
            for manifest in self.all(catalog).await? {
                self.0.status.lock().remember(&manifest);
            }
            *interrupted = None;
        }
        self.record_ended(catalog).await?;
        self.begin_if_due(catalog).await
    }

    /// Writes down how backups ended whose place did not take it then.
    async fn record_ended(&self, catalog: &Catalog) -> Result<(), BackupError> {
        let unrecorded = self.0.unrecorded.lock().clone();
        for manifest in unrecorded {
            manifest.put(catalog.objects()).await?;
            let backup = manifest.backup_id;
            self.0
                .unrecorded
                .lock()
                .retain(|one| one.backup_id != backup);
            scratch::forget(&self.0.settings.scratch, backup);
        }
        Ok(())
    }

    /// Ends a backup that an earlier process of this machine has begun, unless it has ended.
    async fn end_interrupted(
        &self,
        catalog: &Catalog,
        backup: BackupId,
    ) -> Result<(), BackupError> {
        let found = catalog.get(backup, &self.store_name().await?).await?;
        let is_interrupted = |one: &Manifest| one.state == BackupState::Running;
        let Some(mut manifest) = found.filter(is_interrupted) else {
            return Ok(());
        };
        if self.running(backup).is_some() {
            return Ok(());
        }
        // Half a copy is of no use, and holds texts that may be erased since. Where nothing can be
        // deleted it must not keep the next from being made.
        if let Err(error) = manifest.delete_content(catalog.objects()).await {
            tracing::error!(%backup, %error, "where backups are kept does not let half of one go");
        }
        manifest.interrupt();
        manifest.finished_at = Some(Timestamp::now());
        manifest.put(catalog.objects()).await?;
        tracing::warn!(%backup, "a backup has failed: the server ended before it was done");
        self.0.status.lock().count(&manifest);
        Ok(())
    }

    async fn latest(&self, catalog: &Catalog) -> Result<Option<Manifest>, BackupError> {
        match self.all(catalog).await?.last() {
            Some(latest) => Ok(Some(self.seen(catalog, Manifest::clone(latest)).await?)),
            None => Ok(None),
        }
    }

    async fn make(&self, maker: &Maker<'_>, mut manifest: Manifest) {
        let backup = manifest.backup_id;
        match maker.make(&mut manifest).await {
            Ok(()) => {
                manifest.state = BackupState::Finished;
                tracing::info!(%backup, verified = manifest.verified, "a backup was made");
            }
            Err(error) => {
                tracing::error!(%backup, %error, "a backup failed");
                manifest.fail(error.to_string());
            }
        }
        manifest.finished_at = Some(Timestamp::now());
        let put = manifest.put(maker.catalog.objects()).await;
        if let Err(error) = &put {
            tracing::error!(%backup, %error, "where backups are kept does not take what became of one");
            if manifest.error.is_none() {
                manifest.fail(error.to_string());
            }
            self.0.unrecorded.lock().push(manifest.clone());
        } else {
            if let Err(error) = self.record_ended(maker.catalog).await {
                tracing::error!(%error, "where backups are kept does not take what became of others");
            }
            if let Err(error) = maker.let_go(&manifest.store).await {
                tracing::error!(%backup, %error, "where backups are kept does not let old ones go");
            }
        }
        self.0.status.lock().count(&manifest);
        scratch::clear(&self.0.settings.scratch).await;
        if put.is_ok() {
            scratch::forget(&self.0.settings.scratch, backup);
        }
        *self.0.running.lock() = None;
    }

    /// Begins the next where it is due.
    ///
    /// # Errors
    /// It is due, or may be, and was not begun.
    async fn begin_if_due(&self, catalog: &Catalog) -> Result<(), BackupError> {
        let Some(every) = self.0.settings.every else {
            return Ok(());
        };
        // Somebody has just asked for one.
        if self.0.running.lock().is_some() {
            return Ok(());
        }
        let due = self.latest(catalog).await?.map_or(Timestamp(0), |latest| {
            let has_failed = latest.state == BackupState::Failed;
            let wait = if has_failed {
                every.min(AGAIN_AFTER)
            } else {
                every
            };
            latest.started_at + wait
        });
        if due > Timestamp::now() {
            return Ok(());
        }
        match self.begin().await {
            // Somebody has asked for one meanwhile.
            Ok(_) | Err(BackupError::Running(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn view(manifest: &Manifest, objects: &Objects) -> BackupView {
    BackupView {
        backup_id: manifest.backup_id,
        state: manifest.state,
        started_at: manifest.started_at,
        finished_at: manifest.finished_at,
        bytes: manifest.bytes(),
        attachments: manifest.attachments.as_ref().map(|all| all.count),
        position: manifest.position,
        verified: manifest.verified,
        url: objects.url(&manifest.backup_id.to_string()),
        error: manifest.error.clone(),
    }
}
