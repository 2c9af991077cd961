//! Each field at its bound and one beyond.

use serde_json::{Value, json};

use crate::support::{Client, account, account_with_client};

async fn bound(c: &Client, path: &str, field: &str, make: impl Fn(usize) -> Value, longest: usize) {
    c.post(path, make(longest)).await.expect(201);
    c.post(path, make(longest + 1))
        .await
        .error(400, "invalid_request", field);
    c.post(path, make(0))
        .await
        .error(400, "invalid_request", field);
    c.post(path, make(1)).await.expect(201);
}

#[tokio::test]
async fn names_are_bounded_in_characters_not_bytes() {
    let account = account().await;
    let c = account.test();
    bound(
        &c,
        "/v1/customers",
        "name",
        |n| json!({"name": "🎈".repeat(n)}),
        200,
    )
    .await;
    let user = |n| json!({"name": "é".repeat(n), "email": format!("{}@example.com", crate::support::unique("n")), "role": "agent"});
    bound(&c, "/v1/users", "name", user, 500).await;
    let operator = account.operator();
    bound(
        &operator,
        "/admin/v1/accounts",
        "name",
        |n| json!({"name": "é".repeat(n)}),
        500,
    )
    .await;
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    bound(
        &operator,
        &keys,
        "name",
        |n| json!({"type": "test", "name": "é".repeat(n)}),
        500,
    )
    .await;
}

#[tokio::test]
async fn content_is_bounded_in_bytes() {
    let (_account, c) = account_with_client().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    bound(
        &c,
        &messages,
        "content",
        |n| json!({"content": "x".repeat(n)}),
        65_536,
    )
    .await;
    let customer = c.customer().await;
    let initial = |n| json!({"customer_id": customer, "initial_message": "x".repeat(n)});
    bound(&c, "/v1/conversations", "initial_message", initial, 65_536).await;
    let at = c
        .post(&messages, json!({"content": "short"}))
        .await
        .expect(201)
        .header("location")
        .to_owned();
    c.patch(&at, json!({"content": "x".repeat(65_537)}))
        .await
        .error(400, "invalid_request", "content");
    c.patch(&at, json!({"content": "x".repeat(65_536)}))
        .await
        .expect(200);
}

#[tokio::test]
async fn an_emoji_at_the_limit_is_whole_or_refused_never_split() {
    let (_account, c) = account_with_client().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let fits = format!("{}🎈", "a".repeat(65_532));
    let sent = c
        .post(&messages, json!({"content": fits}))
        .await
        .expect(201);
    assert_eq!(
        c.get(sent.header("location")).await.expect(200)["content"],
        fits.as_str()
    );
    for before in [65_533, 65_534, 65_535] {
        let split = format!("{}🎈", "a".repeat(before));
        c.post(&messages, json!({"content": split}))
            .await
            .error(400, "invalid_request", "content");
    }
    assert_eq!(c.get(&messages).await.expect(200).total(), 1);
}

fn metadata_of(bytes: usize) -> Value {
    let frame = r#"{"k":""}"#.len();
    json!({"k": "x".repeat(bytes - frame)})
}

fn metadata_with(keys: usize) -> Value {
    (0..keys)
        .map(|n| (format!("key {n}"), json!(n)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn metadata_has_at_most_50_keys_and_16_kib() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let post = async |metadata: &Value| {
        [
            c.post("/v1/customers", json!({"name": "x", "metadata": metadata}))
                .await,
            c.post(
                "/v1/conversations",
                json!({"customer_id": customer, "metadata": metadata}),
            )
            .await,
            c.post(&messages, json!({"content": "x", "metadata": metadata}))
                .await,
        ]
    };
    for metadata in [metadata_with(50), metadata_of(16_384), json!({})] {
        for answer in post(&metadata).await {
            assert_eq!(answer.expect(201)["metadata"], metadata);
        }
    }
    for metadata in [metadata_with(51), metadata_of(16_385)] {
        for answer in post(&metadata).await {
            answer.error(400, "invalid_request", "metadata");
        }
    }
}

#[tokio::test]
async fn a_merge_can_not_grow_metadata_beyond_its_bounds() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    c.patch(&at, json!({"metadata": metadata_with(50)}))
        .await
        .expect(200);
    c.patch(&at, json!({"metadata": {"one more": 1}}))
        .await
        .error(400, "invalid_request", "metadata");
    c.patch(&at, json!({"metadata": {"one more": 1, "key 0": null}}))
        .await
        .expect(200);
    c.patch(&at, json!({"metadata": metadata_of(16_384)}))
        .await
        .error(400, "invalid_request", "metadata");
}

#[tokio::test]
async fn a_url_has_at_most_2048_characters() {
    let (_account, c) = account_with_client().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let url = |length: usize| {
        let start = "https://example.com/";
        format!("{start}{}", "x".repeat(length - start.len()))
    };
    c.post(&messages, json!({"type": "image", "content": url(2048)}))
        .await
        .expect(201);
    c.post(&messages, json!({"type": "image", "content": url(2049)}))
        .await
        .error(400, "invalid_request", "content");
}

#[tokio::test]
async fn a_body_has_at_most_a_mebibyte() {
    let (_account, c) = account_with_client().await;
    let padded = |length: usize| {
        let body = r#"{"name":"x"}"#;
        format!("{}{body}", " ".repeat(length - body.len()))
    };
    let post = |length| {
        c.call("POST", "/v1/customers")
            .bytes(padded(length))
            .with("content-type", "application/json")
    };
    post(1_048_576).await.expect(201);
    post(1_048_577).await.error(413, "payload_too_large", "");
    post(10_000_000).await.error(413, "payload_too_large", "");
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 1);
}

#[tokio::test]
async fn every_text_comes_back_as_it_was_sent() {
    let (_account, c) = account_with_client().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    for text in [
        "a\tb\r\nc",
        " leading and trailing ",
        "\u{feff}bom",
        "\u{202e}rtl",
        "e\u{301}",
        "'; DROP TABLE x; --",
        "\\u0041",
        "</script>",
        "\u{1}\u{1f}\u{7f}",
        "🧑🏽‍🚀",
        "\u{10ffff}",
        "%00",
        "${jndi:ldap://x}",
    ] {
        let sent = c
            .post(&messages, json!({"content": text}))
            .await
            .expect(201);
        assert_eq!(
            c.get(sent.header("location")).await.expect(200)["content"],
            text
        );
    }
}
