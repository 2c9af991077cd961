//! A node that is stopped for longer than its lease and goes on then does no harm.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use super::{SLACK, nodes};
use crate::support::{Account, Client, Receiver, Reply, Server, Socket, process, until};

/// Longer than a lease, and longer than others wait for one.
const STOPPED_FOR: Duration = Duration::from_secs(10);
/// The longest that something may take of which a node is stopped meanwhile.
const LONG: Duration = Duration::from_secs(60);

/// So many messages are written ahead of what is delivered.
const AHEAD: usize = 8;

/// What all writers share.
struct Writers {
    receiver: Receiver,
    acknowledged: AtomicUsize,
    /// True when they end.
    end: AtomicBool,
}

impl Writers {
    fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Waits until not much more is written than is delivered, or they end.
    async fn keep_pace(&self) {
        until("what is written is delivered", LONG, async || {
            let ahead = self.acknowledged.load(Ordering::Relaxed) < self.receiver.count() + AHEAD;
            (ahead || self.end()).then_some(())
        })
        .await;
    }
}

/// Sends messages one behind the other, each under a key of its own and as often as it takes, until
/// it is told to end; gives those that were acknowledged, by their sequences.
async fn write(at: &Client, messages: String, writer: usize, writers: &Writers) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        writers.keep_pace().await;
        let text = format!("{writer}.{number}");
        let body = json!({"content": text, "sender_type": "system"});
        let sent = until("it is acknowledged", LONG, async || {
            let sent = at.post(&messages, body.clone());
            let sent = sent.with("idempotency-key", &text).try_send().await.ok()?;
            assert!(matches!(sent.status, 201 | 503), "{sent}");
            (sent.status == 201).then_some(sent)
        })
        .await;
        acknowledged.push(sent["seq"].as_u64().unwrap());
        writers.acknowledged.fetch_add(1, Ordering::Relaxed);
        if writers.end() {
            break;
        }
    }
    acknowledged
}

/// The sequences of what came for each conversation, in the order in which it came.
fn by_conversation(received: &[Value]) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in received {
        let data = &event["data"];
        let conversation = data["conversation_id"].as_str().unwrap().to_owned();
        let sequences = all.entry(conversation).or_default();
        sequences.push(data["seq"].as_u64().unwrap());
    }
    all
}

/// A key that is revoked while a node is stopped.
struct Key {
    /// Who has it, at the node that is stopped.
    holder: Client,
    /// Where it is revoked.
    path: String,
}

impl Key {
    async fn new(node: &Server, account: &Account) -> Self {
        let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
        let key = json!({"type": "test", "name": "to be revoked"});
        let key = node.operator().post(&keys, key).await.expect(201);
        let holder = node.with_key(key["key"].as_str().unwrap());
        holder.get("/v1/conversations").await.expect(200);
        Key {
            holder,
            path: format!("/admin/v1/keys/{}", key["key_id"].as_str().unwrap()),
        }
    }

    /// Stops the first node for longer than its lease and revokes the key meanwhile; gives how many
    /// requests had come to the receiver when it went on.
    async fn is_revoked_meanwhile(&self, nodes: &[Server], receiver: &Receiver) -> usize {
        process::signal("STOP", nodes[0].pid());
        let stopped = Instant::now();
        nodes[1].operator().delete(&self.path).await.expect(204);
        until("its time is over", SLACK, async || {
            (stopped.elapsed() >= STOPPED_FOR).then_some(())
        })
        .await;
        let before = receiver.count();
        let (first, ()) = join(self.holder.get("/v1/conversations").into_future(), async {
            process::signal("CONT", nodes[0].pid());
        })
        .await;
        assert!(matches!(first.status, 401 | 503), "{first}");
        until("the key is known to be revoked", SLACK, async || {
            let answer = self.holder.get("/v1/conversations").await;
            assert!(matches!(answer.status, 401 | 503), "{answer}");
            (answer.status == 401).then_some(())
        })
        .await;
        before
    }
}

/// Every node shows each of these messages of a conversation, and no other but `more`.
async fn assert_each_once(at: &[Client], conversation: &str, mut written: Vec<u64>, more: u64) {
    let path = format!("/v1/conversations/{conversation}");
    for at in at {
        let shown = at.get(&path).await.expect(200);
        let count = written.len() as u64 + more;
        assert_eq!(shown["message_count"], count, "none is lost or doubled");
    }
    written.sort_unstable();
    let count = written.len();
    written.dedup();
    assert_eq!(written.len(), count, "each is acknowledged once");
}

/// What came is in the order of each conversation, also behind the first `before`.
fn assert_in_order(events: &[Value], before: usize) {
    let earlier = by_conversation(&events[..before]);
    for (conversation, sequences) in by_conversation(&events[before..]) {
        let highest = earlier[&conversation].iter().max().unwrap();
        assert!(sequences.is_sorted(), "{sequences:?}");
        assert!(
            sequences[0] >= *highest,
            "behind {highest} came {sequences:?}"
        );
    }
    for (_, sequences) in by_conversation(events) {
        let mut first = Vec::new();
        for sequence in sequences {
            if !first.contains(&sequence) {
                first.push(sequence);
            }
        }
        assert!(first.is_sorted(), "{first:?}");
    }
}

#[tokio::test]
async fn a_node_that_is_stopped_beyond_its_lease_does_no_harm_when_it_goes_on() {
    let mut nodes = nodes(2);
    // Whatever it asked of the database has no answer in time.
    nodes[0].expect_errors();
    let account = nodes[0].account().await;
    let at = [account.test(), account.test().at(&nodes[1].address())];
    // Slow, so that what is to be delivered piles up at the node that is stopped.
    let receiver = Receiver::planned(|_| Reply::Late(Duration::from_millis(100))).await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    at[1].post("/v1/webhooks", hook).await.expect(201);
    let key = Key::new(&nodes[0], &account).await;
    let conversations = [at[1].conversation().await, at[1].conversation().await];
    let shared = Writers {
        receiver,
        acknowledged: AtomicUsize::new(0),
        end: AtomicBool::new(false),
    };
    let receiver = &shared.receiver;
    let writers = (0..4).map(|writer| {
        let path = format!("/v1/conversations/{}/messages", conversations[writer / 2]);
        write(&at[writer % 2], path, writer, &shared)
    });
    let stopped = async {
        receiver.wait_for(6).await;
        // The first to be started delivers.
        let before = key.is_revoked_meanwhile(&nodes, receiver).await;
        receiver.answer(|_| Reply::ok());
        at[0].message(&conversations[0], "it serves again").await;
        shared.end.store(true, Ordering::Relaxed);
        before
    };
    let (written, before) = join(join_all(writers), stopped).await;
    let expected = written.iter().flatten().count() + 1;
    assert_each_once(&at, &conversations[0], written[..2].concat(), 1).await;
    assert_each_once(&at, &conversations[1], written[2..].concat(), 0).await;
    let events = until("all is delivered", LONG, async || {
        let received = receiver.received();
        let events: Vec<Value> = received.iter().map(|received| received.event()).collect();
        let mut ids: Vec<String> = events.iter().map(|event| event["id"].to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        (ids.len() == expected).then_some(events)
    })
    .await;
    assert_in_order(&events, before);
}

#[tokio::test]
async fn what_waits_in_a_socket_of_a_stopped_node_is_not_done_with_a_key_that_is_revoked() {
    let mut nodes = nodes(2);
    nodes[0].expect_errors();
    let account = nodes[0].account().await;
    let at_other = account.test().at(&nodes[1].address());
    let conversation = at_other.conversation().await;
    let key = Key::new(&nodes[0], &account).await;
    let mut socket = Socket::open(&key.holder).await;
    socket.subscribe(json!(conversation), None).await;
    process::signal("STOP", nodes[0].pid());
    let stopped = Instant::now();
    for number in 0..20 {
        let frame = json!({
            "type": "send", "ref": number.to_string(), "conversation_id": conversation,
            "message": {"content": "too late"},
        });
        socket.say(frame).await;
    }
    nodes[1].operator().delete(&key.path).await.expect(204);
    until("its time is over", SLACK, async || {
        (stopped.elapsed() >= STOPPED_FOR).then_some(())
    })
    .await;
    process::signal("CONT", nodes[0].pid());
    let mut heard = Vec::new();
    while let Ok(frame) = socket.try_hear().await {
        heard.push(frame);
    }
    let done = |frame: &Value| !["error", "ping"].contains(&frame["type"].as_str().unwrap());
    assert!(!heard.iter().any(done), "{heard:?}");
    let path = format!("/v1/conversations/{conversation}");
    let shown = at_other.get(&path).await.expect(200);
    assert_eq!(shown["message_count"], 0);
}
