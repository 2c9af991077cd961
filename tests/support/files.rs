//! What stands in the files of a server, to the byte.

use std::collections::BTreeSet;
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

/// Which of these words a file below the folder holds, and which. All are as long, and begin alike.
pub(crate) fn words_in(folder: &Path, words: &BTreeSet<&str>) -> BTreeSet<(PathBuf, String)> {
    let (first, last) = (words.first().unwrap(), words.last().unwrap());
    let alike = first
        .bytes()
        .zip(last.bytes())
        .take_while(|(one, other)| one == other);
    let (start, length) = (first.get(..alike.count()).unwrap(), first.len());
    assert!(
        start.len() > 2 && words.iter().all(|word| word.len() == length),
        "not to be found so"
    );
    let mut found = BTreeSet::new();
    for path in below(folder) {
        let file = fs::read(&path).unwrap_or_default();
        let starts = memchr::memmem::find_iter(&file, start);
        let held = starts
            .filter_map(|at| str::from_utf8(file.get(at..at + length)?).ok())
            .filter(|word| words.contains(word));
        found.extend(held.map(|word| (path.clone(), word.to_owned())));
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
