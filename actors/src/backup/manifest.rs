//! What is kept of a backup beside its file: one object that says how it went and what it holds.

use bytes::Bytes;
use colloquy_model::id::BackupId;
use colloquy_model::json;
use colloquy_model::time::Timestamp;
use colloquy_objects::{ObjectError, Objects};
use serde::{Deserialize, Serialize};

/// The name of a manifest in the backup's folder.
const NAME: &str = "manifest.json";
/// The name of the file, and of one that is sealed.
pub(super) const FILE: &str = "colloquy.db.zst";
pub(super) const SEALED_FILE: &str = "colloquy.db.zst.sealed";
/// The name of the master key that is kept with the store, in the backup's folder.
pub(super) const KEY: &str = "colloquy.db.key";

/// How a backup goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackupState {
    /// It is being made.
    Running,
    /// It is there, whole.
    Finished,
    /// It can't be restored; `error` says why.
    Failed,
}

/// A backup as its manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) backup_id: BackupId,
    /// The name of the store's key: a place that several stores share keeps their backups apart.
    pub(super) store: String,
    pub(super) state: BackupState,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Option<Timestamp>,
    /// The version of the program that made it.
    pub(super) version: String,
    /// The last position that it holds.
    pub(super) position: Option<i64>,
    pub(super) file: Option<FileOfBackup>,
    /// Whether it was restored and checked.
    pub(super) verified: bool,
    pub(super) error: Option<String>,
}

/// The file of a backup as it is kept: compressed, and sealed where texts are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileOfBackup {
    /// Its name in the backup's folder.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// In hex.
    pub(super) sha256: String,
    /// The name of the master key that it is sealed under.
    pub(super) sealed_under: Option<String>,
    /// Whether the master key that is kept with the store goes along.
    pub(super) has_key: bool,
}

impl Manifest {
    pub(super) fn begin(store: String, now: Timestamp) -> Self {
        Manifest {
            backup_id: BackupId::new(now),
            store,
            state: BackupState::Running,
            started_at: now,
            finished_at: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            position: None,
            file: None,
            verified: false,
            error: None,
        }
    }

    /// The name of something in its folder.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.backup_id)
    }

    /// Keeps it as it is now.
    ///
    /// # Errors
    /// What is kept may be as it was before.
    pub(super) async fn put(&self, objects: &Objects) -> Result<(), ObjectError> {
        let content: Bytes = json::bytes(self);
        objects.put_secret(&self.named(NAME), content).await
    }

    /// Deletes the backup, and last what says that it is there.
    ///
    /// # Errors
    /// A part of it is left, and the manifest with it: it can be deleted again.
    pub(super) async fn delete(&self, objects: &Objects) -> Result<(), ObjectError> {
        let mut parts = objects.list(&self.backup_id.to_string()).await?;
        parts.sort_unstable_by_key(|part| part.name.ends_with(NAME));
        // No list has what a process that died has put of a file.
        for file in [FILE, SEALED_FILE] {
            objects.delete_unfinished(&self.named(file)).await?;
        }
        for part in parts {
            objects.delete(&part.name).await?;
        }
        Ok(())
    }

    /// Reads the one of this backup.
    ///
    /// # Errors
    /// There is none, or it is no manifest.
    pub(super) async fn read(objects: &Objects, backup: &str) -> Result<Self, ObjectError> {
        let content = objects.get(&format!("{backup}/{NAME}")).await?;
        let read = serde_json::from_slice(&content);
        read.map_err(|error| ObjectError::File(error.into()))
    }

    /// All of this store, the latest first.
    ///
    /// # Errors
    /// They can't be read.
    pub(super) async fn all(objects: &Objects, store: &str) -> Result<Vec<Self>, ObjectError> {
        let mut all = Vec::new();
        for object in objects.list("").await? {
            let Some((backup, NAME)) = object.name.split_once('/') else {
                continue;
            };
            match Self::read(objects, backup).await {
                Ok(manifest) if manifest.store == store => all.push(manifest),
                Ok(_) => {}
                // Deleted meanwhile.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_unstable_by_key(|manifest| std::cmp::Reverse(manifest.backup_id));
        Ok(all)
    }
}
