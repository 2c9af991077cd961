//! `/v1/webhooks`: endpoints, who may touch them, secrets and their rotation, the list of
//! deliveries.

use serde_json::{Value, json};

use crate::support::documents::id_of;
use crate::support::shapes::{ATTEMPT, DELIVERY, WEBHOOK, assert_id, assert_recent, assert_shape};
use crate::support::verify::{assert_accepted, assert_refused};
use crate::support::{
    Answer, Client, Receiver, Reply, account, account_with_client, account_with_deliveries, until,
};

const HOOKS: &str = "/v1/webhooks";
/// Never asked for anything in these tests.
const ELSEWHERE: &str = "https://hooks.example.com/colloquy";
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

async fn hook(c: &Client) -> Answer {
    c.post(HOOKS, json!({"url": ELSEWHERE, "events": ["*"]}))
        .await
        .expect(201)
}

fn at(made: &Answer) -> String {
    format!("{HOOKS}/{}", made.id("webhook_id"))
}

/// `whsec_` and base64 of 32 bytes.
fn assert_secret(secret: &Value) {
    let text = secret
        .as_str()
        .and_then(|text| text.strip_prefix("whsec_"))
        .unwrap_or_default();
    let base64 = text
        .bytes()
        .take(43)
        .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    assert!(
        text.len() == 44 && text.ends_with('=') && base64,
        "no secret: {secret}"
    );
}

#[tokio::test]
async fn a_creation_answers_with_every_field_and_the_secret_once() {
    let (_account, c) = account_with_client().await;
    let made = hook(&c).await;
    assert_shape(&made.body, &format!("{WEBHOOK}, secret"));
    assert_id(&made["webhook_id"], "whk_");
    assert_eq!(made.header("location"), at(&made));
    assert_eq!(made.header("cache-control"), "no-store");
    assert_eq!(
        (&made["url"], &made["events"]),
        (&json!(ELSEWHERE), &json!(["*"]))
    );
    assert_eq!(
        (&made["enabled"], &made["disabled_reason"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(made["created_at"], made["updated_at"]);
    assert_recent(&made["created_at"]);
    assert_secret(&made["secret"]);
    let secret = made.id("secret");
    let read = c.get(&at(&made)).await.expect(200);
    assert_shape(&read.body, WEBHOOK);
    let list = c.get(HOOKS).await.expect(200);
    assert_eq!((&list["data"][0], list.total()), (&read.body, 1));
    let patched = c
        .patch(&at(&made), json!({"description": "CRM"}))
        .await
        .expect(200);
    for answer in [read, list, patched] {
        assert!(
            !String::from_utf8_lossy(&answer.bytes).contains(&secret),
            "shown again: {answer}"
        );
    }
    assert_ne!(hook(&c).await["secret"], made["secret"]);
}

#[tokio::test]
async fn a_replayed_creation_and_rotation_do_not_show_the_secret_again() {
    let (_account, c) = account_with_client().await;
    let create = || {
        c.post(HOOKS, json!({"url": ELSEWHERE, "events": ["*"]}))
            .with("idempotency-key", "create")
    };
    let made = create().await.expect(201);
    let again = create().await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (&again["secret"], &again["webhook_id"]),
        (&Value::Null, &made["webhook_id"])
    );
    let rotate = || {
        c.call("POST", &format!("{}/rotate-secret", at(&made)))
            .with("idempotency-key", "rotate")
    };
    let rotated = rotate().await.expect(200);
    assert_secret(&rotated["secret"]);
    assert_eq!(rotate().await.expect(200)["secret"], Value::Null);
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 1);
}

#[tokio::test]
async fn every_field_is_kept_changed_and_listed_newest_first() {
    let (_account, c) = account_with_client().await;
    let body = json!({
        "url": ELSEWHERE, "events": ["message.created", "conversation.closed"], "enabled": false,
        "filter": {"channel": ["chat", "email"], "priority": ["high"]}, "description": "ünï",
    });
    let made = c.post(HOOKS, body.clone()).await.expect(201);
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&made[field.as_str()], value, "{field}");
    }
    let second = hook(&c).await;
    let list = c.get(HOOKS).await.expect(200);
    assert_eq!(
        list.column("webhook_id"),
        [second.id("webhook_id"), made.id("webhook_id")]
    );
    let change = json!({
        "url": "https://other.example.com/", "events": ["*"], "enabled": true, "filter": {"channel": ["voice"]},
        "description": "other",
    });
    let changed = c.patch(&at(&made), change.clone()).await.expect(200);
    for (field, value) in change.as_object().unwrap() {
        assert_eq!(&changed[field.as_str()], value, "{field}");
    }
    assert_eq!(c.get(&at(&made)).await.expect(200).body, changed.body);
    let same = c.patch(&at(&made), change).await.expect(200);
    assert_eq!(
        (same.etag(), same.body),
        (changed.etag(), changed.body.clone())
    );
    assert!(
        c.patch(&at(&made), json!({"description": null}))
            .await
            .expect(200)["description"]
            .is_null()
    );
}

#[tokio::test]
async fn a_deleted_endpoint_is_gone() {
    let (_account, c) = account_with_client().await;
    let made = hook(&c).await;
    c.delete(&at(&made)).await.expect(204);
    c.get(&at(&made)).await.error(404, "not_found", "*");
    c.delete(&at(&made)).await.error(404, "not_found", "*");
    c.patch(&at(&made), json!({"enabled": true}))
        .await
        .error(404, "not_found", "*");
    c.get(&format!("{}/deliveries", at(&made)))
        .await
        .error(404, "not_found", "*");
    for action in ["rotate-secret", "test", "replay"] {
        c.post(&format!("{}/{action}", at(&made)), json!({}))
            .await
            .error(404, "not_found", "*");
    }
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn both_paths_lead_to_the_same_endpoints() {
    let (_account, c) = account_with_client().await;
    let made = c
        .post(
            "/api/v1/webhooks",
            json!({"url": ELSEWHERE, "events": ["*"]}),
        )
        .await
        .expect(201);
    let id = made.id("webhook_id");
    let (one, other) = (
        format!("/v1/webhooks/{id}"),
        format!("/api/v1/webhooks/{id}"),
    );
    assert_eq!(
        c.get(made.header("location")).await.expect(200)["webhook_id"],
        id.as_str()
    );
    assert_eq!(
        c.get(&one).await.expect(200).body,
        c.get(&other).await.expect(200).body
    );
    c.patch(&other, json!({"enabled": false})).await.expect(200);
    assert_eq!(c.get(&one).await.expect(200)["enabled"], false);
    assert_eq!(c.get("/api/v1/webhooks").await.expect(200).total(), 1);
    c.get(&format!("{other}/deliveries")).await.expect(200);
    assert_secret(
        &c.post(&format!("{other}/rotate-secret"), json!({}))
            .await
            .expect(200)["secret"],
    );
    c.delete(&other).await.expect(204);
    c.get(&one).await.expect(404);
}

#[tokio::test]
async fn every_bad_field_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let made = hook(&c).await;
    let document = "doc_0190163d8694739b85d52d5e4a4d6d5f";
    for (field, value) in [
        ("events", json!([])),
        ("events", json!(["message.deleted"])),
        ("events", json!("*")),
        ("events", json!([1])),
        ("filter", json!({"colour": ["red"]})),
        ("filter", json!({"channel": ["fax"]})),
        ("filter", json!({"channel": "chat"})),
        ("filter", json!({"priority": ["urgent"]})),
        ("filter", json!({"document_id": document})),
        ("filter", json!([])),
        ("enabled", json!("yes")),
        ("description", json!(7)),
        ("description", json!("a\u{0}b")),
        ("secret", json!("whsec_mine")),
        ("colour", json!("red")),
    ] {
        let mut body = json!({"url": ELSEWHERE, "events": ["*"]});
        body[field] = value.clone();
        for refused in [
            c.post(HOOKS, body).await,
            c.patch(&at(&made), json!({field: value.clone()})).await,
        ] {
            let named = refused.expect(400)["error"]["details"]["field"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(
                named.starts_with(field),
                "{field} = {value} is called {named}"
            );
        }
    }
    c.post(HOOKS, json!({"events": ["*"]}))
        .await
        .error(400, "invalid_request", "url");
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_filter_names_only_documents_of_the_account_and_mode() {
    let account = account().await;
    let c = account.test();
    let mine = c.document("mine").await;
    let second = c.document("mine, too").await;
    let erased = c.document("to be erased").await;
    let of_live = account.live().document("of the other mode").await;
    let of_others = crate::support::account().await.test().document("x").await;
    let with = |documents: &[&str]| json!({"filter": {"document_id": documents}});
    let create = |documents: &[&str]| {
        let mut body = with(documents);
        body["url"] = json!(ELSEWHERE);
        c.post(HOOKS, body)
    };
    let made = create(&[id_of(&mine), id_of(&erased)]).await.expect(201);
    c.delete(&format!("{erased}?permanent=true"))
        .await
        .expect(204);
    let before = c.get(&at(&made)).await.expect(200);
    let never = "doc_0190163d8694739b85d52d5e4a4d6d5f";
    for absent in [never, id_of(&of_live), id_of(&of_others), id_of(&erased)] {
        let documents = [absent, id_of(&mine)];
        for refused in [
            create(&documents).await,
            c.patch(&at(&made), with(&documents)).await,
        ] {
            refused.error(400, "invalid_request", "filter.document_id");
        }
    }
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 1);
    let after = c.get(&at(&made)).await.expect(200);
    assert_eq!((after.etag(), &after.body), (before.etag(), &before.body));
    // Another change is no question about the filter, and what is in the bin may come back.
    c.patch(&at(&made), json!({"description": "other"}))
        .await
        .expect(200);
    c.delete(&second).await.expect(204);
    let documents = [id_of(&second), id_of(&mine)];
    let changed = c.patch(&at(&made), with(&documents)).await.expect(200);
    assert_eq!(changed["filter"]["document_id"], json!(documents));
}

#[tokio::test]
async fn agents_readers_and_other_scopes_may_not_manage_endpoints() {
    let account = account().await;
    let c = account.test();
    let made = hook(&c).await;
    let agent = c.user("agent").await;
    let (as_agent, _) = account.key(json!({"type": "test", "user_id": agent})).await;
    let (scoped, _) = account
        .key(json!({"type": "test", "scopes": ["conversations:write"]}))
        .await;
    for caller in [&as_agent, &c.acting_for(&agent), &scoped] {
        caller.get(HOOKS).await.error(403, "forbidden", "*");
        caller.get(&at(&made)).await.error(403, "forbidden", "*");
        caller
            .post(HOOKS, json!({"url": ELSEWHERE, "events": ["*"]}))
            .await
            .error(403, "forbidden", "*");
        caller
            .patch(&at(&made), json!({"enabled": false}))
            .await
            .error(403, "forbidden", "*");
        caller.delete(&at(&made)).await.error(403, "forbidden", "*");
        caller
            .post(&format!("{}/test", at(&made)), json!({}))
            .await
            .error(403, "forbidden", "*");
    }
    let admin = c.user("admin").await;
    c.acting_for(&admin).get(&at(&made)).await.expect(200);
    let (manager, _) = account
        .key(json!({"type": "test", "scopes": ["webhooks:manage"]}))
        .await;
    manager
        .patch(&at(&made), json!({"enabled": false}))
        .await
        .expect(200);
    let live = hook(&account.live()).await;
    account.read().get(&at(&live)).await.expect(200);
    account
        .read()
        .delete(&at(&live))
        .await
        .error(403, "forbidden", "*");
}

#[tokio::test]
async fn modes_and_accounts_are_kept_apart() {
    let account = account().await;
    let made = hook(&account.test()).await;
    for other in [account.live(), crate::support::account().await.test()] {
        other.get(&at(&made)).await.error(404, "not_found", "*");
        other
            .patch(&at(&made), json!({"enabled": false}))
            .await
            .error(404, "not_found", "*");
        other.delete(&at(&made)).await.error(404, "not_found", "*");
        other
            .get(&format!("{}/deliveries", at(&made)))
            .await
            .error(404, "not_found", "*");
        assert_eq!(other.get(HOOKS).await.expect(200).total(), 0);
    }
}

#[tokio::test]
async fn changes_take_if_match_and_reads_if_none_match() {
    let (_account, c) = account_with_client().await;
    let made = hook(&c).await;
    let stale = c.get(&at(&made)).await.expect(200).etag();
    c.get(&at(&made))
        .with("if-none-match", &stale)
        .await
        .expect(304);
    let change = |tag: &str| {
        c.patch(&at(&made), json!({"description": tag}))
            .with("if-match", tag)
    };
    let fresh = change(&stale).await.expect(200).etag();
    assert_ne!(fresh, stale);
    change(&stale).await.error(412, "precondition_failed", "*");
    let rotate = format!("{}/rotate-secret", at(&made));
    c.post(&rotate, json!({}))
        .with("if-match", &stale)
        .await
        .error(412, "precondition_failed", "*");
    c.delete(&at(&made))
        .with("if-match", &stale)
        .await
        .error(412, "precondition_failed", "*");
    c.delete(&at(&made)).with("if-match", "*").await.expect(204);
}

/// A receiver and an endpoint for it.
async fn receiving(c: &Client) -> (Receiver, Answer) {
    let receiver = Receiver::start().await;
    let made = c
        .post(HOOKS, json!({"url": receiver.url(), "events": ["*"]}))
        .await
        .expect(201);
    (receiver, made)
}

#[tokio::test]
async fn during_rotation_both_secrets_sign_and_then_the_new_one_only() {
    let (_account, c) = account_with_deliveries().await;
    let (receiver, made) = receiving(&c).await;
    let (old, id, rotate) = (
        made.id("secret"),
        c.conversation().await,
        format!("{}/rotate-secret", at(&made)),
    );
    let before = receiver.wait_for(1).await.remove(0);
    assert_accepted(&before, &old);
    let rotated = c.call("POST", &rotate).await.expect(200);
    assert_eq!(rotated.header("cache-control"), "no-store");
    let new = rotated.id("secret");
    c.message(&id, "ünder both 🎈").await;
    let during = receiver.wait_for(2).await.remove(1);
    assert_accepted(&during, &old);
    assert_accepted(&during, &new);
    assert_eq!(
        during.header("x-service-signature").matches("v1=").count(),
        2
    );
    assert_eq!(during.header("webhook-signature").split(' ').count(), 2);
    let newest = c
        .post(&rotate, json!({"overlap_seconds": 0}))
        .await
        .expect(200)
        .id("secret");
    c.message(&id, "under the newest").await;
    let after = receiver.wait_for(3).await.remove(2);
    assert_accepted(&after, &newest);
    assert_refused(&after, &new);
    assert_refused(&after, &old);
    assert_refused(&after, &format!("whsec_{}=", "A".repeat(43)));
}

#[tokio::test]
async fn an_overlap_ends_by_itself_and_by_the_next_rotation() {
    let (_account, c) = account_with_deliveries().await;
    let (receiver, made) = receiving(&c).await;
    let (old, id, rotate) = (
        made.id("secret"),
        c.conversation().await,
        format!("{}/rotate-secret", at(&made)),
    );
    let second = c
        .post(&rotate, json!({"overlap_seconds": 3600}))
        .await
        .expect(200)
        .id("secret");
    let third = c
        .post(&rotate, json!({"overlap_seconds": 8}))
        .await
        .expect(200)
        .id("secret");
    c.message(&id, "now").await;
    let now = receiver.wait_for(2).await.remove(1);
    assert_accepted(&now, &second);
    assert_accepted(&now, &third);
    assert_refused(&now, &old);
    until("the overlap is over", SOON, async || {
        let count = receiver.count();
        c.message(&id, "later").await;
        let later = receiver.wait_for(count + 1).await.remove(count);
        (later.header("x-service-signature").matches("v1=").count() == 1).then_some(())
    })
    .await;
    let last = receiver.received().pop().unwrap();
    assert_accepted(&last, &third);
    assert_refused(&last, &second);
    for overlap in [json!(-1), json!("x")] {
        c.post(&rotate, json!({"overlap_seconds": overlap}))
            .await
            .error(400, "invalid_request", "overlap_seconds");
    }
}

#[tokio::test]
async fn a_test_sends_a_signed_sample_and_gives_the_attempt() {
    let (_account, c) = account_with_deliveries().await;
    let (receiver, made) = receiving(&c).await;
    let test = format!("{}/test", at(&made));
    let attempt = c.call("POST", &test).await.expect(200);
    assert_eq!(attempt["status"], 200, "{attempt}");
    let sample = receiver.wait_for(1).await.remove(0);
    assert_eq!(sample.kind(), "conversation.created");
    assert_accepted(&sample, &made.id("secret"));
    c.post(&test, json!({"event": "message.updated"}))
        .await
        .expect(200);
    assert_eq!(receiver.wait_for(2).await[1].kind(), "message.updated");
    c.post(&test, json!({"event": "message.deleted"}))
        .await
        .error(400, "invalid_request", "event");
    receiver.answer(|_| Reply::with_body(503, "sorry"));
    let failed = c.call("POST", &test).await.expect(200);
    assert_eq!(failed["status"], 503);
    assert!(
        failed["error"].is_string() && failed.body.to_string().contains("sorry"),
        "{failed}"
    );
    assert_eq!(receiver.count(), 3, "a test is sent once");
    assert_eq!(
        c.get("/v1/events").await.expect(200).total(),
        0,
        "outside the log"
    );
    assert_eq!(
        c.get(&format!("{}/deliveries", at(&made)))
            .await
            .expect(200)
            .total(),
        0
    );
}

/// Waits until the endpoint has so many deliveries of a status; gives the list.
async fn settled(c: &Client, made: &Answer, status: &str, total: u64) -> Answer {
    let list = format!("{}/deliveries?status={status}&limit=100", at(made));
    let what = format!("{total} deliveries are {status}");
    until(&what, SOON, async || {
        let page = c.get(&list).await.expect(200);
        (page.total() == total).then_some(page)
    })
    .await
}

#[tokio::test]
async fn deliveries_are_listed_newest_first_with_filters_and_cursors() {
    let (_account, c) = account_with_deliveries().await;
    let (_receiver, made) = receiving(&c).await;
    let id = c.conversation().await;
    for n in 0..5 {
        c.message(&id, &format!("{n}")).await;
    }
    let all = settled(&c, &made, "delivered", 6).await;
    let ids = all.column("delivery_id");
    let mut events = c.get("/v1/events").await.expect(200).column("id");
    events.reverse();
    assert_eq!(all.column("event_id"), events);
    for item in all.data() {
        assert_shape(item, DELIVERY);
        assert_id(&item["delivery_id"], "dlv_");
        assert_eq!(item["webhook_id"], made["webhook_id"]);
        assert_eq!(
            (&item["status"], &item["next_attempt_at"]),
            (&json!("delivered"), &Value::Null)
        );
        assert_recent(&item["created_at"]);
    }
    let list = format!("{}/deliveries", at(&made));
    for (query, expected) in [
        ("event=conversation.created".to_owned(), &ids[5..]),
        ("event=message.created&limit=2".to_owned(), &ids[..2]),
        ("status=pending".to_owned(), &ids[..0]),
        ("status=failed".to_owned(), &ids[..0]),
        (
            "status=delivered&event=message.created".to_owned(),
            &ids[..5],
        ),
        ("order=asc&limit=1".to_owned(), &ids[5..]),
        ("limit=2&offset=2".to_owned(), &ids[2..4]),
        (format!("after={}&limit=2", ids[1]), &ids[2..4]),
        (format!("before={}&limit=2", ids[4]), &ids[2..4]),
    ] {
        assert_eq!(
            c.get(&format!("{list}?{query}"))
                .await
                .expect(200)
                .column("delivery_id"),
            expected,
            "{query}"
        );
    }
    for (query, field) in [
        ("status=lost", "status"),
        ("event=x", "event"),
        ("after=x", "after"),
        ("limit=0", "limit"),
    ] {
        c.get(&format!("{list}?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn a_delivery_shows_each_attempt() {
    let (_account, c) = account_with_deliveries().await;
    let long = format!("began{}ended", "x".repeat(5000));
    let receiver = Receiver::in_turn([Reply::with_body(500, &long), Reply::Reset]).await;
    let body = json!({"url": receiver.url(), "events": ["conversation.created"]});
    let made = c.post(HOOKS, body).await.expect(201);
    c.conversation().await;
    let listed = settled(&c, &made, "delivered", 1).await["data"][0].clone();
    assert_eq!(listed["attempts"], 3);
    let path = format!(
        "{}/deliveries/{}",
        at(&made),
        listed["delivery_id"].as_str().unwrap()
    );
    let single = c.get(&path).await.expect(200);
    assert_shape(&single.body, &format!("{DELIVERY}, attempt_log"));
    let log = single["attempt_log"].as_array().unwrap();
    assert_eq!(log.len(), 3);
    for attempt in log {
        assert_shape(attempt, ATTEMPT);
        assert_recent(&attempt["attempted_at"]);
        assert!(attempt["duration_ms"].is_u64(), "{attempt}");
    }
    let statuses: Vec<&Value> = log.iter().map(|attempt| &attempt["status"]).collect();
    assert_eq!(statuses, [&json!(500), &Value::Null, &json!(200)]);
    assert_eq!(log[0]["answer"].as_str().unwrap(), &long[..4096]);
    assert!(
        log[0]["error"].is_string() && log[1]["error"].is_string() && log[2]["error"].is_null(),
        "{log:?}"
    );
    let unknown = format!(
        "{}/deliveries/dlv_0190163d8694739b85d52d5e4a4d6d5f",
        at(&made)
    );
    c.get(&unknown).await.error(404, "not_found", "*");
    c.post(&format!("{unknown}/retry"), json!({}))
        .await
        .error(404, "not_found", "*");
    let other = hook(&c).await;
    let of_other = path.replace(&made.id("webhook_id"), &other.id("webhook_id"));
    c.get(&of_other).await.error(404, "not_found", "*");
}
