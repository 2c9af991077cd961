//! `/v1/realtime`, frame by frame: subscribing, sending, typing, presence, tickets, and how a
//! socket ends.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::shapes::{EVENT, MESSAGE, assert_shape, instant, keys};
use crate::support::socket::Ended;
use crate::support::{Client, Server, Socket, account, account_with_client};

/// The longest that the end of a socket is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
const REALTIME: &str = "/v1/realtime";
const UNKNOWN: &str = "conv_0190163d8694739b85d52d5e4a4d6d5f";

fn messages_of(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}/messages")
}

fn send(reference: &str, conversation: &str, message: Value) -> Value {
    json!({"type": "send", "ref": reference, "conversation_id": conversation, "message": message})
}

#[tokio::test]
async fn a_subscription_to_a_conversation_gives_what_was_and_what_comes() {
    let (_account, c) = account_with_client().await;
    let (id, other) = (c.conversation().await, c.conversation().await);
    c.message(&id, "before").await;
    let mut socket = Socket::open(&c).await;
    let joined = socket.subscribe(json!(id), Some(json!(0))).await;
    assert_eq!(keys(&joined), ["after", "conversation_id", "type"]);
    c.message(&other, "elsewhere").await;
    c.message(&id, "after").await;
    let stored = c
        .get(&format!("/v1/conversations/{id}/events"))
        .await
        .expect(200);
    for event in stored.data() {
        let frame = socket.hear().await;
        assert_eq!(frame["type"], "event", "{frame}");
        assert_shape(&frame["event"], EVENT);
        assert_eq!(&frame["event"], event);
    }
    assert!(socket.before_pong().await.is_empty());
}

#[tokio::test]
async fn without_after_a_subscription_begins_with_what_comes_next() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let (mut own, mut all, mut middle) = (
        Socket::open(&c).await,
        Socket::open(&c).await,
        Socket::open(&c).await,
    );
    let joined = own.subscribe(json!(id), None).await;
    assert_eq!(joined["after"], 1, "the cursor that it was joined at");
    let at = all.subscribe(Value::Null, None).await["after"].clone();
    assert_eq!(
        c.get(&format!("/v1/events?after={}", at.as_str().unwrap()))
            .await
            .expect(200)
            .total(),
        0
    );
    for text in ["one", "two", "three"] {
        c.message(&id, text).await;
    }
    for text in ["one", "two", "three"] {
        assert_eq!(own.event().await["data"]["content"], text);
        assert_eq!(all.event().await["data"]["content"], text);
    }
    middle.subscribe(json!(id), Some(json!(2))).await;
    assert_eq!(middle.event().await["data"]["content"], "two");
}

#[tokio::test]
async fn a_subscription_to_the_account_gives_each_event_with_its_cursor() {
    let account = account().await;
    let c = account.test();
    let customer = c.customer().await;
    for _ in 0..3 {
        c.conversation_of(&customer).await;
    }
    account.live().conversation().await;
    let mut socket = Socket::open(&c).await;
    socket.subscribe(Value::Null, Some(json!(0))).await;
    let stored = c.get("/v1/events").await.expect(200).data().clone();
    let mut cursors = Vec::new();
    for event in &stored {
        let frame = socket.hear_type("event").await;
        assert_eq!(&frame["event"], event);
        cursors.push(frame["cursor"].as_str().expect("a cursor").to_owned());
    }
    assert!(
        socket.before_pong().await.is_empty(),
        "the other mode's events stay there"
    );
    let mut again = Socket::open(&c).await;
    again.subscribe(Value::Null, Some(json!(cursors[0]))).await;
    assert_eq!(
        again.event().await,
        stored[1],
        "it resumes after the cursor"
    );
    let listed = c
        .get(&format!("/v1/events?after={}", cursors[1]))
        .await
        .expect(200);
    assert_eq!(listed.data(), &stored[2..], "and so does the list");
}

#[tokio::test]
async fn what_is_unsubscribed_is_silent_and_the_rest_goes_on() {
    let (_account, c) = account_with_client().await;
    let (left, kept) = (c.conversation().await, c.conversation().await);
    let mut socket = Socket::open(&c).await;
    socket.subscribe(json!(left), None).await;
    socket.subscribe(json!(kept), None).await;
    socket
        .say(json!({"type": "unsubscribe", "conversation_id": left}))
        .await;
    let answer = socket.hear().await;
    assert_eq!(
        answer,
        json!({"type": "unsubscribed", "conversation_id": left})
    );
    c.message(&left, "unheard").await;
    c.message(&kept, "heard").await;
    assert_eq!(socket.event().await["data"]["content"], "heard");
    assert!(socket.before_pong().await.is_empty());
}

#[tokio::test]
async fn a_send_is_acknowledged_with_the_stored_message_and_others_get_the_event() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let (mut sender, mut reader) = (Socket::open(&c).await, Socket::open(&c).await);
    reader.subscribe(json!(id), None).await;
    sender
        .say(send(
            "r-1",
            &id,
            json!({"content": "Hello", "metadata": {"a": 1}}),
        ))
        .await;
    let ack = sender.hear().await;
    assert_eq!(keys(&ack), ["message", "ref", "type"]);
    assert_eq!((&ack["type"], &ack["ref"]), (&json!("ack"), &json!("r-1")));
    assert_shape(&ack["message"], MESSAGE);
    let stored = c.get(&messages_of(&id)).await.expect(200);
    assert_eq!((stored.total(), &stored["data"][0]), (1, &ack["message"]));
    let event = reader.event().await;
    assert_eq!(
        (&event["event"], &event["data"]),
        (&json!("message.created"), &ack["message"])
    );
}

#[tokio::test]
async fn a_ref_is_an_idempotency_key_here_and_over_http() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let mut socket = Socket::open(&c).await;
    let body = json!({"content": "once"});
    socket.say(send("same", &id, body.clone())).await;
    let first = socket.hear_type("ack").await;
    socket.say(send("same", &id, body.clone())).await;
    assert_eq!(socket.hear_type("ack").await, first);
    let mut other = Socket::open(&c).await;
    other.say(send("same", &id, body.clone())).await;
    assert_eq!(
        other.hear_type("ack").await,
        first,
        "on another connection too"
    );
    other
        .say(send("same", &id, json!({"content": "another"})))
        .await;
    assert_eq!(
        other.hear_error("idempotency_key_reused").await["ref"],
        "same"
    );
    let posted = c
        .post(&messages_of(&id), body.clone())
        .with("idempotency-key", "same")
        .await
        .expect(201);
    assert_eq!(
        (posted.header("idempotent-replayed"), &posted.body),
        ("true", &first["message"])
    );
    other.say(send("\"same\"", &id, body.clone())).await;
    let quoted = other.hear().await;
    assert_eq!(
        (&quoted["ref"], &quoted["message"]),
        (&json!("\"same\""), &first["message"]),
        "echoed as it came"
    );
    let reused = c
        .post(&messages_of(&id), json!({"content": "x"}))
        .with("idempotency-key", "same")
        .await;
    reused.error(422, "idempotency_key_reused", "*");
    let posted = c
        .post(&messages_of(&id), body.clone())
        .with("idempotency-key", "by-http")
        .await
        .expect(201);
    socket.say(send("by-http", &id, body)).await;
    assert_eq!(socket.hear_type("ack").await["message"], posted.body);
    assert_eq!(c.get(&messages_of(&id)).await.expect(200).total(), 2);
}

#[tokio::test]
async fn a_ref_holds_across_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let (key, id) = (
        account.test_key().to_owned(),
        account.test().conversation().await,
    );
    let mut socket = Socket::open(&account.test()).await;
    socket
        .say(send("kept", &id, json!({"content": "durable"})))
        .await;
    let first = socket.hear_type("ack").await;
    server.restart();
    let c = server.with_key(&key);
    let mut socket = Socket::open(&c).await;
    socket
        .say(send("kept", &id, json!({"content": "durable"})))
        .await;
    assert_eq!(socket.hear_type("ack").await, first);
    assert_eq!(c.get(&messages_of(&id)).await.expect(200).total(), 1);
}

/// Sends a message to a conversation, which must be refused with this code, naming this field.
async fn assert_send_refused(
    socket: &mut Socket,
    (conversation, message): (&str, Value),
    code: &str,
    field: &str,
) {
    socket.say(send("a", conversation, message)).await;
    let error = socket.hear_error(code).await;
    assert_eq!(error["ref"], "a", "{error}");
    let named = error["error"]["details"]["field"].as_str();
    assert!(
        field == "*" || named.unwrap().ends_with(field),
        "not {field}: {error}"
    );
}

#[tokio::test]
async fn a_refused_send_is_an_error_with_its_ref() {
    let account = account().await;
    let c = account.test();
    let (id, closed, live) = (
        c.conversation().await,
        c.conversation().await,
        account.live().conversation().await,
    );
    let stranger = crate::support::account().await.test().conversation().await;
    c.call("POST", &format!("/v1/conversations/{closed}/close"))
        .await
        .expect(200);
    let mut socket = Socket::open(&c).await;
    for conversation in [UNKNOWN, live.as_str(), stranger.as_str()] {
        let message = json!({"content": "x"});
        assert_send_refused(&mut socket, (conversation, message), "not_found", "*").await;
    }
    for (message, field) in [
        (json!({"content": ""}), "content"),
        (json!({}), "content"),
        (json!({"content": "x", "colour": 1}), "colour"),
        (json!({"content": "é".repeat(40_000)}), "content"),
    ] {
        assert_send_refused(&mut socket, (&id, message), "invalid_request", field).await;
    }
    let message = json!({"content": "x", "sender_type": "agent"});
    assert_send_refused(&mut socket, (&closed, message), "conversation_closed", "*").await;
    socket
        .say(send("a", &id, json!({"content": "a refusal is not kept"})))
        .await;
    assert_eq!(socket.hear().await["type"], "ack");
}

#[tokio::test]
async fn a_refused_subscription_is_an_error_and_the_socket_goes_on() {
    let account = account().await;
    let c = account.test();
    let (id, live) = (c.conversation().await, account.live().conversation().await);
    let stranger = crate::support::account().await.test().conversation().await;
    let mut socket = Socket::open(&c).await;
    for conversation in [UNKNOWN, &live, &stranger, "nonsense"] {
        for kind in ["subscribe", "typing"] {
            socket
                .say(json!({"type": kind, "conversation_id": conversation}))
                .await;
            socket
                .hear_error(if conversation == "nonsense" {
                    "invalid_request"
                } else {
                    "not_found"
                })
                .await;
        }
    }
    for (conversation, after) in [
        (Some(&id), json!("nonsense!")),
        (Some(&id), json!(-1)),
        (None, json!("nonsense!")),
    ] {
        let mut frame = json!({"type": "subscribe", "after": after});
        if let Some(conversation) = conversation {
            frame["conversation_id"] = json!(conversation);
        }
        socket.say(frame).await;
        assert_eq!(
            socket.hear_error("invalid_request").await["error"]["details"]["field"],
            "after"
        );
    }
    c.message(&id, "nobody is subscribed").await;
    assert!(socket.before_pong().await.is_empty());
}

#[tokio::test]
async fn a_frame_that_can_not_be_read_gets_an_error_without_ref() {
    let (_account, c) = account_with_client().await;
    let mut socket = Socket::open(&c).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in [
        "",
        "{",
        "null",
        "[]",
        "7",
        "\"ping\"",
        "{}",
        &deep,
        r#"{"type":"shout"}"#,
        r#"{"type":7}"#,
        r#"{"type":"ping","type":"ping"}"#,
        r#"{"type":"ping","colour":1}"#,
        r#"{"type":"send"}"#,
        r#"{"type":"typing"}"#,
        r#"{"type":"presence","conversation_id":"x","state":"asleep"}"#,
        r#"{"type":"send","ref":7,"conversation_id":"x","message":{"content":"x"}}"#,
    ] {
        socket.say_raw(Message::text(text)).await;
        let error = socket.hear_error("invalid_request").await;
        assert!(
            error.get("ref").is_none_or(Value::is_null),
            "{text}: {error}"
        );
    }
    socket
        .say_raw(Message::binary(vec![0, 159, 146, 150]))
        .await;
    socket.hear_error("invalid_request").await;
    assert!(socket.before_pong().await.is_empty(), "the socket goes on");
}

#[tokio::test]
async fn a_ping_is_answered_in_either_kind() {
    let (_account, c) = account_with_client().await;
    let mut socket = Socket::open(&c).await;
    socket.say(json!({"type": "ping"})).await;
    assert_eq!(socket.hear().await, json!({"type": "pong"}));
    socket.say_raw(Message::Ping(b"x".to_vec().into())).await;
    assert!(socket.before_pong().await.is_empty());
}

/// Two users' sockets, both subscribed to a conversation.
async fn two_users(c: &Client, id: &str) -> [(Socket, String); 2] {
    let mut both = Vec::new();
    for _ in 0..2 {
        let user = c.user("agent").await;
        let ticket = c
            .acting_for(&user)
            .call("POST", "/v1/realtime/tickets")
            .await
            .expect(201)
            .id("ticket");
        let anonymous = Client::anonymous(&format!("http://{}", c.address()));
        let mut socket = Socket::try_open(&anonymous, &format!("{REALTIME}?ticket={ticket}"))
            .await
            .unwrap();
        socket.subscribe(json!(id), None).await;
        both.push((socket, user));
    }
    both.try_into().unwrap_or_else(|_| panic!("two"))
}

/// The next frame of this type from this user; presence of others may come at any time.
async fn hear_of(socket: &mut Socket, kind: &str, user: &str) -> Value {
    loop {
        let frame = socket.hear_type(kind).await;
        if frame["user_id"] == user {
            return frame;
        }
    }
}

#[tokio::test]
async fn typing_is_passed_on_with_its_user_and_never_stored() {
    let (_account, c) = account_with_client().await;
    let (id, elsewhere) = (c.conversation().await, c.conversation().await);
    let [(mut one, first), (mut two, _)] = two_users(&c, &id).await;
    let mut stranger = Socket::open(&c).await;
    stranger.subscribe(json!(elsewhere), None).await;
    one.say(json!({"type": "typing", "conversation_id": id}))
        .await;
    let frame = hear_of(&mut two, "typing", &first).await;
    assert_eq!(
        frame,
        json!({"type": "typing", "conversation_id": id, "user_id": first})
    );
    assert!(
        one.before_pong()
            .await
            .iter()
            .all(|frame| frame["type"] != "typing"),
        "not to the one who types"
    );
    assert!(
        stranger.before_pong().await.is_empty(),
        "not to another conversation"
    );
    assert_eq!(
        c.get(&format!("/v1/conversations/{id}/events"))
            .await
            .expect(200)
            .total(),
        1
    );
}

#[tokio::test]
async fn presence_is_passed_on_and_ends_with_the_socket() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let [(mut one, first), (mut two, _)] = two_users(&c, &id).await;
    for state in ["online", "away", "online"] {
        one.say(json!({"type": "presence", "conversation_id": id, "state": state}))
            .await;
        let expected =
            json!({"type": "presence", "conversation_id": id, "user_id": first, "state": state});
        // Subscribing may have said "online" already.
        let frame = loop {
            let frame = hear_of(&mut two, "presence", &first).await;
            if frame["state"] == state {
                break frame;
            }
        };
        assert_eq!(frame, expected);
    }
    drop(one);
    let frame = hear_of(&mut two, "presence", &first).await;
    assert_eq!(frame["state"], "offline", "{frame}");
    assert_eq!(
        c.get(&format!("/v1/conversations/{id}/events"))
            .await
            .expect(200)
            .total(),
        1
    );
}

#[tokio::test]
async fn a_ticket_opens_one_socket_once() {
    let (account, c) = account_with_client().await;
    let id = c.conversation().await;
    let made = c.call("POST", "/v1/realtime/tickets").await.expect(201);
    assert_eq!(keys(&made.body), ["expires_at", "ticket"]);
    assert_eq!(made.header("cache-control"), "no-store");
    let lasts = (instant(&made["expires_at"]) - chrono::Utc::now()).num_seconds();
    assert!((50..=60).contains(&lasts), "{lasts} s");
    let path = format!("{REALTIME}?ticket={}", made.id("ticket"));
    let mut socket = Socket::try_open(&account.anonymous(), &path)
        .await
        .expect("a ticket opens a socket");
    socket.subscribe(json!(id), Some(json!(0))).await;
    assert_eq!(socket.event().await["event"], "conversation.created");
    assert_eq!(
        Socket::try_open(&account.anonymous(), &path).await.err(),
        Some(401),
        "used once"
    );
    let tampered = format!("{REALTIME}?ticket={}x", made.id("ticket"));
    assert_eq!(
        Socket::try_open(&account.anonymous(), &tampered)
            .await
            .err(),
        Some(401)
    );
    assert_eq!(
        Socket::try_open(&account.anonymous(), REALTIME).await.err(),
        Some(401)
    );
    let elsewhere = format!(
        "/v1/events?ticket={}",
        c.call("POST", "/v1/realtime/tickets").await.id("ticket")
    );
    account
        .anonymous()
        .get(&elsewhere)
        .await
        .error(401, "unauthorized", "");
}

#[tokio::test]
async fn a_ticket_falls_with_its_key() {
    let account = account().await;
    let (c, made) = account.key(json!({"type": "test"})).await;
    let ticket = c
        .call("POST", "/v1/realtime/tickets")
        .await
        .expect(201)
        .id("ticket");
    account
        .operator()
        .delete(&format!(
            "/admin/v1/keys/{}",
            made["key_id"].as_str().unwrap()
        ))
        .await
        .expect(204);
    let path = format!("{REALTIME}?ticket={ticket}");
    assert_eq!(
        Socket::try_open(&account.anonymous(), &path).await.err(),
        Some(401)
    );
}

#[tokio::test]
async fn what_is_no_handshake_is_an_ordinary_error() {
    let account = account().await;
    let c = account.test();
    c.get(REALTIME).await.error(400, "invalid_request", "*");
    account
        .anonymous()
        .get(REALTIME)
        .await
        .error(401, "unauthorized", "");
    let bad_key = account
        .anonymous()
        .with_key("sk_test_0000000000000000000000000000000000000000000000000");
    assert_eq!(Socket::try_open(&bad_key, REALTIME).await.err(), Some(401));
    let (other, _) = account
        .key(json!({"type": "test", "scopes": ["documents:read"]}))
        .await;
    assert_eq!(Socket::try_open(&other, REALTIME).await.err(), Some(403));
}

#[tokio::test]
async fn who_may_only_read_may_subscribe_and_not_send() {
    let account = account().await;
    let id = account.live().conversation().await;
    let in_test = account.test().conversation().await;
    let (scoped, _) = account
        .key(json!({"type": "test", "scopes": ["conversations:read"]}))
        .await;
    for (c, id, writer) in [
        (account.read(), id, account.live()),
        (scoped, in_test, account.test()),
    ] {
        let mut socket = Socket::open(&c).await;
        socket.subscribe(json!(id), None).await;
        socket.say(send("r", &id, json!({"content": "x"}))).await;
        assert_eq!(socket.hear_error("forbidden").await["ref"], "r");
        writer.message(&id, "heard").await;
        assert_eq!(socket.event().await["data"]["content"], "heard");
    }
}

#[tokio::test]
async fn a_send_counts_against_the_keys_limit_and_nothing_else_does() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let (limited, made) = account.key(json!({"type": "test"})).await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let body = json!({"plan": "enterprise", "rate_per_minute": 5, "burst_per_minute": 5});
    account.operator().patch(&at, body).await.expect(200);
    assert!(made["key"].is_string());
    let mut socket = Socket::open(&limited).await;
    for _ in 0..10 {
        assert!(
            socket.before_pong().await.is_empty(),
            "a ping costs nothing"
        );
    }
    socket.subscribe(json!(id), Some(json!(0))).await;
    socket.event().await;
    for n in 0..4 {
        socket
            .say(send(&format!("{n}"), &id, json!({"content": "x"})))
            .await;
        socket.hear_type("ack").await;
    }
    socket.say(send("over", &id, json!({"content": "x"}))).await;
    let refused = socket.hear_type("error").await;
    assert_eq!(
        (&refused["error"]["code"], &refused["ref"]),
        (&json!("rate_limited"), &json!("over")),
        "{refused}"
    );
    limited.get("/v1").await.error(429, "rate_limited", "");
}

#[tokio::test]
async fn a_revoked_or_expired_keys_socket_is_closed_with_1008() {
    let account = account().await;
    let (revoked, made) = account.key(json!({"type": "test"})).await;
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(12);
    let expires_at = soon.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let (expiring, _) = account
        .key(json!({"type": "test", "expires_at": expires_at}))
        .await;
    let (mut first, mut second) = (Socket::open(&revoked).await, Socket::open(&expiring).await);
    let mut witness = Socket::open(&account.test()).await;
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    account.operator().delete(&at).await.expect(204);
    // The revoked one at once, long before the other's time has come.
    tokio::select! {
        ended = first.end(ENDS_WITHIN) => assert_eq!(ended, Ended(1008)),
        _ = second.end(ENDS_WITHIN) => panic!("the one that expires later ended first"),
    }
    assert_eq!(second.end(ENDS_WITHIN).await, Ended(1008));
    let late = chrono::Utc::now() - soon;
    assert!(late.num_milliseconds() >= -100, "{late} after the expiry");
    assert!(
        witness.before_pong().await.is_empty(),
        "other keys' sockets stay"
    );
}

#[tokio::test]
async fn a_rotated_keys_socket_ends_with_its_own_secret() {
    let account = account().await;
    let (old, made) = account.key(json!({"type": "test"})).await;
    let mut socket = Socket::open(&old).await;
    let rotate = format!("/admin/v1/keys/{}/rotate", made["key_id"].as_str().unwrap());
    account
        .operator()
        .post(&rotate, json!({"overlap_seconds": 0}))
        .await
        .expect(200);
    assert_eq!(socket.end(Duration::from_secs(10)).await, Ended(1008));
}

#[tokio::test]
async fn sigterm_closes_sockets_with_1001() {
    let mut server = Server::start();
    let c = server.account().await.test();
    let (mut idle, mut subscribed) = (Socket::open(&c).await, Socket::open(&c).await);
    subscribed.subscribe(Value::Null, None).await;
    server.send_term();
    for socket in [&mut idle, &mut subscribed] {
        assert_eq!(socket.end(Duration::from_secs(12)).await, Ended(1001));
    }
    assert!(server.ended().success());
}
