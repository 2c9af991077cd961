//! What is kept of a backup beside its file: one object that says how it went and what it holds.

use bytes::Bytes;
use colloquy_model::id::BackupId;
use colloquy_model::json;
use colloquy_model::time::Timestamp;
use colloquy_objects::{ObjectError, Objects};
use serde::{Deserialize, Serialize};

/// The name of a manifest in the backup's folder.
pub(super) const NAME: &str = "manifest.json";
/// The name of the file, and of one that is sealed.
pub(super) const FILE: &str = "colloquy.db.zst";
pub(super) const SEALED_FILE: &str = "colloquy.db.zst.sealed";
/// What the names begin with of the files in which attachments are, and how they end, and end where they
/// are sealed. Between stands a number, from 1 on.
const ATTACHMENTS: &str = "attachments-";
const TAR: &str = ".tar.zst";
const SEALED_TAR: &str = ".tar.zst.sealed";
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
    /// The attachments that go along; none where they do not.
    #[serde(default)]
    pub(super) attachments: Option<AttachmentsOfBackup>,
    /// Whether it was restored and checked.
    pub(super) verified: bool,
    pub(super) error: Option<String>,
}

/// A file as it is kept: compressed, and sealed where texts are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackedFile {
    /// Its name in the backup's folder.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// In hex.
    pub(super) sha256: String,
    /// The name of the master key that it is sealed under.
    pub(super) sealed_under: Option<String>,
}

/// The attachments of a backup, in files of many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AttachmentsOfBackup {
    /// How many attachments the files hold together.
    pub(super) count: u64,
    pub(super) files: Vec<PackedFile>,
}

/// The store's file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileOfBackup {
    #[serde(flatten)]
    pub(super) packed: PackedFile,
    /// Whether the master key that is kept with the store goes along.
    pub(super) has_key: bool,
    /// The name of that key. Earlier versions did not note it.
    #[serde(default)]
    pub(super) key_name: Option<String>,
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
            attachments: None,
            verified: false,
            error: None,
        }
    }

    /// Notes that it can't be restored, and why.
    pub(super) fn fail(&mut self, error: String) {
        self.state = BackupState::Failed;
        self.error = Some(error);
    }

    /// Notes that the process that made it has ended before it did.
    pub(super) fn interrupt(&mut self) {
        self.fail("the server ended before it was done".to_owned());
    }

    /// The size of its files; none where they are not all there.
    pub(super) fn bytes(&self) -> Option<u64> {
        let own = self.file.as_ref()?.packed.bytes;
        let attachments = self.attachments.iter().flat_map(|all| &all.files);
        Some(own + attachments.map(|file| file.bytes).sum::<u64>())
    }

    /// Where its files are, of all backups that are kept.
    pub(super) fn place(&self, all: &Objects) -> Objects {
        all.below(&self.backup_id.to_string())
    }

    /// Keeps it as it is now.
    ///
    /// # Errors
    /// What is kept may be as it was before.
    pub(super) async fn put(&self, all: &Objects) -> Result<(), ObjectError> {
        let content: Bytes = json::bytes(self);
        self.place(all).put_secret(NAME, content).await
    }

    /// Deletes the backup, and last what says that it is there.
    ///
    /// # Errors
    /// A part of it is left, and the manifest with it: it can be deleted again.
    pub(super) async fn delete(&self, all: &Objects) -> Result<(), ObjectError> {
        self.delete_content(all).await?;
        self.place(all).delete_unfinished(NAME).await
    }

    /// Deletes what it holds, and leaves what says how it went.
    ///
    /// # Errors
    /// The storage did not answer, or refused: a part of what it holds may be left.
    pub(super) async fn delete_content(&self, all: &Objects) -> Result<(), ObjectError> {
        let place = self.place(all);
        let parts = place.list("").await?;
        // No list has what a process that died has put of a file, such as the next one of attachments.
        let tars = parts
            .iter()
            .filter(|part| part.name.starts_with(ATTACHMENTS));
        let next = tars.count() + 1;
        let next = [false, true].map(|is_sealed| name_of_attachments(next, is_sealed));
        let unfinished = [FILE, SEALED_FILE, KEY].into_iter();
        for part in unfinished.chain(next.iter().map(String::as_str)) {
            place.delete_unfinished(part).await?;
        }
        for part in parts {
            if part.name != NAME {
                place.delete(&part.name).await?;
            }
        }
        Ok(())
    }

    /// Reads the one of the backup whose files are there.
    ///
    /// # Errors
    /// There is none, or it is no manifest.
    pub(super) async fn read(place: &Objects) -> Result<Self, ManifestError> {
        Ok(serde_json::from_slice(&place.get(NAME).await?)?)
    }
}

/// The name of a file of attachments in the backup's folder.
pub(super) fn name_of_attachments(number: usize, is_sealed: bool) -> String {
    let end = if is_sealed { SEALED_TAR } else { TAR };
    format!("{ATTACHMENTS}{number:04}{end}")
}

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub(super) enum ManifestError {
    /// It is not there, or can't be reached.
    #[error(transparent)]
    Storage(#[from] ObjectError),
    /// It is there, and something else.
    #[error(transparent)]
    Damaged(#[from] serde_json::Error),
}
