//! Tests of the courier against receivers on real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;

use super::*;

/// A receiver that answers each connection's first request with these bytes; what came is passed
/// on.
fn receiver(answer: &'static [u8]) -> (u16, mpsc::Receiver<String>) {
    receiving(move |mut stream| {
        stream.write_all(answer).unwrap();
    })
}

fn receiving(then: impl Fn(TcpStream) + Send + 'static) -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (passed_on, came) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut piece = [0; 1_024];
            // The requests of these tests end with a brace.
            while head.last() != Some(&b'}') {
                let read = stream.read(&mut piece).unwrap();
                head.extend(piece.iter().take(read));
                if read == 0 {
                    break;
                }
            }
            let _ = passed_on.send(String::from_utf8(head).unwrap());
            then(stream);
        }
    });
    (port, came)
}

fn request(url: String) -> OutboundRequest {
    OutboundRequest {
        account: 1,
        url,
        headers: vec![("webhook-id", "evt_1".to_owned())],
        body: Bytes::from_static(b"{\"a\":1}"),
    }
}

async fn post(timeout_ms: u64, targets: PrivateTargets, url: String) -> Result<Reply, Lost> {
    HttpCourier::start(Duration::from_millis(timeout_ms), targets)
        .unwrap()
        .post(request(url))
        .await
}

#[tokio::test]
async fn a_parcel_is_posted_byte_for_byte_and_the_answer_comes_back() {
    let (port, came) =
        receiver(b"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 6\r\n\r\nno\0w\xff!");
    let reply = post(
        5_000,
        PrivateTargets::Allowed,
        format!("http://127.0.0.1:{port}/hook?x=y"),
    )
    .await
    .unwrap();
    let expected = Reply {
        status: 503,
        retry_after: Some(Duration::from_secs(7)),
        answer: "no\u{fffd}w\u{fffd}!".into(),
    };
    assert_eq!(reply, expected);
    let came = came.recv().unwrap();
    assert!(came.starts_with("POST /hook?x=y HTTP/1.1\r\n"), "{came}");
    assert!(
        came.contains("webhook-id: evt_1\r\n") && came.ends_with("\r\n\r\n{\"a\":1}"),
        "{came}"
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (port, came) =
        receiver(b"HTTP/1.1 307 x\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        post(
            5_000,
            PrivateTargets::Allowed,
            format!("http://localhost:{port}/")
        )
        .await
        .unwrap()
        .status,
        307
    );
    assert!(came.recv().is_ok() && came.try_recv().is_err());
}

#[tokio::test]
async fn an_endless_answer_is_read_to_its_first_four_kibibytes() {
    let (port, _came) = receiving(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            .unwrap();
        while stream.write_all(&[b'x'; 1_000]).is_ok() {}
    });
    let reply = post(
        5_000,
        PrivateTargets::Allowed,
        format!("http://127.0.0.1:{port}/"),
    )
    .await
    .unwrap();
    assert_eq!((reply.status, reply.answer.len()), (200, ANSWER_BYTES_MAX));
}

#[tokio::test]
async fn a_receiver_that_says_nothing_is_given_up_in_time() {
    let (held, hold) = mpsc::channel::<TcpStream>();
    let (port, _came) = receiving(move |stream| held.send(stream).unwrap());
    assert_eq!(
        post(
            100,
            PrivateTargets::Allowed,
            format!("http://127.0.0.1:{port}/")
        )
        .await,
        Err(Lost::TimedOut)
    );
    drop(hold);
}

#[tokio::test]
async fn a_status_without_the_end_of_its_body_counts() {
    let (held, hold) = mpsc::channel::<TcpStream>();
    let (port, _came) = receiving(move |mut stream| {
        stream
            .write_all(b"HTTP/1.1 202 x\r\nContent-Length: 9\r\n\r\nhalf")
            .unwrap();
        held.send(stream).unwrap();
    });
    let reply = post(
        300,
        PrivateTargets::Allowed,
        format!("http://127.0.0.1:{port}/"),
    )
    .await
    .unwrap();
    assert_eq!((reply.status, reply.answer.as_str()), (202, "half"));
    drop(hold);
}

#[tokio::test]
async fn nobody_there_is_said_without_the_url() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let lost = post(
        5_000,
        PrivateTargets::Allowed,
        format!("http://127.0.0.1:{port}/secret"),
    )
    .await
    .unwrap_err();
    let Lost::Broken(why) = &lost else {
        unreachable!("{lost}")
    };
    assert!(
        why.starts_with("can't connect: ") && why.contains("refused") && !why.contains("secret"),
        "{why}"
    );
}

#[tokio::test]
async fn who_does_not_speak_tls_gets_nothing_over_https() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            stream
                .unwrap()
                .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
                .unwrap();
        }
    });
    let lost = post(
        5_000,
        PrivateTargets::Allowed,
        format!("https://127.0.0.1:{plain}/"),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(&lost, Lost::Broken(why) if why.starts_with("can't connect: ")),
        "{lost}"
    );
}

#[tokio::test]
async fn private_addresses_are_refused_by_themselves_and_behind_a_name() {
    let (port, came) = receiver(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let here = |host: &str| format!("https://{host}:{port}/");
    assert_eq!(
        post(5_000, PrivateTargets::Refused, here("127.1")).await,
        Err(Lost::Refused([127, 0, 0, 1].into()))
    );
    assert!(matches!(
        post(5_000, PrivateTargets::Refused, here("[::ffff:127.0.0.1]")).await,
        Err(Lost::Refused(_))
    ));
    assert!(matches!(
        post(
            5_000,
            PrivateTargets::Refused,
            format!("http://127.0.0.1:{port}/")
        )
        .await,
        Err(Lost::Broken(_))
    ));
    // A name that leads home without saying so: the resolver stops it.
    let names = NameResolver::new(Handle::current());
    let refused = PublicAddresses {
        names,
        targets: PrivateTargets::Refused,
    }
    .resolve("localhost".parse().unwrap())
    .await
    .err()
    .unwrap();
    assert!(
        refused
            .downcast_ref::<Refused>()
            .is_some_and(|Refused(address)| address.is_loopback())
    );
    assert!(came.try_recv().is_err());
}

#[tokio::test]
async fn an_endpoint_is_looked_at_before_it_is_taken() {
    let courier = HttpCourier::start(Duration::from_secs(5), PrivateTargets::Refused).unwrap();
    assert_eq!(
        courier.look("https://does-not-exist.invalid/").await,
        Ok(())
    );
    assert_eq!(
        courier.look("https://localhost/").await,
        Err(TargetError::Local)
    );
    assert_eq!(
        courier.look("https://10.0.0.1/").await,
        Err(TargetError::Special([10, 0, 0, 1].into()))
    );
}

#[test]
fn a_receiver_may_ask_for_patience_in_seconds_or_by_date() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let of = |text: &str| {
        retry_after(
            &HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]),
            now,
        )
    };
    assert_eq!(of("120"), Some(Duration::from_secs(120)));
    assert_eq!(
        of("Sun, 06 Nov 1994 08:50:07 GMT"),
        Some(Duration::from_secs(30))
    );
    assert_eq!(of("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!((of("soon"), of("-1")), (None, None));
}
