//! The backups of a store among all that is kept in their place: what tells of each is read once, and
//! again when it has changed. A list of thousands would otherwise read a file for each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::manifest::{Manifest, ManifestError, NAME};
use colloquy_model::id::BackupId;
use colloquy_objects::{Object, ObjectError, Objects};

/// How many manifests are read at a time.
const READ_AT_ONCE: usize = 16;

/// What is kept in the place of backups.
pub(super) struct Catalog {
    objects: Objects,
    known: Mutex<BTreeMap<BackupId, Known>>,
}

/// What changes with the content of a manifest; none where the storage does not tell it.
type Version = Option<String>;

/// A manifest that was read.
struct Known {
    version: Version,
    /// None where it can't be understood, or is that of another backup, which was copied.
    manifest: Option<Arc<Manifest>>,
}

impl Catalog {
    pub(super) fn new(objects: Objects) -> Self {
        Catalog {
            objects,
            known: Mutex::default(),
        }
    }

    /// The files of the place, backups and whatever else is kept there.
    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// All of this store, the oldest first. One whose manifest is damaged is none of them: it can't be
    /// restored, and must not keep the others from being told of.
    ///
    /// # Errors
    /// The place does not answer.
    pub(super) async fn all(&self, store: &str) -> Result<Vec<Arc<Manifest>>, ObjectError> {
        let mut kept = BTreeMap::new();
        for object in self.objects.list("").await? {
            if let Some(backup) = backup_of(&object) {
                kept.insert(backup, object.version);
            }
        }
        let unread = stream::iter(self.unread(&kept));
        let read = unread.map(|(backup, version)| self.read(backup, version));
        let read: Vec<_> = read.buffer_unordered(READ_AT_ONCE).try_collect().await?;
        let mut known = self.known.lock();
        known.extend(read.into_iter().flatten());
        let all = kept.keys().filter_map(|backup| known.get(backup));
        let all = all.filter_map(|known| known.manifest.clone());
        Ok(all.filter(|manifest| manifest.store == store).collect())
    }

    /// Those of what is kept that are not known as they are now; what is known of others is forgotten.
    fn unread(&self, kept: &BTreeMap<BackupId, Version>) -> Vec<(BackupId, Version)> {
        let mut known = self.known.lock();
        known.retain(|backup, _| kept.contains_key(backup));
        let is_read = |(backup, version): &(&BackupId, &Version)| {
            let known = known.get(*backup);
            version.is_some() && known.is_some_and(|known| known.version == **version)
        };
        let unread = kept.iter().filter(|one| !is_read(one));
        unread
            .map(|(backup, version)| (*backup, version.clone()))
            .collect()
    }

    /// The one of this identifier, as it is now; none where there is none of this store.
    ///
    /// # Errors
    /// The place does not answer.
    pub(super) async fn get(
        &self,
        backup: BackupId,
        store: &str,
    ) -> Result<Option<Manifest>, ObjectError> {
        let place = self.objects.below(&backup.to_string());
        match Manifest::read(&place).await {
            Ok(manifest) => {
                let is_it = manifest.backup_id == backup && manifest.store == store;
                Ok(is_it.then_some(manifest))
            }
            Err(ManifestError::Damaged(_)) => Ok(None),
            Err(ManifestError::Storage(error)) if error.is_missing() => Ok(None),
            Err(ManifestError::Storage(error)) => Err(error),
        }
    }

    /// Reads a manifest; none where it was deleted meanwhile.
    async fn read(
        &self,
        backup: BackupId,
        version: Version,
    ) -> Result<Option<(BackupId, Known)>, ObjectError> {
        let place = self.objects.below(&backup.to_string());
        let manifest = match Manifest::read(&place).await {
            Ok(manifest) => Some(Arc::new(manifest)),
            Err(ManifestError::Damaged(error)) => {
                let manifest = place.url(NAME);
                tracing::warn!(manifest, %error, "a backup is not listed: its manifest is damaged");
                None
            }
            Err(ManifestError::Storage(error)) if error.is_missing() => return Ok(None),
            Err(ManifestError::Storage(error)) => return Err(error),
        };
        let manifest = manifest.filter(|manifest| manifest.backup_id == backup);
        Ok(Some((backup, Known { version, manifest })))
    }
}

/// The backup whose manifest this is. What lies beside backups, such as a copy of one under another
/// name, is none.
fn backup_of(object: &Object) -> Option<BackupId> {
    let (backup, NAME) = object.name.split_once('/')? else {
        return None;
    };
    backup.parse().ok()
}
