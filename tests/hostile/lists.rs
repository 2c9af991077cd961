//! Lists that cost much: for those who wait, for those who have hung up, and beside what must not
//! wait for them.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Neighbour, fill};
use crate::support::documents::DOCUMENTS;
use crate::support::{Account, Answer, Client, EventStream, Receiver, Server, Setup, until};

/// The most conversations that an attacker has here: enough that a list of the dearest kind takes
/// some 20 ms in a debug build.
const MANY: usize = 5_000;
/// Connections of the attackers here.
const AT_ONCE: usize = 500;
/// What is asked beside lists takes at most so long on a busy machine: less than what may wait at
/// all, 5 s.
const BESIDE_MAX: Duration = Duration::from_secs(4);
/// The longest that what happens in seconds may take there.
const SOON: Duration = Duration::from_secs(60);

/// Lists of conversations that go over all of them.
fn dear(n: usize) -> String {
    let filters = "channel=email&priority=high&created_after=2020-01-01T00:00:00.000Z";
    let rest = match n % 5 {
        0 => "&offset=4999",
        1 => "&offset=9007199254740991",
        2 => "&sort=updated_at&offset=4999",
        3 => "&sort=updated_at&order=asc&offset=9007199254740991",
        _ => "&status=active&order=asc&offset=4900",
    };
    format!("/v1/conversations?{filters}{rest}")
}

/// Sends this over so many connections and closes each at once.
async fn hang_up(address: &str, key: &str, path: &str, connections: usize) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\n\r\n");
    for _ in 0..connections {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
    }
}

/// The same for so many seconds.
async fn keep_hanging_up(server: &Server, account: &Account, path: impl Fn(usize) -> String) {
    let end = Instant::now() + Duration::from_secs(6);
    for n in 0.. {
        if Instant::now() > end {
            break;
        }
        hang_up(&server.address(), account.test_key(), &path(n), 100).await;
    }
}

/// The page that comes when there is room again.
async fn again(client: &Client, path: &str) -> Answer {
    until("there is room again", SOON, async || {
        let answer = client.get(path).await;
        (answer.status == 200).then_some(answer)
    })
    .await
}

/// An answer to a list is a page, or a refusal that did nothing and says when to come again.
fn page_or_refused(answer: Answer) -> u16 {
    if answer.status == 200 {
        return 200;
    }
    let refused = answer.error(503, "unavailable", "");
    assert_eq!(
        refused.body["error"]["details"]["outcome"], "none",
        "{refused}"
    );
    503
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_for_clients_that_have_hung_up_are_not_made() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attacker = server.account().await;
    fill::conversations(&attacker.test(), MANY).await;
    let beside = neighbour
        .lists_beside(
            "lists for those who hang up",
            keep_hanging_up(&server, &attacker, dear),
        )
        .await;
    assert!(beside.peak_bytes < 500 << 20, "{} bytes", beside.peak_bytes);
    // Those that hung up last are found out one after the other.
    let mine = again(&attacker.test(), &dear(0)).await;
    assert_eq!(
        (mine.total(), mine.data().len()),
        (MANY as u64, 1),
        "the attacker's own lists are right and come again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_for_clients_that_have_hung_up_are_not_made() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let (attacker, other) = (server.account().await, server.account().await.test());
    let words: String = (0..3_000).map(|n| format!("word{n} ")).collect();
    for n in 0..100 {
        attacker
            .test()
            .document(&format!("{words} number{n}\n"))
            .await;
    }
    other.document("one word\n").await;
    let search = format!("{DOCUMENTS}?q=w");
    let longest = async {
        let mut longest = Duration::ZERO;
        let end = Instant::now() + Duration::from_secs(6);
        while Instant::now() < end {
            let asked = Instant::now();
            other.get(&search).await.expect(200);
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let attack = async {
        tokio::join!(
            longest,
            keep_hanging_up(&server, &attacker, |_| search.clone())
        )
        .0
    };
    let longest = neighbour
        .beside("searches for those who hang up", attack)
        .await
        .attack;
    assert!(
        longest < BESIDE_MAX,
        "a search of another account took {longest:?}"
    );
    assert_eq!(again(&attacker.test(), &search).await.total(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dearest_lists_as_fast_as_the_limits_let() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attacker = server.account().await.test();
    fill::conversations(&attacker, 2 * MANY).await;
    let lists = || {
        fill::ask_for(5, AT_ONCE, async |n| {
            page_or_refused(attacker.get(&dear(n)).await)
        })
    };
    let messages = neighbour
        .beside("the dearest lists, 500 at once", lists())
        .await;
    let answered = neighbour
        .lists_beside("the dearest lists, 500 at once", lists())
        .await;
    for statuses in [messages.attack, answered.attack] {
        assert!(
            statuses.contains_key(&200),
            "the attacker's own lists go on: {statuses:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_streams_and_deliveries_do_not_wait_for_lists() {
    let server = Setup::default().delivering("[0.05]", "5").start();
    let neighbour = Neighbour::of(&server).await;
    let attackers = [
        server.account().await.test(),
        server.account().await.test(),
        server.account().await.test(),
    ];
    for attacker in &attackers {
        fill::conversations(attacker, MANY / 2).await;
    }
    let client = server.account().await.test();
    let receiver = Receiver::start().await;
    client
        .post(
            "/v1/webhooks",
            json!({"url": receiver.url(), "events": ["*"]}),
        )
        .await
        .expect(201);
    let (document, conversation) = (
        client.document("a text\n").await,
        client.conversation().await,
    );
    let lists = fill::ask_for(6, AT_ONCE, async |n| {
        page_or_refused(attackers[n % 3].get(&dear(n)).await)
    });
    let work = async {
        let mut longest = Longest::default();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            longest.text(&client, &document).await;
            longest.stream(&client).await;
            longest.delivery(&client, &conversation, &receiver).await;
        }
        longest
    };
    let attack = async { tokio::join!(lists, work).1 };
    let longest = neighbour
        .beside("lists of three accounts, 500 at once", attack)
        .await
        .attack;
    eprintln!("hostile: beside these lists the longest was {longest:?}");
    assert!(
        longest.all().into_iter().all(|took| took < BESIDE_MAX),
        "{longest:?}"
    );
}

/// The longest that each took.
#[derive(Debug, Default)]
struct Longest {
    text: Duration,
    stream: Duration,
    delivery: Duration,
}

impl Longest {
    fn all(&self) -> [Duration; 3] {
        [self.text, self.stream, self.delivery]
    }

    async fn text(&mut self, client: &Client, document: &str) {
        let asked = Instant::now();
        assert_eq!(client.text(document).await, "a text\n");
        self.text = self.text.max(asked.elapsed());
    }

    /// A stream that catches up from the beginning.
    async fn stream(&mut self, client: &Client) {
        let asked = Instant::now();
        EventStream::open(client.get("/v1/events?after=0"))
            .await
            .event()
            .await;
        self.stream = self.stream.max(asked.elapsed());
    }

    async fn delivery(&mut self, client: &Client, conversation: &str, receiver: &Receiver) {
        let before = receiver.count();
        let asked = Instant::now();
        client.message(conversation, "to be delivered").await;
        until("the delivery comes", Duration::from_secs(20), async || {
            (receiver.count() > before).then_some(())
        })
        .await;
        self.delivery = self.delivery.max(asked.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_room_in_the_queue_or_waits_too_long_is_refused_with_503() {
    const ROOM: &str = "room for 4";
    let few = ("COLLOQUY__LIMITS__READS_WAITING_PER_ACCOUNT", "4");
    let short = ("COLLOQUY__LIMITS__READ_WAIT_SECONDS", "0.1");
    for (what, (name, value)) in [(ROOM, few), ("a wait of 0.1 s", short)] {
        // All of them wait for the store, none for the account's own before it.
        let mut server = Setup::default()
            .env("COLLOQUY__LIMITS__LARGE_ANSWERS_AT_ONCE", "1000")
            .start();
        let (attacker, other) = (server.account().await.test(), server.account().await.test());
        fill::conversations(&attacker, 2 * MANY).await;
        other.conversation().await;
        // Now only: what is made above reads, too.
        server.set_env(name, value);
        server.restart();
        let (attacker, other) = (attacker.at(&server.address()), other.at(&server.address()));
        let lists = async |n| page_or_refused(attacker.get(&dear(n)).await);
        let lists = fill::ask_for_all(&[200, 503], AT_ONCE / 2, lists);
        let others = fill::ask_for_all(&[200], 1, async |_| {
            other.get("/v1/conversations").await.status
        });
        let (statuses, others) = tokio::join!(lists, others);
        assert_eq!(
            statuses.keys().copied().collect::<Vec<_>>(),
            [200, 503],
            "{what}: {statuses:?}"
        );
        assert!(
            others.contains_key(&200),
            "{what}: another account goes on: {others:?}"
        );
        // On a busy machine a thread may take 0.1 s to wake up.
        assert!(
            !others.contains_key(&503) || what != ROOM,
            "another account has room: {others:?}"
        );
    }
}
