//! A lock that keeps other processes from a file: it lies beside the file and ends with its holder,
//! however that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Locks this path, whether there is a file or not, by a file beside it with the ending `.lock`;
/// missing folders are made. Held until the value is dropped. None where another process holds it.
///
/// # Errors
/// The file beside it or its folder can't be made.
pub fn try_lock(path: &Path) -> io::Result<Option<File>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&beside)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
