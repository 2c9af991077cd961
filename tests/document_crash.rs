//! kill -9 among many writers of documents, again and again on the same folder: what was
//! acknowledged is there once, a repeated key gives the first answer, every version can be read,
//! and the log, the activity, the stream and the webhooks tell the same story, in order, byte for
//! byte.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::heard::{Heard, Kept};
use crate::support::{Answer, Client, Dice, EventStream, Receiver, Server, Setup, sized, until};

fn rounds() -> u64 {
    sized(12, 4)
}

fn writer_count() -> u64 {
    sized(16, 4)
}

/// Documents that all writers share, through all rounds; the first one goes into the bin and out of
/// it.
const SHARED_DOCUMENTS: usize = 5;
const BRANCHES: u64 = 3;
/// How long the first answers of a round may take to come.
const FLOWS_WITHIN: Duration = Duration::from_secs(30);
/// Soon after a crash, and patient.
const SCHEDULE: &str = "[0.1, 0.2, 0.4, 0.8, 1.6, 3, 3, 3]";

/// A text whose middle never changes: the head's writers change its first line, those of side lines
/// its last one.
fn text(first: &str, last: &str) -> String {
    format!(
        "head: {first}\n{}side: {last}\n",
        "a line that nobody touches\n".repeat(40)
    )
}

/// What a writer asks. Each leaves its key somewhere in the log, once, where that can be.
#[derive(Clone)]
struct Attempt {
    key: String,
    method: &'static str,
    path: String,
    body: Value,
    /// PUT and DELETE are not kept by key: with the tag of what was read they are done at most once
    /// all the same.
    if_match: Option<String>,
    heard: Heard,
}

impl Attempt {
    fn post(key: &str, path: String, body: Value) -> Self {
        Self {
            key: key.to_owned(),
            method: "POST",
            path,
            body,
            if_match: None,
            heard: Heard::Nothing,
        }
    }

    fn on(self, method: &'static str, tag: &str) -> Self {
        Self {
            method,
            if_match: Some(tag.to_owned()),
            ..self
        }
    }

    /// The writers' mix: everything that changes a document.
    fn plan(key: &str, dice: &mut Dice, (at, bin): (&str, &str), tag: &str) -> Self {
        let branch = format!("b{}", dice.below(BRANCHES));
        let below = |path: &str| format!("{at}/{path}");
        let on_head = json!({"content": text(key, "-"), "message": key});
        match dice.below(16) {
            0 => Self::post(
                key,
                DOCUMENTS.to_owned(),
                json!({"title": key, "content": text(key, "-")}),
            ),
            1..=3 => Self::post(key, below("versions"), on_head),
            4 => Self::post(
                key,
                below("versions"),
                json!({"content": text(key, "-"), "message": key, "label": key}),
            ),
            5..=6 => {
                let body = json!({"content": text("-", key), "message": key, "branch": branch});
                Self::post(key, below("versions"), body)
            }
            7..=8 => {
                let strategy = ["ours", "theirs", "union"][usize::try_from(dice.below(3)).unwrap()];
                Self::post(
                    key,
                    below("merge"),
                    json!({"source": branch, "message": key, "strategy": strategy}),
                )
            }
            9 => Self::post(
                key,
                below("comments"),
                json!({"start_line": 1 + dice.below(42), "body": key}),
            ),
            10 => Self::post(key, below("share"), json!({"role": "viewer"})),
            11 => Self::post(key, below("versions/1/restore"), json!({"message": key})),
            12 => Self::post(
                key,
                at.to_owned(),
                json!({"content": text(key, "-"), "metadata": {"key": key}}),
            )
            .on("PUT", tag),
            13 => {
                let visibility = if dice.below(2) == 0 {
                    "private"
                } else {
                    "account"
                };
                Self::post(key, below("permissions"), json!({"visibility": visibility}))
                    .on("PUT", "*")
            }
            14 => Self::post(key, bin.to_owned(), Value::Null).on("DELETE", "*"),
            _ => Self::post(key, format!("{bin}/restore"), json!({})),
        }
    }

    async fn send(&self, c: &Client) -> Option<Answer> {
        let call = c.call(self.method, &self.path);
        let call = match &self.if_match {
            Some(tag) => call.with("if-match", tag),
            None => call.with("idempotency-key", &self.key),
        };
        let call = if self.body.is_null() {
            call
        } else {
            call.bytes(self.body.to_string())
                .with("content-type", "application/json")
        };
        call.try_send().await.ok()
    }

    /// Sends it for the first time; true as long as the server answers.
    async fn first(&mut self, c: &Client) -> bool {
        let Some(answer) = self.send(c).await else {
            return false;
        };
        self.heard = match answer.status {
            200 | 201 | 204 => Heard::Done(Kept::of(&answer)),
            // In the bin; nothing to merge from; a tag that is old.
            404 | 409 | 412 => Heard::Refused,
            _ => panic!("{answer}"),
        };
        true
    }

    /// Sends it again after the crash: the first answer, if there was one; else it is known from
    /// now on.
    async fn again(&mut self, c: &Client) {
        if matches!(self.heard, Heard::Nothing) {
            assert!(self.first(c).await, "{} is not answered", self.key);
        }
        if let (Heard::Done(kept), None) = (&self.heard, &self.if_match) {
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

/// Writes until the connection breaks.
async fn write(
    c: Client,
    shared: Vec<String>,
    seed: u64,
    answers: Arc<AtomicUsize>,
) -> Vec<Attempt> {
    let (mut dice, mut attempts) = (Dice::new(seed), Vec::new());
    for n in 0.. {
        let at = &shared[usize::try_from(dice.below(shared.len() as u64)).unwrap()];
        // What a PUT goes by. What is in the bin has no tag.
        let Ok(read) = c.get(at).try_send().await else {
            break;
        };
        let tag = read.header_opt("etag").unwrap_or("\"none\"").to_owned();
        let mut attempt = Attempt::plan(&format!("k{seed}-{n}"), &mut dice, (at, &shared[0]), &tag);
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
async fn round(server: &mut Server, key: &str, number: u64, shared: &[String]) -> Vec<Attempt> {
    let c = server.with_key(key);
    let answers = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..writer_count())
        .map(|writer| {
            tokio::spawn(write(
                c.clone(),
                shared.to_vec(),
                number * 100 + writer,
                Arc::clone(&answers),
            ))
        })
        .collect();
    let enough = 10 + usize::try_from((number * 37) % 60).unwrap();
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
    let c = server.with_key(key);
    let retries = futures_util::stream::iter(attempts).map(|mut attempt| {
        let c = c.clone();
        async move {
            attempt.again(&c).await;
            attempt
        }
    });
    retries
        .buffer_unordered(usize::try_from(writer_count()).unwrap())
        .collect()
        .await
}

/// The account's whole log, and the bytes of its pages.
async fn whole_log(c: &Client) -> (Vec<Value>, String) {
    let (mut log, mut bytes, mut path) =
        (Vec::new(), String::new(), "/v1/events?limit=100".to_owned());
    loop {
        let page = c.get(&path).await.expect(200);
        if page.data().is_empty() {
            return (log, bytes);
        }
        log.extend(page.data().clone());
        bytes.push_str(std::str::from_utf8(&page.bytes).unwrap());
        path = page.link("next").unwrap();
    }
}

/// The keys that an event bears witness of.
fn witnessed(event: &Value) -> Option<&str> {
    let data = &event["data"];
    match event["event"].as_str().unwrap() {
        "document.created" => data["title"].as_str(),
        "document.version_created" | "document.merged" => data["version"]["message"].as_str(),
        "document.updated" => data["changes"]["metadata"]["to"]["key"].as_str(),
        "document.commented" => data["comment"]["body"].as_str(),
        "document.shared" => data["share"]["share_id"].as_str(),
        _ => None,
    }
}

/// By what an acknowledged change must stand in the log; none for those that leave no name, or may
/// change nothing.
fn expected(attempt: &Attempt, kept: &Kept) -> Option<String> {
    let last = attempt.path.rsplit('/').next().unwrap();
    match (attempt.method, last) {
        ("POST", "share") => kept.json()["share_id"].as_str().map(str::to_owned),
        ("POST", "merge") => (kept.status == 201).then(|| attempt.key.clone()),
        ("DELETE", _) | (_, "permissions") => None,
        ("POST", "restore") if attempt.body == json!({}) => None,
        _ => Some(attempt.key.clone()),
    }
}

/// What was done stands in the log once, what was refused does not, and nothing stands there that
/// nobody asked for.
fn assert_done_once(attempts: &[Attempt], log: &[Value]) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for key in log.iter().filter_map(witnessed) {
        *seen.entry(key).or_default() += 1;
    }
    let mut wanted = HashSet::new();
    for attempt in attempts {
        match &attempt.heard {
            Heard::Done(kept) => wanted.extend(expected(attempt, kept)),
            // A change with a tag whose answer was lost is refused the second time if the first one
            // went through.
            Heard::Refused if attempt.method == "PUT" && attempt.path.ends_with("permissions") => {}
            Heard::Refused if attempt.if_match.is_some() => {}
            Heard::Refused => assert!(
                !seen.contains_key(attempt.key.as_str()),
                "refused, and done: {}",
                attempt.key
            ),
            Heard::Nothing => panic!("{} is not settled", attempt.key),
        }
    }
    for key in &wanted {
        assert_eq!(
            seen.get(key.as_str()),
            Some(&1),
            "{key}: acknowledged, and not there once"
        );
    }
    let with_tag: HashSet<&str> = attempts
        .iter()
        .filter(|one| one.if_match.is_some())
        .map(|one| one.key.as_str())
        .collect();
    for (key, count) in seen {
        assert!(
            wanted.contains(key) || with_tag.contains(key) || key == "Shared" || key == "begun",
            "nobody's: {key}"
        );
        assert!(
            count == 1 || key == "Shared" || key == "begun",
            "{key}: {count} times"
        );
    }
}

/// What the log says of one document.
#[derive(Default)]
struct Story {
    events: Vec<Value>,
    versions: Vec<Value>,
    last: Value,
    deleted: bool,
    comments: usize,
    shares: usize,
    /// None: as it was made.
    visibility: Option<Value>,
}

/// The log, document by document: every `seq` and every version's number follows the one before.
fn stories(log: &[Value]) -> BTreeMap<String, Story> {
    let mut stories: BTreeMap<String, Story> = BTreeMap::new();
    for event in log {
        let data = &event["data"];
        let story = stories
            .entry(data["id"].as_str().unwrap().to_owned())
            .or_default();
        story.events.push(event.clone());
        assert_eq!(
            event["seq"],
            story.events.len(),
            "a gap or a repeat: {event}"
        );
        match event["event"].as_str().unwrap() {
            "document.version_created" | "document.merged" => {
                story.versions.push(data["version"].clone());
                assert_eq!(
                    data["version"]["number"],
                    story.versions.len() + 1,
                    "a gap: {event}"
                );
            }
            "document.deleted" => story.deleted = true,
            "document.restored" => story.deleted = false,
            "document.permissions_updated" => {
                story.visibility = Some(data["changes"]["visibility"]["to"].clone())
            }
            "document.commented" => story.comments += 1,
            "document.shared" => story.shares += 1,
            _ => {}
        }
        story.last = data.clone();
    }
    stories
}

/// The document is what its story says, each of its versions can be read and is what was sent, and
/// its activity is the story, entry by entry.
async fn assert_true(c: &Client, id: &str, story: &Story, sent: &HashMap<String, Value>) {
    let at = format!("{DOCUMENTS}/{id}");
    if story.deleted {
        c.call("POST", &format!("{at}/restore")).await.expect(200);
    }
    let now = c.get(&at).await.expect(200);
    for field in [
        "title",
        "metadata",
        "version_number",
        "created_at",
        "created_by",
    ] {
        assert_eq!(now[field], story.last[field], "{field} of {id}");
    }
    let log = all(c, &format!("{at}/activity?limit=100&order=asc")).await;
    let told: Vec<&Value> = story.events.iter().map(|event| &event["event"]).collect();
    let actions: Vec<&Value> = log
        .iter()
        .map(|entry| &entry["action"])
        .take(told.len())
        .collect();
    assert_eq!(actions, told, "the activity of {id}");
    assert_eq!(log.len(), told.len() + usize::from(story.deleted));
    let visibility = story.visibility.clone().unwrap_or(json!("private"));
    assert_eq!(
        c.get(&format!("{at}/permissions")).await.expect(200)["visibility"],
        visibility
    );
    let count = async |part: &str| {
        c.get(&format!("{at}/{part}?limit=1"))
            .await
            .expect(200)
            .total()
    };
    assert_eq!(
        (count("comments").await, count("share").await),
        (story.comments as u64, story.shares as u64)
    );
    let versions = all(c, &format!("{at}/versions?limit=100&order=asc")).await;
    assert_eq!(versions.len(), story.versions.len() + 1);
    assert_eq!(versions[1..], story.versions[..], "the versions of {id}");
    let reads = futures_util::stream::iter(
        versions
            .into_iter()
            .map(|version| read(c, &at, version, sent)),
    );
    reads.buffer_unordered(4).collect::<Vec<()>>().await;
}

/// A version's text is what was sent with its message, that of version 1 where it was restored; a
/// merge's is whole.
async fn read(c: &Client, at: &str, version: Value, sent: &HashMap<String, Value>) {
    let found = c
        .get(&format!(
            "{at}/versions/{}",
            version["id"].as_str().unwrap()
        ))
        .await
        .expect(200);
    let content = found["content"].as_str().unwrap();
    let is_merge = version["parents"].as_array().unwrap().len() == 2;
    match version["message"].as_str().filter(|_| !is_merge) {
        Some(message) => {
            let restored = text("-", "-");
            assert_eq!(
                content,
                sent.get(message)
                    .and_then(Value::as_str)
                    .unwrap_or(&restored),
                "{version}"
            );
        }
        None => assert!(
            content.starts_with("head: ") && content.lines().count() >= 42,
            "{version}: {content}"
        ),
    }
}

/// A whole list, page by page.
async fn all(c: &Client, first: &str) -> Vec<Value> {
    let (mut found, mut path) = (Vec::new(), Some(first.to_owned()));
    while let Some(next) = path {
        let page = c.get(&next).await.expect(200);
        found.extend(page.data().clone());
        path = page.link("next");
    }
    found
}

/// The stream and the webhooks carry the log: all of it, each document's in order, the same bytes.
async fn assert_told_the_same(
    c: &Client,
    receiver: &Receiver,
    (log, bytes): &(Vec<Value>, String),
) {
    let mut stream = EventStream::open(c.get("/v1/events?after=0")).await;
    for event in log {
        let came = stream.event().await;
        assert_eq!(&came.json(), event, "the stream's order");
        assert!(bytes.contains(&came.data), "other bytes: {}", came.data);
    }
    let wanted: HashSet<&str> = log
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    let received = until(
        "every event is delivered",
        Duration::from_secs(60),
        async || {
            let all = (receiver.count() >= wanted.len()).then(|| receiver.received())?;
            let came: HashSet<&str> = all
                .iter()
                .map(|delivery| delivery.header("webhook-id"))
                .collect();
            wanted
                .iter()
                .all(|id| came.contains(id))
                .then(|| all.clone())
        },
    )
    .await;
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for delivery in received {
        assert!(
            wanted.contains(delivery.header("webhook-id")),
            "not in the log: {delivery:?}"
        );
        assert!(
            bytes.contains(&delivery.body),
            "other bytes: {}",
            delivery.body
        );
        let event = delivery.event();
        let last = last
            .entry(event["data"]["id"].as_str().unwrap().to_owned())
            .or_default();
        let seq = event["seq"].as_u64().unwrap();
        assert!(
            seq <= *last + 1,
            "{seq} of {} came behind {last}",
            event["data"]["id"]
        );
        *last = seq.max(*last);
    }
}

/// The shared documents, with all branches begun.
async fn begin(c: &Client) -> Vec<String> {
    let mut shared = Vec::new();
    for _ in 0..SHARED_DOCUMENTS {
        let made = c
            .post(
                DOCUMENTS,
                json!({"title": "Shared", "content": text("-", "-")}),
            )
            .await
            .expect(201);
        let at = made.header("location").to_owned();
        for branch in 0..BRANCHES {
            let body = json!({"branch": format!("b{branch}"), "content": text("-", "-"), "message": "begun"});
            c.version(&at, body).await;
        }
        shared.push(at);
    }
    shared
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_change_survives_kill_9_once_and_is_told_the_same_everywhere() {
    let mut server = Setup::default().delivering(SCHEDULE, "5").start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let receiver = Receiver::start().await;
    c.post(
        "/v1/webhooks",
        json!({"url": receiver.url(), "events": ["*"]}),
    )
    .await
    .expect(201);
    let shared = begin(&c).await;
    let mut attempts = Vec::new();
    for number in 1..=rounds() {
        attempts.extend(round(&mut server, &key, number, &shared).await);
    }
    let c = server.with_key(&key);
    let log = whole_log(&c).await;
    let put = |one: &&Attempt| one.method == "PUT" && matches!(one.heard, Heard::Done(_));
    let puts = attempts.iter().filter(put).count();
    assert!(
        log.0.len() > sized(400, 80) && puts > sized(20, 6),
        "only {} events, {puts} PUTs",
        log.0.len()
    );
    assert_done_once(&attempts, &log.0);
    assert_told_the_same(&c, &receiver, &log).await;
    let sent: HashMap<String, Value> = attempts
        .iter()
        .map(|attempt| (attempt.key.clone(), attempt.body["content"].clone()))
        .collect();
    let sent = sent
        .into_iter()
        .filter(|(_, content)| content.is_string())
        .collect();
    let stories = stories(&log.0);
    assert!(shared.iter().all(|at| stories.contains_key(id_of(at))));
    for (id, story) in &stories {
        assert_true(&c, id, story, &sent).await;
    }
    let bin = c
        .get(&format!("{DOCUMENTS}?deleted=true"))
        .await
        .expect(200);
    assert_eq!(bin.total(), 0, "what was in the bin was taken out of it");
    assert_eq!(
        c.get(&format!("{DOCUMENTS}?limit=1"))
            .await
            .expect(200)
            .total(),
        stories.len() as u64
    );
    assert!(server.term().success());
    server.assert_sound();
}

/// Makes documents until the connection breaks; gives the contents by title, and the titles that were
/// acknowledged.
async fn make_long(c: Client, seed: u64, answers: Arc<AtomicUsize>) -> LongDocuments {
    let (mut dice, mut made) = (Dice::new(seed), LongDocuments::default());
    for n in 0.. {
        let (title, bytes) = (format!("long {seed} {n}"), 100_000 + dice.below(1_000_000));
        let content = dice.noise(usize::try_from(bytes).unwrap());
        let body = json!({"title": title, "content": content}).to_string();
        made.sent.insert(title.clone(), content);
        let call = c.call("POST", DOCUMENTS).bytes(body);
        let call = call.with("content-type", "application/json");
        let Ok(answer) = call.try_send().await else {
            break;
        };
        made.acknowledged.insert(title, answer.expect(201).id("id"));
        answers.fetch_add(1, Ordering::Relaxed);
    }
    made
}

#[derive(Default)]
struct LongDocuments {
    sent: HashMap<String, String>,
    acknowledged: HashMap<String, String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_document_is_there_whole_or_not_at_all() {
    let mut server = Server::start();
    let key = server.account().await.test_key().to_owned();
    let mut all = LongDocuments::default();
    for number in 0..rounds() {
        let answers = Arc::new(AtomicUsize::new(0));
        let c = server.with_key(&key);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let seed = number * 100 + writer;
                tokio::spawn(make_long(c.clone(), seed, Arc::clone(&answers)))
            })
            .collect();
        let enough = usize::try_from(3 + number).unwrap();
        until("answers come", FLOWS_WITHIN, async || {
            (answers.load(Ordering::Relaxed) >= enough).then_some(())
        })
        .await;
        server.kill9();
        for writer in writers {
            let made = writer.await.unwrap();
            all.sent.extend(made.sent);
            all.acknowledged.extend(made.acknowledged);
        }
        server.restart();
    }
    let c = server.with_key(&key);
    let mut path = format!("{DOCUMENTS}?limit=100");
    let mut there = HashSet::new();
    loop {
        let page = c.get(&path).await.expect(200);
        for document in page.data() {
            let id = document["id"].as_str().unwrap();
            let title = document["title"].as_str().unwrap();
            let read = c.get(&format!("{DOCUMENTS}/{id}")).await.expect(200);
            assert!(read["content"] == all.sent[title], "{title} is another");
            assert!(there.insert(id.to_owned()));
        }
        match page.link("next") {
            Some(next) => path = next,
            None => break,
        }
    }
    for (title, id) in &all.acknowledged {
        assert!(there.contains(id), "{title} was acknowledged and is gone");
    }
    assert!(server.term().success());
    server.assert_sound();
}
