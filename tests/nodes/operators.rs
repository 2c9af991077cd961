//! Nodes as operators see and drain them.

use serde_json::json;

use super::{SLACK, nodes};
use crate::support::{Server, Setup, until};

#[tokio::test]
async fn operators_see_every_node_and_drain_one() {
    let mut nodes = nodes(2);
    let operator = nodes[0].operator();
    let addresses: Vec<_> = nodes.iter().map(Server::address).collect();
    // A node tells its address with the renewal of its lease that follows its start.
    let shown = until("both nodes are shown", SLACK, async || {
        let list = operator.get("/admin/v1/nodes").await.expect(200);
        let shown = list["data"].as_array().unwrap().clone();
        assert_eq!(shown.len(), 2, "{list}");
        let is_shown = |address: &String| shown.iter().any(|node| node["address"] == *address);
        addresses.iter().all(is_shown).then_some(shown)
    })
    .await;
    let of_second = shown
        .iter()
        .find(|node| node["address"] == addresses[1])
        .unwrap();
    let node = of_second["node"].as_str().unwrap().to_owned();
    operator
        .post(&format!("/admin/v1/nodes/{node}/drain"), json!({}))
        .await
        .expect(202);
    until("its readiness ends", SLACK, async || {
        (!nodes[1].is_ready()).then_some(())
    })
    .await;
    assert!(nodes[0].is_ready());
    nodes[1].kill9();
    until("it is gone", SLACK, async || {
        let list = operator.get("/admin/v1/nodes").await.expect(200);
        let nodes = list["data"].as_array().unwrap().clone();
        let found = nodes.iter().find(|shown| shown["node"] == *node).unwrap();
        (found["state"] == "gone").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_second_node_in_the_same_folder_is_refused_and_the_first_serves_on() {
    let nodes = nodes(1);
    let second = Setup::default().joining(&nodes[0]);
    let (status, said) = second.refused_in(&nodes[0].work());
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("in use by another process"), "{said}");
    let document = nodes[0].account().await.test().document("still\n").await;
    assert!(document.starts_with("/api/v1/"), "{document}");
}
