//! A small disk of its own, to be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tool;

/// Unmounted at the end.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many MiB in this folder.
    pub(crate) fn mount(at: &Path, mebibytes: u32) -> Self {
        fs::create_dir_all(at).unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .status();
        let mounted = tool::started("mount", mounted);
        assert!(
            mounted.success(),
            "this test needs the right to mount a tmpfs (root)"
        );
        Self(at.to_owned())
    }

    /// Fills what is left, to the last byte.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        for size in [65_536, 4096, 512, 1] {
            let part = vec![b'x'; size];
            while file.write_all(&part).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: when a test fails, the server may still hold its files for a moment.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}
