//! Monthly quotas across nodes: what one lets in counts at every other about a second later, and at
//! those that come or begin again.

use serde_json::json;

use super::{SLACK, nodes};
use crate::support::{Client, Server, Setup, until};

/// The test key of an account that may make so many requests in a month, at the first node.
async fn with_quota(node: &Server, quota: u64) -> Client {
    let account = node.account().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let body = json!({ "monthly_quota": quota });
    account.operator().patch(&at, body).await.expect(200);
    account.test()
}

/// Waits until this many requests are known at a node, but for those by which it looks.
async fn knows(client: &Client, used: u64) {
    let mut looks = 0;
    until("what others let in is known here", SLACK, async || {
        looks += 1;
        let shown = client.get("/v1/limits").await.expect(200);
        (shown["quota"]["used"].as_u64().unwrap() >= used + looks).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_one_node_lets_in_counts_for_the_quota_at_every_other() {
    const QUOTA: u64 = 400;
    const AT_EACH: u64 = 190;
    let nodes = nodes(2);
    let first = with_quota(&nodes[0], QUOTA).await;
    let second = first.at(&nodes[1].address());
    let mut used = 0;
    for client in [&first, &second] {
        let asks = (0..AT_EACH).map(|_| async { client.get("/v1").await.status });
        let statuses = futures_util::future::join_all(asks).await;
        used += statuses.iter().filter(|status| **status == 200).count() as u64;
    }
    assert_eq!(used, 2 * AT_EACH);
    for client in [&first, &second] {
        until("nothing is left here", SLACK, async || {
            let status = client.get("/v1").await.status;
            used += u64::from(status == 200);
            (status == 429).then_some(())
        })
        .await;
        client.get("/v1").await.error(429, "quota_exceeded", "");
    }
    assert!(used < QUOTA + AT_EACH, "{used} were let in");
}

#[tokio::test]
async fn a_node_that_comes_or_begins_again_knows_what_was_used_before() {
    const USED: u64 = 30;
    let mut nodes = nodes(1);
    let first = with_quota(&nodes[0], 1_000).await;
    for _ in 0..USED {
        first.get("/v1").await.expect(200);
    }
    let second = Setup::default().joining(&nodes[0]).start();
    knows(&first.at(&second.address()), USED).await;
    assert!(nodes[0].term().success());
    nodes[0].restart();
    knows(&first.at(&nodes[0].address()), USED).await;
    knows(&first.at(&second.address()), USED).await;
}

#[tokio::test]
async fn what_each_node_counts_is_read_as_one_at_any_of_them() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let (first, made) = account.key(json!({"type": "test"})).await;
    let second = first.at(&nodes[1].address());
    let conversation = first.conversation().await;
    second.message(&conversation, "from the other node").await;
    for client in [&first, &second, &second] {
        client.get("/v1").await.expect(200);
    }
    for node in &nodes {
        let reader = account.live().at(&node.address());
        until("what both counted is read here", SLACK, async || {
            let usage = reader.get("/v1/usage?group_by=key").await.expect(200);
            let rows = usage.data().iter();
            let row = rows.clone().find(|row| row["key_id"] == made["key_id"])?;
            (row["requests"] == 6 && row["messages"] == 1).then_some(())
        })
        .await;
    }
}
