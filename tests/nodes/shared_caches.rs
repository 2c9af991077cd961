//! A cache in front of one node, and what is changed at another.

use super::{SLACK, nodes_with};
use crate::shared_caches::{Shared, has_told_of, json_of, kept, telling};
use crate::support::ports::ReservedPort;
use crate::support::{Varnish, until};

#[tokio::test]
async fn the_node_that_was_asked_tells_what_another_one_has_changed() {
    let port = ReservedPort::new();
    let nodes = nodes_with(&telling(&port), 2);
    let varnish = Varnish::start(&port, &nodes[0].address());
    for node in &nodes {
        has_told_of(0, node).await;
    }
    let shared = Shared::new(&nodes[0]).await;
    let holder = nodes[0].anonymous().at(&varnish.address());
    kept(&holder, &shared.link).await;
    let elsewhere = shared.owner.at(&nodes[1].address());
    elsewhere.write(&shared.at, "written elsewhere").await;
    until("the new text is shown", SLACK, async || {
        let answer = json_of(&holder, &shared.link).await.expect(200);
        (answer["content"] == "written elsewhere").then_some(())
    })
    .await;
    has_told_of(1, &nodes[0]).await;
    kept(&holder, &shared.link).await;
    shared.revoke_by(&elsewhere).await;
    until("it is gone", SLACK, async || {
        let answer = json_of(&holder, &shared.link).await;
        (answer.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_node_has_let_a_cache_keep_is_purged_when_the_node_is_gone() {
    let port = ReservedPort::new();
    let mut nodes = nodes_with(&telling(&port), 2);
    let varnish = Varnish::start(&port, &nodes[0].address());
    for node in &nodes {
        has_told_of(0, node).await;
    }
    let shared = Shared::new(&nodes[0]).await;
    let holder = nodes[0].anonymous().at(&varnish.address());
    kept(&holder, &shared.link).await;
    nodes[0].kill9();
    shared
        .revoke_by(&shared.owner.at(&nodes[1].address()))
        .await;
    until("it is gone", SLACK, async || {
        // The cache says by itself that its node is gone.
        let call = holder.get(&shared.link).with("accept", "application/json");
        let answer = call.open().await.unwrap();
        (answer.status() != 200).then_some(())
    })
    .await;
}
