//! What conversations do by themselves: snoozed ones wake, idle ones close. Each exactly once,
//! across crashes, and never at the cost of a message that comes at the same instant.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::log::{Logged, events, events_of};
use crate::support::{Account, Answer, Client, Server, account_with_client, shared, sized, until};

/// How long something that is due may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Minutes that snoozes are set ahead where the test sets the clock.
const HOUR: u32 = 60;
const HOUR_MS: i64 = 3_600_000;

fn at(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}")
}

fn written(instant: DateTime<Utc>) -> String {
    instant.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn from_now(ms: i64) -> String {
    written(Utc::now() + chrono::TimeDelta::milliseconds(ms))
}

async fn snooze(c: &Client, conversation: &str, until: &str) -> Answer {
    let answer = c
        .patch(
            &at(conversation),
            json!({"status": "pending", "snoozed_until": until}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&answer["status"], &answer["snoozed_until"]),
        (&json!("pending"), &json!(until))
    );
    answer
}

async fn becomes(c: &Client, conversation: &str, status: &str) -> Answer {
    let what = format!("{conversation} is {status}");
    until(&what, SOON, async || {
        let answer = c.get(&at(conversation)).await.expect(200);
        (answer["status"] == status).then_some(answer)
    })
    .await
}

/// Waits until the server's clock is ahead by at least all but one of these minutes.
async fn sees_the_new_time(c: &Client, minutes: u32) {
    until("the server sees the new time", SOON, async || {
        let made = c.customer().await;
        let shown = c.get(&format!("/v1/customers/{made}")).await;
        let at = shown["created_at"].as_str()?.to_owned();
        (at > from_now(60_000 * i64::from(minutes - 1))).then_some(())
    })
    .await;
}

/// The events that made a conversation active.
fn wakings(log: &[Logged]) -> Vec<&Logged> {
    log.iter()
        .filter(|logged| logged.data["changes"]["status"]["to"] == "active")
        .collect()
}

#[tokio::test]
async fn a_snoozed_conversation_wakes_by_itself_once() {
    let (_account, c) = account_with_client().await;
    let (far, near) = (c.conversation().await, c.conversation().await);
    snooze(&c, &far, &from_now(3_600_000)).await;
    let wakes_at = from_now(5_000);
    let pending = snooze(&c, &near, &wakes_at).await;
    let woken = becomes(&c, &near, "active").await;
    assert!(
        woken["updated_at"].as_str() >= Some(&*wakes_at),
        "not before its time: {woken}"
    );
    assert!(
        woken["snoozed_until"].is_null() && woken.etag() != pending.etag(),
        "{woken}"
    );
    let log = events_of(shared(), &near);
    let [_, _, last] = &log[..] else {
        panic!("{log:?}")
    };
    let changes = json!({
        "status": {"from": "pending", "to": "active"},
        "snoozed_until": {"from": wakes_at, "to": null},
    });
    assert_eq!(
        (last.event, &last.data["changes"]),
        ("conversation.updated", &changes)
    );
    assert_eq!(last.by, "a snooze ended");
    let asleep = c.get(&at(&far)).await.expect(200);
    assert_eq!(asleep["status"], "pending");
    let listed = c.get("/v1/conversations?status=pending").await.expect(200);
    assert_eq!(
        listed.data()[0]["snoozed_until"],
        asleep["snoozed_until"],
        "lists show it too"
    );
}

#[tokio::test]
async fn a_snooze_may_be_moved_both_ways() {
    let (_account, c) = account_with_client().await;
    let (sooner, later) = (c.conversation().await, c.conversation().await);
    snooze(&c, &sooner, &from_now(3_600_000)).await;
    snooze(&c, &later, &from_now(5_000)).await;
    let moved = from_now(3_600_000);
    let answer = c
        .patch(&at(&later), json!({"snoozed_until": moved}))
        .await
        .expect(200);
    assert_eq!(answer["snoozed_until"], moved);
    let unchanged = c
        .patch(&at(&later), json!({"snoozed_until": moved}))
        .await
        .expect(200);
    assert_eq!(
        (unchanged.etag(), &unchanged["updated_at"]),
        (answer.etag(), &answer["updated_at"])
    );
    c.patch(&at(&sooner), json!({"snoozed_until": from_now(5_000)}))
        .await
        .expect(200);
    becomes(&c, &sooner, "active").await;
    assert_eq!(
        c.get(&at(&later)).await["status"],
        "pending",
        "the time that it had is not its time any more"
    );
}

#[tokio::test]
async fn a_snooze_outlives_kill_9_and_fires_once_if_it_was_due_meanwhile() {
    let mut server = Server::start();
    let c = Account::make(server.anonymous()).await.test();
    let (due, later) = (c.conversation().await, c.conversation().await);
    snooze(&c, &later, &from_now(3_600_000)).await;
    let wakes_at = Utc::now() + chrono::TimeDelta::seconds(6);
    snooze(&c, &due, &written(wakes_at)).await;
    server.kill9();
    assert_eq!(
        wakings(&events_of(&server, &due)).len(),
        0,
        "the crash came first"
    );
    while Utc::now() <= wakes_at {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..2 {
        server.restart();
        let c = c.at(&server.address());
        becomes(&c, &due, "active").await;
        assert_eq!(c.get(&at(&later)).await["status"], "pending");
    }
    let near = from_now(5_000);
    let c = c.at(&server.address());
    c.patch(&at(&later), json!({"snoozed_until": near}))
        .await
        .expect(200);
    becomes(&c, &later, "active").await;
    assert_eq!(wakings(&events_of(&server, &due)).len(), 1);
    assert_eq!(wakings(&events_of(&server, &later)).len(), 1);
}

#[tokio::test]
async fn a_snooze_that_makes_no_sense_is_refused_and_changes_nothing() {
    let (_account, c) = account_with_client().await;
    let conversation = at(&c.conversation().await);
    let before = c.get(&conversation).await;
    let soon = from_now(3_600_000);
    let change = |body: Value| c.patch(&conversation, body);
    for until in [json!(from_now(-1000)), json!("1970-01-01T00:00:00Z")] {
        let body = json!({"status": "pending", "snoozed_until": until});
        change(body)
            .await
            .error(400, "invalid_request", "snoozed_until");
    }
    for until in [
        json!(5),
        json!(true),
        json!([soon]),
        json!({}),
        json!("tomorrow"),
        json!(""),
        json!("2030-02-30"),
    ] {
        let body = json!({"status": "pending", "snoozed_until": until});
        change(body)
            .await
            .error(400, "invalid_request", "snoozed_until");
    }
    for body in [
        json!({"snoozed_until": soon}),
        json!({"status": "active", "snoozed_until": soon}),
        json!({"status": "closed", "snoozed_until": soon}),
    ] {
        change(body)
            .await
            .error(409, "invalid_transition", "snoozed_until");
    }
    c.post(
        "/v1/conversations",
        json!({"customer_id": c.customer().await, "snoozed_until": soon}),
    )
    .await
    .error(400, "invalid_request", "snoozed_until");
    let after = change(json!({"snoozed_until": null})).await.expect(200);
    assert_eq!(
        (after.etag(), &after.bytes),
        (before.etag(), &before.bytes),
        "there was nothing to wake"
    );
    c.call("POST", &format!("{conversation}/close"))
        .await
        .expect(200);
    change(json!({"snoozed_until": soon}))
        .await
        .error(409, "invalid_transition", "snoozed_until");
    change(json!({"status": "pending", "snoozed_until": soon}))
        .await
        .error(409, "invalid_transition", "*");
}

#[tokio::test]
async fn whatever_ends_pending_ends_the_snooze_and_the_event_says_so() {
    let (_account, c) = account_with_client().await;
    let until = from_now(9_000);
    let mut ended = Vec::new();
    for end in ["null", "active", "message", "close", "closed"] {
        let conversation = c.conversation().await;
        snooze(&c, &conversation, &until).await;
        match end {
            "null" => {
                c.patch(&at(&conversation), json!({"snoozed_until": null}))
                    .await
            }
            "message" => c.message(&conversation, "here I am").await,
            "close" => {
                c.call("POST", &format!("{}/close", at(&conversation)))
                    .await
            }
            status => c.patch(&at(&conversation), json!({"status": status})).await,
        };
        let shown = c.get(&at(&conversation)).await;
        let expected = if end.starts_with("close") {
            "closed"
        } else {
            "active"
        };
        assert!(
            shown["snoozed_until"].is_null() && shown["status"] == expected,
            "{end}: {shown}"
        );
        ended.push((end, conversation, shown));
    }
    // An agent's message does not end it.
    let asleep = c.conversation().await;
    snooze(&c, &asleep, &from_now(3_600_000)).await;
    let from_agent = json!({"content": "a note", "sender_type": "agent"});
    c.post(&format!("{}/messages", at(&asleep)), from_agent)
        .await
        .expect(201);
    assert_eq!(c.get(&at(&asleep)).await["status"], "pending");
    // When its time would have come, nothing happens to any of them.
    let other = c.conversation().await;
    snooze(&c, &other, &from_now(9_300)).await;
    becomes(&c, &other, "active").await;
    let log = events(shared());
    for (end, conversation, shown) in ended {
        let log: Vec<&Logged> = log
            .iter()
            .filter(|one| one.data["conversation_id"] == conversation)
            .collect();
        let last = log.last().unwrap();
        assert_eq!(
            last.data["changes"]["snoozed_until"],
            json!({"from": until, "to": null}),
            "{end}"
        );
        assert_eq!(
            c.get(&at(&conversation)).await.etag(),
            shown.etag(),
            "{end}"
        );
    }
}

#[tokio::test]
async fn a_message_at_the_instant_of_the_waking_is_kept_and_one_of_the_two_wakes() {
    let count = sized(400, 60);
    let (server, clock) = Clock::start();
    let c = Account::make(server.anonymous()).await.test();
    let (conversations, alarm) = (many(&c, count).await, c.conversation().await);
    snooze_all(&c, &conversations, &from_now(HOUR_MS)).await;
    clock.ahead(HOUR);
    sees_the_new_time(&c, HOUR).await;
    // All are due, and nobody has looked yet: the timer does at the instant of this one.
    let instant = Utc::now() + chrono::TimeDelta::milliseconds(HOUR_MS + 200);
    snooze(&c, &alarm, &written(instant)).await;
    let sending = conversations
        .iter()
        .enumerate()
        .map(|(index, conversation)| {
            let c = c.clone();
            // Around the instant, some before and some after.
            let spread = i64::try_from(index % 100).unwrap() * 4 - 100 - HOUR_MS;
            async move {
                let wait = instant + chrono::TimeDelta::milliseconds(spread) - Utc::now();
                tokio::time::sleep(wait.to_std().unwrap_or_default()).await;
                c.message(conversation, "at the same instant").await;
            }
        });
    futures_util::future::join_all(sending).await;
    becomes(&c, &alarm, "active").await;
    let log = events(&server);
    let mut by_timer = 0;
    for conversation in &conversations {
        let own: Vec<Logged> = log
            .iter()
            .filter(|logged| logged.data["conversation_id"] == **conversation)
            .cloned()
            .collect();
        let messages = own
            .iter()
            .filter(|logged| logged.event == "message.created")
            .count();
        let woken = wakings(&own);
        assert_eq!((messages, woken.len(), own.len()), (1, 1, 4), "{own:?}");
        by_timer += usize::from(woken[0].by == "a snooze ended");
        let shown = c.get(&at(conversation)).await;
        assert!(
            shown["status"] == "active"
                && shown["snoozed_until"].is_null()
                && shown["message_count"] == 1
        );
    }
    eprintln!("{by_timer} of {count} were woken by the timer, the others by their message");
}

#[tokio::test]
async fn thousands_that_are_due_at_once_starve_nobody() {
    let count = sized(3000, 60);
    let (mut server, clock) = Clock::start();
    let c = Account::make(server.anonymous()).await.test();
    let conversations = many(&c, count).await;
    snooze_all(&c, &conversations, &from_now(HOUR_MS)).await;
    server.kill9();
    clock.ahead(HOUR);
    server.restart();
    let c = c.at(&server.address());
    let (mut slowest, mut served) = (Duration::ZERO, 0);
    let mine = until("all are awake", Duration::from_secs(60), async || {
        let begun = Instant::now();
        let mine = c.conversation().await;
        c.message(&mine, "meanwhile").await;
        slowest = slowest.max(begun.elapsed());
        let left = c
            .get("/v1/conversations?status=pending&limit=1")
            .await
            .expect(200)
            .total();
        served += usize::from(left > 0);
        (left == 0).then_some(mine)
    })
    .await;
    assert!(served > 0, "a caller waited until all were awake");
    assert_eq!(c.get(&at(&mine)).await["message_count"], 1);
    let log = events(&server);
    assert_eq!(wakings(&log).len(), count, "each once");
    eprintln!("{served} times three calls of a caller meanwhile, the slowest took {slowest:?}");
}

/// So many conversations, made a hundred at a time.
async fn many(c: &Client, count: usize) -> Vec<String> {
    let customer = c.customer().await;
    let operations = (0..count)
        .map(|_| json!({"op": "create", "body": {"customer_id": customer}}))
        .collect();
    let made = in_bulk(c, operations, 201).await;
    made.iter()
        .map(|made| made["conversation_id"].as_str().unwrap().to_owned())
        .collect()
}

async fn snooze_all(c: &Client, conversations: &[String], until: &str) {
    let body = json!({"status": "pending", "snoozed_until": until});
    let operation = |id: &String| json!({"op": "update", "conversation_id": id, "body": body});
    in_bulk(c, conversations.iter().map(operation).collect(), 200).await;
}

/// Carries them out, each with this status; gives the bodies in order.
async fn in_bulk(c: &Client, operations: Vec<Value>, status: u16) -> Vec<Value> {
    let requests: Vec<_> = operations
        .chunks(100)
        .map(|chunk| {
            c.post("/v1/conversations/bulk", json!({"operations": chunk}))
                .into_future()
        })
        .collect();
    let answers: Vec<Answer> = futures_util::stream::iter(requests)
        .buffered(8)
        .collect()
        .await;
    let results: Vec<Value> = answers
        .into_iter()
        .flat_map(|answer| answer.expect(200).data().clone())
        .collect();
    assert!(
        results.iter().all(|result| result["status"] == status),
        "{}",
        results[0]
    );
    results
        .into_iter()
        .map(|result| result["body"].clone())
        .collect()
}

async fn auto_close(account: &Account, minutes: Value) -> Answer {
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account
        .operator()
        .patch(&at, json!({"auto_close_after_minutes": minutes}))
        .await
}

#[tokio::test]
async fn auto_close_is_set_by_operators_and_off_by_default() {
    let (account, _) = account_with_client().await;
    let o = account.operator();
    let of = format!("/admin/v1/accounts/{}", account.account_id);
    assert!(o.get(&of).await.expect(200)["auto_close_after_minutes"].is_null());
    for minutes in [json!(10), json!(525_600), json!(null)] {
        assert_eq!(
            auto_close(&account, minutes.clone()).await.expect(200)["auto_close_after_minutes"],
            minutes
        );
        assert_eq!(o.get(&of).await["auto_close_after_minutes"], minutes);
        let new = o
            .post(
                "/admin/v1/accounts",
                json!({"name": "Quiet", "auto_close_after_minutes": minutes}),
            )
            .await;
        assert_eq!(new.expect(201)["auto_close_after_minutes"], minutes);
    }
    for minutes in [
        json!(9),
        json!(525_601),
        json!(0),
        json!(-10),
        json!(10.5),
        json!("10"),
        json!([10]),
    ] {
        auto_close(&account, minutes.clone()).await.error(
            400,
            "invalid_request",
            "auto_close_after_minutes",
        );
        let new = o
            .post(
                "/admin/v1/accounts",
                json!({"name": "Quiet", "auto_close_after_minutes": minutes}),
            )
            .await;
        new.error(400, "invalid_request", "auto_close_after_minutes");
    }
}

/// Fails unless a conversation was closed once, by itself, for inactivity.
fn assert_closed_by_itself(log: &[Logged], conversation: &str) {
    let by_itself: Vec<&Logged> = log
        .iter()
        .filter(|one| {
            one.data["conversation_id"] == conversation && one.data["reason"] == "inactivity"
        })
        .collect();
    let [event] = by_itself[..] else {
        panic!("{conversation}: {by_itself:?}")
    };
    assert_eq!(
        (event.event, &*event.by),
        ("conversation.closed", "inactivity")
    );
    assert_eq!(event.data["changes"]["status"]["to"], "closed");
}

#[tokio::test]
async fn an_idle_conversation_closes_and_one_with_news_does_not() {
    let (server, clock) = Clock::start();
    let account = Account::make(server.anonymous()).await;
    let c = account.test();
    let (idle, pending) = (c.conversation().await, c.conversation().await);
    let (spoken, reopened, woken) = (
        c.conversation().await,
        c.conversation().await,
        c.conversation().await,
    );
    c.patch(&at(&pending), json!({"status": "pending"}))
        .await
        .expect(200);
    c.call("POST", &format!("{}/close", at(&reopened)))
        .await
        .expect(200);
    snooze(&c, &woken, &from_now(24 * HOUR_MS)).await;
    auto_close(&account, json!(10)).await.expect(200);
    clock.ahead(6);
    sees_the_new_time(&c, 6).await;
    c.message(&spoken, "still here").await;
    c.call("POST", &format!("{}/reopen", at(&reopened)))
        .await
        .expect(200);
    c.patch(&at(&woken), json!({"snoozed_until": null}))
        .await
        .expect(200);
    clock.ahead(11);
    for closes in [&idle, &pending] {
        let closed = becomes(&c, closes, "closed").await;
        assert!(!closed["closed_at"].is_null());
    }
    for stays in [&spoken, &reopened, &woken] {
        assert_eq!(c.get(&at(stays)).await["status"], "active", "{stays}");
    }
    clock.ahead(17);
    for closes in [&spoken, &reopened, &woken] {
        becomes(&c, closes, "closed").await;
    }
    let log = events(&server);
    for closed in [&idle, &pending, &spoken, &reopened, &woken] {
        assert_closed_by_itself(&log, closed);
    }
}

#[tokio::test]
async fn idle_conversations_close_where_their_account_asks_for_it_and_snoozed_ones_are_not_idle() {
    let (server, clock) = Clock::start();
    let account = Account::make(server.anonymous()).await;
    let (c, live) = (account.test(), account.live());
    let stranger = Account::make(server.anonymous()).await.test();
    let (asleep, elsewhere) = (c.conversation().await, stranger.conversation().await);
    snooze(&c, &asleep, &from_now(24 * HOUR_MS)).await;
    // Idle for as long as the others, and looked at behind them.
    let (idle, other_mode) = (c.conversation().await, live.conversation().await);
    auto_close(&account, json!(10)).await.expect(200);
    clock.ahead(11);
    becomes(&c, &idle, "closed").await;
    becomes(&live, &other_mode, "closed").await;
    assert_eq!(
        c.get(&at(&asleep)).await["status"],
        "pending",
        "a snoozed one is not idle"
    );
    assert_eq!(
        stranger.get(&at(&elsewhere)).await["status"],
        "active",
        "its account has not asked for it"
    );
    let log = events(&server);
    for closed in [&idle, &other_mode] {
        assert_closed_by_itself(&log, closed);
    }
}

#[tokio::test]
async fn what_became_idle_while_the_server_was_down_closes_once_at_the_start() {
    let (mut server, clock) = Clock::start();
    let account = Account::make(server.anonymous()).await;
    let c = account.test();
    let conversation = c.conversation().await;
    c.message(&conversation, "the last word").await;
    auto_close(&account, json!(10)).await.expect(200);
    server.kill9();
    clock.ahead(11);
    for _ in 0..2 {
        server.restart();
        becomes(&c.at(&server.address()), &conversation, "closed").await;
    }
    let log = events_of(&server, &conversation);
    assert_eq!(
        log.iter().map(|one| one.event).collect::<Vec<_>>(),
        [
            "conversation.created",
            "message.created",
            "conversation.closed"
        ]
    );
    // Off again, nothing closes any more.
    let c = c.at(&server.address());
    let operator = server.operator();
    let of = format!("/admin/v1/accounts/{}", account.account_id);
    operator
        .patch(&of, json!({"auto_close_after_minutes": null}))
        .await
        .expect(200);
    let open = c.conversation().await;
    clock.ahead(60);
    server.restart();
    let c = c.at(&server.address());
    let sleeper = c.conversation().await;
    let soon = Utc::now() + chrono::TimeDelta::minutes(60) + chrono::TimeDelta::seconds(6);
    c.patch(
        &at(&sleeper),
        json!({"status": "pending", "snoozed_until": written(soon)}),
    )
    .await
    .expect(200);
    becomes(&c, &sleeper, "active").await;
    assert_eq!(c.get(&at(&open)).await["status"], "active");
}
