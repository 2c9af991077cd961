//! What operators see of kinds and of single actors.

use std::time::Duration;

use serde_json::json;

use super::{INSTANCE, KIND, Operator, assert_instance, at};
use crate::support::shapes::{assert_recent, assert_shape};
use crate::support::{Server, account, shared, until};

const KINDS: [&str; 9] = [
    "conversation",
    "document",
    "account",
    "key",
    "user",
    "customer",
    "webhook",
    "limiter",
    "webhook_dispatcher",
];

#[tokio::test]
async fn every_kind_of_actor_has_its_figures() {
    let operator = shared().operator();
    let kinds = operator.get("/admin/v1/actors").await.expect(200);
    let names = kinds.column("kind");
    for kind in KINDS {
        assert!(names.iter().any(|name| name == kind), "{kind}");
        let one = operator.get(&format!("/admin/v1/actors/{kind}")).await;
        assert_eq!(one.expect(200)["kind"], kind);
    }
    for kind in kinds.data() {
        assert_shape(kind, KIND);
        assert_shape(
            &kind["by_state"],
            "loading, ready, backing_off, quarantined",
        );
        assert_shape(&kind["mailbox"], "used, max");
        for times in ["working_ms", "waiting_ms"] {
            assert_shape(&kind[times], "p50, p99");
            assert!(kind[times]["p99"].as_f64() >= kind[times]["p50"].as_f64());
        }
    }
}

#[tokio::test]
async fn a_kinds_figures_agree_with_what_was_done() {
    let server = Server::start();
    let operator = Operator::of(&server);
    let before = operator.kind("conversation").await;
    assert_eq!(
        (&before["live"], &before["handled"]),
        (&json!(0), &json!(0))
    );
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    for n in 0..10 {
        client.message(&conversation, &format!("message {n}")).await;
    }
    let after = operator.kind("conversation").await;
    assert_eq!(after["live"], 1);
    assert_eq!(after["by_state"]["ready"], 1);
    assert_eq!(after["activations"], 1);
    assert_eq!(after["handled"], 11, "the creation and ten messages");
    assert_eq!(after["mailbox"], json!({"used": 0, "max": 0}));
    assert!(after["bytes"].as_u64().unwrap() > 0);
    assert_eq!(after["conflicts"], 0);
    assert_eq!(after["last_failures"], json!([]));
    assert_eq!(sum(&after["refused"]), 0);
    assert_eq!(sum(&after["restarts"]), 0);
    assert_eq!(sum(&after["passivations"]), 0);
}

#[tokio::test]
async fn an_actor_in_memory_and_one_that_is_only_stored_are_both_shown() {
    let mut server = Server::start();
    let client = server.account().await.test();
    let (first, second) = (client.conversation().await, client.conversation().await);
    client.message(&first, "hello").await;
    let operator = Operator::of(&server);
    let seen = operator.seen(&first).await;
    assert_instance(&seen);
    assert_eq!(
        (&seen["id"], &seen["state"]),
        (&json!(first), &json!("ready"))
    );
    assert_eq!(
        (&seen["revision"], &seen["mailbox_used"]),
        (&json!(2), &json!(0))
    );
    assert_recent(&seen["last_used_at"]);
    server.restart();
    let operator = Operator::of(&server);
    for id in [&first, &second] {
        let seen = operator.seen(id).await;
        assert_instance(&seen);
        assert_eq!(seen["state"], "passive");
        assert_eq!(
            (&seen["bytes"], &seen["last_used_at"]),
            (&json!(0), &json!(null))
        );
    }
    assert_eq!(operator.seen(&first).await["revision"], 2);
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["live"], 0, "looking loads nothing");
}

#[tokio::test]
async fn instances_are_filtered_sorted_and_limited() {
    let server = Server::start();
    let client = server.account().await.test();
    let mut made = Vec::new();
    for _ in 0..25 {
        made.push(client.conversation().await);
    }
    client.message(&made[3], "the latest").await;
    let operator = server.operator();
    let list = async |query: &str| {
        let path = format!("/admin/v1/actors/conversation/instances{query}");
        operator.get(&path).await.expect(200)
    };
    let all = list("").await;
    assert_eq!(all.data().len(), 20, "the default limit");
    assert!(all["meta"].is_null(), "{all}");
    assert_eq!(all.column("id")[0], made[3], "the latest first");
    for instance in all.data() {
        assert_instance(instance);
    }
    assert_eq!(list("?limit=1000&state=ready").await.data().len(), 25);
    assert_eq!(list("?state=quarantined").await.data().len(), 0);
    for sort in ["mailbox", "bytes", "restarts", "last_used"] {
        assert_eq!(list(&format!("?sort={sort}&limit=3")).await.data().len(), 3);
    }
}

#[tokio::test]
async fn what_there_is_none_of_is_404() {
    let account = account().await;
    let operator = account.operator();
    let conversation = account.test().conversation().await;
    for path in [
        "/admin/v1/actors/nonsense".to_owned(),
        "/admin/v1/actors/nonsense/instances".to_owned(),
        at("nonsense", &conversation),
        at("conversation", "nonsense"),
        at("conversation", "conv_0190163d8694739b85d52d5e4a4d6d5f"),
        // The id of another kind.
        at("document", &conversation),
        at("conversation", &account.account_id),
    ] {
        operator.get(&path).await.error(404, "not_found", "");
    }
    let seen = operator.get(&at("conversation", &conversation)).await;
    seen.expect(200);
}

#[tokio::test]
async fn a_bad_query_is_refused_by_its_name() {
    let operator = shared().operator();
    for (query, field) in [
        ("state=asleep", "state"),
        ("state=passive", "state"),
        ("sort=name", "sort"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("offset=1", "offset"),
        ("limit=1&limit=2", "limit"),
    ] {
        let path = format!("/admin/v1/actors/conversation/instances?{query}");
        let refused = operator.get(&path).await;
        refused.error(400, "invalid_request", field);
    }
    let path = "/admin/v1/actors?kind=conversation";
    operator
        .get(path)
        .await
        .error(400, "invalid_request", "kind");
}

#[tokio::test]
async fn only_operators_see_and_steer_actors() {
    let account = account().await;
    let conversation = account.test().conversation().await;
    let steered = format!("{}/restart", at("conversation", &conversation));
    for (method, path) in [
        ("GET", "/admin/v1/actors"),
        ("GET", "/admin/v1/actors/conversation"),
        ("GET", "/admin/v1/actors/conversation/instances"),
        ("POST", steered.as_str()),
        ("GET", "/admin/v1/supervision"),
        ("PATCH", "/admin/v1/supervision"),
        ("GET", "/admin/v1/store"),
    ] {
        for client in [account.test(), account.live(), account.anonymous()] {
            let refused = client.call(method, path).await;
            refused.error(401, "unauthorized", "");
        }
    }
}

#[tokio::test]
async fn the_limiter_counts_each_request_of_a_key() {
    let server = Server::start();
    let client = server.account().await.test();
    let operator = Operator::of(&server);
    assert_eq!(operator.kind("limiter").await["handled"], 0);
    for _ in 0..40 {
        client.get("/v1").await.expect(200);
    }
    let kind = operator.kind("limiter").await;
    assert_eq!(kind["handled"], 40);
    let live = kind["live"].as_u64().unwrap();
    assert_eq!(
        (&kind["by_state"]["ready"], &kind["activations"]),
        (&json!(live), &json!(live))
    );
    assert!(kind["working_ms"]["p99"].as_f64().unwrap() > 0.0);
    let path = "/admin/v1/actors/limiter/instances";
    let shards = operator.0.get(path).await.expect(200);
    assert_eq!(shards.data().len() as u64, live);
    assert_instance(&shards.data()[0]);
    let first = operator
        .0
        .get(&at("limiter", "limiter_0"))
        .await
        .expect(200);
    assert_eq!(first["state"], "ready");
    let unknown = operator.0.get(&at("limiter", "limiter_999")).await;
    unknown.error(404, "not_found", "");
}

#[tokio::test]
async fn each_refusal_is_counted_once() {
    let server = super::drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let settings = json!({"ask_timeout_seconds": 0, "backoff_first_seconds": 0.05, "backoff_min_seconds": 0.05,
        "backoff_max_seconds": 0.05, "crashes_max": 1_000});
    operator.set(json!({"conversation": settings})).await;
    let path = format!("/v1/conversations/{conversation}/messages");
    let mut refused = 0;
    for _ in 0..20 {
        operator.steer(&conversation, "crash").await.expect(200);
        let sends = (0..40).map(|n| {
            let sent = client.post(&path, json!({"content": format!("{n}")}));
            tokio::spawn(async move { sent.await })
        });
        let sends: Vec<_> = sends.collect();
        for sent in sends {
            let answer = sent.await.unwrap();
            refused += u64::from(answer["error"]["details"]["outcome"] == "none");
        }
    }
    let kind = operator.kind("conversation").await;
    assert!(refused > 0);
    assert_eq!(sum(&kind["refused"]), refused, "{}", kind["refused"]);
}

/// How many there are of all reasons or causes together.
fn sum(counts: &serde_json::Value) -> u64 {
    let counts = counts.as_object().unwrap().values();
    counts.map(|count| count.as_u64().unwrap()).sum()
}

#[tokio::test]
async fn who_came_into_memory_and_did_not_leave_is_live() {
    let server = super::drilling();
    let client = server.account().await.test();
    let (bad, good) = (client.conversation().await, client.conversation().await);
    let operator = Operator::of(&server);
    let quick = json!({"quarantine_seconds": 0.2, "backoff_first_seconds": 0});
    operator.set(json!({"conversation": quick})).await;
    let balance = async |after: &str, live: u64| {
        let kind = operator.kind("conversation").await;
        let activations = kind["activations"].as_u64().unwrap();
        let left = sum(&kind["passivations"]);
        assert_eq!(
            (activations - left, &kind["live"]),
            (live, &json!(live)),
            "after {after}: {kind}"
        );
    };
    balance("two creations", 2).await;
    operator.crash(&good, &client).await;
    balance("a crash", 2).await;
    operator.steer(&good, "restart").await.expect(200);
    client.message(&good, "after the restart").await;
    balance("a restart", 2).await;
    operator.quarantine(&bad, &client).await;
    balance("a quarantine", 2).await;
    let path = format!("/v1/conversations/{bad}");
    until("the trial is let in", Duration::from_secs(10), async || {
        (client.get(&path).await.status == 200).then_some(())
    })
    .await;
    balance("a trial", 2).await;
    operator.crash(&bad, &client).await;
    balance("a second quarantine", 2).await;
    operator.steer(&bad, "release").await.expect(200);
    balance("a release", 2).await;
    client.get(&path).await.expect(200);
    balance("its next request", 2).await;
    operator.steer(&bad, "passivate").await.expect(200);
    balance("a passivation", 1).await;
    client.get(&path).await.expect(200);
    balance("its return", 2).await;
    for kind in KINDS {
        let figures = operator.kind(kind).await;
        let activations = figures["activations"].as_u64().unwrap();
        let left = sum(&figures["passivations"]);
        assert_eq!(
            Some(activations - left),
            figures["live"].as_u64(),
            "{figures}"
        );
    }
}

#[tokio::test]
async fn an_actor_to_which_nothing_happens_keeps_its_tag_and_commands_show_it() {
    let server = super::drilling();
    let client = server.account().await.test();
    let (idle, bad) = (client.conversation().await, client.conversation().await);
    let operator = Operator::of(&server);
    operator.quarantine(&bad, &client).await;
    client.message(&idle, "the last use").await;
    for path in [
        at("conversation", &idle),
        at("conversation", &bad),
        at("webhook_dispatcher", "webhook_dispatcher"),
    ] {
        let first = operator.0.get(&path).await.expect(200);
        for _ in 0..50 {
            let again = operator.0.get(&path).await.expect(200);
            assert_eq!((again.etag(), &again.body), (first.etag(), &first.body));
        }
        let unchanged = operator.0.get(&path).with("if-none-match", &first.etag());
        unchanged.await.expect(304);
    }
    let nothing_to_do = operator.steer(&idle, "release").await.expect(200);
    let seen = operator.0.get(&at("conversation", &idle)).await.expect(200);
    assert_eq!(nothing_to_do.etag(), seen.etag());
}

#[tokio::test]
async fn the_interface_document_says_what_is_always_there_and_what_is_too_much() {
    let document = shared().operator().get("/openapi.json").await.expect(200);
    let schema = |name: &str| document["components"]["schemas"][name].clone();
    let mut required: Vec<String> =
        serde_json::from_value(schema("ActorInstance")["required"].clone()).unwrap();
    required.sort_unstable();
    let mut shape: Vec<&str> = INSTANCE.split(", ").collect();
    shape.sort_unstable();
    assert_eq!(required, shape);
    let settings = schema("ChangeKindSupervision")["properties"].clone();
    assert_eq!(settings.as_object().unwrap().len(), 15);
    for (name, setting) in settings.as_object().unwrap() {
        assert!(setting["minimum"].is_number(), "{name}: {setting}");
        assert!(setting["maximum"].is_number(), "{name}: {setting}");
    }
    let words = schema("ActorKind")["properties"]["activations"]["description"].clone();
    assert!(words.as_str().unwrap().contains("`live`"), "{words}");
}

#[tokio::test]
async fn lists_of_actors_have_weak_tags_and_a_single_one_has_a_strong_one() {
    let server = Server::start();
    let conversation = server.account().await.test().conversation().await;
    let operator = server.operator();
    let tag = async |path: &str| {
        let shown = operator.get(path).await.expect(200);
        assert_eq!(shown.header("cache-control"), "private, no-cache", "{path}");
        let tag = shown.etag();
        for known in [tag.clone(), format!("W/{}", tag.trim_start_matches("W/"))] {
            let call = operator.get(path).with("if-none-match", &known);
            assert_eq!(call.await.expect(304).etag(), tag, "{path}");
        }
        tag
    };
    for list in [
        "/admin/v1/actors",
        "/admin/v1/actors/conversation/instances",
    ] {
        assert!(tag(list).await.starts_with("W/\""), "{list}");
    }
    let instance = at("conversation", &conversation);
    for single in ["/admin/v1/actors/conversation", &instance] {
        assert!(tag(single).await.starts_with('"'), "{single}");
    }
}
