//! The real git and patch as oracles: each call in a folder of its own, apart from any repository
//! and any settings.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::tool;

/// A folder with these files.
pub(crate) fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::with_prefix_in("git-", env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Runs a program in a folder.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.env("GIT_CEILING_DIRECTORIES", env!("CARGO_TARGET_TMPDIR"));
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C.UTF-8");
    tool::started(program, command.output())
}

/// Three texts of which two were made from the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Triple {
    pub(crate) base: String,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// What `git merge-file` makes of them: the text and the number of conflicts. The sides are called
/// `head` and `side`.
pub(crate) fn merge_file(texts: &Triple, options: &[&str]) -> (String, usize) {
    let folder = folder_with(&[
        ("ours", &texts.ours),
        ("base", &texts.base),
        ("theirs", &texts.theirs),
    ]);
    let mut arguments = vec!["merge-file", "-p", "-L", "head", "-L", "base", "-L", "side"];
    arguments.extend(options);
    arguments.extend(["ours", "base", "theirs"]);
    let output = run(folder.path(), "git", &arguments);
    let conflicts = output.status.code().filter(|code| *code < 128);
    let conflicts = conflicts.unwrap_or_else(|| panic!("git {arguments:?}: {output:?}"));
    (
        String::from_utf8(output.stdout).unwrap(),
        usize::try_from(conflicts).unwrap(),
    )
}

/// What `git diff` shows from the first hunk on.
pub(crate) fn diff_hunks(old: &str, new: &str, context: usize) -> String {
    let folder = folder_with(&[("old", old), ("new", new)]);
    let context = format!("-U{context}");
    let output = run(
        folder.path(),
        "git",
        &["diff", "--no-index", "--no-color", &context, "old", "new"],
    );
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{output:?}"
    );
    hunks_of(&String::from_utf8(output.stdout).unwrap()).to_owned()
}

/// A patch without what stands above its first hunk.
pub(crate) fn hunks_of(patch: &str) -> &str {
    if patch.starts_with("@@ ") {
        return patch;
    }
    patch.find("\n@@ ").map_or("", |at| &patch[at + 1..])
}

/// Applies a patch of `document` with `git apply`; gives what becomes of the text.
pub(crate) fn git_apply(old: &str, patch: &str) -> String {
    applied(
        old,
        patch,
        "git",
        &["apply", "--whitespace=nowarn", "changes"],
    )
}

/// The same with `patch`.
pub(crate) fn patch(old: &str, patch: &str) -> String {
    applied(
        old,
        patch,
        "patch",
        &["--binary", "--batch", "-p1", "-i", "changes"],
    )
}

fn applied(old: &str, patch: &str, program: &str, arguments: &[&str]) -> String {
    let folder = folder_with(&[("document", old), ("changes", patch)]);
    let output = run(folder.path(), program, arguments);
    assert!(
        output.status.success(),
        "{program} refuses: {output:?}\n{patch}"
    );
    String::from_utf8(fs::read(folder.path().join("document")).unwrap_or_default()).unwrap()
}
