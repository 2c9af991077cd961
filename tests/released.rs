//! Data files that released binaries wrote, kept in `tests/released`: each is opened by the binary
//! of today, which shows what was in it, repeats its answers, writes to it and finds it sound.
//! `tests/released/make` writes one more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use chrono::DateTime;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::audit_chain::{assert_verified, audit};
use crate::support::clock::Clock;
use crate::support::documents::DOCUMENTS;
use crate::support::server::Folder;
use crate::support::{Client, Server, files, process, stored, tool, until};

/// What a released binary answered, as `make` wrote it down.
#[derive(Deserialize)]
struct Record {
    /// In seconds: idempotency keys are kept for a day, so the server is started in this time.
    written_at: i64,
    keys: Keys,
    conversations: Modes<Vec<String>>,
    documents: Modes<Vec<String>>,
    reads: Vec<Read>,
    repeats: Vec<Repeat>,
    /// None in the earliest ones.
    #[serde(default)]
    clients: Vec<OAuthClient>,
}

#[derive(Deserialize)]
struct Keys {
    test: String,
    live: String,
    read: String,
    revoked: String,
}

#[derive(Deserialize)]
struct Modes<T> {
    test: T,
    live: T,
}

/// A GET and its answer.
#[derive(Deserialize)]
struct Read {
    key: String,
    path: String,
    answer: Value,
}

/// A POST with an `Idempotency-Key`, and its answer.
#[derive(Deserialize)]
struct Repeat {
    key: String,
    path: String,
    /// As it was sent, byte for byte.
    body: String,
    idempotency_key: String,
    answer: Value,
}

/// A client that gets tokens for itself.
#[derive(Deserialize)]
struct OAuthClient {
    client_id: String,
    client_secret: String,
}

impl Record {
    fn client(&self, server: &Server, name: &str) -> Client {
        if name == "operator" {
            return server.operator();
        }
        server.with_key(match name {
            "test" => &self.keys.test,
            "live" => &self.keys.live,
            "read" => &self.keys.read,
            other => panic!("no key {other}"),
        })
    }
}

fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut archives: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    archives.sort_unstable();
    archives
}

/// A folder with a copy of the data, and what is known of it.
fn unpacked(archive: &Path) -> (Folder, Record) {
    let folder = Folder::new();
    let mut command = Command::new("tar");
    command.arg("-xzf").arg(archive).arg("-C");
    let done = tool::started("tar", command.arg(folder.work()).status());
    assert!(done.success(), "{}", archive.display());
    let record = fs::read(folder.work().join("record.json")).unwrap();
    (folder, serde_json::from_slice(&record).unwrap())
}

/// Where `shown` lacks something of `recorded` or differs from it; members that are new are let be.
fn differs(shown: &Value, recorded: &Value, at: &str) -> Option<String> {
    match (shown, recorded) {
        (Value::Object(shown), Value::Object(recorded)) => {
            recorded.iter().find_map(|(name, value)| {
                differs(
                    shown.get(name).unwrap_or(&Value::Null),
                    value,
                    &format!("{at}.{name}"),
                )
            })
        }
        (Value::Array(shown), Value::Array(recorded)) if shown.len() == recorded.len() => {
            let pairs = shown.iter().zip(recorded).enumerate();
            pairs
                .map(|(index, (shown, recorded))| {
                    differs(shown, recorded, &format!("{at}[{index}]"))
                })
                .find_map(|difference| difference)
        }
        _ => (shown != recorded).then(|| format!("{at}: {shown} in place of {recorded}")),
    }
}

async fn assert_shown(server: &Server, record: &Record) {
    for Read { key, path, answer } in &record.reads {
        let client = record.client(server, key);
        // A search waits for its index, which is made anew.
        let shown = until(path, Duration::from_secs(30), async || {
            let shown = client.get(path).await;
            (shown.status != 503).then_some(shown)
        });
        let shown = shown.await.expect(200);
        // What is no JSON was written down as text.
        let body = if answer.is_string() {
            json!(String::from_utf8_lossy(&shown.bytes))
        } else {
            shown.body.clone()
        };
        if let Some(difference) = differs(&body, answer, "") {
            panic!("GET {path} with the {key} key: {difference}");
        }
    }
    let revoked = server.with_key(&record.keys.revoked);
    revoked
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
}

async fn assert_clients_are_served(server: &Server, record: &Record) {
    for client in &record.clients {
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}",
            client.client_id, client.client_secret
        );
        let token = server
            .anonymous()
            .call("POST", "/oauth/token")
            .with("content-type", "application/x-www-form-urlencoded")
            .bytes(form);
        let token = token.await.expect(200).id("access_token");
        let reader = server.with_key(&token);
        reader.get("/v1/conversations").await.expect(200);
    }
}

async fn assert_repeated(server: &Server, record: &Record) {
    for repeat in &record.repeats {
        let call = record
            .client(server, &repeat.key)
            .call("POST", &repeat.path)
            .bytes(repeat.body.clone())
            .with("content-type", "application/json")
            .with("idempotency-key", &repeat.idempotency_key);
        let again = call.await.expect(201);
        assert_eq!(again.header("idempotent-replayed"), "true", "{again}");
        assert_eq!(again.body, repeat.answer, "POST {}", repeat.path);
    }
}

/// Goes on with everything that was made in one mode.
async fn write_on(c: &Client, conversations: &[String], documents: &[String]) {
    let events = c
        .get("/v1/events?after=0&limit=1")
        .await
        .expect(200)
        .total();
    for conversation in conversations {
        let sent = c.message(conversation, "from today").await;
        let at = sent.header("location").to_owned();
        assert_eq!(c.get(&at).await.expect(200).body, sent.body);
        let edited = c.patch(&at, json!({"content": "edited today"})).await;
        assert_eq!(edited.expect(200)["content"], "edited today");
    }
    // The last one is in the bin.
    let (binned, documents) = documents.split_last().unwrap();
    for document in documents {
        let at = format!("{DOCUMENTS}/{document}");
        c.write(&at, "from today\n").await;
        assert_eq!(c.text(&at).await, "from today\n");
    }
    let restored = c.call("POST", &format!("{DOCUMENTS}/{binned}/restore"));
    restored.await.expect(200);
    c.conversation().await;
    let now = c.get("/v1/events?after=0&limit=1").await.expect(200);
    let changes = 2 * conversations.len() + documents.len();
    assert!(now.total() > events + u64::try_from(changes).unwrap());
}

/// Runs `colloquy migrate` on the store in a folder; gives what it says on stdout, and how far it was, line
/// by line.
fn migrated(folder: &Folder, options: &[&str]) -> (String, Vec<String>) {
    let mut command = process::colloquy();
    let command = command
        .arg("migrate")
        .args(options)
        .current_dir(folder.work());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let progress = text(done.stderr).lines().map(str::to_owned).collect();
    (text(done.stdout), progress)
}

/// That a line was written before each step, and one at the end.
fn check_progress(lines: &[String]) {
    let Some(steps) = lines.len().checked_sub(1) else {
        return;
    };
    for (taken, line) in lines.iter().enumerate() {
        let filled = 20 * taken / steps;
        let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(20 - filled));
        let expected = format!("{bar} {taken} of {steps}  ");
        assert!(line.starts_with(&expected), "{line}");
        assert!(line.len() > expected.len() + 10, "{line}");
    }
}

fn schema_version(folder: &Folder) -> Value {
    let file = folder.work().join("data/colloquy.db");
    stored::query(&file, "PRAGMA user_version", &[])
        .remove(0)
        .remove(0)
}

/// Everything that stands in a folder, to the byte.
fn everything_in(folder: &Folder) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = files::below(&folder.work());
    all.sort_unstable();
    // Whoever looks at a file of SQLite makes the index of its log anew.
    all.retain(|path| !path.to_string_lossy().ends_with("-shm"));
    all.retain(|path| fs::metadata(path).unwrap().len() > 0);
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    all.into_iter().map(read).collect()
}

#[tokio::test]
async fn an_earlier_file_that_is_migrated_first_answers_the_same_to_the_byte() {
    let mut earlier = 0;
    for archive in archives() {
        let (first, record) = unpacked(&archive);
        let (second, _) = unpacked(&archive);
        let before = everything_in(&first);
        let version = schema_version(&first);
        let (tried, of_trial) = migrated(&first, &["--dry-run"]);
        assert!(
            tried.contains("was left so") && tried.contains("is sound"),
            "{tried}"
        );
        assert!(everything_in(&first) == before, "{}", archive.display());
        let (done, progress) = migrated(&first, &[]);
        check_progress(&progress);
        assert_eq!(progress, of_trial);
        let is_of_today = schema_version(&first) == version;
        let told = format!("({} steps", progress.len().saturating_sub(1));
        assert!(done.contains(&told), "{done}");
        assert_eq!(progress.is_empty(), is_of_today, "{done}");
        earlier += u32::from(!is_of_today);
        let (again, _) = migrated(&first, &[]);
        assert!(again.contains("(0 steps"), "{again}");
        let written_at = DateTime::from_timestamp_secs(record.written_at).unwrap();
        let first = Clock::start_at(written_at, first);
        let second = Clock::start_at(written_at, second);
        for read in &record.reads {
            let shown = async |server: &Server| {
                let client = record.client(server, &read.key);
                let patience = Duration::from_secs(30);
                until(&read.path, patience, async || {
                    let shown = client.get(&read.path).await;
                    (shown.status != 503).then_some(shown.bytes)
                })
                .await
            };
            assert_eq!(shown(&first).await, shown(&second).await, "{}", read.path);
        }
    }
    assert!(earlier > 0);
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_as_it_is() {
    let (folder, _) = unpacked(&archives()[0]);
    let path = folder.work().join("data/colloquy.db");
    stored::execute(&path, "PRAGMA user_version = 9999", &[]);
    let before = everything_in(&folder);
    for command in ["migrate", "check", "serve", "export"] {
        let mut refused = process::colloquy();
        let refused = refused.arg(command).current_dir(folder.work());
        let refused = refused.output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{command}: {said}");
        assert!(said.contains("schema version 9999"), "{command}: {said}");
        assert!(everything_in(&folder) == before, "{command}");
    }
}

#[tokio::test]
async fn what_a_released_binary_wrote_is_shown_repeated_written_on_and_sound() {
    let archives = archives();
    assert!(!archives.is_empty(), "tests/released has no file");
    for archive in archives {
        eprintln!("{}", archive.display());
        let (folder, record) = unpacked(&archive);
        let written_at = DateTime::from_timestamp_secs(record.written_at).unwrap();
        let mut server = Clock::start_at(written_at, folder);
        assert_shown(&server, &record).await;
        assert_repeated(&server, &record).await;
        assert_clients_are_served(&server, &record).await;
        let (test, live) = (
            record.client(&server, "test"),
            record.client(&server, "live"),
        );
        write_on(&test, &record.conversations.test, &record.documents.test).await;
        write_on(&live, &record.conversations.live, &record.documents.live).await;
        assert!(server.term().success());
        server.assert_sound();
        assert_verified(&audit(&server, &["verify"]));
    }
}
