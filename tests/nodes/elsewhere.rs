//! What one node did, as another one meets it that had not heard of the entity, or had it in memory
//! as it was before.

use serde_json::json;

use super::nodes;
use crate::support::Socket;

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
