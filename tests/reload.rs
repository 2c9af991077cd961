//! SIGHUP: settings are read again; some hold at once, the others need a restart and are named.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::server::Setup;
use crate::support::{Server, process, until};

const SOON: Duration = Duration::from_secs(30);
const PAGE: &str = "https://app.example";

/// A server with these settings in its file.
fn with(settings: &str) -> Server {
    Setup::default().config(settings).start()
}

fn said(server: &Server, words: &str) -> usize {
    server.log().matches(words).count()
}

/// Writes other settings and sends SIGHUP; gives the line of the log that tells what came of it.
async fn reloaded(server: &Server, settings: &str) -> String {
    fs::write(server.work().join("config.toml"), settings).unwrap();
    told(server).await
}

/// Sends SIGHUP; gives the line of the log that tells what came of it.
async fn told(server: &Server) -> String {
    const TOLD: &str = "colloquy::reload: ";
    let before = said(server, TOLD);
    process::signal("HUP", server.pid());
    until("the log tells of it", SOON, async || {
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(TOLD)).collect();
        (lines.len() > before).then(|| lines[lines.len() - 1].to_owned())
    })
    .await
}

#[tokio::test]
async fn what_pages_of_other_origins_may_do_and_what_headers_say_holds_at_once() {
    let server = with("");
    let c = server.account().await.test();
    let asked = || {
        c.call("GET", "/v1/customers")
            .with("origin", PAGE)
            .into_future()
    };
    let allowed = "access-control-allow-origin";
    let before = asked().await.expect(200);
    assert_eq!(before.header_opt(allowed), None);
    let line = reloaded(
        &server,
        "[cors]\nallowed_origins = [\"https://app.example\"]\n\
         [security_headers]\nreferrer_policy = \"same-origin\"\n",
    )
    .await;
    let names = "holds_now=\"cors.allowed_origins, security_headers.referrer_policy\"";
    assert!(line.contains(names), "{line}");
    assert!(!line.contains("needs_a_restart"), "{line}");
    let after = asked().await.expect(200);
    assert_eq!(after.header_opt(allowed), Some(PAGE));
    assert_eq!(after.header_opt("referrer-policy"), Some("same-origin"));
    reloaded(&server, "").await;
    let again = asked().await.expect(200);
    assert_eq!(again.header_opt(allowed), None);
    assert_eq!(again.header_opt("referrer-policy"), Some("no-referrer"));
}

#[tokio::test]
async fn rates_and_quotas_of_plans_hold_for_the_next_request() {
    let server = with("[plans.basic]\nrate_per_minute = 60\nburst_per_minute = 90\n");
    let operator = server.operator();
    let account = operator.post("/admin/v1/accounts", json!({"name": "A", "plan": "basic"}));
    let id = account.await.expect(201).id("account_id");
    let keys = format!("/admin/v1/accounts/{id}/keys");
    let key = operator
        .post(&keys, json!({"type": "test"}))
        .await
        .expect(201);
    let c = server.with_key(key["key"].as_str().unwrap());
    let limit = async || {
        let answer = c.get("/v1/customers").await.expect(200);
        answer.header("x-ratelimit-limit").to_owned()
    };
    assert_eq!(limit().await, "60");
    let plan = "[plans.basic]\nrate_per_minute = 70\nburst_per_minute = 90\nmonthly_quota = 1\n";
    reloaded(&server, plan).await;
    let over = c.get("/v1/customers").await.expect(429);
    assert_eq!(over["error"]["code"], "quota_exceeded");
    let shown = operator
        .get(&format!("/admin/v1/accounts/{id}"))
        .await
        .expect(200);
    assert_eq!(shown["monthly_quota"], 1);
    reloaded(&server, &plan.replace("quota = 1", "quota = 0")).await;
    assert_eq!(limit().await, "70");
}

#[tokio::test]
async fn what_is_configured_of_supervision_changes_and_what_operators_have_set_stays_over_it() {
    let server = with("");
    let operator = server.operator();
    let path = "/admin/v1/supervision";
    let set = json!({"kinds": {"document": {"idle_seconds": 11}}});
    operator.patch(path, set).await.expect(200);
    reloaded(
        &server,
        "[supervision]\nidle_seconds = 33\n[supervision.conversation]\nmailbox_places = 17\n",
    )
    .await;
    let now = operator.get(path).await.expect(200);
    let kinds = &now["kinds"];
    assert_eq!(
        kinds["document"]["idle_seconds"],
        json!({"value": 11, "configured": 33})
    );
    assert_eq!(
        kinds["conversation"]["mailbox_places"],
        json!({"value": 17, "configured": 17})
    );
    for (kind, settings) in kinds.as_object().unwrap() {
        assert_eq!(settings["idle_seconds"]["configured"], 33, "{kind}");
    }
}

#[tokio::test]
async fn deprecations_and_the_level_of_the_log_hold_at_once() {
    let quiet = "[log]\nlevel = \"warn\"\n";
    let server = with(quiet);
    let c = server.account().await.test();
    let deprecated = "[[deprecations]]\nroute = \"GET /v1/customers\"\nsince = \"2026-12-01\"\n\
                      sunset = \"2027-12-01\"\nlink = \"https://docs.example/c\"\n\
                      [metrics]\npublic = true\n[log]\nlevel = \"info\"\n";
    server.anonymous().get("/metrics").await.expect(401);
    assert_eq!(said(&server, " INFO "), 0);
    let line = reloaded(&server, deprecated).await;
    assert!(
        line.contains("holds_now=\"deprecations, log.level, metrics.public\""),
        "{line}"
    );
    let answer = c.get("/v1/customers").await.expect(200);
    assert_eq!(answer.header("sunset"), "Wed, 01 Dec 2027 00:00:00 GMT");
    let document = server.anonymous().get("/openapi.json").await.expect(200);
    assert_eq!(
        document["paths"]["/v1/customers"]["get"]["deprecated"],
        true
    );
    let changelog = c.get("/v1/changelog").await.expect(200);
    assert!(String::from_utf8_lossy(&changelog.bytes).contains("docs.example/c"));
    server.anonymous().get("/metrics").await.expect(200);
    assert!(line.contains(" INFO "), "{line}");
    let before = said(&server, " INFO ");
    let restart = format!("{quiet}[limits]\nmax_body_bytes = 9_000\n");
    let line = reloaded(&server, &restart).await;
    assert!(
        line.contains(" WARN "),
        "what needs a restart is a warning: {line}"
    );
    let operator = server.operator();
    let change = json!({"kinds": {"user": {"idle_seconds": 7}}});
    operator
        .patch("/admin/v1/supervision", change)
        .await
        .expect(200);
    assert_eq!(said(&server, " INFO "), before);
}

#[tokio::test]
async fn what_needs_a_restart_is_named_without_its_value_and_told_again_until_it_was_restarted() {
    let other = "[limits]\nmax_body_bytes = 1_024\n[store]\npath = \"data/other.db\"\n";
    let mut server = with("");
    for _ in 0..2 {
        let line = reloaded(&server, other).await;
        assert!(
            line.contains("needs_a_restart=\"limits.max_body_bytes, store.path\""),
            "{line}"
        );
    }
    let c = server.account().await.test();
    let long = json!({"name": "a".repeat(100), "metadata": {"k": "v".repeat(2_000)}});
    c.post("/v1/customers", long.clone()).await.expect(201);
    server.restart();
    let line = told(&server).await;
    assert!(!line.contains("needs_a_restart"), "{line}");
    let c = server.account().await.test();
    c.post("/v1/customers", long).await.expect(413);
}

#[tokio::test]
async fn settings_that_can_not_be_used_change_nothing_and_are_told() {
    let server = with("[cors]\nallowed_origins = [\"https://app.example\"]\n");
    let c = server.account().await.test();
    let bad = "[cors]\nallowed_origins = []\n[limits]\nmax_body_bytes = -1\n";
    let unknown = "[cors]\nallowed_origin = []\n";
    let gone = "[[deprecations]]\nroute = \"GET /v1/nothing\"\nsince = \"2026-12-01\"\n\
                sunset = \"2027-12-01\"\nlink = \"https://docs.example/c\"\n";
    for (settings, named) in [
        (bad, "`limits.max_body_bytes` = -1"),
        (unknown, "unknown key `cors.allowed_origin`"),
        (gone, "`deprecations[0].route`"),
    ] {
        let line = reloaded(&server, settings).await;
        assert!(line.contains(" WARN ") && line.contains(named), "{line}");
        let asked = c.call("GET", "/v1/customers").with("origin", PAGE);
        let answer = asked.await.expect(200);
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
    }
    fs::remove_file(server.work().join("config.toml")).unwrap();
    let line = told(&server).await;
    assert!(
        line.contains(" WARN ") && line.contains("config.toml"),
        "{line}"
    );
}

#[tokio::test]
async fn the_environment_still_wins_over_the_file() {
    let server = Setup::default()
        .config("")
        .env(
            "COLLOQUY__CORS__ALLOWED_ORIGINS",
            "[\"https://app.example\"]",
        )
        .start();
    let line = reloaded(
        &server,
        "[cors]\nallowed_origins = []\nmax_age_seconds = 5\n",
    )
    .await;
    assert!(
        line.contains("holds_now=\"cors.max_age_seconds\""),
        "{line}"
    );
}

#[tokio::test]
async fn no_request_fails_while_settings_are_read_again_and_again() {
    let server = with("");
    let c = server.account().await.test();
    let over = AtomicBool::new(false);
    let asking = async {
        let mut answered = 0;
        while !over.load(Ordering::Relaxed) {
            c.post("/v1/customers", json!({"name": "A"}))
                .await
                .expect(201);
            answered += 1;
        }
        answered
    };
    let reloading = async {
        for round in 0..20 {
            let settings = format!("[plans.basic]\nrate_per_minute = {}\n", 20 + round);
            reloaded(&server, &settings).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    let (answered, ()) = tokio::join!(asking, reloading);
    assert!(answered > 20, "{answered}");
}
