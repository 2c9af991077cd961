//! What an account is told of its limits: the events `account.quota_warning` and
//! `account.rate_limited`, in lists and at webhooks, each once whatever happens meanwhile.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::socket::Ended;
use crate::support::{
    Account, Client, Dice, EventStream, Receiver, Setup, Socket, account, account_with_deliveries,
    until, verify,
};

/// How long what is told behind a request may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn change(account: &Account, body: Value) {
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account.operator().patch(&at, body).await.expect(200);
}

/// What an account was told in the mode of this client.
async fn told(c: &Client) -> Vec<Value> {
    let kinds = "account.quota_warning,account.rate_limited";
    let at = format!("/v1/events?after=0&limit=100&event={kinds}");
    let page = c.get(&at).await.expect(200);
    assert_eq!(page.total(), page.data().len() as u64, "{page}");
    page.data().clone()
}

/// The percentages that an account was warned of in the mode of this client.
pub(crate) async fn percents(c: &Client) -> Vec<u64> {
    let told = told(c).await;
    let warnings = told
        .iter()
        .filter(|event| event["event"] == "account.quota_warning");
    let percents = warnings.map(|event| event["data"]["percent"].as_u64().unwrap());
    percents.collect()
}

/// An endpoint for what is told of limits, at this address; gives its secret.
async fn endpoint(c: &Client, url: &str) -> String {
    let body = json!({"url": url, "events": ["account.quota_warning", "account.rate_limited"]});
    let made = c.post("/v1/webhooks", body).await.expect(201);
    made["secret"].as_str().unwrap().to_owned()
}

/// Waits until the account was told so many things in all, in both modes: what operators ask costs no
/// key and no quota anything.
pub(crate) async fn recorded(account: &Account, operator: &Client, count: usize) {
    until("it is told", SOON, async || {
        let mut found = 0;
        for kind in ["account.quota_warning", "account.rate_limited"] {
            let at = format!(
                "/admin/v1/audit?limit=100&account_id={}&action={kind}",
                account.account_id
            );
            found += operator.get(&at).await.expect(200).data().len();
        }
        (found >= count).then_some(())
    })
    .await;
}

/// Lets this account make so many requests more, and `of` in all.
async fn leave(account: &Account, c: &Client, more: u64, of: u64) {
    let limits = c.get("/v1/limits").await.expect(200);
    let used = limits["quota"]["used"].as_u64().unwrap();
    for _ in used..of - more {
        c.get("/v1").await.expect(200);
    }
    change(account, json!({ "monthly_quota": of })).await;
}

#[tokio::test]
async fn a_quota_is_warned_of_at_80_and_at_100_percent_in_both_modes() {
    let (account, c) = account_with_deliveries().await;
    let receiver = Receiver::start().await;
    let secret = endpoint(&c, &receiver.url()).await;
    leave(&account, &c, 10, 50).await;
    // 40 of 50 are used already: the next request shows it.
    c.get("/v1").await.expect(200);
    let first = receiver.wait_for(1).await;
    verify::assert_accepted(&first[0], &secret);
    for _ in 0..9 {
        c.get("/v1").await.expect(200);
    }
    c.get("/v1").await.error(429, "quota_exceeded", "");
    let delivered = receiver.wait_for(2).await;
    recorded(&account, &account.operator(), 4).await;
    change(&account, json!({"monthly_quota": 0})).await;
    let mut of_modes = Vec::new();
    for client in [c.clone(), account.live()] {
        let events = told(&client).await;
        let shown: Vec<_> = events
            .iter()
            .map(|event| {
                let data = &event["data"];
                assert_eq!(event["event"], "account.quota_warning");
                assert_eq!(data["account_id"], account.account_id);
                assert_eq!(data["limit"], 50);
                let month = &event["created_at"].as_str().unwrap()[..7];
                assert_eq!(data["month"], month, "{event}");
                let number = |value: &Value| value.as_u64().unwrap();
                (
                    number(&event["seq"]),
                    number(&data["percent"]),
                    number(&data["used"]),
                )
            })
            .collect();
        assert!(
            matches!(shown[..], [(1, 80, 41..=50), (2, 100, 50)]),
            "{shown:?}"
        );
        of_modes.push(events);
    }
    let sent: Vec<Value> = delivered.iter().map(|one| one.event()).collect();
    assert_eq!(sent, of_modes[0], "as the list shows them");
    assert_ne!(of_modes[0][0]["id"], of_modes[1][0]["id"]);
}

#[tokio::test]
async fn a_quota_that_is_lowered_below_what_is_used_warns_of_both_once() {
    let account = account().await;
    let c = account.test();
    for quota in [1_000, 2] {
        change(&account, json!({ "monthly_quota": quota })).await;
        for _ in 0..3 {
            c.get("/v1").await;
        }
    }
    c.get("/v1").await.error(429, "quota_exceeded", "");
    recorded(&account, &account.operator(), 4).await;
    // Of what is due again nothing is told: what is told next has the next place.
    c.get("/v1").await.error(429, "quota_exceeded", "");
    let low = json!({"monthly_quota": 0, "plan": "enterprise", "rate_per_minute": 2, "burst_per_minute": 2});
    change(&account, low).await;
    let (limited, _) = account.key(json!({"type": "test"})).await;
    refused_for_rate(&limited).await;
    recorded(&account, &account.operator(), 5).await;
    let high = json!({"rate_per_minute": 6_000, "burst_per_minute": 6_000});
    change(&account, high).await;
    let events = told(&c).await;
    assert_eq!(percents(&c).await, [80, 100]);
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[2]["event"], "account.rate_limited");
    assert_eq!(events[2]["seq"], 3);
}

/// Asks until the key's rate limit refuses it.
async fn refused_for_rate(c: &Client) {
    until("the rate limit refuses", SOON, async || {
        let answer = c.get("/v1").await;
        (answer.status == 429).then(|| answer.error(429, "rate_limited", ""))
    })
    .await;
}

#[tokio::test]
async fn a_keys_first_refusal_in_an_hour_is_told_in_its_mode() {
    let (server, clock) = Clock::start_as(Setup::default());
    let account = server.account().await;
    let operator = account.operator();
    change(
        &account,
        json!({"rate_per_minute": 60, "burst_per_minute": 90}),
    )
    .await;
    let (c, made) = account.key(json!({"type": "test"})).await;
    let (other, _) = account.key(json!({"type": "test"})).await;
    for _ in 0..2 {
        refused_for_rate(&c).await;
    }
    recorded(&account, &operator, 1).await;
    let events = told(&account.test()).await;
    let data = &events[0]["data"];
    assert_eq!(events[0]["event"], "account.rate_limited");
    assert_eq!(data["account_id"], account.account_id);
    assert_eq!(data["key_id"], made["key_id"]);
    assert_eq!((&data["limit"], &data["burst"]), (&json!(60), &json!(90)));
    let at = |event: &Value| event.as_str().unwrap().to_owned();
    assert!(
        at(&data["at"]) <= at(&events[0]["created_at"]),
        "{events:?}"
    );
    refused_for_rate(&other).await;
    recorded(&account, &operator, 2).await;
    let events = told(&account.test()).await;
    assert_eq!(events.len(), 2, "one of each key: {events:?}");
    clock.ahead(62);
    let moved = Utc::now() + TimeDelta::minutes(61);
    until("the server's clock is an hour ahead", SOON, async || {
        let health = account.anonymous().get("/healthz").await.expect(200);
        let shown = DateTime::parse_from_rfc2822(health.header("date")).unwrap();
        (shown > moved).then_some(())
    })
    .await;
    refused_for_rate(&c).await;
    recorded(&account, &operator, 3).await;
    let events = told(&account.test()).await;
    assert_eq!(events[2]["data"]["key_id"], made["key_id"]);
    assert_eq!(events[2]["seq"], 3);
    assert!(told(&account.live()).await.is_empty(), "not its mode");
}

#[tokio::test]
async fn what_is_told_of_limits_is_for_keys_that_may_read_the_accounts_usage() {
    let account = account().await;
    let scopes = json!({"type": "test", "scopes": ["conversations:read", "documents:read"]});
    let (without, _) = account.key(scopes).await;
    let scopes = json!({"type": "test", "scopes": ["conversations:read", "analytics:read"]});
    let (with, _) = account.key(scopes).await;
    // Whoever reads usage is told of it, an agent too.
    let user = account.test().user("agent").await;
    let scopes = ["conversations:read", "analytics:read"];
    let key = json!({"type": "test", "user_id": user, "scopes": scopes});
    let (agent, _) = account.key(key).await;
    let scopes = ["conversations:assigned", "analytics:read"];
    let key = json!({"type": "test", "user_id": user, "scopes": scopes});
    let (assigned, _) = account.key(key).await;
    let c = account.test();
    c.conversation().await;
    change(&account, json!({"monthly_quota": 1})).await;
    c.get("/v1").await.error(429, "quota_exceeded", "");
    recorded(&account, &account.operator(), 4).await;
    change(&account, json!({"monthly_quota": 0})).await;
    for key in [&with, &agent] {
        assert_eq!(percents(key).await, [80, 100]);
    }
    let all = without.get("/v1/events?after=0").await.expect(200);
    assert_eq!(all.column("event"), ["conversation.created"]);
    let all = assigned.get("/v1/events?after=0").await.expect(200);
    assert_eq!(all.column("event"), [""; 0]);
    for key in [&without, &assigned] {
        key.get("/v1/events?after=0&event=account.quota_warning")
            .await
            .error(403, "forbidden", "event");
    }
    let all = with.get("/v1/events?after=0").await.expect(200);
    let warning = "account.quota_warning";
    assert_eq!(
        all.column("event"),
        ["conversation.created", warning, warning]
    );
}

#[tokio::test]
async fn a_line_that_shows_alerts_ends_when_the_key_may_not_read_usage_any_more() {
    let account = account().await;
    let scopes = json!({"type": "test", "scopes": ["conversations:read", "analytics:read"]});
    let (c, made) = account.key(scopes).await;
    let (mut all, mut one) = (Socket::open(&c).await, Socket::open(&c).await);
    let conversation = account.test().conversation().await;
    all.subscribe(Value::Null, None).await;
    one.subscribe(json!(conversation), None).await;
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let mut of_one =
        EventStream::open(c.get(&format!("/v1/conversations/{conversation}/events"))).await;
    for stream in [&mut stream, &mut of_one] {
        stream.begins_at().await;
    }
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    let narrower = json!({"scopes": ["conversations:read"]});
    let operator = account.operator();
    operator.patch(&at, narrower).await.expect(200);
    assert_eq!(stream.rest(SOON).await, []);
    assert_eq!(all.end(SOON).await, Ended(1008));
    // What shows one conversation goes on.
    account.test().message(&conversation, "seen").await;
    assert_eq!(of_one.event().await.event, "message.created");
    assert_eq!(
        one.hear_type("event").await["event"]["event"],
        "message.created"
    );
}

/// Requests cross both marks while the server is killed again and again.
#[tokio::test]
async fn whatever_is_killed_a_warning_is_told_once() {
    const QUOTA: u64 = 40;
    let mut server = Setup::default().start();
    let account = server.account().await;
    let mut dice = Dice::new(1_126);
    change(&account, json!({ "monthly_quota": QUOTA })).await;
    let key = account.test();
    let (mut kills, mut spent) = (0, 0);
    // Beyond the last mark, too: what was told must be known then.
    while spent < 4 {
        let c = key.at(&server.address());
        let mut statuses = Vec::new();
        for _ in 0..QUOTA / 4 {
            statuses.push(c.get("/v1").await.status);
        }
        spent += u64::from(statuses.contains(&429));
        tokio::time::sleep(Duration::from_millis(dice.below(1_500))).await;
        server.kill9();
        server.restart();
        kills += 1;
        assert!(kills < 100, "the quota is never spent");
    }
    let (c, operator) = (key.at(&server.address()), server.operator());
    c.get("/v1").await.error(429, "quota_exceeded", "");
    recorded(&account, &operator, 4).await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let none = json!({"monthly_quota": 0});
    operator.patch(&at, none).await.expect(200);
    for client in [&c, &account.live().at(&server.address())] {
        assert_eq!(percents(client).await, [80, 100], "after {kills} kills");
    }
    assert!(server.term().success());
    server.assert_sound();
}
