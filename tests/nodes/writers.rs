//! Clients that write messages to one conversation, each under an idempotency key of its own, until
//! each is answered; and what must then be there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{Addresses, Answer, Client, Dice, until};

/// How long a writer waits for one answer before it hangs up and asks again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a message may go without an answer, the longest fault included.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);
const NEXT_ATTEMPT: Duration = Duration::from_millis(20);

/// Writers at work.
pub(super) struct Writers {
    shared: Arc<Shared>,
    writing: Vec<JoinHandle<()>>,
}

struct Shared {
    client: Client,
    addresses: Addresses,
    messages: String,
    over: AtomicBool,
    /// Sequences of what was acknowledged, by text.
    acknowledged: Mutex<HashMap<String, u64>>,
    answered: AtomicUsize,
}

impl Writers {
    /// Lets so many writers loose on a new conversation.
    pub(super) async fn begin(count: usize, client: &Client, addresses: &Addresses) -> Self {
        let conversation = client.conversation().await;
        let shared = Arc::new(Shared {
            client: client.clone(),
            addresses: addresses.clone(),
            messages: format!("/v1/conversations/{conversation}/messages"),
            over: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            answered: AtomicUsize::new(0),
        });
        let writing = (0..count).map(|writer| tokio::spawn(write(Arc::clone(&shared), writer)));
        Self {
            writing: writing.collect(),
            shared,
        }
    }

    /// Where the messages are listed.
    pub(super) fn path(&self) -> &str {
        &self.shared.messages
    }

    /// How many messages were acknowledged.
    pub(super) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many more messages are acknowledged.
    pub(super) async fn go_on(&self, messages: usize) {
        let enough = self.answered() + messages;
        until("messages are acknowledged", ANSWERED_WITHIN, async || {
            (self.answered() >= enough).then_some(())
        })
        .await;
    }

    /// Lets each finish what it writes, and looks at every node at what is there: each message
    /// once, where its answer said, without a gap. Gives how many.
    pub(super) async fn end(self) -> usize {
        self.shared.over.store(true, Ordering::Relaxed);
        for writing in self.writing {
            writing.await.unwrap();
        }
        let acknowledged = self.shared.acknowledged.lock().unwrap().clone();
        for address in self.shared.addresses.all() {
            let client = self.shared.client.at(&address);
            let listed = listed(&client, &self.shared.messages).await;
            let sequences: Vec<u64> = listed.iter().map(|(_, sequence)| *sequence).collect();
            let gapless: Vec<u64> = (1..=listed.len() as u64).collect();
            assert_eq!(sequences, gapless, "{address}");
            let count = listed.len();
            let listed: HashMap<String, u64> = listed.into_iter().collect();
            assert_eq!(listed.len(), count, "a message is there twice: {address}");
            assert_eq!(listed, acknowledged, "{address}");
        }
        acknowledged.len()
    }
}

/// All messages with their sequences, page by page; each page is asked for until it is answered.
async fn listed(client: &Client, messages: &str) -> Vec<(String, u64)> {
    let mut listed = Vec::new();
    loop {
        let after = listed.last().map_or(0, |(_, sequence)| *sequence);
        let path = format!("{messages}?limit=100&after_seq={after}");
        let page = until("a page is read", ANSWERED_WITHIN, async || {
            let answer = client.get(&path).try_send().await.ok()?;
            (answer.status != 503).then(|| answer.expect(200))
        })
        .await;
        if page.data().is_empty() {
            return listed;
        }
        listed.extend(page.data().iter().map(|row| {
            let text = row["content"].as_str().unwrap().to_owned();
            (text, row["seq"].as_u64().unwrap())
        }));
    }
}

async fn write(shared: Arc<Shared>, writer: usize) {
    let mut dice = Dice::new(writer as u64 + 1);
    let mut number = 0;
    while !shared.over.load(Ordering::Relaxed) {
        number += 1;
        let text = format!("{writer}.{number}");
        // Now and then two ask at once under one key.
        let (sequence, other) = if dice.below(4) == 0 {
            let mut others_dice = Dice::new(writer as u64 * 1_000 + number);
            tokio::join!(
                sent(&shared, &text, &mut dice),
                sent(&shared, &text, &mut others_dice)
            )
        } else {
            let sequence = sent(&shared, &text, &mut dice).await;
            (sequence, sequence)
        };
        assert_eq!(sequence, other, "one key, one answer");
        shared.answered.fetch_add(1, Ordering::Relaxed);
        let before = shared.acknowledged.lock().unwrap().insert(text, sequence);
        assert!(before.is_none());
    }
}

/// Sends a message under its key until it is acknowledged, each time to any node. Gives its
/// sequence.
async fn sent(shared: &Shared, text: &str, dice: &mut Dice) -> u64 {
    let end = Instant::now() + ANSWERED_WITHIN;
    loop {
        let client = shared.client.at(&shared.addresses.any(dice));
        let body = json!({"content": text, "sender_type": "system"});
        let sending = client
            .post(&shared.messages, body)
            .with("idempotency-key", text)
            .try_send();
        match tokio::time::timeout(PATIENCE, sending).await {
            Ok(Ok(answer)) if answer.status == 201 => return answer["seq"].as_u64().unwrap(),
            Ok(Ok(answer)) => may_be_repeated(&answer),
            // Nobody knows what became of it: the key does.
            Ok(Err(_)) | Err(_) => {}
        }
        assert!(Instant::now() < end, "{text} is not answered");
        tokio::time::sleep(NEXT_ATTEMPT).await;
    }
}

/// Nothing but what says that it may be asked again.
fn may_be_repeated(answer: &Answer) {
    match answer.status {
        503 => assert!(answer.number("retry-after") >= 1, "{answer}"),
        409 => assert_eq!(
            answer["error"]["code"], "idempotency_in_progress",
            "{answer}"
        ),
        _ => panic!("{answer}"),
    }
}
