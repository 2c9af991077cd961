//! Histories of clients that all write to the same few conversations and documents while servers
//! are killed, paused and crashed and connections cut: each must be explained by every operation
//! having been done at one instant between its call and its answer (`tests/porcupine`).

mod caller;
mod checker;
mod conversations;
mod documents;
mod history;
mod nodes;
mod several;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;

use caller::Caller;
use conversations::Conversations;
use documents::Documents;
use history::{Entity, History, Record, judge};
use nodes::Nodes;

use crate::support::{Addresses, Client, Dice, mongodb, until};

const CALLERS: usize = 12;
/// What a busy machine may take to answer so many operations.
const SLACK: Duration = Duration::from_secs(120);
/// How long clients wait for an answer before they hang up.
const PATIENT: Duration = Duration::from_secs(10);
/// How many entries a page shows at most.
const PAGE: usize = 100;

/// What all clients of a history work on.
struct Work {
    conversations: Conversations,
    documents: Documents,
    over: AtomicBool,
}

/// A history in the making.
struct Run {
    history: Arc<History>,
    work: Arc<Work>,
    client: Client,
    addresses: Addresses,
    callers: Vec<JoinHandle<()>>,
    slower: u8,
    sees_whole_lists: bool,
}

/// How long clients wait that a pause makes hang up.
fn impatient(nodes: &Nodes) -> Duration {
    Duration::from_millis(200) * u32::from(nodes.slower())
}

impl Run {
    /// Lets clients loose on the nodes, on an account of their own.
    async fn begin(nodes: &Nodes, patience: Duration) -> Self {
        let history = Arc::new(History::begin());
        let client = nodes.first().account().await.test();
        let addresses = nodes.addresses.clone();
        let caller = |number| Caller {
            number,
            client: client.clone(),
            addresses: addresses.clone(),
            history: Arc::clone(&history),
            dice: Dice::new(number as u64 + 1),
            patience,
            marks: 0,
            sees_whole_lists: !nodes.is_on_mongodb(),
        };
        let mut first = caller(CALLERS);
        let work = Arc::new(Work {
            conversations: Conversations::begin(&mut first).await,
            documents: Documents::begin(&mut first).await,
            over: AtomicBool::new(false),
        });
        let callers =
            (0..CALLERS).map(|number| tokio::spawn(act(caller(number), Arc::clone(&work))));
        Self {
            callers: callers.collect(),
            history,
            work,
            client,
            addresses,
            slower: nodes.slower(),
            sees_whole_lists: !nodes.is_on_mongodb(),
        }
    }

    fn entities(&self) -> Vec<Entity> {
        let mut entities = self.work.conversations.entities();
        entities.extend(self.work.documents.entities());
        entities
    }

    /// Waits for so many more answers, or fewer where the store is slower.
    async fn goes_on(&self, answers: usize) {
        let enough = self.history.answered() + answers / usize::from(self.slower);
        until("operations are answered", SLACK, async || {
            (self.history.answered() >= enough).then_some(())
        })
        .await;
    }

    /// Lets the clients finish and reads everything once more. Gives the history, and the instant
    /// at which only this reader was left.
    async fn ends(self) -> (Vec<Record>, u64) {
        self.work.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        let quiet_at = self.history.now();
        let mut last = Caller {
            number: CALLERS + 1,
            client: self.client,
            addresses: self.addresses,
            history: Arc::clone(&self.history),
            dice: Dice::new(0),
            patience: PATIENT,
            marks: 0,
            sees_whole_lists: self.sees_whole_lists,
        };
        self.work.conversations.read_all(&mut last).await;
        self.work.documents.read_all(&mut last).await;
        (self.history.records(), quiet_at)
    }
}

async fn act(mut caller: Caller, work: Arc<Work>) {
    while !work.over.load(Ordering::Relaxed) {
        if caller.once_in(3) {
            work.documents.act(&mut caller).await;
        } else {
            work.conversations.act(&mut caller).await;
        }
    }
}

/// What the program says of the history when the clients have finished: it must be linearizable.
async fn is_linearizable(name: &str, run: Run) {
    let (records, _) = run.ends().await;
    judge(name, &records, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_across_kill_9_are_linearizable() {
    let mut nodes = Nodes::one();
    let mut dice = Dice::new(1);
    let run = Run::begin(&nodes, PATIENT).await;
    for _ in 0..3 {
        run.goes_on(300).await;
        nodes.kill_and_restart_one(&mut dice);
    }
    run.goes_on(300).await;
    assert!(run.history.unknown() > 0, "nobody was left without answer");
    is_linearizable("kill-9", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_across_crashes_of_actors_are_linearizable() {
    let mut nodes = Nodes::one();
    let mut dice = Dice::new(2);
    nodes.allow_crashes().await;
    let run = Run::begin(&nodes, PATIENT).await;
    for round in 0..mongodb::sized(30, 6) {
        run.goes_on(30).await;
        let command = ["crash", "crash", "restart", "passivate"][round % 4];
        for entity in run.entities() {
            nodes.steer(&entity, command, &mut dice).await;
        }
    }
    assert!(run.history.unknown() > 0, "nobody was left without answer");
    is_linearizable("crashes", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_across_pauses_of_the_server_are_linearizable() {
    let mut nodes = Nodes::one();
    let mut dice = Dice::new(3);
    let run = Run::begin(&nodes, impatient(&nodes)).await;
    for _ in 0..4 {
        run.goes_on(200).await;
        let unknown = run.history.unknown();
        let pause = nodes.pause_one(&mut dice);
        until("clients have hung up", SLACK, async || {
            (run.history.unknown() >= unknown + CALLERS / 3).then_some(())
        })
        .await;
        drop(pause);
    }
    run.goes_on(200).await;
    is_linearizable("pauses", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_over_cut_connections_are_linearizable() {
    let nodes = Nodes::one().cut_after(50_000).await;
    let run = Run::begin(&nodes, PATIENT).await;
    until("connections were cut", SLACK, async || {
        (nodes.cuts() > mongodb::sized(40, 12)).then_some(())
    })
    .await;
    run.goes_on(100).await;
    assert!(run.history.unknown() > 0, "nobody was left without answer");
    nodes.cut_no_more();
    is_linearizable("cuts", run).await;
}

/// The place of the last answer to this operation, where it shows what `shows` wants.
fn last_of(records: &[Record], operation: (&str, &str), wanted: impl Fn(&Record) -> bool) -> usize {
    let (kind, asked) = operation;
    let found = records.iter().rposition(|record| {
        record.entity.kind == kind
            && record.asked["do"] == asked
            && record.told.is_some()
            && wanted(record)
    });
    found.unwrap_or_else(|| panic!("nobody was answered a {asked} of a {kind}"))
}

/// Puts into the last read of an entity what its creation was told, though it has changed since.
fn stale_read(records: &mut [Record], kind: &str) {
    let shown = |record: &Record| record.told.as_ref().map(|(_, told)| told["shown"].clone());
    let made = |entity: &Entity| {
        let made = |record: &&Record| &record.entity == entity && record.asked["do"] == "create";
        records.iter().find(made).unwrap()
    };
    let last = last_of(records, (kind, "get"), |record| {
        shown(record) != shown(made(&record.entity))
    });
    let (_, told) = made(&records[last].entity).told.clone().unwrap();
    records[last].told.as_mut().unwrap().1 = told;
}

/// Adds a write that was acknowledged before the last reads began, and that none of them shows.
fn lost_write(records: &mut Vec<Record>, kind: &'static str, quiet_at: u64) {
    let like = if kind == "document" { "put" } else { "send" };
    let done = |record: &Record| {
        record
            .told
            .as_ref()
            .is_some_and(|(_, told)| told["code"].is_null())
    };
    let mut lost = records[last_of(records, (kind, like), done)].clone();
    let told = &mut lost.told.as_mut().unwrap().1;
    told["tag"] = json!("\"lost\"");
    if kind == "document" {
        let number = told["shown"]["number"].as_u64().unwrap();
        told["shown"]["number"] = json!(number + 1);
        told["shown"]["version"] = json!("ver_lost");
    } else {
        told["number"] = json!(told["number"].as_u64().unwrap() + 1);
    }
    lost.call = quiet_at;
    lost.told.as_mut().unwrap().0 = quiet_at;
    records.push(lost);
}

/// Shows the last message of a conversation twice, in the last read of its messages.
fn doubled_message(records: &mut [Record]) {
    let last = last_of(records, ("conversation", "messages"), |record| {
        record.asked["after"].is_null()
    });
    let told = &mut records[last].told.as_mut().unwrap().1;
    let total = told["total"].as_u64().unwrap() + 1;
    let items = told["items"].as_array_mut().unwrap();
    let mut twice = items.last().unwrap().clone();
    twice["number"] = json!(total);
    items.push(twice);
    if items.len() > PAGE {
        items.remove(0);
    }
    told["total"] = json!(total);
}

/// Has clients work on the nodes, then plants into their history what must not be, one thing at a
/// time: each must be found.
async fn what_is_planted_is_found(nodes: &Nodes, name: &str) {
    let run = Run::begin(nodes, PATIENT).await;
    run.goes_on(500).await;
    let (records, quiet_at) = run.ends().await;
    judge(&format!("{name}-untouched"), &records, 0);
    let planted = |what: &str, plant: &dyn Fn(&mut Vec<Record>)| {
        let mut records = records.clone();
        plant(&mut records);
        let said = judge(&format!("{name}-{what}"), &records, 1);
        assert!(said.contains("no order explains this answer"), "{said}");
    };
    for kind in ["conversation", "document"] {
        planted(&format!("stale-{kind}"), &|records| {
            stale_read(records, kind)
        });
        planted(&format!("lost-{kind}"), &|records| {
            lost_write(records, kind, quiet_at)
        });
    }
    planted("doubled", &|records| doubled_message(records));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_stale_read_a_lost_write_and_a_doubled_message_are_found() {
    what_is_planted_is_found(&Nodes::one(), "one").await;
}
