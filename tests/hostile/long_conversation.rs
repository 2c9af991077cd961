//! A conversation with very many messages: each operation costs what it costs in a short one.

use std::time::Duration;

use serde_json::{Value, json};

use super::timing::{ASKED, assert_near, least};
use super::{Neighbour, fill};
use crate::support::{Client, EventStream, Server};

/// Messages of the long one: enough that going over them would show.
const MANY: usize = 30_000;
/// Messages of the short one.
const FEW: usize = 10;
/// Messages of the software in each.
const RARE: usize = 5;

/// A conversation that is asked for everything.
struct Conversation {
    at: String,
    messages: usize,
    middle: String,
}

/// A conversation with so many messages of the customer; those of the software are spread over it.
async fn filled(c: &Client, count: usize) -> Conversation {
    let id = c.conversation().await;
    let message = |n: usize| {
        let sender = if n.is_multiple_of(count / RARE) {
            "system"
        } else {
            "customer"
        };
        let body =
            json!({"content": format!("message {n} {}", "x".repeat(300)), "sender_type": sender});
        json!({"op": "message", "conversation_id": id, "body": body})
    };
    fill::bulk(c, (0..count).map(message).collect()).await;
    let at = format!("/v1/conversations/{id}");
    c.patch(&at, json!({"priority": "high"})).await.expect(200);
    let middle = c
        .get(&format!("{at}/messages?limit=1&offset={}", count / 2))
        .await
        .expect(200);
    let middle = middle.column("message_id").remove(0);
    c.patch(
        &format!("{at}/messages/{middle}"),
        json!({"content": "edited"}),
    )
    .await
    .expect(200);
    Conversation {
        at,
        messages: count,
        middle,
    }
}

/// What is asked of a conversation, by name.
const READS: [(&str, &str); 17] = [
    ("read", ""),
    ("first page", "/messages"),
    ("last page", "/messages?limit=100&offset={last}"),
    ("middle page", "/messages?offset={half}"),
    ("newest first", "/messages?order=desc"),
    ("behind a seq", "/messages?after_seq={half}"),
    ("before a seq", "/messages?before_seq={half}"),
    ("behind a message", "/messages?after={middle}"),
    ("before a message", "/messages?before={middle}"),
    ("the software's", "/messages?sender_type=system&limit=100"),
    (
        "an agent's, of whom there is none",
        "/messages?sender_type=agent",
    ),
    ("a message", "/messages/{middle}"),
    ("its revisions", "/messages/{middle}/revisions"),
    ("events from the first on", "/events"),
    ("events from the middle on", "/events?after={half}"),
    (
        "rare events",
        "/events?event=conversation.updated,message.updated",
    ),
    ("no events", "/events?event=conversation.closed"),
];

impl Conversation {
    fn path(&self, template: &str) -> String {
        let place = |n: usize| n.to_string();
        let path = template
            .replace("{half}", &place(self.messages / 2))
            .replace("{middle}", &self.middle);
        self.at.clone() + &path.replace("{last}", &place(self.messages - FEW))
    }

    /// What is done to it, by name, and the least that each takes.
    async fn changes(&self, c: &Client) -> Vec<(&'static str, Duration)> {
        let messages = format!("{}/messages", self.at);
        let mut sent = Vec::new();
        let sending = least(async || {
            let message = c
                .post(&messages, json!({"content": "one more"}))
                .await
                .expect(201);
            sent.push(message.header("location").to_owned());
        });
        let sending = sending.await;
        let (mut edited, mut redacted) = (sent.iter(), sent.iter());
        let editing = least(async || {
            c.patch(edited.next().unwrap(), json!({"content": "edited"}))
                .await
                .expect(200);
        });
        let editing = editing.await;
        let redacting = least(async || {
            c.delete(redacted.next().unwrap()).await.expect(204);
        });
        let redacting = redacting.await;
        let closing = least(async || {
            c.call("POST", &format!("{}/close", self.at))
                .await
                .expect(200);
            c.call("POST", &format!("{}/reopen", self.at))
                .await
                .expect(200);
        });
        let closing = closing.await;
        let streaming = least(async || {
            let from = self.messages + 2;
            let resumed = c
                .get(&format!("{}/events?after={from}", self.at))
                .with("accept", "text/event-stream");
            assert_eq!(
                EventStream::open(resumed).await.event().await.json()["seq"],
                from as u64 + 1
            );
        });
        let streaming = streaming.await;
        vec![
            ("sending", sending),
            ("editing", editing),
            ("redacting", redacting),
            ("closing and reopening", closing),
            ("going on with a stream", streaming),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_costs_more_in_a_conversation_with_very_many_messages() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let (short, long) = (filled(&c, FEW).await, filled(&c, MANY).await);
    let attack = async {
        for (name, template) in READS {
            let ask = async |one: &Conversation| {
                let path = one.path(template);
                least(async || drop(c.get(&path).await.expect(200))).await
            };
            assert_near(name, ask(&short).await, ask(&long).await);
        }
        for ((name, few), (_, many)) in short
            .changes(&c)
            .await
            .into_iter()
            .zip(long.changes(&c).await)
        {
            assert_near(name, few, many);
        }
    };
    neighbour
        .beside("a conversation with very many messages", attack)
        .await;
    assert_filters_count_exactly(&c, &long).await;
}

/// A filter's total is exact in the conversation with very many messages, after all was done to it.
async fn assert_filters_count_exactly(c: &Client, long: &Conversation) {
    let system = c
        .get(&long.path("/messages?sender_type=system&limit=100"))
        .await
        .expect(200);
    assert_eq!((system.total(), system.data().len()), (RARE as u64, RARE));
    assert!(
        system
            .data()
            .iter()
            .all(|message| message["sender_type"] == "system")
    );
    let rare = c
        .get(&long.path("/events?event=conversation.updated,message.updated&limit=100"))
        .await
        .expect(200);
    let kinds = rare
        .data()
        .iter()
        .filter(|event| event["event"] != "message.created")
        .count();
    assert_eq!(
        (rare.total(), kinds),
        (rare.data().len() as u64, rare.data().len())
    );
    let sent = c
        .get(&long.path("/events?event=message.created&limit=1"))
        .await
        .expect(200)
        .total();
    assert_eq!(sent, (MANY + ASKED) as u64);
    let all = c
        .get(&long.path("/events?limit=1"))
        .await
        .expect(200)
        .total();
    let created = 1;
    assert_eq!(
        all,
        sent + rare.total() + created + closed(c, long).await,
        "each kind is counted once"
    );
}

async fn closed(c: &Client, one: &Conversation) -> u64 {
    let closed = c
        .get(&one.path("/events?event=conversation.closed"))
        .await
        .expect(200);
    let kinds: Vec<&Value> = closed.data().iter().map(|event| &event["event"]).collect();
    assert!(
        kinds.iter().all(|kind| *kind == "conversation.closed"),
        "{kinds:?}"
    );
    closed.total()
}
