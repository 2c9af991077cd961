//! Streams and webhooks across nodes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{SLACK, nodes};
use crate::support::{Client, EventStream, Receiver, until};

#[tokio::test]
async fn streams_show_what_another_node_committed_and_webhooks_outlive_the_node_that_delivered() {
    let mut nodes = nodes(2);
    let account = nodes[0].account().await;
    let (on_first, on_second) = (account.test(), account.test().at(&nodes[1].address()));
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    on_second.post("/v1/webhooks", hook).await.expect(201);
    let conversation = on_first.conversation().await;
    let events = format!("/v1/conversations/{conversation}/events");
    let mut stream = EventStream::open(on_second.get(&events)).await;
    let before = on_first.message(&conversation, "before").await;
    let told = stream.event().await.json();
    assert_eq!(told["data"]["message_id"], before["message_id"], "{told}");
    receiver.wait_for(1).await;
    // The first to be started leads: it delivers.
    nodes[0].kill9();
    let after = on_second.message(&conversation, "after").await;
    assert_eq!(after["seq"], 2);
    let texts = until("the other node delivers", SLACK, async || {
        let received = receiver.received();
        let texts = received
            .iter()
            .map(|one| one.event()["data"]["content"].clone());
        let mut texts: Vec<_> = texts.collect();
        // What was on its way when the node was killed may come twice.
        texts.dedup();
        (texts.len() > 1).then_some(texts)
    })
    .await;
    assert_eq!(texts, ["before", "after"]);
}

/// How soon behind its answer a change is shown by streams at other nodes.
const SHOWN_WITHIN: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_stream_shows_what_another_node_committed_within_a_quarter_of_a_second() {
    const EACH: usize = 9;
    let nodes = nodes(2);
    let writer = nodes[0].account().await.test();
    let reader = writer.at(&nodes[1].address());
    let conversation = writer.conversation().await;
    let events = format!("/v1/conversations/{conversation}/events");
    let mut stream = EventStream::open(reader.get(&events)).await;
    // A quarter of some, at a moment at which the machine is not busy with other tests.
    until("a quarter is shown in time", SLACK * 3, async || {
        let mut waits = Vec::new();
        for _ in 0..EACH {
            writer.message(&conversation, "for the other node").await;
            let acknowledged = Instant::now();
            stream.event().await;
            waits.push(acknowledged.elapsed());
        }
        waits.sort_unstable();
        (waits[EACH / 4] <= SHOWN_WITHIN).then_some(())
    })
    .await;
}

/// Sends so many messages, one after the other.
async fn send(client: &Client, conversation: &str, count: usize) {
    for _ in 0..count {
        client.message(conversation, "while they move").await;
    }
}

#[tokio::test]
async fn who_moves_to_another_node_goes_on_from_the_cursor_without_gap_or_repeat() {
    const MOVES: u64 = 4;
    const EACH: u64 = 4;
    let nodes = nodes(2);
    let client = nodes[0].account().await.test();
    let at = [client.clone(), client.at(&nodes[1].address())];
    let conversation = client.conversation().await;
    let events = format!("/v1/conversations/{conversation}/events");
    let count = usize::try_from(MOVES * EACH).unwrap();
    let writing = futures_util::future::join(
        send(&at[0], &conversation, count / 2),
        send(&at[1], &conversation, count / 2),
    );
    let reading = async {
        let (mut last, mut seen) = ("0".to_owned(), Vec::new());
        for turn in 0..MOVES {
            let moved = at[usize::try_from(turn % 2).unwrap()].get(&events);
            let mut stream = EventStream::open(moved.with("last-event-id", &last)).await;
            for _ in 0..EACH {
                let event = stream.event().await;
                seen.push(event.json()["data"]["seq"].clone());
                last = event.id;
            }
        }
        seen
    };
    let (_, seen) = futures_util::future::join(writing, reading).await;
    // The first event is the conversation's creation, which has no number among the messages.
    let messages: Vec<u64> = seen.iter().filter_map(|seq| seq.as_u64()).collect();
    assert!(
        messages.windows(2).all(|two| two[1] == two[0] + 1),
        "{messages:?}"
    );
    assert_eq!(messages.len() as u64, MOVES * EACH - 1, "{messages:?}");
    // Pages of the list, each from the cursor that the other node gave.
    let (mut next, mut listed) = (format!("{events}?limit=3"), Vec::new());
    for turn in 0.. {
        let page = at[turn % 2].get(&next).await.expect(200);
        let numbers = page.data().iter();
        listed.extend(numbers.filter_map(|event| event["data"]["seq"].as_u64()));
        // There is always a place to go on from.
        next = page.link("next").unwrap();
        if page.data().is_empty() {
            break;
        }
    }
    let all: Vec<u64> = (1..=MOVES * EACH).collect();
    listed.sort_unstable();
    assert_eq!(listed, all);
}
