//! kill -9 under load, again and again on the same folder: what was acknowledged is there once, a
//! retried key gives the first answer, and headers, lists and counters equal what the messages say.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::heard::{Heard, Kept};
use crate::support::{Answer, Client, Server, sized, until};

fn rounds() -> usize {
    sized(50, 6)
}

fn writer_count() -> usize {
    sized(32, 6)
}

/// How often one is sent while the database behind the server takes too long to answer: its key
/// makes that safe.
const TRIES_MAX: u32 = 20;
/// Conversations that all writers share, through all rounds.
const SHARED_CONVERSATIONS: usize = 8;
/// A crash comes after this many answers of a round, or a few more.
const ANSWERS_MIN: usize = 20;
/// Every so many rounds the server is killed again at once after its start.
fn killed_at_start_every() -> usize {
    sized(10, 3)
}
/// How long the first answers of a round may take to come.
const FLOWS_WITHIN: Duration = Duration::from_secs(30);

/// What a writer asked, and what it heard.
#[derive(Clone)]
struct Attempt {
    key: String,
    path: String,
    body: Value,
    heard: Heard,
}

impl Attempt {
    /// The writers' mix: mostly customers' messages; agents' (refused when closed), closings,
    /// creations.
    fn plan(key: String, n: usize, conversations: &[String], customer: &str) -> Self {
        let conversation = format!(
            "/v1/conversations/{}",
            conversations[n % conversations.len()]
        );
        let (path, body) = match n % 20 {
            0 => (
                "/v1/conversations".to_owned(),
                json!({"customer_id": customer, "initial_message": key}),
            ),
            7 => (format!("{conversation}/close"), json!({"reason": key})),
            8..=11 => (
                format!("{conversation}/messages"),
                json!({"content": key, "sender_type": "agent"}),
            ),
            _ => (
                format!("{conversation}/messages"),
                json!({"content": key, "sender_type": "customer"}),
            ),
        };
        Self {
            key,
            path,
            body,
            heard: Heard::Nothing,
        }
    }

    fn is_message(&self) -> bool {
        self.path.ends_with("/messages")
    }

    async fn send(&self, c: &Client) -> Option<Answer> {
        let mut tries = sized(1, TRIES_MAX);
        loop {
            let sent = c.post(&self.path, self.body.clone());
            let answer = sent.with("idempotency-key", &self.key).try_send().await;
            let answer = answer.ok()?;
            tries -= 1;
            if answer.status != 503 || tries == 0 {
                return Some(answer);
            }
            let after = answer.header("retry-after").parse().unwrap();
            tokio::time::sleep(Duration::from_secs(after)).await;
        }
    }

    /// Sends it for the first time; true as long as the server answers.
    async fn first(&mut self, c: &Client) -> bool {
        let Some(answer) = self.send(c).await else {
            return false;
        };
        self.heard = match answer.status {
            200 | 201 => Heard::Done(Kept::of(&answer)),
            _ => {
                answer.error(409, "conversation_closed", "*");
                Heard::Refused
            }
        };
        true
    }

    /// Sends it again after the crash: the first answer, if there was one; else it is known from
    /// now on.
    async fn again(&mut self, c: &Client) {
        if matches!(self.heard, Heard::Nothing) {
            assert!(self.first(c).await, "{} is not answered", self.key);
        }
        if let Heard::Done(kept) = &self.heard {
            let replay = self.send(c).await.expect("an answer");
            assert_eq!(
                replay.header_opt("idempotent-replayed"),
                Some("true"),
                "{}: {replay}",
                self.key
            );
            assert_eq!(&Kept::of(&replay), kept, "{}", self.key);
        }
    }
}

/// What must be in the store.
#[derive(Default)]
struct Ledger {
    customer: String,
    conversations: Vec<String>,
    /// The last `seq` that was seen of each shared conversation.
    seen: BTreeMap<String, u64>,
    stored: HashSet<String>,
    attempted: HashSet<String>,
    created: HashSet<String>,
}

impl Ledger {
    async fn begin(c: &Client) -> Self {
        let mut ledger = Self {
            customer: c.customer().await,
            ..Self::default()
        };
        for _ in 0..SHARED_CONVERSATIONS {
            let id = c.conversation_of(&ledger.customer).await;
            ledger.seen.insert(id.clone(), 0);
            ledger.conversations.push(id.clone());
            ledger.created.insert(id);
        }
        ledger
    }

    /// Reads what is new in each shared conversation: every `seq` follows the one before, no
    /// content comes twice.
    async fn read_on(&mut self, c: &Client) {
        for id in self.conversations.clone() {
            let mut seq = self.seen[&id];
            let mut last = Value::Null;
            loop {
                let page = c
                    .get(&format!(
                        "/v1/conversations/{id}/messages?limit=100&after_seq={seq}"
                    ))
                    .await
                    .expect(200);
                for message in page.data() {
                    seq += 1;
                    assert_eq!(message["seq"], seq, "a gap or a repeat in {id}");
                    let content = message["content"].as_str().unwrap().to_owned();
                    assert!(self.attempted.contains(&content), "nobody sent {content}");
                    assert!(self.stored.insert(content), "twice: {message}");
                    last = message["sent_at"].clone();
                }
                if page.data().len() < 100 {
                    assert_eq!(page.total(), seq, "the total of {id}");
                    break;
                }
            }
            let header = c.get(&format!("/v1/conversations/{id}")).await.expect(200);
            assert_eq!(header["message_count"], seq, "{header}");
            assert!(
                last.is_null() || header["last_message_at"] == last,
                "{header}"
            );
            assert_eq!(
                header["closed_at"].is_null(),
                header["status"] != "closed",
                "{header}"
            );
            self.seen.insert(id, seq);
        }
    }

    /// Takes in a round's attempts, after their retries, and compares.
    async fn settle(&mut self, c: &Client, attempts: &[Attempt]) {
        self.attempted
            .extend(attempts.iter().map(|attempt| attempt.key.clone()));
        self.read_on(c).await;
        for attempt in attempts {
            match &attempt.heard {
                Heard::Done(kept) if attempt.path == "/v1/conversations" => {
                    let made: Value = serde_json::from_slice(&kept.bytes).unwrap();
                    self.created
                        .insert(made["conversation_id"].as_str().unwrap().to_owned());
                }
                Heard::Done(_) => {
                    let there = self.stored.contains(&attempt.key);
                    assert_eq!(
                        there,
                        attempt.is_message(),
                        "acknowledged, and lost: {}",
                        attempt.key
                    );
                }
                Heard::Refused => assert!(
                    !self.stored.contains(&attempt.key),
                    "refused, and stored: {}",
                    attempt.key
                ),
                Heard::Nothing => panic!("{} is not settled", attempt.key),
            }
        }
        self.compare_totals(c).await;
    }

    async fn compare_totals(&self, c: &Client) {
        let total = async |query: &str| {
            c.get(&format!("/v1/conversations?limit=1{query}"))
                .await
                .expect(200)
                .total()
        };
        assert_eq!(total("").await, self.created.len() as u64);
        assert_eq!(
            total(&format!("&customer_id={}", self.customer)).await,
            self.created.len() as u64
        );
        let mut closed = 0;
        for id in &self.conversations {
            closed += u64::from(
                c.get(&format!("/v1/conversations/{id}")).await.expect(200)["status"] == "closed",
            );
        }
        assert_eq!(total("&status=closed").await, closed);
        assert_eq!(
            total("&status=active").await,
            self.created.len() as u64 - closed
        );
        assert_eq!(total("&status=pending").await, 0);
    }

    /// Walks through everything once: the list has each conversation once, each header says what
    /// its messages say.
    async fn sweep(&mut self, c: &Client) {
        let (mut listed, mut path) = (
            HashSet::new(),
            Some("/v1/conversations?limit=100&order=asc".to_owned()),
        );
        while let Some(next) = path {
            let page = c.get(&next).await.expect(200);
            for item in page.data() {
                let id = item["conversation_id"].as_str().unwrap().to_owned();
                let count = self.seen.get(&id).copied().unwrap_or(1);
                assert_eq!(item["message_count"], count, "{item}");
                assert!(listed.insert(id), "listed twice: {item}");
            }
            path = page.link("next");
        }
        assert_eq!(listed, self.created);
        let everything = std::mem::take(&mut self.stored);
        self.seen.values_mut().for_each(|seq| *seq = 0);
        self.read_on(c).await;
        assert_eq!(self.stored, everything);
    }
}

/// Writes until the connection breaks.
async fn write(
    c: Client,
    ledger: (Vec<String>, String),
    name: String,
    answers: Arc<AtomicUsize>,
) -> Vec<Attempt> {
    let (conversations, customer) = ledger;
    let mut attempts = Vec::new();
    for n in 0.. {
        let step = name.bytes().map(usize::from).sum::<usize>() + n;
        let mut attempt = Attempt::plan(format!("{name}-{n}"), step, &conversations, &customer);
        let answered = attempt.first(&c).await;
        attempts.push(attempt);
        if !answered {
            break;
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
    attempts
}

/// One round: writers, kill -9, start, and every key of the round again.
async fn round(server: &mut Server, key: &str, number: usize, ledger: &mut Ledger) {
    let c = server.with_key(key);
    let answers = Arc::new(AtomicUsize::new(0));
    let shared = (ledger.conversations.clone(), ledger.customer.clone());
    let writers: Vec<_> = (0..writer_count())
        .map(|writer| {
            tokio::spawn(write(
                c.clone(),
                shared.clone(),
                format!("r{number}-w{writer}"),
                Arc::clone(&answers),
            ))
        })
        .collect();
    let enough = ANSWERS_MIN + (number * 37) % sized(180, 40);
    until("answers come", FLOWS_WITHIN, async || {
        (answers.load(Ordering::Relaxed) >= enough).then_some(())
    })
    .await;
    server.kill9();
    let mut attempts = Vec::new();
    for writer in writers {
        attempts.extend(writer.await.unwrap());
    }
    server.restart();
    if number.is_multiple_of(killed_at_start_every()) {
        server.restart();
    }
    let c = server.with_key(key);
    let retries = futures_util::stream::iter(attempts).map(|mut attempt| {
        let c = c.clone();
        async move {
            attempt.again(&c).await;
            attempt
        }
    });
    let attempts: Vec<Attempt> = retries.buffer_unordered(writer_count()).collect().await;
    ledger.settle(&c, &attempts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_message_survives_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let mut ledger = Ledger::begin(&account.test()).await;
    for number in 1..=rounds() {
        round(&mut server, &key, number, &mut ledger).await;
    }
    ledger.sweep(&server.with_key(&key)).await;
    assert!(server.term().success());
    server.assert_sound();
}
