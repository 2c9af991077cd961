//! Files that nobody else on the machine may read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes the folder, and those above it, for its owner alone, where there is none.
///
/// # Errors
/// It can't be made.
pub fn ensure_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the file, empty and for its owner alone, where there is none.
///
/// # Errors
/// It can't be made.
pub fn ensure(path: &Path) -> io::Result<()> {
    // One that is there is left alone: to close it would let go of the locks that this process has.
    if path.exists() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map(|_| ())
}
