//! What every test stands on: the server as a process, a client that checks what holds for every
//! answer, and shapes.

pub(crate) mod account;
pub(crate) mod answer;
pub(crate) mod attachments;
pub(crate) mod authority;
pub(crate) mod azurite;
pub(crate) mod browser;
pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod console;
pub(crate) mod database;
pub(crate) mod dice;
pub(crate) mod documents;
pub(crate) mod files;
pub(crate) mod gcs;
pub(crate) mod git;
pub(crate) mod heard;
pub(crate) mod http2;
pub(crate) mod log;
pub(crate) mod mongodb;
pub(crate) mod nameserver;
pub(crate) mod nginx;
pub(crate) mod pebble;
pub(crate) mod ports;
pub(crate) mod preload;
pub(crate) mod process;
pub(crate) mod profile;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod receiver;
pub(crate) mod server;
pub(crate) mod shapes;
pub(crate) mod signing;
pub(crate) mod small_disk;
pub(crate) mod socket;
pub(crate) mod stored;
pub(crate) mod stream;
pub(crate) mod tool;
pub(crate) mod varnish;
pub(crate) mod verify;
pub(crate) mod webdriver;

pub(crate) use account::{Account, account, account_with_client, account_with_deliveries};
pub(crate) use answer::Answer;
pub(crate) use authority::{Authority, Pair};
pub(crate) use bucket::Bucket;
pub(crate) use client::Client;
pub(crate) use cluster::{Addresses, Cluster};
pub(crate) use collector::{Collector, Span};
pub(crate) use console::Person;
pub(crate) use database::Database;
pub(crate) use dice::Dice;
pub(crate) use mongodb::sized;
pub(crate) use nameserver::Nameserver;
pub(crate) use nginx::Nginx;
pub(crate) use proxy::Proxy;
pub(crate) use receiver::{Receiver, Reply};
pub(crate) use server::{OPERATOR, Server, Setup, shared};
pub(crate) use small_disk::SmallDisk;
pub(crate) use socket::Socket;
pub(crate) use stream::{EventStream, Item};
pub(crate) use varnish::Varnish;
pub(crate) use webdriver::Browser;

use std::time::{Duration, Instant};

/// How often a condition is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// Asks `look` again and again until it has an answer; past the deadline the test fails, naming
/// `what`.
pub(crate) async fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The same for what is no future: a process, a file.
pub(crate) fn until_now<T>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A text that nothing else contains.
pub(crate) fn unique(stem: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    format!(
        "{stem}-{:x}-{}",
        since.as_nanos(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}
