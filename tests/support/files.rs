//! What stands in the files of a server, to the byte.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file below the folder that holds the text.
pub(crate) fn files_with(folder: &Path, text: impl AsRef<[u8]>) -> Vec<PathBuf> {
    let text = text.as_ref();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if holds(&fs::read(&path).unwrap_or_default(), text) {
            found.push(path);
        }
    }
    found
}

/// Every file below the folder; none where it is not there.
pub(crate) fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Whether the text stands anywhere in these bytes.
pub(crate) fn holds(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}
