//! What makes no sense is refused by its name.

use super::FIGURES;
use crate::support::account_with_client;

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_its_field() {
    let (_account, c) = account_with_client().await;
    let foreign = crate::support::account().await.test().user("agent").await;
    let foreign = format!("assignee_id={foreign}");
    for (query, field) in [
        ("from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", "from"),
        ("from=2026-11-01T00:00:00Z&to=2026-11-01T00:00:00Z", "from"),
        ("to=2026-11-01T00:00:01Z", "to"),
        ("from=2026-11-01T12:00:00Z", "from"),
        ("from=2026-11-01T00:00:00.0001Z", "from"),
        ("from=2026-11-01T12:30:00Z&interval=hour", "from"),
        ("from=2026-11-02T00:00:00Z&interval=month", "from"),
        (
            "from=2026-11-01T00:00:00Z&to=2226-11-01T00:00:00Z&interval=hour",
            "from",
        ),
        ("from=1970-01-01T00:00:00Z&interval=hour", "from"),
        ("to=9999-12-31T23:59:59.999Z", "to"),
        ("from=9999-12-31T00:00:00Z", "from"),
        ("from=yesterday", "from"),
        ("interval=week", "interval"),
        ("group_by=status", "group_by"),
        ("group_by=channel,priority", "group_by"),
        ("channel=fax", "channel"),
        ("priority=", "priority"),
        ("assignee_id=usr_1", "assignee_id"),
        (&foreign, "assignee_id"),
        ("interval=day&interval=day", "interval"),
        ("timezone=UTC", "timezone"),
    ] {
        let refused = c.get(&format!("{FIGURES}?{query}")).await;
        refused.error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn another_zone_is_turned_into_utc_and_must_fall_on_an_interval() {
    let (_account, c) = account_with_client().await;
    // Midnight of one day in UTC, as two clocks show it.
    let path = |from: &str| format!("{FIGURES}?from={from}&to=2026-11-03T00:00:00Z");
    let shown = c
        .get(&path("2026-11-01T02:00:00%2B02:00"))
        .await
        .expect(200);
    assert_eq!(shown["meta"]["from"], "2026-11-01T00:00:00.000Z");
    assert_eq!(shown.data().len(), 2);
    let refused = c.get(&path("2026-11-01T00:00:00%2B02:00")).await;
    refused.error(400, "invalid_request", "from");
    // The calendar's last day is a day like others.
    let last = format!("{FIGURES}?from=9999-12-30T00:00:00Z&to=9999-12-31T00:00:00Z");
    assert_eq!(c.get(&last).await.expect(200).data().len(), 1);
}
