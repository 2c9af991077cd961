//! A rolling restart behind nginx, step by step as the README says.

use std::process::Command;

use serde_json::json;

use super::balancer::behind_nginx;
use super::load::Load;
use super::{SLACK, nodes};
use crate::support::{Client, Nginx, OPERATOR, Server, tool, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_not_one_request() {
    let mut nodes = nodes(3);
    let nginx = behind_nginx(&nodes);
    let c = nodes[0].account().await.test().at(&nginx.address());
    // Few: a node that starts asks FerretDB for much, which takes one question after the other.
    let load = Load::start(&c, 1, 1, 1).await;
    for node in &mut nodes {
        renew(node, &nginx, &load).await;
    }
    let unknown = load.finish().await;
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Stops a node, starts it again and puts it back into rotation.
async fn renew(node: &mut Server, nginx: &Nginx, load: &Load) {
    let address = node.address();
    stop(node, nginx, load).await;
    node.set_env("COLLOQUY__SERVER__BIND", &address);
    node.restart();
    rotate("in", &address, nginx);
    load.answers(30).await;
}

/// Drains a node, takes it out of rotation and ends it.
pub(super) async fn stop(node: &mut Server, nginx: &Nginx, load: &Load) {
    let address = node.address();
    drain(&address, nginx).await;
    until("its readiness ends", SLACK, async || {
        (!node.is_ready()).then_some(())
    })
    .await;
    // It still serves.
    load.answers(30).await;
    rotate("out", &address, nginx);
    let before = nginx.passed(&address).len();
    load.answers(30).await;
    assert_eq!(nginx.passed(&address).len(), before, "nothing new comes");
    assert!(node.term().success());
}

async fn drain(address: &str, nginx: &Nginx) {
    let operator =
        Client::anonymous(&format!("http://{}", nginx.address())).with_operator(OPERATOR);
    let list = operator.get("/admin/v1/nodes").await.expect(200);
    let node = list
        .data()
        .iter()
        .find(|node| node["address"] == *address && node["state"] == "live");
    let node = node.unwrap()["node"].as_str().unwrap();
    operator
        .post(&format!("/admin/v1/nodes/{node}/drain"), json!({}))
        .await
        .expect(202);
}

fn rotate(way: &str, address: &str, nginx: &Nginx) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/rotation");
    let done = Command::new(script)
        .args([way, address])
        .arg(nginx.configuration())
        .status();
    assert!(tool::started("bash", done).success(), "{way} {address}");
}
