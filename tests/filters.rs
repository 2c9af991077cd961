//! Filters by a value: what would mean more to a database is a value like any other.

use serde_json::json;

use super::support::account_with_client;

/// What means more than itself in SQL, in MongoDB, in patterns or in addresses.
const TRICKS: [&str; 12] = [
    "%",
    "_",
    "*",
    "%_%",
    "a' OR '1'='1",
    "\"",
    "\\",
    "'; DROP TABLE rows; --",
    "$ne",
    "{\"$ne\": null}",
    "{\"$regex\": \".*\"}",
    "a|b",
];

#[tokio::test]
async fn what_means_more_elsewhere_finds_only_itself_in_a_filter() {
    let (_account, c) = account_with_client().await;
    let encoded =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let plain = json!({"name": "Plain", "external_id": "plain", "email": "plain@example.com"});
    c.post("/v1/customers", plain).await.expect(201);
    let mut tricky = Vec::new();
    for trick in TRICKS {
        let local: String = trick.split_whitespace().collect();
        let email = format!("{local}@example.com");
        let body = json!({"name": "Tricky", "external_id": trick, "email": email});
        // Nothing there is meant by it as long as nothing has it.
        for filter in [("external_id", trick), ("email", &email)] {
            let path = format!("/v1/customers?{}={}", filter.0, encoded(filter.1));
            assert_eq!(c.get(&path).await.expect(200).total(), 0, "{filter:?}");
        }
        let made = c.post("/v1/customers", body).await.expect(201);
        tricky.push((trick, email, made.id("customer_id")));
    }
    for (trick, email, id) in tricky {
        for filter in [("external_id", trick), ("email", &email)] {
            let path = format!("/v1/customers?{}={}", filter.0, encoded(filter.1));
            let found = c.get(&path).await.expect(200);
            assert_eq!(
                found.column("customer_id"),
                std::slice::from_ref(&id),
                "{filter:?}"
            );
        }
    }
    for query in [
        "external_id[$ne]=x",
        "email[$regex]=.*",
        "external_id%5B%24gt%5D=",
    ] {
        let path = format!("/v1/customers?{query}");
        c.get(&path).await.expect(400);
    }
    let document = c.document("one\n").await;
    for trick in TRICKS {
        let path = format!("{document}/versions?branch={}", encoded(trick));
        let found = c.get(&path).await;
        let none = found.status == 200 && found.total() == 0;
        assert!(
            none || [400, 404].contains(&found.status),
            "{trick}: {found}"
        );
    }
}
