//! The binary as it is released: without what only a debugger needs, which stands beside it.

use std::path::Path;
use std::process::Command;

use crate::support::tool;

fn said(program: &str, arguments: &[&Path]) -> String {
    let output = tool::started(program, Command::new(program).args(arguments).output());
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_a_debugger_needs_stands_beside_the_binary_and_is_found_there() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_colloquy"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/split-debug");
    said(script, &[built, folder.path()]);
    let stripped = folder.path().join("colloquy");
    let beside = folder.path().join("colloquy.debug");
    let version = said(stripped.to_str().unwrap(), &[Path::new("--version")]);
    assert!(version.starts_with("colloquy "), "{version}");
    let sections = said("readelf", &[Path::new("-SW"), &stripped]);
    assert!(!sections.contains(".debug_info"), "{sections}");
    assert!(sections.contains(".gnu_debuglink"), "{sections}");
    assert!(!said("readelf", &[Path::new("-sW"), &stripped]).contains("colloquy_actors"));
    // The address of a function of ours, to whoever reads the lines of a backtrace.
    let symbols = said("nm", &[Path::new("-C"), built]);
    let ours = symbols
        .lines()
        .find(|line| line.contains(" t colloquy::startup::"));
    let address = Path::new(ours.unwrap().split_once(' ').unwrap().0);
    let line = || said("addr2line", &[Path::new("-e"), &stripped, address]);
    assert!(line().contains(".rs:"), "{}", line());
    std::fs::remove_file(beside).unwrap();
    assert!(line().starts_with("??"), "{}", line());
}
