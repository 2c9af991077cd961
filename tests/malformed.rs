//! Bytes that no HTTP client sends: header bombs, bodies cut off, slow-loris heads and bodies.
//! Others are unaffected.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::raw::{Raw, exchange};
use crate::support::{Account, Client, account, shared};

/// Heads and bodies time out at 10 s; beyond this the server holds on to them.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// What another client waits at most while somebody is slow, on a busy machine.
const UNAFFECTED_WITHIN: Duration = Duration::from_secs(3);

fn post(account: &Account, path: &str, more: &str) -> String {
    let key = account.test_key();
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n{more}\r\n"
    )
}

async fn assert_unaffected(c: &Client) {
    let asked = Instant::now();
    c.get("/v1/conversations").await.expect(200);
    assert!(
        asked.elapsed() < UNAFFECTED_WITHIN,
        "another client waited {:?}",
        asked.elapsed()
    );
}

#[tokio::test]
async fn a_header_block_over_16_kib_is_431() {
    let account = account().await;
    let bombs = [
        format!(
            "GET /v1 HTTP/1.1\r\nHost: x\r\nX-Bomb: {}\r\n\r\n",
            "x".repeat(17 * 1024)
        ),
        format!(
            "GET /v1 HTTP/1.1\r\nHost: x\r\n{}\r\n",
            format!("X-Bomb: {}\r\n", "x".repeat(900)).repeat(20)
        ),
        format!(
            "GET /v1 HTTP/1.1\r\nHost: x\r\nX-Bomb: {}\r\n\r\n",
            "x".repeat(10 * 1024 * 1024)
        ),
    ];
    for bomb in bombs {
        let answer = exchange(&shared().address(), bomb.as_bytes()).await;
        assert!(
            matches!(answer.status, 431 | 0),
            "{} bytes: {}",
            bomb.len(),
            answer.text
        );
        if bomb.len() < 64 * 1024 {
            assert_eq!(answer.status, 431, "{} bytes: {}", bomb.len(), answer.text);
        }
    }
    assert_unaffected(&account.test()).await;
}

#[tokio::test]
async fn a_header_block_just_under_16_kib_is_taken() {
    let account = account().await;
    account
        .test()
        .get("/v1")
        .with("x-padding", &"x".repeat(15 * 1024))
        .await
        .expect(200);
}

#[tokio::test]
async fn hundreds_of_headers_do_not_crash_it() {
    let account = account().await;
    let many: String = (0..300).map(|n| format!("X-{n}: y\r\n")).collect();
    let answer = exchange(
        &shared().address(),
        format!("GET /v1 HTTP/1.1\r\nHost: x\r\n{many}\r\n").as_bytes(),
    )
    .await;
    assert!((400..500).contains(&answer.status), "{}", answer.text);
    assert_unaffected(&account.test()).await;
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_closed() {
    let account = account().await;
    let requests: [&[u8]; 9] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /v1\r\n\r\n",
        b"GET /v1 HTTP/9.9\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nHost: x\r\nA\x00B: c\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/customers HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/customers HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ];
    for request in requests {
        let answer = exchange(&shared().address(), request).await;
        assert!(
            matches!(answer.status, 0 | 400),
            "{:?}: {}",
            String::from_utf8_lossy(request),
            answer.text
        );
        assert!(answer.closed, "{:?}", String::from_utf8_lossy(request));
    }
    assert_unaffected(&account.test()).await;
}

#[tokio::test]
async fn two_meanings_of_one_body_are_refused() {
    let account = account().await;
    let c = account.test();
    let smuggled = "0\r\n\r\n";
    for more in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 12\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
    ] {
        let request = format!("{}{smuggled}", post(&account, "/v1/customers", more));
        let answer = exchange(&shared().address(), request.as_bytes()).await;
        assert!(
            matches!(answer.status, 0 | 400 | 501),
            "{more}: {}",
            answer.text
        );
    }
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_body_cut_off_stores_nothing() {
    let account = account().await;
    let c = account.test();
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let body = r#"{"content":"half a message"}"#;
    for (more, sent) in [
        ("Content-Length: 500\r\n", body),
        ("Transfer-Encoding: chunked\r\n", "1c\r\n{\"content\":"),
    ] {
        let mut raw = Raw::connect(&shared().address()).await;
        raw.write(format!("{}{sent}", post(&account, &list, more)).as_bytes())
            .await;
        raw.finish_writing().await;
        let answer = raw.read_to_end(CLOSED_WITHIN).await;
        assert!(answer.closed);
        assert!(matches!(answer.status, 0 | 400 | 408), "{}", answer.text);
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_bad_chunk_is_a_bad_request() {
    let account = account().await;
    for chunk in [
        "zz\r\n{}\r\n0\r\n\r\n",
        "-5\r\nhello\r\n",
        "ffffffffffffffffff\r\n{}\r\n",
    ] {
        let request = format!(
            "{}{chunk}",
            post(&account, "/v1/customers", "Transfer-Encoding: chunked\r\n")
        );
        let answer = exchange(&shared().address(), request.as_bytes()).await;
        assert!(
            matches!(answer.status, 0 | 400 | 413),
            "{chunk:?}: {}",
            answer.text
        );
    }
    assert_eq!(
        account
            .test()
            .get("/v1/customers")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn a_bad_chunk_that_comes_with_the_head_is_answered_too() {
    let account = account().await;
    let head = post(&account, "/v1/customers", "Transfer-Encoding: chunked\r\n");
    for n in 0..60 {
        let chunk = ["zz\r\n{}\r\n0\r\n\r\n", "-5\r\nhello\r\n", "2\r\n{}XX"][n % 3];
        let answer = exchange(&shared().address(), format!("{head}{chunk}").as_bytes()).await;
        assert_eq!(answer.status, 400, "{n}, {chunk:?}: {:?}", answer.text);
        let body: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(body["error"]["code"], "invalid_request");
    }
    assert_eq!(
        account
            .test()
            .get("/v1/customers")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn a_chunked_body_is_bounded_like_any_other() {
    let account = account().await;
    let mut raw = Raw::connect(&shared().address()).await;
    raw.write(
        post(
            &account,
            "/v1/customers",
            "Transfer-Encoding: chunked\r\nConnection: close\r\n",
        )
        .as_bytes(),
    )
    .await;
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(65_536));
    for _ in 0..32 {
        if !raw.write(chunk.as_bytes()).await {
            break;
        }
    }
    let answer = raw.read_to_end(CLOSED_WITHIN).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(
        answer.body().contains("payload_too_large"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn a_large_body_is_refused_at_its_head_and_the_client_sees_it() {
    let account = account().await;
    let mut raw = Raw::connect(&shared().address()).await;
    let head = post(&account, "/v1/customers", "Content-Length: 1000000000\r\n");
    raw.write(head.as_bytes()).await;
    let answer = raw.read_to_end(CLOSED_WITHIN).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(answer.closed);
}

#[tokio::test]
async fn a_head_that_never_ends_is_closed_and_others_go_on() {
    let account = account().await;
    let c = account.test();
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut raw = Raw::connect(&shared().address()).await;
        raw.write(b"GET /v1/conversations HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            .await;
        slow.push(raw);
    }
    for _ in 0..20 {
        assert_unaffected(&c).await;
    }
    let readers = slow.iter_mut().map(|raw| raw.read_to_end(CLOSED_WITHIN));
    for answer in futures_util::future::join_all(readers).await {
        assert!(answer.closed, "still open after {CLOSED_WITHIN:?}");
        assert!(matches!(answer.status, 0 | 408), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_head_that_trickles_is_closed_too() {
    let account = account().await;
    let mut raw = Raw::connect(&shared().address()).await;
    raw.write(b"GET /v1 HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    let began = Instant::now();
    while raw.write(b"x").await {
        assert!(
            began.elapsed() < CLOSED_WITHIN,
            "a trickling head keeps the connection"
        );
        let part = raw.read_to_end(Duration::from_millis(500)).await;
        if part.closed {
            break;
        }
    }
    assert_unaffected(&account.test()).await;
}

#[tokio::test]
async fn a_body_slower_than_10_s_is_408_and_others_go_on() {
    let account = account().await;
    let c = account.test();
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut raw = Raw::connect(&shared().address()).await;
        raw.write(post(&account, &list, "Content-Length: 500\r\n").as_bytes())
            .await;
        raw.write(b"{\"content\":").await;
        slow.push(raw);
    }
    for _ in 0..20 {
        assert_unaffected(&c).await;
    }
    let readers = slow.iter_mut().map(|raw| raw.read_to_end(CLOSED_WITHIN));
    for answer in futures_util::future::join_all(readers).await {
        assert_eq!(answer.status, 408, "{}", answer.text);
        assert!(answer.closed);
        let body: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(body["error"]["code"], "request_timeout");
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 0);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let account = account().await;
    let ask = |path: &str, more: &str| {
        let key = account.test_key();
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{more}\r\n")
    };
    let both = format!(
        "{}{}",
        ask("/v1", ""),
        ask("/v1/nowhere", "Connection: close\r\n")
    );
    let answer = exchange(&shared().address(), both.as_bytes()).await;
    let (first, second) = (
        answer.text.find("HTTP/1.1 200"),
        answer.text.find("HTTP/1.1 404"),
    );
    assert!(first.is_some() && first < second, "{}", answer.text);
}

/// A body whose lines look like requests is a body, whatever says where it ends: what follows it is answered.
#[tokio::test]
async fn lines_of_a_body_are_no_requests() {
    let account = account().await;
    let lines = "GET /v1 HTTP/1.1\n\n".repeat(100);
    let bytes = lines.len();
    let bodies = [
        (format!("Content-Length: {bytes}\r\n"), lines.clone()),
        (
            "Transfer-Encoding: chunked\r\n".to_owned(),
            format!("{bytes:x};a=b\r\n{lines}\r\n0\r\nVia: HTTP/1.1\r\n\r\n"),
        ),
    ];
    for (framing, body) in bodies {
        let mut raw = Raw::connect(&shared().address()).await;
        let request = post(&account, "/v1/customers", &framing) + &body;
        raw.write(request.as_bytes()).await;
        assert_eq!(raw.read_head().await, 400, "{framing}");
        let key = account.test_key();
        let next = format!(
            "GET /v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        );
        raw.write(next.as_bytes()).await;
        let answer = raw.read_to_end(CLOSED_WITHIN).await;
        assert!(answer.text.contains("HTTP/1.1 200"), "{}", answer.text);
        assert!(answer.closed);
    }
}
