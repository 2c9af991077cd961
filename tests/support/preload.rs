//! Libraries that stand in front of the system's, so that a server meets what is slow or silent.

use std::path::PathBuf;
use std::process::Command;

use super::tool;

/// Compiles a library of this name from C, for `LD_PRELOAD`.
pub(crate) fn library(name: &str, source: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [code, library] = ["c", "so"].map(|kind| folder.join(format!("{name}.{kind}")));
    std::fs::write(&code, source).unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &code])
        .arg("-ldl")
        .status();
    assert!(tool::started("cc", made).success());
    library
}
