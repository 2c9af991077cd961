//! What stands in the files of a server, to the byte.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read of a file at once.
const PIECE: usize = 64 << 10;

/// Every file below the folder that holds the text.
pub(crate) fn files_with(folder: &Path, text: impl AsRef<[u8]>) -> Vec<PathBuf> {
    let text = text.as_ref();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if file_holds(&path, text) {
            found.push(path);
        }
    }
    found
}

/// Whether the text stands anywhere in this file, which may be gone. It is read in pieces: where the
/// kernel lets nobody else run before a read has ended, one of all of it would hold up whoever is
/// measured meanwhile.
fn file_holds(path: &Path, text: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    // The end of a piece stays before the next one: the text may stand across the two.
    let (mut window, mut kept) = (vec![0; PIECE + text.len()], 0);
    loop {
        let read = file.read(&mut window[kept..]).unwrap_or(0);
        let end = kept + read;
        if read == 0 || holds(&window[..end], text) {
            return read > 0;
        }
        kept = end.min(text.len() - 1);
        window.copy_within(end - kept..end, 0);
    }
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
