//! What one node acknowledged, and several nodes that write at once.

use serde_json::{Value, json};

use super::nodes;
use crate::support::{Client, Receiver};

#[tokio::test]
async fn what_one_node_acknowledged_every_other_shows() {
    let nodes = nodes(2);
    let [a, b] = &nodes[..] else { unreachable!() };
    let account = a.account().await;
    let (on_a, on_b) = (account.test(), account.test().at(&b.address()));
    let customer = on_a
        .post("/v1/customers", json!({"name": "Ada"}))
        .await
        .expect(201)
        .id("customer_id");
    let conversation = on_b
        .post(
            "/v1/conversations",
            json!({"customer_id": customer, "channel": "chat"}),
        )
        .await
        .expect(201)
        .id("conversation_id");
    let path = format!("/v1/conversations/{conversation}");
    let messages = format!("{path}/messages");
    for number in 0..20 {
        let (writer, reader) = if number % 2 == 0 {
            (&on_a, &on_b)
        } else {
            (&on_b, &on_a)
        };
        let text = json!({"content": format!("number {number}"), "sender_type": "system"});
        let sent = writer.post(&messages, text).await.expect(201);
        assert_eq!(sent["seq"], number + 1, "{sent}");
        let read = reader.get(&path).await.expect(200);
        assert_eq!(read["message_count"], number + 1, "{read}");
        let list = reader.get(&messages).await.expect(200);
        assert_eq!(list.total(), number + 1);
        let listed = reader.get("/v1/conversations").await.expect(200);
        assert_eq!(listed["data"][0]["message_count"], number + 1, "{listed}");
    }
    let key = json!({"type": "test", "name": "to be revoked"});
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let key = a.operator().post(&keys, key).await.expect(201);
    let on_b = b.with_key(key["key"].as_str().unwrap());
    on_b.get("/v1/conversations").await.expect(200);
    let revoke = format!("/admin/v1/keys/{}", key["key_id"].as_str().unwrap());
    a.operator().delete(&revoke).await.expect(204);
    on_b.get("/v1/conversations").await.expect(401);
}

#[tokio::test]
async fn two_nodes_that_write_to_one_conversation_at_once_lose_and_double_nothing() {
    const WRITERS: usize = 4;
    const EACH: usize = 15;
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let on = [account.test(), account.test().at(&nodes[1].address())];
    let conversation = on[0].conversation().await;
    let messages = format!("/v1/conversations/{conversation}/messages");
    let writers = (0..WRITERS).map(|writer| {
        let (on, messages) = (on.clone(), messages.clone());
        async move {
            for number in 0..EACH {
                let text = format!("{writer}.{number}");
                let body = json!({"content": text, "sender_type": "system"});
                // The same key at both, one behind the other: one message.
                let first = &on[(writer + number) % 2];
                let second = &on[(writer + number + 1) % 2];
                let sent = first.post(&messages, body.clone());
                let sent = sent.with("idempotency-key", &text).await.expect(201);
                let again = second.post(&messages, body);
                let again = again.with("idempotency-key", &text).await.expect(201);
                assert_eq!(sent.body, again.body, "one key, one answer");
            }
        }
    });
    futures_util::future::join_all(writers).await;
    let path = format!("{messages}?limit=100");
    for on in &on {
        let list = on.get(&path).await.expect(200);
        assert_eq!(list.total(), (WRITERS * EACH) as u64);
        let rows = list["data"].as_array().unwrap();
        let sequences: Vec<_> = rows
            .iter()
            .map(|row| row["seq"].as_u64().unwrap())
            .collect();
        let gapless: Vec<_> = (1..=(WRITERS * EACH) as u64).collect();
        assert_eq!(sequences, gapless);
    }
}

/// One node has answered and its answer was lost on the way: what the same request meets at another
/// one says nothing of it.
#[tokio::test]
async fn a_repeated_request_gets_its_first_answer_at_another_node_whatever_has_changed_since() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let (client, at_other) = (account.test(), account.test().at(&nodes[1].address()));
    let receiver = Receiver::start().await;
    // Nothing of this happens: what comes is the sample alone.
    let hook = json!({"url": receiver.url(), "events": ["message.updated"]});
    let hook = client.post("/v1/webhooks", hook).await.expect(201);
    let conversation = client.conversation().await;
    let below = |path: &str| format!("/v1/conversations/{conversation}/{path}");
    let by_agent = json!({"content": "still open", "sender_type": "agent"});
    let of_many = json!({"operations": [{
        "op": "message", "conversation_id": conversation, "body": by_agent,
    }]});
    let asked = [
        (below("messages"), by_agent.clone()),
        ("/v1/conversations/bulk".to_owned(), of_many),
        (
            format!("/v1/webhooks/{}/test", hook.id("webhook_id")),
            json!({}),
        ),
        (below("close"), json!({"reason": "done"})),
    ];
    let ask = async |client: &Client, (path, body): &(String, Value), tag: Option<&str>| {
        let call = client.post(path, body.clone());
        let call = call.with("idempotency-key", path);
        match tag {
            Some(tag) => call.with("if-match", tag).await,
            None => call.await,
        }
    };
    let mut answered = Vec::new();
    for request in &asked {
        let tag = match request.0.strip_suffix("/close") {
            Some(conversation) => Some(client.get(conversation).await.etag()),
            None => None,
        };
        let answer = ask(&client, request, tag.as_deref()).await;
        assert!([200, 201].contains(&answer.status), "{answer}");
        answered.push((request, tag, answer));
    }
    for (request, tag, first) in &answered {
        let again = ask(&at_other, request, tag.as_deref()).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    assert_eq!(receiver.received().len(), 1, "the sample was sent once");
    let list = at_other.get(&below("messages")).await.expect(200);
    assert_eq!(list.total(), 2);
}
