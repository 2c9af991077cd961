//! Nodes in two regions: operators see where each runs, a request of the far one costs as many round
//! trips to the database as the README's table says, and one that is cut off does no harm.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::faults::{is_away, is_back};
use super::writers::Writers;
use super::{SLACK, nodes_with};
use crate::support::{Client, Cluster, Database, Receiver, Setup, until};

/// The setting that names a node's region.
const REGION: &str = "COLLOQUY__SERVER__REGION";
/// The round trip from the far node to the database: well above what a busy machine takes for all
/// else of a request.
const ROUND_TRIP: Duration = Duration::from_millis(400);
/// How often something is asked, of which the fastest counts: a connection that has to be opened, or
/// a round of the writer that is under way, costs some of the others more.
const TRIES: usize = 4;
/// Within what a node says that its way to the database is cut, as the README says.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Within what deliveries go on at the other region, as the README says.
const DELIVERED_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn operators_see_in_which_region_each_node_runs() {
    let near = Setup::default().env(REGION, "eu-central-1");
    let mut nodes = nodes_with(&near, 1);
    let far = Setup::default().env(REGION, "us-east-1").joining(&nodes[0]);
    nodes.push(far.start());
    let operator = nodes[0].operator();
    let regions = until("both tell where they run", SLACK, async || {
        let list = operator.get("/admin/v1/nodes").await.expect(200);
        let regions = list.column("region");
        regions
            .iter()
            .all(|region| !region.is_empty())
            .then_some(regions)
    })
    .await;
    assert_eq!(regions, ["eu-central-1", "us-east-1"]);
    for (node, region) in nodes.iter().zip(&regions) {
        let sample = format!("node_info{{region=\"{region}\"}}");
        assert_eq!(node.metric(&sample).await, 1);
    }
}

/// The rows of the README's tables on regions: what is asked, and what the README says of it.
fn readme() -> BTreeMap<String, String> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, section) = readme.split_once("\n## Regions\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (what, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        Some((what.to_owned(), rest.trim_end_matches(" |").to_owned()))
    });
    rows.collect()
}

/// What the README promises to cost so many round trips.
fn promised() -> BTreeMap<String, u64> {
    let rows = readme().into_iter();
    rows.filter_map(|(what, cost)| Some((what, cost.parse().ok()?)))
        .collect()
}

/// How many round trips the README says to be the most of something.
fn at_most(what: &str) -> u64 {
    let rows = readme();
    let most = rows[what].strip_prefix("at most ").unwrap();
    most.parse().unwrap()
}

/// How many round trips the fastest of a few tries had time for.
async fn fewest(mut asked: impl AsyncFnMut()) -> u64 {
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let begun = Instant::now();
        asked().await;
        fastest = fastest.min(begun.elapsed());
    }
    round_trips(fastest)
}

fn round_trips(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / ROUND_TRIP.as_millis()).unwrap()
}

/// Two nodes, of which one is far from the database, and an account at each.
struct Regions {
    cluster: Cluster,
    near: Client,
    far: Client,
}

impl Regions {
    async fn start(database: &Database) -> Self {
        let setup = Setup::default().delivering("[0.05, 0.1]", "5");
        let cluster = Cluster::start_with(&setup, 2, database.address()).await;
        let near = cluster.servers[0].account().await.test();
        Self {
            far: near.at(&cluster.servers[1].address()),
            near,
            cluster,
        }
    }

    /// Conversations that only the near node has in memory.
    async fn conversations(&self) -> Vec<String> {
        let customer = self.near.customer().await;
        let mut paths = Vec::new();
        for _ in 0..TRIES {
            let conversation = self.near.conversation_of(&customer).await;
            paths.push(format!("/v1/conversations/{conversation}"));
        }
        paths
    }

    /// Puts the second node far from the database.
    fn part(&self) {
        self.cluster.ways[1].delay(ROUND_TRIP);
    }

    /// Puts it near again.
    fn join(&self) {
        self.cluster.ways[1].delay(Duration::ZERO);
    }
}

fn words() -> Value {
    json!({"content": "from afar", "sender_type": "system"})
}

/// What changes conversations, and what it costs at the far node.
async fn changes_of_conversations(regions: &Regions) -> Vec<(&'static str, u64)> {
    let far = &regions.far;
    let mut to_load = regions.conversations().await;
    let customer = regions.near.customer().await;
    let path = format!("/v1/conversations/{}", far.conversation().await);
    let messages = format!("{path}/messages");
    let opening = json!({"customer_id": customer, "channel": "chat"});
    regions.part();
    let mut number = 0;
    let asked = vec![
        (
            "`POST …/messages`",
            fewest(async || drop(far.post(&messages, words()).await.expect(201))).await,
        ),
        (
            "`POST …/messages`, not in memory",
            fewest(async || {
                let messages = format!("{}/messages", to_load.pop().unwrap());
                far.post(&messages, words()).await.expect(201);
            })
            .await,
        ),
        (
            "`POST /v1/conversations`",
            fewest(async || {
                let made = far.post("/v1/conversations", opening.clone());
                made.await.expect(201);
            })
            .await,
        ),
        (
            "`PATCH` of a conversation",
            fewest(async || {
                number += 1;
                let change = json!({"metadata": {"number": number}});
                far.patch(&path, change).await.expect(200);
            })
            .await,
        ),
    ];
    regions.join();
    asked
}

/// What reads conversations, and what it costs at the far node.
async fn reads_of_conversations(regions: &Regions) -> Vec<(&'static str, u64)> {
    let far = &regions.far;
    let mut to_load = regions.conversations().await;
    let path = format!("/v1/conversations/{}", far.conversation().await);
    let messages = format!("{path}/messages");
    far.post(&messages, words()).await.expect(201);
    regions.part();
    let asked = vec![
        (
            "`GET` of a conversation",
            fewest(async || drop(far.get(&path).await.expect(200))).await,
        ),
        (
            "`GET` of a conversation, not in memory",
            fewest(async || drop(far.get(&to_load.pop().unwrap()).await.expect(200))).await,
        ),
        (
            "`GET …/messages`",
            fewest(async || drop(far.get(&messages).await.expect(200))).await,
        ),
        (
            "`GET /v1/conversations`",
            fewest(async || {
                let list = far.get("/v1/conversations?limit=1");
                list.await.expect(200);
            })
            .await,
        ),
    ];
    regions.join();
    asked
}

/// What is asked of documents, and what it costs at the far node.
async fn of_documents(regions: &Regions) -> Vec<(&'static str, u64)> {
    let far = &regions.far;
    let path = far.document("first\n").await;
    let version = format!("{path}/versions/{}", far.head(&path).await);
    regions.part();
    let mut number = 0;
    let asked = vec![
        (
            "`PUT` of a document",
            fewest(async || {
                number += 1;
                far.write(&path, &format!("{number}\n")).await;
            })
            .await,
        ),
        (
            "`GET` of a document",
            fewest(async || drop(far.get(&path).await.expect(200))).await,
        ),
        (
            "`GET` of a document's version",
            fewest(async || drop(far.get(&version).await.expect(200))).await,
        ),
    ];
    regions.join();
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_at_a_far_node_costs_as_many_round_trips_as_the_readme_says() {
    let database = Database::start();
    let regions = Regions::start(&database).await;
    let mut counted = changes_of_conversations(&regions).await;
    counted.extend(reads_of_conversations(&regions).await);
    counted.extend(of_documents(&regions).await);
    let counted: BTreeMap<String, u64> = counted
        .into_iter()
        .map(|(what, count)| (what.to_owned(), count))
        .collect();
    assert_eq!(counted, promised());
}

/// The longest of a few tries, in round trips.
async fn most(mut asked: impl AsyncFnMut()) -> u64 {
    let mut slowest = Duration::ZERO;
    for _ in 0..TRIES {
        let begun = Instant::now();
        asked().await;
        slowest = slowest.max(begun.elapsed());
    }
    round_trips(slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_far_node_waits_no_longer_than_the_readme_says() {
    let database = Database::start();
    let mut regions = Regions::start(&database).await;
    let operator = regions.cluster.servers[0].operator();
    let account = regions.cluster.servers[0].account().await;
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    regions.part();
    let key = most(async || {
        let key = json!({"type": "test", "name": "for a far node, too"});
        operator.post(&keys, key).await.expect(201);
    })
    .await;
    regions.join();
    // The first node leads, and now it is the far one.
    std::mem::swap(&mut regions.near, &mut regions.far);
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    regions.near.post("/v1/webhooks", hook).await.expect(201);
    let conversation = regions.near.conversation().await;
    regions.cluster.ways[0].delay(ROUND_TRIP);
    let mut count = 0;
    let delivery = most(async || {
        regions.near.message(&conversation, "to be delivered").await;
        count += 1;
        receiver.wait_for(count).await;
    })
    .await;
    for (what, count) in [
        ("a new key, at any node", key),
        ("a delivery, where the far node leads", delivery),
    ] {
        assert!((1..=at_most(what)).contains(&count), "{what}: {count}");
    }
}

/// How often each message of a conversation came to the receiver, by its sequence.
fn received(receiver: &Receiver) -> BTreeMap<u64, usize> {
    let mut times = BTreeMap::new();
    for delivery in receiver.received() {
        let sequence = delivery.event()["data"]["seq"].as_u64().unwrap();
        *times.entry(sequence).or_default() += 1;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_that_is_cut_off_says_so_and_the_other_takes_its_deliveries_over() {
    let database = Database::start();
    let mut regions = Regions::start(&database).await;
    regions.cluster.allow_absence();
    let cluster = &regions.cluster;
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    regions.near.post("/v1/webhooks", hook).await.expect(201);
    let writers = Writers::begin(2, &regions.near, &cluster.addresses).await;
    writers.go_on(10).await;
    receiver.wait_for(1).await;
    // The first node leads: it delivers.
    let cut = Instant::now();
    cluster.ways[0].close();
    let told = is_away(&cluster.servers[0], &regions.near, writers.path()).await;
    assert!(told - cut < TOLD_WITHIN, "{:?}", told - cut);
    writers.go_on(5).await;
    let written = writers.answered() as u64;
    let left = DELIVERED_WITHIN.saturating_sub(cut.elapsed());
    until("the other region delivers", left, async || {
        received(&receiver)
            .last_key_value()
            .is_some_and(|(sequence, _)| *sequence >= written)
            .then_some(())
    })
    .await;
    let taken_over = *received(&receiver).last_key_value().unwrap().0;
    writers.go_on(5).await;
    cluster.ways[0].open();
    is_back(&cluster.servers[0]).await;
    writers.go_on(10).await;
    let count = writers.end().await as u64;
    until("all are delivered", SLACK, async || {
        (received(&receiver).len() as u64 == count).then_some(())
    })
    .await;
    let times = received(&receiver);
    assert!(times.keys().copied().eq(1..=count), "{times:?}");
    let later = times.range(taken_over + 1..);
    let twice: Vec<_> = later.filter(|(_, times)| **times > 1).collect();
    assert!(
        twice.is_empty(),
        "delivered again behind {taken_over}: {twice:?}"
    );
}
