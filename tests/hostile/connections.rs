//! Connections: many at once, with nothing on them or with one request each second, and those that
//! would be held for ever.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use h2::client::Builder;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use super::neighbour::{Neighbour, take_the_processor_at_once};
use crate::support::process::{pause, peak_mib};
use crate::support::raw::Raw;
use crate::support::{Account, Authority, EventStream, Item, Server, Setup, Socket, http2, until};

const MIB: u64 = 1 << 20;
/// Connections that send nothing, and addresses that they come from.
const SILENT: usize = 10_000;
const ADDRESSES: usize = 4;
/// Connections that go on, and the requests that each sends, one a second.
const KEPT: usize = 2_000;
const REQUESTS: usize = 5;
/// Requests that come at the same instant.
const AT_ONCE: usize = 1_000;
/// How often they do.
const TRIES: usize = 9;
/// Connections that an attacker holds.
const HELD: usize = 20;
/// How long an idle connection is kept by a server that is not patient, and longer.
const IDLE: Duration = Duration::from_secs(4);
/// Between two pieces of what never ends.
const TRICKLE: Duration = Duration::from_millis(50);
/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Connections of HTTP/2, and streams of each, whose heads repeat a header.
const COMPRESSED: usize = 20;
const STREAMS: usize = 100;
/// Requests behind one whose answer does not end: as many as are read, and more …
const BEHIND: [usize; 2] = [15, 16];
/// … and how long it is looked what these cost.
const MEASURED: Duration = Duration::from_secs(2);

/// Lets this process open what its own connections need.
fn open_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .unwrap();
}

/// A connection from the n-th address of this machine.
pub(super) async fn from(n: usize, server: &Server) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(format!("127.0.0.{}:0", n + 2).parse().unwrap())
        .unwrap();
    socket.connect(server.address().parse().unwrap()).await.ok()
}

/// Whether the server keeps a connection on which nothing is said.
async fn is_kept(stream: &mut TcpStream) -> bool {
    timeout(Duration::from_millis(200), stream.read(&mut [0]))
        .await
        .is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_that_send_nothing() {
    open_many_files();
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let mut silent = Vec::with_capacity(SILENT);
        for n in 0..SILENT {
            silent.push(from(n % ADDRESSES, &server).await.expect("a connection"));
        }
        server.anonymous().get("/healthz").await.expect(200);
        silent
    };
    let beside = neighbour
        .beside("10,000 connections that send nothing", attack)
        .await;
    assert!(beside.peak_bytes < 700 * MIB, "{} bytes", beside.peak_bytes);
    until("those that send nothing are closed", SOON, async || {
        (server.metric("connections").await < 100).then_some(())
    })
    .await;
    drop(beside.attack);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_a_quarter_of_all_connections() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__CONNECTIONS_MAX", "80")
        .env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "600")
        .start();
    let mut taken = join_all((0..100).map(|_| from(0, &server)))
        .await
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    until("all but a quarter of 80 are ended", SOON, async || {
        let kept = join_all(taken.iter_mut().map(is_kept))
            .await
            .into_iter()
            .filter(|kept| *kept)
            .count();
        assert!(kept >= 20, "{kept} are left of a quarter of 80");
        (kept == 20).then_some(())
    })
    .await;
    for _ in 0..10 {
        server.anonymous().get("/healthz").await.expect(200);
    }
    drop(taken);
    until("there is room again", SOON, async || {
        is_kept(&mut from(0, &server).await?).await.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_no_file_can_be_opened_it_goes_on_as_soon_as_one_can() {
    let mut server = Setup::default()
        .env("COLLOQUY__SERVER__CONNECTIONS_MAX", "100_000")
        .start();
    server.expect_errors();
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .unwrap()
        .count() as u64;
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let few = Rlimit {
        current: Some(files + 50),
        maximum: Some(files + 50),
    };
    rustix::process::prlimit(pid, Resource::Nofile, few).unwrap();
    let taken = join_all((0..200).map(|n| from(n % 8, &server))).await;
    assert!(
        taken.iter().flatten().count() > 100,
        "what waits to be accepted is connected too"
    );
    drop(taken);
    until("it answers again", SOON, async || {
        server.anonymous().get("/healthz").try_send().await.ok()
    })
    .await
    .expect(200);
}

/// An account whose rate bounds nothing.
pub(super) async fn account_that_asks_much(server: &Server) -> Account {
    let account = server.account().await;
    let limits =
        json!({"plan": "enterprise", "rate_per_minute": 1_000_000, "burst_per_minute": 1_000_000});
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    account.operator().patch(&path, limits).await.expect(200);
    account
}

/// Requests that read so many new conversations, of which each takes 256 at a time.
async fn gets(account: &Account, conversations: usize) -> Vec<String> {
    let new = (0..conversations).map(|_| async { account.test().conversation().await });
    let key = account.test_key();
    let request = |id: &String| {
        format!(
            "GET /v1/conversations/{id} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
    };
    join_all(new).await.iter().map(request).collect()
}

/// Two thousand connections send a request a second each, and so long apart from one another.
async fn two_thousand_connections(name: &str, apart: Duration) {
    open_many_files();
    let server = Setup::default()
        // On a busy machine it takes long until all are connected and begin.
        .env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "60")
        .start();
    let account = account_that_asks_much(&server).await;
    let neighbour = Neighbour::of(&server).await;
    let requests = gets(&account, 20).await;
    let begin = tokio::time::Instant::now();
    let client = async |n: usize| {
        let request = &requests[n % requests.len()];
        let mut pace = interval_at(begin + apart * n as u32, Duration::from_secs(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pace.tick().await;
        let mut stream = from(n % ADDRESSES, &server).await.expect("a connection");
        let mut answers = 0;
        for _ in 0..REQUESTS {
            pace.tick().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = vec![0; 4_096];
            let count = stream.read(&mut answer).await.unwrap();
            answers += usize::from(answer[..count].starts_with(b"HTTP/1.1 200"));
        }
        answers
    };
    let beside = neighbour
        .beside(name, join_all((0..KEPT).map(client)))
        .await;
    assert_eq!(
        beside.attack.iter().sum::<usize>(),
        KEPT * REQUESTS,
        "each was answered"
    );
    assert!(beside.peak_bytes < 400 * MIB, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_at_one_request_a_second_each() {
    let apart = Duration::from_secs(1) / KEPT as u32;
    two_thousand_connections("2,000 connections, a request a second each", apart).await;
}

/// The same at its worst: as if all were one, which sends 2,000 requests at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_at_the_same_instant_of_each_second() {
    let name = "2,000 connections at the same instant of each second";
    two_thousand_connections(name, Duration::ZERO).await;
}

/// A connection that waits for each answer.
struct Blocking(std::net::TcpStream);

impl Blocking {
    fn connect(server: &Server) -> Self {
        Blocking(std::net::TcpStream::connect(server.address()).unwrap())
    }

    fn ask(&mut self, request: &str) {
        self.0.write_all(request.as_bytes()).unwrap();
    }

    fn is_answered(&mut self) {
        let mut answer = [0; 4_096];
        let count = self.0.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200"));
    }
}

/// How many of these requests are answered before one of another account that came behind them.
fn answered_first(
    process: u32,
    (many, requests): (&mut [Blocking], &[String]),
    (other, request): (&mut Blocking, &str),
) -> usize {
    // All have come before it reads the first.
    let paused = pause(process);
    for (one, request) in many.iter_mut().zip(requests.iter().cycle()) {
        one.ask(request);
    }
    other.ask(request);
    let wait = |waits: bool| {
        many.iter()
            .for_each(|one| one.0.set_nonblocking(!waits).unwrap())
    };
    wait(false);
    drop(paused);
    other.is_answered();
    let come = many.iter().filter(|one| one.0.peek(&mut [0]).is_ok());
    let come = come.count();
    wait(true);
    many.iter_mut().for_each(Blocking::is_answered);
    come
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_behind_a_thousand_requests_of_another_account_is_not_answered_behind_them() {
    open_many_files();
    let server = Server::start();
    let account = account_that_asks_much(&server).await;
    let requests = gets(&account, 20).await;
    let request = gets(&account_that_asks_much(&server).await, 1)
        .await
        .remove(0);
    let (mut many, mut other) = (
        (0..AT_ONCE)
            .map(|_| Blocking::connect(&server))
            .collect::<Vec<_>>(),
        Blocking::connect(&server),
    );
    // From now on it is known whose they are.
    other.ask(&request);
    other.is_answered();
    for (one, request) in many.iter_mut().zip(requests.iter().cycle()) {
        one.ask(request);
        one.is_answered();
    }
    let process = server.pid();
    let tries = std::thread::spawn(move || {
        take_the_processor_at_once();
        let ask = |_| answered_first(process, (&mut many, &requests), (&mut other, &request));
        (0..TRIES).map(ask).collect::<Vec<_>>()
    });
    let mut first = tries.join().unwrap();
    eprintln!("hostile: of {AT_ONCE} requests that came before, answered before: {first:?}");
    first.sort_unstable();
    // Some tries are late to look, on a busy machine. In the order of arrival it is half of them to all.
    assert!(first[TRIES / 2] < AT_ONCE / 4, "{first:?}");
}

/// A server that keeps an idle connection for 2 s, and a request's head or the rest of its body for
/// 1 s more.
fn impatient() -> Server {
    Setup::default()
        .env("COLLOQUY__SERVER__KEEP_ALIVE_SECONDS", "2")
        .env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "1")
        .env("COLLOQUY__SERVER__LINGER_SECONDS", "1")
        .start()
}

/// Reads an answer, then sends a piece again and again, until the server ends the connection.
async fn trickle(server: &Server, request: &str, status: u16, piece: &str) {
    let mut raw = Raw::connect(&server.address()).await;
    raw.write(request.as_bytes()).await;
    assert_eq!(raw.read_head().await, status, "{request}");
    until("the connection is ended", SOON, async || {
        raw.write(piece.as_bytes()).await;
        raw.read_to_end(TRICKLE).await.closed.then_some(())
    })
    .await;
}

/// HTTP/2 writes a header once, and says in a byte that it comes again: what it stands for is bounded, too.
#[tokio::test]
async fn heads_that_take_few_bytes_are_bounded_by_what_they_say() {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Setup::default().encrypted(&authority, &pair).start();
    let long = "x".repeat(4_000);
    let before = peak_mib(server.pid());
    let mut connections = Vec::new();
    for _ in 0..COMPRESSED {
        let connected = http2::connect(&server.address(), server.tls(), &Builder::new()).await;
        let mut connection = connected.0.ready().await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let url = format!("https://{}/console/sign-in", server.address());
            let mut request = http::Request::post(url)
                .header("content-type", "application/x-www-form-urlencoded");
            for number in 0..110_u8 {
                let name = [b'a' + number / 26, b'a' + number % 26];
                request = request.header(name.as_slice(), "");
            }
            for _ in 0..13 {
                request = request.header("x", &long);
            }
            let request = request.body(()).unwrap();
            streams.push(connection.send_request(request, false).unwrap());
        }
        connections.push((connection, streams));
    }
    // Their bodies do not come: when that is told, all that may be read at once has been.
    for (_, streams) in &mut connections {
        let (answer, _) = &mut streams[0];
        let answer = timeout(SOON, answer).await.unwrap().unwrap();
        assert_eq!(answer.status(), 408);
    }
    let grown = peak_mib(server.pid()) - before;
    assert!(grown < 100, "{grown} MiB more");
}

/// What a process has computed since it began.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // Fields 14 and 15 of proc_pid_stat(5): in user mode and in the kernel, in hundredths of a second.
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// As many requests as the parser takes ahead, behind one whose answer does not end, and a full buffer that is none:
/// the server does not look at it again and again.
#[tokio::test]
async fn what_is_not_read_behind_an_answer_without_end_costs_nothing() {
    let server = Server::start();
    let account = server.account().await;
    let key = account.test_key();
    let request = |more: &str| {
        format!("GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n{more}\r\n")
    };
    let mut lines = Vec::new();
    for many in BEHIND {
        let mut raw = Raw::connect(&server.address()).await;
        raw.write(request("Accept: text/event-stream\r\n").as_bytes())
            .await;
        assert_eq!(raw.read_head().await, 200);
        let behind = request("").repeat(many) + &"x".repeat(1 << 20);
        let _ = timeout(IDLE, raw.write(behind.as_bytes())).await;
        lines.push(raw);
    }
    let before = processor_time(server.pid());
    tokio::time::sleep(MEASURED).await;
    let computed = processor_time(server.pid()) - before;
    assert!(computed < MEASURED / 2, "{computed:?} in {MEASURED:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_ends_behind_an_answer_holds_no_connection() {
    let server = impatient();
    let whole = "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n";
    let begun = "GET /healthz HTTP/1.1\r\nHost: test\r\nX-Long: ";
    let chunked = "POST /v1/customers HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (name, request, status, piece) in [
        ("a second head", format!("{whole}{begun}"), 200, "x"),
        ("a body in chunks", chunked.to_owned(), 401, "1\r\nx\r\n"),
        ("a body of which nothing comes", chunked.to_owned(), 401, ""),
    ] {
        join_all((0..HELD).map(|_| trickle(&server, &request, status, piece))).await;
        until(name, SOON, async || {
            (server.metric("connections").await < HELD as u64).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_in_use_is_not_idle() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__KEEP_ALIVE_SECONDS", "2")
        .env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "1")
        .env("COLLOQUY__REALTIME__HEARTBEAT_SECONDS", "0.5")
        .start();
    let account = server.account().await;
    let c = account.test();
    let path = format!("/v1/conversations/{}/messages", c.conversation().await);
    let message = json!({"content": "x".repeat(65_536)});
    for _ in 0..100 {
        c.post(&path, message.clone()).await.expect(201);
    }
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let mut socket = Socket::open(&c).await;
    let mut list = Raw::connect(&server.address()).await;
    let request = format!(
        "GET {path}?limit=100 HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        account.test_key()
    );
    list.write(request.as_bytes()).await;
    assert_eq!(list.read_head().await, 200);
    stream.begins_at().await;
    let begun = Instant::now();
    while begun.elapsed() < IDLE {
        let next = timeout(SOON, stream.next()).await.expect("a sign of life");
        assert!(matches!(next, Some(Item::Comment)), "{next:?}");
        assert!(socket.before_pong().await.is_empty());
    }
    let rest = list.read_to_end(SOON).await;
    assert!(
        rest.text.len() > 100 * 65_536,
        "{} bytes came",
        rest.text.len()
    );
}
