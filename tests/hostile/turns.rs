//! Requests of one account or address that come together: as streams of HTTP/2, pipelined, or with the end of a
//! handshake. Each waits for its turn, however it came.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::{Builder, ResponseFuture, SendRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::connections::{account_that_asks_much, from};
use super::neighbour::take_the_processor_at_once;
use crate::support::process::pause;
use crate::support::server::encrypted;
use crate::support::{Account, Authority, Server, Setup, http2, until};

/// Streams of each connection, as many as the server allows, and connections with so many.
const STREAMS: usize = 100;
const CONNECTIONS: usize = 10;
/// Pipelined requests, as many as the server reads at once, and connections with so many.
const PIPELINED: usize = 15;
const PIPELINES: usize = 63;
/// Connections whose first request comes with the end of the handshake: several rounds' share.
const HANDSHAKES: usize = 100;
/// Connections whose handshakes begin at the same instant.
const GREETINGS: usize = 300;
/// Connections of a proxy with a request each.
const PROXIED: usize = 300;
const TRIES: usize = 5;
/// Requests that may be answered before one of another owner: an owner's share of a round is 8, and a round may
/// end before the other one has been read.
const BEFORE_MAX: usize = 50;
/// How long the server waits for requests under way when it stops.
const DRAIN: Duration = Duration::from_secs(10);
/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A server whose log tells in which order requests were answered: those of one worker, for another one would
/// go on by itself.
fn logging() -> Setup {
    Setup::default()
        .env("COLLOQUY__SERVER__WORKERS", "1")
        .env("COLLOQUY__LOG__REQUESTS", "true")
}

fn over_tls(setup: Setup) -> Server {
    let authority = Authority::new();
    let pair = authority.issue("server");
    setup.encrypted(&authority, &pair).start()
}

/// The names of one try's requests: of many that come together, and of another account's that comes behind
/// them.
fn names(number: usize) -> (String, String) {
    (format!("many-{number}-"), format!("behind-{number}-"))
}

/// How many of one try's requests were answered before the one behind them; none while not all are logged.
fn before_the_last(log: &str, number: usize, many: usize) -> Option<usize> {
    let (together, behind) = names(number);
    let answered = log.lines().filter(|line| line.contains("answered"));
    let of_try = answered.filter(|line| line.contains(&together) || line.contains(&behind));
    let of_try: Vec<&str> = of_try.collect();
    let before = of_try.iter().position(|line| line.contains(&behind))?;
    (of_try.len() == many + 1).then_some(before)
}

/// Requests that came before another account's are not answered before it because they came together.
async fn are_not_all_answered_before(server: &Server, many: usize) {
    let before = until("all are logged", SOON, async || {
        let log = server.log();
        let before = (0..TRIES).map(|number| before_the_last(&log, number, many));
        before.collect::<Option<Vec<usize>>>()
    });
    let mut before = before.await;
    eprintln!("hostile: of {many} requests that came together, answered before: {before:?}");
    before.sort_unstable();
    assert!(before[TRIES / 2] < BEFORE_MAX, "{before:?}");
}

/// Asks for a list without length over a connection of HTTP/2, under this name, as a proxy does for a client at
/// this address.
fn ask_for(
    client: &str,
    connection: &mut SendRequest<Bytes>,
    (account, name): (&Account, &str),
) -> ResponseFuture {
    let url = format!(
        "https://{}/v1/conversations?limit=0",
        account.anonymous().address()
    );
    let request = http::Request::get(url)
        .header("authorization", format!("Bearer {}", account.test_key()))
        .header("x-forwarded-for", client)
        .header("x-request-id", name);
    let (answer, _) = connection
        .send_request(request.body(()).unwrap(), true)
        .unwrap();
    answer
}

fn ask(connection: &mut SendRequest<Bytes>, account: &Account, name: &str) -> ResponseFuture {
    ask_for("192.0.2.1", connection, (account, name))
}

/// Reads an answer to its end, which ends its stream.
async fn is_refused(answer: ResponseFuture) {
    let answer = answer.await.unwrap();
    // What has come when the server stops may be told so.
    assert!(
        [400, 503].contains(&answer.status().as_u16()),
        "{}",
        answer.status()
    );
    let mut body = answer.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap().len();
        body.flow_control().release_capacity(piece).unwrap();
    }
}

/// On one thread, so that what is sent has been written when this has given way.
#[tokio::test]
async fn a_request_waits_for_no_thousand_streams_of_another_account() {
    let server = over_tls(logging());
    let accounts = [
        account_that_asks_much(&server).await,
        account_that_asks_much(&server).await,
    ];
    let [account, other] = &accounts;
    let mut connections = Vec::new();
    for _ in 0..=CONNECTIONS {
        let connected = http2::connect(&server.address(), server.tls(), &Builder::new()).await;
        connections.push(connected.0);
    }
    let (behind, together) = connections.split_last_mut().unwrap();
    // From now on it is known whose they are.
    is_refused(ask(behind, other, "known")).await;
    for one in together.iter_mut() {
        is_refused(ask(one, account, "known")).await;
    }
    for number in 0..TRIES {
        let (many, last) = names(number);
        // All have come before it reads the first.
        let paused = pause(server.pid());
        let mut answers = Vec::new();
        for one in together.iter_mut() {
            answers.extend((0..STREAMS).map(|_| ask(one, account, &many)));
            yield_now().await;
        }
        answers.push(ask(behind, other, &last));
        yield_now().await;
        drop(paused);
        join_all(answers.into_iter().map(is_refused)).await;
    }
    are_not_all_answered_before(&server, STREAMS * CONNECTIONS).await;
}

/// Over a connection of a proxy come requests of many: each waits behind its own client's.
#[tokio::test]
async fn a_request_waits_for_no_hundred_streams_of_another_client_of_its_proxy() {
    let proxies = ("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]");
    let server = over_tls(logging().env(proxies.0, proxies.1));
    let account = account_that_asks_much(&server).await;
    let (mut proxy, _) = http2::connect(&server.address(), server.tls(), &Builder::new()).await;
    is_refused(ask(&mut proxy, &account, "known")).await;
    for number in 0..TRIES {
        let (many, last) = names(number);
        let paused = pause(server.pid());
        let mut answers = Vec::new();
        for _ in 1..STREAMS {
            answers.push(ask_for("192.0.2.1", &mut proxy, (&account, &many)));
        }
        answers.push(ask_for("198.51.100.1", &mut proxy, (&account, &last)));
        yield_now().await;
        drop(paused);
        join_all(answers.into_iter().map(is_refused)).await;
    }
    are_not_all_answered_before(&server, STREAMS - 1).await;
}

/// The same where each request has a connection to itself, as over HTTP/1.1: nobody knows whose it is before it has
/// been read.
#[tokio::test]
async fn a_request_waits_for_no_hundreds_of_connections_of_another_client_of_its_proxy() {
    let server = logging()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.2\"]")
        .start();
    let mut connections = Vec::new();
    for _ in 0..=PROXIED {
        connections.push(from(0, &server).await.unwrap());
    }
    let (behind, together) = connections.split_last_mut().unwrap();
    let request = |client: &str, name: &str| {
        format!(
            "GET /nothing HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\nX-Request-Id: {name}\r\n\r\n"
        )
    };
    for number in 0..TRIES {
        let (many, last) = names(number);
        let paused = pause(server.pid());
        for one in together.iter_mut() {
            let request = request("192.0.2.1", &many);
            one.write_all(request.as_bytes()).await.unwrap();
        }
        let request = request("198.51.100.1", &last);
        behind.write_all(request.as_bytes()).await.unwrap();
        drop(paused);
        are_not_found(behind, 1).await;
        join_all(together.iter_mut().map(|one| are_not_found(one, 1))).await;
    }
    are_not_all_answered_before(&server, PROXIED).await;
}

/// Nothing has come over it that could be answered.
#[tokio::test]
async fn a_connection_without_a_handshake_does_not_hold_up_the_end() {
    let mut server =
        over_tls(Setup::default().env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "600"));
    let silent = from(0, &server).await.unwrap();
    until("it is let in", SOON, async || {
        (server.metric("connections").await > 1).then_some(())
    })
    .await;
    let asked = Instant::now();
    server.send_term();
    assert_eq!(server.ended().code(), Some(0));
    let took = asked.elapsed();
    assert!(took < DRAIN / 2, "{took:?}");
    drop(silent);
}

#[tokio::test]
async fn requests_that_wait_for_their_turn_when_the_server_stops_are_answered() {
    let mut server = over_tls(logging());
    let account = account_that_asks_much(&server).await;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let connected = http2::connect(&server.address(), server.tls(), &Builder::new()).await;
        connections.push(connected.0);
    }
    let paused = pause(server.pid());
    let mut answers = Vec::new();
    for one in &mut connections {
        answers.extend((0..STREAMS).map(|_| ask(one, &account, "last")));
        yield_now().await;
    }
    server.send_term();
    drop(paused);
    join_all(answers.into_iter().map(is_refused)).await;
    assert_eq!(server.ended().code(), Some(0));
}

/// So many pipelined requests for something that does not exist, under this name: they are answered as soon as
/// they begin.
fn pipelined(count: usize, name: &str) -> String {
    format!("GET /nothing HTTP/1.1\r\nHost: test\r\nX-Request-Id: {name}\r\n\r\n").repeat(count)
}

/// Reads so many answers.
async fn are_not_found(connection: &mut TcpStream, count: usize) {
    let (mut answers, mut heads) = (Vec::new(), 0);
    while heads < count {
        assert!(connection.read_buf(&mut answers).await.unwrap() > 0);
        heads = String::from_utf8_lossy(&answers)
            .matches("HTTP/1.1 404")
            .count();
    }
}

#[tokio::test]
async fn a_request_waits_for_no_thousand_pipelined_ones_of_another_address() {
    let server = logging().start();
    let mut together = Vec::new();
    for _ in 0..PIPELINES {
        together.push(from(0, &server).await.unwrap());
    }
    let mut behind = from(1, &server).await.unwrap();
    for number in 0..TRIES {
        let (many, last) = names(number);
        // All have come before it reads the first.
        let paused = pause(server.pid());
        let requests = pipelined(PIPELINED, &many);
        for one in &mut together {
            one.write_all(requests.as_bytes()).await.unwrap();
        }
        let request = pipelined(1, &last);
        behind.write_all(request.as_bytes()).await.unwrap();
        drop(paused);
        are_not_found(&mut behind, 1).await;
        join_all(together.iter_mut().map(|one| are_not_found(one, PIPELINED))).await;
    }
    are_not_all_answered_before(&server, PIPELINED * PIPELINES).await;
}

/// What has been decrypted along with the handshake's end is not in the socket any more: nothing that comes
/// later would tell of it.
#[tokio::test]
async fn requests_that_come_with_the_end_of_the_handshake_are_all_answered() {
    let server = over_tls(Setup::default());
    let greeted = (0..HANDSHAKES).map(|_| {
        let stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut stream = encrypted(stream, &server.tls());
        let (connection, socket) = (&mut stream.conn, &mut stream.sock);
        connection.write_tls(socket).unwrap();
        while connection.is_handshaking() {
            connection.read_tls(socket).unwrap();
            connection.process_new_packets().unwrap();
        }
        connection
            .writer()
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
            .unwrap();
        stream
    });
    let mut greeted: Vec<_> = greeted.collect();
    let paused = pause(server.pid());
    for stream in &mut greeted {
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut stream.sock).unwrap();
        }
    }
    drop(paused);
    for stream in &mut greeted {
        let mut answer = [0; 1_024];
        let count = stream.read(&mut answer).unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200"));
    }
}

/// What a handshake takes longest is computed when the client has said how it begins, which many may do at the same
/// instant, long after they have connected.
#[tokio::test]
async fn a_handshake_waits_for_no_hundreds_of_another_address() {
    let server = over_tls(logging());
    let mut connections = Vec::new();
    for number in 0..=GREETINGS {
        // The one that speaks last is let in first.
        let stream = from(usize::from(number == 0), &server).await.unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(number > 0).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        connections.push(encrypted(stream, &server.tls()));
    }
    connections.reverse();
    until("all are let in", SOON, async || {
        (server.metric("connections").await > GREETINGS as u64).then_some(())
    })
    .await;
    let paused = pause(server.pid());
    for one in &mut connections {
        one.conn.write_tls(&mut one.sock).unwrap();
    }
    let looking = std::thread::spawn(move || {
        take_the_processor_at_once();
        let last = connections.pop().unwrap();
        drop(paused);
        last.sock.peek(&mut [0]).unwrap();
        let begun = connections.iter();
        begun.filter(|one| one.sock.peek(&mut [0]).is_ok()).count()
    });
    let before = looking.join().unwrap();
    eprintln!("hostile: of {GREETINGS} handshakes that came before, done before: {before}");
    assert!(before < BEFORE_MAX, "{before}");
}
