//! Much data in little time: operations by the hundred, over a few connections at once.

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::Client;

/// Operations of one request.
const BULK: usize = 100;
/// Requests under way.
const AT_ONCE: usize = 4;

/// Makes a customer and so many conversations with it, of one channel and priority; gives the customer.
pub(super) async fn conversations(client: &Client, count: usize) -> String {
    let customer = client.customer().await;
    conversations_of(client, &customer, count).await;
    customer
}

/// Makes so many conversations with this customer, of one channel and priority.
pub(super) async fn conversations_of(client: &Client, customer: &str, count: usize) {
    let create = json!({"op": "create", "body": {"customer_id": customer, "channel": "email", "priority": "high"}});
    bulk(client, vec![create; count]).await;
}

/// Carries out these operations, each with success.
pub(super) async fn bulk(client: &Client, operations: Vec<Value>) {
    let requests = operations.chunks(BULK).map(|some| {
        let call = client.post("/v1/conversations/bulk", json!({"operations": some}));
        async move {
            let answer = call.await.expect(200);
            assert!(answer.data().iter().all(|result| result["status"].as_u64().unwrap() < 300), "{answer}");
        }
    });
    futures_util::stream::iter(requests).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Sends this again and again over so many connections at once for so long, whatever is answered; gives the answers' number
/// by status.
pub(super) async fn ask_for(
    seconds: u64,
    connections: usize,
    call: impl AsyncFn(usize) -> u16,
) -> std::collections::BTreeMap<u16, usize> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let asking = (0..connections).map(async |connection| {
        let mut statuses = Vec::new();
        while std::time::Instant::now() < end {
            statuses.push(call(connection + statuses.len()).await);
        }
        statuses
    });
    let mut counted = std::collections::BTreeMap::new();
    for status in futures_util::future::join_all(asking).await.into_iter().flatten() {
        *counted.entry(status).or_insert(0) += 1;
    }
    counted
}
