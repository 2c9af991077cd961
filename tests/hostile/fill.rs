//! Much data in little time: operations by the hundred, over a few connections at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::Client;

/// Operations of one request.
const BULK: usize = 100;
/// Requests under way.
const AT_ONCE: usize = 4;
/// Within this, everything that can be answered is, on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// Makes a customer and so many conversations with it, of one channel and priority; gives the
/// customer.
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
            assert!(
                answer
                    .data()
                    .iter()
                    .all(|result| result["status"].as_u64().unwrap() < 300),
                "{answer}"
            );
        }
    });
    futures_util::stream::iter(requests)
        .buffer_unordered(AT_ONCE)
        .collect::<()>()
        .await;
}

/// Sends this again and again over so many connections at once for so long, whatever is answered;
/// gives the answers' number by status.
pub(super) async fn ask_for(
    seconds: u64,
    connections: usize,
    call: impl AsyncFn(usize) -> u16,
) -> BTreeMap<u16, usize> {
    let end = Instant::now() + Duration::from_secs(seconds);
    ask_while(connections, call, |_| Instant::now() < end).await
}

/// The same until each of these statuses was answered, but not for ever.
pub(super) async fn ask_for_all(
    wanted: &[u16],
    connections: usize,
    call: impl AsyncFn(usize) -> u16,
) -> BTreeMap<u16, usize> {
    let end = Instant::now() + ANSWERED_WITHIN;
    let missing =
        |counted: &BTreeMap<u16, usize>| wanted.iter().any(|status| !counted.contains_key(status));
    ask_while(connections, call, |counted| {
        missing(counted) && Instant::now() < end
    })
    .await
}

async fn ask_while(
    connections: usize,
    call: impl AsyncFn(usize) -> u16,
    goes_on: impl Fn(&BTreeMap<u16, usize>) -> bool,
) -> BTreeMap<u16, usize> {
    let counted = RefCell::new(BTreeMap::new());
    let asking = (0..connections).map(async |connection| {
        let mut turn = connection;
        while goes_on(&counted.borrow()) {
            let status = call(turn).await;
            *counted.borrow_mut().entry(status).or_insert(0) += 1;
            turn += 1;
        }
    });
    join_all(asking).await;
    counted.into_inner()
}
