//! Clients that take their answers slowly, or not at all: what waits for them is bounded, and they
//! are cut off.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::Neighbour;
use crate::support::{Account, EventStream, Server, Setup, until};

const READERS: usize = 200;
/// How long the slow ones read.
const READING: Duration = Duration::from_secs(8);
/// What a connection's own buffers may take, so that the rest waits in the server.
const RECEIVE_BYTES: u32 = 4_096;
/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// A connection that takes little at once.
async fn narrow(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
    socket
        .connect(server.address().parse().unwrap())
        .await
        .unwrap()
}

/// A conversation with 100 messages of 64 KiB; gives the path of their list.
async fn hundred_messages(account: &Account) -> String {
    let c = account.test();
    let path = format!("/v1/conversations/{}/messages", c.conversation().await);
    let message = json!({"content": "x".repeat(65_536)});
    for _ in 0..10 {
        let ten = (0..10).map(|_| async { c.post(&path, message.clone()).await.expect(201) });
        join_all(ten).await;
    }
    path
}

fn get(path: &str, key: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    )
}

/// Reads a status line as fast as it comes, and then one byte a second.
async fn one_byte_a_second(server: &Server, request: &str) -> (u16, String) {
    let mut stream = narrow(server).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = vec![0; 1_024];
    let count = timeout(SOON, stream.read(&mut head))
        .await
        .expect("an answer")
        .unwrap_or(0);
    let text = String::from_utf8_lossy(&head[..count]).into_owned();
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    let mut byte = [0];
    let ends = Instant::now() + READING;
    while status == 200 && Instant::now() < ends && matches!(stream.read(&mut byte).await, Ok(1)) {
        sleep(Duration::from_secs(1)).await;
    }
    (status, text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_that_read_one_byte_a_second_of_a_list_of_6_mib() {
    let server = Server::start();
    let account = server.account().await;
    let path = hundred_messages(&account).await;
    let neighbour = Neighbour::of(&server).await;
    let request = get(&format!("{path}?limit=100"), account.test_key());
    let attack = async {
        let readers = join_all((0..READERS).map(|_| one_byte_a_second(&server, &request)));
        let small = async {
            sleep(READING / 2).await;
            account
                .test()
                .get(&format!("{path}?limit=1&offset=99"))
                .await
                .expect(200)
        };
        tokio::join!(readers, small).0
    };
    let beside = neighbour
        .beside("200 readers of one byte a second", attack)
        .await;
    let statuses: Vec<u16> = beside.attack.iter().map(|(status, _)| *status).collect();
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(of(200) + of(503), READERS, "{statuses:?}");
    assert!(
        (1..=20).contains(&of(200)),
        "{} lists of 6.3 MiB in the account's quarter of 256 MiB",
        of(200)
    );
    let refused = &beside
        .attack
        .iter()
        .find(|(status, _)| *status == 503)
        .unwrap()
        .1;
    assert!(
        refused.contains("retry-after: 1") && refused.contains(r#""outcome":"none""#),
        "{refused}"
    );
    assert!(beside.peak_bytes < 500 * MIB, "{} bytes", beside.peak_bytes);
    until("what the readers held is free again", SOON, async || {
        (server.metric("answers_in_flight_bytes").await == 0).then_some(())
    })
    .await;
    account
        .test()
        .get(&format!("{path}?limit=100"))
        .await
        .expect(200);
}

/// One less than a key may have open.
const STREAMS: usize = 99;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_from_the_first_event_on_that_nobody_reads() {
    let server = Server::start();
    let account = server.account().await;
    hundred_messages(&account).await;
    let neighbour = Neighbour::of(&server).await;
    let request = format!(
        "GET /v1/events?after=0 HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\
         Authorization: Bearer {}\r\n\r\n",
        account.test_key()
    );
    let attack = async {
        let open = (0..STREAMS).map(|_| async {
            let mut stream = narrow(&server).await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            timeout(SOON, stream.read_exact(&mut head))
                .await
                .expect("an answer")
                .unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
            stream
        });
        let streams = join_all(open).await;
        neighbour.is_answered(300).await;
        // What waits for them leaves its own account's other readers one event at a time.
        let mut read = EventStream::open(account.test().get("/v1/events?after=0")).await;
        let mut messages = 0;
        while messages < 100 {
            let event = read.event().await.event;
            messages += usize::from(event == "message.created");
        }
        drop(streams);
    };
    let beside = neighbour
        .beside("99 streams of 6 MB of events, unread", attack)
        .await;
    // Each would hold 6.3 MiB.
    assert!(beside.peak_bytes < 300 * MIB, "{} bytes", beside.peak_bytes);
}

#[tokio::test]
async fn one_that_reads_too_slowly_is_cut_off_and_one_that_reads_is_not() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__READ_BYTES_PER_SECOND_MIN", "8_000_000")
        .start();
    let account = server.account().await;
    let path = hundred_messages(&account).await;
    let request = get(&format!("{path}?limit=100"), account.test_key());
    let mut slow = narrow(&server).await;
    slow.write_all(request.as_bytes()).await.unwrap();
    until("the answer waits", SOON, async || {
        (server.metric("answers_in_flight_bytes").await > 6 * MIB).then_some(())
    })
    .await;
    until("it is cut off", SOON, async || {
        (server.metric("answers_in_flight_bytes").await == 0).then_some(())
    })
    .await;
    let mut rest = Vec::new();
    // It may end with a reset.
    let _ = timeout(SOON, slow.read_to_end(&mut rest))
        .await
        .expect("the connection is closed");
    assert!(
        (rest.len() as u64) < 6 * MIB,
        "all {} bytes came",
        rest.len()
    );
    assert_eq!(
        account
            .test()
            .get(&format!("{path}?limit=100"))
            .await
            .expect(200)
            .data()
            .len(),
        100
    );
}

/// Writes the same request again and again and reads nothing, until the server takes no more; gives
/// how much it took.
async fn flood(server: &Server, request: &str, bytes_max: usize) -> usize {
    let mut stream = narrow(server).await;
    let many = request.repeat(1_000);
    let mut written = 0;
    while written < bytes_max {
        match timeout(Duration::from_secs(3), stream.write(many.as_bytes())).await {
            // The next one need not begin where a request does: parsed or refused, it is answered.
            Ok(Ok(count)) if count == many.len() => written += count,
            Ok(Ok(count)) => {
                written += count;
                if stream.write_all(&many.as_bytes()[count..]).await.is_err() {
                    break;
                }
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_a_row_of_many_who_read_nothing() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let request = "GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n";
    let attack = join_all((0..40).map(|_| timeout(READING * 3, flood(&server, request, 1 << 20))));
    let beside = neighbour
        .beside("GET in a row from 40, unread", attack)
        .await;
    assert!(beside.peak_bytes < 200 * MIB, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_requests_in_a_row_are_answered_in_order_to_one_who_reads() {
    const REQUESTS: usize = 3_000;
    let server = Server::start();
    let account = server.account().await;
    let (mut reading, mut writing) = TcpStream::connect(server.address())
        .await
        .unwrap()
        .into_split();
    let request = |n: usize| {
        let body = json!({"name": format!("Customer {n}")}).to_string();
        // What a header says of versions begins no request, and neither does a body without a
        // line's end behind it.
        format!(
            "POST /v1/customers HTTP/1.1\r\nHost: test\r\nVia: a HTTP/1.1\r\nAuthorization: Bearer {}\r\nX-Request-Id: {n}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            account.test_key(),
            body.len(),
        )
    };
    let all: String = (0..REQUESTS).map(request).collect();
    let sent = tokio::spawn(async move {
        writing.write_all(all.as_bytes()).await.unwrap();
        writing
    });
    let (mut answers, mut part) = (Vec::new(), vec![0; 65_536]);
    let mut count = 0;
    while count < REQUESTS {
        let read = timeout(SOON, reading.read(&mut part))
            .await
            .expect("answers come")
            .unwrap();
        assert!(read > 0, "the connection ended after {count} answers");
        answers.extend_from_slice(&part[..read]);
        count = String::from_utf8_lossy(&answers)
            .matches("HTTP/1.1 ")
            .count();
    }
    drop(sent.await.unwrap());
    let answers = String::from_utf8(answers).unwrap();
    let ids: Vec<usize> = answers
        .lines()
        .filter_map(|line| line.strip_prefix("x-request-id: ")?.parse().ok())
        .collect();
    assert_eq!(ids, (0..REQUESTS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_a_row_whose_empty_answers_nobody_reads() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let request = "OPTIONS /healthz HTTP/1.1\r\nHost: test\r\n\r\n";
    let attack = async {
        let floods =
            join_all((0..4).map(|_| timeout(READING * 3, flood(&server, request, 64 << 20)))).await;
        floods
            .into_iter()
            .map(|flood| flood.unwrap_or(0))
            .sum::<usize>()
    };
    let beside = neighbour.beside("OPTIONS in a row, unread", attack).await;
    assert!(
        beside.attack < 64 << 20,
        "the server took {} bytes of requests",
        beside.attack
    );
    assert!(beside.peak_bytes < 300 * MIB, "{} bytes", beside.peak_bytes);
}
