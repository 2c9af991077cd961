//! Tickets across nodes: one that was made at a node opens a connection at any, once.

use futures_util::future::join_all;
use serde_json::json;

use super::{nodes, nodes_with};
use crate::support::{Client, Server, Setup, Socket};

/// A ticket that this node gives this caller, as the path that it opens.
async fn ticket(client: &Client, node: &Server) -> String {
    let at = client.at(&node.address());
    let made = at.call("POST", "/v1/realtime/tickets").await.expect(201);
    format!("/v1/realtime?ticket={}", made.id("ticket"))
}

/// What comes of opening it at this node: the socket, or the refusal's status.
async fn open(node: &Server, path: &str) -> Result<Socket, u16> {
    Socket::try_open(&node.anonymous(), path).await
}

#[tokio::test]
async fn a_ticket_made_at_one_node_opens_one_socket_at_another() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let conversation = client.conversation().await;
    let path = ticket(&client, &nodes[0]).await;
    let mut socket = open(&nodes[1], &path).await.expect("it opens a socket");
    socket.subscribe(json!(conversation), Some(json!(0))).await;
    assert_eq!(socket.event().await["event"], "conversation.created");
    for node in &nodes {
        assert_eq!(open(node, &path).await.err(), Some(401), "used once");
    }
    // Of many that try at once, at both nodes, one comes in.
    for _ in 0..5 {
        let path = ticket(&client, &nodes[1]).await;
        let tries = nodes.iter().cycle().take(8).map(|node| open(node, &path));
        let tried = join_all(tries).await;
        let opened = tried.iter().filter(|one| one.is_ok()).count();
        let refused = tried.iter().filter(|one| matches!(one, Err(401))).count();
        assert_eq!((opened, refused), (1, 7));
    }
}

#[tokio::test]
async fn an_accounts_tickets_are_bounded_over_all_nodes_and_fall_with_their_key() {
    let setup = Setup::default().env("COLLOQUY__REALTIME__TICKETS_PER_ACCOUNT", "2");
    let nodes = nodes_with(&setup, 2);
    let (account, other) = (nodes[0].account().await, nodes[0].account().await);
    let strangers = ticket(&other.test(), &nodes[0]).await;
    let mut made = Vec::new();
    for turn in 0..4 {
        made.push(ticket(&account.test(), &nodes[turn % 2]).await);
    }
    for path in &made[..2] {
        assert_eq!(open(&nodes[1], path).await.err(), Some(401), "void");
    }
    for path in made[2..].iter().chain([&strangers]) {
        open(&nodes[1], path).await.expect("it stands");
    }
    let (client, key) = account.key(json!({"type": "test"})).await;
    let path = ticket(&client, &nodes[0]).await;
    let revoked = format!("/admin/v1/keys/{}", key["key_id"].as_str().unwrap());
    account.operator().delete(&revoked).await.expect(204);
    assert_eq!(open(&nodes[1], &path).await.err(), Some(401), "revoked");
}
