//! What is refused and how: bad bodies and queries, media types, methods, the order of checks,
//! problem+json.

use serde_json::{Value, json};

use crate::support::raw::exchange;
use crate::support::shapes::keys;
use crate::support::{Account, Answer, Client, account, account_with_client, shared};

const NOBODY: &str = "/v1/conversations/conv_0190163d8694739b85d52d5e4a4d6d5f";

async fn post_bytes(c: &Client, path: &str, bytes: impl Into<Vec<u8>>) -> Answer {
    c.call("POST", path)
        .bytes(bytes)
        .with("content-type", "application/json")
        .await
}

/// Fails unless each of these bodies is refused with the name of the field at fault.
async fn assert_refused<const CASES: usize>(
    c: &Client,
    (method, path): (&str, &str),
    cases: [(Value, &str); CASES],
) {
    for (body, field) in cases {
        let call = c
            .call(method, path)
            .bytes(body.to_string())
            .with("content-type", "application/json");
        call.await.error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_of_a_customer_are_refused_naming_the_field() {
    let (_account, c) = account_with_client().await;
    let cases = [
        (json!({"name": "x", "colour": 1}), "colour"),
        (json!({"name": 7}), "name"),
        (json!({"name": null}), "name"),
        (json!({"name": ["x"]}), "name"),
        (json!({}), "name"),
        (json!({"name": "x", "email": true}), "email"),
        (json!({"name": "x", "email": "no address"}), "email"),
        (json!({"name": "x", "metadata": []}), "metadata"),
        (json!({"name": "x", "metadata": "m"}), "metadata"),
    ];
    assert_refused(&c, ("POST", "/v1/customers"), cases).await;
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_of_a_conversation_are_refused_naming_the_field() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let with = |name: &str, value: Value| json!({"customer_id": customer, name: value});
    let cases = [
        (json!({"customer_id": 5}), "customer_id"),
        (with("channel", json!("fax")), "channel"),
        (with("channel", json!("CHAT")), "channel"),
        (with("priority", json!(1)), "priority"),
        (with("status", json!("closed")), "status"),
        (with("initial_message", json!({})), "initial_message"),
        (with("initial_message", json!("")), "initial_message"),
    ];
    assert_refused(&c, ("POST", "/v1/conversations"), cases).await;
    let conversation = format!("/v1/conversations/{}", c.conversation_of(&customer).await);
    let changes = [
        (json!({"status": "open"}), "status"),
        (json!({"status": null}), "status"),
        (json!({"priority": null}), "priority"),
        (json!({"message_count": 3}), "message_count"),
        (json!({"customer_id": customer}), "customer_id"),
        (json!({"metadata": 3}), "metadata"),
    ];
    assert_refused(&c, ("PATCH", &conversation), changes).await;
    let reasons = [
        (json!({"why": "x"}), "why"),
        (json!({"reason": 1}), "reason"),
    ];
    assert_refused(&c, ("POST", &format!("{conversation}/close")), reasons).await;
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_of_a_message_are_refused_naming_the_field() {
    let (_account, c) = account_with_client().await;
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let cases = [
        (json!({}), "content"),
        (json!({"content": ""}), "content"),
        (json!({"content": 1}), "content"),
        (json!({"content": "x", "type": "video"}), "type"),
        (json!({"content": "x", "sender_type": "bot"}), "sender_type"),
        (json!({"content": "x", "seq": 9}), "seq"),
    ];
    assert_refused(&c, ("POST", &messages), cases).await;
}

#[tokio::test]
async fn where_a_word_should_stand_the_known_ones_are_told() {
    let (account, c) = account_with_client().await;
    let customer = c.customer().await;
    let conversation = format!("/v1/conversations/{}", c.conversation().await);
    for wrong in [
        json!(null),
        json!(true),
        json!(7),
        json!([]),
        json!({}),
        json!({"high": 1}),
    ] {
        let body = json!({"customer_id": customer, "priority": wrong});
        let refused =
            c.post("/v1/conversations", body)
                .await
                .error(400, "invalid_request", "priority");
        assert!(
            refused.reason().starts_with("must be one of")
                && refused.reason().contains("\"normal\""),
            "{refused}"
        );
    }
    for field in ["status", "priority", "channel"] {
        let refused =
            c.patch(&conversation, json!({field: null}))
                .await
                .error(400, "invalid_request", field);
        assert!(refused.reason().starts_with("must be one of"), "{refused}");
    }
    let body = json!({"name": "x", "allowed_ips": ["203.0.113.0/24", "nowhere"]});
    let refused = account.operator().post("/admin/v1/accounts", body).await;
    let refused = refused.error(400, "invalid_request", "allowed_ips[1]");
    assert!(
        refused
            .reason()
            .ends_with("in CIDR notation, such as 203.0.113.0/24"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_a_bad_request() {
    let (_account, c) = account_with_client().await;
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\"x\"",
        b"7",
        b"{\"name\":\"x\"} trailing",
        b"{\"name\":\"x\",}",
        b"{'name':'x'}",
        b"{\"name\":\"\xff\xfe\"}",
        b"{\"name\":\"\\ud800\"}",
        b"\xef\xbb\xbf",
    ];
    for body in bodies {
        let refused = post_bytes(&c, "/v1/customers", body).await.expect(400);
        assert_eq!(refused["error"]["code"], "invalid_request", "{refused}");
    }
    for nan in ["NaN", "Infinity", "01", "+1", "0x10"] {
        let body = format!(r#"{{"name":"x","metadata":{{"n":{nan}}}}}"#);
        post_bytes(&c, "/v1/customers", body).await.expect(400);
    }
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_repeated_name_is_refused_wherever_it_stands() {
    let (_account, c) = account_with_client().await;
    let refused = post_bytes(&c, "/v1/customers", r#"{"name":"a","name":"b"}"#).await;
    refused.error(400, "invalid_request", "name");
    for metadata in [
        r#"{"k":1,"k":2}"#,
        r#"{"deep":{"k":1,"\u006b":2}}"#,
        r#"{"list":[{"k":1,"k":1}]}"#,
    ] {
        let body = format!(r#"{{"name":"a","metadata":{metadata}}}"#);
        post_bytes(&c, "/v1/customers", body).await.expect(400);
    }
    let body = r#"{"name":"a","metadata":{"k":1},"metadata":{"k":2}}"#;
    post_bytes(&c, "/v1/customers", body)
        .await
        .error(400, "invalid_request", "metadata");
}

#[tokio::test]
async fn nul_is_refused_in_every_string() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let messages = format!("/v1/conversations/{conversation}/messages");
    post_bytes(&c, "/v1/customers", r#"{"name":"a\u0000b"}"#)
        .await
        .error(400, "invalid_request", "name");
    post_bytes(&c, &messages, r#"{"content":"\u0000"}"#)
        .await
        .error(400, "invalid_request", "content");
    post_bytes(&c, &messages, "{\"content\":\"a\u{0}b\"}")
        .await
        .expect(400);
    for metadata in [
        r#"{"k":"\u0000"}"#,
        r#"{"\u0000":1}"#,
        r#"{"a":[["x\u0000"]]}"#,
    ] {
        let body = format!(r#"{{"content":"x","metadata":{metadata}}}"#);
        let refused = post_bytes(&c, &messages, body).await.expect(400);
        assert!(
            refused["error"]["details"]["field"]
                .as_str()
                .unwrap()
                .starts_with("metadata"),
            "{refused}"
        );
    }
    c.get("/v1/customers?external_id=a%00b")
        .await
        .error(400, "invalid_request", "external_id");
    assert_eq!(c.get(&messages).await.expect(200).total(), 0);
}

#[tokio::test]
async fn deep_json_is_refused_and_harms_nobody() {
    let (_account, c) = account_with_client().await;
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for (levels, status) in [(50, 201), (70, 400), (10_000, 400)] {
            let deep = format!("{}0{}", open.repeat(levels), close.repeat(levels));
            let body = format!(r#"{{"name":"x","metadata":{{"deep":{deep}}}}}"#);
            post_bytes(&c, "/v1/customers", body).await.expect(status);
        }
        post_bytes(&c, "/v1/customers", open.repeat(10_000))
            .await
            .expect(400);
    }
}

#[tokio::test]
async fn numbers_beyond_64_bits_are_never_bent() {
    let account = account().await;
    let c = account.test();
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1e400",
    ] {
        let body = format!(r#"{{"name":"x","metadata":{{"n":{number}}}}}"#);
        let answer = post_bytes(&c, "/v1/customers", body).await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(
            answer.status == 400 || (answer.status == 201 && text.contains(number)),
            "{answer}"
        );
    }
    let body = format!(
        r#"{{"name":"x","plan":"enterprise","rate_per_minute":{}}}"#,
        "9".repeat(30)
    );
    let refused = post_bytes(&account.operator(), "/admin/v1/accounts", body).await;
    refused.error(400, "invalid_request", "rate_per_minute");
}

#[tokio::test]
async fn ids_of_the_wrong_kind_are_404_in_a_path() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let upper = customer.to_uppercase();
    let tail = customer.replace("cus_", "conv_");
    let long = "x".repeat(3000);
    for id in [
        customer.as_str(),
        &tail,
        &upper,
        "conv_",
        "conv_1",
        "..",
        "%00",
        "%ff",
        "a%2Fb",
        &long,
        "null",
        "🎈",
    ] {
        let path = format!("/v1/conversations/{id}");
        let refused = c.get(&path).await.expect(404);
        assert_eq!(refused["error"]["code"], "not_found", "{id}");
    }
}

#[tokio::test]
async fn unknown_routes_are_404_without_a_credential_too() {
    let (account, c) = account_with_client().await;
    for path in [
        "/",
        "/v1/",
        "/v1/conversations/",
        "/v2/conversations",
        "/V1/conversations",
        "//v1",
        "/v1/nowhere",
        "/admin",
    ] {
        account
            .anonymous()
            .get(path)
            .await
            .error(404, "not_found", "");
        c.post(path, json!({})).await.error(404, "not_found", "");
    }
}

#[tokio::test]
async fn a_wrong_method_is_405_with_allow_before_the_credential() {
    let (account, c) = account_with_client().await;
    for (method, path, allowed) in [
        (
            "PUT",
            "/v1/conversations",
            vec!["GET", "HEAD", "POST", "OPTIONS"],
        ),
        ("DELETE", "/v1/conversations", vec!["GET", "POST"]),
        ("DELETE", NOBODY, vec!["GET", "PATCH"]),
        ("GET", &format!("{NOBODY}/close"), vec!["POST"]),
        ("POST", "/v1", vec!["GET"]),
        ("PROPFIND", "/v1/customers", vec!["GET", "POST"]),
        ("POST", "/healthz", vec!["GET"]),
    ] {
        for caller in [&account.anonymous(), &c] {
            let refused = caller
                .call(method, path)
                .await
                .error(405, "method_not_allowed", "");
            for name in &allowed {
                assert!(refused.header("allow").contains(name), "{name}: {refused}");
            }
            assert!(!refused.header("allow").contains(method), "{refused}");
        }
    }
}

#[tokio::test]
async fn options_answers_204_with_allow_and_needs_no_credential() {
    let account = account().await;
    for (path, allowed) in [
        ("/v1/conversations", "POST"),
        (NOBODY, "PATCH"),
        ("/v1/users", "GET"),
        ("/healthz", "GET"),
    ] {
        let answer = account.anonymous().call("OPTIONS", path).await.expect(204);
        assert!(answer.header("allow").contains(allowed), "{answer}");
        assert!(answer.bytes.is_empty());
    }
    account
        .anonymous()
        .call("OPTIONS", "/v1/nowhere")
        .await
        .error(404, "not_found", "");
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let (account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    for path in [at.as_str(), "/v1/conversations", "/v1"] {
        let (get, head) = (
            c.get(path).await.expect(200),
            c.call("HEAD", path).await.expect(200),
        );
        assert!(head.bytes.is_empty());
        for name in ["etag", "content-type", "link", "cache-control"] {
            assert_eq!(
                head.header_opt(name),
                get.header_opt(name),
                "{name} of {path}"
            );
        }
    }
    assert!(c.call("HEAD", NOBODY).await.expect(404).bytes.is_empty());
    account.anonymous().call("HEAD", "/v1").await.expect(401);
}

#[tokio::test]
async fn only_json_is_taken_and_only_in_utf_8() {
    let (_account, c) = account_with_client().await;
    let body = br#"{"name":"x"}"#;
    for kind in [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "application/json; charset=utf-16",
        "multipart/form-data; boundary=x",
        "application/merge-patch+json",
        "nonsense",
    ] {
        let refused = c
            .call("POST", "/v1/customers")
            .bytes(*body)
            .with("content-type", kind)
            .await;
        refused.error(415, "unsupported_media_type", "*");
    }
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/json;charset=\"utf-8\"",
    ] {
        c.call("POST", "/v1/customers")
            .bytes(*body)
            .with("content-type", kind)
            .await
            .expect(201);
    }
    c.call("POST", "/v1/customers")
        .bytes(*body)
        .without("content-type")
        .await
        .expect(201);
    let json = || {
        c.call("POST", "/v1/customers")
            .bytes(*body)
            .with("content-type", "application/json")
    };
    for coding in ["gzip", "br", "identity, gzip"] {
        json().with("content-encoding", coding).await.error(
            415,
            "unsupported_media_type",
            "Content-Encoding",
        );
    }
    json()
        .with("content-encoding", "identity")
        .await
        .expect(201);
}

#[tokio::test]
async fn a_body_is_declared_once() {
    let account = account().await;
    let head = format!(
        "POST /v1/customers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}",
        account.test_key()
    );
    let twice = "Content-Type: application/json\r\n".repeat(2);
    let request = format!(
        "{head}\r\n{twice}Connection: close\r\nContent-Length: 12\r\n\r\n{{\"name\":\"x\"}}"
    );
    let answer = exchange(&shared().address(), request.as_bytes()).await;
    assert_eq!(answer.status, 415, "{}", answer.text);
}

#[tokio::test]
async fn an_accept_that_can_not_be_met_is_ignored() {
    let (_account, c) = account_with_client().await;
    for accept in ["text/html", "image/png;q=1, */*;q=0", "", "nonsense"] {
        let answer = c.get("/v1").with("accept", accept).await.expect(200);
        assert!(
            answer
                .header("content-type")
                .starts_with("application/json")
        );
    }
}

#[tokio::test]
async fn errors_are_problem_json_where_accept_prefers_it() {
    let (account, c) = account_with_client().await;
    let bad = || c.post("/v1/customers", json!({"name": "x", "colour": 1}));
    let list = "application/json;q=0.5, application/problem+json";
    for accept in ["application/problem+json", "APPLICATION/PROBLEM+JSON", list] {
        let problem = bad().with("accept", accept).await.expect(400);
        assert!(
            problem
                .header("content-type")
                .starts_with("application/problem+json"),
            "{problem}"
        );
        let fields = [
            "code", "detail", "details", "instance", "status", "title", "type",
        ];
        assert_eq!(keys(&problem.body), fields);
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(400), &json!("invalid_request"))
        );
        assert_eq!(problem["details"]["field"], "colour");
        assert!(
            ["type", "title", "detail", "instance"]
                .iter()
                .all(|name| problem[*name].is_string())
        );
    }
    for accept in [
        "application/json",
        "application/json, application/problem+json;q=0.9",
        "*/*",
    ] {
        bad()
            .with("accept", accept)
            .await
            .error(400, "invalid_request", "colour");
    }
    for (path, status) in [("/v1/nowhere", 404), ("/v1", 401)] {
        let problem = account
            .anonymous()
            .get(path)
            .with("accept", "application/problem+json")
            .await
            .expect(status);
        assert_eq!(problem["status"], status);
    }
}

#[tokio::test]
async fn messages_end_with_the_given_resolution() {
    let (account, c) = account_with_client().await;
    let answers = [
        (
            c.get("/v1/conversations?limit=0").await,
            "check request parameters",
        ),
        (account.anonymous().get("/v1").await, "verify the API key"),
        (
            account
                .read()
                .post("/v1/customers", json!({"name": "x"}))
                .await,
            "check permissions",
        ),
        (c.get(NOBODY).await, "verify the resource exists"),
    ];
    for (answer, resolution) in answers {
        let message = answer.message().trim_end_matches('.').to_lowercase();
        assert!(
            message.ends_with(&resolution.to_lowercase()),
            "{message:?} does not end with {resolution:?}"
        );
    }
}

#[tokio::test]
async fn a_request_id_is_taken_over_when_it_is_plain() {
    let (_account, c) = account_with_client().await;
    let longest = "r".repeat(128);
    for id in ["a", "Trace-1.2_3", longest.as_str()] {
        assert_eq!(
            c.get("/v1")
                .with("x-request-id", id)
                .await
                .header("x-request-id"),
            id
        );
    }
    let too_long = "r".repeat(129);
    for id in ["", "two words", "sémantique", "a\"b", too_long.as_str()] {
        assert_ne!(
            c.get("/v1")
                .with("x-request-id", id)
                .await
                .header("x-request-id"),
            id
        );
    }
    let first = c.get("/v1").await.header("x-request-id").to_owned();
    assert_ne!(c.get("/v1").await.header("x-request-id"), first);
}

fn oversized() -> Vec<u8> {
    vec![b'x'; 1_048_577]
}

async fn order_of(account: &Account, path: &str) -> Value {
    let (read, test) = (account.read(), account.test());
    let sent = |c: &Client| {
        c.call("POST", path)
            .bytes(oversized())
            .with("content-type", "text/plain")
    };
    json!([
        sent(&account.anonymous()).await.status,
        sent(&read).await.status,
        sent(&test).await.status,
        test.call("POST", path)
            .bytes("{")
            .with("content-type", "text/plain")
            .await
            .status,
        test.call("POST", path)
            .bytes("{")
            .with("content-type", "application/json")
            .await
            .status,
    ])
}

#[tokio::test]
async fn what_is_checked_first_wins() {
    let account = account().await;
    let c = account.test();
    let nobody = format!("{NOBODY}/messages");
    assert_eq!(
        order_of(&account, &nobody).await,
        json!([401, 403, 413, 415, 400])
    );
    account
        .anonymous()
        .call("DELETE", &nobody)
        .await
        .error(405, "method_not_allowed", "");
    c.post(&nobody, json!({"content": 1}))
        .await
        .error(400, "invalid_request", "content");
    c.post(&nobody, json!({"content": "x"}))
        .await
        .error(404, "not_found", "*");
    let closed = c.conversation().await;
    c.call("POST", &format!("/v1/conversations/{closed}/close"))
        .await
        .expect(200);
    let messages = format!("/v1/conversations/{closed}/messages");
    c.post("/v1/customers", json!({"name": "x"}))
        .with("idempotency-key", "taken")
        .await
        .expect(201);
    let agent = json!({"content": "x", "sender_type": "agent"});
    c.post(&nobody, agent.clone())
        .with("idempotency-key", "taken")
        .await
        .error(422, "idempotency_key_reused", "*");
    c.post(&messages, json!({"content": 1}))
        .with("idempotency-key", "taken")
        .await
        .error(400, "invalid_request", "content");
    c.post(&messages, agent)
        .await
        .error(409, "conversation_closed", "*");
}

#[tokio::test]
async fn an_array_is_never_an_object_whose_fields_have_an_order() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let conversation = c.conversation().await;
    for (method, path, body, field) in [
        ("POST", "/v1/customers".to_owned(), json!(["Ada"]), ""),
        (
            "POST",
            format!("/v1/conversations/{conversation}/messages"),
            json!(["hello"]),
            "",
        ),
        (
            "POST",
            "/api/v1/documents".to_owned(),
            json!(["T", "content"]),
            "",
        ),
        ("PUT", at.clone(), json!([]), ""),
        ("PUT", format!("{at}/permissions"), json!(["account"]), ""),
        (
            "PUT",
            format!("{at}/permissions"),
            json!({"collaborators": [["usr_1", "viewer"]]}),
            "collaborators[0]",
        ),
        ("POST", format!("{at}/share"), json!(["editor"]), ""),
        ("POST", format!("{at}/versions/1/restore"), json!([]), ""),
        (
            "POST",
            "/v1/webhooks".to_owned(),
            json!({"url": "https://example.com/", "events": ["*"], "filter": []}),
            "filter",
        ),
    ] {
        let answer = c.call(method, &path).bytes(body.to_string()).await.error(
            400,
            "invalid_request",
            field,
        );
        assert_eq!(answer.reason(), "must be an object", "{answer}");
    }
    assert_eq!(c.get(&at).await.expect(200)["version_number"], 1);
}
