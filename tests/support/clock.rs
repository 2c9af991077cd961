//! A wall clock of the server's own, so that no test waits for minutes: libfaketime, read from a
//! file that the test writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::server::{Folder, Server, Setup};

/// A server whose clock the test sets.
pub(crate) struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Starts a server with it.
    pub(crate) fn start() -> (Server, Clock) {
        Self::start_as(Setup::default())
    }

    /// The same with other settings.
    pub(crate) fn start_as(setup: Setup) -> (Server, Clock) {
        let folder = Folder::new();
        let clock = Clock {
            file: folder.work().join("clock"),
        };
        clock.ahead(0);
        let setup = setup
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", clock.file.to_str().unwrap())
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        (setup.start_in(folder), clock)
    }

    /// Sets the server's clock so many minutes ahead, within a second.
    pub(crate) fn ahead(&self, minutes: u32) {
        // Whole at once: the server reads it whenever it likes.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("+{minutes}m")).unwrap();
        fs::rename(new, &self.file).unwrap();
    }
}

fn library() -> &'static str {
    const PLACES: [&str; 2] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ];
    PLACES
        .into_iter()
        .find(|place| Path::new(place).exists())
        .expect("Debian's package faketime is there")
}
