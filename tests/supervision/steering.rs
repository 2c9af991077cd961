//! What operators do with single actors: nothing that was acknowledged is lost by it.

use std::time::Duration;

use serde_json::json;

use super::{Operator, assert_instance, at, drilling};
use crate::support::{Server, account, shared, unique, until};

/// The id of a conversation that there is not.
const UNKNOWN: &str = "conv_0190163d8694739b85d52d5e4a4d6d5f";

#[tokio::test]
async fn a_restarted_actor_loads_what_was_acknowledged() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    client.message(&conversation, "kept").await;
    let operator = Operator::of(&server);
    let restarted = operator.steer(&conversation, "restart").await.expect(200);
    assert_instance(&restarted.body);
    assert_eq!(
        (&restarted["id"], &restarted["restarts"]),
        (&json!(conversation), &json!(1))
    );
    assert_eq!(client.message(&conversation, "next").await["seq"], 2);
    let kind = operator.kind("conversation").await;
    assert_eq!(
        (&kind["restarts"]["operator"], &kind["activations"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn a_passivated_actor_is_passive_and_the_next_request_loads_it() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    for _ in 0..2 {
        let gone = operator.steer(&conversation, "passivate").await.expect(200);
        assert_eq!(gone["state"], "passive");
    }
    let kind = operator.kind("conversation").await;
    assert_eq!(
        (&kind["live"], &kind["passivations"]["operator"]),
        (&json!(0), &json!(1))
    );
    client.message(&conversation, "hello").await;
    assert_eq!(operator.seen(&conversation).await["state"], "ready");
}

#[tokio::test]
async fn where_there_is_nothing_to_do_nothing_is_done() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    assert_eq!(
        operator.steer(&conversation, "release").await.expect(200)["state"],
        "ready"
    );
    operator.steer(&conversation, "passivate").await.expect(200);
    for command in ["restart", "passivate", "release"] {
        let passive = operator.steer(&conversation, command).await.expect(200);
        assert_eq!(
            (&passive["state"], &passive["restarts"]),
            (&json!("passive"), &json!(0))
        );
    }
    assert_eq!(operator.kind("conversation").await["activations"], 1);
}

#[tokio::test]
async fn commands_to_what_does_not_exist_are_404_and_make_nothing() {
    let server = drilling();
    let account = server.account().await;
    let operator = server.operator();
    for id in [UNKNOWN, "nonsense", account.account_id.as_str()] {
        for command in ["restart", "passivate", "release", "crash"] {
            let path = format!("{}/{command}", at("conversation", id));
            let refused = operator.post(&path, json!({})).await;
            refused.error(404, "not_found", "");
        }
    }
    let kind = Operator::of(&server).kind("conversation").await;
    assert_eq!(kind["activations"], 0);
}

#[tokio::test]
async fn a_body_that_says_something_is_refused() {
    let account = account().await;
    let conversation = account.test().conversation().await;
    let path = format!("{}/restart", at("conversation", &conversation));
    let refused = account.operator().post(&path, json!({"now": true})).await;
    refused.error(400, "invalid_request", "now");
    account.operator().call("POST", &path).await.expect(200);
}

#[tokio::test]
async fn a_command_is_carried_out_once_under_its_key() {
    let mut server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let (operator, key) = (Operator::of(&server), unique("restart"));
    let path = format!("{}/restart", at("conversation", &conversation));
    let ask = async || {
        let call = operator.0.post(&path, json!({}));
        call.with("idempotency-key", &key).await.expect(200)
    };
    let first = ask().await;
    client.message(&conversation, "the restart is done").await;
    let again = ask().await;
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.body, first.body);
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["restarts"]["operator"], 1);
    server.restart();
    let operator = Operator::of(&server);
    let call = operator.0.post(&path, json!({}));
    let later = call.with("idempotency-key", &key).await.expect(200);
    assert_eq!(later.body, first.body, "the answer is kept");
    assert_eq!(server.term().code(), Some(0));
    server.assert_sound();
}

#[tokio::test]
async fn a_drill_wants_to_be_allowed() {
    let account = account().await;
    let conversation = account.test().conversation().await;
    let path = format!("{}/crash", at("conversation", &conversation));
    let refused = account.operator().post(&path, json!({})).await;
    refused.error(403, "forbidden", "");
    let unknown = at("conversation", UNKNOWN);
    let refused = shared()
        .operator()
        .post(&format!("{unknown}/crash"), json!({}))
        .await;
    refused.error(403, "forbidden", "");
    account.test().message(&conversation, "it goes on").await;
}

#[tokio::test]
async fn a_thousand_restarts_while_messages_flow_lose_none() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = server.operator();
    let path = format!("{}/restart", at("conversation", &conversation));
    let restarts = (0..8).map(|_| {
        let (operator, path) = (operator.clone(), path.clone());
        tokio::spawn(async move {
            for _ in 0..125 {
                operator.post(&path, json!({})).await.expect(200);
            }
        })
    });
    let restarts: Vec<_> = restarts.collect();
    let mut sent = 0;
    while restarts.iter().any(|restarting| !restarting.is_finished()) {
        sent += 1;
        let message = client
            .message(&conversation, &format!("message {sent}"))
            .await;
        assert_eq!(message["seq"], sent);
    }
    for restarting in restarts {
        restarting.await.unwrap();
    }
    let kind = Operator::of(&server).kind("conversation").await;
    let counted = kind["restarts"]["operator"].as_u64().unwrap();
    assert!((1..=1_000).contains(&counted), "{counted}");
    assert_eq!(kind["activations"], 1);
}

#[tokio::test]
async fn an_operator_ends_a_backoff_early() {
    let server = drilling();
    let client = server.account().await.test();
    let operator = Operator::of(&server);
    let long = json!({"backoff_min_seconds": 600, "backoff_max_seconds": 600});
    operator.set(json!({"conversation": long})).await;
    for command in ["restart", "release"] {
        let conversation = client.conversation().await;
        operator.crash(&conversation, &client).await;
        operator.crash(&conversation, &client).await;
        let path = format!("/v1/conversations/{conversation}");
        client.get(&path).await.error(503, "unavailable", "");
        assert_eq!(operator.seen(&conversation).await["state"], "backing_off");
        let ended = operator.steer(&conversation, command).await.expect(200);
        assert_ne!(ended["state"], "backing_off", "{command}");
        client.get(&path).await.expect(200);
        operator.crash(&conversation, &client).await;
        let next = client.get(&path).await.status;
        let (expected, why) = match command {
            "restart" => (503, "its crashes still count"),
            _ => (200, "its crashes are forgotten"),
        };
        assert_eq!(next, expected, "{why}");
    }
}

#[tokio::test]
async fn a_restarted_actor_is_in_memory_again_before_anybody_asks_it() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    client.message(&conversation, "hello").await;
    let operator = Operator::of(&server);
    let before = operator.seen(&conversation).await;
    operator.steer(&conversation, "restart").await.expect(200);
    let after = until("it is loaded again", Duration::from_secs(10), async || {
        let seen = operator.seen(&conversation).await;
        let is_loaded = seen["state"] == "ready" && seen["restarts"] == 1;
        assert!(seen["state"] != "ready" || seen["bytes"] != 0, "{seen}");
        is_loaded.then_some(seen)
    })
    .await;
    for same in ["bytes", "revision", "last_used_at"] {
        assert_eq!(after[same], before[same], "{same}");
    }
}

#[tokio::test]
async fn a_drill_outlives_the_passivation_of_its_actor() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator.steer(&conversation, "crash").await.expect(200);
    let gone = operator.steer(&conversation, "passivate").await.expect(200);
    assert_eq!(gone["state"], "passive");
    let path = format!("/v1/conversations/{conversation}");
    client.get(&path).await.error(500, "server_error", "");
    client.get(&path).await.expect(200);
    let seen = operator.seen(&conversation).await;
    assert_eq!(
        (&seen["state"], &seen["restarts"]),
        (&json!("ready"), &json!(1))
    );
}

/// The tag of a conversation's actor that has nothing to do any more.
async fn tag_at_rest(operator: &Operator, conversation: &str) -> String {
    let mut before = None;
    until("it is at rest", Duration::from_secs(10), async || {
        let seen = operator.0.get(&at("conversation", conversation)).await;
        let seen = seen.expect(200);
        let is_at_rest = seen["mailbox_used"] == 0 && seen["state"] != "loading";
        let tag = is_at_rest.then(|| seen.etag());
        // Twice the same: its last answer can be out before all of its figures are.
        let is_settled = before.as_ref() == Some(&tag);
        before = Some(tag.clone());
        tag.filter(|_| is_settled)
    })
    .await
}

#[tokio::test]
async fn a_command_to_an_actor_that_has_another_tag_is_refused_and_does_nothing() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let instance = at("conversation", &conversation);
    let steer = async |command: &str, tag: &str| {
        let path = format!("{instance}/{command}");
        let call = operator.0.post(&path, json!({}));
        call.with("if-match", tag).await
    };
    let old = tag_at_rest(&operator, &conversation).await;
    client.message(&conversation, "it changes").await;
    let now = tag_at_rest(&operator, &conversation).await;
    for command in ["restart", "passivate", "release", "crash"] {
        for other in [&old, "\"another\"", &format!("W/{now}")] {
            let refused = steer(command, other).await;
            refused.error(412, "precondition_failed", "");
        }
        let malformed = steer(command, "another").await;
        malformed.error(400, "invalid_request", "If-Match");
        let path = format!("{}/{command}", at("conversation", UNKNOWN));
        let unknown = operator.0.post(&path, json!({}));
        let unknown = unknown.with("if-match", "*").await;
        unknown.error(404, "not_found", "");
    }
    let after = operator.0.get(&instance).await.expect(200);
    assert_eq!(after.etag(), now, "nothing was done");
    client.message(&conversation, "no drill").await;

    for command in ["release", "restart", "passivate", "crash"] {
        let tag = tag_at_rest(&operator, &conversation).await;
        steer(command, &tag).await.expect(200);
    }
    steer("release", "*").await.expect(200);
    let crashed = client
        .get(&format!("/v1/conversations/{conversation}"))
        .await;
    crashed.error(500, "server_error", "");
    for (kind, id) in [
        ("limiter", "limiter_0"),
        ("webhook_dispatcher", "webhook_dispatcher"),
    ] {
        let path = format!("{}/restart", at(kind, id));
        let refused = operator.0.post(&path, json!({}));
        let refused = refused.with("if-match", "\"another\"").await;
        refused.error(412, "precondition_failed", "");
    }
}

#[tokio::test]
async fn of_operators_who_steer_the_same_state_of_an_actor_one_does() {
    let server = Server::start();
    let client = server.account().await.test();
    let operator = Operator::of(&server);
    for _ in 0..10 {
        let conversation = client.conversation().await;
        let tag = tag_at_rest(&operator, &conversation).await;
        let path = format!("{}/restart", at("conversation", &conversation));
        let all = (0..8).map(|_| {
            let call = operator.0.post(&path, json!({}));
            let call = call.with("if-match", &tag);
            tokio::spawn(async move { call.await.status })
        });
        let all: Vec<_> = all.collect();
        let mut statuses = Vec::new();
        for one in all {
            statuses.push(one.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
        assert_eq!(operator.seen(&conversation).await["restarts"], 1);
    }
}

#[tokio::test]
async fn the_interface_document_says_that_commands_to_actors_take_if_match() {
    let document = shared().operator().get("/openapi.json").await.expect(200);
    for command in ["restart", "passivate", "release", "crash"] {
        let path = format!("/admin/v1/actors/{{actor_kind}}/instances/{{actor_id}}/{command}");
        let operation = &document["paths"][&path]["post"];
        assert!(operation["responses"]["412"].is_object(), "{operation}");
        let parameters = operation["parameters"].to_string();
        assert!(parameters.contains("If-Match"), "{parameters}");
    }
}

#[tokio::test]
async fn a_restart_that_ends_a_backoff_is_the_restart_after_the_crash() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let long = json!({"backoff_min_seconds": 600, "backoff_max_seconds": 600});
    operator.set(json!({"conversation": long})).await;
    operator.crash(&conversation, &client).await;
    operator.crash(&conversation, &client).await;
    operator.steer(&conversation, "restart").await.expect(200);
    let path = format!("/v1/conversations/{conversation}");
    client.get(&path).await.expect(200);
    let seen = operator.seen(&conversation).await;
    assert_eq!(seen["restarts"], 2, "one after each crash");
    let kind = operator.kind("conversation").await;
    assert_eq!(
        (&kind["restarts"]["crash"], &kind["restarts"]["operator"]),
        (&json!(2), &json!(0))
    );
    operator.steer(&conversation, "restart").await.expect(200);
    assert_eq!(operator.seen(&conversation).await["restarts"], 3);
}
