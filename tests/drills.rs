//! The whole story of supervision as an operator lives through it, on a busy server: crash,
//! restart, backoff, quarantine, trial, release, passivation under load, a flooded neighbour, a
//! slow store. Each figure that operators see agrees with what the test did.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::shapes::instant;
use crate::support::{Answer, Client, Receiver, Server, Setup, sized, until};
use crate::support::{mongodb, preload};

/// What the busy machine may add to a wait.
fn slack() -> Duration {
    Duration::from_secs(sized(10, 40))
}
/// Conversations that are written to all the while.
const BUSY: usize = 8;

fn drilling() -> Setup {
    Setup::default().env("COLLOQUY__SUPERVISION__DRILLS", "true")
}

/// Between two messages of one sender on MongoDB: the server of its protocol in the tests reads a
/// whole collection for most questions, and could answer none after a minute at full speed.
const PACE_ON_MONGODB: Duration = Duration::from_millis(250);

/// Somebody else's messages, all the while: each must be acknowledged.
struct Traffic {
    over: Arc<AtomicBool>,
    senders: Vec<JoinHandle<u64>>,
    client: Client,
    conversations: Vec<String>,
}

impl Traffic {
    async fn start(server: &Server) -> Self {
        let client = server.account().await.test();
        let over = Arc::<AtomicBool>::default();
        let (mut senders, mut conversations) = (Vec::new(), Vec::new());
        for _ in 0..BUSY {
            let conversation = client.conversation().await;
            let (client, over) = (client.clone(), Arc::clone(&over));
            conversations.push(conversation.clone());
            senders.push(tokio::spawn(async move {
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    sent += 1;
                    let message = client.message(&conversation, &format!("{sent}")).await;
                    assert_eq!(message["seq"], sent, "in their order");
                    if mongodb::is_used() {
                        tokio::time::sleep(PACE_ON_MONGODB).await;
                    }
                }
                sent
            }));
        }
        Traffic {
            over,
            senders,
            client,
            conversations,
        }
    }

    /// Ends it: everything that was acknowledged is there, once and in order.
    async fn ends(self) {
        self.over.store(true, Ordering::Relaxed);
        for (sender, conversation) in self.senders.into_iter().zip(&self.conversations) {
            let sent = sender.await.unwrap();
            let path = format!("/v1/conversations/{conversation}/messages?limit=1");
            assert_eq!(self.client.get(&path).await.expect(200).total(), sent);
            assert!(sent > 0);
        }
    }
}

/// An actor of one kind, and a request that only it can answer.
struct Subject {
    operator: Client,
    kind: &'static str,
    id: String,
    caller: Client,
    path: String,
}

impl Subject {
    /// The request's answer.
    async fn asked(&self) -> Answer {
        self.caller.get(&self.path).await
    }

    /// What a command of an operator answers.
    async fn steer(&self, command: &str) -> Value {
        let path = format!("{}/{command}", self.at());
        self.operator.post(&path, json!({})).await.expect(200).body
    }

    /// The actor as operators see it.
    async fn seen(&self) -> Value {
        self.operator.get(&self.at()).await.expect(200).body
    }

    /// The figures of its kind.
    async fn figures(&self) -> Value {
        let path = format!("/admin/v1/actors/{}", self.kind);
        self.operator.get(&path).await.expect(200).body
    }

    async fn set(&self, settings: Value) {
        let kinds = json!({"kinds": {self.kind: settings}});
        let path = "/admin/v1/supervision";
        self.operator.patch(path, kinds).await.expect(200);
    }

    /// Lets its next request crash, and sends that.
    async fn crash(&self) {
        self.steer("crash").await;
        self.asked().await.error(500, "server_error", "");
    }

    /// Asks until it is no longer refused: its last answer, and how often it was refused before.
    async fn refused_until(&self) -> (Answer, u64) {
        let mut refused = 0;
        let answer = until("it is let in", slack(), async || {
            let answer = self.asked().await;
            if answer.status != 503 {
                return Some(answer);
            }
            assert!(answer.number("retry-after") > 0);
            assert_eq!(answer["error"]["details"]["outcome"], "none");
            refused += 1;
            None
        });
        (answer.await, refused)
    }

    fn at(&self) -> String {
        format!("/admin/v1/actors/{}/instances/{}", self.kind, self.id)
    }
}

/// One of each kind, of an account of their own.
async fn subjects(server: &Server) -> Vec<Subject> {
    let account = server.account().await;
    let (client, operator) = (account.test(), server.operator());
    let conversation = client.conversation().await;
    let document = json!({"title": "t", "content": "c"});
    let document = client.post("/api/v1/documents", document).await.expect(201);
    let (_, key) = account.key(json!({"type": "test"})).await;
    let endpoint = json!({"url": "https://example.com/hooks", "events": ["message.created"]});
    let endpoint = client.post("/v1/webhooks", endpoint).await.expect(201);
    let subject = |kind, id: &str, caller: &Client, root: &str| Subject {
        operator: operator.clone(),
        kind,
        id: id.to_owned(),
        caller: caller.clone(),
        path: format!("{root}/{id}"),
    };
    vec![
        subject("conversation", &conversation, &client, "/v1/conversations"),
        subject("document", &document.id("id"), &client, "/api/v1/documents"),
        subject(
            "key",
            key["key_id"].as_str().unwrap(),
            &operator,
            "/admin/v1/keys",
        ),
        subject(
            "webhook",
            &endpoint.id("webhook_id"),
            &client,
            "/v1/webhooks",
        ),
    ]
}

/// From the first crash to the release, and what operators read of it.
async fn lives_through_its_crashes(subject: &Subject) {
    let settings = json!({
        "crashes_max": 3, "window_seconds": 3600, "backoff_first_seconds": 0, "backoff_min_seconds": 2,
        "backoff_jitter": 0, "quarantine_seconds": 5,
    });
    subject.set(settings).await;
    let before = subject.figures().await;

    subject.crash().await;
    subject.asked().await.expect(200);
    assert_eq!(subject.seen().await["restarts"], 1, "at once");

    subject.crash().await;
    let crashed = Instant::now();
    assert_eq!(subject.seen().await["state"], "backing_off");
    let (back, backing_off) = subject.refused_until().await;
    let waited = crashed.elapsed();
    back.expect(200);
    assert!(backing_off > 0);
    assert!(waited > Duration::from_millis(1_500), "{waited:?}");

    subject.crash().await;
    let quarantined = subject.seen().await;
    assert_eq!(quarantined["state"], "quarantined");
    let left = instant(&quarantined["quarantined_until"]) - chrono::Utc::now();
    assert!(left.num_milliseconds() <= 5_000, "{left}");
    assert_eq!(quarantined["last_failure"]["cause"], "crash");
    subject.steer("crash").await;
    let (trial, first) = subject.refused_until().await;
    trial.error(500, "server_error", "");
    assert_eq!(subject.seen().await["state"], "quarantined", "again");
    let second = 3;
    for _ in 0..second {
        subject.asked().await.error(503, "unavailable", "");
    }
    assert_eq!(subject.steer("release").await["state"], "ready");
    subject.asked().await.expect(200);

    let after = subject.figures().await;
    let more = |pointer: &str| {
        let [after, before] = [&after, &before].map(|figures| figures.pointer(pointer).unwrap());
        after.as_u64().unwrap() - before.as_u64().unwrap()
    };
    assert_eq!(more("/restarts/crash"), 2, "the third began a quarantine");
    assert_eq!(more("/refused/backing_off"), backing_off);
    assert_eq!(more("/refused/quarantined"), first + second);
    assert_eq!(more("/conflicts"), 0);
    assert_eq!(after["by_state"]["quarantined"], 0);
    let failures = after["last_failures"].as_array().unwrap();
    let own = failures.iter().filter(|one| one["id"] == *subject.id);
    assert_eq!(own.count(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_crash_back_off_are_quarantined_tried_and_released_on_a_busy_server() {
    let mut server = drilling().start();
    server.expect_errors();
    let traffic = Traffic::start(&server).await;
    for subject in subjects(&server).await {
        lives_through_its_crashes(&subject).await;
    }
    traffic.ends().await;
}

/// Lets each instance of a kind that is no entity crash at its next message.
async fn crash_all(operator: &Client, kind: &str) {
    let path = format!("/admin/v1/actors/{kind}/instances");
    let instances = operator.get(&path).await.expect(200).column("id");
    assert!(!instances.is_empty());
    for id in instances {
        let drill = format!("{path}/{id}/crash");
        operator.post(&drill, json!({})).await.expect(200);
    }
}

/// How often instances of a kind began anew after a crash.
async fn crashes(operator: &Client, kind: &str) -> u64 {
    let figures = operator.get(&format!("/admin/v1/actors/{kind}")).await;
    figures.expect(200)["restarts"]["crash"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_actor_crashes_and_every_event_is_delivered() {
    const ROUNDS: u64 = 5;
    let mut server = drilling().delivering("[0.05, 0.05, 0.05]", "5").start();
    server.expect_errors();
    let receiver = Receiver::start().await;
    let traffic = Traffic::start(&server).await;
    let client = server.account().await.test();
    let endpoint = json!({"url": receiver.url(), "events": ["message.created"]});
    client.post("/v1/webhooks", endpoint).await.expect(201);
    let conversation = client.conversation().await;
    let operator = server.operator();
    for round in 1..=ROUNDS {
        crash_all(&operator, "webhook_dispatcher").await;
        client.message(&conversation, &format!("{round}")).await;
        until("it began anew", slack(), async || {
            (crashes(&operator, "webhook_dispatcher").await == round).then_some(())
        })
        .await;
    }
    traffic.ends().await;
    until("every event is delivered", slack() * 3, async || {
        let received = receiver.received();
        let ids = received
            .iter()
            .map(|one| one.event()["data"]["message_id"].to_string());
        (ids.collect::<BTreeSet<_>>().len() as u64 == ROUNDS).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_limiter_that_crashes_costs_one_request_each_time() {
    let mut server = drilling().start();
    server.expect_errors();
    let account = server.account().await;
    let operator = server.operator();
    let before = crashes(&operator, "limiter").await;
    crash_all(&operator, "limiter").await;
    let client = account.test();
    let crashed = client.get("/v1/conversations").await;
    assert_eq!(crashed["error"]["details"]["outcome"], "none");
    crashed.error(500, "server_error", "");
    client.get("/v1/conversations").await.expect(200);
    assert_eq!(crashes(&operator, "limiter").await, before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actors_leave_memory_under_load_and_nothing_is_lost() {
    let server = drilling().start();
    let traffic = Traffic::start(&server).await;
    let subject = subjects(&server).await.remove(0);
    let settings = json!({"active_max": 3, "sweep_seconds": 0.05, "idle_seconds": 0.05});
    subject.set(settings).await;
    let figures = until("many have left memory", slack(), async || {
        let figures = subject.figures().await;
        let passivations = figures["passivations"].as_object().unwrap();
        let left: u64 = passivations.values().map(|n| n.as_u64().unwrap()).sum();
        (left >= sized(50, 10)).then_some(figures)
    })
    .await;
    assert_eq!(figures["restarts"]["crash"], 0);
    traffic.ends().await;
    let figures = until("all have left memory", slack(), async || {
        let figures = subject.figures().await;
        (figures["live"] == 0).then_some(figures)
    })
    .await;
    let passivations = figures["passivations"].as_object().unwrap();
    let left: u64 = passivations.values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(figures["activations"], left, "who came has left");
    assert_eq!(figures["bytes"], 0);
    assert_eq!(subject.seen().await["state"], "passive");
    subject.asked().await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooded_actor_refuses_what_it_has_no_place_for_and_its_neighbours_notice_nothing() {
    let server = drilling().start();
    let traffic = Traffic::start(&server).await;
    let subject = subjects(&server).await.remove(0);
    subject.set(json!({"mailbox_places": 4})).await;
    let path = format!("{}/messages", subject.path);
    let flood = (0..400).map(|n| {
        let sent = subject
            .caller
            .post(&path, json!({"content": format!("{n}")}));
        tokio::spawn(async move { sent.await })
    });
    let flood: Vec<_> = flood.collect();
    let (mut taken, mut refused) = (0, 0);
    for sent in flood {
        let answer = sent.await.unwrap();
        if answer.status == 201 {
            taken += 1;
        } else {
            assert_eq!(answer["error"]["details"]["outcome"], "none");
            answer.error(503, "unavailable", "");
            refused += 1;
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
    let stored = subject.caller.get(&path).await.expect(200).total();
    assert_eq!(stored, taken);
    let figures = subject.figures().await;
    assert_eq!(figures["refused"]["mailbox_full"], refused);
    traffic.ends().await;
}

/// Takes its time over each write to the disk: as long as the variable says, in milliseconds.
const SLOW: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static int late(const char *name, int fd) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    usleep(1000 * atoi(getenv("SYNC_TAKES_MS")));
    return next(fd);
}
int fsync(int fd) { return late("fsync", fd); }
int fdatasync(int fd) { return late("fdatasync", fd); }
"#;
/// How long it takes.
const SYNC: Duration = Duration::from_millis(80);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_store_makes_writers_wait_and_no_reader() {
    let slow_disk = preload::library("slow_disk", SLOW);
    let server = drilling()
        .env("LD_PRELOAD", slow_disk.to_str().unwrap())
        .env("SYNC_TAKES_MS", &SYNC.as_millis().to_string())
        .start();
    let subject = subjects(&server).await.remove(0);
    let traffic = Traffic::start(&server).await;
    let store = async || server.operator().get("/admin/v1/store").await.expect(200);
    let health = until(
        "commits are told as slow as they are",
        slack(),
        async || {
            let health = store().await;
            let p50 = health["commit_ms"]["p50"].as_f64().unwrap();
            (p50 >= SYNC.as_secs_f64() * 1e3 * 0.75).then_some(health)
        },
    )
    .await;
    assert!(
        health["commit_ms"]["p99"].as_f64() >= health["commit_ms"]["p50"].as_f64(),
        "{health}"
    );
    until("commits are seen to wait", slack(), async || {
        (store().await["queue"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let mut reads = Vec::new();
    for _ in 0..21 {
        let begun = Instant::now();
        subject.asked().await.expect(200);
        reads.push(begun.elapsed());
    }
    reads.sort_unstable();
    assert!(reads[10] < SYNC, "{:?}", reads[10]);
    assert_eq!(subject.figures().await["restarts"]["crash"], 0);
    traffic.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_is_never_idle_is_not_passivated_and_the_operator_is_told() {
    let slow_disk = preload::library("slow_disk", SLOW);
    let mut server = drilling()
        .env("LD_PRELOAD", slow_disk.to_str().unwrap())
        .env("SYNC_TAKES_MS", "300")
        .start();
    server.expect_errors();
    let subject = subjects(&server).await.remove(0);
    // Less than it takes to make a message durable.
    subject.set(json!({"ask_timeout_seconds": 0.1})).await;
    let messages = format!("{}/messages", subject.path);
    let passivate = format!("{}/passivate", subject.at());
    let refused = until("it is busy all the time", slack(), async || {
        // Those behind the first one are made durable when that one is.
        let slow = || subject.caller.post(&messages, json!({"content": "slow"}));
        let sent = [(); 4].map(|()| slow().into_future());
        let sent = tokio::spawn(futures_util::future::join_all(sent));
        while !sent.is_finished() {
            let answer = subject.operator.post(&passivate, json!({})).await;
            if answer.status != 200 {
                return Some(answer);
            }
        }
        None
    })
    .await;
    assert!(refused.reason().contains("busy"), "{refused}");
    refused.error(409, "conflict", "");
    until("it has no work left", slack(), async || {
        let answer = subject.operator.post(&passivate, json!({})).await;
        (answer.status == 200 && answer["state"] == "passive").then_some(())
    })
    .await;
    let stored = subject.caller.get(&messages).await.expect(200);
    assert!(stored.total() > 0, "what it was at work on is done");
}

/// How often a second the process's threads wake up while nobody asks it anything. It counts
/// instead of timing: what a wake-up costs depends on what else the machine does.
fn idle_wakeups(process: u32) -> u64 {
    const SPAN: Duration = Duration::from_secs(3);
    let slept = || -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let statuses = threads.filter_map(|thread| {
            std::fs::read_to_string(thread.unwrap().path().join("status")).ok()
        });
        let counts = statuses.map(|status| {
            let count = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count.unwrap().trim().parse::<u64>().unwrap()
        });
        counts.sum()
    };
    let before = slept();
    std::thread::sleep(SPAN);
    slept().saturating_sub(before) / SPAN.as_secs()
}

#[tokio::test]
async fn looking_for_idle_actors_as_often_as_can_be_costs_an_idle_server_nothing() {
    let server = drilling().start();
    let subjects = subjects(&server).await;
    let kinds = subjects
        .iter()
        .map(|subject| (subject.kind, json!({"sweep_seconds": 0})));
    let kinds: serde_json::Map<String, Value> = kinds
        .map(|(kind, settings)| (kind.to_owned(), settings))
        .collect();
    let path = "/admin/v1/supervision";
    let operator = server.operator();
    operator
        .patch(path, json!({"kinds": kinds}))
        .await
        .expect(200);
    let wakeups = idle_wakeups(server.pid());
    assert!(wakeups < 150, "{wakeups} a second");
    subjects[0].set(json!({"idle_seconds": 0})).await;
    until("it has left memory", slack(), async || {
        (subjects[0].seen().await["state"] == "passive").then_some(())
    })
    .await;
}
