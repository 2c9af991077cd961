//! A server of MongoDB's protocol of a test's own, which can be ended, paused and started again on
//! the same files.

use std::process::Child;

use tempfile::TempDir;

use super::{mongodb, process};

/// Such a server. Its files go with it.
pub(crate) struct Database {
    folder: TempDir,
    /// `host:port`, the same after each start.
    address: String,
    child: Child,
}

impl Database {
    /// Starts one without any data.
    pub(crate) fn start() -> Self {
        let folder = TempDir::with_prefix_in("database-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (child, uri) = mongodb::launched(&["127.0.0.1:0", folder.path().to_str().unwrap()]);
        Self {
            folder,
            address: mongodb::host(&uri).to_owned(),
            child,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// kill -9, and waits until the process is gone.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits until the process is gone.
    pub(crate) fn term(&mut self) {
        process::signal("TERM", self.child.id());
        self.child.wait().unwrap();
    }

    /// Starts again what has ended, on the same files.
    pub(crate) fn start_again(&mut self) {
        let folder = self.folder.path().to_str().unwrap();
        (self.child, _) = mongodb::launched(&[&self.address, folder]);
    }

    /// Stops it until the answer is dropped.
    pub(crate) fn pause(&self) -> process::Pause {
        process::pause(self.child.id())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.kill9();
    }
}
