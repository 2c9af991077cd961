//! A container of Azure Blob Storage: Azurite, Microsoft's own emulator, which `tests/run` installs
//! from `tests/azurite`. It keeps objects together in files of its own and lets them go there later,
//! so what a container holds is asked of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{TimeDelta, Utc};
use ring::hmac;
use tempfile::NamedTempFile;

use super::tool;

pub(crate) const ACCOUNT: &str = "tester";
/// 32 bytes in base64.
pub(crate) const KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
/// A key of no account.
pub(crate) const ANOTHER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The command that starts it.
pub(crate) fn command(folder: &Path, port: u16) -> Command {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../azurite");
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(installed.join("node"))
        .arg(installed.join("node_modules/azurite/dist/src/blob/main.js"))
        .args(["--disableTelemetry", "--skipApiVersionCheck"])
        .args(["--disableProductStyleUrl", "--blobHost", "127.0.0.1"])
        .args(["--blobPort", &port.to_string(), "--location"])
        .arg(folder)
        .env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
    command
}

/// Makes a container, given its URL.
pub(crate) fn create(container: &str) {
    let put = ["--request", "PUT", "--data", ""];
    let made = ask(&put, container, "restype=container");
    made.expect("the container is made");
}

/// The names of what is in a container.
pub(crate) fn names(container: &str) -> Vec<PathBuf> {
    let listed = ask(&[], container, "restype=container&comp=list");
    let listed = listed.expect("the container is there");
    let listed = String::from_utf8(listed).unwrap();
    let names = listed.split("<Name>").skip(1);
    names
        .map(|rest| rest.split_once("</Name>").unwrap().0.into())
        .collect()
}

/// The content of one of them; none where it was deleted since.
pub(crate) fn content(container: &str, name: &Path) -> Option<Vec<u8>> {
    ask(&[], &format!("{container}/{}", name.display()), "")
}

/// Puts one into it.
pub(crate) fn put(container: &str, name: &Path, content: &[u8]) {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    let content = format!("@{}", file.path().display());
    let blob = [
        "--header",
        "x-ms-blob-type: BlockBlob",
        "--data-binary",
        &content,
    ];
    let put = [&["--request", "PUT"][..], &blob].concat();
    ask(&put, &format!("{container}/{}", name.display()), "").expect("it is put");
}

/// Deletes one of them.
pub(crate) fn delete(container: &str, name: &Path) {
    let delete = ["--request", "DELETE"];
    ask(&delete, &format!("{container}/{}", name.display()), "").expect("it is deleted");
}

/// What is answered; none where there is nothing of that name.
fn ask(arguments: &[&str], url: &str, query: &str) -> Option<Vec<u8>> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error"])
        .args(["--write-out", "%{stderr}%{http_code}"])
        .args(arguments)
        .arg(format!("{url}?{query}&{}", signature()));
    let answer = tool::started("curl", curl.output());
    assert!(answer.status.success(), "{url}?{query}: {answer:?}");
    match answer.stderr.as_slice() {
        b"200" | b"201" | b"202" => Some(answer.stdout),
        b"404" => None,
        _ => panic!("{url}?{query}: {answer:?}"),
    }
}

/// What lets whoever sends it do everything in the account (an "account SAS").
fn signature() -> String {
    let until = Utc::now() + TimeDelta::hours(1);
    let until = until.format("%Y-%m-%dT%H:%M:%SZ");
    let signed = format!("{ACCOUNT}\nrwdlac\nb\nsco\n\n{until}\n\n\n2020-04-08\n");
    let key = BASE64_STANDARD.decode(KEY).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    let signature = signature.replace('+', "%2B").replace('/', "%2F");
    format!("sv=2020-04-08&ss=b&srt=sco&sp=rwdlac&se={until}&sig={signature}")
}
