//! Supervision across nodes: settings that one node takes hold at all, figures are added up, and
//! commands reach an actor wherever it lives.

use serde_json::{Value, json};

use super::{SLACK, nodes, nodes_with};
use crate::support::{Client, Server, Setup, until};

/// Nodes on which actors may be crashed, which is what their logs then tell of.
fn drilling(count: usize) -> Vec<Server> {
    let setup = Setup::default().env("COLLOQUY__SUPERVISION__DRILLS", "true");
    let mut nodes = nodes_with(&setup, count);
    nodes.iter_mut().for_each(Server::expect_errors);
    nodes
}

fn of_actor(id: &str) -> String {
    format!("/admin/v1/actors/conversation/instances/{id}")
}

/// Has a conversation's actor crash at the node that this client asks.
async fn crash(client: &Client, operator: &Client, id: &str) {
    let path = format!("{}/crash", of_actor(id));
    operator.post(&path, json!({})).await.expect(200);
    client
        .get(&format!("/v1/conversations/{id}"))
        .await
        .expect(500);
}

/// The nodes that have this actor in memory.
async fn nodes_of(operator: &Client, id: &str) -> Vec<String> {
    let path = "/admin/v1/actors/conversation/instances?limit=1000";
    let list = operator.get(path).await.expect(200);
    let named = |one: &&Value| one["id"] == *id;
    let found = list["data"].as_array().unwrap().iter().filter(named);
    let mut nodes: Vec<_> = found
        .map(|one| one["node"].as_str().unwrap().to_owned())
        .collect();
    nodes.sort();
    nodes
}

#[tokio::test]
async fn a_setting_changed_at_one_node_holds_at_every_other_at_once() {
    let nodes = drilling(2);
    let [first, second] = [nodes[0].operator(), nodes[1].operator()];
    let account = nodes[0].account().await;
    let client = account.test().at(&nodes[1].address());
    let id = client.conversation().await;
    let change = json!({"kinds": {"conversation": {"crashes_max": 1, "quarantine_seconds": 600}}});
    first
        .patch("/admin/v1/supervision", change)
        .await
        .expect(200);
    let shown = second.get("/admin/v1/supervision").await.expect(200);
    let of_kind = &shown["kinds"]["conversation"];
    assert_eq!(of_kind["crashes_max"]["value"], 1, "{of_kind}");
    assert_eq!(of_kind["quarantine_seconds"]["value"], 600, "{of_kind}");
    crash(&client, &second, &id).await;
    let seen = second.get(&of_actor(&id)).await.expect(200);
    assert_eq!(seen["state"], "quarantined", "one crash is enough: {seen}");
}

#[tokio::test]
async fn figures_and_lists_are_those_of_all_nodes() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let clients = [account.test(), account.test().at(&nodes[1].address())];
    let mut ids = Vec::new();
    for client in &clients {
        for _ in 0..3 {
            ids.push(client.conversation().await);
        }
    }
    let shared = &ids[0];
    for client in &clients {
        client
            .get(&format!("/v1/conversations/{shared}"))
            .await
            .expect(200);
    }
    for node in &nodes {
        let operator = node.operator();
        let kind = operator
            .get("/admin/v1/actors/conversation")
            .await
            .expect(200);
        assert_eq!(kind["live"], 7, "six, and one of them twice: {kind}");
        assert!(kind["handled"].as_u64().unwrap() >= 7, "{kind}");
        let list = operator.get("/admin/v1/actors").await.expect(200);
        let kinds = list["data"].as_array().unwrap();
        let same = kinds.iter().find(|one| one["kind"] == "conversation");
        assert_eq!(same.unwrap()["live"], 7);
        assert_eq!(nodes_of(&operator, shared).await.len(), 2);
        for id in &ids[1..] {
            assert_eq!(nodes_of(&operator, id).await.len(), 1);
        }
        let two = "/admin/v1/actors/conversation/instances?limit=2";
        assert_eq!(operator.get(two).await.expect(200).data().len(), 2);
    }
}

#[tokio::test]
async fn a_command_reaches_an_actor_at_the_node_where_it_lives() {
    let mut nodes = drilling(2);
    let [first, second] = [nodes[0].operator(), nodes[1].operator()];
    let account = nodes[0].account().await;
    let client = account.test().at(&nodes[1].address());
    let id = client.conversation().await;
    let home = nodes_of(&first, &id).await;
    let seen = first.get(&of_actor(&id)).await.expect(200);
    assert_eq!(seen["node"], home[0], "{seen}");
    let change = json!({"kinds": {"conversation": {"crashes_max": 1, "quarantine_seconds": 600}}});
    first
        .patch("/admin/v1/supervision", change)
        .await
        .expect(200);
    crash(&client, &first, &id).await;
    let seen = first.get(&of_actor(&id)).await.expect(200);
    assert_eq!(seen["state"], "quarantined", "{seen}");
    let path = format!("/v1/conversations/{id}");
    client.get(&path).await.expect(503);
    let tag = first.get(&of_actor(&id)).await.etag();
    let release = format!("{}/release", of_actor(&id));
    let stale = first.post(&release, json!({})).with("if-match", "\"none\"");
    stale.await.expect(412);
    let released = first.post(&release, json!({})).with("if-match", &tag);
    assert_eq!(released.await.expect(200)["state"], "ready");
    client.get(&path).await.expect(200);
    let passivate = format!("{}/passivate", of_actor(&id));
    let passive = first.post(&passivate, json!({})).await.expect(200);
    assert_eq!(nodes_of(&second, &id).await, Vec::<String>::new());
    assert_eq!(passive["state"], "passive", "{passive}");
    nodes[1].kill9();
    until("nobody waits for the one that is gone", SLACK, async || {
        let kind = first.get("/admin/v1/actors/conversation").await.expect(200);
        (kind["live"] == 0).then_some(())
    })
    .await;
}
