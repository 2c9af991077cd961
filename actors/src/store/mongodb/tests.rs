//! The contract on MongoDB, each test in a database of its own.
//!
//! The server is the one at `COLLOQUY_TEST_MONGODB_URI`, else the program that `tests/ferretdb`
//! builds, which is started once for all tests and ends with them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
pub(super) mod commands;
mod damage;
mod first_start;
mod health;
mod in_use;
mod intents;
mod names;
mod round_trips;
mod statements;
mod unreadable;
mod usage;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use self::commands::Commands;
use super::carrying::{Carry, Carrying};
use super::counters::Counted;
use super::log::LogDocument;
use super::pace::Pace;
use super::schema::Collections;
use super::{MongoSettings, MongoStore, check, nodes, recovery, schema};
use crate::store::contract::{Bench, House, Numbering, Opened, Volume, contract, wait};
use crate::store::{Finding, RecordQuery};
use crate::views::Views;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity::Kind;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_runtime::fair_queue::QueueBounds;

/// The connection string of the server that all tests use.
fn uri() -> &'static str {
    static URI: OnceLock<String> = OnceLock::new();
    URI.get_or_init(|| match std::env::var("COLLOQUY_TEST_MONGODB_URI") {
        Ok(uri) => uri,
        Err(_) => started(),
    })
}

/// Starts the server; it ends when this process does.
fn started() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let program = target.join("ferretdb");
    assert!(
        program.exists(),
        "{} is not there: tests/run builds it, or set COLLOQUY_TEST_MONGODB_URI",
        program.display()
    );
    let (listening, line) = std::sync::mpsc::sync_channel(1);
    // The server is killed when the thread that started it ends, which a test's does.
    std::thread::spawn(move || {
        let mut server = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(program)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = server.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        listening.send(line).unwrap();
        server.wait().unwrap();
    });
    let line = line.recv().unwrap();
    assert!(line.starts_with("mongodb://"), "it said {line:?}");
    line.trim().to_owned()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A database of its own.
struct OwnDatabase {
    name: String,
    pace: Pace,
}

impl OwnDatabase {
    fn settings(&self) -> MongoSettings<'_> {
        MongoSettings {
            uri: uri(),
            database: &self.name,
            operator_token: Some("op_a-token"),
            master_keys: &crate::sealing::GivenKeys::NONE,
            events_kept: None,
            reads: QueueBounds {
                each: 256,
                all: 4_096,
                wait: Duration::from_secs(5),
            },
        }
    }

    fn open_at(&self, views: Views, events_kept: Option<Duration>) -> Opened {
        let settings = MongoSettings {
            events_kept,
            ..self.settings()
        };
        let (store, _) = MongoStore::open_at(self.pace, settings, Arc::new(views)).unwrap();
        Arc::new(store)
    }

    /// One whose store does nothing that nobody asked for.
    fn quiet() -> Self {
        let mut own = Self::new();
        own.pace = Pace::default();
        own
    }
}

async fn database(name: &str) -> Database {
    Client::with_uri_str(uri()).await.unwrap().database(name)
}

/// What is left to be done stands here: taken off when it is done elsewhere. With nodes: how far
/// what they wrote is carried over.
const LEFT_TO_DO: [&str; 6] = [
    schema::RENAMES,
    schema::ERASURES,
    schema::REDACTIONS,
    schema::FEEDS,
    schema::ENDPOINTS,
    schema::NODES,
];

/// Every document of a database, by collection: first what is left to be done. Of what a store does
/// meanwhile a copy then has no less than what is to be done once more, as a crash leaves it.
async fn everything(database: &Database) -> Vec<(String, Vec<Document>)> {
    let mut all = Vec::new();
    let mut names = database.list_collection_names().await.unwrap();
    names.sort_by_key(|name| !LEFT_TO_DO.contains(&name.as_str()));
    for name in names {
        let mut cursor = database
            .collection::<Document>(&name)
            .find(doc! {})
            .await
            .unwrap();
        let mut documents = Vec::new();
        while cursor.advance().await.unwrap() {
            documents.push(cursor.deserialize_current().unwrap());
        }
        all.push((name, documents));
    }
    all
}

/// Every query that was sent has an index that serves it.
impl Drop for OwnDatabase {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            Commands::of(&self.name).are_served(uri(), &self.name);
        }
    }
}

impl Bench for OwnDatabase {
    const NUMBERING: Numbering = Numbering::ByPosition;
    const VOLUME: Volume = Volume::Small;

    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        OwnDatabase {
            name: format!("colloquy_{}_{number}", std::process::id()),
            pace: Pace {
                uses_every: Duration::from_millis(50),
                trim_every: Duration::from_millis(50),
                link_every: Duration::from_millis(50),
                ..Pace::default()
            },
        }
    }

    fn open(&self, views: Views) -> Opened {
        self.open_at(views, None)
    }

    fn open_lagging(&self, views: Views) -> Opened {
        self.open_at(views, None)
    }

    fn open_keeping(&self, views: Views, kept: Duration) -> Opened {
        self.open_at(views, Some(kept))
    }

    /// A copy: the server itself goes on, and the store that is killed still writes.
    fn killed(&self) -> Self {
        let copy = Self::new();
        runtime().block_on(async {
            let (from, to) = (database(&self.name).await, database(&copy.name).await);
            for (name, documents) in everything(&from).await {
                if !documents.is_empty() {
                    let to = to.collection::<Document>(&name);
                    to.insert_many(documents).await.unwrap();
                }
            }
        });
        copy
    }

    fn holds(&self, text: &str) -> bool {
        runtime().block_on(async {
            let all = everything(&database(&self.name).await).await;
            let mut documents = all.iter().flat_map(|(_, documents)| documents);
            documents.any(|document| {
                let bytes = document.to_vec().unwrap();
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            })
        })
    }

    fn findings(&self) -> Vec<String> {
        runtime().block_on(async {
            let collections = Collections::of(database(&self.name).await);
            recovery::recover(&collections).await.unwrap();
            nodes::used::recover_all(&collections).await.unwrap();
            let findings = check::findings(&collections).await.unwrap();
            let told = |finding: &Finding| format!("{}: {}", finding.check, finding.found);
            findings.iter().map(told).collect()
        })
    }
}

contract!(OwnDatabase);

/// Everything that a start carries over once more may have moved a counter before, or not.
#[test]
fn a_crash_before_a_counter_moved_leaves_its_total_exact() {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let house = House::at(own);
    let tenant = Tenant::of(1, Mode::Live);
    for customer in ["Ada", "Bea", "Cem"] {
        house.customer(tenant, customer);
    }
    drop(house);
    // The process ended when two of the three were counted and none was noted as carried over.
    runtime().block_on(async {
        let database = database(&name).await;
        let of_customers = doc! {"field": Counted::Records as i32, "value": Kind::Customer as i64};
        let counters = database.collection::<Document>("counters");
        let before = doc! {"$inc": {"total": -1_i64, "last": -1_i64}};
        let moved_back = counters.update_one(of_customers, before).await.unwrap();
        assert_eq!(moved_back.modified_count, 1);
        let none = doc! {"$set": {"carried": 0_i64}};
        let meta = database.collection::<Document>("meta");
        let carried = meta.update_one(doc! {"_id": "carried"}, none);
        assert_eq!(carried.await.unwrap().matched_count, 1);
        let none = doc! {"$set": {"carried": 0_i64, "recovered": false}};
        let nodes = database.collection::<Document>("nodes");
        let crashed = nodes.update_many(doc! {}, none);
        assert_eq!(crashed.await.unwrap().matched_count, 1);
    });
    let mut own = OwnDatabase::new();
    own.name = name;
    let house = House::at(own);
    let all = RecordQuery {
        tenant,
        kind: Kind::Customer,
        names: Vec::new(),
        paging: Paging {
            limit: 10,
            start: Start::Offset(0),
            order: Order::Asc,
        },
    };
    let page = wait(house.store().records(all)).unwrap();
    assert_eq!((page.items.len(), page.total), (3, 3));
}

/// It may leave more than what was carried over when it was taken for gone.
#[test]
fn a_node_that_was_taken_for_gone_and_is_back_is_looked_after_again() {
    let own = OwnDatabase::new();
    let name = own.name.clone();
    let _house = House::at(own);
    runtime().block_on(async {
        let nodes = database(&name).await.collection::<Document>(schema::NODES);
        let taken = doc! {"$set": {"recovered": true}};
        let taken = nodes.update_many(doc! {}, taken).await.unwrap();
        assert_eq!(taken.modified_count, 1);
        let begun = Instant::now();
        while nodes
            .find_one(doc! {"recovered": false})
            .await
            .unwrap()
            .is_none()
        {
            assert!(begun.elapsed() < Duration::from_secs(20), "it stays so");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// They are held in memory until then, and whoever lists reads them all.
#[test]
fn what_others_write_without_a_pause_is_carried_over_all_the_same() {
    let own = OwnDatabase::quiet();
    runtime().block_on(async {
        let (written, documents) = unbounded_channel();
        let (all, carried) = watch::channel(Position::ZERO);
        let carrying = Carrying {
            collections: Collections::of(database(&own.name).await),
            documents,
            reached: watch::Sender::new(Position::ZERO),
            all,
            of_others: (Vec::new(), Position::ZERO),
        };
        let carrying = tokio::spawn(carrying.run());
        let begun = Instant::now();
        let mut last = Position::ZERO;
        while *carried.borrow() == Position::ZERO {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "they wait for a pause"
            );
            last = last.next();
            let written = written.send(Carry::OfOthers(vec![of_a_customer(last)], last));
            assert!(written.is_ok());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(written);
        carrying.await.unwrap();
        assert_eq!(*carried.borrow(), last);
    });
}

/// A document of the log at this position of which no message is carried over.
fn of_a_customer(position: Position) -> LogDocument {
    LogDocument {
        id: position.to_string(),
        position: position.0,
        kind: Kind::Customer as i32,
        entity: position.0,
        tail: 0,
        tenant: 0,
        node: 1,
        slot: 1,
        first: 1,
        key: None,
        answer: None,
        rows: Vec::new(),
        header: None,
        redacts: None,
        renamed: None,
        takes: None,
        chore: None,
    }
}
