//! `offset` up to what every JSON reader can count to: each list answers with nothing, within the
//! time that a read may take.

use serde_json::json;

use crate::support::{Account, account, shared};

/// 2^53 - 1.
const FARTHEST: u64 = 9_007_199_254_740_991;

/// The path of every list that takes an `offset`.
async fn lists(account: &Account) -> Vec<String> {
    let c = account.test();
    let conversation = c.conversation().await;
    let message = c.message(&conversation, "a word").await.id("message_id");
    let document = c.document("a line\n").await;
    let hook = c
        .post("/v1/webhooks", json!({"url": "https://example.com/"}))
        .await
        .expect(201)
        .id("webhook_id");
    let mut paths: Vec<String> = [
        "/v1/conversations",
        "/v1/conversations?status=active",
        "/v1/conversations?sort=updated_at",
        "/v1/conversations?priority=normal&channel=chat",
        "/v1/customers",
        "/v1/users",
        "/v1/webhooks",
        "/api/v1/documents",
        "/api/v1/documents?q=line",
        "/api/v1/documents?sort=title",
        "/api/v1/documents?deleted=true",
    ]
    .map(str::to_owned)
    .into();
    paths.push(format!("/v1/conversations/{conversation}/messages"));
    paths.push(format!(
        "/v1/conversations/{conversation}/messages?sender_type=customer"
    ));
    paths.push(format!(
        "/v1/conversations/{conversation}/messages/{message}/revisions"
    ));
    paths.push(format!("/v1/webhooks/{hook}/deliveries"));
    paths.extend(
        ["versions", "collaborators", "share", "comments", "activity"]
            .map(|list| format!("{document}/{list}")),
    );
    paths
}

#[tokio::test]
async fn an_offset_of_any_size_is_answered_with_nothing() {
    let account = account().await;
    let c = account.test();
    for path in lists(&account).await {
        let and = if path.contains('?') { '&' } else { '?' };
        for offset in [1 << 31, 1 << 32, FARTHEST] {
            let page = c
                .get(&format!("{path}{and}offset={offset}&limit=100"))
                .await
                .expect(200);
            assert!(page.data().is_empty(), "{path}: {page}");
        }
        for offset in [
            "9007199254740992",
            "18446744073709551615",
            "18446744073709551616",
            "-1",
        ] {
            c.get(&format!("{path}{and}offset={offset}")).await.error(
                400,
                "invalid_request",
                "offset",
            );
        }
    }
    let operator = shared().operator();
    for path in ["/admin/v1/accounts", "/admin/v1/webhooks"] {
        assert!(
            operator
                .get(&format!("{path}?offset={FARTHEST}"))
                .await
                .expect(200)
                .data()
                .is_empty(),
            "{path}"
        );
    }
}
