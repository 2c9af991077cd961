//! Figures of a history that one can follow in one's head, their defaults, and their other forms.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use super::recomputed::start_of;
use super::{FIGURES, asked};
use crate::support::{account, account_with_client};

#[tokio::test]
async fn a_conversation_is_counted_where_it_was_created_answered_closed_and_reopened() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    c.conversation().await;
    for sender in ["customer", "agent", "agent"] {
        let body = json!({"content": "Words.", "sender_type": sender});
        c.post(&format!("{at}/messages"), body).await.expect(201);
    }
    for step in ["close", "reopen", "close"] {
        c.post(&format!("{at}/{step}"), json!({})).await.expect(200);
    }
    let answer = asked(&c, &[("interval", "month")]).await;
    let today = answer.data().last().unwrap();
    for (field, count) in [
        ("created", 2),
        ("closed", 2),
        ("reopened", 1),
        ("open_at_end", 1),
    ] {
        assert_eq!(today[field], count, "{field}: {today}");
    }
    assert_eq!(
        today["messages"],
        json!({"customer": 1, "agent": 2, "system": 0})
    );
    assert_eq!(today["first_response_seconds"]["count"], 1);
    assert_eq!(today["resolution_seconds"]["count"], 2);
    assert_eq!(today["group"], json!(null));
}

#[tokio::test]
async fn by_default_the_last_thirty_days_and_today_are_shown_by_day() {
    let (_account, c) = account_with_client().await;
    let answer = c.get(FIGURES).await.expect(200);
    let today = start_of("day", Utc::now());
    let written = |days: i64| {
        (today + TimeDelta::days(days))
            .format("%Y-%m-%dT%H:%M:%S%.3fZ")
            .to_string()
    };
    assert_eq!(answer.data().len(), 31);
    assert_eq!(answer.data()[0]["start"], written(-30));
    let meta = json!({"from": written(-30), "to": written(1), "interval": "day", "group_by": null});
    assert_eq!(answer["meta"], meta);
    let nothing = &answer.data()[30];
    assert_eq!(
        *nothing,
        json!({
            "start": written(0), "group": null, "created": 0, "closed": 0, "reopened": 0, "open_at_end": 0,
            "messages": {"customer": 0, "agent": 0, "system": 0},
            "first_response_seconds": {"count": 0, "mean": null, "p50": null, "p90": null, "p99": null},
            "resolution_seconds": {"count": 0, "mean": null, "p50": null, "p90": null, "p99": null},
        })
    );
    // Groups of nothing are left out.
    let grouped = asked(&c, &[("group_by", "priority")]).await;
    assert!(grouped.data().is_empty(), "{grouped}");
}

#[tokio::test]
async fn figures_are_of_the_account_and_mode_of_the_key() {
    let account = account().await;
    let other = crate::support::account().await;
    account.test().conversation().await;
    for c in [account.live(), account.read(), other.test()] {
        let answer = asked(&c, &[("interval", "month")]).await;
        assert!(
            answer.data().iter().all(|entry| entry["created"] == 0),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn the_same_figures_are_a_table_for_spreadsheets() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let answer = json!({"content": "Words.", "sender_type": "agent"});
    c.post(&format!("{at}/messages"), answer).await.expect(201);
    c.patch(&at, json!({"assignee_id": user})).await.expect(200);
    let path = format!("{FIGURES}?group_by=assignee_id");
    let rows = c.get(&path).await.expect(200);
    let table = c.get(&path).with("accept", "text/csv").await.expect(200);
    assert!(
        table
            .header("content-type")
            .starts_with("text/csv; charset=utf-8"),
        "{table}"
    );
    let text = String::from_utf8(table.bytes.clone()).unwrap();
    let lines: Vec<Vec<&str>> = text
        .split_terminator("\r\n")
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(lines.len(), rows.data().len() + 1);
    for (line, row) in lines[1..].iter().zip(rows.data()) {
        assert_eq!(line.len(), lines[0].len());
        for (column, shown) in lines[0].iter().zip(line) {
            let value = column.split('.').fold(row, |value, name| &value[name]);
            let same = match (value.as_f64(), value.as_str()) {
                (Some(number), _) => shown.parse() == Ok(number),
                (None, text) => *shown == text.unwrap_or_default(),
            };
            assert!(same, "{column}: {shown} for {value}");
        }
    }
    assert!(lines[0].contains(&"messages.agent"), "{:?}", lines[0]);
}
