//! A bucket of Google Cloud Storage: the S3 server behind a gateway of ours (`tests/versitygw/gcs`, which
//! says why), and a service account that may come in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::tool;

const EMAIL: &str = "tester@colloquy.iam.gserviceaccount.com";

/// The file of a service account, as Google gives it to whoever made one.
pub(crate) fn account(folder: &Path) -> PathBuf {
    folder.join("account.json")
}

/// Makes a service account with a key of its own.
pub(crate) fn make_account(folder: &Path) {
    let private = folder.join("private.pem");
    let mut made = Command::new("openssl");
    made.args(["genpkey", "-algorithm", "RSA", "-out"])
        .arg(&private);
    run(made);
    let mut shown = Command::new("openssl");
    shown
        .args(["pkey", "-pubout", "-in"])
        .arg(&private)
        .arg("-out")
        .arg(folder.join("public.pem"));
    run(shown);
    let said = json!({
        "type": "service_account",
        "client_email": EMAIL,
        "private_key_id": "the-only-one",
        "private_key": fs::read_to_string(private).unwrap(),
    });
    fs::write(account(folder), said.to_string()).unwrap();
}

/// The command that starts the gateway to an S3 server, whose credentials are in the environment.
pub(crate) fn command(folder: &Path, port: u16, server: u16) -> Command {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../gcs");
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(["-listen", &format!("127.0.0.1:{port}")])
        .args(["-s3", &format!("http://127.0.0.1:{server}")])
        .args(["-email", EMAIL, "-key"])
        .arg(folder.join("public.pem"));
    command
}

fn run(mut command: Command) {
    let done = tool::started("openssl", command.output());
    assert!(done.status.success(), "{command:?}: {done:?}");
}
