//! Figures are the same at every node, and nothing is counted twice or left out whichever node ends.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{SLACK, nodes};
use crate::support::{Client, until};

/// What conversations have come to this month, as a node shows it.
async fn figures(c: &Client) -> Value {
    let list = c.get("/v1/analytics/conversations?interval=month").await;
    let list = list.expect(200);
    list.data().last().unwrap().clone()
}

/// Starts so many conversations with an answer each, some of them at once.
async fn write(c: &Client, count: usize) {
    let conversations = (0..count).map(|_| async {
        let at = format!("/v1/conversations/{}", c.conversation().await);
        let body = json!({"content": "Words.", "sender_type": "agent"});
        c.post(&format!("{at}/messages"), body).await.expect(201);
    });
    join_all(conversations).await;
}

#[tokio::test]
async fn every_node_shows_what_was_acknowledged_anywhere_also_when_the_one_that_counts_is_killed() {
    let mut nodes = nodes(2);
    let c = nodes[0].account().await.test();
    let at: Vec<Client> = nodes.iter().map(|node| c.at(&node.address())).collect();
    let mut written = 0;
    for (node, count) in [(0, 3), (1, 4)] {
        write(&at[node], count).await;
        written += count;
        for other in &at {
            let shown = figures(other).await;
            assert_eq!(shown["created"], written, "{shown}");
            assert_eq!(shown["first_response_seconds"]["count"], written, "{shown}");
        }
    }
    // The first to be started leads, and counts.
    write(&at[1], 5).await;
    nodes[0].kill9();
    write(&at[1], 2).await;
    let shown = until("the other node counts", SLACK, async || {
        let list = at[1]
            .get("/v1/analytics/conversations?interval=month")
            .await;
        (list.status == 200).then(|| list.data().last().unwrap().clone())
    })
    .await;
    for field in ["created", "open_at_end"] {
        assert_eq!(shown[field], written + 7, "{field}: {shown}");
    }
    assert_eq!(shown["messages"]["agent"], written + 7, "{shown}");
    let operator = nodes[1].operator();
    operator
        .post("/admin/v1/analytics/rebuild", json!({}))
        .await
        .expect(202);
    until("figures are made anew", SLACK, async || {
        let state = operator.get("/admin/v1/analytics").await.expect(200);
        (state["state"] == "kept").then_some(())
    })
    .await;
    assert_eq!(figures(&at[1]).await, shown);
}
