//! Optimistic concurrency: `ETag`, `If-Match`, `If-None-Match`.

use serde_json::json;

use crate::support::account_with_client;

#[tokio::test]
async fn single_resources_have_strong_etags_and_lists_weak_ones() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let conversation = c.conversation_of(&customer).await;
    let message = c
        .message(&conversation, "x")
        .await
        .header("location")
        .to_owned();
    let user = c.user("agent").await;
    let singles = [
        format!("/v1/customers/{customer}"),
        format!("/v1/conversations/{conversation}"),
        message,
        format!("/v1/users/{user}"),
    ];
    for path in singles {
        let answer = c.get(&path).await.expect(200);
        assert!(
            answer.etag().starts_with('"') && answer.etag().ends_with('"'),
            "{answer}"
        );
        assert_eq!(
            answer.header("cache-control"),
            "private, no-cache",
            "{path}"
        );
        let vary = answer.header("vary").to_lowercase();
        assert!(
            vary.contains("authorization") && vary.contains("x-acting-user"),
            "{path}"
        );
    }
    let messages = format!("/v1/conversations/{conversation}/messages");
    for path in [
        "/v1/customers",
        "/v1/conversations",
        "/v1/users",
        messages.as_str(),
    ] {
        let answer = c.get(path).await.expect(200);
        assert!(answer.etag().starts_with("W/\""), "{answer}");
        assert_eq!(
            answer.header("cache-control"),
            "private, no-cache",
            "{path}"
        );
    }
}

#[tokio::test]
async fn if_none_match_answers_304_without_a_body_until_something_changes() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    for path in [at.as_str(), "/v1/conversations"] {
        let tag = c.get(path).await.expect(200).etag();
        for candidates in [
            tag.clone(),
            format!("\"other\", {tag}"),
            "*".to_owned(),
            weak(&tag),
        ] {
            let same = c
                .get(path)
                .with("if-none-match", &candidates)
                .await
                .expect(304);
            assert!(same.bytes.is_empty(), "{same}");
            assert_eq!(same.etag(), tag);
        }
        c.call("HEAD", path)
            .with("if-none-match", &tag)
            .await
            .expect(304);
        c.message(&conversation, "news").await;
        c.get(path).with("if-none-match", &tag).await.expect(200);
    }
}

fn weak(tag: &str) -> String {
    if tag.starts_with("W/") {
        tag.to_owned()
    } else {
        format!("W/{tag}")
    }
}

#[tokio::test]
async fn an_etag_changes_with_every_event_of_the_conversation() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    let mut tags = vec![c.get(&at).await.etag()];
    let message = c
        .message(&conversation, "one")
        .await
        .header("location")
        .to_owned();
    tags.push(c.get(&at).await.etag());
    c.patch(&message, json!({"content": "two"}))
        .await
        .expect(200);
    tags.push(c.get(&at).await.etag());
    c.delete(&message).await.expect(204);
    tags.push(c.get(&at).await.etag());
    tags.push(
        c.patch(&at, json!({"priority": "low"}))
            .await
            .expect(200)
            .etag(),
    );
    tags.push(
        c.call("POST", &format!("{at}/close"))
            .await
            .expect(200)
            .etag(),
    );
    let count = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), count, "{tags:?}");
}

#[tokio::test]
async fn if_match_of_an_older_state_is_412_and_changes_nothing() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    let old = c.get(&at).await.expect(200).etag();
    let now = c.patch(&at, json!({"priority": "high"})).await.expect(200);
    for tag in [
        old.as_str(),
        "\"unknown\"",
        &weak(&now.etag()),
        "\"a\", \"b\"",
    ] {
        c.patch(&at, json!({"priority": "low"}))
            .with("if-match", tag)
            .await
            .error(412, "precondition_failed", "*");
        c.call("POST", &format!("{at}/close"))
            .with("if-match", tag)
            .await
            .error(412, "precondition_failed", "*");
    }
    assert_eq!(c.get(&at).await.expect(200).body, now.body);
}

#[tokio::test]
async fn if_match_takes_the_current_tag_lists_and_a_star() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let tag = c.get(&at).await.etag();
    let low = c
        .patch(&at, json!({"priority": "low"}))
        .with("if-match", &tag)
        .await
        .expect(200);
    let list = format!("\"nothing\",{}", low.etag());
    c.patch(&at, json!({"priority": "high"}))
        .with("if-match", &list)
        .await
        .expect(200);
    c.patch(&at, json!({"priority": "normal"}))
        .with("if-match", "*")
        .await
        .expect(200);
}

#[tokio::test]
async fn if_match_guards_every_resource_that_changes() {
    let (_account, c) = account_with_client().await;
    let customer = format!("/v1/customers/{}", c.customer().await);
    let user = format!("/v1/users/{}", c.user("agent").await);
    let conversation = c.conversation().await;
    let message = c
        .message(&conversation, "x")
        .await
        .header("location")
        .to_owned();
    for (path, body) in [
        (&customer, json!({"name": "n"})),
        (&user, json!({"name": "n"})),
        (&message, json!({"content": "n"})),
    ] {
        let old = c.get(path).await.expect(200).etag();
        c.patch(path, body).with("if-match", &old).await.expect(200);
        c.patch(path, json!({})).with("if-match", &old).await.error(
            412,
            "precondition_failed",
            "*",
        );
        c.delete(path)
            .with("if-match", &old)
            .await
            .error(412, "precondition_failed", "*");
        let new = c.get(path).await.expect(200).etag();
        c.delete(path).with("if-match", &new).await.expect(204);
    }
}

#[tokio::test]
async fn of_32_who_saw_the_same_state_one_changes_it() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let tag = c.get(&at).await.etag();
    let patches = (0..32).map(|n| {
        let call = c
            .patch(&at, json!({"metadata": {"winner": n}}))
            .with("if-match", &tag);
        async move { call.await.status }
    });
    let mut statuses = futures_util::future::join_all(patches).await;
    statuses.sort_unstable();
    assert_eq!((statuses[0], &statuses[1..]), (200, &[412; 31][..]));
}

#[tokio::test]
async fn existence_comes_before_the_precondition_and_that_before_the_state() {
    let (_account, c) = account_with_client().await;
    let missing = "/v1/conversations/conv_0190163d8694739b85d52d5e4a4d6d5f";
    c.patch(missing, json!({"priority": "low"}))
        .with("if-match", "\"x\"")
        .await
        .error(404, "not_found", "*");
    let at = format!("/v1/conversations/{}", c.conversation().await);
    c.call("POST", &format!("{at}/close")).await.expect(200);
    let pending = json!({"status": "pending"});
    c.patch(&at, pending.clone())
        .with("if-match", "\"x\"")
        .await
        .error(412, "precondition_failed", "*");
    c.patch(&at, pending)
        .await
        .error(409, "invalid_transition", "*");
}
