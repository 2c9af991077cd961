//! `/v1/conversations`: creation, reading, change, and the states with their transitions.

use serde_json::json;

use crate::support::shapes::{self, CONVERSATION, assert_id, assert_recent, assert_shape};
use crate::support::{Client, account, account_with_client};

fn path(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}")
}

#[tokio::test]
async fn a_creation_answers_with_every_field_and_its_default() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let made = c
        .post("/v1/conversations", json!({"customer_id": customer}))
        .await
        .expect(201);
    assert_shape(&made.body, CONVERSATION);
    assert_id(&made["conversation_id"], "conv_");
    assert_eq!(made["customer_id"], customer.as_str());
    assert_eq!(
        made["customer"],
        json!({"id": customer, "name": "Ada Lovelace"})
    );
    assert_eq!(made["status"], "active");
    assert_eq!(made["channel"], "chat");
    assert_eq!(made["priority"], "normal");
    assert_eq!(made["metadata"], json!({}));
    assert_eq!(made["message_count"], 0);
    for field in [
        "assignee_id",
        "last_message_at",
        "snoozed_until",
        "closed_at",
    ] {
        assert!(made[field].is_null(), "{field} of {made}");
    }
    assert_recent(&made["created_at"]);
    assert_eq!(made["created_at"], made["updated_at"]);
    assert_eq!(made.header("location"), path(&made.id("conversation_id")));
}

#[tokio::test]
async fn what_was_created_reads_back_the_same() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let body = json!({
        "customer_id": customer, "channel": "email", "priority": "high",
        "metadata": {"order": 7, "tags": ["a", null], "deep": {"er": true}, "ключ": "значение 🎈"},
    });
    let made = c.post("/v1/conversations", body.clone()).await.expect(201);
    let read = c.get(made.header("location")).await.expect(200);
    assert_eq!(made.body, read.body);
    assert_eq!(made.etag(), read.etag());
    for field in ["channel", "priority", "metadata"] {
        assert_eq!(read[field], body[field], "{field}");
    }
    let listed = c.get("/v1/conversations").await.expect(200);
    assert_eq!(listed["data"][0], read.body);
}

#[tokio::test]
async fn an_initial_message_becomes_message_1_of_the_customer() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let body = json!({"customer_id": customer, "initial_message": "Where is my parcel?"});
    let made = c.post("/v1/conversations", body).await.expect(201);
    assert_eq!(made["message_count"], 1);
    let list = c
        .get(&format!("{}/messages", made.header("location")))
        .await
        .expect(200);
    assert_eq!(list.total(), 1);
    let message = &list["data"][0];
    assert_eq!(message["seq"], 1);
    assert_eq!(message["content"], "Where is my parcel?");
    assert_eq!(message["type"], "text");
    assert_eq!(message["sender_type"], "customer");
    assert_eq!(message["sender_id"], customer.as_str());
    assert_eq!(message["sent_at"], made["last_message_at"]);
}

#[tokio::test]
async fn a_customer_that_does_not_exist_is_a_bad_customer_id() {
    let account = account().await;
    let c = account.test();
    let live = account.live().customer().await;
    let conversation = c.conversation().await;
    let unknown = "cus_0190163d8694739b85d52d5e4a4d6d5f";
    for id in [
        unknown,
        live.as_str(),
        conversation.as_str(),
        "nonsense",
        "",
    ] {
        let refused = c
            .post("/v1/conversations", json!({"customer_id": id}))
            .await;
        let refused = refused.error(400, "invalid_request", "customer_id");
        assert_eq!(
            refused.reason(),
            "must be a valid customer ID",
            "for {id:?}"
        );
    }
    c.post("/v1/conversations", json!({}))
        .await
        .error(400, "invalid_request", "customer_id");
}

#[tokio::test]
async fn patch_changes_what_it_names_and_nothing_else() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let before = c.get(&at).await.expect(200);
    let after = c
        .patch(&at, json!({"priority": "low", "channel": "voice"}))
        .await
        .expect(200);
    assert_eq!(after["priority"], "low");
    assert_eq!(after["channel"], "voice");
    assert_ne!(after.etag(), before.etag());
    let mut expected = before.body;
    for field in ["priority", "channel", "updated_at"] {
        expected[field] = after[field].clone();
    }
    assert_eq!(after.body, expected);
    assert_eq!(c.get(&at).await.expect(200).body, expected);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_etag_and_updated_at() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let before = c.get(&at).await.expect(200);
    for body in [
        json!({}),
        json!({"status": "active"}),
        json!({"priority": "normal"}),
        json!({"metadata": {"no": null}}),
    ] {
        let same = c.patch(&at, body).await.expect(200);
        assert_eq!((same.etag(), &same.body), (before.etag(), &before.body));
    }
}

#[tokio::test]
async fn metadata_is_merged_as_rfc_7396_says() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let steps = [
        (
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
        ),
        (
            json!({"b": {"c": null, "e": 4}}),
            json!({"a": 1, "b": {"d": 3, "e": 4}}),
        ),
        (
            json!({"a": [1, null]}),
            json!({"a": [1, null], "b": {"d": 3, "e": 4}}),
        ),
        (json!({"b": "flat", "a": null}), json!({"b": "flat"})),
        (json!(null), json!({})),
    ];
    for (patch, expected) in steps {
        let after = c.patch(&at, json!({"metadata": patch})).await.expect(200);
        assert_eq!(after["metadata"], expected);
    }
}

#[tokio::test]
async fn merge_patch_json_is_a_media_type_that_patch_takes() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let call = c
        .call("PATCH", &at)
        .bytes(r#"{"priority":"high"}"#)
        .with("content-type", "application/merge-patch+json");
    assert_eq!(call.await.expect(200)["priority"], "high");
}

#[tokio::test]
async fn an_assignee_is_a_user_of_the_account_or_null() {
    let account = account().await;
    let c = account.test();
    let at = path(&c.conversation().await);
    let user = c.user("agent").await;
    assert_eq!(
        c.patch(&at, json!({"assignee_id": user})).await.expect(200)["assignee_id"],
        user.as_str()
    );
    let stranger = crate::support::account().await.test().user("agent").await;
    for id in [
        "usr_0190163d8694739b85d52d5e4a4d6d5f",
        stranger.as_str(),
        "nobody",
    ] {
        c.patch(&at, json!({"assignee_id": id}))
            .await
            .error(400, "invalid_request", "assignee_id");
    }
    assert!(c.patch(&at, json!({"assignee_id": null})).await.expect(200)["assignee_id"].is_null());
}

async fn in_state(c: &Client, status: &str) -> String {
    let at = path(&c.conversation().await);
    if status != "active" {
        c.patch(&at, json!({"status": status})).await.expect(200);
    }
    at
}

#[tokio::test]
async fn every_transition_is_as_the_table_says() {
    let (_account, c) = account_with_client().await;
    for from in ["active", "pending", "closed"] {
        for to in ["active", "pending", "closed"] {
            let at = in_state(&c, from).await;
            let answer = c.patch(&at, json!({"status": to})).await;
            if (from, to) == ("closed", "pending") {
                answer.error(409, "invalid_transition", "*");
                assert_eq!(c.get(&at).await.expect(200)["status"], from);
            } else {
                let answer = answer.expect(200);
                assert_eq!(answer["status"], to, "{from} to {to}");
                assert_eq!(
                    answer["closed_at"].is_null(),
                    to != "closed",
                    "{from} to {to}"
                );
            }
        }
    }
}

#[tokio::test]
async fn closing_twice_changes_nothing() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let closed = c
        .post(&format!("{at}/close"), json!({"reason": "solved"}))
        .await
        .expect(200);
    assert_shape(&closed.body, CONVERSATION);
    assert_eq!(closed["status"], "closed");
    assert_recent(&closed["closed_at"]);
    let again = c
        .post(&format!("{at}/close"), json!({"reason": "another"}))
        .await
        .expect(200);
    assert_eq!((again.etag(), again.body), (closed.etag(), closed.body));
}

#[tokio::test]
async fn close_and_reopen_need_no_body() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    assert_eq!(
        c.call("POST", &format!("{at}/close")).await.expect(200)["status"],
        "closed"
    );
    let open = c.call("POST", &format!("{at}/reopen")).await.expect(200);
    assert_eq!(open["status"], "active");
    assert!(open["closed_at"].is_null());
}

#[tokio::test]
async fn reopening_what_is_not_closed_changes_nothing() {
    let (_account, c) = account_with_client().await;
    for status in ["active", "pending"] {
        let at = in_state(&c, status).await;
        let before = c.get(&at).await.expect(200);
        let after = c.call("POST", &format!("{at}/reopen")).await.expect(200);
        assert_eq!((after.etag(), after.body), (before.etag(), before.body));
    }
}

#[tokio::test]
async fn a_close_reason_has_1_to_500_characters() {
    let (_account, c) = account_with_client().await;
    let close = format!("{}/close", path(&c.conversation().await));
    for reason in [String::new(), "é".repeat(501)] {
        c.post(&close, json!({"reason": reason}))
            .await
            .error(400, "invalid_request", "reason");
    }
    c.post(&close, json!({"reason": "é".repeat(500)}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_customers_message_makes_a_pending_or_closed_conversation_active() {
    let (_account, c) = account_with_client().await;
    for status in ["pending", "closed"] {
        let at = in_state(&c, status).await;
        let sent = c
            .post(
                &format!("{at}/messages"),
                json!({"content": "Hello?", "sender_type": "customer"}),
            )
            .await;
        sent.expect(201);
        let now = c.get(&at).await.expect(200);
        assert_eq!(now["status"], "active", "from {status}");
        assert!(now["closed_at"].is_null());
    }
}

#[tokio::test]
async fn agents_and_system_can_not_write_into_a_closed_conversation() {
    let (_account, c) = account_with_client().await;
    for sender in ["agent", "system"] {
        let at = in_state(&c, "closed").await;
        let body = json!({"content": "One more thing", "sender_type": sender});
        c.post(&format!("{at}/messages"), body)
            .await
            .error(409, "conversation_closed", "*");
        let now = c.get(&at).await.expect(200);
        assert_eq!(
            (&now["status"], &now["message_count"]),
            (&json!("closed"), &json!(0))
        );
    }
}

#[tokio::test]
async fn an_agents_message_leaves_a_pending_conversation_pending() {
    let (_account, c) = account_with_client().await;
    let at = in_state(&c, "pending").await;
    c.post(
        &format!("{at}/messages"),
        json!({"content": "Still there?", "sender_type": "agent"}),
    )
    .await
    .expect(201);
    let now = c.get(&at).await.expect(200);
    assert_eq!(
        (&now["status"], &now["message_count"]),
        (&json!("pending"), &json!(1))
    );
}

#[tokio::test]
async fn test_and_live_conversations_do_not_see_each_other() {
    let account = account().await;
    let (test, live) = (account.test(), account.live());
    let at = path(&test.conversation().await);
    live.get(&at).await.error(404, "not_found", "*");
    live.patch(&at, json!({"priority": "low"}))
        .await
        .error(404, "not_found", "*");
    live.call("POST", &format!("{at}/close"))
        .await
        .error(404, "not_found", "*");
    assert_eq!(live.get("/v1/conversations").await.expect(200).total(), 0);
    test.get(&at).await.expect(200);
}

#[tokio::test]
async fn another_accounts_conversation_is_404_never_403() {
    let (_account, c) = account_with_client().await;
    let at = path(&c.conversation().await);
    let stranger = account().await;
    stranger.test().get(&at).await.error(404, "not_found", "*");
    stranger
        .test()
        .get(&format!("{at}/messages"))
        .await
        .error(404, "not_found", "*");
    stranger
        .test()
        .post(&format!("{at}/messages"), json!({"content": "x"}))
        .await
        .error(404, "not_found", "*");
    assert_eq!(
        stranger
            .test()
            .get("/v1/conversations")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn a_renamed_customer_stands_in_every_answer_at_once() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let at = path(&c.conversation_of(&customer).await);
    let before = c.get(&at).await.expect(200);
    c.patch(
        &format!("/v1/customers/{customer}"),
        json!({"name": "Ada King"}),
    )
    .await
    .expect(200);
    let expected = json!({"id": customer, "name": "Ada King"});
    let after = c.get(&at).await.expect(200);
    assert_eq!(after["customer"], expected);
    assert_ne!(
        after.etag(),
        before.etag(),
        "the ETag changes with everything that the answer shows"
    );
    assert_eq!(
        c.get("/v1/conversations").await.expect(200)["data"][0]["customer"],
        expected
    );
    assert_eq!(
        c.call("POST", &format!("{at}/close")).await.expect(200)["customer"],
        expected
    );
}

#[tokio::test]
async fn conversation_ids_increase_in_order_of_creation() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(c.conversation_of(&customer).await);
    }
    assert!(ids.is_sorted(), "{ids:?}");
    let mut listed = c
        .get("/v1/conversations")
        .await
        .expect(200)
        .column("conversation_id");
    listed.reverse();
    assert_eq!(listed, ids);
}

#[tokio::test]
async fn message_count_and_last_message_at_follow_the_messages() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    for count in 1..=3 {
        let sent = c.message(&conversation, "more").await;
        let now = c.get(&path(&conversation)).await.expect(200);
        assert_eq!(now["message_count"], count);
        assert_eq!(now["last_message_at"], sent["sent_at"]);
        let listed = c.get("/v1/conversations").await.expect(200);
        assert_eq!(listed["data"][0], now.body, "the list lags behind");
    }
    let at = shapes::instant(&c.get(&path(&conversation)).await["updated_at"]);
    assert!(at >= shapes::instant(&c.get(&path(&conversation)).await["created_at"]));
}
