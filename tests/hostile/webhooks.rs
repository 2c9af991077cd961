//! Webhooks: endpoints without end, filters of thousands of values, names that never resolve,
//! receivers that misbehave.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Neighbour;
use crate::support::documents::id_of;
use crate::support::{
    Account, Client, Receiver, Reply, Server, Setup, preload, raw, stored, until, until_now,
};

const HOOKS: &str = "/v1/webhooks";
/// Never asked for anything in these tests.
const ELSEWHERE: &str = "https://hooks.example.com/colloquy";
const ENDPOINTS_MAX: usize = 100;
const VALUES_MAX: usize = 100;
/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Seconds for which a server under attack waits for a receiver.
const TIMEOUT_SECONDS: &str = "15";
/// What a neighbour's delivery may take beside an attack in a debug build on a busy machine, well
/// below the time-out that it would meet if the attack held what it needs.
const DELIVERED_MAX: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_endpoints_made_at_once_exactly_so_many_are_taken_as_there_may_be() {
    const MAKERS: usize = 32;
    const EACH: usize = 5;
    let server = Server::start();
    let account = server.account().await;
    let (client, live) = (account.test(), account.live());
    let make = async |client: &Client| {
        client
            .post(HOOKS, json!({"url": ELSEWHERE, "events": ["*"]}))
            .await
    };
    let makers = (0..MAKERS).map(async |_| {
        let mut statuses = Vec::new();
        for _ in 0..EACH {
            let made = make(&client).await;
            statuses.push(if made.status == 201 {
                201
            } else {
                made.error(409, "conflict", "").status
            });
        }
        statuses
    });
    let statuses = join_all(makers).await.concat();
    let count = |status: u16| statuses.iter().filter(|one| **one == status).count();
    assert_eq!(
        (count(201), count(409)),
        (ENDPOINTS_MAX, MAKERS * EACH - ENDPOINTS_MAX)
    );
    let list = client.get(HOOKS).await.expect(200);
    assert_eq!(list.total(), ENDPOINTS_MAX as u64);
    make(&live).await.expect(201);
    let one = list["data"][0]["webhook_id"].as_str().unwrap();
    client
        .patch(&format!("{HOOKS}/{one}"), json!({"description": "changed"}))
        .await
        .expect(200);
    client.delete(&format!("{HOOKS}/{one}")).await.expect(204);
    make(&client).await.expect(201);
    make(&client).await.error(409, "conflict", "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_replays_asked_for_at_once_exactly_so_many_are_under_way_as_there_may_be() {
    const REPLAYS_MAX: usize = 16;
    let receiver = Receiver::planned(|_| Reply::status(500)).await;
    // Tried again for longer than the test takes, so that no replay ends before the receiver takes
    // it.
    let mut server = Setup::default()
        .delivering(&format!("{:?}", [1.0; 100]), "5")
        .start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    for n in 0..5 {
        client.message(&conversation, &format!("number {n}")).await;
    }
    let make = async || {
        let hook = json!({"url": receiver.url(), "events": ["message.created"]});
        format!(
            "{HOOKS}/{}/replay",
            client.post(HOOKS, hook).await.expect(201).id("webhook_id")
        )
    };
    let (replay, others) = (make().await, make().await);
    let all = json!({"since": "2020-01-01T00:00:00Z"});
    let asked = join_all((0..4 * REPLAYS_MAX).map(async |_| {
        let answer = client.post(&replay, all.clone()).await;
        if answer.status == 202 {
            202
        } else {
            answer.error(409, "conflict", "").status
        }
    }));
    assert_eq!(
        asked
            .await
            .into_iter()
            .filter(|status| *status == 202)
            .count(),
        REPLAYS_MAX
    );
    client.post(&others, all.clone()).await.expect(202);
    server.kill9();
    server.restart();
    let client = client.at(&server.address());
    client
        .post(&replay, all.clone())
        .await
        .error(409, "conflict", "");
    receiver.answer(|_| Reply::ok());
    until(
        "the replays have ended",
        Duration::from_secs(60),
        async || (client.post(&replay, all.clone()).await.status == 202).then_some(()),
    )
    .await;
}

/// So many identifiers of documents, none twice, of none that exists.
fn absent_documents(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| json!(format!("doc_0190163d869470008{n:015x}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_thousands_of_values() {
    let server = Server::start();
    let account = server.account().await;
    let client = account.test();
    let existing = join_all((0..VALUES_MAX).map(|_| client.document("named by a filter"))).await;
    let existing: Vec<&str> = existing.iter().map(|at| id_of(at)).collect();
    let most = json!({"url": ELSEWHERE, "filter": {"document_id": existing}});
    client.post(HOOKS, most).await.expect(201);
    let filter =
        |count| json!({"url": ELSEWHERE, "filter": {"document_id": absent_documents(count)}});
    client.post(HOOKS, filter(VALUES_MAX + 1)).await.error(
        400,
        "invalid_request",
        "filter.document_id",
    );
    let channels: Vec<&str> = std::iter::repeat_n("chat", VALUES_MAX + 1).collect();
    let many = json!({"url": ELSEWHERE, "filter": {"channel": channels}});
    client
        .post(HOOKS, many)
        .await
        .error(400, "invalid_request", "filter.channel");
    let body = filter(22_000).to_string();
    let request = format!(
        "POST {HOOKS} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        account.test_key(),
        body.len()
    );
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let senders = (0..4).map(async |_| {
            raw::exchange(&server.address(), request.as_bytes())
                .await
                .status
        });
        join_all(senders).await
    };
    let beside = neighbour.beside("22,000 values in a filter", attack).await;
    assert!(
        beside.attack.iter().all(|status| *status == 400),
        "{:?}",
        beside.attack
    );
}

/// Another account whose messages are delivered, over a connection and a name's look-up of its own
/// for each.
struct Delivered {
    client: Client,
    conversation: String,
    receiver: Receiver,
}

impl Delivered {
    async fn of(server: &Server) -> Self {
        let client = server.account().await.test();
        let receiver = Receiver::planned(|_| Reply::with_header(200, "Connection", "close")).await;
        let url = format!("http://localhost:{}/hook", receiver.port());
        client
            .post(HOOKS, json!({"url": url, "events": ["message.created"]}))
            .await
            .expect(201);
        let conversation = client.conversation().await;
        Self {
            client,
            conversation,
            receiver,
        }
    }

    /// The longest that one of so many messages took from its answer to the receiver.
    async fn longest(&self, messages: usize) -> Duration {
        let mut longest = Duration::ZERO;
        for _ in 0..messages {
            let before = self.receiver.count();
            let sent = Instant::now();
            self.client
                .message(&self.conversation, "are you there?")
                .await;
            let came = self.receiver.wait_for(before + 1).await;
            longest = longest.max(came[before].at.saturating_duration_since(sent));
        }
        longest
    }
}

/// A server that delivers to this machine, and waits long before it tries again.
fn delivering() -> Setup {
    Setup::default().delivering("[60]", TIMEOUT_SECONDS)
}

/// Makes an endpoint for each URL, and sends a message to so many conversations.
async fn flood(account: &Account, urls: impl Iterator<Item = String>, conversations: usize) {
    let client = account.test();
    let urls: Vec<String> = urls.collect();
    for some in urls.chunks(16) {
        let make = async |url: &String| {
            client
                .post(HOOKS, json!({"url": url, "events": ["message.created"]}))
                .await
                .expect(201);
        };
        join_all(some.iter().map(make)).await;
    }
    let customer = client.customer().await;
    for _ in 0..conversations {
        let conversation = client.conversation_of(&customer).await;
        client.message(&conversation, "to nowhere").await;
    }
}

/// A resolver that never answers for names of `.invalid`, as where their name server is silent; all
/// others are the system's.
const SILENT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    size_t length = node ? strlen(node) : 0;
    if (length > 8 && !strcmp(node + length - 8, ".invalid")) { sleep(30); return EAI_AGAIN; }
    if (!next) next = dlsym(RTLD_NEXT, "getaddrinfo");
    return next(node, service, hints, found);
}
"#;

/// The library that puts it in the place of the system's.
fn silent_resolver() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| preload::library("silent_resolver", SILENT))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_never_resolve() {
    const NAMES: usize = 1_100;
    let server = delivering()
        .env("LD_PRELOAD", silent_resolver().to_str().unwrap())
        .env(
            "COLLOQUY__BOUNDS__WEBHOOK_ENDPOINTS_MAX",
            &NAMES.to_string(),
        )
        .start();
    let delivered = Delivered::of(&server).await;
    let attacker = server.account().await;
    let neighbour = Neighbour::of(&server).await;
    let alone = delivered.longest(10).await;
    let attack = async {
        flood(
            &attacker,
            (0..NAMES).map(|n| format!("http://n{n}.silent.invalid/hook")),
            1,
        )
        .await;
        until("names are being resolved", SOON, async || {
            (server.metric("threads{thread=\"names\"}").await > 8).then_some(())
        })
        .await;
        delivered.longest(10).await
    };
    let beside = neighbour
        .beside("1,100 names that never resolve", attack)
        .await;
    let threads = server.metric("threads{thread=\"names\"}").await;
    eprintln!(
        "hostile: a neighbour's delivery took {alone:?} alone, {:?} beside, {threads} threads",
        beside.attack
    );
    assert!(
        beside.attack < DELIVERED_MAX,
        "{:?} beside {alone:?} alone",
        beside.attack
    );
}

/// Between two pieces of what never ends: many connections together bring more than a fast line.
const PACE: Duration = Duration::from_millis(100);

/// What a receiver does with a connection once the request has begun to come.
#[derive(Clone, Copy)]
enum Misbehaves {
    /// One byte a second.
    Trickles,
    /// Nothing.
    IsSilent,
    /// A header without end.
    EndlessHeader,
    /// Interim answers without end.
    EndlessInterim,
    /// A body without end.
    EndlessBody,
}

async fn misbehave(mut stream: TcpStream, how: Misbehaves) {
    let mut some = [0; 4_096];
    if !stream.read(&mut some).await.is_ok_and(|count| count > 0) {
        return;
    }
    let (head, piece): (&[u8], Vec<u8>) = match how {
        Misbehaves::Trickles | Misbehaves::IsSilent => {
            (b"", b"HTTP/1.1 200 OK\r\nX-Never: ends".to_vec())
        }
        Misbehaves::EndlessHeader => (b"HTTP/1.1 200 OK\r\nX-Endless: ", vec![b'x'; 16_384]),
        Misbehaves::EndlessInterim => (b"", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(600)),
        Misbehaves::EndlessBody => (b"HTTP/1.1 200 OK\r\n\r\n", vec![b'x'; 16_384]),
    };
    let mut going = stream.write_all(head).await;
    while going.is_ok() {
        going = match how {
            Misbehaves::IsSilent => stream.read(&mut some).await.and_then(|count| {
                if count > 0 {
                    Ok(())
                } else {
                    Err(std::io::ErrorKind::UnexpectedEof.into())
                }
            }),
            Misbehaves::Trickles => {
                let mut sent = Ok(());
                for byte in &piece {
                    sent = stream.write_all(&[*byte]).await;
                    if sent.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                sent
            }
            Misbehaves::EndlessHeader | Misbehaves::EndlessInterim | Misbehaves::EndlessBody => {
                tokio::time::sleep(PACE).await;
                stream.write_all(&piece).await
            }
        };
    }
}

/// A receiver of the attacker's; its URL.
async fn misbehaving(how: Misbehaves, connections: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    connections.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.spawn(misbehave(stream, how));
            while open.try_join_next().is_some() {}
        }
    });
    url
}

/// All endpoints that an account may have, each with events of more conversations than it has
/// places; what a neighbour's delivery takes meanwhile, and the most that the server holds.
async fn beside_receivers(name: &str, hows: &[Misbehaves]) {
    let server = delivering().start();
    let delivered = Delivered::of(&server).await;
    let attacker = server.account().await;
    let mut connections = JoinSet::new();
    let mut urls = Vec::new();
    for how in hows.iter().cycle().take(ENDPOINTS_MAX) {
        urls.push(misbehaving(*how, &mut connections).await);
    }
    let neighbour = Neighbour::of(&server).await;
    let alone = delivered.longest(10).await;
    let attack = async {
        flood(&attacker, urls.into_iter(), 40).await;
        delivered.longest(20).await
    };
    let beside = neighbour.beside(name, attack).await;
    let under_way = server.metric("webhook_attempts_in_flight").await;
    eprintln!(
        "hostile: a neighbour's delivery took {alone:?} alone, {:?} beside, {under_way} attempts",
        beside.attack
    );
    assert!(
        beside.attack < DELIVERED_MAX,
        "{:?} beside {alone:?} alone",
        beside.attack
    );
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_say_nothing_or_a_byte_a_second() {
    beside_receivers(
        "silent and trickling receivers",
        &[Misbehaves::IsSilent, Misbehaves::Trickles],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_whose_header_never_ends() {
    beside_receivers("headers without end", &[Misbehaves::EndlessHeader]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_whose_answer_never_ends() {
    beside_receivers(
        "answers without end",
        &[Misbehaves::EndlessBody, Misbehaves::EndlessInterim],
    )
    .await;
}

/// A receiver that takes connections and leaves them at that.
fn deaf() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    (listener, url)
}

/// The longest that the writer may keep a message waiting in a debug build on a busy machine.
const HELD_MAX: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_thousands_of_endpoints_also_across_a_kill_9() {
    const ENDPOINTS: usize = 3_000;
    const MESSAGES: usize = 60;
    let (_deaf, url) = deaf();
    let endpoints_max = ENDPOINTS.to_string();
    let mut server = Setup::default()
        .delivering("[3600]", "60")
        .env("COLLOQUY__BOUNDS__WEBHOOK_ENDPOINTS_MAX", &endpoints_max)
        .start();
    let attacker = server.account().await;
    flood(&attacker, std::iter::repeat_n(url, ENDPOINTS), 0).await;
    let client = attacker.test();
    let conversation = client.conversation().await;
    let neighbour = Neighbour::of(&server).await;
    let other = server.account().await.test();
    let quiet = other.conversation().await;
    let attack = async {
        let path = format!("/v1/conversations/{conversation}/messages");
        let send = async |n| {
            client
                .post(&path, json!({"content": format!("number {n}")}))
                .await
                .expect(201)
                .status
        };
        join_all((0..MESSAGES).map(send)).await;
        // Not every hundredth message: none may wait while all rows of many events are written at
        // once.
        let mut longest = Duration::ZERO;
        while server.metric("webhook_deliveries_pending").await < (ENDPOINTS * MESSAGES / 2) as u64
        {
            let asked = Instant::now();
            other.message(&quiet, "are you there?").await;
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let beside = neighbour
        .beside("60 events of 3,000 endpoints", attack)
        .await;
    eprintln!(
        "hostile: the longest that a message took was {:?}",
        beside.attack
    );
    assert!(beside.attack < HELD_MAX, "{:?}", beside.attack);
    drop(neighbour);
    server.restart();
    // What was matched in part when it was killed is matched to its end, and nothing twice.
    let file = server.work().join("data/colloquy.db");
    let count = "SELECT count(*), count(DISTINCT endpoint || ' ' || pos) FROM deliveries";
    let all = json!(ENDPOINTS * MESSAGES);
    until_now("all is matched, each once", Duration::from_secs(90), || {
        let found = stored::query(&file, count, &[]).concat();
        assert_eq!(found[0], found[1], "some were made twice");
        (found[0] == all).then_some(())
    });
    until("metrics say so", SOON, async || {
        (server.metric("webhook_positions_behind").await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_deleted_right_before_a_kill_9_leave_no_deliveries() {
    const ENDPOINTS: usize = 20;
    const MESSAGES: usize = 20;
    let (_deaf, url) = deaf();
    let mut server = Setup::default().delivering("[3600]", "60").start();
    let account = server.account().await;
    let client = account.test();
    flood(&account, std::iter::repeat_n(url, ENDPOINTS), MESSAGES).await;
    let file = server.work().join("data/colloquy.db");
    let left = |file: &PathBuf| {
        stored::query(file, "SELECT count(*) FROM deliveries", &[]).concat()[0].clone()
    };
    until_now("all deliveries are made", SOON, || {
        (left(&file) == json!(ENDPOINTS * MESSAGES)).then_some(())
    });
    let list = client.get(&format!("{HOOKS}?limit=100")).await.expect(200);
    let paths: Vec<String> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{HOOKS}/{}", one["webhook_id"].as_str().unwrap()))
        .collect();
    join_all(
        paths
            .iter()
            .map(async |path| client.delete(path).await.expect(204).status),
    )
    .await;
    server.kill9();
    server.restart();
    until_now("no delivery is left", SOON, || {
        (left(&file) == json!(0)).then_some(())
    });
    let counters = "SELECT count(*) FROM counters WHERE field = 20";
    until_now("nothing is counted", SOON, || {
        (stored::query(&file, counters, &[]).concat()[0] == json!(0)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_the_file_does_not_take_is_given_up_once_and_others_go_on() {
    let receiver = Receiver::start().await;
    let mut server = delivering().start();
    server.expect_errors();
    let account = server.account().await;
    let client = account.test();
    let hook = json!({"url": receiver.url(), "events": ["conversation.closed", "message.created"]});
    let hook = client.post(HOOKS, hook).await.expect(201).id("webhook_id");
    let conversation = client.conversation().await;
    server.term();
    // As a damaged page would: rows of one kind of event are refused.
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON deliveries WHEN new.happened = 3
                  BEGIN SELECT RAISE(ABORT, 'it is refused'); END";
    stored::execute(&server.work().join("data/colloquy.db"), refuse, &[]);
    server.restart();
    let client = client.at(&server.address());
    client
        .post(
            &format!("/v1/conversations/{conversation}/close"),
            json!({}),
        )
        .await
        .expect(200);
    let other = client.conversation().await;
    for n in 0..20 {
        client.message(&other, &format!("number {n}")).await;
    }
    let list = format!("{HOOKS}/{hook}/deliveries?status=delivered&event=message.created");
    until(
        "the messages are delivered, and it is known",
        SOON,
        async || {
            let answer = client.get(&list).await;
            (answer.status == 200 && answer.total() == 20).then_some(())
        },
    )
    .await;
    let log = server.log();
    assert_eq!(log.matches("is given up").count(), 1, "{log}");
    assert!(
        log.contains("a delivery can't be written: it is given up"),
        "{log}"
    );
}
