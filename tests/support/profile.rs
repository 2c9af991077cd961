//! A browser's profile, and with it the browser: processes of Chromium outlive who started the first.

use std::process::Command;

use tempfile::TempDir;

use super::tool;

/// The folder of one browser. It goes with this, and so do all processes that use it: a driver that is
/// killed leaves them behind, and their pages would go on asking servers for the rest of the suite.
pub(crate) struct Profile(TempDir);

impl Profile {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix_in("profile-", env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// What Chromium is started with to use it.
    pub(crate) fn argument(&self) -> String {
        format!("--user-data-dir={}", self.0.path().display())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let mut kill = Command::new("pkill");
        kill.args(["-KILL", "-f", "--", &self.argument()]);
        tool::started("pkill", kill.status());
    }
}
