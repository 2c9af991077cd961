//! `/admin/v1/actors`, `/admin/v1/supervision` and `/admin/v1/store`: what operators see of actors,
//! how they steer them and how they change their supervision, seen from outside.

mod drills;
mod figures;
mod settings;
mod steering;
mod store;
mod terminal;

use serde_json::{Value, json};

use crate::support::shapes::{assert_id, assert_shape};
use crate::support::{Answer, Client, Server, Setup, mongodb};

/// The shape of a kind's figures.
const KIND: &str = "kind, live, by_state, mailbox, bytes, handled, refused, working_ms, waiting_ms, activations, \
    passivations, restarts, conflicts, last_failures";
/// The shape of an actor.
const INSTANCE: &str = "id, state, mailbox_used, bytes, revision, restarts, last_used_at, quarantined_until, last_failure";

/// Fails unless it is an actor as operators see it: on a store that nodes share with the node that has
/// it in memory.
fn assert_instance(seen: &Value) {
    let mut seen = seen.clone();
    if mongodb::is_used() {
        let node = seen.as_object_mut().and_then(|seen| seen.remove("node"));
        assert_eq!(node.is_none(), seen["state"] == "passive", "{seen}");
        if let Some(node) = node {
            assert_id(&node, "node_");
        }
    }
    assert_shape(&seen, INSTANCE);
}

/// A server on which actors may be crashed, which is what its log then tells of.
fn drilling() -> Server {
    let mut server = Setup::default()
        .env("COLLOQUY__SUPERVISION__DRILLS", "true")
        .start();
    server.expect_errors();
    server
}

/// Where an actor is found.
fn at(kind: &str, id: &str) -> String {
    format!("/admin/v1/actors/{kind}/instances/{id}")
}

/// Operators' commands to conversations.
struct Operator(Client);

impl Operator {
    fn of(server: &Server) -> Self {
        Self(server.operator())
    }

    /// The figures of a kind.
    async fn kind(&self, kind: &str) -> Value {
        let path = format!("/admin/v1/actors/{kind}");
        self.0.get(&path).await.expect(200).body
    }

    /// A conversation's actor.
    async fn seen(&self, id: &str) -> Value {
        let answer = self.0.get(&at("conversation", id)).await;
        answer.expect(200).body
    }

    /// What a command to a conversation's actor answers.
    async fn steer(&self, id: &str, command: &str) -> Answer {
        let path = format!("{}/{command}", at("conversation", id));
        self.0.post(&path, json!({})).await
    }

    /// Lets the conversation's next request crash, and sends that.
    async fn crash(&self, id: &str, client: &Client) {
        self.steer(id, "crash").await.expect(200);
        let crashed = client.get(&format!("/v1/conversations/{id}")).await;
        crashed.error(500, "server_error", "");
    }

    /// Crashes a conversation until it is in quarantine, each time as soon as it is back.
    async fn quarantine(&self, id: &str, client: &Client) {
        self.set(json!({"conversation": {"backoff_min_seconds": 0}}))
            .await;
        for _ in 0..5 {
            self.crash(id, client).await;
        }
    }

    /// Changes settings by kind.
    async fn set(&self, kinds: Value) -> Answer {
        let body = json!({"kinds": kinds});
        self.0
            .patch("/admin/v1/supervision", body)
            .await
            .expect(200)
    }
}
