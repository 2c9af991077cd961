//! Rate limits as clients see them: headers, 429, and the limit on failed authentication by
//! address. The four properties themselves are property tests beside the limiter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::support::{Account, Client, OPERATOR, Server, Setup, account, until};

async fn limited(account: &Account, rate: u64, burst: u64) -> Client {
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let body = json!({"plan": "enterprise", "rate_per_minute": rate, "burst_per_minute": burst});
    account.operator().patch(&at, body).await.expect(200);
    account.test()
}

#[tokio::test]
async fn every_authenticated_answer_carries_the_limits_errors_included() {
    let account = account().await;
    let c = account.test();
    let found = c
        .get("/v1/conversations/conv_0190163d8694739b85d52d5e4a4d6d5f")
        .await
        .error(404, "not_found", "*");
    let refused = c.post("/v1/customers", json!({})).await.expect(400);
    let forbidden = account
        .read()
        .post("/v1/customers", json!({}))
        .await
        .expect(403);
    let unmodified = {
        let at = format!("/v1/conversations/{}", c.conversation().await);
        let tag = c.get(&at).await.etag();
        c.get(&at).with("if-none-match", &tag).await.expect(304)
    };
    for answer in [found, refused, forbidden, unmodified] {
        for name in [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "ratelimit",
            "ratelimit-policy",
        ] {
            assert!(answer.header_opt(name).is_some(), "{name}: {answer}");
        }
    }
}

#[tokio::test]
async fn basic_is_100_and_remaining_counts_down_by_one() {
    let account = account().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account
        .operator()
        .patch(&at, json!({"plan": "basic"}))
        .await
        .expect(200);
    let c = account.test();
    let first = c.get("/v1").await.expect(200);
    assert_eq!(first.number("x-ratelimit-limit"), 100);
    assert_eq!(
        first.number("x-ratelimit-remaining"),
        99,
        "this request counted"
    );
    assert_eq!(
        c.get("/v1")
            .await
            .expect(200)
            .number("x-ratelimit-remaining"),
        98
    );
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let reset = first.number("x-ratelimit-reset");
    assert!(
        (now..=now + 61).contains(&reset),
        "{reset} is Unix seconds within the minute from {now}"
    );
}

#[tokio::test]
async fn an_idle_key_can_spend_its_burst_and_no_more() {
    let account = account().await;
    let c = limited(&account, 10, 15).await;
    for n in 1..=15_u64 {
        let answer = c.get("/v1").await.expect(200);
        assert_eq!(answer.number("x-ratelimit-limit"), 10);
        assert_eq!(
            answer.number("x-ratelimit-remaining"),
            10_u64.saturating_sub(n),
            "0 while the burst is spent"
        );
    }
    let refused = c.get("/v1").await.error(429, "rate_limited", "");
    assert!(
        refused.message().to_lowercase().contains("slow down"),
        "{refused}"
    );
    // 16 in T seconds keep to the rate once 10 × T/60 + 5 ≥ 16: 66, to a resolution of one second.
    assert!(
        (61..=68).contains(&refused.number("retry-after")),
        "{refused}"
    );
}

#[tokio::test]
async fn requests_at_once_never_pass_more_than_the_burst() {
    let account = account().await;
    let c = limited(&account, 20, 30).await;
    let asks = (0..90).map(|_| async { c.get("/v1").await.status });
    let statuses = futures_util::future::join_all(asks).await;
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 30, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)));
}

#[tokio::test]
async fn a_refusal_costs_nothing_and_who_waits_is_let_in() {
    let account = account().await;
    let c = limited(&account, 60, 60).await;
    let spent = std::time::Instant::now();
    for _ in 0..60 {
        c.get("/v1").await.expect(200);
    }
    let refused = c.get("/v1").await.error(429, "rate_limited", "");
    for _ in 0..30 {
        c.get("/v1").await.error(429, "rate_limited", "");
    }
    // Waiting is what the header asks for; the condition is the clock.
    let wait = Duration::from_secs(refused.number("retry-after"));
    tokio::time::sleep(wait).await;
    let answer = c.get("/v1").await;
    assert_eq!(
        answer.status,
        200,
        "{:?} after the first, Retry-After {wait:?}: {answer}",
        spent.elapsed()
    );
}

#[tokio::test]
async fn two_keys_of_one_account_do_not_share_a_limit() {
    let account = account().await;
    let c = limited(&account, 3, 3).await;
    for _ in 0..3 {
        c.get("/v1").await.expect(200);
    }
    c.get("/v1").await.error(429, "rate_limited", "");
    account.live().get("/v1").await.expect(200);
}

#[tokio::test]
async fn both_secrets_of_one_key_share_its_limit() {
    let account = account().await;
    let (old, made) = account.key(json!({"type": "test"})).await;
    let at = format!("/admin/v1/keys/{}/rotate", made["key_id"].as_str().unwrap());
    let new = account
        .anonymous()
        .with_key(&account.operator().post(&at, json!({})).await.id("key"));
    limited(&account, 2, 2).await;
    old.get("/v1").await.expect(200);
    new.get("/v1").await.expect(200);
    old.get("/v1").await.error(429, "rate_limited", "");
    new.get("/v1").await.error(429, "rate_limited", "");
}

#[tokio::test]
async fn errors_and_replays_cost_one_but_a_refused_address_nothing() {
    let account = account().await;
    let (elsewhere, made) = account
        .key(json!({"type": "test", "allowed_ips": ["10.0.0.0/8"]}))
        .await;
    limited(&account, 100, 100).await;
    for _ in 0..5 {
        assert_eq!(
            elsewhere
                .get("/v1")
                .await
                .error(403, "forbidden", "*")
                .number("x-ratelimit-remaining"),
            100
        );
    }
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    account
        .operator()
        .patch(&at, json!({"allowed_ips": ["127.0.0.1/32"]}))
        .await
        .expect(200);
    let post = || {
        elsewhere
            .post("/v1/customers", json!({"name": "x"}))
            .with("idempotency-key", "same")
    };
    assert_eq!(post().await.expect(201).number("x-ratelimit-remaining"), 99);
    assert_eq!(post().await.expect(201).number("x-ratelimit-remaining"), 98);
    assert_eq!(
        elsewhere
            .post("/v1/customers", json!({}))
            .await
            .expect(400)
            .number("x-ratelimit-remaining"),
        97
    );
}

#[tokio::test]
async fn a_limited_request_is_429_before_it_is_anything_else() {
    let account = account().await;
    let c = limited(&account, 1, 1).await;
    c.get("/v1").await.expect(200);
    c.post("/v1/customers", json!({"unknown": true}))
        .await
        .error(429, "rate_limited", "");
    c.get("/v1/conversations/conv_0190163d8694739b85d52d5e4a4d6d5f")
        .await
        .error(429, "rate_limited", "");
    c.get("/v1/nowhere").await.error(404, "not_found", "*");
    c.delete("/v1").await.error(405, "method_not_allowed", "");
}

#[tokio::test]
async fn failed_authentication_is_limited_by_address_and_a_valid_key_still_let_in() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "5")
        .start();
    let account = server.account().await;
    let guess = server.with_key("sk_test_0000000000000000000000000000000000000000000000000");
    for _ in 0..5 {
        guess.get("/v1").await.error(401, "unauthorized", "");
    }
    guess.get("/v1").await.error(429, "rate_limited", "");
    server
        .anonymous()
        .get("/v1/customers")
        .await
        .error(429, "rate_limited", "");
    account.test().get("/v1").await.expect(200);
    server
        .anonymous()
        .with_operator(OPERATOR)
        .get("/admin/v1/accounts")
        .await
        .expect(200);
    server.anonymous().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_wrong_operator_token_is_limited_by_address_too() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "5")
        .start();
    let guess = server
        .anonymous()
        .with_operator("op_guessed000000000000000000000");
    for _ in 0..5 {
        guess
            .get("/admin/v1/accounts")
            .await
            .error(401, "unauthorized", "");
    }
    guess
        .get("/admin/v1/accounts")
        .await
        .error(429, "rate_limited", "");
    server
        .operator()
        .get("/admin/v1/accounts")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_restart_begins_afresh() {
    let mut server = Server::start();
    let account = server.account().await;
    let c = limited(&account, 2, 2).await;
    c.get("/v1").await.expect(200);
    c.get("/v1").await.expect(200);
    c.get("/v1").await.error(429, "rate_limited", "");
    let key = account.test_key().to_owned();
    server.restart();
    let c = server.with_key(&key);
    until("the key is let in", Duration::from_secs(5), async || {
        (c.get("/v1").await.status == 200).then_some(())
    })
    .await;
}

fn instant(shown: &serde_json::Value) -> i64 {
    let shown = shown.as_str().unwrap();
    chrono::DateTime::parse_from_rfc3339(shown)
        .unwrap()
        .timestamp()
}

#[tokio::test]
async fn a_key_is_told_what_it_may_ask_and_what_is_left_of_it() {
    let account = account().await;
    let c = limited(&account, 10, 15).await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let quota = json!({"monthly_quota": 20});
    account.operator().patch(&at, quota).await.expect(200);
    account.live().get("/v1").await.expect(200);
    for n in 1..=15_u64 {
        let shown = c.get("/v1/limits").await.expect(200);
        let reset = shown.number("x-ratelimit-reset");
        assert_eq!(
            shown.number("x-ratelimit-remaining"),
            10_u64.saturating_sub(n)
        );
        assert_eq!(shown["plan"], "enterprise");
        assert_eq!(shown["rate"]["limit"], 10);
        assert_eq!(shown["rate"]["remaining"], 10_u64.saturating_sub(n));
        assert_eq!(
            instant(&shown["rate"]["resets_at"]),
            i64::try_from(reset).unwrap()
        );
        assert_eq!(shown["burst"], json!({"limit": 15, "remaining": 15 - n}));
        assert_eq!(shown["quota"]["limit"], 20);
        assert_eq!(shown["quota"]["used"], 1 + n, "both keys, this one counted");
        let resets_at = instant(&shown["quota"]["resets_at"]);
        assert!(resets_at > chrono::Utc::now().timestamp(), "{shown}");
        assert_eq!(resets_at % 86_400, 0, "midnight: {shown}");
    }
    c.get("/v1/limits").await.error(429, "rate_limited", "");
}

#[tokio::test]
async fn a_quota_that_is_none_is_shown_as_0_and_counted_all_the_same() {
    let account = account().await;
    let shown = account.test().get("/v1/limits").await.expect(200);
    assert_eq!(shown["quota"]["limit"], 0);
    assert_eq!(shown["quota"]["used"], 1);
    assert_eq!(
        shown.body.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["burst", "plan", "quota", "rate"]
    );
    account
        .test()
        .get("/v1/limits?of=all")
        .await
        .error(400, "invalid_request", "of");
}

/// The key of an operators' list with this identifier, if it is there.
fn watched<'a>(list: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    list.as_array()
        .unwrap()
        .iter()
        .find(|shown| shown["key_id"] == key)
}

#[tokio::test]
async fn operators_see_the_keys_near_to_their_limits_and_those_refused_most() {
    let server = Setup::default().start();
    let account = server.account().await;
    let limits = json!({
        "plan": "enterprise", "rate_per_minute": 10, "burst_per_minute": 20, "monthly_quota": 27
    });
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account.operator().patch(&at, limits).await.expect(200);
    let key = async |kind: &str| {
        let (client, made) = account.key(json!({ "type": kind })).await;
        (client, made["key_id"].as_str().unwrap().to_owned())
    };
    let ((far, far_id), (near, near_id), (_, unused)) =
        (key("test").await, key("prod").await, key("read").await);
    for _ in 0..5 {
        far.get("/v1").await.expect(200);
    }
    for _ in 0..20 {
        near.get("/v1").await.expect(200);
    }
    for _ in 0..3 {
        near.get("/v1").await.error(429, "rate_limited", "");
    }
    let operator = account.operator();
    let shown = until(
        "what was asked is shown",
        Duration::from_secs(20),
        async || {
            let shown = operator.get("/admin/v1/limits").await.expect(200);
            let refused = watched(&shown["refused"], &near_id)?;
            let minutes = refused["minutes"].as_array().unwrap().iter();
            let sum = |field: &str| -> u64 {
                minutes
                    .clone()
                    .map(|one| one[field].as_u64().unwrap())
                    .sum()
            };
            (sum("requests") == 20 && sum("rate_limited") == 3).then_some(shown)
        },
    )
    .await;
    let nearest = shown["nearest"].as_array().unwrap();
    let ids: Vec<_> = nearest.iter().map(|shown| &shown["key_id"]).collect();
    assert_eq!(ids, [&near_id, &far_id], "{shown}");
    assert!(watched(&shown["refused"], &far_id).is_none(), "{shown}");
    assert!(watched(&shown["nearest"], &unused).is_none(), "{shown}");
    assert_eq!(nearest[0]["burst"], json!({"limit": 20, "remaining": 0}));
    assert_eq!(nearest[1]["burst"], json!({"limit": 20, "remaining": 15}));
    assert_eq!(nearest[0]["account_id"], account.account_id);
    assert_eq!(nearest[0]["quota"]["limit"], 27);
    assert_eq!(nearest[0]["quota"]["used"], 25);
    let minutes = nearest[0]["minutes"].as_array().unwrap();
    assert_eq!(minutes.len(), 60);
    let starts: Vec<_> = minutes.iter().map(|one| instant(&one["start"])).collect();
    assert!(
        starts.windows(2).all(|pair| pair[1] - pair[0] == 60),
        "{starts:?}"
    );
    assert_eq!(starts[0] % 60, 0);
}
