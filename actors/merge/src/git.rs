//! The oracle of the tests: the real git, in a folder of its own, deaf to whoever's settings.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder in which git and patch work.
#[derive(Debug)]
pub(crate) struct Git {
    folder: TempDir,
}

impl Git {
    pub(crate) fn new() -> Self {
        // In memory where that can be had: a file that is written again and again may have to reach
        // the disk each time.
        let memory = Path::new("/dev/shm");
        let temporary = std::env::temp_dir();
        let place = if memory.is_dir() { memory } else { &temporary };
        Self {
            folder: tempfile::Builder::new()
                .prefix("git-oracle-")
                .tempdir_in(place)
                .unwrap(),
        }
    }

    /// Where a file of this name stands.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file; its folder is made.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs git; its exit code and what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String) {
        self.output("git", arguments)
    }

    /// Runs any command there.
    pub(crate) fn output(&self, command: &str, arguments: &[&str]) -> (i32, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(command)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.folder.path().parent().unwrap(),
            )
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            status.code().is_some_and(|code| code < 128),
            "{command} {arguments:?}: {}",
            String::from_utf8_lossy(&stderr)
        );
        (status.code().unwrap(), String::from_utf8(stdout).unwrap())
    }
}
