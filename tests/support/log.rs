//! A conversation's events as the store has them: what was committed, by whom, in order.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::server::Server;
use super::{mongodb, tool};

/// One event of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    /// The published name.
    pub(crate) event: &'static str,
    pub(crate) data: Value,
    /// The request that it came from, or the server's own words.
    pub(crate) by: String,
}

const READ: &str = "
import json, sqlite3, sys
rows = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True).execute(
    'SELECT happened, by_request, CAST(payload AS TEXT) FROM rows WHERE seq IS NOT NULL AND happened < 6 ORDER BY pos')
print(json.dumps([[happened, by, json.loads(payload)] for happened, by, payload in rows]))
";

/// All events of all conversations, oldest first.
pub(crate) fn events(server: &Server) -> Vec<Logged> {
    if mongodb::is_used() {
        let rows = mongodb::log_of(&server.work()).into_iter();
        let of_conversations = rows.filter(|(kind, ..)| *kind < 6);
        return of_conversations
            .map(|(kind, by, data)| logged(kind, by, serde_json::from_str(&data).unwrap()))
            .collect();
    }
    let path = server.work().join("data/colloquy.db");
    let columns = |row: Value| {
        let kind = row[0].as_i64().and_then(|kind| kind.try_into().ok());
        logged(
            kind.unwrap(),
            row[1].as_str().unwrap().to_owned(),
            row[2].clone(),
        )
    };
    read(&path).into_iter().map(columns).collect()
}

/// Those of one conversation.
pub(crate) fn events_of(server: &Server, conversation: &str) -> Vec<Logged> {
    events(server)
        .into_iter()
        .filter(|logged| logged.data["conversation_id"] == conversation)
        .collect()
}

fn read(path: &Path) -> Vec<Value> {
    let output = Command::new("python3")
        .args(["-c", READ])
        .arg(path)
        .output();
    let output = tool::started("python3", output);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn logged(kind: i32, by: String, data: Value) -> Logged {
    let event = match kind {
        1 => "conversation.created",
        2 => "conversation.updated",
        3 => "conversation.closed",
        4 => "message.created",
        _ => "message.updated",
    };
    Logged { event, data, by }
}
