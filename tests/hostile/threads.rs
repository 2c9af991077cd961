//! Threads: each is watched, so that none is gone without anybody knowing.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Server, until};

/// Bytes of a thread's name that the kernel keeps.
const COMM_BYTES: usize = 15;
/// What runtimes start and watch themselves, as the kernel names it: the process's first thread,
/// the HTTP workers and who accepts for them, and the pools of blocking work, whose panics reach
/// whoever asked for it.
const OF_RUNTIMES: [&str; 4] = [
    "colloquy",
    "actix-rt|system",
    "actix-server ac",
    "tokio-rt-worker",
];

/// The threads of the server, as the kernel names them.
fn comms(server: &Server) -> BTreeSet<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    // One that has ended meanwhile has no name any more.
    let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks
        .flatten()
        .filter_map(comm)
        .map(|comm| comm.trim_end().to_owned())
        .collect()
}

/// How many threads of each name `/metrics` tells to run.
async fn watched(server: &Server) -> BTreeMap<String, u64> {
    let metrics = server.operator().get("/metrics").await.expect(200);
    let text = String::from_utf8(metrics.bytes).unwrap();
    let thread = |line: &str| {
        let (name, count) = line
            .strip_prefix("colloquy_threads{thread=\"")?
            .split_once("\"} ")?;
        Some((name.to_owned(), count.parse().unwrap()))
    };
    text.lines().filter_map(thread).collect()
}

#[tokio::test]
async fn every_thread_of_the_server_is_watched() {
    let server = Server::start();
    let client = server.account().await.test();
    client.conversation().await;
    client.document("a text").await;
    let unwatched = |known: &BTreeMap<String, u64>| -> Vec<String> {
        let known: BTreeSet<String> = known
            .keys()
            .map(|name| {
                format!("colloquy-{name}")
                    .chars()
                    .take(COMM_BYTES)
                    .collect()
            })
            .collect();
        let of_ours = |comm: &String| !OF_RUNTIMES.contains(&comm.as_str());
        comms(&server)
            .into_iter()
            .filter(of_ours)
            .filter(|comm| !known.contains(comm))
            .collect()
    };
    let known = watched(&server).await;
    assert_eq!(unwatched(&known), [""; 0], "{known:?}");
    for name in [
        "main",
        "worker",
        "writer",
        "loads",
        "lists",
        "texts",
        "streams",
        "upkeep",
        "feed",
        "search",
        "indexer",
        "finder",
        "message-search",
        "message-indexer",
        "message-finder",
        "chores",
        "timers",
        "bin",
        "webhooks",
        "courier",
    ] {
        assert!(
            known.get(name).is_some_and(|running| *running > 0),
            "{name}: {known:?}"
        );
        let series = format!("thread_panics_total{{thread=\"{name}\"}}");
        assert_eq!(server.metric(&series).await, 0, "{name}");
    }
    until(
        "the index has come to its end",
        std::time::Duration::from_secs(20),
        async || (server.metric("search_positions_behind").await == 0).then_some(()),
    )
    .await;
}
