//! How operators change the supervision while the server runs.

use serde_json::{Value, json};

use super::{Operator, drilling};
use crate::support::shapes::{assert_shape, instant, keys};
use crate::support::{Server, Setup, shared};

const PATH: &str = "/admin/v1/supervision";
const SETTINGS: &str = "mailbox_places, turn_budget, ask_timeout_seconds, active_max, bytes_max, idle_seconds, \
    sweep_seconds, loads_max, crashes_max, window_seconds, backoff_first_seconds, backoff_min_seconds, \
    backoff_max_seconds, backoff_jitter, quarantine_seconds";

#[tokio::test]
async fn every_setting_of_every_kind_is_shown_with_what_is_configured() {
    let server = Setup::default()
        .config("[supervision]\nidle_seconds = 77\n[supervision.key]\nbackoff_min_seconds = 0.25\n")
        .start();
    let shown = server.operator().get(PATH).await.expect(200);
    assert_eq!(keys(&shown.body), ["kinds"]);
    let kinds = "conversation, document, account, key, user, customer, webhook, client, grant";
    assert_shape(&shown["kinds"], kinds);
    for kind in keys(&shown["kinds"]) {
        assert_shape(&shown["kinds"][kind], SETTINGS);
        let setting = |name: &str| shown["kinds"][kind][name].clone();
        assert_eq!(setting("crashes_max"), json!({"value": 5, "configured": 5}));
        assert_eq!(
            setting("idle_seconds"),
            json!({"value": 77, "configured": 77})
        );
        let least = if kind == "key" { 0.25 } else { 0.1 };
        assert_eq!(
            setting("backoff_min_seconds"),
            json!({"value": least, "configured": least})
        );
    }
}

/// The value and the configured one of a conversation's setting.
fn of_conversations(shown: &Value, setting: &str) -> (Value, Value) {
    let found = &shown["kinds"]["conversation"][setting];
    (found["value"].clone(), found["configured"].clone())
}

#[tokio::test]
async fn a_change_is_kept_and_null_goes_back() {
    let mut server = Server::start();
    let operator = Operator::of(&server);
    let before = operator.0.get(PATH).await.expect(200);
    let changed = operator
        .set(json!({"conversation": {"crashes_max": 3, "idle_seconds": 1.5}}))
        .await;
    assert_eq!(
        of_conversations(&changed.body, "crashes_max"),
        (json!(3), json!(5))
    );
    assert_eq!(
        of_conversations(&changed.body, "idle_seconds"),
        (json!(1.5), json!(300))
    );
    assert_ne!(changed.etag(), before.etag());
    let read = operator.0.get(PATH).await.expect(200);
    assert_eq!((read.etag(), &read.body), (changed.etag(), &changed.body));
    server.restart();
    let operator = Operator::of(&server);
    let read = operator.0.get(PATH).await.expect(200);
    assert_eq!(
        (read.etag(), &read.body),
        (changed.etag(), &changed.body),
        "it is kept"
    );
    let back = operator
        .set(json!({"conversation": {"crashes_max": null}}))
        .await;
    assert_eq!(
        of_conversations(&back.body, "crashes_max"),
        (json!(5), json!(5))
    );
    assert_eq!(
        of_conversations(&back.body, "idle_seconds"),
        (json!(1.5), json!(300))
    );
    operator
        .set(json!({"conversation": {"idle_seconds": null}}))
        .await;
    let after = operator.0.get(PATH).await.expect(200);
    assert_eq!(after.body, before.body);
    assert_eq!(server.term().code(), Some(0));
    server.assert_sound();
}

#[tokio::test]
async fn what_changes_nothing_leaves_the_tag() {
    let operator = shared().operator();
    let before = operator.get(PATH).await.expect(200).etag();
    for body in [
        json!({}),
        json!({"kinds": {}}),
        json!({"kinds": {"user": {}}}),
        // Null for what was never changed.
        json!({"kinds": {"user": {"crashes_max": null}}}),
    ] {
        let same = operator.patch(PATH, body).await.expect(200);
        assert_eq!(same.etag(), before);
    }
    let call = operator.get(PATH).with("if-none-match", &before);
    call.await.expect(304);
}

#[tokio::test]
async fn of_two_operators_that_change_the_same_state_one_is_refused() {
    let server = Server::start();
    let operator = server.operator();
    let tag = operator.get(PATH).await.expect(200).etag();
    let change = async |crashes: u32| {
        let body = json!({"kinds": {"conversation": {"crashes_max": crashes}}});
        operator.patch(PATH, body).with("if-match", &tag).await
    };
    let (first, second) = tokio::join!(change(2), change(3));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    change(4).await.error(412, "precondition_failed", "");
    let any = json!({"kinds": {"conversation": {"crashes_max": 7}}});
    operator
        .patch(PATH, any)
        .with("if-match", "*")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_bad_setting_is_refused_by_its_full_name() {
    let operator = shared().operator();
    let before = operator.get(PATH).await.expect(200).body;
    for (setting, value) in [
        ("crashes_max", json!(0)),
        ("crashes_max", json!(-1)),
        ("crashes_max", json!(1.5)),
        ("crashes_max", json!("3")),
        ("crashes_max", json!(true)),
        ("crashes_max", json!([3])),
        ("mailbox_places", json!(0)),
        ("mailbox_places", json!(65_537)),
        ("turn_budget", json!(0)),
        ("active_max", json!(0)),
        ("bytes_max", json!(0)),
        ("loads_max", json!(0)),
        ("loads_max", json!(1e18)),
        ("quarantine_seconds", json!(-0.1)),
        ("window_seconds", json!(1e16)),
        ("idle_seconds", json!("soon")),
        ("backoff_jitter", json!(1.1)),
        ("backoff_jitter", json!(-0.1)),
        ("crash_max", json!(3)),
    ] {
        let body = json!({"kinds": {"conversation": {setting: value}}});
        let field = format!("kinds.conversation.{setting}");
        let refused = operator.patch(PATH, body).await;
        refused.error(400, "invalid_request", &field);
    }
    for (body, field) in [
        (json!({"kinds": {"nonsense": {}}}), "kinds.nonsense"),
        (json!({"kinds": {"limiter": {}}}), "kinds.limiter"),
        (
            json!({"kinds": {"conversation": null}}),
            "kinds.conversation",
        ),
        (json!({"kinds": {"conversation": 3}}), "kinds.conversation"),
        (json!({"kinds": null}), "kinds"),
        (json!({"kind": {}}), "kind"),
        (json!([]), ""),
    ] {
        operator
            .patch(PATH, body)
            .await
            .error(400, "invalid_request", field);
    }
    let after = operator.get(PATH).await.expect(200).body;
    assert_eq!(after, before, "nothing was changed, of none of them");
}

#[tokio::test]
async fn a_change_holds_at_once_for_what_lives() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator
        .set(json!({"conversation": {"crashes_max": 2}}))
        .await;
    operator.crash(&conversation, &client).await;
    operator.crash(&conversation, &client).await;
    let seen = operator.seen(&conversation).await;
    assert_eq!(
        seen["state"], "quarantined",
        "the second crash is enough now"
    );
    operator.steer(&conversation, "release").await.expect(200);
    operator
        .set(json!({"conversation": {"crashes_max": null}}))
        .await;
    operator.crash(&conversation, &client).await;
    operator.crash(&conversation, &client).await;
    assert_ne!(operator.seen(&conversation).await["state"], "quarantined");
}

#[tokio::test]
async fn a_smaller_mailbox_refuses_what_is_too_much_and_counts_it() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    operator
        .set(json!({"conversation": {"mailbox_places": 1}}))
        .await;
    let path = format!("/v1/conversations/{conversation}/messages");
    let (mut done, mut refused) = (0_u64, 0_u64);
    while refused == 0 {
        let sends = (0..16).map(|n| {
            let call = client.post(&path, json!({"content": format!("message {n}")}));
            tokio::spawn(async move { call.await })
        });
        let sends: Vec<_> = sends.collect();
        for send in sends {
            let answer = send.await.unwrap();
            match answer.status {
                201 => done += 1,
                _ => {
                    assert_eq!(answer["error"]["details"]["outcome"], "none", "{answer}");
                    answer.error(503, "unavailable", "");
                    refused += 1;
                }
            }
        }
    }
    let kind = operator.kind("conversation").await;
    assert_eq!(kind["refused"]["mailbox_full"], refused);
    assert_eq!(kind["handled"], done + 1);
    assert_eq!(client.get(&path).await.total(), done);
}

#[tokio::test]
async fn each_change_is_logged() {
    let server = Server::start();
    let operator = Operator::of(&server);
    operator.set(json!({"document": {"turn_budget": 31}})).await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("turn_budget"));
    let line = line.unwrap_or_else(|| panic!("it is not logged:\n{log}"));
    for part in ["document", "32", "31"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// The lines of the log that tell of a change of the supervision.
fn changes(server: &Server) -> Vec<String> {
    let log = server.log();
    let told = |line: &&str| {
        [
            "a setting of supervision has changed",
            "an operator has changed the supervision",
        ]
        .iter()
        .any(|words| line.contains(words))
    };
    log.lines().filter(told).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_changes_nothing_that_holds_is_not_logged_and_numbers_are_logged_as_written() {
    let mut server = Server::start();
    let operator = Operator::of(&server);
    let before = operator.0.get(PATH).await.expect(200);
    let same = operator
        .set(json!({"conversation": {"crashes_max": 5}}))
        .await;
    assert_eq!(same.etag(), before.etag());
    assert!(same.body == before.body, "five is what it was");
    operator
        .set(json!({"conversation": {"crashes_max": null}}))
        .await;
    assert_eq!(changes(&server), [""; 0], "five is what holds");
    operator
        .set(json!({"conversation": {"crashes_max": 9, "idle_seconds": 0.5}}))
        .await;
    let told = changes(&server).join("\n");
    for words in ["from=5 to=9", "from=300 to=0.5"] {
        assert!(told.contains(words), "{words}:\n{told}");
    }
    let count = changes(&server).len();
    assert_eq!(count, 3, "two settings by one operator");
    server.set_env("COLLOQUY__SUPERVISION__CRASHES_MAX", "9");
    server.restart();
    let shown = Operator::of(&server).0.get(PATH).await.expect(200);
    assert_eq!(
        of_conversations(&shown.body, "crashes_max"),
        (json!(9), json!(9))
    );
    let since = changes(&server).split_off(count);
    let told = |setting: &str| since.iter().any(|line| line.contains(setting));
    assert!(!told("crashes_max"), "configured and kept are 9: {since:?}");
    assert!(told("idle_seconds"), "what is kept holds again: {since:?}");
}

/// Writes into the one record what another version may have kept.
const REWRITE: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
count = db.execute('UPDATE records SET body = ? WHERE kind = 8', [sys.argv[2]]).rowcount
db.commit()
assert count == 1, count
";

#[tokio::test]
async fn a_kept_setting_that_this_version_does_not_know_is_told_and_left_alone() {
    let mut server = Server::start();
    Operator::of(&server)
        .set(json!({"conversation": {"crashes_max": 3}}))
        .await;
    assert_eq!(server.term().code(), Some(0));
    let kept = json!({
        "conversation": {"crashes_max": 4, "patience_max": 9, "mailbox_places": 1e9},
        "robot": {"crashes_max": 2},
    });
    let written = std::process::Command::new("python3")
        .args(["-c", REWRITE])
        .arg(server.work().join("data/colloquy.db"))
        .arg(kept.to_string())
        .status();
    assert!(written.unwrap().success());
    server.restart();
    let operator = Operator::of(&server);
    let shown = operator.0.get(PATH).await.expect(200);
    assert_eq!(
        of_conversations(&shown.body, "crashes_max"),
        (json!(4), json!(5))
    );
    assert_eq!(
        of_conversations(&shown.body, "mailbox_places"),
        (json!(256), json!(256))
    );
    let log = server.log();
    for name in ["patience_max", "robot", "mailbox_places"] {
        let told = |line: &&str| line.contains("WARN") && line.contains(name);
        assert!(log.lines().any(|line| told(&line)), "{name}:\n{log}");
    }
    operator
        .set(json!({"conversation": {"crashes_max": null}}))
        .await;
    server.restart();
    assert!(
        server
            .log()
            .lines()
            .filter(|line| line.contains("robot"))
            .count()
            >= 2,
        "it is still kept"
    );
}

#[tokio::test]
async fn a_bad_setting_is_told_its_real_bounds() {
    let operator = shared().operator();
    for (setting, values, right) in [
        (
            "mailbox_places",
            json!([0, -1, 1.5, 65_537, "3", true, [3], {"a": 1}]),
            "must be an integer from 1 to 65536",
        ),
        (
            "crashes_max",
            json!([0, -1, 1e10]),
            "must be an integer from 1 to 4294967295",
        ),
        (
            "bytes_max",
            json!([0, 1e16]),
            "must be an integer from 1 to 1000000000000000",
        ),
        (
            "backoff_jitter",
            json!([-0.1, 1.1, "x"]),
            "must be a number from 0 to 1",
        ),
        (
            "idle_seconds",
            json!([-1, 1e16, "soon"]),
            "must be a number from 0 to 1000000000000000",
        ),
    ] {
        for value in values.as_array().unwrap() {
            let body = json!({"kinds": {"conversation": {setting: value}}});
            let refused = operator.patch(PATH, body).await;
            assert_eq!(refused.reason(), right, "{setting} = {value}");
            let field = format!("kinds.conversation.{setting}");
            refused.error(400, "invalid_request", &field);
        }
    }
}

#[tokio::test]
async fn a_change_holds_for_a_backoff_and_a_quarantine_that_already_run() {
    let server = drilling();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let operator = Operator::of(&server);
    let path = format!("/v1/conversations/{conversation}");
    let long = json!({"backoff_min_seconds": 600, "backoff_max_seconds": 600, "backoff_jitter": 0});
    operator.set(json!({"conversation": long})).await;
    operator.crash(&conversation, &client).await;
    operator.crash(&conversation, &client).await;
    assert!(client.get(&path).await.number("retry-after") > 60);
    operator
        .set(json!({"conversation": {"backoff_max_seconds": 60}}))
        .await;
    assert!((1..=60).contains(&client.get(&path).await.number("retry-after")));
    operator
        .set(json!({"conversation": {"backoff_max_seconds": 0}}))
        .await;
    client.get(&path).await.expect(200);

    operator
        .set(json!({"conversation": {"crashes_max": 3}}))
        .await;
    operator.crash(&conversation, &client).await;
    let left = async || {
        let seen = operator.seen(&conversation).await;
        assert_eq!(seen["state"], "quarantined");
        (instant(&seen["quarantined_until"]) - chrono::Utc::now()).num_seconds()
    };
    assert!((1..=60).contains(&left().await));
    operator
        .set(json!({"conversation": {"quarantine_seconds": 3_600}}))
        .await;
    assert!((3_000..=3_600).contains(&left().await));
    operator
        .set(json!({"conversation": {"quarantine_seconds": 0}}))
        .await;
    // It has ended, and stays so: a longer one is for the next.
    operator
        .set(json!({"conversation": {"quarantine_seconds": 1e15}}))
        .await;
    client.get(&path).await.expect(200);
    operator
        .set(json!({"conversation": {"crashes_max": 1}}))
        .await;
    operator.crash(&conversation, &client).await;
    let seen = operator.seen(&conversation).await;
    assert_eq!(seen["quarantined_until"], "9999-12-31T23:59:59.999Z");
    operator
        .set(json!({"conversation": {"quarantine_seconds": 0}}))
        .await;
    client.get(&path).await.expect(200);
}
