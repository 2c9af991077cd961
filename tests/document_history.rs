//! A document of ten thousand versions: each can be made, listed and read, and the last one costs
//! what an early one cost.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::json;

use crate::support::{Client, Dice, Server};

const VERSIONS: usize = 10_000;
/// Versions made one after the other to see what one costs, early and late.
const TIMED: usize = 40;
/// What chance may add in a debug build on a busy machine.
const NOISE: Duration = Duration::from_millis(4);
const AT_ONCE: usize = 32;
/// The time in which any version is to be read.
const READ_WITHIN: Duration = Duration::from_millis(5);
/// From an empty memory to the first answer.
const LOADED_WITHIN: Duration = Duration::from_secs(2);
/// What one version may take in its actor's memory: its place in the graph and no word of its text.
const BYTES_EACH_MAX: u64 = 400;

fn text(n: usize) -> String {
    format!(
        "a line that stays\nnumber {n}\n{}",
        "more of the same\n".repeat(n % 9)
    )
}

/// Makes one version; side lines too, so that the graph is no mere chain.
async fn add(c: &Client, at: &str, n: usize) -> Duration {
    let mut body = json!({"content": text(n), "message": format!("{n}")});
    match n % 50 {
        0 => body["label"] = json!(format!("label-{n}")),
        7 => body["branch"] = json!(format!("line-{}", n % 20)),
        _ => {}
    }
    let asked = Instant::now();
    c.post(&format!("{at}/versions"), body).await.expect(201);
    asked.elapsed()
}

async fn add_all(c: &Client, at: &str, numbers: std::ops::Range<usize>) {
    let adds = numbers.map(|n| add(c, at, n));
    futures_util::stream::iter(adds)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
}

/// The middle one of so many versions made one after the other.
async fn usual(c: &Client, at: &str, from: usize) -> Duration {
    let mut took = Vec::new();
    for n in from..from + TIMED {
        took.push(add(c, at, n).await);
    }
    took.sort_unstable();
    took[TIMED / 2]
}

/// Every version stands in the list once, by cursors from the newest to the first.
async fn assert_listed(c: &Client, at: &str) {
    let (mut number, mut next) = (VERSIONS, Some(format!("{at}/versions?limit=100")));
    let mut last = String::new();
    while let Some(path) = next {
        let page = c.get(&path).await.expect(200);
        assert_eq!(page.total(), VERSIONS as u64);
        for version in page.data() {
            assert_eq!(version["number"], number, "a gap");
            number -= 1;
        }
        last = page.column("id").pop().unwrap();
        next = (number > 0).then(|| format!("{at}/versions?limit=100&after={last}"));
    }
    assert_eq!(
        c.get(&format!("{at}/versions/1")).await.expect(200)["id"],
        last.as_str()
    );
    let oldest = c
        .get(&format!(
            "{at}/versions?limit=2&order=asc&offset={}",
            VERSIONS - 1
        ))
        .await
        .expect(200);
    assert_eq!(
        (&oldest["data"][0]["number"], oldest.data().len()),
        (&json!(VERSIONS), 1)
    );
}

/// A page by a cursor costs what the first one costs, wherever it stands.
async fn assert_far_pages_cost_no_more(c: &Client, at: &str) {
    let mut paths = vec![format!("{at}/versions?limit=100")];
    for number in [VERSIONS - 1, VERSIONS / 2, 101] {
        let cursor = c
            .get(&format!("{at}/versions/{number}"))
            .await
            .expect(200)
            .id("id");
        paths.push(format!("{at}/versions?limit=100&after={cursor}"));
    }
    // In turns, and the calmest of many: what else the machine does falls on all of them. Where it
    // does much, more are needed until each has met a calm moment; one that costs more meets none.
    let mut calmest = vec![Duration::MAX; paths.len()];
    for round in 0..TIMED * 5 {
        for (path, calmest) in paths.iter().zip(&mut calmest) {
            let asked = Instant::now();
            assert_eq!(c.get(path).await.expect(200).data().len(), 100);
            *calmest = asked.elapsed().min(*calmest);
        }
        let most = calmest[0] + NOISE / 2;
        if round >= TIMED / 2 && calmest.iter().all(|took| *took <= most) {
            return;
        }
    }
    panic!("the first page, and others by a cursor: {calmest:?}");
}

/// Any version can be read, and is what was sent; gives the middle one of the times.
async fn read_some(c: &Client, at: &str) -> Duration {
    let (mut dice, mut took) = (Dice::new(4), Vec::new());
    for _ in 0..200 {
        let number = 1 + dice.below(VERSIONS as u64);
        let asked = Instant::now();
        let version = c.get(&format!("{at}/versions/{number}")).await.expect(200);
        took.push(asked.elapsed());
        let n = version["message"]
            .as_str()
            .map_or(0, |message| message.parse().unwrap());
        assert_eq!(version["content"], text(n), "version {number}");
    }
    took.sort_unstable();
    took[100]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ten_thousandth_version_costs_what_the_hundredth_cost_and_any_can_be_read() {
    let mut server = Server::start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let at = c.document(&text(0)).await;
    add_all(&c, &at, 1..100).await;
    let early = usual(&c, &at, 100).await;
    add_all(&c, &at, 100 + TIMED..VERSIONS - TIMED).await;
    let late = usual(&c, &at, VERSIONS - TIMED).await;
    assert!(
        late <= early * 2 + NOISE,
        "an early version took {early:?}, a late one {late:?}"
    );
    assert_listed(&c, &at).await;
    assert_far_pages_cost_no_more(&c, &at).await;
    let bytes = server.metric("actors_bytes{kind=\"document\"}").await;
    assert!(
        bytes < VERSIONS as u64 * BYTES_EACH_MAX,
        "{bytes} bytes in memory"
    );
    let read = read_some(&c, &at).await;
    assert!(
        read <= READ_WITHIN + NOISE,
        "one of {VERSIONS} versions is read in {read:?}"
    );
    server.restart();
    let c = server.with_key(&key);
    let asked = Instant::now();
    assert_eq!(c.get(&at).await.expect(200)["content"], text(VERSIONS - 1));
    let took = asked.elapsed();
    assert!(took < LOADED_WITHIN, "loaded in {took:?}");
    for name in ["label-5000", "line-7"] {
        c.get(&format!("{at}/versions/{name}")).await.expect(200);
    }
}
