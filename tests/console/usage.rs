//! Usage and limits: what the pages show is what the operations answer.

use std::time::Duration;

use serde_json::json;

use super::super::support::console::Person;
use super::super::support::{Account, Server, account, until};
use super::figures::{Table, assert_refused, between, said};

const PAGE: &str = "/console/usage";
/// The longest that what was asked may take to be watched.
const SHOWN_WITHIN: Duration = Duration::from_secs(20);

/// Messages, documents and a refusal, with two keys.
async fn fill(account: &Account) {
    let live = account.live();
    let conversation = live.conversation().await;
    for _ in 0..3 {
        live.message(&conversation, "Words.").await;
    }
    live.document("1\n").await;
    let path = format!("/v1/conversations/{conversation}/close");
    account
        .read()
        .post(&path, json!({}))
        .await
        .error(403, "forbidden", "");
}

#[tokio::test]
async fn the_tables_show_what_the_operation_answers() {
    let account = account().await;
    fill(&account).await;
    let person = Person::user(&account, "admin").await;
    // Requests of the interface are counted; those of the console are not.
    let answer = account.live().get("/v1/usage").await.expect(200);
    let page = person.page(PAGE).await;
    let today = answer.data().last().unwrap();
    for (chart, fields) in [
        (
            "refused",
            &[
                "/refused/rate_limited",
                "/refused/quota_exceeded",
                "/refused/forbidden",
            ][..],
        ),
        ("made", &["/messages", "/documents", "/deliveries"]),
        ("requests", &["/requests"]),
    ] {
        let table = Table::of(&page, chart);
        assert_eq!(table.rows.len(), answer.data().len(), "{table:?}");
        let values = fields
            .iter()
            .map(|field| today.pointer(field).unwrap().as_f64());
        let day = today["day"].as_str().unwrap();
        assert!(table.rows[0].0.starts_with(day), "{table:?}");
        if chart != "requests" {
            assert_eq!(table.rows[0].1, values.collect::<Vec<_>>(), "{chart}");
        }
        let nothing = |(_, values): &(String, Vec<Option<f64>>)| {
            values.iter().all(|value| *value == Some(0.0))
        };
        assert!(table.rows[1..].iter().all(nothing), "{table:?}");
    }
    assert_eq!(
        said(&page, "made"),
        "In all: Messages 3, Documents 1, Deliveries 0."
    );
    assert_eq!(
        said(&page, "refused"),
        "In all: Over the rate 0, Over the quota 0, Not allowed 1."
    );
    let stored = &answer["meta"]["stored"];
    for (tile, name) in [
        ("Conversations stored", "conversations"),
        ("Messages stored", "messages"),
        ("Documents stored", "documents"),
    ] {
        let shown = between(&page, &format!("<dt>{tile}</dt><dd>"), "<");
        assert_eq!(shown, stored[name].to_string(), "{tile}");
    }
    let bytes = between(&page, "<dt>Text stored</dt><dd>", "<");
    assert_eq!(bytes, format!("{} B", stored["bytes"]));
}

#[tokio::test]
async fn keys_are_columns_by_their_names() {
    let account = account().await;
    fill(&account).await;
    let person = Person::user(&account, "admin").await;
    let answer = account
        .live()
        .get("/v1/usage?group_by=key,day")
        .await
        .expect(200);
    let page = person.page(&format!("{PAGE}?group_by=key,day")).await;
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let keys = account.operator().get(&keys).await.expect(200);
    assert!(answer.data().len() >= 2, "{answer}");
    for row in answer.data() {
        let known = keys
            .data()
            .iter()
            .find(|key| key["key_id"] == row["key_id"]);
        let name = known.map_or("No key", |key| key["name"].as_str().unwrap());
        for chart in ["messages", "documents", "deliveries"] {
            let table = Table::of(&page, chart);
            let column = table.columns.iter().position(|one| one == name);
            let column = column.unwrap_or_else(|| panic!("no {name}: {table:?}"));
            let day = row["day"].as_str().unwrap();
            let (_, values) = table
                .rows
                .iter()
                .find(|(start, _)| start.starts_with(day))
                .unwrap();
            assert_eq!(values[column], row[chart].as_f64(), "{chart} {name}");
        }
    }
}

#[tokio::test]
async fn a_quota_is_told_with_how_much_is_used_and_when_it_begins_anew() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let page = person.page(PAGE).await;
    assert!(
        page.contains("there is no quota") && !page.contains("<progress"),
        "{page}"
    );
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let quota = json!({"monthly_quota": 1000});
    account.operator().patch(&path, quota).await.expect(200);
    let answer = account.live().get("/v1/usage").await.expect(200);
    let page = person.page(PAGE).await;
    let quota = between(&page, "aria-labelledby=\"quota\"", "</section>");
    assert!(
        quota.contains("of 1\u{202f}000 requests of this month are used"),
        "{quota}"
    );
    let resets_at = answer["meta"]["quota"]["resets_at"].as_str().unwrap();
    assert!(
        quota.contains(&format!("datetime=\"{resets_at}\"")),
        "{quota}"
    );
    let used: u64 = between(quota, "value=\"", "\"").parse().unwrap();
    let counted = answer["meta"]["quota"]["used"].as_u64().unwrap();
    assert!(
        (counted..=counted + 3).contains(&used),
        "{used} for {counted}"
    );
}

#[tokio::test]
async fn the_csv_is_what_the_interface_answers() {
    let account = account().await;
    fill(&account).await;
    let person = Person::user(&account, "admin").await;
    let page = person.page(&format!("{PAGE}?group_by=key,day")).await;
    let link = between(&page, "<a class=\"button\" href=\"/console/usage.csv", "\"");
    let link = link.replace("&amp;", "&");
    let file = person.get(&format!("{PAGE}.csv{link}")).await.expect(200);
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
    assert!(
        file.text.starts_with("day,key_id,requests,"),
        "{}",
        file.text
    );
    // Days that are over do not change by the asking.
    let over = person
        .get(&format!("{PAGE}.csv?from=2026-01-01&to=2026-01-03"))
        .await;
    let same = "/v1/usage?from=2026-01-01&to=2026-01-04";
    let same = account
        .live()
        .get(same)
        .with("accept", "text/csv")
        .await
        .expect(200);
    assert_eq!(over.expect(200).text.as_bytes(), same.bytes);
}

#[tokio::test]
async fn days_that_make_no_sense_are_told_beside_their_field() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    for (from, to, field, words) in [
        ("2026-11-05", "2026-11-01", "from", "later"),
        ("2020-11-05", "2026-11-01", "to", "at most 366 days"),
        ("yesterday", "2026-11-01", "from", "must be a day"),
    ] {
        let query = format!("from={from}&to={to}&group_by=key,day");
        let refused = person.get(&format!("{PAGE}?{query}")).await.expect(422);
        let kept = [("from", from), ("to", to), ("group_by", "key,day")];
        assert_refused(&refused, field, words, &kept);
    }
    let refused = person
        .get(&format!("{PAGE}?group_by=key"))
        .await
        .expect(422);
    assert_refused(&refused, "group_by", "must be", &[]);
}

#[tokio::test]
async fn usage_is_for_admins_and_limits_are_for_operators() {
    let account = account().await;
    let agent = Person::user(&account, "agent").await;
    for page in [PAGE, "/console/usage.csv", "/console/limits"] {
        agent.get(page).await.expect(403);
    }
    let admin = Person::user(&account, "admin").await;
    admin.get(PAGE).await.expect(200);
    admin.get("/console/limits").await.expect(403);
}

#[tokio::test]
async fn operators_see_which_keys_come_near_to_their_limits() {
    let server = Server::start();
    let operator = Person::operator(&server).await;
    let page = operator.page("/console/limits").await;
    assert!(
        page.contains("Nobody is near") && page.contains("Nobody was refused"),
        "{page}"
    );
    let account = server.account().await;
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let few = json!({"rate_per_minute": 2, "burst_per_minute": 3});
    account.operator().patch(&path, few).await.expect(200);
    for _ in 0..3 {
        account.live().get("/v1").await.expect(200);
    }
    account
        .live()
        .get("/v1")
        .await
        .error(429, "rate_limited", "");
    // They are told within a second.
    let watched = async || {
        let answer = account.operator().get("/admin/v1/limits").await;
        let answer = answer.expect(200);
        let is_refused = !answer["refused"].as_array().unwrap().is_empty();
        is_refused.then_some(answer)
    };
    let answer = until("the key is watched", SHOWN_WITHIN, watched).await;
    let page = operator.page("/console/limits").await;
    for (chart, list, fields) in [
        ("requests", "nearest", &["requests"][..]),
        ("refused", "refused", &["rate_limited", "quota_exceeded"]),
    ] {
        let table = Table::of(&page, chart);
        for key in answer[list].as_array().unwrap() {
            let id = key["key_id"].as_str().unwrap();
            let is_its = |one: &String| id.ends_with(one.trim_start_matches('…'));
            let column = table.columns.iter().position(is_its).unwrap();
            for minute in key["minutes"].as_array().unwrap() {
                let sum: f64 = fields
                    .iter()
                    .filter_map(|field| minute[*field].as_f64())
                    .sum();
                let row = table
                    .rows
                    .iter()
                    .find(|(start, _)| minute["start"] == **start);
                // A minute may have gone by since.
                assert!(
                    row.is_none_or(|(_, values)| values[column] == Some(sum)),
                    "{minute}"
                );
            }
        }
    }
    assert!(said(&page, "requests").starts_with("3 in all"), "{page}");
    assert!(said(&page, "refused").starts_with("1 in all"), "{page}");
    assert!(
        page.contains("Black box") && page.contains("3 of 3"),
        "{page}"
    );
}
