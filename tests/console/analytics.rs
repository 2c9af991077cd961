//! Analytics: what the page shows of conversations is what the operation answers, as a picture, as a
//! text and as a table, and it can be had as CSV.

use serde_json::{Value, json};

use super::super::support::console::Person;
use super::super::support::{Account, Client, Server, account};
use super::browser_of;
use super::figures::{Table, assert_refused, between, said};

const PAGE: &str = "/console/analytics";
const FIGURES: &str = "/v1/analytics/conversations";

async fn begun(c: &Client, channel: &str) -> String {
    let new = json!({"customer_id": c.customer().await, "channel": channel});
    let made = c.post("/v1/conversations", new).await.expect(201);
    format!("/v1/conversations/{}", made.id("conversation_id"))
}

async fn agent(c: &Client, name: &str) -> String {
    let email = format!("{}@example.com", name.replace(' ', "."));
    let body = json!({"name": name, "email": email, "role": "agent"});
    c.post("/v1/users", body).await.expect(201).id("user_id")
}

/// Four conversations: two by chat, of which one is Ada's and closed, and two by e-mail, of which
/// one was closed and is open again.
async fn fill(c: &Client) {
    let ada = agent(c, "Ada Byron").await;
    let [first, _, third, _] = [
        begun(c, "chat").await,
        begun(c, "chat").await,
        begun(c, "email").await,
        begun(c, "email").await,
    ];
    let taken = json!({"assignee_id": ada});
    c.patch(&first, taken).await.expect(200);
    for (conversation, sender) in [
        (&first, "customer"),
        (&first, "agent"),
        (&third, "agent"),
        (&third, "system"),
    ] {
        let body = json!({"content": "Words.", "sender_type": sender});
        let messages = format!("{conversation}/messages");
        c.post(&messages, body).await.expect(201);
    }
    for (conversation, step) in [(&first, "close"), (&third, "close"), (&third, "reopen")] {
        let step = format!("{conversation}/{step}");
        c.post(&step, json!({})).await.expect(200);
    }
}

async fn asked(c: &Client, query: &str) -> Vec<Value> {
    let answer = c.get(&format!("{FIGURES}?{query}")).await.expect(200);
    answer.data().to_vec()
}

/// Fails where the chart's table is not what these fields of the entries are, newest first.
fn assert_columns(page: &str, entries: &[Value], chart: &str, fields: &[&str]) {
    let table = Table::of(page, chart);
    assert_eq!(table.columns.len(), fields.len(), "{chart}: {table:?}");
    let expected = entries.iter().rev().map(|entry| {
        let values = fields.iter().map(|field| entry.pointer(field).unwrap());
        let start = entry["start"].as_str().unwrap().to_owned();
        (start, values.map(Value::as_f64).collect::<Vec<_>>())
    });
    assert_eq!(table.rows, expected.collect::<Vec<_>>(), "{chart}");
}

#[tokio::test]
async fn the_tables_show_what_the_operation_answers() {
    let account = account().await;
    let c = account.live();
    fill(&c).await;
    let person = Person::user(&account, "agent").await;
    for query in ["", "interval=hour", "interval=month"] {
        let page = person.page(&format!("{PAGE}?{query}")).await;
        let entries = asked(&c, query).await;
        for (chart, fields) in [
            ("conversations", &["/created", "/closed", "/reopened"][..]),
            ("open", &["/open_at_end"]),
            (
                "messages",
                &["/messages/customer", "/messages/agent", "/messages/system"],
            ),
        ] {
            assert_columns(&page, &entries, chart, fields);
        }
        for (chart, field) in [
            ("first_response", "first_response_seconds"),
            ("resolution", "resolution_seconds"),
        ] {
            let fields = ["count", "mean", "p50", "p90", "p99"];
            let fields = fields.map(|name| format!("/{field}/{name}"));
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            assert_columns(&page, &entries, chart, &fields);
        }
    }
}

#[tokio::test]
async fn groups_are_columns_by_their_names() {
    let account = account().await;
    let c = account.live();
    fill(&c).await;
    // Two people of one name are told apart.
    for _ in 0..2 {
        let user = c.user("agent").await;
        let at = begun(&c, "voice").await;
        c.patch(&at, json!({"assignee_id": user})).await.expect(200);
    }
    let person = Person::user(&account, "agent").await;
    for group_by in ["channel", "priority", "assignee_id"] {
        let query = format!("interval=month&group_by={group_by}");
        let page = person.page(&format!("{PAGE}?{query}")).await;
        let entries = asked(&c, &query).await;
        assert!(!entries.is_empty());
        for (chart, field) in [
            ("created", "/created"),
            ("closed", "/closed"),
            ("reopened", "/reopened"),
            ("open", "/open_at_end"),
            ("first_response", "/first_response_seconds/p50"),
            ("resolution", "/resolution_seconds/p50"),
        ] {
            let table = Table::of(&page, chart);
            let mut columns = table.columns.clone();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), table.columns.len(), "{table:?}");
            for entry in &entries {
                let name = match (group_by, entry["group"].as_str()) {
                    (_, None) => "Nobody".to_owned(),
                    ("assignee_id", Some(user)) => {
                        let user = c.get(&format!("/v1/users/{user}")).await.expect(200);
                        match &*user.id("name") {
                            "Ada Byron" => "Ada Byron".to_owned(),
                            name => {
                                let id = user.id("user_id");
                                format!("{name} …{}", &id[id.len() - 8..])
                            }
                        }
                    }
                    (_, Some(word)) => word.to_owned(),
                };
                let column = table.columns.iter().position(|one| *one == name);
                let column = column.unwrap_or_else(|| panic!("no {name}: {table:?}"));
                let row = table
                    .rows
                    .iter()
                    .find(|(start, _)| entry["start"] == **start);
                let expected = entry.pointer(field).unwrap().as_f64();
                assert_eq!(row.unwrap().1[column], expected, "{chart} {name}");
            }
        }
    }
}

#[tokio::test]
async fn filters_leave_out_what_the_operation_leaves_out_and_stay_chosen() {
    let account = account().await;
    let c = account.live();
    fill(&c).await;
    let users = c.get("/v1/users").await.expect(200);
    let ada = users.data().iter().find(|user| user["name"] == "Ada Byron");
    let ada = ada.unwrap()["user_id"].as_str().unwrap().to_owned();
    let person = Person::user(&account, "agent").await;
    for (name, value, created) in [
        ("channel", "email", 2.0),
        ("channel", "voice", 0.0),
        ("priority", "normal", 4.0),
        ("priority", "high", 0.0),
        ("assignee_id", ada.as_str(), 0.0),
    ] {
        let query = format!("interval=month&{name}={value}");
        let page = person.page(&format!("{PAGE}?{query}")).await;
        let entries = asked(&c, &query).await;
        let fields = ["/created", "/closed", "/reopened"];
        assert_columns(&page, &entries, "conversations", &fields);
        assert_columns(&page, &entries, "open", &["/open_at_end"]);
        let rows = Table::of(&page, "conversations").rows;
        assert_eq!(rows[0].1[0], Some(created), "{query}");
        let chosen = format!("<option value=\"{value}\" selected>");
        assert!(page.contains(&chosen), "{query}: {page}");
        let link = between(&page, "<a class=\"button\" href=\"", "\"");
        let file = person.get(&link.replace("&amp;", "&")).await.expect(200);
        let same = c
            .get(&format!("{FIGURES}?{query}"))
            .with("accept", "text/csv");
        assert_eq!(file.text.as_bytes(), same.await.expect(200).bytes);
    }
    c.delete(&format!("/v1/users/{ada}")).await.expect(204);
    for (name, value) in [("channel", "pigeon"), ("assignee_id", ada.as_str())] {
        let asked = format!("{PAGE}?{name}={value}");
        let refused = person.get(&asked).await.expect(422);
        assert_refused(&refused, name, "must be", &[]);
        assert!(!refused.text.contains("<table"), "no figures of all");
    }
}

#[tokio::test]
async fn a_text_beside_each_chart_says_the_same() {
    let account = account().await;
    fill(&account.live()).await;
    let person = Person::user(&account, "agent").await;
    let page = person.page(&format!("{PAGE}?interval=month")).await;
    for (chart, words) in [
        (
            "conversations",
            "4 conversations were created, 2 were closed and 1 was reopened.",
        ),
        ("open", "3 conversations are open at the end"),
        (
            "messages",
            "4 messages were sent: 1 by customers, 2 by agents and 1 by the system.",
        ),
        ("first_response", "2 conversations were answered"),
        ("resolution", "2 conversations were closed"),
    ] {
        let said = said(&page, chart);
        assert!(said.contains(words), "{chart}: {said}");
    }
    let page = person.page(&format!("{PAGE}?group_by=channel")).await;
    for (chart, words) in [
        ("created", "4 in all: chat 2, email 2."),
        ("closed", "2 in all: chat 1, email 1."),
        ("open", "3 at the end: email 2, chat 1."),
    ] {
        let said = said(&page, chart);
        assert!(said.contains(words), "{chart}: {said}");
    }
    let empty = Person::user(&super::super::support::account().await, "agent").await;
    let page = empty.page(PAGE).await;
    assert!(said(&page, "first_response").contains("None was answered"));
    let page = empty.page(&format!("{PAGE}?group_by=channel")).await;
    assert!(page.contains("Nothing happened"), "{page}");
}

#[tokio::test]
async fn the_csv_is_what_the_interface_answers() {
    let account = account().await;
    let c = account.live();
    fill(&c).await;
    let person = Person::user(&account, "agent").await;
    for (query, same) in [
        ("", ""),
        (
            "interval=month&group_by=channel",
            "interval=month&group_by=channel",
        ),
        (
            "from=2026-11-01&to=2026-11-02&interval=day&group_by=",
            "from=2026-11-01T00:00:00Z&to=2026-11-03T00:00:00Z",
        ),
    ] {
        let page = person.page(&format!("{PAGE}?{query}")).await;
        let link = between(
            &page,
            "<a class=\"button\" href=\"/console/analytics.csv",
            "\"",
        );
        let link = link.replace("&amp;", "&");
        let file = person.get(&format!("{PAGE}.csv{link}")).await.expect(200);
        assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
        let name = file.header("content-disposition");
        assert!(
            name.starts_with("attachment") && name.contains(".csv"),
            "{name}"
        );
        let answer = c
            .get(&format!("{FIGURES}?{same}"))
            .with("accept", "text/csv");
        let answer = answer.await.expect(200);
        assert_eq!(file.text.as_bytes(), answer.bytes, "{query}");
    }
}

#[tokio::test]
async fn a_browser_that_would_rather_have_csv_gets_the_page() {
    let account = account().await;
    let person = Person::user(&account, "agent").await;
    let whole = person.page(PAGE).await;
    let person = person.behind("accept", "text/csv");
    assert_eq!(Table::of(&person.page(PAGE).await, "open").rows.len(), 31);
    assert_eq!(Table::of(&whole, "open").rows.len(), 31);
}

#[tokio::test]
async fn a_range_that_makes_no_sense_is_told_beside_its_field_and_the_form_stays() {
    let account = account().await;
    let person = Person::user(&account, "agent").await;
    for (from, to, interval, field, words) in [
        ("2026-11-05", "2026-11-01", "day", "from", "later"),
        ("1826-11-05", "2026-11-01", "hour", "from", "at most"),
        ("2025-11-05", "2026-11-01", "hour", "from", "at most"),
        ("yesterday", "2026-11-01", "day", "from", "must be a day"),
        ("2026-11-01", "2026-11-31", "month", "to", "must be a day"),
        ("2026-11-01", "2026-11-01", "week", "interval", "hour"),
    ] {
        let query = format!("from={from}&to={to}&interval={interval}&group_by=channel");
        let refused = person.get(&format!("{PAGE}?{query}")).await.expect(422);
        let kept = [("from", from), ("to", to), ("group_by", "channel")];
        assert_refused(&refused, field, words, &kept);
        assert!(
            !refused.text.contains("<table"),
            "no figures of something else"
        );
    }
    // What is too much for a page is not for a spreadsheet.
    let hours = "from=2025-11-05&to=2026-11-01&interval=hour";
    let file = person.get(&format!("{PAGE}.csv?{hours}")).await.expect(200);
    assert_eq!(file.text.lines().count(), 362 * 24 + 1);
    // Months are those in which the days lie.
    let months = "from=2026-09-15&to=2026-11-15&interval=month";
    let page = person.page(&format!("{PAGE}?{months}")).await;
    let starts = ["2026-11-01", "2026-10-01", "2026-09-01"];
    let starts = starts.map(|day| format!("{day}T00:00:00.000Z"));
    let rows = Table::of(&page, "open").rows;
    let rows: Vec<String> = rows.into_iter().map(|(start, _)| start).collect();
    assert_eq!(rows, starts);
}

#[tokio::test]
async fn an_agent_without_the_right_sees_nothing() {
    let account = account().await;
    let scopes = json!({"type": "prod", "scopes": ["users:manage", "conversations:read"]});
    let (narrow, _) = account.key(scopes).await;
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let url = narrow.post(&path, json!({})).await.expect(201).id("url");
    let person = Person::invited(&narrow, &url).await;
    for page in [PAGE, "/console/analytics.csv"] {
        let refused = person.get(page).await.expect(403);
        assert!(refused.text.contains("Not allowed"), "{}", refused.text);
        let signed_out = Person::user(&account, "agent").await.with_cookie(None);
        let asked = signed_out.get(page).await;
        assert!(!asked.text.contains("created"), "{}", asked.text);
    }
    let agent = Person::user(&account, "agent").await;
    agent.get(PAGE).await.expect(200);
    assert_eq!(
        agent.post(PAGE, &[]).await.expect(405).header("allow"),
        "GET, HEAD"
    );
}

#[tokio::test]
async fn test_data_has_figures_of_its_own() {
    let account = account().await;
    account.test().conversation().await;
    let person = Person::user(&account, "agent").await;
    let created = async || {
        let page = person.page(&format!("{PAGE}?interval=month")).await;
        Table::of(&page, "conversations").rows[0].1[0]
    };
    assert_eq!(created().await, Some(0.0));
    let mode = [("mode", "test")];
    person
        .post("/console/session/mode", &mode)
        .await
        .expect(303);
    assert_eq!(created().await, Some(1.0));
}

#[tokio::test]
async fn charts_are_drawn_of_their_tables_with_their_names_on_them() {
    let server = Server::start();
    let account: Account = server.account().await;
    fill(&account.live()).await;
    let (browser, _) = browser_of(&server, &account, "agent").await;
    browser.click(".side a[href='/console/analytics']").await;
    browser.shows("h1", "Analytics").await;
    browser.waits_for(".plot canvas").await;
    assert_eq!(browser.count(".plot canvas").await, 5);
    browser.choose("#field-group_by", "channel").await;
    browser.choose("#field-interval", "month").await;
    browser.press("Show").await;
    browser.shows("main", "4 in all: chat 2, email 2.").await;
    browser.waits_for(".plot canvas").await;
    assert_eq!(browser.count(".plot canvas").await, 7);
    // Each line has its name at its end, and dashes of its own.
    let drawn = "return [...document.querySelectorAll('#figure-created .plot')].map((plot) => plot.dataset.drawn)";
    let drawn = browser.run(drawn, vec![]).await;
    assert_eq!(drawn, json!(["chat solid; email 10 4"]));
    browser.assert_quiet().await;
}
