//! From one node to three and back behind nginx, as an autoscaler does it.

use super::load::Load;
use super::rolling::stop;
use super::{SLACK, nodes};
use crate::support::ports::ReservedPort;
use crate::support::{Nginx, Server, Setup, until};

fn joining(first: &Server, address: &str) -> Server {
    Setup::default()
        .env("COLLOQUY__SERVER__BIND", address)
        .joining(first)
        .start()
}

/// Whether nginx takes some of what it is asked to a node.
async fn is_asked(address: &str, nginx: &Nginx) {
    until("it has its share", SLACK, async || {
        (!nginx.passed(address).is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_one_node_to_three_and_back_not_one_request_fails() {
    let first = nodes(1).remove(0);
    // Whoever got such a port meanwhile would be asked in the node's place.
    let reserved = [ReservedPort::new(), ReservedPort::new()];
    let [second, third] = reserved.each_ref().map(ReservedPort::address);
    let nginx = Nginx::start([&first.address(), &second, &third]);
    let c = first.account().await.test().at(&nginx.address());
    // Few: a node that starts asks FerretDB for much, which takes one question after the other.
    let load = Load::start(&c, 1, 1, 2).await;
    load.answers(30).await;
    let mut come = Vec::new();
    for address in [&second, &third] {
        come.push(joining(&first, address));
        load.answers(30).await;
    }
    for address in [&second, &third] {
        is_asked(address, &nginx).await;
    }
    for node in &mut come {
        stop(node, &nginx, &load).await;
    }
    load.answers(30).await;
    let unknown = load.finish().await;
    assert!(unknown.is_empty(), "{unknown:?}");
}
