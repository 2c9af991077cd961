//! Crashes on purpose: what a caller, a neighbour and an operator see of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Operator, at, drilling};
use crate::support::shapes::{assert_recent, assert_shape, instant};
use crate::support::{Client, Dice, Receiver, Setup, until};

#[tokio::test]
async fn a_crash_fails_one_request_and_the_next_succeeds() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let messages = format!("/v1/conversations/{conversation}/messages");
    let operator = Operator::of(&server);
    let drilled = operator.steer(&conversation, "crash").await.expect(200);
    assert_eq!(drilled["state"], "ready");
    let crashed = client.post(&messages, json!({"content": "lost"})).await;
    assert_eq!(crashed["error"]["details"]["outcome"], "unknown");
    crashed.error(500, "server_error", "");
    assert_eq!(client.message(&conversation, "kept").await["seq"], 1);
    let seen = operator.seen(&conversation).await;
    assert_eq!(
        (&seen["restarts"], &seen["state"]),
        (&json!(1), &json!("ready"))
    );
    assert_shape(&seen["last_failure"], "id, at, cause, message");
    assert_eq!(seen["last_failure"]["cause"], "crash");
    assert_recent(&seen["last_failure"]["at"]);
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["restarts"]["crash"], 1);
    assert_eq!(kind["last_failures"], json!([seen["last_failure"]]));
}

#[tokio::test]
async fn a_passive_actor_is_loaded_to_be_crashed_and_reading_crashes_it_too() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator.steer(&conversation, "passivate").await.expect(200);
    let loaded = operator.steer(&conversation, "crash").await.expect(200);
    assert_eq!(loaded["state"], "ready", "it is loaded");
    let path = format!("/v1/conversations/{conversation}");
    client.get(&path).await.error(500, "server_error", "");
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn documents_and_keys_crash_alike() {
    let server = drilling();
    let account = server.account().await;
    let client = account.test();
    let document = client
        .post("/api/v1/documents", json!({"title": "t", "content": "c"}))
        .await
        .expect(201)
        .id("id");
    let (_, key) = account.key(json!({"type": "test"})).await;
    let key = key["key_id"].as_str().unwrap().to_owned();
    let operator = server.operator();
    for (kind, id, caller, path) in [
        (
            "document",
            &document,
            &client,
            format!("/api/v1/documents/{document}"),
        ),
        ("key", &key, &operator, format!("/admin/v1/keys/{key}")),
    ] {
        let drill = format!("{}/crash", at(kind, id));
        operator.post(&drill, json!({})).await.expect(200);
        caller.get(&path).await.error(500, "server_error", "");
        caller.get(&path).await.expect(200);
        let seen = operator.get(&at(kind, id)).await.expect(200);
        assert_eq!(seen["restarts"], 1, "{kind}");
    }
}

/// Sends a burst to a conversation that is to crash; how many of each status came.
async fn burst(client: &Client, conversation: &str, size: usize) -> Vec<u16> {
    let path = format!("/v1/conversations/{conversation}/messages");
    let sends = (0..size).map(|n| {
        let call = client.post(&path, json!({"content": format!("message {n}")}));
        tokio::spawn(async move { call.await.status })
    });
    let sends: Vec<_> = sends.collect();
    let mut statuses = Vec::new();
    for send in sends {
        statuses.push(send.await.unwrap());
    }
    statuses.sort_unstable();
    statuses
}

#[tokio::test]
async fn what_is_queued_behind_a_crash_succeeds() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let mut crashes = 0;
    // The first crash in a window restarts at once, so nothing is refused.
    operator
        .set(json!({"conversation": {"window_seconds": 0}}))
        .await;
    for round in 1..=10 {
        operator.steer(&conversation, "crash").await.expect(200);
        let statuses = burst(&client, &conversation, 32).await;
        let failed = statuses.iter().filter(|status| **status == 500).count();
        assert_eq!(failed, 1, "{statuses:?}");
        crashes += failed;
        assert_eq!(statuses[0], 201, "{statuses:?}");
        assert_eq!(statuses[30], 201, "{statuses:?}");
        let path = format!("/v1/conversations/{conversation}/messages");
        assert_eq!(client.get(&path).await.total(), round * 31);
    }
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["restarts"]["crash"], crashes);
}

#[tokio::test]
async fn the_fifth_crash_in_the_window_quarantines_that_conversation_alone() {
    let server = drilling();
    let client = server.account().await.test();
    let (bad, good) = (client.conversation().await, client.conversation().await);
    let operator = Operator::of(&server);
    operator.quarantine(&bad, &client).await;
    let path = format!("/v1/conversations/{bad}");
    let refused = client.get(&path).await;
    assert!((1..=60).contains(&refused.number("retry-after")));
    assert_eq!(refused["error"]["details"]["outcome"], "none");
    refused.error(503, "unavailable", "");
    client.message(&good, "a neighbour notices nothing").await;
    let seen = operator.seen(&bad).await;
    assert_eq!(
        (&seen["state"], &seen["restarts"]),
        (&json!("quarantined"), &json!(4))
    );
    let left = instant(&seen["quarantined_until"]) - chrono::Utc::now();
    assert!((50..=60).contains(&left.num_seconds()), "{left}");
    let kind = operator.kind("conversation").await;
    assert_eq!(
        (&kind["live"], &kind["by_state"]["quarantined"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(kind["last_failures"].as_array().unwrap().len(), 5);
    assert_eq!(kind["refused"]["quarantined"], 1);
    for command in ["restart", "passivate"] {
        let still = operator.steer(&bad, command).await.expect(200);
        assert_eq!(still["state"], "quarantined", "{command}");
    }
    assert_eq!(
        operator.steer(&bad, "release").await.expect(200)["state"],
        "ready"
    );
    client.get(&path).await.expect(200);
    operator.crash(&bad, &client).await;
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn a_quarantine_ends_in_one_trial() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator
        .set(json!({"conversation": {"quarantine_seconds": 4}}))
        .await;
    operator.quarantine(&conversation, &client).await;
    let path = format!("/v1/conversations/{conversation}");
    let trial = async || {
        until("the trial is let in", Duration::from_secs(60), async || {
            let answer = client.get(&path).await;
            (answer.status != 503).then_some(answer)
        })
        .await
    };
    operator.steer(&conversation, "crash").await.expect(200);
    trial().await.error(500, "server_error", "");
    client.get(&path).await.error(503, "unavailable", "");
    trial().await.expect(200);
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["last_failures"].as_array().unwrap().len(), 6);
    assert_eq!(kind["restarts"]["crash"], 4);
    assert_eq!(kind["activations"], 1, "it never left memory");
}

#[tokio::test]
async fn the_backoff_is_what_the_settings_say_and_they_change_in_between() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let path = format!("/v1/conversations/{conversation}");
    let settings = json!({"backoff_min_seconds": 2, "backoff_jitter": 0, "crashes_max": 100});
    operator.set(json!({"conversation": settings})).await;
    // Crashes it and measures how long requests are refused then.
    let backoff = async || {
        operator.crash(&conversation, &client).await;
        let crashed = Instant::now();
        let refused = client.get(&path).await;
        let state = operator.seen(&conversation).await["state"].clone();
        until("it is back", Duration::from_secs(20), async || {
            (client.get(&path).await.status == 200).then_some(())
        })
        .await;
        (crashed.elapsed(), refused.status, state)
    };
    let (waited, first, _) = backoff().await;
    assert_eq!(
        first, 200,
        "the first restart comes at once, not after {waited:?}"
    );
    for expected in [2.0, 4.0] {
        let (waited, refused, state) = backoff().await;
        assert_eq!((refused, state), (503, json!("backing_off")));
        let waited = waited.as_secs_f64();
        // What a busy machine adds is little beside the next step.
        let bounds = expected - 0.5..expected + 1.8;
        assert!(bounds.contains(&waited), "{waited} for {expected}");
    }
    let settings = json!({"backoff_max_seconds": 0, "backoff_min_seconds": 0});
    operator.set(json!({"conversation": settings})).await;
    let (_, now, _) = backoff().await;
    assert_eq!(
        now, 200,
        "the fourth crash restarts at once, as the settings say now"
    );
}

#[tokio::test]
async fn a_neighbour_notices_nothing_of_a_conversation_that_crashes_all_the_time() {
    let server = drilling();
    let client = server.account().await.test();
    let (bad, good) = (client.conversation().await, client.conversation().await);
    let operator = Operator::of(&server);
    let settings = json!({"crashes_max": 1_000_000, "backoff_min_seconds": 0});
    operator.set(json!({"conversation": settings})).await;
    for n in 1..=100 {
        operator.crash(&bad, &client).await;
        assert_eq!(client.message(&good, &format!("{n}")).await["seq"], n);
    }
    let neighbour = operator.seen(&good).await;
    assert_eq!(
        (&neighbour["restarts"], &neighbour["last_failure"]),
        (&json!(0), &json!(null))
    );
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["restarts"]["crash"], 100);
    assert_eq!(kind["last_failures"].as_array().unwrap().len(), 20);
}

/// Sends messages until it is told to end; which were acknowledged, and which may have been done.
async fn write(client: Client, path: String, writer: usize) -> (Vec<String>, BTreeSet<String>) {
    let (mut acknowledged, mut unknown) = (Vec::new(), BTreeSet::new());
    for n in 0..40 {
        let content = format!("{writer}/{n}");
        let answer = client.post(&path, json!({"content": content})).await;
        match answer.status {
            201 => acknowledged.push(content),
            500 => drop(unknown.insert(content)),
            status => {
                assert_eq!(status, 503, "{answer}");
                assert_eq!(answer["error"]["details"]["outcome"], "none", "{answer}");
            }
        }
    }
    (acknowledged, unknown)
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_or_doubled_under_drills_at_random() {
    let server = drilling();
    let client = server.account().await.test();
    let operator = Operator::of(&server);
    let mut conversations = Vec::new();
    for _ in 0..4 {
        conversations.push(client.conversation().await);
    }
    let settings = json!({"backoff_max_seconds": 0.01, "quarantine_seconds": 0.05});
    operator.set(json!({"conversation": settings})).await;
    let writers = (0..32).map(|writer| {
        let conversation = &conversations[writer % conversations.len()];
        let path = format!("/v1/conversations/{conversation}/messages");
        tokio::spawn(write(client.clone(), path, writer))
    });
    let writers: Vec<_> = writers.collect();
    let mut dice = Dice::new(7);
    while writers.iter().any(|writer| !writer.is_finished()) {
        let conversation = &conversations[dice.below(4) as usize];
        let command = ["crash", "crash", "restart", "passivate", "release"][dice.below(5) as usize];
        operator.steer(conversation, command).await.expect(200);
    }
    let (mut acknowledged, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for writer in writers {
        let (done, may_be) = writer.await.unwrap();
        acknowledged.extend(done);
        unknown.extend(may_be);
    }
    assert!(
        acknowledged.len() > 32 && !unknown.is_empty(),
        "{unknown:?}"
    );
    let mut stored = Vec::new();
    for conversation in &conversations {
        operator.steer(conversation, "release").await.expect(200);
        stored.extend(contents(&client, conversation).await);
    }
    let distinct: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(distinct.len(), stored.len(), "something is doubled");
    assert_eq!(
        acknowledged.difference(&distinct).next(),
        None,
        "something is lost"
    );
    let allowed: BTreeSet<String> = acknowledged.union(&unknown).cloned().collect();
    assert_eq!(
        distinct.difference(&allowed).next(),
        None,
        "something refused was done"
    );
}

/// The texts of all messages of a conversation.
async fn contents(client: &Client, conversation: &str) -> Vec<String> {
    let first = format!("/v1/conversations/{conversation}/messages?limit=100&after_seq=0");
    let (mut all, mut path) = (Vec::new(), Some(first));
    while let Some(next) = path {
        let page = client.get(&next).await.expect(200);
        all.extend(page.column("content"));
        path = page.link("next");
    }
    all
}

#[tokio::test]
async fn the_limiter_fails_the_request_that_crashes_it_and_no_other() {
    let server = drilling();
    let client = server.account().await.test();
    let operator = Operator::of(&server);
    let path = "/admin/v1/actors/limiter/instances";
    let shards = operator.0.get(path).await.expect(200).column("id");
    for shard in &shards {
        let drill = format!("{}/crash", at("limiter", shard));
        operator.0.post(&drill, json!({})).await.expect(200);
    }
    // The answer tells what is left of the limits, as every answer to a key does.
    let crashed = client.get("/v1").await.error(500, "server_error", "");
    let left = crashed.number("x-ratelimit-remaining");
    let outcome = &crashed["error"]["details"]["outcome"];
    assert_eq!(outcome, "none", "the request itself was never begun");
    let next = client.get("/v1").await.expect(200);
    assert_eq!(next.number("x-ratelimit-remaining"), left - 1);
    let kind = operator.kind("limiter").await;
    assert_eq!(kind["restarts"]["crash"], 1);
    assert_eq!(kind["refused"]["backing_off"], 0, "a crash is no refusal");
    for command in ["restart", "passivate", "release"] {
        let path = format!("{}/{command}", at("limiter", "limiter_0"));
        let steered = operator.0.post(&path, json!({})).await.expect(200);
        assert_eq!(steered["state"], "ready");
    }
    assert_eq!(operator.kind("limiter").await["restarts"]["operator"], 1);
}

#[tokio::test]
async fn a_key_that_has_spent_its_burst_has_spent_it_after_a_crash_and_a_restart_too() {
    let server = drilling();
    let account = server.account().await;
    let operator = Operator::of(&server);
    let limits = json!({"plan": "enterprise", "rate_per_minute": 5, "burst_per_minute": 5});
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    operator.0.patch(&path, limits).await.expect(200);
    let client = account.test();
    for _ in 0..5 {
        client.get("/v1").await.expect(200);
    }
    client.get("/v1").await.error(429, "rate_limited", "");
    let shards = operator.0.get("/admin/v1/actors/limiter/instances").await;
    let shards = shards.expect(200).column("id");
    for (command, first) in [("restart", 429), ("crash", 500), ("passivate", 429)] {
        for shard in &shards {
            let path = format!("{}/{command}", at("limiter", shard));
            operator.0.post(&path, json!({})).await.expect(200);
        }
        assert_eq!(client.get("/v1").await.status, first, "{command}");
        let still = client.get("/v1").await.error(429, "rate_limited", "");
        assert_eq!(still.number("x-ratelimit-remaining"), 0, "{command}");
    }
}

#[tokio::test]
async fn deliveries_survive_a_crash_of_whoever_delivers() {
    let mut server = Setup::default()
        .env("COLLOQUY__SUPERVISION__DRILLS", "true")
        .delivering("[0.05, 0.1, 0.2]", "5")
        .start();
    server.expect_errors();
    let client = server.account().await.test();
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    client.post("/v1/webhooks", hook).await.expect(201);
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let of_dispatcher = at("webhook_dispatcher", "webhook_dispatcher");
    for n in 1..=3 {
        let drill = format!("{of_dispatcher}/crash");
        operator.0.post(&drill, json!({})).await.expect(200);
        client.message(&conversation, &format!("message {n}")).await;
        until("it has crashed", Duration::from_secs(20), async || {
            let kind = operator.kind("webhook_dispatcher").await;
            (kind["restarts"]["crash"] == n).then_some(())
        })
        .await;
        let delivered = |received: Vec<_>| {
            let content = json!(format!("message {n}"));
            received
                .iter()
                .any(|one: &crate::support::receiver::Received| {
                    one.event()["data"]["content"] == content
                })
        };
        until("it is delivered", Duration::from_secs(20), async || {
            delivered(receiver.received()).then_some(())
        })
        .await;
    }
    let seen = operator.0.get(&of_dispatcher).await.expect(200);
    assert_eq!(
        (&seen["restarts"], &seen["last_failure"]["cause"]),
        (&json!(3), &json!("crash"))
    );
}

#[tokio::test]
async fn a_quarantine_whose_time_is_up_is_told_as_what_the_next_request_meets() {
    let server = drilling();
    let client = server.account().await.test();
    let (over, runs) = (client.conversation().await, client.conversation().await);
    let operator = Operator::of(&server);
    operator.quarantine(&over, &client).await;
    operator
        .set(json!({"conversation": {"quarantine_seconds": 0}}))
        .await;
    operator
        .set(json!({"conversation": {"quarantine_seconds": 3_600}}))
        .await;
    operator.quarantine(&runs, &client).await;
    let seen = operator.seen(&over).await;
    assert_eq!(
        (&seen["state"], &seen["quarantined_until"]),
        (&json!("ready"), &json!(null)),
        "nobody has asked it since"
    );
    assert_eq!(seen["last_failure"]["cause"], "crash");
    let kind = operator.kind("conversation").await;
    let states = json!({"loading": 0, "ready": 1, "backing_off": 0, "quarantined": 1});
    assert_eq!(kind["by_state"], states);
    let listed = async |state: &str| {
        let path = format!("/admin/v1/actors/conversation/instances?state={state}");
        operator.0.get(&path).await.expect(200).column("id")
    };
    assert_eq!(listed("ready").await, [over.as_str()]);
    assert_eq!(listed("quarantined").await, [runs.as_str()]);
    let shown = operator.steer(&over, "restart").await.expect(200);
    assert_eq!(shown["state"], "ready", "commands show the same");
    assert_eq!(operator.seen(&over).await["restarts"], 4, "there is none");
    // It is still the trial that the next request is.
    operator.crash(&over, &client).await;
    assert_eq!(operator.seen(&over).await["state"], "quarantined");
}

#[tokio::test]
async fn an_actor_in_quarantine_holds_no_bytes() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    assert_ne!(operator.seen(&conversation).await["bytes"], 0);
    operator.quarantine(&conversation, &client).await;
    assert_eq!(operator.seen(&conversation).await["bytes"], 0);
    assert_eq!(operator.kind("conversation").await["bytes"], 0);
}

#[tokio::test]
async fn a_drill_that_is_not_spent_keeps_no_actor_in_memory_and_outlives_its_idleness() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator.steer(&conversation, "crash").await.expect(200);
    let idle = json!({"idle_seconds": 0, "sweep_seconds": 0.05});
    operator.set(json!({"conversation": idle})).await;
    until("it is passivated", Duration::from_secs(10), async || {
        (operator.seen(&conversation).await["state"] == "passive").then_some(())
    })
    .await;
    let path = format!("/v1/conversations/{conversation}");
    client.get(&path).await.error(500, "server_error", "");
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn an_operator_who_passivates_an_actor_forgives_none_of_its_crashes() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let settings = json!({"backoff_min_seconds": 0, "quarantine_seconds": 3_600});
    operator.set(json!({"conversation": settings})).await;
    let passivate = async || {
        until("it has left memory", Duration::from_secs(10), async || {
            let gone = operator.steer(&conversation, "passivate").await.expect(200);
            (gone["state"] == "passive").then_some(())
        })
        .await
    };
    for _ in 0..4 {
        operator.crash(&conversation, &client).await;
        passivate().await;
    }
    operator.crash(&conversation, &client).await;
    assert_eq!(operator.seen(&conversation).await["state"], "quarantined");
    // The trial is still to come when its actor comes back.
    operator
        .set(json!({"conversation": {"quarantine_seconds": 0}}))
        .await;
    operator
        .set(json!({"conversation": {"quarantine_seconds": 3_600}}))
        .await;
    passivate().await;
    operator.crash(&conversation, &client).await;
    assert_eq!(operator.seen(&conversation).await["state"], "quarantined");
}
