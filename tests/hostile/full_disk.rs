//! Disks that are full or held by somebody else: the search index on one of its own, the store's
//! file under a stranger's lock.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::Neighbour;
use crate::support::documents::DOCUMENTS;
use crate::support::server::Folder;
use crate::support::{Client, Dice, Server, Setup, SmallDisk, tool, until};

/// Beyond the size from which computations take turns.
const LARGE: usize = 1_300_000;
/// Large documents that wait for the index at once.
const DOCUMENTS_MANY: u64 = 5;
/// What one request may take in a debug build on a busy machine.
const ANSWERED: Duration = Duration::from_secs(15);
/// What no message waits for in a debug build on a busy machine: before, the writer waited up to
/// 3.2 s for readers.
const HALT_MAX: Duration = Duration::from_millis(2_500);
/// MiB that the index of all of them and its log need, and more.
const DISK: u32 = 128;

/// Words, so many bytes of them; the first is its own.
fn words(own: &str, seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut text = format!("{own} ");
    while text.len() < LARGE {
        text.extend((0..7).map(|_| char::from(b'a' + u8::try_from(dice.below(26)).unwrap())));
        text.push(' ');
    }
    text
}

/// A server whose search index lies on a small disk of its own.
fn with_its_index_on(disk_folder: &str) -> (Server, SmallDisk) {
    let folder = Folder::new();
    let at = folder.work().join(disk_folder);
    let disk = SmallDisk::mount(&at, DISK);
    fs::create_dir_all(folder.work().join("data")).unwrap();
    symlink(
        at.join("index"),
        folder.work().join("data/colloquy.db.search"),
    )
    .unwrap();
    // A debug build on a busy machine compares texts of this size for seconds.
    let mut server = Setup::default()
        .env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "25")
        .start_in(folder);
    server.expect_errors();
    (server, disk)
}

/// Writes documents that are read back; gives the most that one request took, on an average of
/// four.
async fn write_and_read(c: &Client) -> Duration {
    let mut slowest = Duration::ZERO;
    for n in 0..DOCUMENTS_MANY {
        let begun = Instant::now();
        let first = words("before", n);
        let at = c.document(&first).await;
        assert!(c.text(&at).await == first);
        let second = words(&format!("afterwards{n}"), 100 + n);
        c.write(&at, &second).await;
        assert!(c.text(&at).await == second);
        slowest = slowest.max(begun.elapsed() / 4);
    }
    slowest
}

/// The index finds each document by what it says now, and none by what it said.
async fn assert_found(c: &Client) {
    for n in 0..DOCUMENTS_MANY {
        let query = format!("{DOCUMENTS}?q=afterwards{n}");
        until(
            "what was written meanwhile is found",
            Duration::from_secs(60),
            async || {
                let found = c.get(&query).await;
                (found.status == 200 && found.total() == 1).then_some(())
            },
        )
        .await;
    }
    let before = c.get(&format!("{DOCUMENTS}?q=before")).await;
    assert_eq!(before.expect(200).total(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_go_on_while_the_index_has_no_room_and_are_found_when_it_has() {
    let (mut server, disk) = with_its_index_on("small");
    let neighbour = Neighbour::of(&server).await;
    let account = server.account().await;
    let (secret, mut c) = (account.test_key().to_owned(), account.test());
    let filler = disk.fill();
    let attack = async {
        let slowest = write_and_read(&c).await;
        let begun = Instant::now();
        c.get(&format!("{DOCUMENTS}?q=afterwards1"))
            .await
            .error(503, "unavailable", "");
        (slowest, begun.elapsed())
    };
    let beside = neighbour.beside("an index without room", attack).await;
    let (slowest, refused) = beside.attack;
    assert!(
        slowest < ANSWERED && refused < ANSWERED,
        "{slowest:?}, {refused:?}"
    );
    fs::remove_file(filler).unwrap();
    assert_found(&c).await;
    server.restart();
    c = server.with_key(&secret);
    assert_found(&c).await;
    server.kill9();
    drop(disk);
}

/// Another process that has the store's file open.
struct Stranger {
    process: Child,
    asks: tokio::process::ChildStdin,
}

impl Stranger {
    /// Begins this transaction there and keeps it.
    async fn hold(server: &Server, begin: &str) -> Self {
        let script = format!(
            "import sqlite3, sys\n\
             store = sqlite3.connect('data/colloquy.db', isolation_level=None, timeout=30)\n\
             store.execute('{begin}')\n\
             store.execute('SELECT count(*) FROM meta').fetchone()\n\
             print('held', flush=True)\n\
             sys.stdin.readline()\n"
        );
        let process = Command::new("python3")
            .args(["-c", &script])
            .current_dir(server.work())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut process = tool::started("python3", process);
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(said.next_line().await.unwrap().as_deref(), Some("held"));
        let asks = process.stdin.take().unwrap();
        Self { process, asks }
    }

    /// Ends it, by its own leave.
    async fn let_go(mut self) {
        self.asks.write_all(b"\n").await.unwrap();
        assert!(self.process.wait().await.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_locks_is_away_and_comes_back() {
    let mut server = Server::start();
    server.expect_errors();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let list = format!("/v1/conversations/{conversation}/messages");
    c.message(&conversation, "before").await;
    let stranger = Stranger::hold(&server, "BEGIN IMMEDIATE").await;
    let refused = (0..20).map(|n| {
        c.post(&list, json!({"content": format!("refused {n}")}))
            .into_future()
    });
    for answer in futures_util::future::join_all(refused).await {
        let answer = answer.error(503, "unavailable", "");
        assert_eq!(answer["error"]["details"]["outcome"], "none", "{answer}");
        assert!(answer.header_opt("retry-after").is_some());
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 1);
    stranger.let_go().await;
    until("it goes on", Duration::from_secs(20), async || {
        (c.post(&list, json!({"content": "after"})).await.status == 201).then_some(())
    })
    .await;
    until("it is well again", Duration::from_secs(20), async || {
        server.is_ready().then_some(())
    })
    .await;
    let contents = c.get(&list).await.expect(200).column("content");
    assert_eq!(contents, ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redactions_beside_a_reader_that_never_ends_hold_up_no_message() {
    let mut server = Server::start();
    server.expect_errors();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let stranger = Stranger::hold(&server, "BEGIN").await;
    let attack = async {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(25) {
            let sent = c.message(&conversation, "to be redacted").await;
            c.delete(sent.header("location")).await.expect(204);
            neighbour.is_answered(20).await;
        }
    };
    let beside = neighbour
        .beside("redactions beside a reader that never ends", attack)
        .await;
    assert!(
        beside.slowest < HALT_MAX,
        "a message waited {:?}",
        beside.slowest
    );
    stranger.let_go().await;
}
