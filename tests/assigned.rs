//! The scope `conversations:assigned`: reading and writing in the conversations of one user, over
//! every way that shows or changes a conversation, and nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::socket::Ended;
use crate::support::{Account, Client, EventStream, Socket, account};

/// The longest that the end of a line is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// An account with a bot that is narrowed to the conversations of its user.
struct Desk {
    account: Account,
    /// The account's own key.
    all: Client,
    /// The narrowed key.
    bot: Client,
    user: String,
    other: String,
}

impl Desk {
    async fn new() -> Self {
        Self::with(json!(["conversations:assigned"])).await
    }

    async fn with(scopes: Value) -> Self {
        let account = account().await;
        let all = account.test();
        let (user, other) = (all.user("agent").await, all.user("agent").await);
        let body = json!({"type": "test", "scopes": scopes, "user_id": user});
        let (bot, _) = account.key(body).await;
        Desk {
            account,
            all,
            bot,
            user,
            other,
        }
    }

    /// A conversation with one message, assigned to somebody.
    async fn conversation(&self, assignee: &str) -> String {
        let id = self.all.conversation().await;
        self.all.message(&id, "before").await;
        self.assign(&id, assignee).await;
        id
    }

    async fn assign(&self, id: &str, assignee: &str) {
        let body = json!({"assignee_id": assignee});
        self.all.patch(&at(id), body).await.expect(200);
    }
}

fn at(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}")
}

fn message_of(event: &Value) -> &Value {
    &event["data"]["content"]
}

#[tokio::test]
async fn what_is_assigned_to_the_keys_user_is_read_and_written() {
    let desk = Desk::new().await;
    let id = desk.conversation(&desk.user).await;
    let (bot, path) = (&desk.bot, at(&id));
    bot.get(&path).await.expect(200);
    let sent = bot
        .post(&format!("{path}/messages"), json!({"content": "hello"}))
        .await
        .expect(201);
    assert_eq!(sent.body["sender_id"], desk.user.as_str());
    let message = format!("{path}/messages/{}", sent.id("message_id"));
    bot.get(&message).await.expect(200);
    bot.patch(&message, json!({"content": "hello you"}))
        .await
        .expect(200);
    bot.get(&format!("{message}/revisions")).await.expect(200);
    bot.delete(&message).await.expect(204);
    let listed = bot.get(&format!("{path}/messages")).await.expect(200);
    assert_eq!(listed.total(), 2);
    bot.patch(&path, json!({"status": "pending", "priority": "high"}))
        .await
        .expect(200);
    bot.patch(&path, json!({"snoozed_until": "2099-01-01T00:00:00Z"}))
        .await
        .expect(200);
    bot.post(&format!("{path}/close"), json!({}))
        .await
        .expect(200);
    bot.post(&format!("{path}/reopen"), json!({}))
        .await
        .expect(200);
    bot.get(&format!("{path}/events")).await.expect(200);
}

#[tokio::test]
async fn what_is_not_assigned_to_the_keys_user_is_404_however_it_is_asked_for() {
    let desk = Desk::new().await;
    for id in [
        desk.conversation(&desk.other).await,
        desk.all.conversation().await,
    ] {
        let path = at(&id);
        let text = json!({"content": "x"});
        let sent = desk.all.message(&id, "theirs").await.id("message_id");
        let message = format!("{path}/messages/{sent}");
        let revisions = format!("{message}/revisions");
        for seen in ["", "/messages", "/events"] {
            let seen = format!("{path}{seen}");
            desk.bot.get(&seen).await.error(404, "not_found", "");
        }
        for seen in [&message, &revisions] {
            desk.bot.get(seen).await.error(404, "not_found", "");
        }
        let stream = EventStream::try_open(desk.bot.get(&format!("{path}/events")));
        assert_eq!(stream.await.unwrap().status(), 404);
        for (method, below, body) in [
            ("PATCH", "", json!({"priority": "low"})),
            ("PATCH", "", json!({"assignee_id": desk.user})),
            ("POST", "/close", json!({})),
            ("POST", "/reopen", json!({})),
            ("POST", "/messages", text.clone()),
            ("PATCH", &message[path.len()..], text.clone()),
        ] {
            let below = format!("{path}{below}");
            let call = desk.bot.call(method, &below).json(&body);
            call.await.error(404, "not_found", "");
        }
        desk.bot.delete(&message).await.error(404, "not_found", "");
        // A condition tells nothing of it either.
        let conditional = desk.bot.patch(&path, json!({"priority": "low"}));
        let conditional = conditional.with("if-match", "\"other\"");
        conditional.await.error(404, "not_found", "");
    }
}

#[tokio::test]
async fn whose_conversation_it_is_and_what_the_account_wrote_about_it_stay_as_they_are() {
    let desk = Desk::new().await;
    let path = at(&desk.conversation(&desk.user).await);
    for (field, value) in [
        ("assignee_id", json!(desk.other)),
        ("assignee_id", json!(null)),
        ("assignee_id", json!(desk.user)),
        ("channel", json!("email")),
        ("metadata", json!({"a": 1})),
    ] {
        let body = json!({"priority": "low", field: value});
        let refused = desk.bot.patch(&path, body).await;
        refused.error(403, "forbidden", field);
    }
    let now = desk.all.get(&path).await.expect(200);
    assert_eq!(now.body["priority"], "normal", "nothing of it was done");
}

#[tokio::test]
async fn what_is_no_conversation_of_the_user_is_403() {
    let desk = Desk::new().await;
    let customer = desk.all.customer().await;
    let new = json!({"customer_id": customer});
    for (method, path, body) in [
        ("POST", "/v1/conversations", new),
        ("POST", "/v1/customers", json!({"name": "x"})),
        ("GET", "/v1/customers", Value::Null),
        ("GET", &format!("/v1/customers/{customer}"), Value::Null),
        ("GET", "/v1/users", Value::Null),
        ("GET", "/v1/webhooks", Value::Null),
        ("GET", "/api/v1/documents", Value::Null),
    ] {
        let mut call = desk.bot.call(method, path);
        if !body.is_null() {
            call = call.json(&body);
        }
        call.await.error(403, "forbidden", "");
    }
}

#[tokio::test]
async fn lists_and_searches_show_and_count_what_is_assigned_to_the_user() {
    let desk = Desk::new().await;
    let own = [
        desk.conversation(&desk.user).await,
        desk.conversation(&desk.user).await,
    ];
    let others = desk.conversation(&desk.other).await;
    desk.all.conversation().await;
    let bot = &desk.bot;
    let listed = |query: String| async move {
        let list = bot.get(&format!("/v1/conversations{query}")).await;
        let list = list.expect(200);
        (list.total(), list.column("conversation_id"))
    };
    let newest_first = vec![own[1].clone(), own[0].clone()];
    let both = (2, newest_first);
    let (user, other) = (&desk.user, &desk.other);
    assert_eq!(listed(String::new()).await, both);
    assert_eq!(listed(format!("?assignee_id={user}")).await, both);
    assert_eq!(listed("?status=active".to_owned()).await, both);
    assert_eq!(listed("?sort=updated_at".to_owned()).await.0, 2);
    assert_eq!(listed("?q=before".to_owned()).await.0, 2);
    let nothing = (0, Vec::new());
    assert_eq!(listed(format!("?assignee_id={other}")).await, nothing);
    let searched = format!("?q=before&assignee_id={other}");
    assert_eq!(listed(searched).await, nothing);
    desk.assign(&others, user).await;
    assert_eq!(listed(String::new()).await.0, 3);
    desk.assign(&own[0], other).await;
    assert_eq!(listed("?q=before".to_owned()).await.0, 2);
}

#[tokio::test]
async fn bulk_operations_are_judged_one_by_one() {
    let desk = Desk::new().await;
    let own = desk.conversation(&desk.user).await;
    let theirs = desk.conversation(&desk.other).await;
    let customer = desk.all.customer().await;
    let operations = json!({"operations": [
        {"op": "message", "conversation_id": own, "body": {"content": "a"}},
        {"op": "message", "conversation_id": theirs, "body": {"content": "a"}},
        {"op": "create", "body": {"customer_id": customer}},
        {"op": "create", "body": {"customer_id": "cus_0190163d8694739b85d52d5e4a4d6d5f"}},
        {"op": "update", "conversation_id": own, "body": {"metadata": {"a": 1}}},
        {"op": "close", "conversation_id": theirs},
        {"op": "close", "conversation_id": own},
    ]});
    let answer = desk.bot.post("/v1/conversations/bulk", operations).await;
    let statuses: Vec<&Value> = answer.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["status"])
        .collect();
    assert_eq!(statuses, [201, 404, 403, 403, 403, 404, 200]);
}

#[tokio::test]
async fn it_takes_a_user_and_is_never_given_by_leaving_scopes_out() {
    let desk = Desk::new().await;
    let id = desk.conversation(&desk.user).await;
    let scopes = json!({"type": "test", "scopes": ["conversations:assigned"]});
    let (key, made) = desk.account.key(scopes).await;
    assert_eq!(made["scopes"], json!(["conversations:assigned"]));
    for path in [
        at(&id),
        "/v1/conversations".to_owned(),
        "/v1/events".to_owned(),
    ] {
        key.get(&path).await.error(403, "forbidden", "");
    }
    assert_eq!(
        Socket::try_open(&key, "/v1/realtime").await.err(),
        Some(403)
    );
    key.acting_for(&desk.user).get(&at(&id)).await.expect(200);
    let other = key.acting_for(&desk.other);
    other.get(&at(&id)).await.error(404, "not_found", "");
    let unknown = key.acting_for("usr_0190163d8694739b85d52d5e4a4d6d5f");
    let refused = unknown.get(&at(&id)).await;
    refused.error(400, "invalid_request", "X-Acting-User");
    // A key without scopes has all the others, and writes in whatever is there.
    let unnarrowed = desk.all.acting_for(&desk.other);
    unnarrowed
        .patch(&at(&id), json!({"channel": "email"}))
        .await
        .expect(200);
}

#[tokio::test]
async fn beside_reading_all_it_writes_in_what_is_assigned() {
    let scopes = json!(["conversations:read", "conversations:assigned"]);
    let desk = Desk::with(scopes).await;
    let own = desk.conversation(&desk.user).await;
    let theirs = desk.conversation(&desk.other).await;
    let text = json!({"content": "x"});
    desk.bot.get(&at(&theirs)).await.expect(200);
    assert_eq!(desk.bot.get("/v1/conversations").await.total(), 2);
    let path = format!("{}/messages", at(&theirs));
    desk.bot.get(&path).await.expect(200);
    let refused = desk.bot.post(&path, text.clone()).await;
    refused.error(403, "forbidden", "");
    let path = format!("{}/messages", at(&own));
    desk.bot.post(&path, text).await.expect(201);
    let body = json!({"channel": "email"});
    let refused = desk.bot.patch(&at(&own), body).await;
    refused.error(403, "forbidden", "channel");
    let mut socket = Socket::open(&desk.bot).await;
    socket.subscribe(json!(theirs), Some(json!(0))).await;
    assert_eq!(socket.event().await["event"], "conversation.created");
}

#[tokio::test]
async fn beside_writing_all_it_reads_what_is_assigned() {
    let scopes = json!(["conversations:write", "conversations:assigned"]);
    let desk = Desk::with(scopes).await;
    let theirs = desk.conversation(&desk.other).await;
    let body = json!({"priority": "low"});
    desk.bot.patch(&at(&theirs), body).await.expect(200);
    desk.bot.get(&at(&theirs)).await.error(404, "not_found", "");
    assert_eq!(desk.bot.get("/v1/conversations").await.total(), 0);
}

#[tokio::test]
async fn events_show_what_happened_while_it_was_assigned() {
    let desk = Desk::new().await;
    let own = desk.conversation(&desk.user).await;
    let theirs = desk.conversation(&desk.other).await;
    desk.all.message(&own, "mine").await;
    desk.all.message(&theirs, "not mine").await;
    desk.assign(&own, &desk.other).await;
    desk.all.message(&own, "mine no more").await;
    let listed = desk.bot.get("/v1/events").await.expect(200);
    let kinds = listed.column("event");
    assert_eq!(kinds, ["conversation.updated", "message.created"]);
    assert_eq!(listed.total(), 2);
    assert_eq!(message_of(&listed.data()[1]), "mine");
    let of_other = format!("/v1/events?assignee_id={}", desk.other);
    let nothing = desk.bot.get(&of_other).await.expect(200);
    assert_eq!((nothing.total(), nothing.data().len()), (0, 0));
}

#[tokio::test]
async fn an_event_stream_of_the_account_goes_on_without_what_is_taken_away() {
    let desk = Desk::new().await;
    let (taken, kept) = (
        desk.conversation(&desk.user).await,
        desk.conversation(&desk.user).await,
    );
    let mut stream = EventStream::open(desk.bot.get("/v1/events")).await;
    stream.begins_at().await;
    let of_other = format!("/v1/events?assignee_id={}", desk.other);
    let mut empty = EventStream::open(desk.bot.get(&of_other)).await;
    empty.begins_at().await;
    desk.all.message(&taken, "one").await;
    desk.assign(&taken, &desk.other).await;
    desk.all.message(&taken, "unseen").await;
    desk.all.message(&kept, "two").await;
    for text in ["one", "two"] {
        assert_eq!(message_of(&stream.event().await.json()), text);
    }
    desk.account
        .operator()
        .delete(&format!("/admin/v1/keys/{}", key_id(&desk).await))
        .await
        .expect(204);
    assert_eq!(stream.rest(ENDS_WITHIN).await, []);
    assert_eq!(empty.rest(ENDS_WITHIN).await, []);
}

/// The identifier of the bot's key: the newest one.
async fn key_id(desk: &Desk) -> String {
    let path = format!("/admin/v1/accounts/{}/keys", desk.account.account_id);
    let keys = desk.account.operator().get(&path).await.expect(200);
    keys.column("key_id")[0].clone()
}

#[tokio::test]
async fn a_stream_of_one_conversation_ends_with_the_assignment() {
    let desk = Desk::new().await;
    let id = desk.conversation(&desk.user).await;
    let path = format!("{}/events", at(&id));
    let mut stream = EventStream::open(desk.bot.get(&format!("{path}?after=0"))).await;
    stream.begins_at().await;
    let before: Vec<String> = [
        stream.event().await.event,
        stream.event().await.event,
        stream.event().await.event,
    ]
    .into();
    let whole = [
        "conversation.created",
        "message.created",
        "conversation.updated",
    ];
    assert_eq!(before, whole, "its log is whole");
    desk.all.message(&id, "mine").await;
    assert_eq!(message_of(&stream.event().await.json()), "mine");
    desk.assign(&id, &desk.other).await;
    desk.all.message(&id, "mine no more").await;
    assert_eq!(stream.rest(ENDS_WITHIN).await, []);
    desk.bot.get(&path).await.error(404, "not_found", "");
}

#[tokio::test]
async fn a_socket_shows_the_users_conversations_and_ends_when_one_it_follows_is_taken() {
    let desk = Desk::new().await;
    let own = desk.conversation(&desk.user).await;
    let theirs = desk.conversation(&desk.other).await;
    let mut socket = Socket::open(&desk.bot).await;
    let frames = [
        json!({"type": "subscribe", "conversation_id": theirs}),
        json!({"type": "typing", "conversation_id": theirs}),
        json!({"type": "presence", "conversation_id": theirs, "state": "online"}),
        json!({"type": "send", "ref": "r1", "conversation_id": theirs, "message": {"content": "x"}}),
    ];
    for frame in frames {
        socket.say(frame).await;
        socket.hear_error("not_found").await;
    }
    socket.subscribe(json!(own), Some(json!(2))).await;
    assert_eq!(socket.event().await["event"], "conversation.updated");
    let send =
        json!({"type": "send", "ref": "r2", "conversation_id": own, "message": {"content": "hi"}});
    socket.say(send.clone()).await;
    let heard = [socket.hear().await, socket.hear().await];
    let of_type = |kind: &str| heard.iter().find(|frame| frame["type"] == kind).unwrap();
    assert_eq!(of_type("ack")["message"]["content"], "hi");
    assert_eq!(message_of(&of_type("event")["event"]), "hi");
    desk.assign(&own, &desk.other).await;
    desk.all.message(&own, "unseen").await;
    match socket.try_hear().await {
        Ok(frame) => panic!("it is shown: {frame}"),
        Err(ended) => assert_eq!(ended, Ended(1008)),
    }
}

#[tokio::test]
async fn a_socket_that_follows_the_account_goes_on_without_what_is_taken_away() {
    let desk = Desk::new().await;
    let taken = desk.conversation(&desk.user).await;
    let kept = desk.conversation(&desk.user).await;
    let theirs = desk.conversation(&desk.other).await;
    let mut socket = Socket::open(&desk.bot).await;
    socket.subscribe(Value::Null, None).await;
    let mut agent = Socket::open(&desk.all.acting_for(&desk.other)).await;
    for id in [&theirs, &taken] {
        agent
            .say(json!({"type": "typing", "conversation_id": id}))
            .await;
    }
    let typing = socket.hear().await;
    assert_eq!(typing["conversation_id"], taken.as_str(), "{typing}");
    desk.all.message(&taken, "one").await;
    assert_eq!(message_of(&socket.event().await), "one");
    desk.assign(&taken, &desk.other).await;
    desk.all.message(&taken, "unseen").await;
    agent
        .say(json!({"type": "typing", "conversation_id": taken}))
        .await;
    agent
        .say(json!({"type": "typing", "conversation_id": kept}))
        .await;
    desk.all.message(&kept, "two").await;
    let mut heard = vec![socket.hear().await, socket.hear().await];
    heard.sort_by_key(|frame| frame["type"].to_string());
    assert_eq!(message_of(&heard[0]["event"]), "two", "{heard:?}");
    assert_eq!(heard[1]["conversation_id"], kept.as_str(), "{heard:?}");
    assert!(socket.before_pong().await.is_empty());
    let send =
        json!({"type": "send", "ref": "r", "conversation_id": taken, "message": {"content": "x"}});
    socket.say(send).await;
    socket.hear_error("not_found").await;
}

#[tokio::test]
async fn a_line_ends_when_its_key_is_narrowed_to_what_is_assigned() {
    let desk = Desk::with(json!(["conversations:read"])).await;
    let theirs = desk.conversation(&desk.other).await;
    let mut socket = Socket::open(&desk.bot).await;
    socket.subscribe(Value::Null, None).await;
    let mut stream = EventStream::open(desk.bot.get("/v1/events")).await;
    stream.begins_at().await;
    let at = format!("/admin/v1/keys/{}", key_id(&desk).await);
    let narrower = json!({"scopes": ["conversations:assigned"]});
    let operator = desk.account.operator();
    operator.patch(&at, narrower).await.expect(200);
    desk.all.message(&theirs, "unseen").await;
    assert_eq!(stream.rest(ENDS_WITHIN).await, []);
    match socket.try_hear().await {
        Ok(frame) => panic!("it is shown: {frame}"),
        Err(ended) => assert_eq!(ended, Ended(1008)),
    }
}

/// Whatever the order in which they are decided, no message that the bot was acknowledged stands
/// behind the change that took the conversation away.
#[tokio::test]
async fn a_write_and_a_reassignment_never_overtake_one_another() {
    let desk = Desk::new().await;
    for _ in 0..8 {
        let id = desk.conversation(&desk.user).await;
        let path = format!("{}/messages", at(&id));
        let sends = (0..8).map(|_| {
            desk.bot
                .post(&path, json!({"content": "bot"}))
                .into_future()
        });
        let sends = futures_util::future::join_all(sends);
        let (answers, ()) = tokio::join!(sends, desk.assign(&id, &desk.other));
        let passed = answers.iter().filter(|answer| answer.status == 201).count();
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer.status, 201 | 404))
        );
        let log = desk.all.get(&format!("{}/events?limit=100", at(&id))).await;
        let log = log.expect(200).data().clone();
        let taken = log
            .iter()
            .rposition(|event| event["event"] == "conversation.updated")
            .unwrap();
        let behind = log[taken..]
            .iter()
            .filter(|event| message_of(event) == "bot");
        assert_eq!(behind.count(), 0, "written when it was another's");
        let before = log[..taken]
            .iter()
            .filter(|event| message_of(event) == "bot");
        assert_eq!(before.count(), passed);
    }
}
