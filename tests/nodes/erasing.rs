//! A person who is erased at one node is nowhere at any other, and another node goes on where the one
//! that was at work ends.

use std::time::Duration;

use ::mongodb::bson::doc;
use serde_json::json;

use super::nodes;
use crate::support::attachments::{content_of, upload};
use crate::support::{Client, mongodb, unique, until};
use crate::unreadable::number;

/// The longest that erasing may take on a busy machine, with a node that is gone and its lease.
const FINISHED_WITHIN: Duration = Duration::from_secs(120);

/// Thirty conversations with one message each; their paths.
async fn begun(here: &Client, customer: &str, text: &str) -> Vec<String> {
    let mut conversations = Vec::new();
    for _ in 0..30 {
        let new = json!({"customer_id": customer, "initial_message": text});
        let made = here.post("/v1/conversations", new).await.expect(201);
        conversations.push(format!("/v1/conversations/{}", made.id("conversation_id")));
    }
    conversations
}

/// None of these conversations is there for anybody.
async fn assert_gone(there: &Client, conversations: &[String]) {
    for path in conversations {
        there.get(path).await.error(404, "not_found", "");
        there
            .get(&format!("{path}/messages"))
            .await
            .error(404, "not_found", "");
        there
            .post(&format!("{path}/messages"), json!({"content": "late"}))
            .await
            .error(404, "not_found", "");
    }
}

#[tokio::test]
async fn a_person_is_erased_at_every_node_though_the_one_at_work_is_killed() {
    let mut nodes = nodes(2);
    let here = nodes[0].account().await.test();
    let there = here.at(&nodes[1].address());
    let (customer, neighbour) = (here.customer().await, here.conversation().await);
    let text = unique("OfThePerson").replace('-', "x");
    let conversations = begun(&here, &customer, &text).await;
    // The other node has them in memory as they are.
    for path in &conversations {
        there.get(path).await.expect(200);
    }
    let at = format!("/v1/customers/{customer}?erase=true");
    let erasing = tokio::spawn({
        let (here, at) = (here.clone(), at.clone());
        async move {
            here.delete(&at)
                .try_send()
                .await
                .ok()
                .map(|answer| answer.status)
        }
    });
    until("the erasure has begun", FINISHED_WITHIN, async || {
        let audit = there
            .get("/v1/audit?action=erasure.created")
            .await
            .expect(200);
        (audit.total() == 1).then_some(())
    })
    .await;
    nodes[0].kill9();
    let status = erasing.await.unwrap();
    assert!(matches!(status, None | Some(202)), "{status:?}");
    let audit = there
        .get("/v1/audit?action=erasure.created")
        .await
        .expect(200);
    let erasure = audit.data()[0]["subject"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = until("the other node has finished", FINISHED_WITHIN, async || {
        let shown = there.get(&format!("/v1/erasures/{erasure}")).await;
        (shown.status == 200 && shown["state"] == "finished").then_some(shown)
    })
    .await;
    assert_eq!(
        (&shown["conversations"], &shown["messages"]),
        (&json!(30), &json!(30))
    );
    assert_gone(&there, &conversations).await;
    assert_eq!(
        nodes[1].places_with(&text),
        Vec::<std::path::PathBuf>::new()
    );
    there
        .get(&format!("/v1/conversations/{neighbour}"))
        .await
        .expect(200);
    assert_eq!(there.get("/v1/conversations").await.expect(200).total(), 1);
}

/// Somebody with a conversation of three messages and a file; the file's identifier stands last.
async fn talking(c: &Client, text: &str) -> [String; 3] {
    let customer = c.post("/v1/customers", json!({"name": text})).await;
    let customer = customer.expect(201).id("customer_id");
    let new = json!({"customer_id": customer, "initial_message": text});
    let made = c.post("/v1/conversations", new).await.expect(201);
    let conversation = made.id("conversation_id");
    let file = upload(c, &format!("{text}.txt"), text).await.expect(201);
    let file = file.id("attachment_id");
    let messages = format!("/v1/conversations/{conversation}/messages");
    for body in [
        json!({"content": text}),
        json!({"type": "file", "attachment_id": file}),
    ] {
        c.post(&messages, body).await.expect(201);
    }
    [customer, conversation, file]
}

#[tokio::test]
async fn what_a_database_holds_of_a_person_is_erased_though_it_can_t_be_read() {
    let mut nodes = nodes(1);
    nodes[0].expect_errors();
    let c = nodes[0].account().await.test();
    let text = unique("OfThePerson").replace('-', "x");
    let [customer, conversation, file] = talking(&c, &text).await;
    let neighbour = c.conversation().await;
    nodes[0].term();
    let work = nodes[0].work();
    let half = doc! {"$set": {"body": format!("{{\"name\": \"{text}")}};
    for record in [&customer, &file] {
        let of = ("records", doc! {"_id": number(record)});
        mongodb::change(&work, of, Some(half.clone()));
    }
    nodes[0].restart();
    // The customer's beginning, and the conversation's first and last documents.
    for (entity, first, change) in [
        (&customer, 1, doc! {"$set": {"rows.0.payload": [&text]}}),
        (&conversation, 1, doc! {"$unset": {"rows.0.at": ""}}),
        (&conversation, 4, doc! {"$set": {"rows.0.by": &text}}),
    ] {
        let of = doc! {"entity": number(entity), "first": i64::from(first)};
        mongodb::change(&work, ("log", of), Some(change));
    }
    let c = c.at(&nodes[0].address());
    let at = format!("/v1/customers/{customer}");
    c.get(&at).await.error(500, "server_error", "");
    let begun = c.delete(&format!("{at}?erase=true")).await.expect(202);
    let counts = ["conversations", "messages", "attachments"].map(|name| begun[name].clone());
    assert_eq!(counts, [1, 3, 1]);
    let erasure = format!("/v1/erasures/{}", begun.id("erasure_id"));
    until("the erasure is finished", FINISHED_WITHIN, async || {
        let shown = c.get(&erasure).await;
        (shown.status == 200 && shown["state"] == "finished").then_some(())
    })
    .await;
    for gone in [at, content_of(&file)] {
        c.get(&gone).await.error(404, "not_found", "");
    }
    assert_gone(&c, &[format!("/v1/conversations/{conversation}")]).await;
    let places = nodes[0].places_with(&text);
    assert_eq!(places, Vec::<std::path::PathBuf>::new());
    let left = c.get(&format!("/v1/conversations/{neighbour}")).await;
    left.expect(200);
}
