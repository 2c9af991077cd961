//! Many sockets, and one that does not read: every one gets every event, and who is too slow is
//! closed and resumes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::support::socket::Ended;
use crate::support::{Client, Server, Setup, Socket, account_with_client, sized};

fn crowd_size() -> usize {
    sized(500, 100)
}

/// The contract's 2,000 sockets and 20 messages a second are measured in tests/bench.
fn alone() -> usize {
    sized(200, 40)
}

const MESSAGES: usize = 20;

/// A server where one key may have the whole crowd open.
fn crowded() -> Server {
    Setup::default()
        .env("COLLOQUY__REALTIME__LINES_PER_KEY", "1000")
        .start()
}

/// So many sockets, opened a few at a time, each subscribed to what `conversation` names.
async fn crowd(c: &Client, count: usize, conversation: impl Fn(usize) -> String) -> Vec<Socket> {
    let opening = (0..count).map(|number| {
        let (c, id) = (c.clone(), conversation(number));
        async move {
            let mut socket = Socket::open(&c).await;
            socket.subscribe(json!(id), None).await;
            socket
        }
    });
    futures_util::stream::iter(opening)
        .buffered(32)
        .collect()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_500_sockets_on_one_conversation_gets_every_event() {
    let server = crowded();
    let c = server.account().await.test();
    let id = c.conversation().await;
    let sockets = crowd(&c, crowd_size(), |_| id.clone()).await;
    let readers: Vec<_> = sockets
        .into_iter()
        .map(|mut socket| {
            tokio::spawn(async move {
                for seq in 2..2 + MESSAGES as u64 {
                    assert_eq!(
                        socket.event().await["seq"],
                        seq,
                        "a gap, a repeat or another order"
                    );
                }
            })
        })
        .collect();
    for n in 0..MESSAGES {
        c.message(&id, &format!("{n}")).await;
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_socket_on_its_own_conversation_gets_that_ones_events_only() {
    let server = crowded();
    let c = server.account().await.test();
    let (customer, mut ids) = (c.customer().await, Vec::new());
    for _ in 0..alone() {
        ids.push(c.conversation_of(&customer).await);
    }
    let mut sockets = crowd(&c, alone(), |number| ids[number].clone()).await;
    for round in 0..2 {
        for id in &ids {
            c.message(id, &format!("{round} for {id}")).await;
        }
    }
    for (socket, id) in sockets.iter_mut().zip(&ids) {
        for round in 0..2 {
            assert_eq!(
                socket.event().await["data"]["content"],
                format!("{round} for {id}")
            );
        }
        assert!(
            socket.before_pong().await.is_empty(),
            "another conversation's events came"
        );
    }
}

/// Enough that no buffer of the kernel's or of the server's can hold it.
const FLOOD: usize = 3_000;
const FLOOD_BYTES: usize = 10_000;
/// How long they may take on a busy machine.
const FLOODS: Duration = Duration::from_secs(180);

/// How many messages a reader that keeps up may be behind: half of what the server keeps for one.
const KEEPS_UP: usize = 400;

/// Sends messages as long as `room` has permits, one a message.
async fn flood(c: &Client, id: &str, room: &Semaphore) {
    let text = "x".repeat(FLOOD_BYTES);
    let sends = (0..FLOOD).map(async |_| {
        room.acquire().await.unwrap().forget();
        c.message(id, &text).await;
    });
    futures_util::stream::iter(sends)
        .buffer_unordered(8)
        .for_each(|()| async {})
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_can_not_keep_up_is_closed_with_1013_and_resumes() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let (mut slow, mut quick) = (Socket::open(&c).await, Socket::open(&c).await);
    slow.subscribe(json!(id), None).await;
    quick.subscribe(json!(id), None).await;
    let room = Arc::new(Semaphore::new(KEEPS_UP));
    let read = Arc::clone(&room);
    let reading = tokio::spawn(async move {
        for seq in 2..2 + FLOOD as u64 {
            assert_eq!(quick.event().await["seq"], seq);
            read.add_permits(1);
        }
    });
    let flooding = timeout(FLOODS, flood(&c, &id, &room));
    flooding.await.expect("who reads goes on");
    reading.await.expect("who reads loses nothing");
    let mut last = 1;
    let ended = timeout(Duration::from_secs(30), async {
        loop {
            match slow.try_hear().await {
                Ok(frame) => take(&frame, &mut last),
                Err(ended) => return ended,
            }
        }
    });
    assert_eq!(ended.await.expect("the slow reader is closed"), Ended(1013));
    let all = 1 + FLOOD as u64;
    assert!(last < all, "it was closed although it got everything");
    let mut again = Socket::open(&c).await;
    again.subscribe(json!(id), Some(json!(last))).await;
    while last < all {
        take(&again.hear().await, &mut last);
    }
}

/// Takes an event that must follow the last one.
fn take(frame: &Value, last: &mut u64) {
    if frame["type"] == "event" {
        *last += 1;
        assert_eq!(frame["event"]["seq"], *last, "a gap or a repeat");
    }
}
