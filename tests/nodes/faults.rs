//! What befalls nodes and their database: nothing that was acknowledged is lost or doubled, what
//! can't be answered is 503, and all of it goes on by itself.

use std::time::{Duration, Instant};

use serde_json::json;

use super::writers::Writers;
use super::{SLACK, nodes};
use crate::support::{Answer, Client, Cluster, Database, Dice, Server, until};

const WRITERS: usize = 6;
/// How soon behind a database that is back a node serves again.
const BACK_WITHIN: Duration = Duration::from_secs(15);
/// How soon a node says that it has no database: its lease, and what a renewal may be waited for.
const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// A number of the environment, so that a test can be run for longer.
fn set_or(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(otherwise, |set| set.parse().unwrap())
}

/// How the database goes away.
enum Absence {
    Killed,
    Ended,
    Paused,
}

async fn readiness(server: &Server) -> Option<Answer> {
    server.anonymous().get("/readyz").try_send().await.ok()
}

/// Waits until a node says that it has no database, by its readiness and by each answer; gives when
/// its readiness did.
pub(super) async fn is_away(server: &Server, client: &Client, path: &str) -> Instant {
    let client = client.at(&server.address());
    until("readiness says so", TOLD_WITHIN, async || {
        let answer = readiness(server).await?;
        (answer.status == 503).then(|| {
            let answer = answer.error(503, "unavailable", "");
            assert!(answer.reason().contains("store"), "{answer}");
        })
    })
    .await;
    let told = Instant::now();
    let conversation = path.trim_end_matches("/messages");
    for read in [path, conversation, "/v1/conversations", "/v1/events"] {
        client.get(read).await.error(503, "unavailable", "");
    }
    let body = json!({"content": "nobody is there", "sender_type": "system"});
    let refused = client.post(path, body).await.error(503, "unavailable", "");
    assert_eq!(refused["error"]["details"]["outcome"], "none", "{refused}");
    told
}

/// Waits until a node serves again.
pub(super) async fn is_back(server: &Server) {
    until("it is ready", BACK_WITHIN, async || {
        let answer = readiness(server).await?;
        (answer.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_told_of_and_served_again_when_it_is_back() {
    let mut database = Database::start();
    let mut cluster = Cluster::start(2, database.address()).await;
    cluster.allow_absence();
    let client = cluster.servers[0].account().await.test();
    let pids: Vec<u32> = cluster.servers.iter().map(Server::pid).collect();
    let writers = Writers::begin(WRITERS, &client, &cluster.addresses).await;
    for absence in [Absence::Killed, Absence::Paused, Absence::Ended] {
        writers.go_on(20).await;
        let paused = match absence {
            Absence::Killed => {
                database.kill9();
                None
            }
            Absence::Ended => {
                database.term();
                None
            }
            Absence::Paused => Some(database.pause()),
        };
        for server in &cluster.servers {
            is_away(server, &client, writers.path()).await;
        }
        if paused.is_none() {
            database.start_again();
        }
        drop(paused);
        for server in &cluster.servers {
            is_back(server).await;
        }
    }
    writers.go_on(20).await;
    writers.end().await;
    let still: Vec<u32> = cluster.servers.iter().map(Server::pid).collect();
    assert_eq!(pids, still, "no node was started again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_asked_to_end_ends_without_a_database_and_loses_nothing() {
    let database = Database::start();
    let mut cluster = Cluster::start(2, database.address()).await;
    cluster.allow_absence();
    let client = cluster.servers[0].account().await.test();
    let writers = Writers::begin(WRITERS, &client, &cluster.addresses).await;
    writers.go_on(20).await;
    let paused = database.pause();
    // One just after, while its lease runs, and one that has told of it.
    cluster.servers[0].send_term();
    is_away(&cluster.servers[1], &client, writers.path()).await;
    cluster.servers[1].send_term();
    for server in &mut cluster.servers {
        let ended = server.ended();
        assert!(ended.success(), "{ended}");
    }
    drop(paused);
    for node in 0..cluster.servers.len() {
        cluster.kill_and_restart(node);
    }
    writers.go_on(20).await;
    writers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_database_and_cut_connections_lose_and_double_nothing() {
    let database = Database::start();
    let mut cluster = Cluster::start(2, database.address()).await;
    cluster.allow_absence();
    let client = cluster.servers[0].account().await.test();
    let writers = Writers::begin(WRITERS, &client, &cluster.addresses).await;
    writers.go_on(20).await;
    for way in &cluster.ways {
        way.delay(Duration::from_millis(100));
    }
    writers.go_on(10).await;
    // Slower than anything is waited for.
    for way in &cluster.ways {
        way.delay(Duration::from_secs(8));
    }
    for server in &cluster.servers {
        is_away(server, &client, writers.path()).await;
    }
    for way in &cluster.ways {
        way.delay(Duration::ZERO);
        way.cut_after(100_000);
    }
    let cuts = || cluster.ways.iter().map(|way| way.cuts()).sum::<u64>();
    until("connections were cut", SLACK * 6, async || {
        (cuts() > 10).then_some(())
    })
    .await;
    for way in &cluster.ways {
        way.cut_no_more();
    }
    for server in &cluster.servers {
        is_back(server).await;
    }
    writers.go_on(20).await;
    writers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_write_to_one_conversation_for_a_while_leave_no_gap() {
    let database = Database::start();
    let cluster = Cluster::start(2, database.address()).await;
    let client = cluster.servers[0].account().await.test();
    let span = Duration::from_secs(set_or("COLLOQUY_TEST_SPAN_SECONDS", 10));
    let writers = Writers::begin(WRITERS, &client, &cluster.addresses).await;
    tokio::time::sleep(span).await;
    let count = writers.end().await;
    eprintln!("{count} messages in {span:?}");
    assert!(count > WRITERS, "they wrote");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_killed_in_turn_lose_and_double_nothing() {
    let database = Database::start();
    let mut cluster = Cluster::start(3, database.address()).await;
    cluster.allow_absence();
    let client = cluster.servers[0].account().await.test();
    let writers = Writers::begin(WRITERS, &client, &cluster.addresses).await;
    let mut dice = Dice::new(50);
    for round in 0..set_or("COLLOQUY_TEST_KILLS", 3) {
        writers.go_on(10).await;
        let node = usize::try_from(dice.below(3)).unwrap();
        let killed = Instant::now();
        cluster.kill_and_restart(node);
        let (back, answered) = (killed.elapsed(), writers.answered());
        eprintln!("round {round}: back in {back:?}, {answered} messages");
    }
    writers.go_on(10).await;
    writers.end().await;
}

#[tokio::test]
async fn what_a_node_acknowledged_before_it_was_killed_the_last_one_shows() {
    let mut nodes = nodes(2);
    let account = nodes[0].account().await;
    let (on_first, on_second) = (account.test(), account.test().at(&nodes[1].address()));
    let conversation = on_first.conversation().await;
    let path = format!("/v1/conversations/{conversation}");
    // The second has it in memory.
    let read = on_second.get(&path).await.expect(200);
    assert_eq!(read["message_count"], 0);
    on_first.message(&conversation, "the last words").await;
    nodes[0].kill9();
    let operator = nodes[1].operator();
    for _ in 0..2 {
        let read = on_second.get(&path).await.expect(200);
        assert_eq!(read["message_count"], 1, "{read}");
        let events = format!("{path}/events");
        assert_eq!(on_second.get(&events).await.expect(200).total(), 2);
        assert_eq!(
            on_second.get("/v1/events").await.expect(200).total(),
            2,
            "of the account"
        );
        until("the first is gone", SLACK, async || {
            let list = operator.get("/admin/v1/nodes").await.expect(200);
            let gone = list.data().iter().filter(|node| node["state"] == "gone");
            (gone.count() == 1).then_some(())
        })
        .await;
    }
}
