//! Signatures checked by the Python packages `stripe` and `standardwebhooks`, as users check them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::receiver::Received;

/// Fails unless both packages accept the delivery with this secret.
pub(crate) fn assert_accepted(delivery: &Received, secret: &str) {
    for (package, verdict) in verdicts(delivery, secret) {
        assert_eq!(verdict, "accepted", "{package} on {delivery:?}");
    }
}

/// Fails unless both packages refuse the delivery with this secret.
pub(crate) fn assert_refused(delivery: &Received, secret: &str) {
    for (package, verdict) in verdicts(delivery, secret) {
        assert!(
            verdict.starts_with("refused: "),
            "{package} says {verdict} of {delivery:?}"
        );
    }
}

/// What each package says.
pub(crate) fn verdicts(delivery: &Received, secret: &str) -> [(&'static str, String); 2] {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("python/bin/python");
    assert!(
        python.exists(),
        "{} is missing: tests/run makes it",
        python.display()
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify.py");
    let mut command = Command::new(python);
    command
        .args(["-B", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let question = json!({"headers": delivery.headers, "body": delivery.body, "secret": secret});
    child
        .stdin
        .take()
        .unwrap()
        .write_all(question.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "tests/verify.py failed: {}",
        output.status
    );
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    ["stripe", "standardwebhooks"]
        .map(|package| (package, said[package].as_str().unwrap().to_owned()))
}
