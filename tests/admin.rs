//! `/admin/v1`: what an operator does with accounts and keys.

use serde_json::json;

use crate::support::shapes::{ACCOUNT, KEY, assert_id, assert_recent, assert_shape};
use crate::support::{account, shared, unique};

#[tokio::test]
async fn an_account_answers_with_every_field_and_reads_back_the_same() {
    let operator = shared().operator();
    let made = operator
        .post("/admin/v1/accounts", json!({"name": "Acme"}))
        .await
        .expect(201);
    assert_shape(&made.body, ACCOUNT);
    assert_id(&made["account_id"], "acc_");
    assert_eq!(
        (&made["plan"], &made["rate_per_minute"]),
        (&json!("basic"), &json!(100))
    );
    assert_eq!(made["burst_per_minute"], 150);
    assert_recent(&made["created_at"]);
    let at = format!("/admin/v1/accounts/{}", made.id("account_id"));
    assert_eq!(made.header("location"), at);
    let read = operator.get(&at).await.expect(200);
    assert_eq!((read.etag(), read.body), (made.etag(), made.body));
}

#[tokio::test]
async fn two_accounts_may_share_a_name() {
    let operator = shared().operator();
    let name = unique("Twin");
    let first = operator
        .post("/admin/v1/accounts", json!({"name": name}))
        .await
        .expect(201);
    let second = operator
        .post("/admin/v1/accounts", json!({"name": name}))
        .await
        .expect(201);
    assert_ne!(first["account_id"], second["account_id"]);
    let list = operator
        .get("/admin/v1/accounts?limit=100")
        .await
        .expect(200);
    assert!(list.total() >= 2);
}

#[tokio::test]
async fn a_plan_brings_its_limits_and_only_enterprise_sets_its_own() {
    let operator = shared().operator();
    let made = operator
        .post("/admin/v1/accounts", json!({"name": "Acme", "plan": "pro"}))
        .await
        .expect(201);
    assert_eq!(
        (&made["rate_per_minute"], &made["burst_per_minute"]),
        (&json!(500), &json!(750))
    );
    let at = made.header("location").to_owned();
    for plan in ["basic", "pro"] {
        let body = json!({"name": "Acme", "plan": plan, "rate_per_minute": 7});
        operator.post("/admin/v1/accounts", body).await.expect(400);
    }
    let body = json!({"plan": "enterprise", "rate_per_minute": 7, "burst_per_minute": 9});
    let after = operator.patch(&at, body).await.expect(200);
    assert_eq!(
        (&after["rate_per_minute"], &after["burst_per_minute"]),
        (&json!(7), &json!(9))
    );
    operator
        .post("/admin/v1/accounts", json!({"name": "x", "plan": "gold"}))
        .await
        .error(400, "invalid_request", "plan");
}

#[tokio::test]
async fn a_changed_plan_holds_for_the_next_request() {
    let account = account().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    assert_eq!(
        account
            .test()
            .get("/v1")
            .await
            .expect(200)
            .number("x-ratelimit-limit"),
        1_000_000
    );
    account
        .operator()
        .patch(&at, json!({"plan": "pro"}))
        .await
        .expect(200);
    assert_eq!(
        account
            .test()
            .get("/v1")
            .await
            .expect(200)
            .number("x-ratelimit-limit"),
        500
    );
}

#[tokio::test]
async fn bad_accounts_and_keys_are_refused_naming_the_field() {
    let account = account().await;
    let operator = account.operator();
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    for (path, body, field) in [
        ("/admin/v1/accounts", json!({}), "name"),
        ("/admin/v1/accounts", json!({"name": ""}), "name"),
        (
            "/admin/v1/accounts",
            json!({"name": "x".repeat(501)}),
            "name",
        ),
        (
            "/admin/v1/accounts",
            json!({"name": "x", "nick": "y"}),
            "nick",
        ),
        (
            "/admin/v1/accounts",
            json!({"name": "x", "monthly_quota": -1}),
            "monthly_quota",
        ),
        (keys.as_str(), json!({}), "type"),
        (keys.as_str(), json!({"type": "root"}), "type"),
        (
            keys.as_str(),
            json!({"type": "test", "expires_at": "tomorrow"}),
            "expires_at",
        ),
        (
            keys.as_str(),
            json!({"type": "test", "user_id": "usr_1"}),
            "user_id",
        ),
    ] {
        operator
            .post(path, body)
            .await
            .error(400, "invalid_request", field);
    }
    let unknown = json!({"type": "test", "scopes": ["everything"]});
    operator.post(&keys, unknown).await.expect(400);
}

#[tokio::test]
async fn unknown_accounts_and_keys_are_404() {
    let account = account().await;
    let operator = account.operator();
    for id in [
        "acc_0190163d8694739b85d52d5e4a4d6d5f",
        "nonsense",
        "key_0190163d8694739b85d52d5e4a4d6d5f",
    ] {
        operator
            .get(&format!("/admin/v1/accounts/{id}"))
            .await
            .error(404, "not_found", "*");
        operator
            .get(&format!("/admin/v1/accounts/{id}/keys"))
            .await
            .error(404, "not_found", "*");
    }
    operator
        .get(&format!("/admin/v1/keys/{}", account.account_id))
        .await
        .error(404, "not_found", "*");
    operator
        .delete("/admin/v1/keys/key_0190163d8694739b85d52d5e4a4d6d5f")
        .await
        .error(404, "not_found", "*");
}

#[tokio::test]
async fn a_key_is_renamed_and_guarded_by_its_etag() {
    let account = account().await;
    let (_, made) = account.key(json!({"type": "prod", "name": "old"})).await;
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    let tag = account.operator().get(&at).await.expect(200).etag();
    let after = account
        .operator()
        .patch(&at, json!({"name": "new"}))
        .with("if-match", &tag)
        .await
        .expect(200);
    assert_shape(&after.body, KEY);
    assert_eq!(after["name"], "new");
    let stale = account
        .operator()
        .patch(&at, json!({"name": "newer"}))
        .with("if-match", &tag)
        .await;
    stale.error(412, "precondition_failed", "*");
    account
        .operator()
        .delete(&at)
        .with("if-match", &tag)
        .await
        .error(412, "precondition_failed", "*");
}

#[tokio::test]
async fn operators_are_not_limited() {
    let operator = shared().operator();
    let answer = operator.get("/admin/v1/accounts").await.expect(200);
    assert!(answer.header_opt("x-ratelimit-limit").is_none());
}

#[tokio::test]
async fn a_secret_is_null_in_a_replay() {
    let account = account().await;
    let path = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let key = unique("make-key");
    let ask = || {
        account
            .operator()
            .post(&path, json!({"type": "test"}))
            .with("idempotency-key", &key)
    };
    let first = ask().await.expect(201);
    let again = ask().await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again["key_id"], first["key_id"]);
    assert!(
        again["key"].is_null() && again.body.as_object().unwrap().contains_key("key"),
        "{again}"
    );
    let list = account.operator().get(&path).await.expect(200);
    assert_eq!(list.total(), 4, "one key only was made");
}
