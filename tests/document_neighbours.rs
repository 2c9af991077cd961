//! Heavy work on documents beside messages: merges, comparisons and searches go on threads of their
//! own, and nobody who sends a message meanwhile waits for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::json;

use crate::support::client::Call;
use crate::support::documents::DOCUMENTS;
use crate::support::{Client, Server, Setup, sized, until};

/// Lines of a document of nearly 8 MiB, as JSON writes it.
const LINES: usize = 340_000;
/// Of these many lines one differs on each side; so near to each other, both sides conflict there.
const CHANGED_EVERY: usize = 50;
fn found_count() -> usize {
    sized(1_500, 150)
}

const CONVERSATIONS: usize = 8;
/// Each piece of work is done at most so often: what chance disturbs is not in every round, what
/// blocks is.
const ROUNDS: usize = 3;
/// What chance may add in a debug build on a busy machine.
const NOISE: Duration = Duration::from_millis(60);

/// A server, a client, and conversations that hash to every worker. Debug builds compute for longer
/// than an actor is waited for by default.
async fn patient() -> (Server, Client, Vec<String>) {
    let setup = Setup::default().env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "25");
    let server = setup
        .env("COLLOQUY__DOCUMENTS__TURN_WAIT_SECONDS", "25")
        .start();
    let c = server.account().await.test();
    let (customer, mut conversations) = (c.customer().await, Vec::new());
    for _ in 0..CONVERSATIONS {
        conversations.push(c.conversation_of(&customer).await);
    }
    (server, c, conversations)
}

fn large(changed: &str) -> String {
    let word = |n: usize| {
        if n % CHANGED_EVERY == 1 {
            changed
        } else {
            "as is"
        }
    };
    (0..LINES)
        .map(|n| format!("line {n:08} {}\n", word(n)))
        .collect()
}

/// Sends messages one after the other until it is told to stop; gives the longest time that one
/// took.
async fn talk(c: Client, conversations: Vec<String>, stop: Arc<AtomicBool>) -> Duration {
    let (mut longest, mut n) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        c.message(&conversations[n % CONVERSATIONS], "are you there?")
            .await;
        longest = longest.max(asked.elapsed());
        n += 1;
    }
    assert!(n > 0, "no message was sent beside the work");
    longest
}

/// Does the work beside messages: none of them waits for as much as a third of it, unless chance
/// disturbs every round.
async fn assert_out_of_the_way(
    c: &Client,
    conversations: &[String],
    what: &str,
    work: impl Fn() -> Call,
    status: u16,
) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let stop = Arc::new(AtomicBool::new(false));
        let talking = tokio::spawn(talk(c.clone(), conversations.to_vec(), Arc::clone(&stop)));
        let asked = Instant::now();
        work().await.expect(status);
        let took = asked.elapsed();
        stop.store(true, Ordering::Relaxed);
        let waited = talking.await.unwrap();
        if waited < took / 3 + NOISE {
            return;
        }
        rounds.push((took, waited));
    }
    panic!("{what} took, and a message beside it waited: {rounds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_waits_for_a_merge_or_a_comparison_of_8_mib() {
    let (_server, c, conversations) = patient().await;
    let at = c.document(&large("as is")).await;
    c.branch(&at, "side", &large("at the side")).await;
    c.write(&at, &large("on the head")).await;
    for (format, query) in [
        ("unified", ""),
        ("json", "&context=0"),
        ("html", "&context=0"),
        ("stat", ""),
    ] {
        let path = format!("{at}/diff?format={format}{query}");
        assert_out_of_the_way(&c, &conversations, format, || c.get(&path), 200).await;
    }
    let merge = |body| c.post(&format!("{at}/merge"), body);
    let shown = || merge(json!({"source": "side", "strategy": "union", "dry_run": true}));
    assert_out_of_the_way(&c, &conversations, "a dry run", shown, 200).await;
    let refused = || merge(json!({"source": "side", "style": "diff3"}));
    assert_out_of_the_way(&c, &conversations, "a conflict", refused, 409).await;
    merge(json!({"source": "side", "strategy": "ours"}))
        .await
        .expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_waits_for_a_search_that_finds_everything() {
    let (_server, c, conversations) = patient().await;
    let new = |n: usize| json!({"title": format!("Document {n}"), "content": "the word"});
    let creations = (0..found_count()).map(|n| c.post(DOCUMENTS, new(n)).into_future());
    futures_util::stream::iter(creations)
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    let search = || c.get(&format!("{DOCUMENTS}?q=word&limit=100"));
    until(
        "all of them are found",
        Duration::from_secs(60),
        async || {
            let found = search().await;
            (found.status == 200).then(|| assert_eq!(found.total(), found_count() as u64))
        },
    )
    .await;
    assert_out_of_the_way(&c, &conversations, "a search", search, 200).await;
}

/// The cores that the server's threads may use, each list of them once; the first thread's before.
fn cores_of(server: &Server) -> (String, BTreeSet<String>) {
    let of = |status: &Path| {
        let status = std::fs::read_to_string(status).ok()?;
        Some(
            status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?
                .trim()
                .to_owned(),
        )
    };
    let process = PathBuf::from(format!("/proc/{}", server.pid()));
    let threads = std::fs::read_dir(process.join("task")).unwrap();
    // A thread can end meanwhile.
    let every = threads
        .filter_map(|thread| of(&thread.unwrap().path().join("status")))
        .collect();
    (of(&process.join("status")).unwrap(), every)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_of_8_mib_has_a_core_to_itself_and_gives_it_back() {
    let (server, c, _) = patient().await;
    let at = c.document(&large("as is")).await;
    c.branch(&at, "side", &large("at the side")).await;
    let one_core = std::thread::available_parallelism().unwrap().get() == 1;
    let done = Arc::new(AtomicBool::new(false));
    let merged = async {
        c.post(&format!("{at}/merge"), json!({"source": "side"}))
            .await
            .expect(201);
        done.store(true, Ordering::Relaxed);
    };
    let watched = async {
        let mut apart = false;
        while !done.load(Ordering::Relaxed) {
            let (all, every) = cores_of(&server);
            apart |= every.iter().filter(|one| **one != all).count() >= 2;
            tokio::task::yield_now().await;
        }
        apart
    };
    let ((), apart) = tokio::join!(merged, watched);
    assert!(apart || one_core, "everybody ran everywhere");
    until(
        "all threads may use all cores again",
        Duration::from_secs(30),
        async || {
            let (all, every) = cores_of(&server);
            (every.len() == 1 && every.contains(&all)).then_some(())
        },
    )
    .await;
}
