//! The folder of this machine in which backups are made and checked. What a process that died left there
//! is a copy of the store as it was: it holds texts that were erased since.

use std::path::Path;
use std::{fs, io};

use colloquy_objects::remove_large;
use colloquy_runtime::offload;

/// Removes the folder and what is in it. Where it can't be removed, the log says why.
pub(super) async fn clear(scratch: &Path) {
    let folder = scratch.to_owned();
    let removed = offload::run_on_batch_cores((), move || remove(&folder)).await;
    let removed = removed.unwrap_or_else(|| Err(io::Error::other("it panicked")));
    if let Err(error) = removed {
        tracing::warn!(%error, folder = %scratch.display(), "what a backup left can't be removed");
    }
}

/// Removes a folder as [`fs::remove_dir_all`] does, its large files in steps.
fn remove(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            remove(&path)?;
        } else if kind.is_file() {
            remove_large(&path)?;
        } else {
            // What a link leads to is somebody's.
            fs::remove_file(&path)?;
        }
    }
    fs::remove_dir(folder)
}
