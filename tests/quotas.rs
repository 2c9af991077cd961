//! Monthly quotas as clients meet them: requests of an account in a calendar month, whichever key
//! makes them and whichever plan they come from.

use std::time::Duration;

use chrono::{DateTime, Datelike, Months, Timelike, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::{Account, Answer, Client, Server, Setup, account, sized, until};

/// How long what is written behind may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// A server that counts is asked this often at most until a test gives up.
const ASKS_MAX: usize = 200;

async fn change(account: &Account, body: Value) -> Answer {
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account.operator().patch(&at, body).await.expect(200)
}

/// An account of this server that may make so many requests in a month.
async fn with_quota(server: &Server, quota: u64) -> Account {
    let account = server.account().await;
    change(&account, json!({ "monthly_quota": quota })).await;
    account
}

/// When the month that follows this instant begins.
fn next_month(now: DateTime<Utc>) -> DateTime<Utc> {
    let first = now.with_day(1).unwrap() + Months::new(1);
    first
        .with_hour(0)
        .and_then(|at| at.with_minute(0))
        .and_then(|at| at.with_second(0))
        .and_then(|at| at.with_nanosecond(0))
        .unwrap()
}

#[tokio::test]
async fn over_the_quota_every_key_of_the_account_is_refused_until_the_month_ends() {
    let account = account().await;
    change(&account, json!({"monthly_quota": 5})).await;
    let (test, live) = (account.test(), account.live());
    for client in [&test, &live, &test] {
        client.get("/v1").await.expect(200);
    }
    test.post("/v1/customers", json!({})).await.expect(400);
    live.get("/v1/conversations/nothing").await.expect(404);
    let before = Utc::now();
    let refused = test
        .post("/v1/customers", json!({}))
        .await
        .error(429, "quota_exceeded", "");
    let wait = i64::try_from(refused.number("retry-after")).unwrap();
    let left = (next_month(before) - before).num_seconds();
    assert!((left - 30..=left + 1).contains(&wait), "{wait}, {left}");
    for name in [
        "x-ratelimit-limit",
        "x-ratelimit-reset",
        "ratelimit",
        "ratelimit-policy",
    ] {
        assert!(refused.header_opt(name).is_some(), "{name}: {refused}");
    }
    assert!(refused.number("x-ratelimit-remaining") > 0, "{refused}");
    live.get("/v1").await.error(429, "quota_exceeded", "");
    account
        .read()
        .get("/v1")
        .await
        .error(429, "quota_exceeded", "");
    account.anonymous().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_quota_comes_before_what_a_key_may_do_and_behind_who_it_is() {
    let account = account().await;
    let (elsewhere, _) = account
        .key(json!({"type": "test", "allowed_ips": ["192.0.2.0/24"]}))
        .await;
    change(&account, json!({"monthly_quota": 1})).await;
    elsewhere.get("/v1").await.error(403, "forbidden", "");
    account.read().get("/v1").await.expect(200);
    let read = account.read();
    read.post("/v1/customers", json!({"name": "x"}))
        .await
        .error(429, "quota_exceeded", "");
    elsewhere.get("/v1").await.error(403, "forbidden", "");
    account
        .anonymous()
        .with_key("sk_test_unknown")
        .get("/v1")
        .await
        .expect(401);
}

#[tokio::test]
async fn what_the_rate_limit_or_the_quota_refuses_costs_nothing_of_the_other() {
    let account = account().await;
    let limits = json!({
        "plan": "enterprise", "rate_per_minute": 5, "burst_per_minute": 5, "monthly_quota": 7
    });
    change(&account, limits).await;
    let (test, live) = (account.test(), account.live());
    for _ in 0..5 {
        test.get("/v1").await.expect(200);
    }
    for _ in 0..5 {
        test.get("/v1").await.error(429, "rate_limited", "");
    }
    for _ in 0..2 {
        live.get("/v1").await.expect(200);
    }
    for _ in 0..5 {
        let refused = live.get("/v1").await.error(429, "quota_exceeded", "");
        assert_eq!(refused.number("x-ratelimit-remaining"), 3, "{refused}");
    }
    change(&account, json!({"monthly_quota": 0})).await;
    for _ in 0..3 {
        live.get("/v1").await.expect(200);
    }
    live.get("/v1").await.error(429, "rate_limited", "");
}

#[tokio::test]
async fn requests_at_once_never_pass_more_than_the_quota() {
    let account = account().await;
    change(&account, json!({"monthly_quota": 30})).await;
    let c = account.test();
    let statuses = join_all((0..90).map(|_| async { c.get("/v1").await.status })).await;
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 30, "{statuses:?}");
}

#[tokio::test]
async fn operations_of_a_bulk_request_count_one_by_one() {
    let account = account().await;
    let c = account.test();
    let customer = c.customer().await;
    let used = 1;
    change(&account, json!({"monthly_quota": used + 3})).await;
    let operation = json!({"op": "create", "body": {"customer_id": customer}});
    let body = json!({"operations": vec![operation; 5]});
    let done = c.post("/v1/conversations/bulk", body).await.expect(200);
    let outcomes = done.data().iter();
    let statuses: Vec<_> = outcomes
        .map(|one| one["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 201, 201, 429, 429], "{done}");
    assert_eq!(done.data()[4]["body"]["error"]["code"], "quota_exceeded");
}

#[tokio::test]
async fn a_quota_is_the_accounts_own_or_its_plans_and_changes_at_once() {
    let server = Setup::default()
        .env("COLLOQUY__PLANS__BASIC__MONTHLY_QUOTA", "2")
        .env("COLLOQUY__PLANS__PRO__MONTHLY_QUOTA", "4")
        .start();
    let account = server.account().await;
    let c = account.test();
    assert_eq!(change(&account, json!({})).await["monthly_quota"], 0);
    let shown = change(&account, json!({"plan": "basic"})).await;
    assert_eq!(shown["monthly_quota"], 2);
    for status in [200, 200, 429] {
        c.get("/v1").await.expect(status);
    }
    let shown = change(&account, json!({"plan": "pro"})).await;
    assert_eq!(shown["monthly_quota"], 4);
    for status in [200, 200, 429] {
        c.get("/v1").await.expect(status);
    }
    let shown = change(&account, json!({"monthly_quota": 5})).await;
    assert_eq!(shown["monthly_quota"], 5);
    for status in [200, 429] {
        c.get("/v1").await.expect(status);
    }
    change(&account, json!({"monthly_quota": 1})).await;
    c.get("/v1").await.error(429, "quota_exceeded", "");
    change(&account, json!({"monthly_quota": 0})).await;
    for _ in 0..5 {
        c.get("/v1").await.expect(200);
    }
    let shown = change(&account, json!({"monthly_quota": null})).await;
    assert_eq!(shown["monthly_quota"], 4, "the plan's again");
    c.get("/v1").await.error(429, "quota_exceeded", "");
}

#[tokio::test]
async fn a_quota_that_is_none_is_refused_naming_the_field() {
    let account = account().await;
    let operator = account.operator();
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let largest = 9_007_199_254_740_991_u64;
    for quota in [
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(largest + 1),
        json!(true),
    ] {
        operator
            .patch(&at, json!({ "monthly_quota": quota }))
            .await
            .error(400, "invalid_request", "monthly_quota");
        let body = json!({"name": "x", "monthly_quota": quota});
        operator.post("/admin/v1/accounts", body).await.error(
            400,
            "invalid_request",
            "monthly_quota",
        );
    }
    for quota in [0, 1, largest] {
        let shown = change(&account, json!({ "monthly_quota": quota })).await;
        assert_eq!(shown["monthly_quota"], quota);
        let body = json!({"name": "x", "monthly_quota": quota});
        let made = operator.post("/admin/v1/accounts", body).await.expect(201);
        assert_eq!(made["monthly_quota"], quota);
    }
    let c = account.test();
    change(&account, json!({"monthly_quota": 1})).await;
    c.get("/v1").await.expect(200);
    c.get("/v1").await.error(429, "quota_exceeded", "");
    let (status, said) = Setup::default()
        .env("COLLOQUY__PLANS__PRO__MONTHLY_QUOTA", "-1")
        .refused_in(crate::support::server::Folder::new().work().as_path());
    assert!(
        !status.success() && said.contains("plans.pro.monthly_quota"),
        "{said}"
    );
}

/// Asks until it is refused; how often it was let in.
async fn used_up(c: &Client) -> usize {
    for passed in 0..ASKS_MAX {
        let answer = c.get("/v1").await;
        if answer.status == 429 {
            answer.error(429, "quota_exceeded", "");
            return passed;
        }
        answer.expect(200);
    }
    panic!("the quota is never used up")
}

#[tokio::test]
async fn what_was_used_is_known_after_a_stop_and_all_but_its_last_second_after_a_kill() {
    const QUOTA: usize = 40;
    let mut server = Setup::default().start();
    let account = with_quota(&server, QUOTA as u64).await;
    let c = account.test();
    for _ in 0..10 {
        c.get("/v1").await.expect(200);
    }
    assert!(server.term().success());
    server.restart();
    let c = c.at(&server.address());
    for _ in 0..10 {
        c.get("/v1").await.expect(200);
    }
    // What is older than a second is kept; the rest is for a machine that is busy.
    tokio::time::sleep(Duration::from_secs(sized(4, 15))).await;
    server.restart();
    let c = c.at(&server.address());
    assert_eq!(used_up(&c).await, QUOTA - 20);
    server.restart();
    let c = c.at(&server.address());
    assert!(
        used_up(&c).await <= QUOTA - 20,
        "no more comes back than was used last"
    );
}

#[tokio::test]
async fn a_months_turn_gives_the_quota_anew() {
    let (server, clock) = Clock::start();
    let account = with_quota(&server, 3).await;
    let c = account.test();
    assert_eq!(used_up(&c).await, 3);
    let now = Utc::now();
    let minutes = u32::try_from((next_month(now) - now).num_minutes()).unwrap();
    clock.ahead(minutes + 2);
    until("the month has turned", SOON, async || {
        (c.get("/v1").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(used_up(&c).await, 2, "one was used by the look");
}
