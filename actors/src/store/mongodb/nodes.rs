//! This process among those that share the database: its identity, its slot, its lease, and whether
//! it leads.
//!
//! Each node has a document that it renews; who finds one unchanged for longer than a lease takes
//! that node for gone. Clocks of different machines are never compared: a node counts from the
//! moment at which it sent its last renewal, the others from the moment at which they saw it.

pub(super) mod documents;
mod entry;
mod leading;
mod lease;
mod peers;
pub(super) mod used;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use self::documents::{NodeDocument, all_nodes, drain_id, free_slot};
use self::entry::Entry;
use self::lease::{GONE_AFTER, LEASE_MS, LOOK_EVERY, RENEW_EVERY, since_boot_ms};
use self::peers::{Peers, Standing};
use super::codec::{Met, int, met, uint};
use super::connection::answered;
use super::log::LogDocument;
use super::positions;
use super::processes::this_process;
use super::progress::Progress;
use super::schema::{Collections, NODES};
use crate::store::nodes::VERSION;
use crate::store::{DescribeNode, NodeFigures};
use colloquy_model::id::NodeId;
use colloquy_model::node::{Node, NodeState};
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Up to where the log has to be taken in: what stands nowhere up to there has to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) position: Position,
    /// Whether nobody is there any more who could have been given what is missing.
    pub(super) at_once: bool,
}

/// How far this node has come.
#[derive(Clone)]
pub(super) struct Known {
    /// The position up to which what was committed is taken in.
    pub(super) followed: watch::Receiver<Position>,
    /// Up to which position places of its messages are carried over.
    pub(super) listed: watch::Receiver<Position>,
    pub(super) progress: Arc<Progress>,
}

/// What this node knows of itself and of the others.
pub(super) struct Membership {
    pub(super) id: NodeId,
    pub(super) slot: i32,
    pub(super) collections: Collections,
    /// Until when the lease runs, in milliseconds since the machine was started.
    until_ms: AtomicU64,
    leads: AtomicBool,
    /// Counts how often this node has taken the lead.
    terms: AtomicU64,
    led: watch::Sender<bool>,
    draining: AtomicBool,
    figures: RwLock<DescribeNode>,
    pub(super) known: Known,
    /// True from the first time that the lease was renewed and the others were looked at.
    renewed: watch::Sender<bool>,
    /// Told when others wait for what this node has taken in.
    pub(super) renew: Notify,
    peers: Peers,
    entry: Mutex<Entry>,
    /// Up to where somebody here waits for the log to be taken in.
    awaited: Mutex<Option<Awaited>>,
}

impl Membership {
    /// Takes a slot that no node has.
    ///
    /// # Errors
    /// The server does not answer, or every slot is taken.
    pub(super) async fn join(collections: &Collections, known: Known) -> Result<Self> {
        let started_at = Timestamp::now();
        let id = NodeId::new(started_at);
        let nodes = collections.database.collection::<NodeDocument>(NODES);
        loop {
            let slot = free_slot(collections).await?;
            let document = NodeDocument {
                id,
                slot,
                beat: 0,
                seen: 0,
                carried: positions::standing(collections).await?.carried.0,
                recovered: false,
                serves: false,
                drains: false,
                ended: false,
                address: String::new(),
                region: String::new(),
                version: VERSION.to_owned(),
                started_at: started_at.0,
                renewed_at: started_at.0,
                live: BTreeMap::new(),
                process: this_process(),
            };
            match answered(nodes.insert_one(document).into_future()).await {
                Ok(_) => {
                    colloquy_model::id::set_node_slot(slot);
                    return Ok(Membership::new(id, slot, collections.clone(), known));
                }
                // Another node was faster.
                Err(error) if met(&error) == Met::Duplicate => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn new(id: NodeId, slot: i32, collections: Collections, known: Known) -> Self {
        Membership {
            id,
            slot,
            collections,
            until_ms: AtomicU64::new(0),
            leads: AtomicBool::new(false),
            terms: AtomicU64::new(0),
            led: watch::Sender::new(false),
            draining: AtomicBool::new(false),
            figures: RwLock::new(Arc::new(NodeFigures::default)),
            known,
            renewed: watch::Sender::new(false),
            renew: Notify::new(),
            peers: Peers::of(id),
            entry: Mutex::default(),
            awaited: Mutex::default(),
        }
    }

    /// The position up to which what was committed is taken in.
    pub(super) fn followed(&self) -> Position {
        *self.known.followed.borrow()
    }

    /// The number by which what this node has written is known.
    pub(super) fn number(&self) -> i64 {
        int(self.id.tail())
    }

    /// Says in a document that the writer of this node writes it.
    pub(super) fn sign(&self, document: &mut LogDocument) {
        (document.node, document.slot) = (self.number(), self.slot);
    }

    /// Whether another node may be there. One that comes waits until all that are there have seen
    /// it.
    pub(super) fn has_peers(&self) -> bool {
        self.peers.are_there()
    }

    /// Whether another node was there at any time: then what this one holds in memory may be older
    /// than what that one acknowledged before it went.
    pub(super) fn had_peers(&self) -> bool {
        self.peers.were_there()
    }

    /// Whether others may serve without this node knowing of them. One whose lease is over has not
    /// looked.
    pub(super) fn may_have_peers(&self) -> bool {
        self.has_peers() || !self.is_current()
    }

    /// Whether the lease runs. A process that was stopped, or whose machine slept, finds out by the
    /// first call after it.
    pub(super) fn is_current(&self) -> bool {
        since_boot_ms() < self.until_ms.load(Ordering::Acquire)
    }

    /// Whether the lease has run out: not given up, but not renewed in time.
    pub(super) fn has_lost_its_lease(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Acquire);
        until_ms > 0 && since_boot_ms() >= until_ms
    }

    /// Whether this node does what only one may do.
    pub(super) fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire) && self.is_current()
    }

    /// The term in which this node leads: another one where it took the lead anew. None while it
    /// does not lead, or does not know whether it still does.
    pub(super) fn term(&self) -> Option<u64> {
        let term = self.terms.load(Ordering::Acquire);
        self.leads().then_some(term)
    }

    /// Up to where everything that this node has written is carried over, if it was told up to
    /// this position.
    fn carried(&self, seen: Position) -> Position {
        let listed = *self.known.listed.borrow();
        if listed >= self.known.progress.acknowledged() {
            seen
        } else {
            seen.min(listed)
        }
    }

    /// Waits until this node may serve for the first time.
    pub(super) async fn current(&self) {
        let mut renewed = self.renewed.subscribe();
        // The sender is held by this very value.
        drop(renewed.wait_for(|renewed| *renewed).await);
    }

    /// Waits until this node leads.
    pub(super) async fn lead(&self) {
        let mut led = self.led.subscribe();
        while !self.leads() {
            // The sender is held by this very value.
            let _ = led.changed().await;
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(super) fn describe(&self, figures: DescribeNode) {
        *self.figures.write() = figures;
        self.renew.notify_one();
    }

    /// Renews the lease and looks after the others until `closing` is true, then leaves.
    pub(super) async fn run(&self, closing: watch::Receiver<bool>) {
        // What takes long by itself, so that no lease waits for it.
        tokio::join!(
            self.renew_until(closing.clone()),
            self.recover_until(closing)
        );
        let ended = doc! {"$set": {"ended": true, "serves": false}};
        let nodes = self.collections.database.collection::<Document>(NODES);
        let left = nodes.update_one(doc! {"_id": self.id.to_string()}, ended);
        if let Err(error) = answered(left.into_future()).await {
            tracing::warn!(%error, "the other nodes will wait for the end of this one's lease");
        }
    }

    async fn renew_until(&self, mut closing: watch::Receiver<bool>) {
        let mut beat = 0;
        while !*closing.borrow() {
            beat += 1;
            if let Err(error) = self.renew(beat).await {
                tracing::warn!(%error, "the lease of this node was not renewed");
            }
            tokio::select! {
                () = self.renew.notified() => {}
                () = tokio::time::sleep(RENEW_EVERY) => {}
                _ = closing.changed() => {}
            }
        }
        self.leads.store(false, Ordering::Release);
        self.until_ms.store(0, Ordering::Release);
    }

    /// Writes down that this node is there, and what it has taken in; then looks at the others.
    async fn renew(&self, beat: i64) -> Result<()> {
        let sent_ms = since_boot_ms();
        let seen = self.followed();
        let NodeFigures {
            address,
            region,
            live,
        } = (Arc::clone(&self.figures.read()))();
        let live: Document = live
            .into_iter()
            .map(|(kind, count)| (kind, int(count).into()))
            .collect();
        let set = doc! {"$set": {
            "beat": beat, "drains": self.is_draining(), "seen": seen.0, "carried": self.carried(seen).0, "serves": true,
            "address": address, "region": region,
            // What it left before it was gone for a while; more may follow now.
            "recovered": false,
            "renewed_at": Timestamp::now().0, "live": live,
        }};
        let nodes = self.collections.database.collection::<Document>(NODES);
        let update = nodes.find_one_and_update(doc! {"_id": self.id.to_string()}, set);
        if answered(update.into_future()).await?.is_none() {
            tracing::error!(
                id = %self.id,
                "this node has not been heard of for an hour, and its slot may be another's: the \
                 process ends"
            );
            std::process::exit(colloquy_runtime::threads::EXIT_CODE);
        }
        self.known.progress.answers();
        self.entry.lock().renewed(sent_ms);
        // A lease that ended before the renewal was written is over: the others may have gone on
        // without this node.
        if !self.is_current() && !self.has_entered().await? {
            self.leads.store(false, Ordering::Release);
            self.renew.notify_one();
            tokio::time::sleep(LOOK_EVERY).await;
            return Ok(());
        }
        self.extend(sent_ms);
        let asked = doc! {"_id": drain_id(self.id)};
        let asked = self.collections.meta.find_one(asked).into_future();
        self.draining
            .store(answered(asked).await?.is_some(), Ordering::Relaxed);
        self.look(&self.nodes().await?).await?;
        if !self.leads() {
            self.renewed.send_replace(true);
        }
        Ok(())
    }

    /// Whether all others wait for this node, and it has taken in what they committed before.
    async fn has_entered(&self) -> Result<bool> {
        let nodes = self.nodes().await?;
        let others = nodes
            .iter()
            .filter(|node| node.id != self.id && node.serves && !self.peers.is_gone(node));
        let is_seen = self.entry.lock().is_seen_by(others);
        if !is_seen {
            self.entry.lock().end = None;
            return Ok(false);
        }
        let known = self.entry.lock().end;
        let end = match known {
            Some(end) => end,
            None => self.end_of_log().await?,
        };
        self.entry.lock().end = Some(end);
        let is_first = !*self.renewed.borrow();
        Ok(self.await_log(Awaited {
            position: end,
            at_once: is_first && !self.has_peers(),
        }))
    }

    /// The last position that was given to anybody.
    async fn end_of_log(&self) -> Result<Position> {
        let standing = positions::standing(&self.collections).await?;
        Ok(standing.next.previous())
    }

    /// Whether the log is taken in up to there; if not, what is missing will be decided.
    fn await_log(&self, awaited: Awaited) -> bool {
        if self.followed() >= awaited.position {
            return true;
        }
        let mut noted = self.awaited.lock();
        if noted.is_none_or(|noted| noted.position <= awaited.position) {
            *noted = Some(awaited);
        }
        false
    }

    /// Up to where somebody waits for the log to be taken in, if that is beyond this position.
    pub(super) fn awaited(&self, followed: Position) -> Option<Awaited> {
        let mut awaited = self.awaited.lock();
        *awaited = awaited.filter(|awaited| awaited.position > followed);
        *awaited
    }

    fn extend(&self, sent_ms: u64) {
        *self.entry.lock() = Entry::default();
        self.until_ms.store(sent_ms + LEASE_MS, Ordering::Release);
    }

    /// All nodes; what is seen of them is noted.
    async fn nodes(&self) -> Result<Vec<NodeDocument>> {
        let asked = Instant::now();
        let found = all_nodes(&self.collections).await?;
        self.peers.note(asked, &found);
        Ok(found)
    }

    /// Takes the lead if nobody has it, and lets those go who are gone for long.
    async fn look(&self, nodes: &[NodeDocument]) -> Result<()> {
        for gone in self.peers.long_gone(nodes) {
            let asked = self
                .collections
                .meta
                .delete_one(doc! {"_id": drain_id(gone)});
            answered(asked.into_future()).await?;
            let nodes = self.collections.database.collection::<Document>(NODES);
            let node = nodes.delete_one(doc! {"_id": gone.to_string()});
            answered(node.into_future()).await?;
        }
        let leads = self.take_the_lead(nodes).await?;
        self.leads.store(leads, Ordering::Release);
        self.led.send_replace(leads);
        Ok(())
    }

    /// Which other nodes were there when this one last looked.
    pub(super) fn standing(&self) -> Standing {
        self.peers.standing()
    }

    /// Waits until every node that serves has taken in what was committed up to this position, or
    /// is gone.
    pub(super) async fn taken_in_everywhere(&self, position: Position) {
        loop {
            match self.nodes().await {
                Ok(nodes) => {
                    let waits_for = |node: &&NodeDocument| {
                        node.id != self.id
                            && node.serves
                            && node.seen < position.0
                            && !self.peers.is_gone(node)
                    };
                    if nodes.iter().find(waits_for).is_none() {
                        return;
                    }
                }
                Err(error) => tracing::warn!(%error, "an answer waits for the other nodes"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// All nodes, by the time of their start.
    pub(super) async fn list(&self) -> Result<Vec<Node>> {
        let mut nodes = self.nodes().await?;
        nodes.sort_by_key(|node| (node.started_at, node.id));
        Ok(nodes.into_iter().map(|node| self.shown(node)).collect())
    }

    fn shown(&self, node: NodeDocument) -> Node {
        Node {
            id: node.id,
            // By what was seen of it here: the clocks of two machines differ.
            state: if self.peers.is_gone(&node) {
                NodeState::Gone
            } else if node.drains {
                NodeState::Draining
            } else {
                NodeState::Live
            },
            lease_until: Some(Timestamp(node.renewed_at) + GONE_AFTER),
            address: node.address,
            region: node.region,
            version: node.version,
            started_at: Timestamp(node.started_at),
            live: node
                .live
                .into_iter()
                .map(|(kind, count)| (kind, uint(count)))
                .collect(),
        }
    }

    /// Asks a node to drain; false where none has this identifier, or it is gone.
    pub(super) async fn drain(&self, node: NodeId) -> Result<bool> {
        let nodes = self.list().await?;
        let is_there = nodes
            .iter()
            .any(|shown| shown.id == node && shown.state != NodeState::Gone);
        if !is_there {
            return Ok(false);
        }
        // Not in the node's own document, which that node writes all the time.
        let asked = doc! {"$setOnInsert": {"at": Timestamp::now().0}};
        let meta = &self.collections.meta;
        let update = meta.update_one(doc! {"_id": drain_id(node)}, asked);
        answered(update.upsert(true).into_future())
            .await
            .map(|_| true)
    }
}
