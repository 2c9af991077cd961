//! Share links under attack: floods of requests, of uses and of passwords, from one address and
//! from many.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Neighbour;
use crate::support::client::Call;
use crate::support::raw::Raw;
use crate::support::stored::{execute, query};
use crate::support::{Answer, Client, Server, Setup, account};

const PASSWORD: &str = "open sesame";

async fn open(holder: &Client, link: &str, password: Option<&str>) -> Answer {
    let call = holder.get(link).with("accept", "application/json");
    match password {
        Some(password) => call.with("x-share-password", password).await,
        None => call.await,
    }
}

/// Links of one document.
async fn links(c: &Client, at: &str, count: usize, terms: &Value) -> Vec<String> {
    let mut links = Vec::with_capacity(count);
    for _ in 0..count {
        links.push(c.share(at, terms.clone()).await.1);
    }
    links
}

async fn uses(c: &Client, at: &str) -> u64 {
    let list = c.get(&format!("{at}/share?limit=100")).await.expect(200);
    list.data()
        .iter()
        .map(|share| share["uses"].as_u64().unwrap())
        .sum()
}

/// The median of how long it takes, asked for alone.
async fn median_alone(reader: impl AsyncFn()) -> Duration {
    let mut took = Vec::new();
    for _ in 0..5 {
        let asked = Instant::now();
        reader().await;
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

/// Fails if whoever opens a link waits for the attacker's 96 passwords, or 48 where two are hashed
/// at once: a few of them, and what a busy machine takes.
fn assert_no_queue(alone: Duration, beside: Duration) {
    eprintln!("another account's link took {alone:?} alone, {beside:?} beside the flood");
    assert!(
        beside < alone * 30 + Duration::from_millis(1_500),
        "{alone:?} alone, {beside:?} beside the flood"
    );
}

/// The median of how long a link of an account that is not under attack takes to open, again and
/// again until the attack ends.
async fn median_beside<T>(
    reader: impl AsyncFn(),
    attack: impl Future<Output = T>,
) -> (T, Duration) {
    let took = Mutex::new(Vec::new());
    let reading = async {
        loop {
            let asked = Instant::now();
            reader().await;
            took.lock().unwrap().push(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let given = tokio::select! {
        () = reading => unreachable!("it reads until the attack ends"),
        given = attack => given,
    };
    let mut took = took.into_inner().unwrap();
    took.sort_unstable();
    (given, took[took.len() / 2])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_right_passwords_leaves_hash_places_to_others() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let (attacker, other) = (server.account().await.test(), server.account().await.test());
    let (theirs, ours) = (attacker.document("x\n").await, other.document("y\n").await);
    let theirs = links(&attacker, &theirs, 8, &json!({"password": PASSWORD})).await;
    let (_, ours) = other.share(&ours, json!({"password": PASSWORD})).await;
    let holder = server.anonymous();
    let flood = async {
        let begun = Instant::now();
        let client = async |n: usize| {
            let mut statuses = Vec::new();
            while begun.elapsed() < Duration::from_secs(6) {
                statuses.push(
                    open(&holder, &theirs[n % theirs.len()], Some(PASSWORD))
                        .await
                        .status,
                );
            }
            statuses
        };
        join_all((0..96).map(client)).await.concat()
    };
    let reader = async || {
        drop(
            open(&server.anonymous(), &ours, Some(PASSWORD))
                .await
                .expect(200),
        )
    };
    let alone = median_alone(&reader).await;
    let beside = neighbour
        .beside("96 right passwords at a time", median_beside(reader, flood))
        .await;
    let (statuses, median) = beside.attack;
    assert_no_queue(alone, median);
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 503)),
        "{statuses:?}"
    );
    assert!(statuses.contains(&200), "nobody came in");
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_wrong_passwords_is_hashed_ten_times_a_minute_for_each_link() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let (attacker, other) = (server.account().await.test(), server.account().await.test());
    let (theirs, ours) = (attacker.document("x\n").await, other.document("y\n").await);
    let theirs = links(&attacker, &theirs, 4, &json!({"password": PASSWORD})).await;
    let (_, ours) = other.share(&ours, json!({"password": PASSWORD})).await;
    let holder = server.anonymous();
    let flood = async {
        let client = async |n: usize| {
            let mut statuses = Vec::new();
            for _ in 0..10 {
                statuses.push(
                    open(&holder, &theirs[n % theirs.len()], Some("guess"))
                        .await
                        .status,
                );
            }
            statuses
        };
        join_all((0..64).map(client)).await.concat()
    };
    let reader = async || {
        drop(
            open(&server.anonymous(), &ours, Some(PASSWORD))
                .await
                .expect(200),
        )
    };
    let alone = median_alone(&reader).await;
    let beside = neighbour
        .beside("640 wrong passwords", median_beside(reader, flood))
        .await;
    let (statuses, median) = beside.attack;
    assert_no_queue(alone, median);
    let count = |status: u16| statuses.iter().filter(|given| **given == status).count();
    assert!(count(401) <= 40, "{} were looked at", count(401));
    assert_eq!(
        count(401) + count(429) + count(503),
        statuses.len(),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn right_passwords_at_once_are_all_let_in_and_cost_no_wrong_tries() {
    let server = Server::start();
    let c = server.account().await.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"password": PASSWORD})).await;
    let holder = server.anonymous();
    for _ in 0..9 {
        open(&holder, &link, Some("guess"))
            .await
            .error(401, "unauthorized", "*");
    }
    let answers = join_all((0..24).map(|_| open(&holder, &link, Some(PASSWORD)))).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200; 24]);
    open(&holder, &link, Some("guess"))
        .await
        .error(401, "unauthorized", "*");
    open(&holder, &link, Some("guess"))
        .await
        .error(429, "rate_limited", "*");
}

#[tokio::test]
async fn nothing_is_hashed_for_callers_who_have_left() {
    const LEFT: usize = 200;
    let server = Server::start();
    let c = server.account().await.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"password": PASSWORD})).await;
    let holder = server.anonymous();
    let one =
        median_alone(async || drop(open(&holder, &link, Some(PASSWORD)).await.expect(200))).await;
    let request = format!(
        "GET {link} HTTP/1.1\r\nHost: test\r\nAccept: application/json\r\nX-Share-Password: {PASSWORD}\r\n\r\n"
    );
    let mut left = Vec::new();
    for _ in 0..LEFT {
        let mut raw = Raw::connect(&server.address()).await;
        assert!(raw.write(request.as_bytes()).await);
        left.push(raw);
    }
    drop(left);
    let asked = Instant::now();
    open(&holder, &link, Some(PASSWORD)).await.expect(200);
    let took = asked.elapsed();
    eprintln!("behind {LEFT} who have left: {took:?}, where nobody is: {one:?}");
    // Those that had begun before they left are counted too, and that they have left shows after
    // 0.1 s.
    assert!(
        took < one * 20 + Duration::from_millis(200),
        "{took:?}, where one takes {one:?}"
    );
}

/// Bytes that the server has written so far, into files and connections.
fn written_bytes(server: &Server) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", server.pid())).unwrap();
    counts
        .lines()
        .find_map(|line| line.strip_prefix("wchar: "))
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_uses_of_a_document_with_1000_links_writes_small_rows() {
    const USES: u64 = 200;
    let mut server = Server::start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let at = c.document("x\n").await;
    let links = links(&c, &at, 1_000, &json!({})).await;
    server.term();
    let file = server.work().join("data/colloquy.db");
    // One more makes the count longer by a digit, and with it the row that holds all of them: as
    // large as it gets.
    execute(
        &file,
        "UPDATE share_links SET body = replace(body, '\"uses\":0', '\"uses\":9')",
        &[],
    );
    server.restart();
    let (holder, c) = (server.anonymous(), server.with_key(&key));
    let neighbour = Neighbour::of(&server).await;
    open(&holder, &links[0], None).await.expect(200);
    let before = written_bytes(&server);
    for link in &links[1..=USES as usize] {
        open(&holder, link, None).await.expect(200);
    }
    let each = (written_bytes(&server) - before) / USES;
    eprintln!("one use of a link of a document with 1,000: {each} bytes written");
    assert!(each < 32 << 10, "{each} bytes for each use");
    let flood = async {
        let client = async |n: usize| {
            for round in 0..25 {
                open(&holder, &links[(n * 25 + round) % links.len()], None)
                    .await
                    .expect(200);
            }
        };
        join_all((0..32).map(client)).await;
    };
    neighbour
        .beside("800 uses of a document with 1,000 links", flood)
        .await;
    c.post(&format!("{at}/share"), json!({}))
        .await
        .error(409, "conflict", "*");
    let mut all = 0;
    for page in 0..10 {
        let list = c
            .get(&format!("{at}/share?limit=100&offset={}", page * 100))
            .await
            .expect(200);
        all += list
            .data()
            .iter()
            .map(|share| share["uses"].as_u64().unwrap())
            .sum::<u64>();
    }
    assert_eq!(all, 9_000 + 1 + USES + 800);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_the_longest_document_at_once() {
    const READERS: usize = 60;
    let server = Setup::default()
        .env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "60")
        .start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    // Each of its characters becomes five.
    let at = c.document(&"&".repeat((8 << 20) - 4_096)).await;
    let (_, link) = c.share(&at, json!({})).await;
    let page = format!(
        "GET {link} HTTP/1.1\r\nHost: test\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
    );
    let attack = join_all((0..READERS).map(|_| async {
        let mut raw = Raw::connect(&server.address()).await;
        raw.write(page.as_bytes()).await;
        let status = raw.read_head().await;
        (status, raw)
    }));
    let beside = neighbour
        .beside("60 pages of a document of 8 MiB", attack)
        .await;
    let of = |wanted: u16| {
        beside
            .attack
            .iter()
            .filter(|(status, _)| *status == wanted)
            .count()
    };
    assert!(
        of(200) > 0 && of(200) + of(503) == READERS,
        "{} pages, {} refusals",
        of(200),
        of(503)
    );
    assert!(beside.peak_bytes < 700 << 20, "{} bytes", beside.peak_bytes);
    assert_eq!(uses(&c, &at).await, of(200) as u64, "a refusal is no use");
}

#[tokio::test]
async fn max_uses_is_exact_with_32_readers_at_once_across_kill_9() {
    const MOST: usize = 240;
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"max_uses": MOST})).await;
    let (opened, half) = (AtomicUsize::new(0), Notify::new());
    let holder = server.anonymous();
    let read = async || {
        let again = || {
            holder
                .get(&link)
                .with("accept", "application/json")
                .try_send()
        };
        while let Ok(answer) = again().await {
            match answer.status {
                200 => {
                    if opened.fetch_add(1, Ordering::SeqCst) == MOST / 2 {
                        half.notify_one();
                    }
                }
                404 => break,
                status => panic!("{status}: {answer}"),
            };
        }
    };
    tokio::select! {
        _ = join_all((0..32).map(|_| read())) => panic!("all were used before the kill"),
        half = timeout(Duration::from_secs(60), half.notified()) => half.expect("half are used"),
    }
    let answered = opened.load(Ordering::SeqCst);
    server.restart();
    let (holder, c) = (server.anonymous(), server.with_key(&key));
    let counted = usize::try_from(uses(&c, &at).await).unwrap();
    assert!(
        (answered..=MOST.min(answered + 32)).contains(&counted),
        "{answered} were let in, {counted} are counted"
    );
    let answers = join_all((0..MOST).map(|_| open(&holder, &link, None))).await;
    let after = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(counted + after, MOST);
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer.status, 200 | 404))
    );
    assert_eq!(uses(&c, &at).await, MOST as u64);
    open(&holder, &link, None)
        .await
        .error(404, "not_found", "*");
}

/// A server with the limits on links that hold by default, which believes where a request says that
/// it comes from.
fn limiting_links() -> Server {
    Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .unset("COLLOQUY__LIMITS__LINK_REQUESTS_PER_ADDRESS_PER_MINUTE")
        .unset("COLLOQUY__LIMITS__LINK_REQUESTS_PER_MINUTE")
        .start()
}

/// A request for a link from this address.
fn from(holder: &Client, method: &str, link: &str, address: &str) -> Call {
    holder
        .call(method, link)
        .with("accept", "application/json")
        .with("x-forwarded-for", address)
}

#[tokio::test]
async fn every_request_for_a_link_counts_by_address_whether_it_opens_or_not() {
    const ADDRESS: &str = "192.0.2.1";
    let server = limiting_links();
    let c = server.account().await.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"role": "editor"})).await;
    let (_, other) = c.share(&at, json!({})).await;
    let (_, locked) = c.share(&at, json!({"password": PASSWORD})).await;
    let holder = server.anonymous();
    let ask = |method: &str, link: &str| from(&holder, method, link, ADDRESS);
    // What opens, what does not, what is no token, what only asks for a password.
    for n in 0..15 {
        ask("GET", &link).await.expect(200);
        ask("HEAD", &format!("/s/none{n}")).await.expect(404);
        ask("GET", &locked).await.error(401, "unauthorized", "*");
        let write = ask("PUT", &other).bytes("{}");
        write.await.error(403, "forbidden", "*");
    }
    for (method, link) in [
        ("GET", &*link),
        ("PUT", &link),
        ("POST", "/s/none/comments"),
        ("GET", "/s/none"),
    ] {
        let refused = ask(method, link).await.error(429, "rate_limited", "");
        assert!(
            (1..=61).contains(&refused.number("retry-after")),
            "{refused}"
        );
    }
    let page = ask("GET", &link).with("accept", "text/html");
    let page = page.await.expect(429);
    assert!(
        page.header("content-type").starts_with("text/html"),
        "{page}"
    );
    let right = ask("GET", &locked).with("x-share-password", PASSWORD);
    right.await.error(429, "rate_limited", "");
    from(&holder, "GET", &link, "198.51.100.200")
        .await
        .expect(200);
    // Nobody else is limited by it.
    c.get(&at).await.expect(200);
}

#[tokio::test]
async fn every_request_for_a_link_counts_by_link_wherever_it_comes_from() {
    let server = limiting_links();
    let c = server.account().await.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({})).await;
    let (_, other) = c.share(&at, json!({})).await;
    let holder = server.anonymous();
    for n in 0..15 {
        let write = from(&holder, "PUT", &link, &format!("192.0.2.{n}")).bytes("{}");
        write.await.error(403, "forbidden", "*");
    }
    let mut statuses = Vec::new();
    for n in 0..61 {
        let call = from(&holder, "GET", &link, &format!("198.51.100.{n}"));
        statuses.push(call.await.status);
    }
    assert_eq!(
        statuses.iter().position(|status| *status == 429),
        Some(60 - 15),
        "{statuses:?}"
    );
    let elsewhere = "198.51.100.200";
    from(&holder, "GET", &link, elsewhere)
        .await
        .error(429, "rate_limited", "");
    from(&holder, "GET", &other, elsewhere).await.expect(200);
    c.get(&at).await.expect(200);
}

#[tokio::test]
async fn a_put_through_a_link_is_one_use_whether_it_changes_something_or_not() {
    let account = account().await;
    let (c, holder) = (account.test(), account.anonymous());
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"role": "editor", "max_uses": 4})).await;
    let etag = holder
        .put(&link, json!({"content": "y\n"}))
        .await
        .expect(200)
        .header("etag")
        .to_owned();
    assert_eq!(uses(&c, &at).await, 1);
    let same = holder
        .put(&link, json!({"content": "y\n"}))
        .await
        .expect(200);
    assert_eq!((same.header("etag"), uses(&c, &at).await), (&*etag, 2));
    holder.put(&link, json!({})).await.expect(200);
    assert_eq!(uses(&c, &at).await, 3);
    holder
        .put(&link, json!({"title": "z"}))
        .with("if-match", "\"old\"")
        .await
        .error(412, "precondition_failed", "*");
    holder
        .put(&link, json!({"metadata": {}}))
        .await
        .error(400, "invalid_request", "metadata");
    holder
        .put(&link, json!({"title": 1}))
        .await
        .error(400, "invalid_request", "title");
    assert_eq!(uses(&c, &at).await, 3, "what is refused is no use");
    let answers = join_all((0..8).map(|n| {
        holder
            .put(&link, json!({"title": format!("by {n}")}))
            .into_future()
    }))
    .await;
    let count = |status: u16| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert_eq!((count(200), count(404)), (1, 7), "the last use is one");
    assert_eq!(uses(&c, &at).await, 4);
    let events = c
        .get(&format!("{at}/activity?action=document.updated"))
        .await
        .expect(200);
    assert_eq!(
        events.total(),
        1,
        "only who came in has changed it: {events}"
    );
}

#[tokio::test]
async fn a_file_whose_headers_count_uses_opens_with_these_counts() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let at = c.document("x\n").await;
    let (_, link) = c.share(&at, json!({"max_uses": 9})).await;
    open(&server.anonymous(), &link, None).await.expect(200);
    server.term();
    let file = server.work().join("data/colloquy.db");
    // As the version before wrote it: the links and the count in the header, and no tables of them.
    // An audit trail came later, too.
    let stored = |sql: &str| -> Value {
        let body = query(&file, sql, &[]);
        serde_json::from_str(body[0][0].as_str().unwrap()).unwrap()
    };
    let mut header = stored("SELECT body FROM documents");
    header["shares"] = stored("SELECT body FROM share_links");
    header["shares"][0]["terms"]["uses"] = json!(7);
    execute(
        &file,
        "UPDATE documents SET body = ?",
        &[json!(header.to_string())],
    );
    for undone in [
        "DROP TABLE link_uses",
        "DROP TABLE audit_head",
        "DELETE FROM meta WHERE key = 'chained'",
        "ALTER TABLE rows DROP COLUMN kind",
        "ALTER TABLE rows DROP COLUMN tail",
        "ALTER TABLE rows DROP COLUMN link",
        "ALTER TABLE rows DROP COLUMN text_bytes",
        "ALTER TABLE made DROP COLUMN text_bytes",
        "ALTER TABLE versions DROP COLUMN parts",
        "DROP TABLE frame_parts",
        "DROP TABLE loose_frames",
        "DROP TABLE share_links",
        "PRAGMA user_version = 3",
    ] {
        execute(&file, undone, &[]);
    }
    server.restart();
    let (c, holder) = (server.with_key(&key), server.anonymous());
    assert_eq!(uses(&c, &at).await, 7);
    open(&holder, &link, None).await.expect(200);
    assert_eq!(uses(&c, &at).await, 8);
    server.restart();
    let (c, holder) = (server.with_key(&key), server.anonymous());
    assert_eq!(uses(&c, &at).await, 8);
    // Other changes of the document keep the count.
    c.write(&at, "other words\n").await;
    open(&holder, &link, None).await.expect(200);
    c.share(&at, json!({})).await;
    server.restart();
    let (c, holder) = (server.with_key(&key), server.anonymous());
    assert_eq!(uses(&c, &at).await, 9);
    open(&holder, &link, None)
        .await
        .error(404, "not_found", "*");
}
