//! Redaction leaves no byte of the text in the files of the store, the write-ahead log included.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::support::files::words_in;
use crate::support::{Answer, Client, Server, unique, until};

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

/// A message or a document whose every text has this word, more or less often; its address, with what deletes
/// it for good.
async fn saying(c: &Client, word: &str, (number, conversation): (usize, &str)) -> String {
    let much = |times: usize| word.repeat(1 + number * times % 29);
    // A title has an end.
    let some = |times: usize| word.repeat(1 + number * times % 13);
    if number % 4 == 3 {
        let new = json!({"title": word, "content": much(3), "metadata": {"note": word}});
        let id = c.post("/api/v1/documents", new).await.expect(201).id("id");
        let at = format!("/api/v1/documents/{id}");
        for turn in 0..number % 5 {
            let version = json!({"content": much(7 + turn), "label": format!("{word}{turn}")});
            c.post(&format!("{at}/versions"), version).await.expect(201);
            let other = json!({"title": some(5 + turn), "metadata": {"note": much(11)}});
            c.put(&at, other).await.expect(200);
        }
        return format!("{at}?permanent=true");
    }
    let list = format!("/v1/conversations/{conversation}/messages");
    let new = json!({"content": much(5), "metadata": {"note": word}});
    let at = c
        .post(&list, new)
        .await
        .expect(201)
        .header("location")
        .to_owned();
    for turn in 0..number % 5 {
        let edited = json!({"content": much(7 + turn), "metadata": {"note": much(11 + turn)}});
        c.patch(&at, edited).await.expect(200);
    }
    at
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_many_texts_is_left_between_others() {
    const TEXTS: usize = 500;
    let server = Server::start();
    let c = server.account().await.test();
    let conversations: Vec<String> = stream::iter(0..8)
        .then(|_| c.conversation())
        .collect()
        .await;
    let words: Vec<String> = (0..TEXTS)
        .map(|_| format!("{:z<32}", unique("zq").replace('-', "x")))
        .collect();
    let said = words
        .iter()
        .enumerate()
        .map(|(number, word)| saying(&c, word, (number, &conversations[number % 8])));
    let said: Vec<String> = stream::iter(said).buffered(4).collect().await;
    let gone = |number: &usize| number % 7 > 2;
    let deleted = (0..TEXTS)
        .filter(gone)
        .map(|number| c.delete(&said[number]).into_future());
    let deleted: Vec<Answer> = stream::iter(deleted).buffered(3).collect().await;
    assert!(deleted.iter().all(|answer| answer.status == 204));
    let words = words.iter().enumerate().filter(|(number, _)| gone(number));
    let words: BTreeSet<&str> = words.map(|(_, word)| word.as_str()).collect();
    assert_ne!(
        words_in(&server.work(), &words),
        BTreeSet::new(),
        "the search is blind"
    );
    until("no file holds any of them", GONE_WITHIN, async || {
        words_in(&server.work(), &words).is_empty().then_some(())
    })
    .await;
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
