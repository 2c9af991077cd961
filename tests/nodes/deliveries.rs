//! Deliveries asked at a node that does not deliver: its answers are those of the node that does,
//! which acts on what was asked at once. Each is asked at every node in turn, so that one of them is
//! not the one that delivers.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{SLACK, nodes};
use crate::support::{Client, Receiver, Server, sized, until};

/// An account's endpoint at a receiver, as it is reached through each node.
struct Endpoint {
    /// The account at each node.
    at: Vec<Client>,
    receiver: Receiver,
    /// The path of the endpoint.
    path: String,
    conversation: String,
}

impl Endpoint {
    async fn at(nodes: &[Server]) -> Self {
        let account = nodes[0].account().await;
        let at = |node: &Server| account.test().at(&node.address());
        let at: Vec<Client> = nodes.iter().map(at).collect();
        let receiver = Receiver::start().await;
        let hook = json!({"url": receiver.url(), "events": ["message.created"]});
        let made = at[0].post("/v1/webhooks", hook).await.expect(201);
        Endpoint {
            path: format!("/v1/webhooks/{}", made.id("webhook_id")),
            conversation: at[0].conversation().await,
            receiver,
            at,
        }
    }

    fn deliveries(&self) -> String {
        format!("{}/deliveries", self.path)
    }

    /// The deliveries in this state, newest first, as they are shown at this node.
    async fn listed(&self, at: &Client, state: &str) -> Vec<Value> {
        let path = format!("{}?status={state}", self.deliveries());
        let list = at.get(&path).await.expect(200);
        list.data().clone()
    }
}

#[tokio::test]
async fn every_node_lists_the_deliveries_of_what_any_acknowledged() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    for round in 0..6 {
        let (writer, reader) = (&endpoint.at[round % 2], &endpoint.at[round / 2 % 2]);
        writer
            .message(&endpoint.conversation, &format!("{round}"))
            .await;
        let list = reader.get(&endpoint.deliveries()).await.expect(200);
        assert_eq!(list.total(), round as u64 + 1, "round {round}");
    }
    for at in &endpoint.at {
        until("all are delivered", SLACK, async || {
            (endpoint.listed(at, "delivered").await.len() == 6).then_some(())
        })
        .await;
    }
    let listed = endpoint.listed(&endpoint.at[0], "delivered").await;
    for delivery in listed {
        let path = format!(
            "{}/{}",
            endpoint.deliveries(),
            delivery["delivery_id"].as_str().unwrap()
        );
        let first = endpoint.at[0].get(&path).await.expect(200);
        let second = endpoint.at[1].get(&path).await.expect(200);
        assert_eq!((first.etag(), &first.body), (second.etag(), &second.body));
        let attempts = first["attempt_log"].as_array().unwrap().len();
        assert_eq!(attempts as u64, first["attempts"].as_u64().unwrap());
    }
}

#[tokio::test]
async fn a_delivery_is_sent_again_at_once_whichever_node_is_asked() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    endpoint.at[0]
        .message(&endpoint.conversation, "again")
        .await;
    endpoint.receiver.wait_for(1).await;
    let listed = until("it is delivered", SLACK, async || {
        endpoint.listed(&endpoint.at[1], "delivered").await.pop()
    })
    .await;
    let delivery = listed["delivery_id"].as_str().unwrap();
    let path = format!("{}/{delivery}", endpoint.deliveries());
    for (round, at) in endpoint.at.iter().enumerate() {
        let retry = || {
            at.post(&format!("{path}/retry"), json!({}))
                .with("idempotency-key", &format!("again {round}"))
        };
        let accepted = retry().await.expect(202);
        assert_eq!(accepted["status"], "pending", "{accepted}");
        let received = endpoint.receiver.wait_for(2 + round).await;
        assert_eq!(
            received[0].header("webhook-id"),
            received[1 + round].header("webhook-id")
        );
        // The same key is known at both nodes.
        for at in &endpoint.at {
            let again = at
                .post(&format!("{path}/retry"), json!({}))
                .with("idempotency-key", &format!("again {round}"));
            assert_eq!(again.await.expect(202).body, accepted.body);
        }
        until("it is written", SLACK, async || {
            let shown = at.get(&path).await.expect(200);
            let attempts = shown["attempts"].as_u64().unwrap();
            (attempts == 2 + round as u64 && shown["status"] == "delivered").then_some(())
        })
        .await;
        assert_eq!(endpoint.receiver.count(), 2 + round);
    }
    for at in &endpoint.at {
        let unknown = format!("{}/retry", path.replace(&delivery[4..12], "00000000"));
        at.post(&unknown, json!({}))
            .await
            .error(404, "not_found", "*");
    }
}

/// Asks the same of every node at one instant, under one key: one of them does it, and in the end
/// all give the one answer.
async fn asked_everywhere_at_once(endpoint: &Endpoint, path: &str, key: &str) {
    let ask = |at: &Client| {
        let asked = at.post(path, json!({}));
        asked.with("idempotency-key", key).into_future()
    };
    let answers = join_all(endpoint.at.iter().map(ask)).await;
    let mut accepted = Vec::new();
    for answer in answers {
        let is_running = answer.body["error"]["code"] == "idempotency_in_progress";
        assert!(answer.status == 202 || is_running, "{answer}");
        accepted.extend((answer.status == 202).then_some(answer.body));
    }
    assert!(!accepted.is_empty(), "one of them has done it");
    for at in &endpoint.at {
        accepted.push(ask(at).await.expect(202).body);
    }
    accepted.dedup();
    assert_eq!(accepted.len(), 1, "all are told the same: {accepted:?}");
}

#[tokio::test]
async fn what_is_asked_of_two_nodes_at_once_under_one_key_is_done_once() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    endpoint.at[0].message(&endpoint.conversation, "once").await;
    endpoint.receiver.wait_for(1).await;
    let listed = until("it is delivered", SLACK, async || {
        endpoint.listed(&endpoint.at[1], "delivered").await.pop()
    })
    .await;
    let delivery = listed["delivery_id"].as_str().unwrap();
    let retry = format!("{}/{delivery}/retry", endpoint.deliveries());
    let replay = format!("{}/replay", endpoint.path);
    let rounds = sized(6, 4);
    for round in 0..rounds {
        asked_everywhere_at_once(&endpoint, &replay, &format!("replay {round}")).await;
        endpoint.receiver.wait_for(2 * round + 2).await;
        asked_everywhere_at_once(&endpoint, &retry, &format!("retry {round}")).await;
        endpoint.receiver.wait_for(2 * round + 3).await;
    }
    // What came of a second one would come before this, and is listed in any case.
    endpoint.at[0].post(&replay, json!({})).await.expect(202);
    let sent = 2 * rounds + 2;
    endpoint.receiver.wait_for(sent).await;
    let list = until("nothing waits", SLACK, async || {
        let list = endpoint.at[1].get(&endpoint.deliveries()).await.expect(200);
        let ended = |delivery: &Value| delivery["status"] == "delivered";
        list.data().iter().all(ended).then_some(list)
    })
    .await;
    assert_eq!(list.total(), rounds as u64 + 2, "one for each replay");
    assert_eq!(endpoint.receiver.count(), sent, "each was sent once");
}

#[tokio::test]
async fn a_replay_and_a_test_event_go_out_at_once_whichever_node_is_asked() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    for text in ["one", "two", "three"] {
        endpoint.at[1].message(&endpoint.conversation, text).await;
    }
    endpoint.receiver.wait_for(3).await;
    for (round, at) in endpoint.at.iter().enumerate() {
        at.post(&format!("{}/replay", endpoint.path), json!({}))
            .await
            .expect(202);
        let received = endpoint.receiver.wait_for(3 * (round + 2)).await;
        let texts: Vec<_> = received[3 * (round + 1)..]
            .iter()
            .map(|received| received.event()["data"]["content"].clone())
            .collect();
        assert_eq!(texts, ["one", "two", "three"]);
    }
    let before = endpoint.receiver.count();
    for (round, at) in endpoint.at.iter().enumerate() {
        let tried = at.post(&format!("{}/test", endpoint.path), json!({}));
        assert_eq!(tried.await.expect(200)["status"], 200);
        assert_eq!(endpoint.receiver.count(), before + round + 1);
    }
}

#[tokio::test]
async fn an_endpoint_changed_at_any_node_is_changed_where_it_is_delivered_to() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    for (round, at) in endpoint.at.iter().enumerate() {
        let other = Receiver::start().await;
        let sent = endpoint.receiver.count();
        at.patch(&endpoint.path, json!({"url": other.url()}))
            .await
            .expect(200);
        let text = format!("elsewhere {round}");
        at.message(&endpoint.conversation, &text).await;
        other.wait_for(1).await;
        assert_eq!(endpoint.receiver.count(), sent);
        at.patch(&endpoint.path, json!({"enabled": false}))
            .await
            .expect(200);
        at.message(&endpoint.conversation, "nobody gets it").await;
        let retry = endpoint.listed(at, "delivered").await[0]["delivery_id"].clone();
        let retry = format!(
            "{}/{}/retry",
            endpoint.deliveries(),
            retry.as_str().unwrap()
        );
        at.post(&retry, json!({})).await.error(409, "conflict", "*");
        let back = json!({"enabled": true, "url": endpoint.receiver.url()});
        at.patch(&endpoint.path, back).await.expect(200);
        at.post(&format!("{}/rotate-secret", endpoint.path), json!({}))
            .await
            .expect(200);
        let text = format!("back {round}");
        at.message(&endpoint.conversation, &text).await;
        let received = endpoint.receiver.wait_for(sent + 1).await;
        let last = received.last().unwrap();
        assert_eq!(last.event()["data"]["content"], *text);
        let signatures = last.header("webhook-signature").split(' ').count();
        assert_eq!(signatures, 2, "the secret before signs for a while");
        assert_eq!(other.count(), 1);
    }
}

#[tokio::test]
async fn operators_are_told_at_every_node_how_endpoints_fare() {
    let nodes = nodes(2);
    let endpoint = Endpoint::at(&nodes).await;
    endpoint.at[1]
        .message(&endpoint.conversation, "counted")
        .await;
    endpoint.receiver.wait_for(1).await;
    for node in &nodes {
        until("one is counted", SLACK, async || {
            let list = node.operator().get("/admin/v1/webhooks").await.expect(200);
            let found = list.data().first()?.clone();
            (found["delivered"] == 1 && found["enabled"] == true).then_some(())
        })
        .await;
    }
}
