//! Share links are one document's, whichever node opens them.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::nodes;
use crate::support::Client;

/// A node, as the owner of a document and as the holder of its links asks it.
struct Node {
    owner: Client,
    holder: Client,
}

impl Node {
    async fn opens(&self, link: &str) -> u16 {
        let opened = self.holder.get(link).with("accept", "application/json");
        opened.await.status
    }

    async fn uses(&self, document: &str) -> Vec<Value> {
        let shares = self.owner.get(&format!("{document}/share"));
        let shares = shares.await.expect(200);
        let shares = shares.data().iter();
        shares.map(|share| share["uses"].clone()).collect()
    }
}

#[tokio::test]
async fn a_link_opens_as_often_as_it_may_over_all_nodes_and_each_tells_how_often_it_did() {
    let nodes = nodes(3);
    let account = nodes[0].account().await;
    let (owner, holder) = (account.test(), account.anonymous());
    let document = owner.document("# Refunds\n").await;
    let (_, bounded) = owner.share(&document, json!({"max_uses": 4})).await;
    let (_, unbounded) = owner.share(&document, json!({})).await;
    let at = |address: String| Node {
        owner: owner.at(&address),
        holder: holder.at(&address),
    };
    let asked: Vec<Node> = nodes.iter().map(|node| at(node.address())).collect();
    for (done, node) in (1..).zip(asked.iter().chain(&asked)) {
        assert_eq!(node.opens(&unbounded).await, 200);
        for other in &asked {
            assert_eq!(other.uses(&document).await, [done, 0]);
        }
    }
    let crowd = (0..4).flat_map(|_| &asked);
    let mut statuses = join_all(crowd.map(|node| node.opens(&bounded))).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 4], [404; 4], [404; 4]].concat());
    // Another link is added where not all uses were counted.
    asked[2].owner.share(&document, json!({})).await;
    for node in &asked {
        assert_eq!(node.uses(&document).await, [0, 6, 4]);
        assert_eq!(node.opens(&bounded).await, 404);
    }
}
