//! `GET /v1/usage`: what is counted of an account, by day and key. The tests count for themselves what
//! they send and are answered.

use std::time::Duration;

use chrono::{Days, Utc};
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::{
    Account, Answer, Client, Receiver, Reply, Setup, account, account_with_deliveries, sized, until,
};

/// How long what is written behind may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// So many days from now, in UTC, as the interface writes it.
fn day(from_now: i64) -> String {
    let today = Utc::now().date_naive();
    let days = Days::new(from_now.unsigned_abs());
    let day = match from_now < 0 {
        true => today - days,
        false => today + days,
    };
    day.to_string()
}

/// A key of the account, and its identifier.
async fn key_of(account: &Account, kind: &str) -> (Client, String) {
    let (client, made) = account.key(json!({ "type": kind })).await;
    (client, made["key_id"].as_str().unwrap().to_owned())
}

/// The usage of yesterday, today and tomorrow: midnight may be near.
async fn around(c: &Client, group_by: &str) -> Answer {
    let at = format!(
        "/v1/usage?from={}&to={}&group_by={group_by}",
        day(-1),
        day(2)
    );
    c.get(&at).await.expect(200)
}

/// The row of a key, of all days together; null: what no key did.
fn row<'a>(usage: &'a Answer, key: &Value) -> &'a Value {
    let found = usage.data().iter().find(|row| row["key_id"] == *key);
    found.unwrap_or_else(|| panic!("no row of {key}: {usage}"))
}

fn number(row: &Value, field: &str) -> u64 {
    row[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field}: {row}"))
}

/// The requests of some of the rows.
fn requests(usage: &Answer, counts: impl Fn(&Value) -> bool) -> u64 {
    let rows = usage.data().iter().filter(|row| counts(row));
    rows.map(|row| number(row, "requests")).sum()
}

#[tokio::test]
async fn requests_refusals_and_bytes_are_counted_exactly_by_key() {
    let account = account().await;
    let (first, first_id) = key_of(&account, "test").await;
    let (second, second_id) = key_of(&account, "read").await;
    let (mut sent, mut answered) = (0, 0);
    for name in ["Ada", "Grace", ""] {
        let body = json!({ "name": name });
        sent += serde_json::to_vec(&body).unwrap().len() as u64;
        answered += first.post("/v1/customers", body).await.bytes.len() as u64;
    }
    let nowhere = first.get("/v1/conversations/nothing").await.expect(404);
    answered += nowhere.bytes.len() as u64;
    first.call("HEAD", "/v1/conversations").await.expect(200);
    for _ in 0..2 {
        let body = json!({"name": "x"});
        second.post("/v1/customers", body).await.expect(403);
    }
    let limit = json!({"monthly_quota": 8});
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account.operator().patch(&at, limit).await.expect(200);
    second.get("/v1").await.expect(200);
    for _ in 0..3 {
        second.get("/v1").await.error(429, "quota_exceeded", "");
    }
    let limit = json!({"monthly_quota": 0});
    account.operator().patch(&at, limit).await.expect(200);
    let usage = around(&account.live(), "key").await;
    let of_first = row(&usage, &json!(first_id));
    assert_eq!(number(of_first, "requests"), 5, "{of_first}");
    assert_eq!(number(of_first, "bytes_in"), sent, "{of_first}");
    assert_eq!(number(of_first, "bytes_out"), answered, "{of_first}");
    let of_second = row(&usage, &json!(second_id));
    assert_eq!(number(of_second, "requests"), 3, "{of_second}");
    assert_eq!(
        of_second["refused"],
        json!({"rate_limited": 0, "quota_exceeded": 3, "forbidden": 2})
    );
    assert!(of_second["day"].is_null(), "{of_second}");
    assert_eq!(usage["meta"]["quota"]["used"], 9, "this one counted");
}

#[tokio::test]
async fn what_a_rate_refuses_is_counted_and_not_as_a_request() {
    let account = account().await;
    let (c, id) = key_of(&account, "test").await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let limits = json!({"plan": "enterprise", "rate_per_minute": 3, "burst_per_minute": 3});
    account.operator().patch(&at, limits).await.expect(200);
    for status in [200, 200, 200, 429, 429] {
        c.get("/v1").await.expect(status);
    }
    let usage = around(&account.live(), "key").await;
    let row = row(&usage, &json!(id));
    assert_eq!(number(row, "requests"), 3, "{row}");
    assert_eq!(number(&row["refused"], "rate_limited"), 2, "{row}");
}

#[tokio::test]
async fn messages_and_documents_are_counted_exactly_across_a_kill() {
    let mut server = Setup::default().start();
    let account = server.account().await;
    let (first, first_id) = key_of(&account, "test").await;
    let (second, second_id) = key_of(&account, "prod").await;
    let conversation = first.conversation().await;
    let redacted = first.message(&conversation, "gone").await.id("message_id");
    first.message(&conversation, "stays").await;
    let at = format!("/v1/conversations/{conversation}/messages/{redacted}");
    first.delete(&at).await.expect(204);
    let document = second.document("# Title").await;
    second.document("more").await;
    second.delete(&document).await.expect(204);
    let live = second.conversation().await;
    second.message(&live, "hello").await;
    server.restart();
    let c = account.live().at(&server.address());
    let usage = around(&c, "key").await;
    let made = |id: &str| {
        let row = row(&usage, &json!(id));
        (number(row, "messages"), number(row, "documents"))
    };
    assert_eq!((made(&first_id), made(&second_id)), ((2, 0), (1, 2)));
    let bytes = "stays".len() + "more".len() + "hello".len();
    assert_eq!(
        usage["meta"]["stored"],
        json!({"conversations": 2, "messages": 3, "documents": 1, "bytes": bytes})
    );
}

/// How many bytes of texts are stored of the account.
async fn stored_bytes(c: &Client) -> u64 {
    number(&around(c, "day").await["meta"]["stored"], "bytes")
}

#[tokio::test]
async fn bytes_are_those_of_messages_as_they_stand() {
    let mut server = Setup::default().start();
    let account = server.account().await;
    let c = account.live();
    let conversation = c.conversation().await;
    let first = c.message(&conversation, "Zoë").await.id("message_id");
    c.message(&conversation, "six 6!").await;
    assert_eq!(stored_bytes(&c).await, 4 + 6, "bytes, not characters");
    let at = format!("/v1/conversations/{conversation}/messages/{first}");
    for (body, bytes) in [
        (json!({"content": "longer by far"}), 13),
        (json!({"metadata": {"much": "that is no text"}}), 13),
        (json!({"content": "s"}), 1),
    ] {
        c.patch(&at, body).await.expect(200);
        assert_eq!(stored_bytes(&c).await, bytes + 6);
    }
    let refused = json!({"content": ""});
    c.patch(&at, refused)
        .await
        .error(400, "invalid_request", "content");
    assert_eq!(stored_bytes(&c).await, 1 + 6);
    for _ in 0..2 {
        c.delete(&at).await.expect(204);
        assert_eq!(stored_bytes(&c).await, 6, "a redacted one says nothing");
    }
    server.restart();
    assert_eq!(stored_bytes(&c.at(&server.address())).await, 6);
}

#[tokio::test]
async fn bytes_are_those_of_the_latest_versions_of_documents_outside_the_bin() {
    let account = account().await;
    let c = account.live();
    let at = c.document("123456789").await;
    assert_eq!(stored_bytes(&c).await, 9);
    c.branch(&at, "draft", "a side line of whatever length")
        .await;
    c.put(&at, json!({"title": "Another"})).await.expect(200);
    assert_eq!(stored_bytes(&c).await, 9);
    c.put(&at, json!({"content": "größer als zuvor"}))
        .await
        .expect(200);
    assert_eq!(stored_bytes(&c).await, 18);
    let restore = format!("{at}/versions/1/restore");
    c.post(&restore, json!({})).await.expect(201);
    assert_eq!(stored_bytes(&c).await, 9);
    let merge = json!({"source": "draft", "strategy": "theirs"});
    c.post(&format!("{at}/merge"), merge).await;
    let merged = u64::try_from(c.text(&at).await.len()).unwrap();
    assert_eq!(stored_bytes(&c).await, merged);
    let other = c.document("4444").await;
    c.delete(&at).await.expect(204);
    assert_eq!(stored_bytes(&c).await, 4);
    c.post(&format!("{at}/restore"), json!({}))
        .await
        .expect(200);
    assert_eq!(stored_bytes(&c).await, merged + 4);
    for gone in [&at, &other] {
        let permanent = format!("{gone}?permanent=true");
        c.delete(&permanent).await.expect(204);
    }
    assert_eq!(stored_bytes(&c).await, 0);
}

#[tokio::test]
async fn attempts_to_deliver_are_counted_for_no_key() {
    let (account, c) = account_with_deliveries().await;
    let receiver = Receiver::in_turn([Reply::status(500)]).await;
    let body = json!({"url": receiver.url(), "events": ["conversation.created"]});
    c.post("/v1/webhooks", body).await.expect(201);
    c.conversation().await;
    c.conversation().await;
    until(
        "two deliveries were made with three attempts",
        SOON,
        async || {
            let usage = around(&c, "key").await;
            let rows = usage.data().iter();
            let nobodys = rows.clone().find(|row| row["key_id"].is_null())?;
            let of_keys = rows.filter(|row| !row["key_id"].is_null());
            assert!(
                of_keys.clone().count() > 0
                    && of_keys.map(|row| &row["deliveries"]).all(|n| n == 0)
            );
            (number(nobodys, "deliveries") == 3).then_some(())
        },
    )
    .await;
    drop(account);
}

#[tokio::test]
async fn usage_stands_by_day_by_key_or_by_both_and_what_no_key_did_comes_last() {
    let (server, clock) = Clock::start();
    let account = server.account().await;
    let (first, first_id) = key_of(&account, "test").await;
    let (second, second_id) = key_of(&account, "test").await;
    for client in [&first, &first, &second] {
        client.get("/v1").await.expect(200);
    }
    let today = first.get("/v1/usage").await.expect(200);
    let today = today["meta"]["to"].as_str().unwrap().to_owned();
    clock.ahead(24 * 60);
    until("the day has turned", SOON, async || {
        let shown = second.get("/v1/usage").await;
        (shown["meta"]["to"].as_str().unwrap() > &*today).then_some(())
    })
    .await;
    let period = format!("from={}&to={}", day(-1), day(3));
    let list = async |group_by: &str| {
        let at = format!("/v1/usage?{period}&group_by={group_by}");
        second.get(&at).await.expect(200)
    };
    let by_both = list("key,day").await;
    let places: Vec<(String, String)> = by_both
        .data()
        .iter()
        .map(|row| {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            (text("day"), text("key_id"))
        })
        .collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(places, sorted);
    let by_day = list("day").await;
    assert_eq!(by_day.column("day"), [day(-1), day(0), day(1), day(2)]);
    assert!(by_day.data().iter().all(|row| row["key_id"].is_null()));
    let by_key = list("key").await;
    assert_eq!(by_key.column("key_id"), [first_id, second_id]);
    // Each list counts the ones asked for before it.
    for (usage, later) in [(&by_both, 0), (&by_day, 1), (&by_key, 2)] {
        let all = |usage| requests(usage, |_| true);
        assert_eq!(all(usage), all(&by_both) + later, "{usage}");
    }
    // A quota is a month's; the first of the two days may be the last one of another.
    let month = day(1).rsplit_once('-').unwrap().0.to_owned();
    for usage in [&by_both, &by_day] {
        let used = number(&usage["meta"]["quota"], "used");
        let of_month = requests(usage, |row| {
            row["day"].as_str().unwrap().starts_with(&month)
        });
        assert_eq!(of_month, used, "{usage}");
    }
    assert_eq!(by_both["meta"]["group_by"], "key,day");
}

#[tokio::test]
async fn usage_is_text_csv_for_whoever_asks_for_that() {
    let account = account().await;
    let (c, id) = key_of(&account, "test").await;
    let at = format!("/v1/usage?from={}&to={}&group_by=key", day(-1), day(2));
    let table = c.get(&at).with("accept", "text/csv").await.expect(200);
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    let text = String::from_utf8(table.bytes).unwrap();
    let expected = format!(
        "day,key_id,requests,refused.rate_limited,refused.quota_exceeded,refused.forbidden,messages,documents,deliveries,\
         bytes_in,bytes_out\r\n,{id},1,0,0,0,0,0,0,0,0\r\n"
    );
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_period_that_is_none_is_refused_naming_the_field() {
    let account = account().await;
    let c = account.live();
    for (query, field) in [
        ("from=2026-11-02&to=2026-11-01", "from"),
        ("from=2026-11-01&to=2026-11-01", "from"),
        ("from=2999-01-01", "from"),
        ("from=2026-11-01T00:00:00.001Z&to=2026-11-03", "from"),
        ("from=2026-11-01T00:00:00.0001Z&to=2026-11-03", "from"),
        ("from=2026-11-01&to=2026-11-02T12:00:00Z", "to"),
        ("from=2026-11-01T00:00:00%2B02:00&to=2026-11-03", "from"),
        ("from=2026-11-01&to=2027-11-03", "to"),
        ("from=2026-11-01&to=9999-12-31", "to"),
        ("from=2026-11-01&to=10000-01-01", "to"),
        ("from=2026-02-30&to=2026-03-03", "from"),
        ("from=yesterday", "from"),
        ("to=", "to"),
        ("group_by=account", "group_by"),
        ("group_by=day,key", "group_by"),
        ("group_by=", "group_by"),
        ("interval=day", "interval"),
        ("group_by=day&group_by=key", "group_by"),
    ] {
        c.get(&format!("/v1/usage?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
    let elsewhere = "from=2026-11-01T02:00:00%2B02:00&to=2026-11-02T19:00:00-05:00";
    let shown = c.get(&format!("/v1/usage?{elsewhere}")).await.expect(200);
    assert_eq!(
        (&shown["meta"]["from"], &shown["meta"]["to"]),
        (&json!("2026-11-01"), &json!("2026-11-03"))
    );
    let year = "from=2027-11-01&to=2028-11-01";
    let shown = c.get(&format!("/v1/usage?{year}")).await.expect(200);
    assert_eq!(shown.data().len(), 366, "a leap year");
}

#[tokio::test]
async fn by_default_it_is_the_month_to_date_by_day_of_the_own_account_alone() {
    let (account, other) = (account().await, account().await);
    other.test().get("/v1").await.expect(200);
    let shown = account.test().get("/v1/usage").await.expect(200);
    let days = shown.column("day");
    assert!(days[0].ends_with("-01"), "{shown}");
    assert_eq!(shown["meta"]["from"], days[0]);
    assert!(days.contains(&day(0)) || days.contains(&day(-1)), "{shown}");
    assert_eq!(shown["meta"]["group_by"], "day");
    let all: u64 = shown.data().iter().map(|row| number(row, "requests")).sum();
    assert_eq!(all, 1, "this one: {shown}");
    let scopes = json!({"type": "test", "scopes": ["conversations:read"]});
    let (narrow, _) = account.key(scopes).await;
    narrow.get("/v1/usage").await.error(403, "forbidden", "");
    account.read().get("/v1/usage").await.expect(200);
}

#[tokio::test]
async fn what_was_counted_is_kept_over_a_stop_and_all_but_its_last_second_over_a_kill() {
    let mut server = Setup::default().start();
    let account = server.account().await;
    let (c, id) = key_of(&account, "test").await;
    let count = async |c: &Client| {
        let usage = around(c, "key").await;
        number(row(&usage, &json!(id)), "requests")
    };
    c.get("/v1").await.expect(200);
    assert!(server.term().success());
    server.restart();
    let c = c.at(&server.address());
    assert_eq!(count(&c).await, 2);
    // What is older than a second is kept; the rest is for a machine that is busy.
    tokio::time::sleep(Duration::from_secs(sized(4, 15))).await;
    server.restart();
    let c = c.at(&server.address());
    assert_eq!(count(&c).await, 3);
}
