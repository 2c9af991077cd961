//! Limits in step across nodes: what is spent at one counts at the others about a second later.

use serde_json::json;

use super::{SLACK, nodes, nodes_with};
use crate::support::console::PASSWORD;
use crate::support::{Account, Client, Person, Server, Setup, until};

/// The test key of an account with these limits, at each node.
async fn limited(nodes: &[Server], rate: u64, burst: u64) -> Vec<Client> {
    let account: Account = nodes[0].account().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let body = json!({"plan": "enterprise", "rate_per_minute": rate, "burst_per_minute": burst});
    account.operator().patch(&at, body).await.expect(200);
    let at_each = nodes.iter().map(|node| account.test().at(&node.address()));
    at_each.collect()
}

/// How many of so many requests, made at once, pass.
async fn passed(client: &Client, requests: u64) -> u64 {
    let asks = (0..requests).map(|_| async { client.get("/v1").await.status });
    let statuses = futures_util::future::join_all(asks).await;
    assert!(statuses.iter().all(|status| [200, 429].contains(status)));
    statuses.iter().filter(|status| **status == 200).count() as u64
}

#[tokio::test]
async fn what_a_key_spends_at_one_node_is_spent_at_every_other() {
    const SPENT: u64 = 300;
    let nodes = nodes(3);
    let clients = limited(&nodes, 1_000, 1_000).await;
    assert_eq!(passed(&clients[0], SPENT).await, SPENT);
    for client in &clients[1..] {
        let mut looks = 0;
        until("what was spent counts here", SLACK, async || {
            looks += 1;
            let left = client.get("/v1").await.expect(200);
            (left.number("x-ratelimit-remaining") + SPENT + looks <= 1_000).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nodes_together_exceed_a_limit_by_what_they_spent_before_they_heard_of_one_another() {
    const BURST: u64 = 600;
    const AT_EACH: u64 = 400;
    let nodes = nodes(2);
    let clients = limited(&nodes, 60, BURST).await;
    let at_once = clients.iter().map(|client| passed(client, AT_EACH));
    let mut spent: u64 = futures_util::future::join_all(at_once).await.iter().sum();
    for client in &clients {
        until("nothing is left here", SLACK, async || {
            let status = client.get("/v1").await.status;
            spent += u64::from(status == 200);
            (status == 429).then_some(())
        })
        .await;
    }
    assert!(spent < 2 * BURST, "{spent} passed");
    for client in &clients {
        let refused = client.get("/v1").await.error(429, "rate_limited", "");
        assert!(refused.number("retry-after") > 1, "{refused}");
    }
}

#[tokio::test]
async fn who_guesses_keys_or_links_is_limited_at_every_node() {
    const TRIES: usize = 150;
    let setup = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "150")
        .env(
            "COLLOQUY__LIMITS__LINK_REQUESTS_PER_ADDRESS_PER_MINUTE",
            "150",
        );
    let nodes = nodes_with(&setup, 2);
    for (path, unlimited) in [("/v1/conversations", 401), ("/s/nowhere", 404)] {
        let at = Server::anonymous;
        for _ in 0..TRIES {
            at(&nodes[0]).get(path).await.expect(unlimited);
        }
        let mut looks = 0;
        until("it is limited at the other node", SLACK, async || {
            looks += 1;
            let status = at(&nodes[1]).get(path).await.status;
            assert!([unlimited, 429].contains(&status), "{status}");
            (status == 429).then_some(())
        })
        .await;
        assert!(looks < TRIES, "{path}: {looks} tries at the other node");
    }
}

#[tokio::test]
async fn who_guesses_the_password_of_a_link_is_limited_at_every_node() {
    let nodes = nodes(2);
    let owner = nodes[0].account().await.test();
    let document = owner.document("behind a password\n").await;
    let (_, link) = owner
        .share(&document, json!({"password": "open sesame"}))
        .await;
    let guess = |node: &Server, password: &str| {
        let asked = node.anonymous().get(&link);
        asked
            .with("accept", "application/json")
            .with("x-share-password", password)
    };
    guess(&nodes[1], "open sesame").await.expect(200);
    for _ in 0..10 {
        guess(&nodes[0], "mellon").await.expect(401);
    }
    guess(&nodes[0], "open sesame").await.expect(429);
    until(
        "the right one is not looked at there either",
        SLACK,
        async || {
            let status = guess(&nodes[1], "open sesame").await.status;
            assert!([200, 429].contains(&status), "{status}");
            (status == 429).then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn who_guesses_the_password_of_a_person_is_limited_at_every_node() {
    let nodes = nodes(2);
    let account = nodes[0].account().await;
    let person = Person::user(&account, "agent").await;
    let user = account
        .live()
        .get(&format!("/v1/users/{}", person.user))
        .await;
    let email = user.expect(200).body["email"].as_str().unwrap().to_owned();
    let guess = async |node: &Server, password: &str| {
        let fields = [("name", email.as_str()), ("password", password)];
        Person::stranger(node).sign_in(&fields).await.status
    };
    assert_eq!(guess(&nodes[1], PASSWORD).await, 303);
    for _ in 0..10 {
        assert_eq!(guess(&nodes[0], "mellon").await, 422);
    }
    assert_eq!(guess(&nodes[0], PASSWORD).await, 429);
    until(
        "the right one is not looked at there either",
        SLACK,
        async || {
            let status = guess(&nodes[1], PASSWORD).await;
            assert!([303, 429].contains(&status), "{status}");
            (status == 429).then_some(())
        },
    )
    .await;
    // A browser in which the person signed in at one node is known at the other.
    let mut at_other = Person::stranger(&nodes[1]);
    at_other.known_by = person.known_by.clone();
    let fields = [("name", email.as_str()), ("password", PASSWORD)];
    at_other.sign_in(&fields).await.expect(303);
}

#[tokio::test]
async fn an_account_that_asks_for_many_lists_at_once_holds_up_nobody_else() {
    const AT_ONCE: usize = 200;
    let setup = Setup::default().env("COLLOQUY__LIMITS__READS_WAITING_PER_ACCOUNT", "4");
    let nodes = nodes_with(&setup, 1);
    let greedy = nodes[0].account().await.test();
    let modest = nodes[0].account().await.test();
    greedy.conversation().await;
    modest.conversation().await;
    let list = async |client: &Client| client.get("/v1/conversations").await;
    let many = futures_util::future::join_all((0..AT_ONCE).map(|_| list(&greedy)));
    let few = async {
        for _ in 0..5 {
            list(&modest).await.expect(200);
        }
    };
    let (many, ()) = futures_util::future::join(many, few).await;
    let mut refused = 0;
    for answer in many {
        if answer.status != 200 {
            answer.error(503, "unavailable", "");
            refused += 1;
        }
    }
    assert!((1..AT_ONCE).contains(&refused), "{refused} of {AT_ONCE}");
}

#[tokio::test]
async fn operators_see_at_each_node_what_a_key_asked_at_all_of_them() {
    let nodes = nodes(2);
    let clients = limited(&nodes, 1_000, 1_000).await;
    for client in &clients {
        assert_eq!(passed(client, 20).await, 20);
    }
    for node in &nodes {
        let operator = node.anonymous().with_operator(crate::support::OPERATOR);
        until("both nodes' requests are shown here", SLACK, async || {
            let shown = operator.get("/admin/v1/limits").await.expect(200);
            let minutes = shown["nearest"][0]["minutes"].as_array()?.iter();
            let requests: u64 = minutes.map(|one| one["requests"].as_u64().unwrap()).sum();
            (requests == 40).then_some(())
        })
        .await;
    }
}
