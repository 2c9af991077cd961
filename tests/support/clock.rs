//! A wall clock of the server's own, so that no test waits for minutes: libfaketime, read from a
//! file that the test writes.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::server::{Folder, Server, Setup};
use super::tool;

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
        let clock = Clock::of(&folder);
        clock.ahead(0);
        (clock.start_in(setup, folder), clock)
    }

    /// Starts a server in this folder at this instant.
    pub(crate) fn start_at(instant: DateTime<Utc>, folder: Folder) -> Server {
        let clock = Clock::of(&folder);
        clock.set(&instant.format("@%Y-%m-%d %H:%M:%S").to_string());
        clock.start_in(Setup::default(), folder)
    }

    fn of(folder: &Folder) -> Clock {
        Clock {
            file: folder.work().join("clock"),
        }
    }

    fn start_in(&self, setup: Setup, folder: Folder) -> Server {
        setup
            .env("LD_PRELOAD", library())
            .env("TZ", "UTC")
            .env("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap())
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start_in(folder)
    }

    /// Sets the server's clock so many minutes ahead, within a second.
    pub(crate) fn ahead(&self, minutes: u32) {
        self.set(&format!("+{minutes}m"));
    }

    fn set(&self, time: &str) {
        // Whole at once: the server reads it whenever it likes.
        let new = self.file.with_extension("new");
        fs::write(&new, time).unwrap();
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
        .unwrap_or_else(|| tool::is_missing("libfaketimeMT.so.1"))
}
