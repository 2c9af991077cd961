//! Encrypted texts across nodes: what one writes the others read, and what one forgets is gone at all of
//! them.

use serde_json::json;

use super::nodes_with;
use crate::support::Setup;

/// 32 bytes in base64.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[tokio::test]
async fn what_one_node_encrypts_others_read_until_one_forgets_the_account() {
    let setup = Setup::default()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env("COLLOQUY__ENCRYPTION__MASTER_KEY", MASTER_KEY);
    let nodes = nodes_with(&setup, 2);
    // The second node learns of the account, and of its keys, from the log.
    let account = nodes[0].account().await;
    let (here, there) = (account.test(), account.test().at(&nodes[1].address()));
    let customer = there.customer().await;
    let taken = json!({"name": "Another", "external_id": "one-of-a-kind"});
    here.post("/v1/customers", taken.clone()).await.expect(201);
    let twice = there.post("/v1/customers", taken);
    twice.await.error(409, "conflict", "external_id");
    let conversation = here.conversation_of(&customer).await;
    let sent = there
        .message(&conversation, "said at the second node")
        .await;
    let message = sent.header("location").to_owned();
    let read = here.get(&message).await.expect(200);
    assert_eq!(read["content"], "said at the second node");
    here.patch(&message, json!({"content": "edited at the first"}))
        .await
        .expect(200);
    let at = format!("/v1/conversations/{conversation}");
    for node in [&here, &there] {
        for path in [format!("{at}/messages"), format!("{at}/events")] {
            let list = node.get(&path).await.expect(200);
            assert!(
                list.body.to_string().contains("edited at the first"),
                "{list}"
            );
        }
    }
    let renamed = json!({"name": "Named anew"});
    let path = format!("/v1/customers/{customer}");
    there.patch(&path, renamed).await.expect(200);
    let shown = here.get(&at).await.expect(200);
    assert_eq!(shown["customer"]["name"], "Named anew");

    let path = format!("/admin/v1/accounts/{}/forget", account.account_id);
    let operator = account.operator().at(&nodes[1].address());
    operator.post(&path, json!({})).await.expect(200);
    for node in [&here, &there] {
        node.get(&at).await.error(401, "unauthorized", "");
    }
    let other = nodes[0].account().await.test().at(&nodes[1].address());
    other.conversation().await;
    for node in &nodes {
        node.assert_quiet();
    }
}
