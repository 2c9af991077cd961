//! What accounts are told of their limits across nodes: whichever of them find that a limit is reached,
//! it is told once.

use serde_json::json;

use super::nodes;
use crate::alerts::{change, percents, recorded};

/// Requests that each node is sent.
const AT_EACH: u64 = 40;

#[tokio::test]
async fn nodes_that_find_the_same_limit_reached_tell_it_once() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let operator = account.operator();
    // Each node sees the marks: what it let in alone is enough.
    change(&account, json!({"monthly_quota": AT_EACH})).await;
    let first = account.test();
    let second = first.at(&nodes[1].address());
    let asks = (0..AT_EACH).flat_map(|_| [&first, &second]);
    futures_util::future::join_all(asks.map(async |client| client.get("/v1").await.status)).await;
    recorded(&account, &operator, 4).await;
    for client in [&first, &second] {
        client.get("/v1").await.error(429, "quota_exceeded", "");
    }
    // A key that both refuse for its rate.
    let low = json!({"monthly_quota": 0, "plan": "enterprise", "rate_per_minute": 30, "burst_per_minute": 30});
    change(&account, low).await;
    let (limited, _) = account.key(json!({"type": "prod"})).await;
    let elsewhere = limited.at(&nodes[1].address());
    let asks = (0..AT_EACH * 2).flat_map(|_| [&limited, &elsewhere]);
    futures_util::future::join_all(asks.map(async |client| client.get("/v1").await.status)).await;
    recorded(&account, &operator, 5).await;
    change(
        &account,
        json!({"rate_per_minute": 6_000, "burst_per_minute": 6_000}),
    )
    .await;
    for node in &nodes {
        let address = node.address();
        for client in [account.test().at(&address), account.live().at(&address)] {
            assert_eq!(percents(&client).await, [80, 100]);
        }
        let live = account.live().at(&address);
        let page = live
            .get("/v1/events?after=0&event=account.rate_limited")
            .await
            .expect(200);
        assert_eq!(page.total(), 1, "{page}");
    }
}
