//! `/v1/users`: agents and authors, acting for them, and what their role allows.

use serde_json::json;

use crate::support::shapes::{USER, assert_id, assert_shape};
use crate::support::{account, account_with_client};

#[tokio::test]
async fn a_user_answers_with_every_field_and_reads_back_the_same() {
    let (_account, c) = account_with_client().await;
    let body = json!({"name": "Grace", "email": "grace@example.com", "role": "agent"});
    let made = c.post("/v1/users", body.clone()).await.expect(201);
    assert_shape(&made.body, USER);
    assert_id(&made["user_id"], "usr_");
    for field in ["name", "email", "role"] {
        assert_eq!(made[field], body[field]);
    }
    let at = format!("/v1/users/{}", made.id("user_id"));
    assert_eq!(made.header("location"), at);
    let read = c.get(&at).await.expect(200);
    assert_eq!((read.etag(), read.body), (made.etag(), made.body));
}

#[tokio::test]
async fn users_belong_to_both_modes() {
    let account = account().await;
    let user = account.test().user("agent").await;
    let read = account
        .live()
        .get(&format!("/v1/users/{user}"))
        .await
        .expect(200);
    assert_eq!(read["user_id"], user.as_str());
    assert_eq!(account.read().get("/v1/users").await.expect(200).total(), 1);
}

#[tokio::test]
async fn an_email_is_unique_in_the_account_and_across_modes() {
    let account = account().await;
    let body = json!({"name": "Grace", "email": "one@example.com", "role": "agent"});
    account
        .test()
        .post("/v1/users", body.clone())
        .await
        .expect(201);
    account
        .live()
        .post("/v1/users", body.clone())
        .await
        .error(409, "conflict", "email");
    crate::support::account()
        .await
        .test()
        .post("/v1/users", body)
        .await
        .expect(201);
    let other = account.test().user("agent").await;
    let taken = account
        .test()
        .patch(
            &format!("/v1/users/{other}"),
            json!({"email": "one@example.com"}),
        )
        .await;
    taken.error(409, "conflict", "email");
}

#[tokio::test]
async fn a_role_is_admin_or_agent() {
    let (_account, c) = account_with_client().await;
    let body = json!({"name": "Grace", "email": "g@example.com", "role": "owner"});
    c.post("/v1/users", body)
        .await
        .error(400, "invalid_request", "role");
    let user = c.user("agent").await;
    let after = c
        .patch(
            &format!("/v1/users/{user}"),
            json!({"role": "admin", "name": "Rear Admiral"}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&after["role"], &after["name"]),
        (&json!("admin"), &json!("Rear Admiral"))
    );
}

#[tokio::test]
async fn a_deleted_users_assignments_read_as_null_from_the_answer_on() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let mut conversations = Vec::new();
    for _ in 0..3 {
        let id = c.conversation().await;
        c.patch(
            &format!("/v1/conversations/{id}"),
            json!({"assignee_id": user}),
        )
        .await
        .expect(200);
        conversations.push(id);
    }
    c.delete(&format!("/v1/users/{user}")).await.expect(204);
    for id in conversations {
        assert!(
            c.get(&format!("/v1/conversations/{id}")).await.expect(200)["assignee_id"].is_null()
        );
    }
    let listed = c.get("/v1/conversations").await.expect(200);
    assert!(
        listed
            .data()
            .iter()
            .all(|conversation| conversation["assignee_id"].is_null())
    );
    c.get(&format!("/v1/users/{user}"))
        .await
        .error(404, "not_found", "*");
    assert_eq!(c.get("/v1/users").await.expect(200).total(), 0);
}

#[tokio::test]
async fn an_unknown_acting_user_is_a_bad_request() {
    let (_account, c) = account_with_client().await;
    let stranger = account().await.test().user("agent").await;
    for user in [
        "usr_0190163d8694739b85d52d5e4a4d6d5f",
        stranger.as_str(),
        "nobody",
    ] {
        let refused = c
            .acting_for(user)
            .get("/v1/conversations")
            .await
            .expect(400);
        assert_eq!(refused["error"]["code"], "invalid_request");
    }
}

#[tokio::test]
async fn an_agent_may_not_manage_users() {
    let (_account, c) = account_with_client().await;
    let (agent, admin) = (c.user("agent").await, c.user("admin").await);
    let body = json!({"name": "New", "email": "new@example.com", "role": "agent"});
    c.acting_for(&agent)
        .post("/v1/users", body.clone())
        .await
        .error(403, "forbidden", "*");
    c.acting_for(&agent)
        .delete(&format!("/v1/users/{admin}"))
        .await
        .error(403, "forbidden", "*");
    c.acting_for(&admin)
        .post("/v1/users", body)
        .await
        .expect(201);
    c.acting_for(&agent)
        .get("/v1/conversations")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_key_of_one_user_can_not_act_for_another() {
    let account = account().await;
    let c = account.test();
    let (mine, other) = (c.user("agent").await, c.user("agent").await);
    let (key, _) = account.key(json!({"type": "test", "user_id": mine})).await;
    key.acting_for(&other)
        .get("/v1/conversations")
        .await
        .expect(403);
    key.acting_for(&mine)
        .get("/v1/conversations")
        .await
        .expect(200);
    let conversation = c.conversation().await;
    let sent = key.message(&conversation, "as myself").await;
    assert_eq!(
        (&sent["sender_type"], &sent["sender_id"]),
        (&json!("agent"), &json!(mine))
    );
}

#[tokio::test]
async fn another_accounts_user_is_404() {
    let user = account().await.test().user("agent").await;
    let stranger = account().await;
    stranger
        .test()
        .get(&format!("/v1/users/{user}"))
        .await
        .error(404, "not_found", "*");
    stranger
        .test()
        .delete(&format!("/v1/users/{user}"))
        .await
        .error(404, "not_found", "*");
}
