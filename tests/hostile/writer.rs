//! The one thread that writes: nothing that one client does holds it for long.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use super::Neighbour;
use crate::support::documents::DOCUMENTS;
use crate::support::receiver::dead_url;
use crate::support::{Client, Dice, Server, Setup, until};

const SOON: Duration = Duration::from_secs(60);
/// Conversations that are assigned to the user who is deleted.
const CONVERSATIONS: u64 = 800;

/// Each client does it so many times, one after the other.
async fn all_do(clients: u64, times: u64, task: impl AsyncFn(u64)) {
    let task = &task;
    join_all((0..clients).map(|client| async move {
        for n in 0..times {
            task(client * times + n).await;
        }
    }))
    .await;
}

async fn create(c: &Client, content: &str) -> String {
    let made = c
        .post(DOCUMENTS, json!({"title": "Large", "content": content}))
        .await
        .expect(201);
    made.header("location").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_documents_one_after_the_other() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let texts: Vec<String> = (0..8).map(|seed| Dice::new(seed).noise(700_000)).collect();
    let attack = all_do(8, 15, async |n| {
        create(&c, &texts[usize::try_from(n % 8).unwrap()]).await;
    });
    neighbour
        .beside("documents of 700 KB from 8 clients", attack)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_erased_for_good_one_after_the_other() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let text = Dice::new(1).noise(400_000);
    let mut made = Vec::new();
    for _ in 0..40 {
        made.push(create(&c, &text).await);
    }
    let attack = async {
        all_do(8, 5, async |n| {
            let at = &made[usize::try_from(n).unwrap()];
            c.delete(&format!("{at}?permanent=true")).await.expect(204);
        })
        .await;
        // What is erased behind goes on for a while.
        neighbour.is_answered(300).await;
    };
    neighbour
        .beside("40 documents erased for good", attack)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redactions_beside_large_messages() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let text = "m".repeat(60_000);
    let attack = async {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(15) {
            let sent = c.message(&conversation, &text).await;
            c.delete(sent.header("location")).await.expect(204);
        }
    };
    neighbour.beside("redactions all the time", attack).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replays_over_everything_that_ever_happened() {
    let server = Setup::default().delivering("[0.05, 0.05]", "0.5").start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    all_do(8, 100, async |n| {
        c.message(&conversation, &format!("message {n}")).await;
    })
    .await;
    let hook = c
        .post(
            "/v1/webhooks",
            json!({"url": dead_url().await, "events": ["*"]}),
        )
        .await
        .expect(201);
    let replay = format!("/v1/webhooks/{}/replay", hook.id("webhook_id"));
    let attack = async {
        for _ in 0..150 {
            let answer = c
                .post(&replay, json!({"since": "2020-01-01T00:00:00Z"}))
                .await;
            if answer.status != 202 {
                answer.error(409, "conflict", "");
            }
        }
        // What they queue is written behind for a while.
        neighbour.is_answered(500).await;
    };
    neighbour.beside("150 replays of 800 events", attack).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_many_conversations_is_deleted() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let (customer, user) = (c.customer().await, c.user("agent").await);
    all_do(16, CONVERSATIONS / 16, async |_| {
        let conversation = c.conversation_of(&customer).await;
        c.patch(
            &format!("/v1/conversations/{conversation}"),
            json!({"assignee_id": user}),
        )
        .await
        .expect(200);
    })
    .await;
    let attack = async {
        c.delete(&format!("/v1/users/{user}")).await.expect(204);
        until("all are nobody's", SOON, async || {
            let total = c
                .get("/v1/events?after=0&limit=1&event=conversation.updated")
                .await
                .expect(200)
                .total();
            (total == 2 * CONVERSATIONS).then_some(())
        })
        .await;
    };
    neighbour
        .beside("a user with many conversations is deleted", attack)
        .await;
}
