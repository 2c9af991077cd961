//! What an endpoint gets and when: headers, retries, giving up, order, disabling, replay,
//! redaction, crashes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::documents::id_of;
use crate::support::receiver::{Received, dead_url};
use crate::support::shapes::assert_shape;
use crate::support::verify::assert_accepted;
use crate::support::{
    Account, Answer, Client, Receiver, Reply, Server, Setup, account_with_deliveries, unique, until,
};

const HOOKS: &str = "/v1/webhooks";
const SOON: Duration = Duration::from_secs(20);

async fn hook(c: &Client, receiver: &Receiver) -> String {
    hook_with(c, receiver, json!({"events": ["*"]})).await
}

/// An endpoint with further fields; gives its path.
async fn hook_with(c: &Client, receiver: &Receiver, mut body: Value) -> String {
    body["url"] = json!(receiver.url());
    let made = c.post(HOOKS, body).await.expect(201);
    format!("{HOOKS}/{}", made.id("webhook_id"))
}

/// Waits until the endpoint has so many deliveries of a status; gives them, newest first.
async fn settled(c: &Client, hook: &str, status: &str, total: u64) -> Answer {
    let list = format!("{hook}/deliveries?status={status}&limit=100");
    until(
        &format!("{total} deliveries are {status}"),
        SOON,
        async || {
            let page = c.get(&list).await.expect(200);
            (page.total() == total).then_some(page)
        },
    )
    .await
}

/// A server of the test's own that gives up after three quick attempts.
async fn hasty() -> (Server, Account, Client) {
    let server = Setup::default().delivering("[0.05, 0.05]", "0.5").start();
    let account = server.account().await;
    let c = account.test();
    (server, account, c)
}

fn kinds(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::kind).collect()
}

#[tokio::test]
async fn a_delivery_is_the_event_with_the_contracts_headers() {
    let (_account, c) = account_with_deliveries().await;
    let receiver = Receiver::start().await;
    let made = c
        .post(
            HOOKS,
            json!({"url": format!("{}?a=b", receiver.url()), "events": ["*"]}),
        )
        .await
        .expect(201);
    c.conversation().await;
    let delivery = receiver.wait_for(1).await.remove(0);
    assert_eq!(
        (delivery.method.as_str(), delivery.path.as_str()),
        ("POST", "/hook?a=b")
    );
    assert_eq!(delivery.header("user-agent"), "Colloquy-Webhooks/1.0");
    assert_eq!(delivery.header("content-type"), "application/json");
    assert_eq!(delivery.header("x-webhook-attempt"), "1");
    assert_eq!(
        delivery.header("webhook-id"),
        delivery.event()["id"].as_str().unwrap()
    );
    let signed_at: i64 = delivery.header("webhook-timestamp").parse().unwrap();
    assert!(
        (chrono::Utc::now().timestamp() - signed_at).abs() < 60,
        "{delivery:?}"
    );
    assert!(
        delivery
            .header("x-service-signature")
            .starts_with(&format!("t={signed_at},v1=")),
        "{delivery:?}"
    );
    assert_accepted(&delivery, &made.id("secret"));
    let listed = c.get("/v1/events").await.expect(200);
    assert_eq!(listed["data"][0], delivery.event());
}

#[tokio::test]
async fn what_retention_takes_from_the_lists_is_delivered_all_the_same() {
    let setup = Setup::default().delivering("[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]", "5");
    // Six seconds: the first attempts are within it, the last ones are not.
    let server = setup
        .env("COLLOQUY__EVENTS__RETENTION_DAYS", "0.00007")
        .start();
    let c = server.account().await.test();
    let receiver = Receiver::planned(|_| Reply::status(500)).await;
    hook(&c, &receiver).await;
    let id = c.conversation().await;
    c.message(&id, "kept for its receiver").await;
    until(
        "the events are trimmed",
        Duration::from_secs(20),
        async || (c.get("/v1/events?after=0").await.expect(200).total() == 0).then_some(()),
    )
    .await;
    receiver.answer(|_| Reply::ok());
    let seen = receiver.count();
    let all = receiver.wait_for(seen + 2).await;
    assert_eq!(
        kinds(&all[seen..]),
        ["conversation.created", "message.created"]
    );
}

#[tokio::test]
async fn a_failure_is_tried_again_with_the_same_bytes_and_id() {
    let (_account, c) = account_with_deliveries().await;
    let receiver = Receiver::in_turn([
        Reply::status(500),
        Reply::status(404),
        Reply::Reset,
        Reply::status(204),
    ])
    .await;
    let made = c
        .post(HOOKS, json!({"url": receiver.url(), "events": ["*"]}))
        .await
        .expect(201);
    let hook = format!("{HOOKS}/{}", made.id("webhook_id"));
    c.conversation().await;
    let tries = receiver.wait_for(4).await;
    for (number, delivery) in tries.iter().enumerate() {
        assert_eq!(
            delivery.header("x-webhook-attempt"),
            (number + 1).to_string()
        );
        assert_eq!(
            (&delivery.body, delivery.header("webhook-id")),
            (&tries[0].body, tries[0].header("webhook-id"))
        );
        assert_accepted(delivery, &made.id("secret"));
    }
    for (number, least) in [45, 90, 180].into_iter().enumerate() {
        let wait = tries[number + 1].at - tries[number].at;
        assert!(
            wait >= Duration::from_millis(least),
            "attempt {} came after {wait:?}",
            number + 2
        );
    }
    let delivered = settled(&c, &hook, "delivered", 1).await;
    assert_eq!(delivered["data"][0]["attempts"], 4);
    assert_eq!(receiver.count(), 4);
}

#[tokio::test]
async fn a_hanging_receiver_is_left_after_the_time_out() {
    let (_server, _account, c) = hasty().await;
    let receiver = Receiver::in_turn([Reply::Hang, Reply::Late(Duration::from_secs(5))]).await;
    let hook = hook(&c, &receiver).await;
    c.conversation().await;
    let delivered = settled(&c, &hook, "delivered", 1).await;
    let tries = receiver.received();
    assert_eq!(
        (tries.len(), &delivered["data"][0]["attempts"]),
        (3, &json!(3))
    );
    assert!(tries[1].at - tries[0].at >= Duration::from_millis(500));
}

#[tokio::test]
async fn what_fails_to_the_end_is_given_up_and_lets_the_next_one_go() {
    let (_server, _account, c) = hasty().await;
    let receiver = Receiver::planned(|delivery| {
        Reply::status(if delivery.kind() == "conversation.created" {
            500
        } else {
            200
        })
    })
    .await;
    let hook = hook(&c, &receiver).await;
    let id = c.conversation().await;
    c.message(&id, "waits").await;
    let failed = settled(&c, &hook, "failed", 1).await["data"][0].clone();
    assert_eq!(
        (&failed["attempts"], &failed["next_attempt_at"]),
        (&json!(3), &Value::Null)
    );
    settled(&c, &hook, "delivered", 1).await;
    let created = "conversation.created";
    assert_eq!(
        kinds(&receiver.received()),
        [created, created, created, "message.created"]
    );
    receiver.answer(|_| Reply::ok());
    let retry = format!(
        "{hook}/deliveries/{}/retry",
        failed["delivery_id"].as_str().unwrap()
    );
    c.call("POST", &retry).await.expect(202);
    settled(&c, &hook, "delivered", 2).await;
    let all = receiver.received();
    assert_eq!((all.len(), &all[4].body), (5, &all[0].body));
    assert_eq!(all[4].header("webhook-id"), all[0].header("webhook-id"));
}

#[tokio::test]
async fn later_events_wait_for_the_earlier_one_and_other_conversations_do_not() {
    let (_account, c) = account_with_deliveries().await;
    let (customer, other) = (c.customer().await, c.customer().await);
    let (slow, quick) = (
        c.conversation_of(&customer).await,
        c.conversation_of(&other).await,
    );
    let blocked = slow.clone();
    let mut failures = 4;
    let receiver = Receiver::planned(move |delivery| {
        let fails = failures > 0 && delivery.body.contains(&blocked);
        failures -= i32::from(fails);
        Reply::status(if fails { 500 } else { 200 })
    })
    .await;
    hook(&c, &receiver).await;
    for n in 0..3 {
        c.message(&slow, &format!("{n}")).await;
    }
    c.message(&quick, "at once").await;
    let all = receiver.wait_for(8).await;
    let of = |id: &str| -> Vec<u64> {
        let own = all
            .iter()
            .filter(|delivery| delivery.event()["data"]["conversation_id"] == id);
        own.map(|delivery| delivery.event()["seq"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(
        of(&slow),
        [2, 2, 2, 2, 2, 3, 4],
        "in order of seq, each after the one before was delivered"
    );
    assert_eq!(of(&quick), [2]);
    let place = all
        .iter()
        .position(|delivery| delivery.body.contains(&quick))
        .unwrap();
    assert!(
        place < 5,
        "the other conversation waited for {place} attempts"
    );
}

#[tokio::test]
async fn redirects_are_failures_and_never_followed() {
    let (_account, c) = account_with_deliveries().await;
    let elsewhere = Receiver::start().await;
    let statuses = [301, 302, 303, 307, 308];
    let replies: Vec<Reply> = statuses
        .iter()
        .map(|status| Reply::with_header(*status, "Location", &elsewhere.url()))
        .collect();
    let receiver = Receiver::in_turn(replies).await;
    let hook = hook(&c, &receiver).await;
    c.conversation().await;
    let delivered = settled(&c, &hook, "delivered", 1).await;
    assert_eq!(delivered["data"][0]["attempts"], 6);
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn retry_after_is_honoured_on_429_and_503_only() {
    let (_account, c) = account_with_deliveries().await;
    let wait = |status| Reply::with_header(status, "Retry-After", "2");
    for status in [429, 503, 500] {
        let receiver = Receiver::in_turn([wait(status)]).await;
        let hook = hook_with(&c, &receiver, json!({"events": ["conversation.created"]})).await;
        c.conversation().await;
        let tries = receiver.wait_for(2).await;
        let waited = tries[1].at - tries[0].at;
        assert_eq!(
            waited >= Duration::from_millis(1950),
            status != 500,
            "{status}: {waited:?}"
        );
        c.delete(&hook).await.expect(204);
    }
}

#[tokio::test]
async fn a_410_disables_the_endpoint_and_gives_up_what_waits() {
    let (_account, c) = account_with_deliveries().await;
    let id = c.conversation().await;
    let receiver =
        Receiver::in_turn([Reply::status(500), Reply::status(500), Reply::status(410)]).await;
    let hook = hook(&c, &receiver).await;
    c.message(&id, "first").await;
    c.message(&id, "second").await;
    let gone = until("the endpoint is disabled", SOON, async || {
        let now = c.get(&hook).await.expect(200);
        (now["enabled"] == false).then_some(now)
    })
    .await;
    assert!(
        gone["disabled_reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{gone}"
    );
    settled(&c, &hook, "failed", 2).await;
    settled(&c, &hook, "pending", 0).await;
    c.message(&id, "while it is disabled").await;
    let again = c.patch(&hook, json!({"enabled": true})).await.expect(200);
    assert!(again["disabled_reason"].is_null(), "{again}");
    c.message(&id, "enabled again").await;
    let all = receiver.wait_for(4).await;
    assert_eq!(
        all[3].event()["data"]["content"],
        "enabled again",
        "what was committed meanwhile is not sent"
    );
}

/// A server that disables an endpoint which has only failed for about a second.
fn disabling() -> Server {
    let schedule = "[0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]";
    Setup::default()
        .delivering(schedule, "5")
        .env("COLLOQUY__WEBHOOKS__DISABLE_AFTER_DAYS", "0.00001")
        .start()
}

/// Waits until an endpoint is disabled.
async fn is_disabled(c: &Client, hook: &str) -> Answer {
    until("the endpoint is disabled", SOON, async || {
        let now = c.get(hook).await.expect(200);
        (now["enabled"] == false).then_some(now)
    })
    .await
}

#[tokio::test]
async fn an_endpoint_that_only_fails_for_too_long_is_disabled_and_its_log_says_so() {
    let server = disabling();
    let account = server.account().await;
    let c = account.test();
    let failing = Receiver::planned(|_| Reply::status(500)).await;
    let failing = hook(&c, &failing).await;
    c.conversation().await;
    let disabled = is_disabled(&c, &failing).await;
    assert_eq!(disabled["disabled_reason"], "failing");
    let given_up = settled(&c, &failing, "failed", 1).await["data"][0]["delivery_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let single = c
        .get(&format!("{failing}/deliveries/{given_up}"))
        .await
        .expect(200);
    let last = single["attempt_log"].as_array().unwrap().last().unwrap();
    assert!(
        last["error"]
            .as_str()
            .is_some_and(|error| error.contains("disabled")),
        "{single}"
    );
}

#[tokio::test]
async fn operators_see_which_endpoint_fails_and_which_delivers() {
    let server = disabling();
    let account = server.account().await;
    let c = account.test();
    let (failing, healthy) = (
        Receiver::planned(|_| Reply::status(500)).await,
        Receiver::start().await,
    );
    let (failing, healthy) = (hook(&c, &failing).await, hook(&c, &healthy).await);
    c.conversation().await;
    is_disabled(&c, &failing).await;
    settled(&c, &failing, "failed", 1).await;
    settled(&c, &healthy, "delivered", 1).await;
    let health = account
        .operator()
        .get("/admin/v1/webhooks?limit=100")
        .await
        .expect(200);
    let of = |hook: &str| {
        let named = |one: &&Value| hook.ends_with(one["webhook_id"].as_str().unwrap());
        let found = health.data().iter().find(named);
        found
            .unwrap_or_else(|| panic!("{hook} is not in {health}"))
            .clone()
    };
    let (bad, good) = (of(&failing), of(&healthy));
    assert_eq!(
        (&bad["enabled"], &bad["delivered"], &bad["failed"]),
        (&json!(false), &json!(0), &json!(1))
    );
    assert_eq!(
        (&good["enabled"], &good["delivered"], &good["pending"]),
        (&json!(true), &json!(1), &json!(0))
    );
    assert_eq!(
        (&good["account_id"], &bad["disabled_reason"]),
        (&json!(account.account_id), &json!("failing"))
    );
    assert!(
        good["last_success_at"].is_string() && good["failing_since"].is_null(),
        "{good}"
    );
}

#[tokio::test]
async fn disabled_or_deleted_what_waits_is_given_up() {
    let (_account, c) = account_with_deliveries().await;
    let id = c.conversation().await;
    let receivers = [
        Receiver::planned(|_| Reply::status(500)).await,
        Receiver::planned(|_| Reply::status(500)).await,
    ];
    let (disabled, deleted) = (hook(&c, &receivers[0]).await, hook(&c, &receivers[1]).await);
    c.message(&id, "one").await;
    c.message(&id, "two").await;
    for receiver in &receivers {
        receiver.wait_for(2).await;
    }
    c.patch(&disabled, json!({"enabled": false}))
        .await
        .expect(200);
    c.delete(&deleted).await.expect(204);
    settled(&c, &disabled, "failed", 2).await;
    // Whatever was under way has been answered by then; what is committed afterwards goes to the
    // third one only.
    let witness = Receiver::start().await;
    hook(&c, &witness).await;
    for receiver in &receivers {
        receiver.answer(|_| Reply::ok());
    }
    let before: Vec<usize> = receivers.iter().map(Receiver::count).collect();
    c.message(&id, "three").await;
    witness.wait_for(1).await;
    for (receiver, before) in receivers.iter().zip(before) {
        assert!(
            receiver.count() <= before + 1,
            "{:?}",
            kinds(&receiver.received())
        );
        assert!(
            receiver
                .received()
                .iter()
                .all(|delivery| !delivery.body.contains("three"))
        );
    }
    c.patch(&disabled, json!({"enabled": true}))
        .await
        .expect(200);
    c.message(&id, "four").await;
    until("the endpoint gets what comes now", SOON, async || {
        receivers[0]
            .received()
            .iter()
            .any(|delivery| delivery.body.contains("four"))
            .then_some(())
    })
    .await;
    assert!(
        receivers[0]
            .received()
            .iter()
            .all(|delivery| !delivery.body.contains("three"))
    );
}

#[tokio::test]
async fn an_endpoint_gets_the_events_and_the_properties_that_it_names() {
    let (_account, c) = account_with_deliveries().await;
    let customer = c.customer().await;
    let document = c.document("of no conversation").await;
    let wishes = [
        json!({"events": ["conversation.closed"]}),
        json!({"events": ["*"], "filter": {"channel": ["email", "voice"]}}),
        json!({"events": ["message.created"], "filter": {"channel": ["chat"], "priority": ["high"]}}),
        json!({"events": ["*"], "filter": {"document_id": [id_of(&document)]}}),
        json!({"events": ["*"], "enabled": false}),
    ];
    let mut receivers = Vec::new();
    for wish in wishes {
        let receiver = Receiver::start().await;
        hook_with(&c, &receiver, wish).await;
        receivers.push(receiver);
    }
    for (channel, priority) in [("chat", "high"), ("email", "low")] {
        let body = json!({"customer_id": customer, "channel": channel, "priority": priority});
        let id = c
            .post("/v1/conversations", body)
            .await
            .expect(201)
            .id("conversation_id");
        c.message(&id, "Hello").await;
        c.call("POST", &format!("/v1/conversations/{id}/close"))
            .await
            .expect(200);
    }
    let expected: [&[&str]; 5] = [
        &["conversation.closed", "conversation.closed"],
        &[
            "conversation.created",
            "message.created",
            "conversation.closed",
        ],
        &["message.created"],
        &[],
        &[],
    ];
    for (receiver, expected) in receivers.iter().zip(expected) {
        assert_eq!(kinds(&receiver.wait_for(expected.len()).await), expected);
    }
}

#[tokio::test]
async fn an_endpoint_gets_its_own_modes_and_accounts_events_only() {
    let (account, test) = account_with_deliveries().await;
    let (stranger, other) = account_with_deliveries().await;
    let live = account.live();
    let (in_test, in_live) = (Receiver::start().await, Receiver::start().await);
    hook(&test, &in_test).await;
    hook(&live, &in_live).await;
    other.conversation().await;
    stranger.live().conversation().await;
    let (of_test, of_live) = (test.conversation().await, live.conversation().await);
    for (receiver, id) in [(&in_test, of_test), (&in_live, of_live)] {
        let all = receiver.wait_for(1).await;
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].event()["data"]["conversation_id"], id.as_str());
    }
}

#[tokio::test]
async fn a_replay_sends_stored_events_again_in_order() {
    let (_account, c) = account_with_deliveries().await;
    let id = c.conversation().await;
    for n in 0..4 {
        c.message(&id, &format!("{n}")).await;
    }
    c.call("POST", &format!("/v1/conversations/{id}/close"))
        .await
        .expect(200);
    let stored = c.get("/v1/events").await.expect(200).data().clone();
    let receiver = Receiver::start().await;
    let replay = format!("{}/replay", hook(&c, &receiver).await);
    c.post(&replay, json!({"since": "2020-01-01T00:00:00.000Z"}))
        .await
        .expect(202);
    let all = receiver.wait_for(6).await;
    let events: Vec<Value> = all.iter().map(Received::event).collect();
    assert_eq!(events, stored, "older than the endpoint too, in order");
    let ids: Vec<&str> = all
        .iter()
        .map(|delivery| delivery.header("webhook-id"))
        .collect();
    assert!(
        ids.iter()
            .zip(&stored)
            .all(|(id, event)| event["id"] == *id),
        "with its own id"
    );
    let body = json!({"since": "2020-01-01T00:00:00.000Z", "events": ["conversation.closed"]});
    c.post(&replay, body).await.expect(202);
    assert_eq!(receiver.wait_for(7).await[6].event(), stored[5]);
    c.post(
        &replay,
        json!({"since": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z"}),
    )
    .await
    .expect(202);
    c.message(&id, "the mark").await;
    let marked = receiver.wait_for(8).await;
    assert_eq!(
        marked[7].event()["data"]["content"],
        "the mark",
        "nothing was stored in that span"
    );
    for (field, value) in [
        ("since", json!("yesterday")),
        ("until", json!(7)),
        ("events", json!(["x"])),
    ] {
        let refused = c.post(&replay, json!({field: value})).await.expect(400);
        assert!(
            refused["error"]["details"]["field"]
                .as_str()
                .unwrap()
                .starts_with(field),
            "{refused}"
        );
    }
}

/// A conversation with a message whose first delivery failed, and the receiver, which answers 200
/// only when told.
async fn failed_once(c: &Client, text: &str) -> (Receiver, String, String) {
    let id = c.conversation().await;
    let receiver = Receiver::planned(|_| Reply::status(500)).await;
    let hook = hook(c, &receiver).await;
    let message = c.message(&id, text).await.header("location").to_owned();
    receiver.wait_for(1).await;
    (receiver, message, hook)
}

#[tokio::test]
async fn a_retry_after_an_edit_still_sends_the_first_bytes() {
    let (_account, c) = account_with_deliveries().await;
    let (receiver, message, hook) = failed_once(&c, "the first text").await;
    c.patch(&message, json!({"content": "another text"}))
        .await
        .expect(200);
    receiver.answer(|_| Reply::ok());
    settled(&c, &hook, "delivered", 2).await;
    let all = receiver.received();
    let (last, before) = all.split_last().unwrap();
    assert_eq!(last.kind(), "message.updated");
    assert_eq!(last.event()["data"]["content"], "another text");
    assert!(
        before.len() >= 2
            && before
                .iter()
                .all(|delivery| delivery.body == before[0].body),
        "{before:?}"
    );
    assert_eq!(before[0].event()["data"]["content"], "the first text");
}

#[tokio::test]
async fn a_retry_after_redaction_sends_the_erased_text_and_no_log_keeps_it() {
    let (_account, c) = account_with_deliveries().await;
    let text = unique("Geheim");
    let (receiver, message, hook) = failed_once(&c, &text).await;
    let echo = text.clone();
    receiver.answer(move |_| Reply::with_body(500, &format!("can't take {echo}")));
    let count = receiver.count();
    receiver.wait_for(count + 1).await;
    c.delete(&message).await.expect(204);
    // One attempt may have been under way when the redaction was answered.
    let at_redaction = receiver.count() + 1;
    receiver.wait_for(at_redaction + 1).await;
    receiver.answer(|_| Reply::ok());
    let delivered = settled(&c, &hook, "delivered", 2).await;
    let all = receiver.received();
    for delivery in &all[at_redaction..] {
        assert!(!delivery.body.contains(&text), "{delivery:?}");
    }
    let first = all
        .iter()
        .rfind(|delivery| delivery.kind() == "message.created")
        .unwrap();
    let data = &first.event()["data"];
    assert_eq!(
        (&data["content"], &data["redacted"]),
        (&json!(""), &json!(true)),
        "{first:?}"
    );
    assert_eq!(first.header("webhook-id"), all[0].header("webhook-id"));
    for item in delivered.data() {
        let single = c
            .get(&format!(
                "{hook}/deliveries/{}",
                item["delivery_id"].as_str().unwrap()
            ))
            .await
            .expect(200);
        assert!(
            !single.body.to_string().contains(&text),
            "a receiver's logged answer keeps the text: {single}"
        );
    }
}

#[tokio::test]
async fn what_waits_survives_kill_9() {
    let mut server = Setup::default()
        .delivering("[0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1]", "5")
        .start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let receiver = Receiver::planned(|_| Reply::status(503)).await;
    let hook = hook(&c, &receiver).await;
    let id = c.conversation().await;
    for n in 0..5 {
        c.message(&id, &format!("{n}")).await;
    }
    receiver.wait_for(2).await;
    // An attempt counts once its outcome is kept.
    until("an attempt is counted", SOON, async || {
        let all = c.get(&format!("{hook}/deliveries")).await.expect(200);
        let count = |one: &Value| one["attempts"].as_u64().unwrap();
        all.data().iter().any(|one| count(one) > 0).then_some(())
    })
    .await;
    server.kill9();
    receiver.answer(|_| Reply::ok());
    let before = receiver.count();
    server.restart();
    let c = server.with_key(&key);
    settled(&c, &hook, "delivered", 6).await;
    let seqs: Vec<u64> = receiver.received()[before..]
        .iter()
        .map(|delivery| delivery.event()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    let attempt: u64 = receiver.received()[before]
        .header("x-webhook-attempt")
        .parse()
        .unwrap();
    assert!(attempt >= 2, "attempts before the crash are counted");
}

#[tokio::test]
async fn a_dead_endpoint_is_tried_and_shown_and_its_retry_is_accepted_once_it_is_there() {
    let (_server, _account, c) = hasty().await;
    let made = c
        .post(HOOKS, json!({"url": dead_url().await, "events": ["*"]}))
        .await
        .expect(201);
    let hook = format!("{HOOKS}/{}", made.id("webhook_id"));
    c.conversation().await;
    let failed = settled(&c, &hook, "failed", 1).await["data"][0].clone();
    let at = format!(
        "{hook}/deliveries/{}",
        failed["delivery_id"].as_str().unwrap()
    );
    let log = c.get(&at).await.expect(200)["attempt_log"].clone();
    assert_eq!(log.as_array().unwrap().len(), 3);
    assert!(
        log[0]["error"].is_string() && log[0]["status"].is_null(),
        "{log}"
    );
    let receiver = Receiver::start().await;
    c.patch(&hook, json!({"url": receiver.url()}))
        .await
        .expect(200);
    let accepted = c.call("POST", &format!("{at}/retry")).await.expect(202);
    assert_shape(&accepted.body, crate::support::shapes::DELIVERY);
    receiver.wait_for(1).await;
}
