//! `/v1/events` and `/v1/conversations/{id}/events`: what emits what, the envelope, cursors,
//! filters, redaction, retention.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::shapes::{
    CONVERSATION, EVENT, MESSAGE, assert_id, assert_recent, assert_shape, keys,
};
use crate::support::{
    Account, Answer, Client, EventStream, Receiver, Server, Setup, Socket, account,
    account_with_client, account_with_deliveries, unique, until,
};

fn path(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}")
}

/// The conversation's whole log.
async fn log(c: &Client, conversation: &str) -> Vec<Value> {
    c.get(&format!("{}/events?limit=100", path(conversation)))
        .await
        .expect(200)
        .data()
        .clone()
}

/// The kinds in the conversation's log.
async fn kinds(c: &Client, conversation: &str) -> Vec<String> {
    log(c, conversation)
        .await
        .iter()
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect()
}

/// The last event of the conversation's log.
async fn last(c: &Client, conversation: &str) -> Value {
    log(c, conversation).await.pop().unwrap()
}

async fn close(c: &Client, conversation: &str) -> Answer {
    c.call("POST", &format!("{}/close", path(conversation)))
        .await
        .expect(200)
}

fn seqs(events: &[Value]) -> Vec<u64> {
    events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn creating_emits_created_and_then_the_initial_message() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let body = json!({"customer_id": customer, "initial_message": "Where is my parcel?"});
    let made = c.post("/v1/conversations", body).await.expect(201);
    let events = log(&c, &made.id("conversation_id")).await;
    assert_eq!(
        kinds(&c, &made.id("conversation_id")).await,
        ["conversation.created", "message.created"]
    );
    assert_eq!(events[1]["data"]["content"], "Where is my parcel?");
    assert_eq!(events[1]["data"]["seq"], 1, "the message's own count");
    assert_eq!(events[1]["seq"], 2, "the event's count");
    let bare = c.conversation_of(&customer).await;
    assert_eq!(kinds(&c, &bare).await, ["conversation.created"]);
}

#[tokio::test]
async fn the_envelope_has_every_field_and_no_other() {
    let (_account, c) = account_with_client().await;
    let made = c
        .post(
            "/v1/conversations",
            json!({"customer_id": c.customer().await}),
        )
        .await
        .expect(201);
    let id = made.id("conversation_id");
    let sent = c.message(&id, "Hello").await;
    let changed = c
        .patch(&path(&id), json!({"priority": "high"}))
        .await
        .expect(200);
    let events = log(&c, &id).await;
    for (event, kind) in events.iter().zip([
        "conversation.created",
        "message.created",
        "conversation.updated",
    ]) {
        assert_shape(event, EVENT);
        assert_id(&event["id"], "evt_");
        assert_recent(&event["created_at"]);
        assert_eq!(
            (&event["event"], &event["api_version"]),
            (&json!(kind), &json!("1.0"))
        );
    }
    assert_shape(&events[0]["data"], CONVERSATION);
    assert_eq!(
        events[0]["data"], made.body,
        "the conversation as it was answered"
    );
    assert_shape(&events[1]["data"], MESSAGE);
    assert_eq!(
        events[1]["data"], sent.body,
        "the message as it was answered"
    );
    assert_shape(&events[2]["data"], &format!("{CONVERSATION}, changes"));
    let mut data = events[2]["data"].clone();
    let changes = data.as_object_mut().unwrap().remove("changes").unwrap();
    assert_eq!(
        changes,
        json!({"priority": {"from": "normal", "to": "high"}})
    );
    assert_eq!(data, changed.body);
}

#[tokio::test]
async fn a_message_emits_message_created_only() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for sender in ["customer", "agent", "system"] {
        let body = json!({"content": "x", "sender_type": sender});
        c.post(&format!("{}/messages", path(&id)), body)
            .await
            .expect(201);
    }
    let expected = [
        "conversation.created",
        "message.created",
        "message.created",
        "message.created",
    ];
    assert_eq!(kinds(&c, &id).await, expected);
}

#[tokio::test]
async fn a_message_that_changes_the_state_is_followed_by_updated() {
    let (_account, c) = account_with_client().await;
    for status in ["pending", "closed"] {
        let id = c.conversation().await;
        c.patch(&path(&id), json!({"status": status}))
            .await
            .expect(200);
        let before = log(&c, &id).await.len();
        c.message(&id, "Hello?").await;
        let events = log(&c, &id).await;
        let new = &events[before..];
        assert_eq!(new.len(), 2, "{new:?}");
        assert_eq!(
            (&new[0]["event"], &new[1]["event"]),
            (&json!("message.created"), &json!("conversation.updated"))
        );
        assert_eq!(
            new[1]["data"]["changes"]["status"],
            json!({"from": status, "to": "active"})
        );
        assert_eq!(new[1]["data"]["status"], "active");
        assert!(new[1]["data"]["closed_at"].is_null());
        assert_eq!(new[0]["created_at"], new[1]["created_at"], "one commit");
    }
}

#[tokio::test]
async fn closing_emits_closed_with_its_reason_and_never_updated() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let closed = c
        .post(&format!("{}/close", path(&id)), json!({"reason": "solved"}))
        .await
        .expect(200);
    assert_eq!(
        kinds(&c, &id).await,
        ["conversation.created", "conversation.closed"]
    );
    let event = last(&c, &id).await;
    assert_eq!(event["data"]["reason"], "solved");
    assert_eq!(
        (&event["data"]["status"], &event["data"]["closed_at"]),
        (&json!("closed"), &closed["closed_at"])
    );
    close(&c, &id).await;
    c.patch(&path(&id), json!({"status": "closed"}))
        .await
        .expect(200);
    assert_eq!(
        kinds(&c, &id).await.len(),
        2,
        "closing a closed one emits nothing"
    );
    let by_patch = c.conversation().await;
    c.patch(&path(&by_patch), json!({"status": "closed"}))
        .await
        .expect(200);
    assert_eq!(
        kinds(&c, &by_patch).await,
        ["conversation.created", "conversation.closed"]
    );
}

#[tokio::test]
async fn reopening_emits_updated_in_either_way() {
    let (_account, c) = account_with_client().await;
    for by_patch in [true, false] {
        let id = c.conversation().await;
        close(&c, &id).await;
        let reopen = format!("{}/reopen", path(&id));
        let call = if by_patch {
            c.patch(&path(&id), json!({"status": "active"}))
        } else {
            c.call("POST", &reopen)
        };
        call.await.expect(200);
        let expected = [
            "conversation.created",
            "conversation.closed",
            "conversation.updated",
        ];
        assert_eq!(kinds(&c, &id).await, expected);
        let change = last(&c, &id).await["data"]["changes"]["status"].clone();
        assert_eq!(change, json!({"from": "closed", "to": "active"}));
        c.call("POST", &reopen).await.expect(200);
        assert_eq!(
            kinds(&c, &id).await.len(),
            3,
            "reopening an open one emits nothing"
        );
    }
}

#[tokio::test]
async fn what_changes_nothing_emits_nothing() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for body in [
        json!({}),
        json!({"status": "active"}),
        json!({"priority": "normal"}),
        json!({"metadata": {"no": null}}),
    ] {
        c.patch(&path(&id), body).await.expect(200);
    }
    let at = c.message(&id, "same").await.header("location").to_owned();
    c.patch(&at, json!({"content": "same"})).await.expect(200);
    c.patch(&at, json!({})).await.expect(200);
    let stale = c
        .patch(&path(&id), json!({"priority": "low"}))
        .with("if-match", "\"stale\"")
        .await;
    stale.expect(412);
    c.patch(&path(&id), json!({"priority": "urgent"}))
        .await
        .expect(400);
    c.get(&path(&id)).await.expect(200);
    assert_eq!(
        kinds(&c, &id).await,
        ["conversation.created", "message.created"]
    );
    let create = || {
        c.post(
            &format!("{}/messages", path(&id)),
            json!({"content": "once"}),
        )
        .with("idempotency-key", "k")
    };
    create().await.expect(201);
    create().await.expect(201);
    assert_eq!(kinds(&c, &id).await.len(), 3, "a replay emits nothing");
}

#[tokio::test]
async fn editing_and_redacting_emit_message_updated_once_each() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let at = c.message(&id, "first").await.header("location").to_owned();
    c.patch(&at, json!({"content": "second"})).await.expect(200);
    let edited = last(&c, &id).await;
    assert_eq!(edited["event"], "message.updated");
    assert_eq!(edited["data"]["content"], "second");
    assert!(edited["data"]["edited_at"].is_string());
    close(&c, &id).await;
    c.delete(&at).await.expect(204);
    let redacted = last(&c, &id).await;
    assert_eq!(redacted["event"], "message.updated");
    assert_eq!(
        (&redacted["data"]["content"], &redacted["data"]["redacted"]),
        (&json!(""), &json!(true))
    );
    c.delete(&at).await.expect(204);
    let expected = [
        "conversation.created",
        "message.created",
        "message.updated",
        "conversation.closed",
        "message.updated",
    ];
    assert_eq!(kinds(&c, &id).await, expected);
}

#[tokio::test]
async fn each_change_stands_with_from_and_to() {
    let (_account, c) = account_with_client().await;
    let (id, user) = (c.conversation().await, c.user("agent").await);
    let steps = [
        (
            json!({"assignee_id": user}),
            json!({"assignee_id": {"from": null, "to": user}}),
        ),
        (
            json!({"assignee_id": null}),
            json!({"assignee_id": {"from": user, "to": null}}),
        ),
        (
            json!({"channel": "email"}),
            json!({"channel": {"from": "chat", "to": "email"}}),
        ),
        (
            json!({"metadata": {"a": 1}}),
            json!({"metadata": {"from": {}, "to": {"a": 1}}}),
        ),
        (
            json!({"status": "pending"}),
            json!({"status": {"from": "active", "to": "pending"}}),
        ),
    ];
    for (body, changes) in steps {
        c.patch(&path(&id), body).await.expect(200);
        let event = last(&c, &id).await;
        assert_eq!(event["event"], "conversation.updated");
        assert_eq!(event["data"]["changes"], changes);
    }
    let body = json!({"priority": "low", "channel": "voice"});
    c.patch(&path(&id), body).await.expect(200);
    assert_eq!(
        keys(&last(&c, &id).await["data"]["changes"]),
        ["channel", "priority"],
        "one event for one PATCH"
    );
    assert_eq!(log(&c, &id).await.len(), 7);
}

#[tokio::test]
async fn deleting_a_user_emits_updated_for_each_of_its_conversations() {
    let (_account, c) = account_with_client().await;
    let (customer, user) = (c.customer().await, c.user("agent").await);
    let (mut assigned, other) = (Vec::new(), c.conversation_of(&customer).await);
    for _ in 0..3 {
        let id = c.conversation_of(&customer).await;
        c.patch(&path(&id), json!({"assignee_id": user}))
            .await
            .expect(200);
        assigned.push(id);
    }
    c.delete(&format!("/v1/users/{user}")).await.expect(204);
    for id in &assigned {
        let event = until(
            "the conversation's own event follows",
            Duration::from_secs(10),
            async || log(&c, id).await.get(2).cloned(),
        );
        let event = event.await;
        assert_eq!(event["event"], "conversation.updated");
        assert_eq!(
            event["data"]["changes"],
            json!({"assignee_id": {"from": user, "to": null}})
        );
        assert!(event["data"]["assignee_id"].is_null());
        assert_eq!(log(&c, id).await.len(), 3);
    }
    assert_eq!(kinds(&c, &other).await, ["conversation.created"]);
}

#[tokio::test]
async fn events_count_without_a_gap_under_concurrent_writers() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    let writes = (0..40).map(|n| {
        let (c, id) = (&c, &id);
        async move {
            if n % 4 == 0 {
                c.patch(&path(id), json!({"metadata": {"n": n}}))
                    .await
                    .expect(200);
            } else {
                c.message(id, &format!("{n}")).await;
            }
        }
    });
    futures_util::future::join_all(writes).await;
    let events = log(&c, &id).await;
    assert_eq!(seqs(&events), (1..=41).collect::<Vec<u64>>());
    let messages: Vec<u64> = events
        .iter()
        .filter(|event| event["event"] == "message.created")
        .map(|event| event["data"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(messages, (1..=30).collect::<Vec<u64>>());
    let mut ids: Vec<&str> = events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 41, "an id is never used twice");
    let all = c.get("/v1/events?limit=100").await.expect(200);
    assert_eq!(
        all.data(),
        &events,
        "the account's log has the same events in the same order"
    );
}

#[tokio::test]
async fn list_stream_socket_and_webhook_show_the_same_bytes() {
    let (_account, c) = account_with_deliveries().await;
    let receiver = Receiver::start().await;
    c.post(
        "/v1/webhooks",
        json!({"url": receiver.url(), "events": ["*"]}),
    )
    .await
    .expect(201);
    let customer = c.customer().await;
    let body = json!({"customer_id": customer, "metadata": {"z": 1.0, "a": "é \u{2028} \"<&>\" 🎈", "n": 12_345_678_901_234.5}});
    let id = c
        .post("/v1/conversations", body)
        .await
        .expect(201)
        .id("conversation_id");
    c.message(&id, "Zeile 1\nZeile 2 / \u{7f} ünï").await;
    close(&c, &id).await;
    let listed = c.get(&format!("{}/events", path(&id))).await.expect(200);
    let listed = String::from_utf8(listed.bytes).unwrap();
    let all = String::from_utf8(c.get("/v1/events").await.expect(200).bytes).unwrap();
    let mut stream = EventStream::open(c.get(&format!("{}/events?after=0", path(&id)))).await;
    let mut socket = Socket::open(&c).await;
    socket.subscribe(json!(id), Some(json!(0))).await;
    let deliveries = receiver.wait_for(3).await;
    for delivery in &deliveries[..3] {
        let body = &delivery.body;
        assert!(
            listed.contains(body.as_str()),
            "the conversation's list shows other bytes than {body}"
        );
        assert!(
            all.contains(body.as_str()),
            "the account's list shows other bytes than {body}"
        );
        assert_eq!(&stream.event().await.data, body);
        let frame = socket.try_hear_text().await.unwrap();
        assert!(
            frame.contains(body.as_str()),
            "the socket shows other bytes: {frame} than {body}"
        );
    }
}

#[tokio::test]
async fn links_lead_through_the_log_and_a_poller_goes_on_from_its_end() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for n in 0..6 {
        c.message(&id, &format!("{n}")).await;
    }
    for list in ["/v1/events".to_owned(), format!("{}/events", path(&id))] {
        let whole = c
            .get(&format!("{list}?limit=100"))
            .await
            .expect(200)
            .data()
            .clone();
        let (mut seen, mut next) = (Vec::new(), format!("{list}?limit=3"));
        loop {
            let page = c.get(&next).await.expect(200);
            assert_eq!(keys(&page.body), ["data", "meta"]);
            assert_eq!(page["meta"]["offset"], 0);
            assert_eq!(page["meta"]["limit"], 3);
            assert_eq!(
                page.total(),
                (whole.len() - seen.len()) as u64,
                "what follows the cursor, this page included"
            );
            seen.extend(page.data().clone());
            next = page.link("next").expect("a link to next on every page");
            assert!(next.contains("limit=3"), "{next}");
            if page.data().is_empty() {
                break;
            }
        }
        assert_eq!(seen, whole);
        c.message(&id, "later").await;
        let later = c.get(&next).await.expect(200);
        assert_eq!((later.total(), later.data().len()), (1, 1), "{later}");
        assert_eq!(later["data"][0]["data"]["content"], "later");
    }
}

#[tokio::test]
async fn an_empty_log_has_a_next_too() {
    let (_account, c) = account_with_client().await;
    let empty = c.get("/v1/events").await.expect(200);
    assert_eq!(
        empty.body,
        json!({"data": [], "meta": {"total": 0, "limit": 20, "offset": 0}})
    );
    let next = empty.link("next").expect("a poller must be able to begin");
    let id = c.conversation().await;
    let page = c.get(&next).await.expect(200);
    assert_eq!(page.data().len(), 1);
    assert_eq!(page["data"][0]["data"]["conversation_id"], id.as_str());
}

#[tokio::test]
async fn after_is_the_seq_for_a_conversation_and_0_is_the_beginning() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for n in 0..4 {
        c.message(&id, &format!("{n}")).await;
    }
    let list = format!("{}/events", path(&id));
    for (after, expected) in [(0, vec![1, 2, 3, 4, 5]), (2, vec![3, 4, 5]), (5, vec![])] {
        let page = c.get(&format!("{list}?after={after}")).await.expect(200);
        assert_eq!(
            (seqs(page.data()), page.total()),
            (expected.clone(), expected.len() as u64),
            "after={after}"
        );
    }
    assert_eq!(c.get("/v1/events?after=0").await.expect(200).total(), 5);
    let first = c.get("/v1/events?limit=2").await.expect(200);
    let rest = c.get(&first.link("next").unwrap()).await.expect(200);
    assert_eq!((seqs(rest.data()), rest.total()), (vec![3, 4], 3));
}

/// Three conversations: one of each channel, one of them assigned after its first message.
async fn mixed(c: &Client) -> (String, [String; 3]) {
    let (customer, user) = (c.customer().await, c.user("agent").await);
    let mut ids = Vec::new();
    for channel in ["chat", "email", "email"] {
        let body = json!({"customer_id": customer, "channel": channel});
        ids.push(
            c.post("/v1/conversations", body)
                .await
                .expect(201)
                .id("conversation_id"),
        );
    }
    for id in &ids {
        c.message(id, "before").await;
    }
    c.patch(&path(&ids[2]), json!({"assignee_id": user}))
        .await
        .expect(200);
    for id in &ids {
        c.message(id, "after").await;
    }
    (user, ids.try_into().unwrap())
}

#[tokio::test]
async fn filters_alone_and_together_give_what_matches_and_its_total() {
    let (_account, c) = account_with_client().await;
    let (user, _) = mixed(&c).await;
    for (query, total) in [
        (String::new(), 10),
        ("event=message.created".to_owned(), 6),
        ("event=conversation.created".to_owned(), 3),
        ("event=conversation.closed".to_owned(), 0),
        ("channel=email".to_owned(), 7),
        ("channel=chat".to_owned(), 3),
        ("channel=voice".to_owned(), 0),
        (format!("assignee_id={user}"), 2),
        ("channel=email&event=message.created".to_owned(), 4),
        (format!("assignee_id={user}&event=message.created"), 1),
        (format!("assignee_id={user}&channel=chat"), 0),
        (
            format!("assignee_id={user}&channel=email&event=conversation.updated"),
            1,
        ),
    ] {
        let page = c
            .get(&format!("/v1/events?{query}&limit=100"))
            .await
            .expect(200);
        assert_eq!(
            (page.total(), page.data().len() as u64),
            (total, total),
            "{query}: {page}"
        );
    }
}

#[tokio::test]
async fn filters_hold_for_one_conversation_and_through_links() {
    let (_account, c) = account_with_client().await;
    let (user, [_, _, assigned]) = mixed(&c).await;
    let list = format!("{}/events", path(&assigned));
    for (query, expected) in [
        ("event=message.created".to_owned(), vec![2, 4]),
        (format!("assignee_id={user}"), vec![3, 4]),
        (
            format!("assignee_id={user}&event=message.created&channel=email"),
            vec![4],
        ),
        ("channel=chat".to_owned(), vec![]),
        ("event=message.created&after=2".to_owned(), vec![4]),
    ] {
        let page = c.get(&format!("{list}?{query}")).await.expect(200);
        assert_eq!(
            (seqs(page.data()), page.total()),
            (expected.clone(), expected.len() as u64),
            "{query}"
        );
    }
    let (mut seen, mut next) = (
        Vec::new(),
        "/v1/events?event=message.created&channel=email&limit=1".to_owned(),
    );
    for left in (0..=4).rev() {
        let page = c.get(&next).await.expect(200);
        assert_eq!(page.total(), left, "{next}");
        seen.extend(page.data().clone());
        next = page.link("next").unwrap();
    }
    assert_eq!(seen.len(), 4);
    assert!(
        seen.iter().all(|event| event["event"] == "message.created"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn bad_cursors_filters_and_limits_are_refused_naming_the_parameter() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let stranger = crate::support::account().await.test().user("agent").await;
    for list in ["/v1/events".to_owned(), format!("{}/events", path(&id))] {
        for (query, field) in [
            ("limit=0".to_owned(), "limit"),
            ("limit=101".to_owned(), "limit"),
            ("limit=ten".to_owned(), "limit"),
            ("after=nonsense!".to_owned(), "after"),
            ("after=".to_owned(), "after"),
            ("after=-1".to_owned(), "after"),
            (format!("after={}", "9".repeat(40)), "after"),
            (format!("after={id}"), "after"),
            ("before=1".to_owned(), "before"),
            ("event=message.deleted".to_owned(), "event"),
            ("event=".to_owned(), "event"),
            ("channel=fax".to_owned(), "channel"),
            ("assignee_id=nobody".to_owned(), "assignee_id"),
            (format!("assignee_id={stranger}"), "assignee_id"),
            ("colour=red".to_owned(), "colour"),
            ("limit=5&limit=6".to_owned(), "limit"),
        ] {
            c.get(&format!("{list}?{query}"))
                .await
                .error(400, "invalid_request", field);
        }
    }
}

#[tokio::test]
async fn modes_and_accounts_are_kept_apart() {
    let account = account().await;
    let (test, live, stranger) = (
        account.test(),
        account.live(),
        crate::support::account().await.test(),
    );
    let (in_test, in_live) = (test.conversation().await, live.conversation().await);
    for (c, own, foreign) in [(&test, &in_test, &in_live), (&live, &in_live, &in_test)] {
        let all = c.get("/v1/events").await.expect(200);
        assert_eq!((all.total(), all.data().len()), (1, 1), "{all}");
        assert_eq!(all["data"][0]["data"]["conversation_id"], own.as_str());
        c.get(&format!("{}/events", path(foreign)))
            .await
            .error(404, "not_found", "*");
    }
    assert_eq!(stranger.get("/v1/events").await.expect(200).total(), 0);
    stranger
        .get(&format!("{}/events", path(&in_test)))
        .await
        .error(404, "not_found", "*");
    let unknown = "/v1/conversations/conv_0190163d8694739b85d52d5e4a4d6d5f/events";
    test.get(unknown).await.error(404, "not_found", "*");
}

#[tokio::test]
async fn reading_events_goes_with_reading_conversations() {
    let account = account().await;
    let id = account.live().conversation().await;
    let own = account.test().conversation().await;
    let reader = account.read();
    assert_eq!(reader.get("/v1/events").await.expect(200).total(), 1);
    assert_eq!(
        reader
            .get(&format!("{}/events", path(&id)))
            .await
            .expect(200)
            .total(),
        1
    );
    let (scoped, _) = account
        .key(json!({"type": "test", "scopes": ["conversations:read"]}))
        .await;
    assert_eq!(scoped.get("/v1/events").await.expect(200).total(), 1);
    assert_eq!(
        scoped
            .get(&format!("{}/events", path(&own)))
            .await
            .expect(200)
            .total(),
        1
    );
    let (other, _) = account
        .key(json!({"type": "test", "scopes": ["documents:read", "webhooks:manage"]}))
        .await;
    other.get("/v1/events").await.error(403, "forbidden", "*");
    other
        .get(&format!("{}/events", path(&own)))
        .await
        .error(403, "forbidden", "*");
    account
        .anonymous()
        .get("/v1/events")
        .await
        .error(401, "unauthorized", "");
    account
        .test()
        .post("/v1/events", json!({}))
        .await
        .error(405, "method_not_allowed", "");
}

#[tokio::test]
async fn redaction_erases_the_text_from_stored_events() {
    let (_account, c) = account_with_client().await;
    let (id, text, metadata) = (c.conversation().await, unique("Geheim"), unique("Karte"));
    let body = json!({"content": text, "metadata": {"card": metadata}});
    let at = c
        .post(&format!("{}/messages", path(&id)), body)
        .await
        .expect(201)
        .header("location")
        .to_owned();
    let edited = unique("Zweit");
    c.patch(&at, json!({"content": edited})).await.expect(200);
    let before = log(&c, &id).await;
    c.delete(&at).await.expect(204);
    let shown =
        async |path: String| String::from_utf8(c.get(&path).await.expect(200).bytes).unwrap();
    for list in ["/v1/events".to_owned(), format!("{}/events", path(&id))] {
        let text_of_list = shown(list).await;
        for secret in [&text, &metadata, &edited] {
            assert!(
                !text_of_list.contains(secret.as_str()),
                "{secret} is still in {text_of_list}"
            );
        }
    }
    let after = log(&c, &id).await;
    assert_eq!(after.len(), before.len() + 1, "no event is taken away");
    for (then, now) in before.iter().zip(&after) {
        assert_eq!(
            (&then["id"], &then["seq"], &then["created_at"]),
            (&now["id"], &now["seq"], &now["created_at"])
        );
    }
    assert_eq!(after[1]["data"]["content"], "");
    assert_eq!(after[1]["data"]["metadata"], json!({}));
    assert_eq!(after[1]["data"]["redacted"], true);
    let mut stream = EventStream::open(c.get("/v1/events?after=0")).await;
    for _ in 0..after.len() {
        let event = stream.event().await;
        assert!(
            [&text, &metadata, &edited]
                .iter()
                .all(|secret| !event.data.contains(secret.as_str())),
            "{event:?}"
        );
    }
}

#[tokio::test]
async fn events_survive_kill_9_with_their_bytes_and_their_cursors() {
    let mut server = Server::start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let id = c.conversation().await;
    for n in 0..5 {
        c.message(&id, &format!("{n}")).await;
    }
    let before = c.get("/v1/events").await.expect(200);
    let next = c
        .get("/v1/events?limit=4")
        .await
        .expect(200)
        .link("next")
        .unwrap();
    server.restart();
    let c = server.with_key(&key);
    assert_eq!(c.get("/v1/events").await.expect(200).bytes, before.bytes);
    assert_eq!(seqs(c.get(&next).await.expect(200).data()), [5, 6]);
    c.message(&id, "after the crash").await;
    assert_eq!(last(&c, &id).await["seq"], 7);
}

/// A server that keeps events for about six seconds, with a conversation that has one event.
async fn forgetful() -> (Server, Account, Client, String) {
    let server = Setup::default()
        .env("COLLOQUY__EVENTS__RETENTION_DAYS", "0.00007")
        .start();
    let account = server.account().await;
    let c = account.test();
    let id = c.conversation().await;
    (server, account, c, id)
}

#[tokio::test]
async fn what_retention_has_trimmed_is_410_for_a_cursor_before_it() {
    let (_server, _account, c, id) = forgetful().await;
    let first = c
        .get("/v1/events?limit=1")
        .await
        .expect(200)
        .link("next")
        .unwrap();
    c.message(&id, "trimmed too").await;
    let end = c.get(&first).await.expect(200).link("next").unwrap();
    let expired = until("the log is trimmed", Duration::from_secs(30), async || {
        let answer = c.get(&first).await;
        (answer.status != 200).then_some(answer)
    });
    expired.await.error(410, "cursor_expired", "after");
    let list = format!("{}/events", path(&id));
    c.get(&format!("{list}?after=1"))
        .await
        .error(410, "cursor_expired", "after");
    let stream = EventStream::try_open(c.get(&format!("{list}?after=1")))
        .await
        .unwrap();
    assert_eq!(stream.status(), 410);
    let resumed = EventStream::try_open(c.get(&list).with("last-event-id", "1"))
        .await
        .unwrap();
    assert_eq!(resumed.status(), 410);
    assert_eq!(
        c.get(&list).await.expect(200).total(),
        0,
        "without a cursor it begins with what is there"
    );
    assert_eq!(
        c.get(&end).await.expect(200).total(),
        0,
        "nothing that follows this cursor was trimmed"
    );
    c.message(&id, "the count goes on").await;
    let page = c.get(&format!("{list}?after=2")).await.expect(200);
    assert_eq!(seqs(page.data()), [3], "{page}");
}

#[tokio::test]
async fn a_bad_retention_stops_the_start() {
    let folder = crate::support::server::Folder::new();
    let setup = Setup::default().env("COLLOQUY__EVENTS__RETENTION_DAYS", "-1");
    let (status, said) = setup.refused_in(&folder.work());
    assert!(
        !status.success() && said.contains("retention_days") && said.contains("-1"),
        "{said}"
    );
}

#[tokio::test]
async fn a_list_of_events_answers_head_and_if_none_match() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for list in ["/v1/events".to_owned(), format!("{}/events", path(&id))] {
        let page = c.get(&list).await.expect(200);
        let tag = page.etag();
        assert!(tag.starts_with("W/"), "{page}");
        let head = c.call("HEAD", &list).await.expect(200);
        assert_eq!((head.etag(), head.bytes.len()), (tag.clone(), 0));
        c.get(&list).with("if-none-match", &tag).await.expect(304);
    }
}
