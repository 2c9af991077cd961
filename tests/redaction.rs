//! Redaction leaves no byte of the text in the files of the store, the write-ahead log included.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::support::{Client, Server, unique, until};

/// The contract's bound, and a little for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(35);

async fn traffic(c: &Client, conversation: &str, count: usize) {
    let sends = (0..count).map(|n| async move {
        c.message(conversation, &format!("ordinary {n}"))
            .await
            .status
    });
    futures_util::future::join_all(sends).await;
}

async fn assert_gone(server: &Server, texts: &[&str]) {
    until("no file holds the redacted text", GONE_WITHIN, async || {
        let found: Vec<PathBuf> = texts
            .iter()
            .flat_map(|text| server.places_with(text))
            .collect();
        found.is_empty().then_some(())
    })
    .await;
    let log = server.log();
    assert!(
        texts.iter().all(|text| !log.contains(text)),
        "the log holds a message's text"
    );
}

#[tokio::test]
async fn thirty_seconds_after_redaction_no_file_holds_the_text() {
    let server = Server::start();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let list = format!("/v1/conversations/{conversation}/messages");
    let (first, second, in_metadata) = (
        unique("FirstText"),
        unique("SecondText"),
        unique("InMetadata"),
    );
    traffic(&c, &conversation, 100).await;
    let body =
        json!({"content": format!("my secret is {first}."), "metadata": {"card": in_metadata}});
    let sent = c
        .post(&list, body)
        .with("idempotency-key", "with-a-kept-answer")
        .await
        .expect(201);
    let at = sent.header("location").to_owned();
    c.patch(&at, json!({"content": format!("now it is {second}")}))
        .await
        .expect(200);
    traffic(&c, &conversation, 100).await;
    for text in [&first, &second, &in_metadata] {
        assert!(
            !server.places_with(text).is_empty(),
            "the search is blind: {text} was never in a file"
        );
    }
    c.delete(&at).await.expect(204);
    traffic(&c, &conversation, 100).await;
    assert_gone(&server, &[&first, &second, &in_metadata]).await;
    assert_eq!(c.get(&at).await.expect(200)["redacted"], true);
}

#[tokio::test]
async fn an_initial_message_is_redacted_from_its_conversations_kept_answer_too() {
    let server = Server::start();
    let c = server.account().await.test();
    let (customer, text) = (c.customer().await, unique("InitialText"));
    let body = json!({"customer_id": customer, "initial_message": text});
    let made = c
        .post("/v1/conversations", body)
        .with("idempotency-key", "initial")
        .await
        .expect(201);
    let list = format!("{}/messages", made.header("location"));
    let id = c
        .get(&list)
        .await
        .expect(200)
        .column("message_id")
        .remove(0);
    c.delete(&format!("{list}/{id}")).await.expect(204);
    assert_gone(&server, &[&text]).await;
}

#[tokio::test]
async fn a_redaction_interrupted_by_kill_9_is_finished_at_the_start() {
    let mut server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let conversation = c.conversation().await;
    let texts: Vec<String> = (0..20).map(|_| unique("ManyTexts")).collect();
    for text in &texts {
        let at = c
            .message(&conversation, text)
            .await
            .header("location")
            .to_owned();
        c.delete(&at).await.expect(204);
    }
    server.restart();
    assert_gone(
        &server,
        &texts.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
}
