//! What the node does that leads: it takes the lead where nobody has it, and carries over what those
//! that are gone left.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use tokio::sync::watch;

use super::super::codec::int;
use super::super::connection::answered;
use super::super::schema::NODES;
use super::super::{positions, recovery};
use super::documents::{LEADER, NodeDocument};
use super::lease::{LOOK_EVERY, RENEW_EVERY};
use super::{Awaited, Membership};
use colloquy_model::id::NodeId;
use colloquy_model::position::Position;

/// How much is carried over of what nodes that are gone left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovered {
    All,
    /// What a node may have sent before its end is not decided yet.
    NotYet,
}

impl Membership {
    /// While this node leads, carries over what those that are gone left.
    pub(super) async fn recover_until(&self, mut closing: watch::Receiver<bool>) {
        let mut ends = HashMap::new();
        let mut led = self.led.subscribe();
        while !*closing.borrow() {
            if self.leads() {
                match self.recover(&mut ends).await {
                    // Whoever leads from its start on shows nothing before: totals would be those of
                    // before what is carried over late.
                    Ok(Recovered::All) => {
                        self.renewed.send_replace(true);
                    }
                    Ok(Recovered::NotYet) => {}
                    Err(error) => {
                        tracing::warn!(%error, "what a node that is gone left waits for MongoDB");
                    }
                }
            }
            let rest = if *self.renewed.borrow() {
                RENEW_EVERY
            } else {
                LOOK_EVERY
            };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                // The sender is held by this very value.
                _ = led.changed() => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// Whether this node leads now.
    pub(super) async fn take_the_lead(&self, nodes: &[NodeDocument]) -> Result<bool> {
        let (me, none) = (self.id.to_string(), String::new());
        let meta = &self.collections.meta;
        let mut leader = answered(meta.find_one(doc! {"_id": LEADER}).into_future()).await?;
        if leader.is_none() {
            let begin = doc! {"$setOnInsert": {"node": &none}};
            let begun = meta
                .find_one_and_update(doc! {"_id": LEADER}, begin)
                .upsert(true)
                .return_document(mongodb::options::ReturnDocument::After);
            leader = answered(begun.into_future()).await?;
        }
        let leader = leader.unwrap_or_default();
        let holder = leader.get_str("node").unwrap_or_default().to_owned();
        if self.is_draining() {
            if holder == me {
                let filter = doc! {"_id": LEADER, "node": &me};
                let free = meta.update_one(filter, doc! {"$set": {"node": &none}});
                answered(free.into_future()).await?;
            }
            return Ok(false);
        }
        if holder == me {
            return Ok(true);
        }
        let of_holder = nodes.iter().find(|node| node.id.to_string() == holder);
        if of_holder.is_some_and(|node| !self.peers.is_gone(node)) {
            return Ok(false);
        }
        let filter = doc! {"_id": LEADER, "node": &holder};
        let taken = meta.update_one(filter, doc! {"$set": {"node": &me}});
        let taken = answered(taken.into_future()).await?.modified_count == 1;
        if taken {
            self.terms.fetch_add(1, Ordering::AcqRel);
            tracing::info!(node = %self.id, "this node leads from now on");
        }
        Ok(taken)
    }

    /// Carries over what nodes that are gone left, and writes down how far everything is. `ends`
    /// says where the log ended when they were first found gone: what a node sent before its end may
    /// land behind it, as long as the position is not decided.
    async fn recover(&self, ends: &mut HashMap<NodeId, Position>) -> Result<Recovered> {
        let mut recovered = Recovered::All;
        let mut carried = self.carried(self.followed());
        let nodes = self.nodes().await?;
        ends.retain(|id, _| nodes.iter().any(|node| node.id == *id));
        for node in nodes
            .iter()
            .filter(|node| node.id != self.id && !node.recovered)
        {
            if !self.peers.is_gone(node) {
                ends.remove(&node.id);
                carried = carried.min(Position(node.carried));
                continue;
            }
            let position = match ends.get(&node.id) {
                Some(end) => *end,
                None => self.end_of_log().await?,
            };
            ends.insert(node.id, position);
            let at_once = false;
            if self.await_log(Awaited { position, at_once }) {
                self.recover_node(node).await?;
            } else {
                recovered = Recovered::NotYet;
                carried = carried.min(Position(node.carried));
            }
        }
        let noted = positions::note_carried(&self.collections, carried).await;
        noted.map(|()| recovered)
    }

    async fn recover_node(&self, node: &NodeDocument) -> Result<()> {
        let (number, carried) = (int(node.id.tail()), Position(node.carried));
        recovery::recover_node(&self.collections, number, carried).await?;
        let collection = self.collections.database.collection::<Document>(NODES);
        // One that is back meanwhile may leave more.
        let filter = doc! {"_id": node.id.to_string(), "beat": node.beat};
        let recovered = collection.update_one(filter, doc! {"$set": {"recovered": true}});
        answered(recovered.into_future()).await.map(|_| ())
    }
}
