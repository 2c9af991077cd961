//! Files that nobody else on the machine may read.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
