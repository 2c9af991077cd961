//! What one node did, as another one meets it that had not heard of the entity, or had it in memory
//! as it was before.

use serde_json::json;

use super::nodes;
use crate::support::{Client, Person, Socket};

#[tokio::test]
async fn what_was_deleted_for_good_at_one_node_is_404_at_every_other() {
    let mut nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let document = client.document("to be deleted\n").await;
    let customer = format!("/v1/customers/{}", client.customer().await);
    let user = json!({"name": "Ada", "email": "ada@example.org", "role": "agent"});
    let user = client.post("/v1/users", user).await.expect(201);
    let user = format!("/v1/users/{}", user.id("user_id"));
    let hook = json!({"url": "https://example.com/hook", "events": ["message.created"]});
    let hook = client.post("/v1/webhooks", hook).await.expect(201);
    let hook = format!("/v1/webhooks/{}", hook.id("webhook_id"));
    for path in [&customer, &user, &hook] {
        client.delete(path).await.expect(204);
    }
    let for_good = format!("{document}?permanent=true");
    client.delete(&for_good).await.expect(204);
    nodes[0].restart();
    for node in &nodes {
        let at = client.at(&node.address());
        for path in [&customer, &user, &hook, &document] {
            at.get(path).await.error(404, "not_found", "*");
            at.delete(path).await.error(404, "not_found", "*");
        }
    }
}

#[tokio::test]
async fn a_session_at_the_console_begins_and_ends_at_every_node() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let here = Person::user(&account, "agent").await;
    let elsewhere = Person::stranger(&nodes[1]).with_cookie(here.cookie.clone());
    elsewhere.get("/console/inbox").await.expect(200);
    elsewhere
        .post("/console/session/end", &[])
        .await
        .expect(303);
    here.get("/console/inbox").await.expect(303);

    let deleted = Person::user(&account, "agent").await;
    let elsewhere = Person::stranger(&nodes[1]).with_cookie(deleted.cookie.clone());
    elsewhere.get("/console/inbox").await.expect(200);
    let owner = account.live();
    for user in [here.user, deleted.user] {
        owner.delete(&format!("/v1/users/{user}")).await.expect(204);
    }
    elsewhere.get("/console/inbox").await.expect(303);
}

#[tokio::test]
async fn a_socket_sends_to_a_conversation_that_another_node_has_changed() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let conversation = client.conversation().await;
    let mut socket = Socket::open(&client).await;
    let at_other = client.at(&nodes[1].address());
    for turn in 0..4_u64 {
        at_other.message(&conversation, "from elsewhere").await;
        let frame = json!({
            "type": "send", "ref": turn.to_string(), "conversation_id": conversation,
            "message": {"content": "by a socket"},
        });
        socket.say(frame).await;
        let answer = socket.hear().await;
        assert_eq!(answer["type"], "ack", "{answer}");
        assert_eq!(answer["message"]["seq"], 2 * turn + 2, "{answer}");
    }
}

#[tokio::test]
async fn operations_of_a_bulk_are_done_on_what_another_node_has_changed() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let conversation = client.conversation().await;
    let at_other = client.at(&nodes[1].address());
    let operation = json!({
        "op": "message", "conversation_id": conversation, "body": {"content": "one of many"},
    });
    for key in [None, Some("bulk-1"), Some("bulk-2")] {
        at_other.message(&conversation, "from elsewhere").await;
        let operations = json!({"operations": [operation, operation]});
        let bulk = client.post("/v1/conversations/bulk", operations.clone());
        let bulk = match key {
            Some(key) => bulk.with("idempotency-key", key),
            None => bulk,
        };
        let done = bulk.await.expect(200);
        let statuses: Vec<u64> = done
            .data()
            .iter()
            .map(|it| it["status"].as_u64().unwrap())
            .collect();
        assert_eq!(statuses, [201, 201], "{done}");
        if let Some(key) = key {
            let again = at_other.post("/v1/conversations/bulk", operations);
            let again = again.with("idempotency-key", key).await.expect(200);
            assert_eq!(again.data(), done.data());
        }
    }
    let path = format!("/v1/conversations/{conversation}/messages");
    assert_eq!(client.get(&path).await.expect(200).total(), 9);
}

#[tokio::test]
async fn a_search_at_any_node_knows_what_was_acknowledged_at_another() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let at_other = client.at(&nodes[1].address());
    let found = async |client: &Client| {
        let page = client.get("/api/v1/documents?q=quokka").await.expect(200);
        (page.total(), page.data().len())
    };
    for count in 1..=5 {
        client.document("The quokka smiles.\n").await;
        assert_eq!(found(&at_other).await, (count, count as usize));
    }
    let last = at_other.document("Another quokka.\n").await;
    assert_eq!(found(&client).await, (6, 6));
    at_other.delete(&last).await.expect(204);
    assert_eq!(found(&client).await, (5, 5));
    client
        .post(&format!("{last}/restore"), json!({}))
        .await
        .expect(200);
    assert_eq!(found(&at_other).await, (6, 6));
}

#[tokio::test]
async fn a_search_for_conversations_at_any_node_knows_what_was_acknowledged_at_another() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let at_other = client.at(&nodes[1].address());
    let found = async |client: &Client, q: &str| {
        let path = format!("/v1/conversations?q={q}");
        client.get(&path).await.expect(200).total()
    };
    let customer = client.customer().await;
    let conversation = client.conversation_of(&customer).await;
    for count in 1..=5 {
        let word = format!("quokka{count}");
        client.message(&conversation, &word).await.expect(201);
        assert_eq!(found(&at_other, &word).await, 1);
    }
    at_other
        .patch(
            &format!("/v1/customers/{customer}"),
            json!({"name": "Bettong"}),
        )
        .await
        .expect(200);
    assert_eq!(found(&client, "bettong").await, 1);
    assert_eq!(found(&at_other, "bettong").await, 1);
    let close = format!("/v1/conversations/{conversation}/close");
    client.call("POST", &close).await.expect(200);
    assert_eq!(found(&at_other, "quokka1&status=closed").await, 1);
    assert_eq!(found(&at_other, "quokka1&status=active").await, 0);
}
