//! What a commit needs beyond its own entity holds with any number of nodes: what one node alone
//! would refuse is not acknowledged by two.

use futures_util::future::{join, join_all};
use serde_json::json;

use std::time::Duration;

use super::{nodes, nodes_with};
use crate::support::documents::DOCUMENTS;
use crate::support::{Answer, Client, Server, Setup, sized};

/// The tests' account at each of these nodes.
async fn at_each(nodes: &[Server]) -> Vec<Client> {
    let account = nodes[0].account().await;
    let at = |node: &Server| account.test().at(&node.address());
    nodes.iter().map(at).collect()
}

#[tokio::test]
async fn of_racers_at_three_nodes_who_want_one_name_exactly_one_gets_it() {
    let nodes = nodes(3);
    let at = at_each(&nodes).await;
    for round in 0..sized(10, 6) {
        let (email, external_id) = (format!("{round}@example.com"), format!("crm-{round}"));
        let user = json!({"name": "Grace", "email": email, "role": "agent"});
        let customer = json!({"name": "Ada", "external_id": external_id});
        for (path, body) in [("/v1/users", user), ("/v1/customers", customer)] {
            let posts = at.iter().chain(&at).map(|at| at.post(path, body.clone()));
            let answers = join_all(posts.map(IntoFuture::into_future)).await;
            let made = answers.iter().filter(|answer| answer.status == 201);
            assert_eq!(made.count(), 1, "round {round}: {answers:?}");
            let field = if path == "/v1/users" {
                "email"
            } else {
                "external_id"
            };
            for refused in answers.into_iter().filter(|answer| answer.status != 201) {
                refused.error(409, "conflict", field);
            }
        }
        for at in &at {
            let found = format!("/v1/customers?external_id={external_id}");
            assert_eq!(at.get(&found).await.expect(200).total(), 1);
        }
    }
}

#[tokio::test]
async fn a_name_given_up_at_one_node_is_free_at_the_other_and_taken_once() {
    let nodes = nodes(2);
    let at = at_each(&nodes).await;
    let named = |name: &str| json!({"name": "Ada", "external_id": name});
    let first = at[0].post("/v1/customers", named("old")).await.expect(201);
    let first = format!("/v1/customers/{}", first.id("customer_id"));
    for round in 0..sized(8, 4) {
        // It is renamed to and fro at one node, while others want both names at the other.
        let to = json!({"external_id": if round % 2 == 0 { "new" } else { "old" }});
        let (renamed, made) = join(
            at[round % 2].patch(&first, to.clone()).into_future(),
            at[(round + 1) % 2]
                .post("/v1/customers", named(to["external_id"].as_str().unwrap()))
                .into_future(),
        )
        .await;
        assert!(
            matches!((renamed.status, made.status), (200, 409) | (409, 201)),
            "round {round}: {renamed}, {made}"
        );
        if made.status == 201 {
            let other = format!("/v1/customers/{}", made.id("customer_id"));
            at[round % 2].delete(&other).await.expect(204);
            at[(round + 1) % 2].patch(&first, to).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_customer_is_deleted_at_one_node_or_gets_a_conversation_at_the_other() {
    let nodes = nodes(2);
    let at = at_each(&nodes).await;
    for round in 0..sized(20, 10) {
        let (deletes, creates) = (&at[round % 2], &at[(round + 1) % 2]);
        let customer = deletes.customer().await;
        let path = format!("/v1/customers/{customer}");
        creates.get(&path).await.expect(200);
        let open = json!({"customer_id": customer});
        let opened = join_all((0..2).map(|_| {
            creates
                .post("/v1/conversations", open.clone())
                .into_future()
        }));
        let (opened, deleted) = join(opened, deletes.delete(&path).into_future()).await;
        let statuses: Vec<_> = opened.iter().map(|opened| opened.status).collect();
        assert!(
            match deleted.status {
                204 => statuses.iter().all(|status| *status == 400),
                409 => statuses.contains(&201),
                _ => false,
            },
            "round {round}: opened {opened:?}, deleted {deleted}"
        );
    }
}

#[tokio::test]
async fn a_user_is_deleted_at_one_node_or_owns_a_document_that_the_other_makes() {
    let nodes = nodes(2);
    let at = at_each(&nodes).await;
    // Milliseconds by which the deletion begins later: moved towards where both end at once.
    let mut later = 0_i64;
    for round in 0..sized(10, 8) {
        let (here, there) = (&at[round % 2], &at[(round + 1) % 2]);
        let user = here.user("agent").await;
        let path = format!("/v1/users/{user}");
        there.get(&path).await.expect(200);
        let document = json!({"title": "theirs", "content": "text"});
        let owner = there.acting_for(&user);
        let begins =
            |at_ms: i64| tokio::time::sleep(Duration::from_millis(at_ms.max(0).unsigned_abs()));
        let written = async {
            begins(-later).await;
            let posts = (0..3).map(|_| owner.post(DOCUMENTS, document.clone()));
            join_all(posts.map(IntoFuture::into_future)).await
        };
        let deleted = async {
            begins(later).await;
            here.delete(&path).await
        };
        let (written, deleted) = join(written, deleted).await;
        let made = written.iter().filter(|made| made.status == 201).count();
        let refused = written.iter().filter(|made| made.status == 400).count();
        assert_eq!(made + refused, written.len(), "round {round}: {written:?}");
        assert!(
            matches!((deleted.status, made), (204, 0) | (409, 1..)),
            "round {round}: deleted {deleted}, made {written:?}"
        );
        later += if made == 0 { 5 } else { -5 };
    }
}

#[tokio::test]
async fn two_nodes_together_take_no_more_endpoints_than_one_account_may_have() {
    const MOST: usize = 10;
    let bound = Setup::default().env("COLLOQUY__BOUNDS__WEBHOOK_ENDPOINTS_MAX", "10");
    let nodes = nodes_with(&bound, 2);
    let at = at_each(&nodes).await;
    let post = |number: usize| {
        let hook = json!({"url": format!("https://example.com/{number}")});
        let at = at[number % 2].clone();
        async move { at.post("/v1/webhooks", hook).await }
    };
    let made = |answers: &[Answer]| {
        let of = |status: u16| answers.iter().filter(|made| made.status == status).count();
        (of(201), of(409))
    };
    let answers = join_all((0..MOST + 6).map(post)).await;
    assert_eq!(made(&answers), (MOST, 6), "{answers:?}");
    for round in 0..sized(10, 6) {
        let list = at[0].get("/v1/webhooks?limit=1").await.expect(200);
        let one = list["data"][0]["webhook_id"].as_str().unwrap();
        let one = format!("/v1/webhooks/{one}");
        at[round % 2].delete(&one).await.expect(204);
        let answers = join_all((0..4).map(post)).await;
        assert_eq!(made(&answers), (1, 3), "round {round}: {answers:?}");
    }
    for at in &at {
        let list = at.get("/v1/webhooks").await.expect(200);
        assert_eq!(list.total(), MOST as u64);
    }
}
