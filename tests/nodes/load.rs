//! Callers of several nodes through a balancer: what each was answered, how long it waited, and
//! whether the conversations hold what was acknowledged, once, and nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::SLACK;
use crate::support::{Client, until};

/// Between two requests of a caller: FerretDB reads a whole collection for most questions.
const PAUSE: Duration = Duration::from_millis(100);

/// What a request came to.
type Heard = Result<(u16, Value), String>;

/// What the callers found out together.
#[derive(Default)]
struct Findings {
    /// When each request ended, and how long it took.
    waits: Mutex<Vec<(Instant, Duration)>>,
    /// When each request began that has not ended, by caller.
    begun: Mutex<BTreeMap<usize, Instant>>,
    /// What was answered that should not have been.
    wrong: Mutex<Vec<String>>,
    /// Writes without a key of which nobody knows whether they were done.
    unknown: Mutex<Vec<String>>,
}

/// The conversation that one writer writes to, and what it was told about it.
struct Written {
    conversation: String,
    /// The sequence of each message that was acknowledged, by its text.
    acknowledged: Mutex<BTreeMap<String, u64>>,
}

/// Callers that go on until they are told to stop.
pub(super) struct Load {
    client: Client,
    findings: Arc<Findings>,
    written: Vec<Arc<Written>>,
    stop: Arc<AtomicBool>,
    running: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts so many writers with `Idempotency-Key`, so many without, and so many readers.
    pub(super) async fn start(client: &Client, keyed: usize, bare: usize, readers: usize) -> Self {
        let mut load = Self {
            client: client.clone(),
            findings: Arc::default(),
            written: Vec::new(),
            stop: Arc::default(),
            running: Vec::new(),
        };
        for _ in 0..keyed + bare {
            load.written.push(Arc::new(Written {
                conversation: client.conversation().await,
                acknowledged: Mutex::default(),
            }));
        }
        for (number, written) in load.written.clone().into_iter().enumerate() {
            let caller = load.caller(number);
            load.running
                .push(tokio::spawn(caller.write(written, number < keyed)));
        }
        for number in keyed + bare..keyed + bare + readers {
            let caller = load.caller(number);
            load.running
                .push(tokio::spawn(caller.read(load.written.clone())));
        }
        load
    }

    fn caller(&self, number: usize) -> Caller {
        Caller {
            number,
            client: self.client.clone(),
            findings: Arc::clone(&self.findings),
            stop: Arc::clone(&self.stop),
        }
    }

    /// The time within which 99 of 100 requests were answered that ended within the last `span`,
    /// those that still wait with them; none where all callers together had not one answer each.
    pub(super) fn p99(&self, span: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut waits: Vec<Duration> = {
            let waits = self.findings.waits.lock().unwrap();
            let recent = waits.iter().rev();
            let recent = recent.take_while(|(ended, _)| now.duration_since(*ended) < span);
            recent.map(|(_, wait)| *wait).collect()
        };
        let begun = self.findings.begun.lock().unwrap();
        waits.extend(begun.values().map(|begun| now.duration_since(*begun)));
        waits.sort_unstable();
        (waits.len() > 2 * self.running.len()).then(|| waits[waits.len() * 99 / 100])
    }

    /// Waits until the callers have been answered so many more requests.
    pub(super) async fn answers(&self, more: usize) {
        let there = self.answered();
        until("the load goes on", SLACK, async || {
            (self.answered() >= there + more).then_some(())
        })
        .await;
    }

    fn answered(&self) -> usize {
        self.findings.waits.lock().unwrap().len()
    }

    /// Ends the callers and looks at what they wrote: each acknowledged message stands there once,
    /// at its sequence, and what else stands there is one of those of which nobody knew. Fails
    /// where a caller was answered wrongly. Gives the writes of which nobody knows whether they were
    /// done.
    pub(super) async fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        for running in self.running {
            running.await.unwrap();
        }
        let wrong = self.findings.wrong.lock().unwrap().clone();
        let unknown = self.findings.unknown.lock().unwrap().clone();
        assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
        for written in &self.written {
            written.compare(&self.client, &unknown).await;
        }
        unknown
    }
}

/// One caller: it asks, waits for the answer, and asks again.
struct Caller {
    number: usize,
    client: Client,
    findings: Arc<Findings>,
    stop: Arc<AtomicBool>,
}

impl Caller {
    async fn write(self, written: Arc<Written>, is_keyed: bool) {
        let path = format!("/v1/conversations/{}/messages", written.conversation);
        let mut next = 0;
        while !self.stop.load(Ordering::SeqCst) {
            next += 1;
            let text = format!("{}.{next}", self.number);
            let body = json!({"content": text, "sender_type": "system"});
            let mut call = self.client.post(&path, body);
            if is_keyed {
                call = call.with("idempotency-key", &text);
            }
            match self.ask(call).await {
                Ok((201, message)) => {
                    let sequence = message["seq"].as_u64().unwrap();
                    written.acknowledged.lock().unwrap().insert(text, sequence);
                }
                Ok((503, error))
                    if !is_keyed && error["error"]["details"]["outcome"] == "unknown" =>
                {
                    self.findings.unknown.lock().unwrap().push(text);
                }
                heard => self.is_wrong(&text, heard),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read(self, all: Vec<Arc<Written>>) {
        let mut next = self.number;
        while !self.stop.load(Ordering::SeqCst) {
            next += 1;
            let written = &all[next % all.len()];
            let before = written.acknowledged.lock().unwrap().len() as u64;
            let path = format!("/v1/conversations/{}", written.conversation);
            match self.ask(self.client.get(&path)).await {
                Ok((200, shown)) if shown["message_count"].as_u64() >= Some(before) => {}
                heard => self.is_wrong(&format!("{before} messages"), heard),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks over a connection of its own: a reload of nginx closes those that are idle, whose
    /// callers then have to know by themselves what they may send again.
    async fn ask(&self, call: crate::support::client::Call) -> Heard {
        let begun = Instant::now();
        self.findings
            .begun
            .lock()
            .unwrap()
            .insert(self.number, begun);
        let answering = async {
            let answer = call.with("connection", "close").open().await?;
            let status = answer.status().as_u16();
            Ok::<_, reqwest::Error>((status, answer.bytes().await?))
        };
        let heard = answering.await;
        self.findings.begun.lock().unwrap().remove(&self.number);
        let ended = Instant::now();
        let wait = ended.duration_since(begun);
        self.findings.waits.lock().unwrap().push((ended, wait));
        let (status, bytes) = heard.map_err(|error| format!("{error:?}"))?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    fn is_wrong(&self, asked: &str, heard: Heard) {
        let told = format!("{}: {asked}: {heard:?}", self.number);
        self.findings.wrong.lock().unwrap().push(told);
    }
}

impl Written {
    /// Compares what was acknowledged with what is there.
    async fn compare(&self, client: &Client, unknown: &[String]) {
        let mut there = BTreeMap::new();
        let mut total = 1;
        while (there.len() as u64) < total {
            let path = format!(
                "/v1/conversations/{}/messages?limit=100&offset={}",
                self.conversation,
                there.len()
            );
            let page = client.get(&path).await.expect(200);
            total = page.total();
            if total == 0 {
                break;
            }
            for message in page.data() {
                let text = message["content"].as_str().unwrap().to_owned();
                let sequence = message["seq"].as_u64().unwrap();
                let twice = there.insert(text, sequence);
                assert_eq!(twice, None, "a message stands there twice: {message}");
            }
        }
        let mut sequences: Vec<u64> = there.values().copied().collect();
        sequences.sort_unstable();
        assert!(sequences.into_iter().eq(1..=total), "a gap: {there:?}");
        for (text, sequence) in self.acknowledged.lock().unwrap().iter() {
            assert_eq!(
                there.remove(text),
                Some(*sequence),
                "{text} was acknowledged"
            );
        }
        let known = |text: &&String| !unknown.contains(text);
        let foreign: Vec<_> = there.keys().filter(known).collect();
        assert!(foreign.is_empty(), "nobody was told of {foreign:?}");
    }
}
