//! The file of a stopped server, read and changed behind its back: what stands there is what a
//! crash, a disk or a hand may have left.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::tool;

/// Runs one statement; blobs go in and come out as `{"hex": …}`.
const RUN: &str = "
import json, sqlite3, sys
path, sql, values = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
into = lambda value: bytes.fromhex(value['hex']) if isinstance(value, dict) else value
out = lambda value: {'hex': value.hex()} if isinstance(value, bytes) else value
connection = sqlite3.connect(path)
connection.text_factory = lambda text: text.decode('utf-8', 'replace')
rows = connection.execute(sql, [into(value) for value in values]).fetchall()
connection.commit()
print(json.dumps([[out(value) for value in row] for row in rows]))
";

/// The rows that a statement gives.
pub(crate) fn query(file: &Path, sql: &str, values: &[Value]) -> Vec<Vec<Value>> {
    let mut command = Command::new("python3");
    command
        .args(["-c", RUN])
        .arg(file)
        .arg(sql)
        .arg(json!(values).to_string());
    let output = tool::started("python3", command.output());
    assert!(
        output.status.success(),
        "{sql}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a statement that gives nothing.
pub(crate) fn execute(file: &Path, sql: &str, values: &[Value]) {
    assert_eq!(query(file, sql, values), Vec::<Vec<Value>>::new());
}

/// A blob as a value.
pub(crate) fn blob(bytes: &[u8]) -> Value {
    json!({"hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
}
