//! What nodes tell one another without committing it: each writes small documents of its own,
//! numbered without a gap, and looks for those of the others. Each removes its own after a few
//! seconds; its newest stays, so that whoever comes late sees that something is missing.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::options::{Acknowledgment, CollectionOptions, ReadConcern, WriteConcern};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use super::codec::{Met, int, met};
use super::connection::answered;
use super::nodes::Membership;
use super::schema::BROADCASTS;
use crate::store::{Broadcast, Heard, Listener, Topic};
use colloquy_model::id::NodeId;

/// How often the others' documents are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The same, where no other node is known.
const LOOK_ALONE: Duration = Duration::from_millis(500);
/// How long a document can be heard. After a pause of this length it is lost.
const KEPT: Duration = Duration::from_secs(5);
/// How often a node removes documents of its own.
const REMOVE_EVERY: Duration = Duration::from_secs(1);
/// How long a node waits before it tries again what failed.
const AGAIN: Duration = Duration::from_millis(100);
/// Documents that are read at once.
const AT_ONCE: i64 = 500;
/// Bytes that wait to be written, as one document holds them. Beyond this all that waits is lost.
const WAITING_MAX: usize = 8 * 1024 * 1024;

/// What one node says at once.
#[derive(Debug, Serialize, Deserialize)]
struct BroadcastDocument {
    #[serde(rename = "_id")]
    id: String,
    /// The number by which the node is known.
    node: i64,
    /// Counts the node's documents.
    number: i64,
    said: Vec<SaidDocument>,
}

/// One message in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SaidDocument {
    topic: String,
    text: String,
}

/// What is said here and not yet written.
#[derive(Default)]
struct Waiting {
    said: Vec<SaidDocument>,
    bytes: usize,
    /// Whether something was dropped.
    is_lost: bool,
}

/// The way to the other nodes.
pub(super) struct Broadcasts {
    membership: Arc<Membership>,
    waiting: Mutex<Waiting>,
    wake: Notify,
    listeners: RwLock<Vec<(Topic, Listener)>>,
}

/// How far the others have been heard.
#[derive(Default)]
struct Ears {
    /// By node, the number of its last document; none where nothing was found of it yet.
    heard: HashMap<NodeId, Option<i64>>,
    /// How many listeners know which nodes are heard.
    introduced: usize,
    /// Nodes that are gone and of which nothing is left.
    cleared: HashSet<NodeId>,
}

impl Broadcasts {
    pub(super) fn of(membership: &Arc<Membership>) -> Arc<Self> {
        Arc::new(Broadcasts {
            membership: Arc::clone(membership),
            waiting: Mutex::default(),
            wake: Notify::new(),
            listeners: RwLock::default(),
        })
    }

    /// Writes and looks until `closing` is true.
    pub(super) async fn run(self: Arc<Self>, closing: watch::Receiver<bool>) {
        tokio::join!(self.write(closing.clone()), self.hear(closing));
    }

    /// The collection: what stands there is worth nothing after a few seconds, so one member of a
    /// replica set suffices.
    fn collection<T: Send + Sync>(&self) -> Collection<T> {
        let concern = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
        let options = CollectionOptions::builder()
            .write_concern(concern)
            .read_concern(ReadConcern::local())
            .build();
        let database = &self.membership.collections.database;
        database.collection_with_options(BROADCASTS, options)
    }

    async fn write(&self, mut closing: watch::Receiver<bool>) {
        let mut number = 0;
        let mut written: VecDeque<(Instant, i64)> = VecDeque::new();
        let mut removed_at = Instant::now();
        while !*closing.borrow() {
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(REMOVE_EVERY), if written.len() > 1 => {}
                _ = closing.changed() => {}
            }
            let Waiting { said, is_lost, .. } = std::mem::take(&mut *self.waiting.lock());
            // Whoever hears what follows sees that something is missing.
            number += i64::from(is_lost);
            if is_lost || !said.is_empty() {
                number += 1;
                if self.write_one(number, said).await {
                    written.push_back((Instant::now(), number));
                } else {
                    // The next one shows it, even if nothing more is said.
                    self.waiting.lock().is_lost = true;
                    self.wake.notify_one();
                }
            }
            if removed_at.elapsed() >= REMOVE_EVERY {
                removed_at = Instant::now();
                self.remove_old(&mut written).await;
            }
        }
    }

    /// Writes a document, if that can be done before it is of no use.
    async fn write_one(&self, number: i64, said: Vec<SaidDocument>) -> bool {
        let node = self.membership.number();
        let document = BroadcastDocument {
            id: format!("{node}.{number}"),
            node,
            number,
            said,
        };
        let begun = Instant::now();
        while begun.elapsed() < KEPT {
            let collection = self.collection::<BroadcastDocument>();
            let insert = collection.insert_one(&document).into_future();
            match answered(insert).await {
                Ok(_) => return true,
                Err(error) if met(&error) == Met::Duplicate => return true,
                Err(error) => tracing::debug!(%error, "other nodes are not told"),
            }
            tokio::time::sleep(AGAIN).await;
        }
        false
    }

    /// Removes what was written long ago, but for the newest.
    async fn remove_old(&self, written: &mut VecDeque<(Instant, i64)>) {
        let mut last = None;
        while written.len() > 1
            && let Some((at, number)) = written.front().copied()
            && at.elapsed() > KEPT
        {
            written.pop_front();
            last = Some(number);
        }
        let Some(last) = last else { return };
        let old = doc! {"node": self.membership.number(), "number": {"$lte": last}};
        if let Err(error) = self.remove(old).await {
            // The next time it goes with the others.
            tracing::debug!(%error, "old broadcasts are not removed");
        }
    }

    async fn remove(&self, filter: Document) -> Result<()> {
        let collection = self.collection::<Document>();
        let removed = answered(collection.delete_many(filter).into_future());
        removed.await.map(|_| ())
    }

    async fn hear(&self, mut closing: watch::Receiver<bool>) {
        let mut ears = Ears::default();
        while !*closing.borrow() {
            if let Err(error) = self.look(&mut ears).await {
                tracing::debug!(%error, "other nodes are not heard");
            }
            let patience = if ears.heard.is_empty() {
                LOOK_ALONE
            } else {
                LOOK_EVERY
            };
            tokio::select! {
                () = tokio::time::sleep(patience) => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// Tells listeners that came since the last look which nodes are heard.
    fn introduce(&self, ears: &mut Ears) {
        let listeners = self.listeners.read();
        for (_, listener) in listeners.iter().skip(ears.introduced) {
            ears.heard.keys().for_each(|id| listener(*id, Heard::Lost));
        }
        ears.introduced = listeners.len();
    }

    async fn look(&self, ears: &mut Ears) -> Result<()> {
        self.introduce(ears);
        let standing = self.membership.standing();
        let gone = ears.heard.keys().filter(|id| !standing.peers.contains(id));
        for id in gone.copied().collect::<Vec<_>>() {
            ears.heard.remove(&id);
            self.tell_all(id, Heard::Gone);
        }
        for id in standing.peers {
            if let Entry::Vacant(new) = ears.heard.entry(id) {
                new.insert(None);
                self.tell_all(id, Heard::Lost);
            }
        }
        ears.cleared.retain(|id| standing.gone.contains(id));
        for id in standing.gone {
            if !ears.cleared.contains(&id) {
                let left = doc! {"node": number_of(id)};
                self.remove(left).await?;
                ears.cleared.insert(id);
            }
        }
        while !ears.heard.is_empty() {
            let found = self.behind(ears).await?;
            let is_full = i64::try_from(found.len()).unwrap_or(i64::MAX) >= AT_ONCE;
            found.into_iter().for_each(|one| self.take(ears, one));
            if !is_full {
                break;
            }
        }
        Ok(())
    }

    /// What the others have written behind what was heard of them.
    async fn behind(&self, ears: &Ears) -> Result<Vec<BroadcastDocument>> {
        let of_each = ears.heard.iter().map(|(id, heard)| {
            let behind = heard.unwrap_or(0);
            doc! {"node": number_of(*id), "number": {"$gt": behind}}
        });
        let filter = doc! {"$or": of_each.collect::<Vec<_>>()};
        let found = async {
            let collection = self.collection::<BroadcastDocument>();
            let find = collection.find(filter).sort(doc! {"node": 1, "number": 1});
            let mut cursor = find.limit(AT_ONCE).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(cursor.deserialize_current()?);
            }
            Ok(found)
        };
        answered(found).await
    }

    fn take(&self, ears: &mut Ears, document: BroadcastDocument) {
        let of_node = |(id, _): &(&NodeId, &mut Option<i64>)| number_of(**id) == document.node;
        let Some((id, heard)) = ears.heard.iter_mut().find(of_node) else {
            return;
        };
        let is_next = heard.is_none_or(|last| document.number == last + 1);
        *heard = Some(document.number);
        let id = *id;
        if !is_next {
            self.tell_all(id, Heard::Lost);
        }
        for said in &document.said {
            let listeners = self.listeners.read();
            let of_topic = listeners
                .iter()
                .filter(|(topic, _)| topic.word() == said.topic);
            of_topic.for_each(|(_, listener)| listener(id, Heard::Said(&said.text)));
        }
    }

    fn tell_all(&self, id: NodeId, heard: Heard<'_>) {
        let listeners = self.listeners.read();
        listeners
            .iter()
            .for_each(|(_, listener)| listener(id, heard));
    }
}

/// The number by which what a node has written is known.
fn number_of(id: NodeId) -> i64 {
    int(id.tail())
}

impl Broadcast for Broadcasts {
    fn node(&self) -> NodeId {
        self.membership.id
    }

    fn is_heard(&self) -> bool {
        self.membership.has_peers()
    }

    fn others(&self) -> Vec<NodeId> {
        self.membership.standing().peers
    }

    fn say(&self, topic: Topic, text: String) {
        if !self.is_heard() {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.bytes += text.len();
        let said = SaidDocument {
            topic: topic.word().to_owned(),
            text,
        };
        waiting.said.push(said);
        if waiting.bytes > WAITING_MAX {
            *waiting = Waiting {
                is_lost: true,
                ..Waiting::default()
            };
        }
        drop(waiting);
        self.wake.notify_one();
    }

    fn listen(&self, topic: Topic, listener: Listener) {
        self.listeners.write().push((topic, listener));
    }
}
