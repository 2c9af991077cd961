//! A person who is erased at one node is nowhere at any other, and another node goes on where the one
//! that was at work ends.

use std::time::Duration;

use serde_json::json;

use super::nodes;
use crate::support::{Client, unique, until};

/// The longest that erasing may take on a busy machine, with a node that is gone and its lease.
const FINISHED_WITHIN: Duration = Duration::from_secs(120);

/// Thirty conversations with one message each; their paths.
async fn begun(here: &Client, customer: &str, text: &str) -> Vec<String> {
    let mut conversations = Vec::new();
    for _ in 0..30 {
        let new = json!({"customer_id": customer, "initial_message": text});
        let made = here.post("/v1/conversations", new).await.expect(201);
        conversations.push(format!("/v1/conversations/{}", made.id("conversation_id")));
    }
    conversations
}

/// None of these conversations is there for anybody.
async fn assert_gone(there: &Client, conversations: &[String]) {
    for path in conversations {
        there.get(path).await.error(404, "not_found", "");
        there
            .get(&format!("{path}/messages"))
            .await
            .error(404, "not_found", "");
        there
            .post(&format!("{path}/messages"), json!({"content": "late"}))
            .await
            .error(404, "not_found", "");
    }
}

#[tokio::test]
async fn a_person_is_erased_at_every_node_though_the_one_at_work_is_killed() {
    let mut nodes = nodes(2);
    let here = nodes[0].account().await.test();
    let there = here.at(&nodes[1].address());
    let (customer, neighbour) = (here.customer().await, here.conversation().await);
    let text = unique("OfThePerson").replace('-', "x");
    let conversations = begun(&here, &customer, &text).await;
    // The other node has them in memory as they are.
    for path in &conversations {
        there.get(path).await.expect(200);
    }
    let at = format!("/v1/customers/{customer}?erase=true");
    let erasing = tokio::spawn({
        let (here, at) = (here.clone(), at.clone());
        async move {
            here.delete(&at)
                .try_send()
                .await
                .ok()
                .map(|answer| answer.status)
        }
    });
    until("the erasure has begun", FINISHED_WITHIN, async || {
        let audit = there
            .get("/v1/audit?action=erasure.created")
            .await
            .expect(200);
        (audit.total() == 1).then_some(())
    })
    .await;
    nodes[0].kill9();
    let status = erasing.await.unwrap();
    assert!(matches!(status, None | Some(202)), "{status:?}");
    let audit = there
        .get("/v1/audit?action=erasure.created")
        .await
        .expect(200);
    let erasure = audit.data()[0]["subject"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = until("the other node has finished", FINISHED_WITHIN, async || {
        let shown = there.get(&format!("/v1/erasures/{erasure}")).await;
        (shown.status == 200 && shown["state"] == "finished").then_some(shown)
    })
    .await;
    assert_eq!(
        (&shown["conversations"], &shown["messages"]),
        (&json!(30), &json!(30))
    );
    assert_gone(&there, &conversations).await;
    assert_eq!(
        nodes[1].places_with(&text),
        Vec::<std::path::PathBuf>::new()
    );
    there
        .get(&format!("/v1/conversations/{neighbour}"))
        .await
        .expect(200);
    assert_eq!(there.get("/v1/conversations").await.expect(200).total(), 1);
}
