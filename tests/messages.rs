//! `/v1/conversations/{id}/messages`: sending, reading, editing with revisions, redacting.

use serde_json::{Value, json};

use crate::support::shapes::{MESSAGE, assert_id, assert_recent, assert_shape, instant};
use crate::support::{Client, account, account_with_client};

fn path(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}/messages")
}

async fn sent(c: &Client, body: Value) -> (String, crate::support::Answer) {
    let list = path(&c.conversation().await);
    let sent = c.post(&list, body).await.expect(201);
    (sent.header("location").to_owned(), sent)
}

#[tokio::test]
async fn a_message_answers_with_every_field_and_its_default() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let conversation = c.conversation_of(&customer).await;
    let sent = c.message(&conversation, "Good morning").await;
    assert_shape(&sent.body, MESSAGE);
    assert_id(&sent["message_id"], "msg_");
    assert_eq!(sent["conversation_id"], conversation.as_str());
    assert_eq!(sent["seq"], 1);
    assert_eq!(sent["content"], "Good morning");
    assert_eq!(sent["type"], "text");
    assert_eq!(sent["sender_type"], "customer");
    assert_eq!(sent["sender_id"], customer.as_str());
    assert_eq!(sent["metadata"], json!({}));
    assert_eq!(sent["redacted"], false);
    assert!(sent["edited_at"].is_null());
    assert_recent(&sent["sent_at"]);
    assert_eq!(
        sent.header("location"),
        format!("{}/{}", path(&conversation), sent.id("message_id"))
    );
    let read = c.get(sent.header("location")).await.expect(200);
    assert_eq!((read.etag(), read.body), (sent.etag(), sent.body));
}

#[tokio::test]
async fn the_sender_follows_from_who_is_calling() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let list = path(&c.conversation().await);
    let by_agent = c
        .acting_for(&user)
        .post(&list, json!({"content": "I am here"}))
        .await
        .expect(201);
    assert_eq!(
        (&by_agent["sender_type"], &by_agent["sender_id"]),
        (&json!("agent"), &json!(user))
    );
    let by_system = c
        .post(&list, json!({"content": "Note", "sender_type": "system"}))
        .await
        .expect(201);
    assert!(by_system["sender_id"].is_null());
    let nameless = c
        .post(&list, json!({"content": "Bot", "sender_type": "agent"}))
        .await
        .expect(201);
    assert!(nameless["sender_id"].is_null(), "no acting user is known");
    let named = c
        .post(
            &list,
            json!({"content": "x", "sender_type": "agent", "sender_id": user}),
        )
        .await
        .expect(201);
    assert_eq!(named["sender_id"], user.as_str());
}

#[tokio::test]
async fn an_unknown_sender_is_refused() {
    let (_account, c) = account_with_client().await;
    let list = path(&c.conversation().await);
    let unknown = "usr_0190163d8694739b85d52d5e4a4d6d5f";
    for sender in ["agent", "customer"] {
        let body = json!({"content": "x", "sender_type": sender, "sender_id": unknown});
        c.post(&list, body)
            .await
            .error(400, "invalid_request", "sender_id");
    }
    assert_eq!(c.get(&list).await.expect(200).total(), 0);
}

#[tokio::test]
async fn seq_counts_without_gap_and_sent_at_never_runs_backwards() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let sends = (0..64).map(|n| {
        let (c, list) = (c.clone(), path(&conversation));
        async move {
            c.post(&list, json!({"content": format!("n {n}")}))
                .await
                .expect(201)["seq"]
                .as_u64()
                .unwrap()
        }
    });
    let mut seqs = futures_util::future::join_all(sends).await;
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=64).collect::<Vec<u64>>());
    let listed = c
        .get(&format!("{}?limit=100", path(&conversation)))
        .await
        .expect(200);
    let in_order: Vec<u64> = listed
        .data()
        .iter()
        .map(|message| message["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(in_order, seqs, "oldest first");
    assert!(
        listed
            .data()
            .iter()
            .map(|message| instant(&message["sent_at"]))
            .is_sorted()
    );
}

#[tokio::test]
async fn every_type_and_metadata_come_back_as_sent() {
    let (_account, c) = account_with_client().await;
    let list = path(&c.conversation().await);
    for (kind, content) in [
        ("text", "plain"),
        ("image", "https://example.com/a.png"),
        ("file", "https://example.com/b"),
    ] {
        let body = json!({"content": content, "type": kind, "metadata": {"k": [1, {"x": null}]}});
        let sent = c.post(&list, body.clone()).await.expect(201);
        for field in ["content", "type", "metadata"] {
            assert_eq!(sent[field], body[field]);
        }
    }
}

#[tokio::test]
async fn images_and_files_are_https_urls() {
    let (_account, c) = account_with_client().await;
    let list = path(&c.conversation().await);
    for content in [
        "http://example.com/a.png",
        "a.png",
        "javascript:alert(1)",
        "https://",
        "https:///x",
    ] {
        for kind in ["image", "file"] {
            c.post(&list, json!({"content": content, "type": kind}))
                .await
                .error(400, "invalid_request", "content");
        }
    }
}

#[tokio::test]
async fn the_pages_before_and_after_a_seq_are_ascending() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    for n in 1..=10 {
        c.message(&conversation, &format!("n {n}")).await;
    }
    for (query, expected) in [
        ("after_seq=7", vec![8, 9, 10]),
        ("after_seq=2&limit=3", vec![3, 4, 5]),
        ("before_seq=4", vec![1, 2, 3]),
        ("before_seq=9&limit=3", vec![6, 7, 8]),
        ("limit=2&offset=4", vec![5, 6]),
        ("after_seq=10", vec![]),
        ("before_seq=1", vec![]),
    ] {
        let page = c
            .get(&format!("{}?{query}", path(&conversation)))
            .await
            .expect(200);
        let seqs: Vec<u64> = page
            .data()
            .iter()
            .map(|message| message["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, expected, "{query}");
        assert_eq!(page.total(), 10, "{query}");
    }
}

#[tokio::test]
async fn messages_can_be_filtered_by_sender_with_an_exact_total() {
    let (_account, c) = account_with_client().await;
    let list = path(&c.conversation().await);
    for sender in ["customer", "agent", "customer", "system", "customer"] {
        c.post(&list, json!({"content": sender, "sender_type": sender}))
            .await
            .expect(201);
    }
    for (sender, total) in [("customer", 3), ("agent", 1), ("system", 1)] {
        let page = c
            .get(&format!("{list}?sender_type={sender}&limit=2"))
            .await
            .expect(200);
        assert_eq!(page.total(), total);
        assert!(
            page.data()
                .iter()
                .all(|message| message["sender_type"] == sender)
        );
    }
    c.get(&format!("{list}?sender_type=robot"))
        .await
        .error(400, "invalid_request", "sender_type");
}

#[tokio::test]
async fn an_edit_keeps_the_earlier_texts_as_revisions() {
    let (_account, c) = account_with_client().await;
    let (at, sent) = sent(&c, json!({"content": "first", "metadata": {"v": 1}})).await;
    let second = c.patch(&at, json!({"content": "second"})).await.expect(200);
    assert_shape(&second.body, MESSAGE);
    assert_eq!(
        (&second["content"], &second["metadata"]),
        (&json!("second"), &json!({"v": 1}))
    );
    assert_recent(&second["edited_at"]);
    assert_ne!(second.etag(), sent.etag());
    c.patch(&at, json!({"metadata": {"v": 2}}))
        .await
        .expect(200);
    let revisions = c.get(&format!("{at}/revisions")).await.expect(200);
    assert_eq!(revisions.total(), 2);
    for revision in revisions.data() {
        assert_shape(revision, "content, metadata, replaced_at");
        assert_recent(&revision["replaced_at"]);
    }
    let mut texts = revisions.column("content");
    texts.sort_unstable();
    assert_eq!(texts, ["first", "second"]);
    assert_eq!(c.get(&at).await.expect(200)["sent_at"], sent["sent_at"]);
}

#[tokio::test]
async fn an_edit_that_changes_nothing_makes_no_revision() {
    let (_account, c) = account_with_client().await;
    let (at, sent) = sent(&c, json!({"content": "same"})).await;
    for body in [json!({}), json!({"content": "same"})] {
        let same = c.patch(&at, body).await.expect(200);
        assert_eq!((same.etag(), &same.body), (sent.etag(), &sent.body));
    }
    assert_eq!(
        c.get(&format!("{at}/revisions")).await.expect(200).total(),
        0
    );
}

#[tokio::test]
async fn an_edited_image_still_is_an_https_url() {
    let (_account, c) = account_with_client().await;
    let (at, _) = sent(
        &c,
        json!({"content": "https://example.com/a.png", "type": "image"}),
    )
    .await;
    c.patch(&at, json!({"content": "no url"}))
        .await
        .error(400, "invalid_request", "content");
    c.patch(&at, json!({"content": "https://example.com/b.png"}))
        .await
        .expect(200);
}

#[tokio::test]
async fn editing_and_redacting_work_in_a_closed_conversation_and_do_not_reopen_it() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = c
        .message(&conversation, "typo")
        .await
        .header("location")
        .to_owned();
    c.call("POST", &format!("/v1/conversations/{conversation}/close"))
        .await
        .expect(200);
    c.patch(&at, json!({"content": "no typo"}))
        .await
        .expect(200);
    c.delete(&at).await.expect(204);
    assert_eq!(
        c.get(&format!("/v1/conversations/{conversation}"))
            .await
            .expect(200)["status"],
        "closed"
    );
}

#[tokio::test]
async fn a_redacted_message_is_empty_and_stays_listed() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let sent = c.message(&conversation, "my card is 4111").await;
    let at = sent.header("location").to_owned();
    c.patch(
        &at,
        json!({"content": "my card was 4111", "metadata": {"card": "4111"}}),
    )
    .await
    .expect(200);
    assert!(c.delete(&at).await.expect(204).bytes.is_empty());
    let read = c.get(&at).await.expect(200);
    assert_eq!(
        (&read["content"], &read["metadata"], &read["redacted"]),
        (&json!(""), &json!({}), &json!(true))
    );
    assert_eq!(read["seq"], sent["seq"]);
    let revisions = c.get(&format!("{at}/revisions")).await.expect(200);
    assert!(
        revisions
            .data()
            .iter()
            .all(|old| old["content"] == "" && old["metadata"] == json!({}))
    );
    let list = c.get(&path(&conversation)).await.expect(200);
    assert_eq!((list.total(), &list["data"][0]), (1, &read.body));
    assert_eq!(
        c.get(&format!("/v1/conversations/{conversation}"))
            .await
            .expect(200)["message_count"],
        1
    );
}

#[tokio::test]
async fn redacting_twice_is_204_and_editing_after_it_a_conflict() {
    let (_account, c) = account_with_client().await;
    let (at, _) = sent(&c, json!({"content": "gone"})).await;
    c.delete(&at).await.expect(204);
    let first = c.get(&at).await.expect(200);
    c.delete(&at).await.expect(204);
    assert_eq!(c.get(&at).await.expect(200).etag(), first.etag());
    c.patch(&at, json!({"content": "back"}))
        .await
        .error(409, "conflict", "*");
}

#[tokio::test]
async fn a_message_is_found_under_its_own_conversation_only() {
    let account = account().await;
    let c = account.test();
    let conversation = c.conversation().await;
    let id = c.message(&conversation, "here").await.id("message_id");
    let other = c.conversation().await;
    c.message(&other, "there").await;
    c.get(&format!("{}/{id}", path(&other)))
        .await
        .error(404, "not_found", "*");
    account
        .live()
        .get(&format!("{}/{id}", path(&conversation)))
        .await
        .error(404, "not_found", "*");
    c.get(&format!(
        "{}/msg_0190163d8694739b85d52d5e4a4d6d5f",
        path(&conversation)
    ))
    .await
    .error(404, "not_found", "*");
    c.get(&format!("{}/{conversation}", path(&conversation)))
        .await
        .error(404, "not_found", "*");
}
