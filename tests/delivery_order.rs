//! Deliveries under stress: kill -9 and a receiver that fails at random lose and reorder nothing,
//! and bad neighbours slow nobody down.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::receiver::{Received, dead_url};
use crate::support::{Client, Dice, Receiver, Reply, Server, Setup, sized, until};

const HOOKS: &str = "/v1/webhooks";
fn rounds() -> usize {
    sized(20, 4)
}

fn writer_count() -> usize {
    sized(64, 8)
}

const CONVERSATIONS: usize = 8;
const FLOWS_WITHIN: Duration = Duration::from_secs(30);
const DRAINED_WITHIN: Duration = Duration::from_secs(90);
/// So many tries that none is given up by chance: 31, of which 1 in 3 fails.
const PATIENT: &str = "[0.01, 0.02, 0.02, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, \
    0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]";

/// Fails 1 in 3: 500, a time-out, a reset.
async fn moody() -> Receiver {
    let mut dice = Dice::new(4);
    Receiver::planned(move |_| match dice.below(9) {
        0 => Reply::status(500),
        1 => Reply::Hang,
        2 => Reply::Reset,
        _ => Reply::ok(),
    })
    .await
}

/// Writes until the connection breaks.
async fn write(c: Client, conversations: Vec<String>, writer: usize, answers: Arc<AtomicUsize>) {
    for n in writer.. {
        let path = format!(
            "/v1/conversations/{}/messages",
            conversations[n % conversations.len()]
        );
        let Ok(answer) = c
            .post(&path, json!({"content": format!("{writer}-{n}")}))
            .try_send()
            .await
        else {
            return;
        };
        // Full mailboxes may answer 503 to so many writers at once.
        if answer.status == 201 {
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writers, kill -9 in their midst, start.
async fn round(server: &mut Server, key: &str, conversations: &[String], number: usize) {
    let c = server.with_key(key);
    let answers = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..writer_count())
        .map(|writer| {
            tokio::spawn(write(
                c.clone(),
                conversations.to_vec(),
                writer,
                Arc::clone(&answers),
            ))
        })
        .collect();
    let enough = 20 + (number * 37) % 50;
    until("answers come", FLOWS_WITHIN, async || {
        (answers.load(Ordering::Relaxed) >= enough).then_some(())
    })
    .await;
    server.kill9();
    for writer in writers {
        writer.await.unwrap();
    }
    server.restart();
}

/// The account's whole log.
async fn whole_log(c: &Client) -> Vec<Value> {
    let (mut log, mut path) = (Vec::new(), "/v1/events?limit=100".to_owned());
    loop {
        let page = c.get(&path).await.expect(200);
        if page.data().is_empty() {
            return log;
        }
        log.extend(page.data().clone());
        path = page.link("next").unwrap();
    }
}

fn conversation_of(event: &Value) -> String {
    event["data"]["conversation_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn seq_of(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap()
}

/// Each event came; per conversation none came before the one ahead of it was taken; its bytes were
/// always the same.
fn assert_all_in_order(received: &[Received], log: &[Value]) {
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let mut bodies: BTreeMap<String, &str> = BTreeMap::new();
    for delivery in received {
        let event = delivery.event();
        let (conversation, seq) = (conversation_of(&event), seq_of(&event));
        let last = taken.entry(conversation.clone()).or_default();
        assert!(
            seq <= *last + 1,
            "{seq} of {conversation} came while {last} was the last that had been taken"
        );
        if delivery.taken && seq == *last + 1 {
            *last = seq;
        }
        let id = delivery.header("webhook-id").to_owned();
        let first = *bodies.entry(id).or_insert(&delivery.body);
        assert_eq!(first, delivery.body, "other bytes");
    }
    for event in log {
        let id = event["id"].as_str().unwrap();
        let body = bodies
            .get(id)
            .unwrap_or_else(|| panic!("never received: {event}"));
        assert_eq!(&serde_json::from_str::<Value>(body).unwrap(), event);
    }
    assert_eq!(
        bodies.len(),
        log.len(),
        "something was received that is not in the log"
    );
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for event in log {
        let seq = last.entry(conversation_of(event)).or_default();
        *seq += 1;
        assert_eq!(seq_of(event), *seq, "a gap in the log: {event}");
    }
    assert_eq!(taken, last, "not all was taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_and_a_moody_receiver_lose_and_reorder_nothing() {
    let mut server = Setup::default().delivering(PATIENT, "0.4").start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let receiver = moody().await;
    c.post(HOOKS, json!({"url": receiver.url(), "events": ["*"]}))
        .await
        .expect(201);
    let customer = c.customer().await;
    let mut conversations = Vec::new();
    for _ in 0..CONVERSATIONS {
        conversations.push(c.conversation_of(&customer).await);
    }
    for number in 0..rounds() {
        round(&mut server, &key, &conversations, number).await;
    }
    let log = whole_log(&server.with_key(&key)).await;
    assert!(
        log.len() >= rounds() * 20 + CONVERSATIONS,
        "only {} events",
        log.len()
    );
    let wanted: HashSet<&str> = log
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    let missing = |all: &[Received]| {
        let taken: HashSet<&str> = all
            .iter()
            .filter(|delivery| delivery.taken)
            .map(|delivery| delivery.header("webhook-id"))
            .collect();
        wanted.iter().filter(|id| !taken.contains(**id)).count()
    };
    let received = until("everything is drained", DRAINED_WITHIN, async || {
        // Every event takes a request, so the count is a cheap first look.
        let all = (receiver.count() >= wanted.len()).then(|| receiver.received())?;
        (missing(&all) == 0).then_some(all)
    })
    .await;
    assert_all_in_order(&received, &log);
}

const HEALTHY: usize = 10;
fn messages_a_round() -> usize {
    sized(30, 10)
}

fn pairs_of_rounds() -> usize {
    sized(5, 2)
}

/// What a debug build on two busy cores may add by chance; an endpoint that waits for another's
/// time-out adds seconds.
fn noise() -> Duration {
    Duration::from_millis(sized(30, 200))
}

struct Neighbours {
    c: Client,
    healthy: Vec<Receiver>,
    bad: Vec<String>,
    conversations: Vec<String>,
}

impl Neighbours {
    async fn make(c: Client, hanging: &Receiver) -> Self {
        let mut healthy = Vec::new();
        for _ in 0..HEALTHY {
            let receiver = Receiver::start().await;
            c.post(
                HOOKS,
                json!({"url": receiver.url(), "events": ["message.created"]}),
            )
            .await
            .expect(201);
            healthy.push(receiver);
        }
        let mut bad = Vec::new();
        for url in [hanging.url(), dead_url().await] {
            let made = c
                .post(
                    HOOKS,
                    json!({"url": url, "events": ["*"], "enabled": false}),
                )
                .await
                .expect(201);
            bad.push(format!("{HOOKS}/{}", made.id("webhook_id")));
        }
        let (customer, mut conversations) = (c.customer().await, Vec::new());
        for _ in 0..messages_a_round() {
            conversations.push(c.conversation_of(&customer).await);
        }
        Self {
            c,
            healthy,
            bad,
            conversations,
        }
    }

    async fn enable(&self, path: &str, enabled: bool) {
        self.c
            .patch(path, json!({"enabled": enabled}))
            .await
            .expect(200);
    }

    /// Sends a message into each conversation, one after the other; gives the round's p99 from
    /// sending to receipt.
    async fn round(&self, with_the_bad: bool) -> Duration {
        for path in &self.bad {
            self.enable(path, with_the_bad).await;
        }
        let mut took = Vec::new();
        for conversation in &self.conversations {
            let counts: Vec<usize> = self.healthy.iter().map(Receiver::count).collect();
            let sent = Instant::now();
            self.c.message(conversation, "on its way").await;
            for (receiver, count) in self.healthy.iter().zip(counts) {
                let all = receiver.wait_for(count + 1).await;
                took.push(all[count].at.saturating_duration_since(sent));
            }
        }
        took.sort_unstable();
        took[took.len() * 99 / 100]
    }
}

/// The round that chance has disturbed least: what others cost is in every round.
fn calmest(rounds: Vec<Duration>) -> Duration {
    rounds.into_iter().min().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_and_one_that_is_dead_slow_nobody_down() {
    let server = Setup::default()
        .delivering("[0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]", "15")
        .start();
    let account = server.account().await;
    let hanging = Receiver::planned(|_| Reply::Hang).await;
    let neighbours = Neighbours::make(account.test(), &hanging).await;
    neighbours.round(false).await;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..pairs_of_rounds() {
        alone.push(neighbours.round(false).await);
        beside.push(neighbours.round(true).await);
    }
    assert!(hanging.count() >= 1, "the hanging endpoint was never asked");
    let (alone, beside) = (calmest(alone), calmest(beside));
    assert!(
        beside <= alone * 11 / 10 + noise(),
        "p99 {alone:?} alone, {beside:?} beside the bad ones"
    );
}
