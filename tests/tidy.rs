//! The house rules that no compiler checks.

mod imports;
mod on_mongodb;
mod rooms;

use std::fs;
use std::path::{Path, PathBuf};

/// One source file: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    files_below(&root().join(folder), &mut paths);
    paths.sort_unstable();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap(),
        path: path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
    };
    paths.into_iter().map(read).collect()
}

fn all() -> Vec<Source> {
    ["src", "actors", "tests"]
        .into_iter()
        .flat_map(sources)
        .collect()
}

/// Lines of code that hold one of these words; comments are let be.
fn lines_with(sources: &[Source], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if words.iter().any(|word| code.contains(word)) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    found
}

fn assert_none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}\n{}", found.join("\n"));
}

#[test]
fn no_status_code_stands_outside_src_http() {
    let mut outside = sources("src");
    outside.retain(|source| !source.path.starts_with("src/http/"));
    outside.extend(sources("actors"));
    let found = lines_with(&outside, &["StatusCode", "HttpResponse::", "status_code("]);
    assert_none(&found, "statuses are decided in src/http/ only");
}

#[test]
fn no_http_crate_is_named_in_actors() {
    for folder in ["actors", "actors/merge", "actors/model", "actors/runtime"] {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for name in ["actix-web", "actix-http", "hyper", "reqwest", "\nhttp"] {
            assert!(
                !manifest.contains(name),
                "{folder}/Cargo.toml names {}",
                name.trim()
            );
        }
    }
    assert_none(
        &lines_with(&sources("actors"), &["actix_web", "actix_http"]),
        "actors/ knows no HTTP",
    );
}

#[test]
fn actix_is_imported_by_the_runtime_only() {
    let mut outside = sources("actors");
    outside.retain(|source| !source.path.starts_with("actors/runtime/"));
    outside.extend(sources("src"));
    assert_none(
        &lines_with(&outside, &["actix::", "use actix;"]),
        "only actors/runtime imports actix",
    );
    for folder in ["actors", "actors/merge", "actors/model"] {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        assert!(
            !manifest.contains("actix"),
            "{folder}/Cargo.toml names actix"
        );
    }
}

#[test]
fn no_route_holds_the_store() {
    // `problem.rs` pairs the store's failures with statuses, and asks it for nothing.
    let mut routes = sources("src/http");
    routes.retain(|source| source.path != "src/http/problem.rs");
    let found = lines_with(&routes, &["rusqlite", "::store", "sqlite"]);
    assert_none(&found, "no store in src/http/");
    assert_none(
        &lines_with(&sources("src"), &["rusqlite"]),
        "SQLite is the store's business",
    );
}

#[test]
fn every_file_opens_with_its_sentence() {
    for source in all() {
        assert!(
            source.text.starts_with("//! "),
            "{} does not say what it is for",
            source.path
        );
    }
}

#[test]
fn there_is_no_drawer() {
    for source in all() {
        let name = source.path.rsplit('/').next().unwrap();
        let stem = name.trim_end_matches(".rs");
        assert!(
            !["utils", "util", "helpers", "common", "misc"].contains(&stem),
            "{}",
            source.path
        );
    }
}

#[test]
fn every_setting_is_explained_and_read() {
    let settings = fs::read_to_string(root().join("config.toml")).unwrap();
    let readers: String = sources("src")
        .into_iter()
        .chain(sources("actors/src"))
        .filter(|source| {
            source.path.starts_with("src/config")
                || source.path.ends_with("bounds.rs")
                || source.path.ends_with("account.rs")
        })
        .map(|source| source.text)
        .collect();
    let lines: Vec<&str> = settings.lines().collect();
    let mut keys = 0;
    for (number, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else {
            continue;
        };
        let commented_out = key.starts_with('#');
        let key = key.trim_start_matches('#').trim();
        if !key
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            continue;
        }
        keys += 1;
        let above = number.checked_sub(1).map_or("", |above| lines[above]);
        assert!(
            above.starts_with('#'),
            "config.toml:{}: {key} is not explained{}",
            number + 1,
            if commented_out {
                " (commented out)"
            } else {
                ""
            }
        );
        assert!(
            readers.contains(key),
            "config.toml:{}: src/config.rs does not name {key}",
            number + 1
        );
    }
    assert!(keys >= 8, "config.toml names {keys} settings only");
}

#[test]
fn the_lock_file_is_committed_and_the_command_files_can_be_run() {
    use std::os::unix::fs::PermissionsExt;
    assert!(root().join("Cargo.lock").exists());
    for name in ["tests/run", ".ci/run"] {
        let mode = fs::metadata(root().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o111, 0o111, "{name} is not executable");
    }
}

/// There is no test in a comment, and `tests/run` compiles none: rustdoc would read every crate for it.
#[test]
fn no_comment_holds_code_that_would_have_to_be_tested() {
    let mut found = Vec::new();
    for source in all() {
        let mut within = false;
        for (number, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let Some(fence) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else {
                continue;
            };
            within = !within;
            if within && fence != "text" {
                found.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    assert_none(&found, "a code block in a comment is ```text");
}

#[test]
fn no_test_is_ignored() {
    let ignored = concat!("#[ig", "nore");
    assert_none(
        &lines_with(&all(), &[ignored]),
        "an ignored test tests nothing",
    );
}
