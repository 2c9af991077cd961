//! Bounds of lines that are answered as documented: how many may be open, how fast frames may come,
//! tickets that nobody uses.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::server::Setup;
use crate::support::{Client, EventStream, Server, Socket, until};

/// A server where few lines fill a key and an account.
fn few_lines() -> Server {
    Setup::default()
        .env("COLLOQUY__REALTIME__LINES_PER_KEY", "3")
        .env("COLLOQUY__REALTIME__LINES_PER_ACCOUNT", "5")
        .start()
}

async fn refused_stream(c: &Client) {
    let refused = c
        .get("/v1/events")
        .with("accept", "text/event-stream")
        .await;
    refused.expect(429);
    let refused = c
        .get("/v1/events")
        .with("accept", "text/event-stream")
        .await
        .error(429, "rate_limited", "");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!(wait >= 1);
}

#[tokio::test]
async fn a_key_and_an_account_hold_so_many_lines_open_and_no_more() {
    let server = few_lines();
    let account = server.account().await;
    let c = account.test();
    let id = c.conversation().await;
    let stream = EventStream::open(c.get("/v1/events")).await;
    let of_one = EventStream::open(c.get(&format!("/v1/conversations/{id}/events"))).await;
    let socket = Socket::open(&c).await;
    refused_stream(&c).await;
    assert_eq!(Socket::try_open(&c, "/v1/realtime").await.err(), Some(429));
    c.get("/v1/events").await.expect(200);
    // Another mode's key counts in the same account, a stranger's does not.
    let live = account.live();
    let more = (
        EventStream::open(live.get("/v1/events")).await,
        Socket::open(&live).await,
    );
    refused_stream(&live).await;
    refused_stream(&account.read()).await;
    drop(Socket::open(&server.account().await.test()).await);
    // A ticket is not used up by a refusal.
    let ticket = live
        .call("POST", "/v1/realtime/tickets")
        .await
        .expect(201)
        .id("ticket");
    let path = format!("/v1/realtime?ticket={ticket}");
    assert_eq!(
        Socket::try_open(&account.anonymous(), &path).await.err(),
        Some(429)
    );
    drop((stream, of_one, socket));
    until(
        "closed lines leave their places",
        Duration::from_secs(60),
        async || Socket::try_open(&account.anonymous(), &path).await.ok(),
    )
    .await;
    drop(more);
}

/// A server whose sockets take few frames: five at once, and so many a second.
fn few_frames(per_second: &str) -> Server {
    Setup::default()
        .env("COLLOQUY__REALTIME__FRAMES_PER_SECOND", per_second)
        .env("COLLOQUY__REALTIME__FRAMES_BURST", "5")
        .start()
}

#[tokio::test]
async fn frames_beyond_the_bucket_are_refused_and_typing_is_dropped() {
    let server = few_frames("0.2");
    let c = server.account().await.test();
    let id = c.conversation().await;
    let mut socket = Socket::open(&c).await;
    socket.subscribe(json!(id), None).await;
    for _ in 0..4 {
        socket.say(json!({"type": "ping"})).await;
    }
    for _ in 0..2 {
        socket
            .say(json!({"type": "typing", "conversation_id": "nonsense"}))
            .await;
    }
    socket
        .say(
            json!({"type": "send", "ref": "r", "conversation_id": id, "message": {"content": "x"}}),
        )
        .await;
    for _ in 0..4 {
        assert_eq!(socket.hear().await["type"], "pong");
    }
    let refused = socket.hear_error("rate_limited").await;
    assert_eq!(refused["ref"], "r", "{refused}");
    assert!(
        refused["error"]["details"]["retry_after_seconds"]
            .as_u64()
            .is_some_and(|wait| wait >= 1),
        "{refused}"
    );
    assert_eq!(
        c.get(&format!("/v1/conversations/{id}/messages"))
            .await
            .expect(200)
            .total(),
        0
    );
    let acknowledged = until(
        "a socket that waits is let in again",
        Duration::from_secs(60),
        async || {
            socket.say(json!({"type": "send", "ref": "r", "conversation_id": id, "message": {"content": "x"}})).await;
            let frame = loop {
                let frame = socket.hear().await;
                if frame["type"] != "event" {
                    break frame;
                }
            };
            (frame["type"] == "ack").then_some(frame)
        },
    );
    assert_eq!(acknowledged.await["message"]["content"], "x");
    let mut other = Socket::open(&c).await;
    assert!(
        other.before_pong().await.is_empty(),
        "each socket has its own"
    );
}

#[tokio::test]
async fn what_comes_far_beyond_the_bucket_waits_and_is_not_lost_for_the_connection() {
    let server = few_frames("1");
    let c = server.account().await.test();
    let mut socket = Socket::open(&c).await;
    for _ in 0..14 {
        socket.say(json!({"type": "ping"})).await;
    }
    let (mut pongs, mut refusals) = (0, 0);
    for _ in 0..14 {
        let frame = socket.hear().await;
        pongs += usize::from(frame["type"] == "pong");
        refusals += usize::from(frame["error"]["code"] == "rate_limited");
    }
    assert_eq!(pongs + refusals, 14);
    assert!(
        pongs >= 5 && refusals >= 5,
        "{pongs} pongs, {refusals} refusals"
    );
}

#[tokio::test]
async fn a_long_frame_counts_as_several() {
    let server = Setup::default()
        .env("COLLOQUY__REALTIME__FRAMES_PER_SECOND", "0.1")
        .env("COLLOQUY__REALTIME__FRAMES_BURST", "10")
        .start();
    let c = server.account().await.test();
    let mut socket = Socket::open(&c).await;
    let long = format!("{{\"type\":\"ping\"{}}}", " ".repeat(8 * 1_024));
    socket.say_raw(Message::text(long.clone())).await;
    assert_eq!(socket.hear().await["type"], "pong");
    socket.say_raw(Message::text(long)).await;
    socket.hear_error("rate_limited").await;
}

#[tokio::test]
async fn tickets_that_nobody_uses_void_their_own_accounts_oldest_only() {
    let server = Setup::default()
        .env("COLLOQUY__REALTIME__TICKETS_PER_ACCOUNT", "3")
        .start();
    let (account, other) = (server.account().await, server.account().await);
    let ticket = async |c: &Client| {
        c.call("POST", "/v1/realtime/tickets")
            .await
            .expect(201)
            .id("ticket")
    };
    let strangers = ticket(&other.test()).await;
    let mut tickets = Vec::new();
    for _ in 0..5 {
        tickets.push(ticket(&account.test()).await);
    }
    let mut opened = Vec::new();
    for ticket in tickets.iter().chain([&strangers]) {
        let socket = Socket::try_open(
            &account.anonymous(),
            &format!("/v1/realtime?ticket={ticket}"),
        )
        .await;
        opened.push(socket.err());
    }
    assert_eq!(opened, [Some(401), Some(401), None, None, None, None]);
}

#[tokio::test]
async fn an_account_is_present_in_so_many_conversations_and_no_more() {
    let server = Setup::default()
        .env("COLLOQUY__REALTIME__PRESENCES_PER_ACCOUNT", "2")
        .start();
    let account = server.account().await;
    let c = account.test();
    let user = c.user("agent").await;
    let (named, _) = account.key(json!({"type": "test", "user_id": user})).await;
    let mut socket = Socket::open(&named).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(c.conversation().await);
    }
    let present = |id: &str, state: &str| -> Value {
        json!({"type": "presence", "conversation_id": id, "state": state})
    };
    socket.say(present(&ids[0], "online")).await;
    socket.say(present(&ids[1], "online")).await;
    socket.say(present(&ids[2], "online")).await;
    socket.hear_error("conflict").await;
    socket.say(present(&ids[0], "away")).await;
    socket.say(present(&ids[0], "offline")).await;
    socket.say(present(&ids[2], "online")).await;
    assert!(
        socket.before_pong().await.is_empty(),
        "whoever leaves one may enter another"
    );
}
