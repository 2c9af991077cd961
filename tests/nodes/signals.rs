//! Typing and presence across nodes: what the connections of one say, those of every other hear.

use serde_json::{Value, json};

use super::nodes;
use crate::support::{Client, Server, Setup, Socket};

/// A socket of this user at this node, which listens to a conversation.
async fn listening(client: &Client, node: &Server, user: &str, conversation: &str) -> Socket {
    let at = client.at(&node.address()).acting_for(user);
    let ticket = at.call("POST", "/v1/realtime/tickets").await.expect(201);
    let path = format!("/v1/realtime?ticket={}", ticket.id("ticket"));
    let mut socket = Socket::try_open(&node.anonymous(), &path).await.unwrap();
    socket.subscribe(json!(conversation), None).await;
    socket
}

/// The next frame of this type from this user.
async fn hear_of(socket: &mut Socket, kind: &str, user: &str) -> Value {
    loop {
        let frame = socket.hear_type(kind).await;
        if frame["user_id"] == user {
            return frame;
        }
    }
}

/// Hears until this user is there so.
async fn hear_state(socket: &mut Socket, user: &str, state: &str) {
    while hear_of(socket, "presence", user).await["state"] != state {}
}

fn presence(conversation: &str, state: &str) -> Value {
    json!({"type": "presence", "conversation_id": conversation, "state": state})
}

#[tokio::test]
async fn who_types_at_one_node_is_heard_at_another() {
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let (ada, bob) = (client.user("agent").await, client.user("agent").await);
    let (id, elsewhere) = (client.conversation().await, client.conversation().await);
    let mut typing = listening(&client, &nodes[0], &ada, &id).await;
    let mut hearing = listening(&client, &nodes[1], &bob, &id).await;
    let mut stranger = listening(&client, &nodes[1], &bob, &elsewhere).await;
    typing
        .say(json!({"type": "typing", "conversation_id": id}))
        .await;
    let frame = hear_of(&mut hearing, "typing", &ada).await;
    assert_eq!(
        frame,
        json!({"type": "typing", "conversation_id": id, "user_id": ada})
    );
    let others = stranger.before_pong().await;
    let typed = others.iter().any(|frame| frame["type"] == "typing");
    assert!(!typed, "not to another conversation: {others:?}");
    hearing
        .say(json!({"type": "typing", "conversation_id": id}))
        .await;
    hear_of(&mut typing, "typing", &bob).await;
}

#[tokio::test]
async fn presence_is_that_of_all_nodes_and_ends_with_a_node_that_is_killed() {
    let mut nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let (ada, bob) = (client.user("agent").await, client.user("agent").await);
    let id = client.conversation().await;
    let mut bob_at_first = listening(&client, &nodes[0], &bob, &id).await;
    let mut bob_at_second = listening(&client, &nodes[1], &bob, &id).await;
    let mut ada_at_second = listening(&client, &nodes[1], &ada, &id).await;
    ada_at_second.say(presence(&id, "online")).await;
    hear_state(&mut bob_at_first, &ada, "online").await;
    hear_state(&mut bob_at_second, &ada, "online").await;
    let mut ada_at_first = listening(&client, &nodes[0], &ada, &id).await;
    ada_at_first.say(presence(&id, "away")).await;
    hear_state(&mut bob_at_first, &ada, "away").await;
    hear_state(&mut bob_at_second, &ada, "away").await;
    // What the other node's connection said still holds.
    drop(ada_at_first);
    hear_state(&mut bob_at_first, &ada, "online").await;
    hear_state(&mut bob_at_second, &ada, "online").await;
    // A node that comes later is told what stands.
    nodes.push(Setup::default().joining(&nodes[0]).start());
    let mut bob_at_third = listening(&client, &nodes[2], &bob, &id).await;
    hear_state(&mut bob_at_third, &ada, "online").await;
    nodes[1].kill9();
    hear_state(&mut bob_at_first, &ada, "offline").await;
    hear_state(&mut bob_at_third, &ada, "offline").await;
}
