//! Rights taken away: an open line shows nothing that a new request of the same key would be
//! refused, ends within a second, and goes on where all that it shows is still allowed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::socket::Ended;
use crate::support::{Account, Client, EventStream, Socket, account};

/// The longest that a line's end is waited for; nothing else would end it.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A key that may be changed.
struct Key {
    client: Client,
    path: String,
    operator: Client,
}

impl Key {
    async fn of(account: &Account, body: Value) -> Self {
        let (client, made) = account.key(body).await;
        let path = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
        Self {
            client,
            path,
            operator: account.operator(),
        }
    }

    async fn change(&self, body: Value) {
        self.operator.patch(&self.path, body).await.expect(200);
    }
}

/// The socket ends with 1008 in time, and shows nothing until then.
async fn ends_socket(socket: &mut Socket) {
    let ended = tokio::time::timeout(ENDS_WITHIN, socket.try_hear())
        .await
        .expect("the socket is closed");
    assert_eq!(ended, Err(Ended(1008)));
}

/// The stream ends in time, and shows nothing until then.
async fn ends_stream(stream: &mut EventStream) {
    assert_eq!(stream.rest(ENDS_WITHIN).await, []);
}

#[tokio::test]
async fn a_key_that_may_read_documents_no_more() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let key = Key::of(
        &account,
        json!({"type": "test", "scopes": ["conversations:read", "documents:read"]}),
    )
    .await;
    let (mut all, mut one) = (
        Socket::open(&key.client).await,
        Socket::open(&key.client).await,
    );
    all.subscribe(Value::Null, None).await;
    one.subscribe(json!(id), None).await;
    let mut stream = EventStream::open(key.client.get("/v1/events")).await;
    let mut of_messages =
        EventStream::open(key.client.get("/v1/events?event=message.created")).await;
    let mut of_documents =
        EventStream::open(key.client.get("/v1/events?event=document.created")).await;
    c.document("before").await;
    assert_eq!(all.event().await["event"], "document.created");
    assert_eq!(stream.event().await.event, "document.created");
    assert_eq!(of_documents.event().await.event, "document.created");
    key.change(json!({"scopes": ["conversations:read"]})).await;
    c.document("after").await;
    ends_socket(&mut all).await;
    ends_stream(&mut stream).await;
    ends_stream(&mut of_documents).await;
    c.message(&id, "still allowed").await;
    assert_eq!(one.event().await["data"]["content"], "still allowed");
    assert_eq!(
        of_messages.event().await.json()["data"]["content"],
        "still allowed"
    );
    let mut again = Socket::open(&key.client).await;
    again.subscribe(Value::Null, None).await;
    c.document("not shown").await;
    c.message(&id, "shown").await;
    assert_eq!(again.event().await["data"]["content"], "shown");
}

#[tokio::test]
async fn a_key_that_may_read_conversations_no_more() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let scopes = ["conversations:read", "conversations:write"];
    let key = Key::of(&account, json!({"type": "test", "scopes": scopes})).await;
    let (mut reading, mut writing) = (
        Socket::open(&key.client).await,
        Socket::open(&key.client).await,
    );
    reading.subscribe(json!(id), None).await;
    let mut stream =
        EventStream::open(key.client.get(&format!("/v1/conversations/{id}/events"))).await;
    let mut of_all = EventStream::open(key.client.get("/v1/events")).await;
    key.change(json!({"scopes": ["conversations:write"]})).await;
    c.message(&id, "not shown").await;
    ends_socket(&mut reading).await;
    ends_stream(&mut stream).await;
    ends_stream(&mut of_all).await;
    writing
        .say(
            json!({"type": "send", "ref": "r", "conversation_id": id, "message": {"content": "x"}}),
        )
        .await;
    assert_eq!(
        writing.hear().await["type"],
        "ack",
        "a socket that shows nothing goes on"
    );
    writing
        .say(json!({"type": "subscribe", "conversation_id": id}))
        .await;
    writing.hear_error("forbidden").await;
    key.change(json!({"scopes": ["documents:read"]})).await;
    ends_socket(&mut writing).await;
}

#[tokio::test]
async fn a_user_who_is_an_admin_no_more() {
    let account = account().await;
    let c = account.test();
    let (user, id) = (c.user("admin").await, c.conversation().await);
    let key = Key::of(&account, json!({"type": "test", "user_id": user})).await;
    let acting = c.acting_for(&user);
    let (mut all, mut one) = (
        Socket::open(&key.client).await,
        Socket::open(&key.client).await,
    );
    all.subscribe(Value::Null, None).await;
    one.subscribe(json!(id), None).await;
    let mut stream = EventStream::open(acting.get("/v1/events")).await;
    let mut of_messages = EventStream::open(acting.get("/v1/events?event=message.created")).await;
    c.patch(&format!("/v1/users/{user}"), json!({"role": "agent"}))
        .await
        .expect(200);
    c.document("after").await;
    ends_socket(&mut all).await;
    ends_stream(&mut stream).await;
    c.message(&id, "still allowed").await;
    assert_eq!(one.event().await["data"]["content"], "still allowed");
    assert_eq!(
        of_messages.event().await.json()["data"]["content"],
        "still allowed"
    );
    c.delete(&format!("/v1/users/{user}")).await.expect(204);
    c.message(&id, "not shown").await;
    ends_socket(&mut one).await;
    ends_stream(&mut of_messages).await;
}

#[tokio::test]
async fn an_address_that_is_allowed_no_more() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let key = Key::of(&account, json!({"type": "test"})).await;
    let mut socket = Socket::open(&key.client).await;
    socket.subscribe(json!(id), None).await;
    let mut stream = EventStream::open(key.client.get("/v1/events")).await;
    key.change(json!({"allowed_ips": ["203.0.113.0/24"]})).await;
    c.message(&id, "not shown").await;
    ends_socket(&mut socket).await;
    ends_stream(&mut stream).await;
    let mut last = Socket::open(&c).await;
    last.subscribe(json!(id), None).await;
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    account
        .operator()
        .patch(&path, json!({"allowed_ips": ["203.0.113.0/24"]}))
        .await
        .expect(200);
    c.post(
        &format!("/v1/conversations/{id}/messages"),
        json!({"content": "x"}),
    )
    .await
    .expect(403);
    ends_socket(&mut last).await;
}

#[tokio::test]
async fn a_key_that_is_revoked_or_has_expired_shows_nothing_more() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    for body in [
        json!({"expires_at": "2020-01-01T00:00:00.000Z"}),
        Value::Null,
    ] {
        let key = Key::of(&account, json!({"type": "test"})).await;
        let mut socket = Socket::open(&key.client).await;
        socket.subscribe(json!(id), None).await;
        let mut stream = EventStream::open(key.client.get("/v1/events")).await;
        if body.is_null() {
            key.operator.delete(&key.path).await.expect(204);
        } else {
            key.change(body).await;
        }
        c.message(&id, "not shown").await;
        ends_socket(&mut socket).await;
        ends_stream(&mut stream).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_under_way_nothing_committed_after_the_answer_is_shown() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    for round in 0..8 {
        let key = Key::of(
            &account,
            json!({"type": "test", "scopes": ["conversations:read", "documents:read"]}),
        )
        .await;
        let mut lines = Vec::new();
        for _ in 0..8 {
            let mut socket = Socket::open(&key.client).await;
            socket.subscribe(Value::Null, Some(json!(0))).await;
            lines.push(socket);
        }
        let mut stream = EventStream::open(key.client.get("/v1/events?after=0")).await;
        let busy = async {
            for n in 0..20 {
                c.message(&id, &format!("{round} {n}")).await;
            }
        };
        let change = async {
            key.change(json!({"scopes": ["conversations:read"]})).await;
            c.document(&format!("secret {round}")).await;
        };
        tokio::join!(busy, change);
        let secret = c
            .get("/v1/events?event=document.created&limit=100")
            .await
            .expect(200);
        let secret = secret.data().last().unwrap()["id"].clone();
        for socket in &mut lines {
            let ended = loop {
                match tokio::time::timeout(ENDS_WITHIN, socket.try_hear())
                    .await
                    .expect("it ends")
                {
                    Ok(frame) => assert_ne!(
                        frame["event"]["id"], secret,
                        "committed after the right was gone"
                    ),
                    Err(ended) => break ended,
                }
            };
            assert_eq!(ended, Ended(1008));
        }
        for event in stream.rest(ENDS_WITHIN).await {
            assert_ne!(
                event.json()["id"],
                secret,
                "committed after the right was gone"
            );
        }
    }
}
