//! Large bodies, many at once or without end: they wait for nobody else's, and memory stays
//! bounded.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Neighbour;
use crate::support::documents::DOCUMENTS;
use crate::support::{Server, Setup, until};

const UPLOADS: usize = 64;
const MIB: usize = 1 << 20;
/// A server that waits for as long as a debug build on a busy machine takes for so much.
fn patient() -> Setup {
    Setup::default()
        .env("COLLOQUY__SERVER__BODY_TIMEOUT_SECONDS", "120")
        .env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "120")
        .env("COLLOQUY__DOCUMENTS__TURN_WAIT_SECONDS", "120")
}

/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_documents_of_8_mib_at_once() {
    let server = patient().start();
    let account = server.account().await;
    let neighbour = Neighbour::of(&server).await;
    let content = "one more line of a long document\n".repeat((8 * MIB - 4_096) / 34);
    let body = serde_json::to_vec(&json!({"title": "Long", "content": content})).unwrap();
    let attack = join_all((0..UPLOADS).map(|_| async {
        let call = account
            .test()
            .call("POST", DOCUMENTS)
            .bytes(body.clone())
            .with("content-type", "application/json");
        // One that is refused at its head may see its connection end before it has sent all.
        match call.try_send().await {
            Ok(answer) => {
                if answer.status == 503 {
                    assert_eq!(answer["error"]["details"]["outcome"], "none", "{answer}");
                }
                answer.status
            }
            Err(_) => 0,
        }
    }));
    let beside = neighbour
        .beside("64 documents of 8 MiB at once", attack)
        .await;
    let of = |wanted: u16| {
        beside
            .attack
            .iter()
            .filter(|status| **status == wanted)
            .count()
    };
    assert_eq!(of(201) + of(503) + of(0), UPLOADS, "{:?}", beside.attack);
    assert!(of(201) >= 8, "{:?}", beside.attack);
    assert_eq!(
        account.test().get(DOCUMENTS).await.expect(200).total(),
        of(201) as u64,
        "each is there once or not at all"
    );
    assert!(
        beside.peak_bytes < 700 * MIB as u64,
        "{} bytes",
        beside.peak_bytes
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_never_end_take_no_room_from_others() {
    let server = patient().start();
    let account = server.account().await;
    let neighbour = Neighbour::of(&server).await;
    let head = format!(
        "POST {DOCUMENTS} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        account.test_key(),
        8 * MIB
    );
    let begun = join_all((0..UPLOADS).map(|_| async {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }));
    let other = server.account().await.test();
    let attack = async {
        let held = begun.await;
        until("some are let in", SOON, async || {
            (server.metric("bodies_in_flight_bytes").await > 0).then_some(())
        })
        .await;
        let body =
            serde_json::to_vec(&json!({"title": "Long", "content": "x".repeat(8 * MIB - 4_096)}))
                .unwrap();
        let call = other
            .call("POST", DOCUMENTS)
            .bytes(body)
            .with("content-type", "application/json");
        let status = call.await.status;
        drop(held);
        status
    };
    let beside = neighbour
        .beside("64 uploads of 8 MiB that never end", attack)
        .await;
    assert_eq!(beside.attack, 201, "another account's document is taken");
    until("what they held is free again", SOON, async || {
        (server.metric("bodies_in_flight_bytes").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_memory_comes_in_huge_pages_that_are_cleared_at_once() {
    let server = Server::start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("\nTHP_enabled:\t0\n"), "{status}");
}
