//! `GET /admin/v1/store`: how the store is doing.

use std::time::Duration;

use serde_json::json;

use crate::support::shapes::{assert_recent, assert_shape};
use crate::support::{Server, Setup, until};

/// How long what follows the store may take to catch up, on a busy machine.
const WAIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_stores_health_has_its_shape_and_agrees_with_what_was_done() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    for n in 0..20 {
        client.message(&conversation, &format!("message {n}")).await;
    }
    let health = until("the indexes have caught up", WAIT, async || {
        let health = server.operator().get("/admin/v1/store").await.expect(200);
        (health["index"]["lag"] == 0).then_some(health)
    })
    .await;
    assert_shape(
        &health.body,
        "size, commit_ms, batch, queue, feed, index, checkpoint",
    );
    assert_shape(&health["size"], "database_bytes, log_bytes, index_bytes");
    let file = |name: &str| {
        std::fs::metadata(server.work().join("data").join(name))
            .unwrap()
            .len()
    };
    assert_eq!(health["size"]["database_bytes"], file("colloquy.db"));
    assert!(health["size"]["log_bytes"].as_u64().unwrap() > 0);
    assert!(health["size"]["index_bytes"].as_u64().unwrap() > 0);
    assert_shape(&health["commit_ms"], "p50, p99");
    assert!(health["commit_ms"]["p50"].as_f64().unwrap() > 0.0);
    assert_eq!(
        health["batch"],
        json!({"p50": 1, "p99": 1}),
        "one writer, one commit each"
    );
    assert_eq!(health["queue"], 0);
    for follower in ["feed", "index"] {
        assert_shape(&health[follower], "lag");
    }
    assert_eq!(health["feed"]["lag"], 0, "nobody wants events");
    assert_shape(&health["checkpoint"], "at, pages");
    assert_recent(&health["checkpoint"]["at"]);
}

#[tokio::test]
async fn a_follower_is_behind_only_for_what_concerns_it() {
    let server = Setup::default()
        .env("COLLOQUY__SEARCH__CONVERSATIONS", "false")
        .start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let behind = async || {
        let webhooks = server.metric("webhook_positions_behind").await;
        let search = server.metric("search_positions_behind").await;
        let health = server.operator().get("/admin/v1/store").await.expect(200);
        let [feed, index] = ["feed", "index"].map(|one| health[one]["lag"].as_u64().unwrap());
        [feed, webhooks, index, search]
    };
    until("they have begun to follow", WAIT, async || {
        (behind().await == [0; 4]).then_some(())
    })
    .await;
    for n in 0..20 {
        client.message(&conversation, &format!("message {n}")).await;
        assert_eq!(behind().await, [0; 4], "nobody wants messages");
    }
    let endpoint = json!({"url": "https://example.com/hooks", "events": ["message.created"]});
    client.post("/v1/webhooks", endpoint).await.expect(201);
    let document = json!({"title": "t", "content": "c"});
    client.post("/api/v1/documents", document).await.expect(201);
    client.message(&conversation, "somebody wants this").await;
    until("they have caught up", WAIT, async || {
        (behind().await == [0; 4]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_index_of_conversations_is_behind_for_messages_until_it_has_taken_them_in() {
    let server = Server::start();
    let client = server.account().await.test();
    let conversation = client.conversation().await;
    let behind = async || {
        let messages = server.metric("message_search_positions_behind").await;
        let documents = server.metric("search_positions_behind").await;
        assert_eq!(documents, 0, "messages don't concern the other");
        messages
    };
    let sends = async {
        for n in 0..200 {
            client.message(&conversation, &format!("message {n}")).await;
        }
    };
    let mut seen = 0;
    tokio::pin!(sends);
    loop {
        tokio::select! {
            () = &mut sends => break,
            lag = behind() => seen = seen.max(lag),
        }
    }
    assert!(seen > 0, "it takes in what has gathered, not each message");
    until("it has caught up", WAIT, async || {
        let health = server.operator().get("/admin/v1/store").await.expect(200);
        (behind().await == 0 && health["index"]["lag"] == 0).then_some(())
    })
    .await;
}
