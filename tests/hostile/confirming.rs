//! Whoever has the files after a redaction can't confirm a guess of a short text: nothing that is
//! made of the text stays.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::files::files_with;
use crate::support::{Client, Server, until};

/// The contract's 30 s, and as much again for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// Short enough to be guessed.
const SECRET: &str = "4111 1111";

/// A digest of these parts and their lengths, as the server makes one of a request; as much of it
/// as it keeps.
fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()[..16].try_into().unwrap()
}

/// What somebody who guesses the request to this path would look for.
fn of_request(path: &str, body: &[u8]) -> [u8; 16] {
    digest(&[b"POST", path.as_bytes(), b"", b"", body])
}

/// The same for one of so many operations of a bulk request.
fn of_operation(operation: &[u8], count: usize) -> [u8; 16] {
    let head = digest(&[b"POST", b"/v1/conversations/bulk", b"", b""]);
    digest(&[&head[..8], &count.to_le_bytes(), operation])
}

async fn post(c: &Client, path: &str, body: &[u8], key: &str) -> crate::support::Answer {
    c.call("POST", path)
        .with("content-type", "application/json")
        .with("idempotency-key", key)
        .bytes(body)
        .await
}

async fn gone(server: &Server, digests: &[[u8; 16]]) {
    let work = server.work();
    until(
        "no file holds what confirms the text",
        GONE_WITHIN,
        async || {
            let found: Vec<PathBuf> = digests
                .iter()
                .flat_map(|digest| files_with(&work, digest))
                .collect();
            found.is_empty().then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn the_digest_of_a_messages_request_goes_with_its_text() {
    let server = Server::start();
    let c = server.account().await.test();
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let body = json!({"content": SECRET}).to_string();
    let digest = of_request(&list, body.as_bytes());
    let sent = post(&c, &list, body.as_bytes(), "secret").await.expect(201);
    post(&c, &list, b"{\"content\":\"another\"}", "secret")
        .await
        .error(422, "idempotency_key_reused", "*");
    assert!(
        !files_with(&server.work(), digest).is_empty(),
        "the test looks for what was there"
    );
    c.delete(sent.header("location")).await.expect(204);
    for guess in [SECRET, "another"] {
        let again = post(
            &c,
            &list,
            json!({"content": guess}).to_string().as_bytes(),
            "secret",
        )
        .await
        .expect(201);
        assert_eq!(
            (again.header("idempotent-replayed"), &again["content"]),
            ("true", &json!(""))
        );
        assert_eq!(
            (&again["message_id"], &again["redacted"]),
            (&sent["message_id"], &json!(true))
        );
    }
    let elsewhere = format!("/v1/conversations/{}/messages", c.conversation().await);
    post(&c, &elsewhere, body.as_bytes(), "secret")
        .await
        .error(422, "idempotency_key_reused", "*");
    gone(&server, &[digest]).await;
}

#[tokio::test]
async fn the_digest_of_a_conversations_request_goes_with_its_initial_message() {
    let server = Server::start();
    let c = server.account().await.test();
    let body = json!({"customer_id": c.customer().await, "initial_message": SECRET}).to_string();
    let digest = of_request("/v1/conversations", body.as_bytes());
    let made = post(&c, "/v1/conversations", body.as_bytes(), "begun")
        .await
        .expect(201);
    assert!(
        !files_with(&server.work(), digest).is_empty(),
        "the test looks for what was there"
    );
    let list = format!("{}/messages", made.header("location"));
    let first = c
        .get(&list)
        .await
        .expect(200)
        .column("message_id")
        .remove(0);
    c.delete(&format!("{list}/{first}")).await.expect(204);
    let again = post(&c, "/v1/conversations", body.as_bytes(), "begun")
        .await
        .expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    gone(&server, &[digest]).await;
}

#[tokio::test]
async fn the_digest_of_a_bulk_operation_goes_with_its_text_and_the_others_confirm_nothing() {
    let server = Server::start();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let operation = |text: &str| json!({"op": "message", "conversation_id": conversation, "body": {"content": text}});
    let operations = [
        operation("known"),
        operation(SECRET),
        operation("known too"),
    ]
    .map(|one: Value| one.to_string());
    let body = format!("{{\"operations\":[{}]}}", operations.join(","));
    let whole = of_request("/v1/conversations/bulk", body.as_bytes());
    let its_own = of_operation(operations[1].as_bytes(), 3);
    let done = post(&c, "/v1/conversations/bulk", body.as_bytes(), "many")
        .await
        .expect(200);
    assert!(done.data().iter().all(|one| one["status"] == 201), "{done}");
    assert!(
        !files_with(&server.work(), its_own).is_empty(),
        "the test looks for what was there"
    );
    let secret = done.data()[1]["body"]["message_id"].as_str().unwrap();
    c.delete(&format!(
        "/v1/conversations/{conversation}/messages/{secret}"
    ))
    .await
    .expect(204);
    gone(&server, &[whole, its_own]).await;
    let again = post(&c, "/v1/conversations/bulk", body.as_bytes(), "many")
        .await
        .expect(200);
    let shown: Vec<&Value> = again
        .data()
        .iter()
        .map(|one| &one["body"]["content"])
        .collect();
    assert_eq!(
        shown,
        ["known", "", "known too"],
        "each is known by key and place"
    );
    let other = body.replace("known too", "unknown");
    post(&c, "/v1/conversations/bulk", other.as_bytes(), "many")
        .await
        .error(422, "idempotency_key_reused", "*");
    let fewer = format!("{{\"operations\":[{}]}}", operations[..1].join(","));
    post(&c, "/v1/conversations/bulk", fewer.as_bytes(), "many")
        .await
        .error(422, "idempotency_key_reused", "*");
}

#[tokio::test]
async fn the_digest_of_a_documents_request_goes_when_it_is_erased_for_good() {
    let server = Server::start();
    let c = server.account().await.test();
    let body = json!({"title": "Secret", "content": SECRET}).to_string();
    let digest = of_request("/api/v1/documents", body.as_bytes());
    let made = post(&c, "/api/v1/documents", body.as_bytes(), "document")
        .await
        .expect(201);
    assert!(
        !files_with(&server.work(), digest).is_empty(),
        "the test looks for what was there"
    );
    c.delete(&format!("{}?permanent=true", made.header("location")))
        .await
        .expect(204);
    gone(&server, &[digest]).await;
}
