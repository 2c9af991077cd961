//! `Idempotency-Key`: the first answer again, byte for byte; another request with the same key
//! refused.

use serde_json::json;

use crate::support::raw::Raw;
use crate::support::{Answer, Server, account, account_with_client, shared, unique};

fn assert_replay(first: &Answer, again: &Answer) {
    assert_eq!(again.header("idempotent-replayed"), "true", "{again}");
    assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
    for name in ["location", "etag", "content-type"] {
        assert_eq!(again.header_opt(name), first.header_opt(name), "{name}");
    }
}

#[tokio::test]
async fn a_repeated_creation_gives_the_first_answer_byte_for_byte() {
    let (_account, c) = account_with_client().await;
    let (customer, key) = (c.customer().await, unique("create"));
    let post = || {
        let body = json!({"customer_id": customer, "initial_message": "once"});
        c.post("/v1/conversations", body)
            .with("idempotency-key", &key)
    };
    let first = post().await.expect(201);
    assert!(first.header_opt("idempotent-replayed").is_none());
    let conversation = first.id("conversation_id");
    c.message(&conversation, "the conversation has moved on")
        .await;
    assert_replay(&first, &post().await);
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_repeated_message_is_sent_once() {
    let (_account, c) = account_with_client().await;
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let key = unique("send");
    let post = || {
        c.post(&list, json!({"content": "once"}))
            .with("idempotency-key", &key)
    };
    let first = post().await.expect(201);
    for _ in 0..3 {
        assert_replay(&first, &post().await);
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_quoted_key_is_the_same_as_a_bare_one() {
    let (_account, c) = account_with_client().await;
    let key = unique("quoted");
    let post = |key: String| {
        c.post("/v1/customers", json!({"name": "Ada"}))
            .with("idempotency-key", &key)
    };
    let first = post(key.clone()).await.expect(201);
    assert_replay(&first, &post(format!("\"{key}\"")).await);
}

#[tokio::test]
async fn another_request_with_the_same_key_is_422() {
    let (account, c) = account_with_client().await;
    let (user, key) = (c.user("admin").await, unique("reused"));
    let post = |path: &str, name: &str| {
        c.post(path, json!({"name": name}))
            .with("idempotency-key", &key)
    };
    post("/v1/customers", "Ada").await.expect(201);
    post("/v1/customers", "Eve")
        .await
        .error(422, "idempotency_key_reused", "*");
    let spaced = c
        .call("POST", "/v1/customers")
        .bytes(r#"{"name":  "Ada"}"#)
        .with("idempotency-key", &key);
    spaced.await.error(422, "idempotency_key_reused", "*");
    let acting = c
        .acting_for(&user)
        .post("/v1/customers", json!({"name": "Ada"}))
        .with("idempotency-key", &key);
    acting.await.error(422, "idempotency_key_reused", "*");
    let conversation = c.conversation().await;
    let elsewhere = c
        .call("POST", &format!("/v1/conversations/{conversation}/close"))
        .with("idempotency-key", &key);
    elsewhere.await.error(422, "idempotency_key_reused", "*");
    account
        .live()
        .post("/v1/customers", json!({"name": "Eve"}))
        .with("idempotency-key", &key)
        .await
        .expect(201);
}

#[tokio::test]
async fn another_accounts_same_key_is_another_key() {
    let (first, second) = (account().await, account().await);
    for account in [&first, &second] {
        let call = account
            .test()
            .post("/v1/customers", json!({"name": "Ada"}))
            .with("idempotency-key", "the-same");
        assert!(
            call.await
                .expect(201)
                .header_opt("idempotent-replayed")
                .is_none()
        );
    }
}

#[tokio::test]
async fn a_refusal_is_not_kept() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    c.call("POST", &format!("{at}/close")).await.expect(200);
    let key = unique("refused");
    let body = json!({"content": "too late?", "sender_type": "agent"});
    let post = || {
        c.post(&format!("{at}/messages"), body.clone())
            .with("idempotency-key", &key)
    };
    post().await.error(409, "conversation_closed", "*");
    c.call("POST", &format!("{at}/reopen")).await.expect(200);
    let sent = post().await.expect(201);
    assert!(sent.header_opt("idempotent-replayed").is_none());
    assert_replay(&sent, &post().await);
}

#[tokio::test]
async fn a_success_that_changed_nothing_is_kept() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let key = unique("nothing");
    let reopen = || {
        c.call("POST", &format!("{at}/reopen"))
            .with("idempotency-key", &key)
    };
    let first = reopen().await.expect(200);
    c.call("POST", &format!("{at}/close")).await.expect(200);
    assert_replay(&first, &reopen().await);
    assert_eq!(c.get(&at).await.expect(200)["status"], "closed");
}

#[tokio::test]
async fn two_at_once_with_the_same_key_make_one_thing() {
    let (_account, c) = account_with_client().await;
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    for round in 0..10 {
        let key = unique("twins");
        let body = json!({"content": format!("round {round}")});
        let posts = (0..16).map(|_| async {
            c.post(&list, body.clone())
                .with("idempotency-key", &key)
                .await
        });
        let answers = futures_util::future::join_all(posts).await;
        let firsts: Vec<_> = answers
            .iter()
            .filter(|answer| answer.status == 201)
            .collect();
        assert!(!firsts.is_empty());
        assert!(firsts.iter().all(|answer| answer.bytes == firsts[0].bytes));
        let fresh = firsts
            .iter()
            .filter(|answer| answer.header_opt("idempotent-replayed").is_none())
            .count();
        assert_eq!(fresh, 1, "one of them did it");
        for answer in answers.into_iter().filter(|answer| answer.status != 201) {
            answer.error(409, "idempotency_in_progress", "*");
        }
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 10);
}

#[tokio::test]
async fn an_unusable_key_is_a_bad_request() {
    let (_account, c) = account_with_client().await;
    for key in [
        String::new(),
        "\"\"".to_owned(),
        "k".repeat(256),
        "tab\there".to_owned(),
        "naïve".to_owned(),
    ] {
        let refused = c
            .post("/v1/customers", json!({"name": "Ada"}))
            .with("idempotency-key", &key)
            .await
            .expect(400);
        assert_eq!(refused["error"]["code"], "invalid_request", "{key:?}");
    }
    c.post("/v1/customers", json!({"name": "Ada"}))
        .with("idempotency-key", &"k".repeat(255))
        .await
        .expect(201);
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 1);
}

#[tokio::test]
async fn what_was_redacted_since_is_not_shown_again() {
    let (_account, c) = account_with_client().await;
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let (key, text) = (unique("redacted"), unique("a secret text"));
    let post = || {
        c.post(&list, json!({"content": text}))
            .with("idempotency-key", &key)
    };
    let sent = post().await.expect(201);
    c.delete(sent.header("location")).await.expect(204);
    let again = post().await.expect(201);
    assert_eq!(again["message_id"], sent["message_id"]);
    assert!(
        !String::from_utf8_lossy(&again.bytes).contains(&text),
        "{again}"
    );
    assert_eq!(c.get(&list).await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_key_holds_across_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let (secret, c) = (account.test_key().to_owned(), account.test());
    let customer = c.customer().await;
    let body = json!({"customer_id": customer, "initial_message": "before the crash"});
    let first = c
        .post("/v1/conversations", body.clone())
        .with("idempotency-key", "over-the-crash")
        .await
        .expect(201);
    server.restart();
    let c = server.with_key(&secret);
    let again = c
        .post("/v1/conversations", body)
        .with("idempotency-key", "over-the-crash")
        .await;
    assert_replay(&first, &again);
    c.post("/v1/conversations", json!({"customer_id": customer}))
        .with("idempotency-key", "over-the-crash")
        .await
        .error(422, "idempotency_key_reused", "*");
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_make_it_happen_twice() {
    let (account, c) = account_with_client().await;
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    for n in 0..20 {
        let (body, key) = (format!(r#"{{"content":"n {n}"}}"#), unique("hang-up"));
        let mut raw = Raw::connect(&shared().address()).await;
        let head = format!(
            "POST {list} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {key}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            account.test_key(),
            body.len()
        );
        raw.write(head.as_bytes()).await;
        drop(raw);
        let retry = || {
            c.call("POST", &list)
                .bytes(body.clone())
                .with("content-type", "application/json")
        };
        let done = crate::support::until(
            "the key is free",
            std::time::Duration::from_secs(10),
            async || {
                let answer = retry().with("idempotency-key", &key).await;
                (answer.status != 409).then_some(answer)
            },
        );
        assert_eq!(done.await.expect(201)["content"], format!("n {n}"));
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 20);
}
