//! Domains across nodes: what is proven at one is known at the other, and one of two accounts has it.

use serde_json::json;

use super::nodes_with;
use crate::domains::{both_verified, domain, host, prove, set, setup};
use crate::support::{Account, Nameserver};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_proven_at_one_node_holds_at_the_other() {
    let names = Nameserver::start();
    let nodes = nodes_with(&setup(&names), 2);
    let (a, b) = (
        Account::make(nodes[0].anonymous()).await,
        Account::make(nodes[0].anonymous()).await,
    );
    let host = host();
    prove(&names, &a, &host).await;
    // It may be the other node that has found the record: this answer is one of a change here.
    set(&a, json!({"cors_origins": ["https://app.shop.example"]}))
        .await
        .expect(200);
    let (a, b) = (a.at(nodes[1].anonymous()), b.at(nodes[1].anonymous()));
    let there = |account: &Account| account.test().get("/v1").with("host", &host);
    there(&a).await.expect(200);
    there(&b).await.error(404, "not_found", "");
    let page = there(&a).with("origin", "https://app.shop.example");
    let origin = page.await.expect(200);
    assert_eq!(
        origin.header("access-control-allow-origin"),
        "https://app.shop.example"
    );
    set(&a, json!({"domains": []})).await.expect(200);
    let b = b.at(nodes[0].anonymous());
    there(&b).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_accounts_at_two_nodes_one_has_the_domain() {
    let names = Nameserver::start();
    let nodes = nodes_with(&setup(&names), 2);
    let accounts = [
        Account::make(nodes[0].anonymous()).await,
        Account::make(nodes[1].anonymous()).await,
    ];
    let host = host();
    let (one, other) = both_verified(&names, &accounts, &host).await;
    let [first, second] = &accounts;
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{one}\n{other}");
    let states = [domain(first, 0).await, domain(second, 0).await];
    let proven = states.iter().filter(|one| one["state"] == "proven");
    assert_eq!(proven.count(), 1, "{states:?}");
}
