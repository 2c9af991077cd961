//! One trace over two nodes: the one that takes a message, and the one that delivers its event.

use serde_json::json;

use super::nodes_with;
use crate::support::{Collector, Receiver};

#[tokio::test]
async fn a_delivery_by_another_node_is_of_the_same_trace() {
    let collector = Collector::start();
    let nodes = nodes_with(&collector.setup("1").delivering("[1]", "5"), 2);
    let first = nodes[0].account().await.test();
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    first.post("/v1/webhooks", hook).await.expect(201);
    let conversation = first.conversation().await;
    // One of the two does not deliver.
    for node in &nodes {
        let c = first.at(&node.address());
        let sent = c.message(&conversation, "hello").await.expect(201);
        let trace = sent.header("x-request-id").strip_prefix("req_");
        let spans = collector.trace_with(trace.unwrap(), "deliver").await;
        let delivery = spans.iter().find(|span| span.name == "deliver").unwrap();
        let request = spans.iter().find(|span| span.name.starts_with("POST "));
        assert_eq!(delivery.parent, request.unwrap().id, "{spans:#?}");
    }
}
