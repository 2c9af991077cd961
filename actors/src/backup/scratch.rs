//! The folder of this machine in which backups are made and checked. What a process that died left there
//! is a copy of the store as it was: it holds texts that were erased since.
//!
//! An empty file there is named by the backup that is under way. The next process knows by it which one
//! its predecessor has begun; another process, on a copy of the store elsewhere, may be making others.

use std::path::Path;
use std::{fs, io};

use colloquy_model::id::BackupId;
use colloquy_objects::{Disk, remove_large};
use colloquy_runtime::{offload, private_file};

/// Notes that a backup is under way.
///
/// # Errors
/// The folder can't be written: no backup can be made there either.
pub(super) fn note(scratch: &Path, backup: BackupId) -> io::Result<()> {
    private_file::ensure_folder(scratch)?;
    private_file::ensure(&scratch.join(backup.to_string()))
}

/// The backups that are noted as under way; none where the folder can't be read.
pub(super) fn noted(scratch: &Path) -> Vec<BackupId> {
    let entries = fs::read_dir(scratch).into_iter().flatten();
    let backup = |entry: io::Result<fs::DirEntry>| noted_by(&entry.ok()?.path());
    entries.filter_map(backup).collect()
}

fn noted_by(path: &Path) -> Option<BackupId> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Notes that a backup is under way no more.
pub(super) fn forget(scratch: &Path, backup: BackupId) {
    // A note that stays is of a backup that has ended: whoever reads it finds that.
    let _ = fs::remove_file(scratch.join(backup.to_string()));
    let _ = fs::remove_dir(scratch);
}

/// Removes everything else in the folder, and an empty folder. Where it can't be removed, the log says
/// why.
pub(super) async fn clear(scratch: &Path) {
    let folder = scratch.to_owned();
    let removed = offload::run_on_batch_cores((), move || remove_copies(&folder)).await;
    let removed = removed.unwrap_or_else(|| Err(io::Error::other("it panicked")));
    if let Err(error) = removed {
        tracing::warn!(%error, folder = %scratch.display(), "what a backup left can't be removed");
    }
}

/// Removes as [`fs::remove_dir_all`] does, large files in steps.
fn remove_copies(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            remove_copies(&path)?;
        } else if !kind.is_file() {
            // What a link leads to is somebody's.
            fs::remove_file(&path)?;
        } else if noted_by(&path).is_none() {
            remove_large(&path, Disk::Shared)?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}
