//! `/v1/customers`: creation, change, uniqueness, deletion.

use serde_json::json;

use crate::support::shapes::{CUSTOMER, assert_id, assert_recent, assert_shape};
use crate::support::{account, account_with_client, unique};

#[tokio::test]
async fn a_customer_answers_with_every_field_and_reads_back_the_same() {
    let (_account, c) = account_with_client().await;
    let made = c
        .post("/v1/customers", json!({"name": "Ada"}))
        .await
        .expect(201);
    assert_shape(&made.body, CUSTOMER);
    assert_id(&made["customer_id"], "cus_");
    assert!(made["email"].is_null() && made["external_id"].is_null());
    assert_eq!(made["metadata"], json!({}));
    assert_recent(&made["created_at"]);
    let at = format!("/v1/customers/{}", made.id("customer_id"));
    assert_eq!(made.header("location"), at);
    let read = c.get(&at).await.expect(200);
    assert_eq!((read.etag(), read.body), (made.etag(), made.body));
}

#[tokio::test]
async fn a_patch_changes_a_customer_and_null_empties_what_is_optional() {
    let (_account, c) = account_with_client().await;
    let body = json!({"name": "Ada", "email": "ada@example.com", "external_id": "crm-1", "metadata": {"a": 1}});
    let at = c
        .post("/v1/customers", body)
        .await
        .expect(201)
        .header("location")
        .to_owned();
    let patch =
        json!({"name": "Ada King", "email": null, "external_id": null, "metadata": {"b": 2}});
    let after = c.patch(&at, patch).await.expect(200);
    assert_eq!(after["name"], "Ada King");
    assert!(after["email"].is_null() && after["external_id"].is_null());
    assert_eq!(after["metadata"], json!({"a": 1, "b": 2}));
    c.patch(&at, json!({"name": null}))
        .await
        .error(400, "invalid_request", "name");
    let same = c.patch(&at, json!({})).await.expect(200);
    assert_eq!((same.etag(), same.body), (after.etag(), after.body));
}

#[tokio::test]
async fn an_external_id_is_taken_once_in_each_mode() {
    let account = account().await;
    let c = account.test();
    let body = json!({"name": "Ada", "external_id": "crm-7"});
    c.post("/v1/customers", body.clone()).await.expect(201);
    c.post("/v1/customers", body.clone())
        .await
        .error(409, "conflict", "external_id");
    account.live().post("/v1/customers", body).await.expect(201);
    let other = c.customer().await;
    let taken = c
        .patch(
            &format!("/v1/customers/{other}"),
            json!({"external_id": "crm-7"}),
        )
        .await;
    taken.error(409, "conflict", "external_id");
}

#[tokio::test]
async fn an_external_id_is_free_again_after_deletion() {
    let (_account, c) = account_with_client().await;
    let body = json!({"name": "Ada", "external_id": "crm-8"});
    let at = c
        .post("/v1/customers", body.clone())
        .await
        .expect(201)
        .header("location")
        .to_owned();
    c.delete(&at).await.expect(204);
    c.post("/v1/customers", body).await.expect(201);
}

#[tokio::test]
async fn of_32_who_want_the_same_external_id_at_once_one_gets_it() {
    let (_account, c) = account_with_client().await;
    let posts = (0..32).map(|_| {
        let c = c.clone();
        async move {
            c.post(
                "/v1/customers",
                json!({"name": "Ada", "external_id": "race"}),
            )
            .await
            .status
        }
    });
    let mut statuses = futures_util::future::join_all(posts).await;
    statuses.sort_unstable();
    assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 31][..]));
    assert_eq!(
        c.get("/v1/customers?external_id=race")
            .await
            .expect(200)
            .total(),
        1
    );
}

#[tokio::test]
async fn two_customers_may_share_an_email() {
    let (_account, c) = account_with_client().await;
    let email = format!("{}@example.com", unique("shared"));
    for _ in 0..2 {
        c.post("/v1/customers", json!({"name": "Ada", "email": email}))
            .await
            .expect(201);
    }
    assert_eq!(
        c.get(&format!("/v1/customers?email={email}"))
            .await
            .expect(200)
            .total(),
        2
    );
}

#[tokio::test]
async fn filters_find_by_email_and_external_id() {
    let (_account, c) = account_with_client().await;
    for n in 0..5 {
        let body = json!({"name": "N", "email": format!("n{n}@example.com"), "external_id": format!("x{n}")});
        c.post("/v1/customers", body).await.expect(201);
    }
    for query in [
        "email=n3@example.com",
        "external_id=x3",
        "external_id=x3&email=n3@example.com",
    ] {
        let found = c.get(&format!("/v1/customers?{query}")).await.expect(200);
        assert_eq!(
            (found.total(), found.column("external_id")),
            (1, vec!["x3".to_owned()]),
            "{query}"
        );
    }
    assert_eq!(
        c.get("/v1/customers?external_id=x3&email=n4@example.com")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn a_deleted_customer_leaves_lists_at_once_and_is_404() {
    let (_account, c) = account_with_client().await;
    let id = c.customer().await;
    let at = format!("/v1/customers/{id}");
    assert!(c.delete(&at).await.expect(204).bytes.is_empty());
    c.get(&at).await.error(404, "not_found", "*");
    c.patch(&at, json!({"name": "x"}))
        .await
        .error(404, "not_found", "*");
    c.delete(&at).await.error(404, "not_found", "*");
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 0);
    c.post("/v1/conversations", json!({"customer_id": id}))
        .await
        .error(400, "invalid_request", "customer_id");
}

#[tokio::test]
async fn a_customer_with_conversations_can_not_be_deleted() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let conversation = c.conversation_of(&customer).await;
    c.delete(&format!("/v1/customers/{customer}"))
        .await
        .error(409, "conflict", "*");
    c.call("POST", &format!("/v1/conversations/{conversation}/close"))
        .await
        .expect(200);
    c.delete(&format!("/v1/customers/{customer}"))
        .await
        .error(409, "conflict", "*");
    c.get(&format!("/v1/customers/{customer}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn deleting_a_customer_and_opening_a_conversation_with_it_never_both_succeed() {
    let (_account, c) = account_with_client().await;
    for _ in 0..20 {
        let customer = c.customer().await;
        let path = format!("/v1/customers/{customer}");
        let open = async {
            c.post("/v1/conversations", json!({"customer_id": customer}))
                .await
                .status
        };
        let (open, delete) =
            futures_util::future::join(open, async { c.delete(&path).await.status }).await;
        assert!(
            matches!((open, delete), (201, 409) | (400, 204)),
            "opened {open}, deleted {delete}"
        );
    }
}

#[tokio::test]
async fn another_accounts_customer_is_404() {
    let (_account, c) = account_with_client().await;
    let at = format!("/v1/customers/{}", c.customer().await);
    let stranger = account().await;
    stranger.test().get(&at).await.error(404, "not_found", "*");
    stranger
        .test()
        .delete(&at)
        .await
        .error(404, "not_found", "*");
    c.get(&at).await.expect(200);
}
