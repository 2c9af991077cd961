//! The documents of nodes: what each says of itself, and what is asked of them and written about
//! them in `meta`.

use std::collections::BTreeMap;

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::super::connection::answered;
use super::super::schema::{Collections, NODES};
use colloquy_model::id::NodeId;

/// A node as it is stored: its slot, its lease, how far it has come, and what operators see of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NodeDocument {
    #[serde(rename = "_id")]
    pub(super) id: NodeId,
    /// The number that it has as long as it lives, and nobody else meanwhile.
    pub(super) slot: i32,
    /// Goes up by one with each renewal of the lease: others see by it that the node lives.
    pub(super) beat: i64,
    /// The position up to which it has taken in what was committed.
    pub(super) seen: i64,
    /// The position up to which all that it has written is carried over.
    pub(super) carried: i64,
    /// Whether what it left has been carried over by another node.
    pub(super) recovered: bool,
    /// Whether it serves: only then is it waited for.
    pub(super) serves: bool,
    /// Whether it drains, as an operator has asked it to.
    pub(super) drains: bool,
    /// Whether it has ended in order.
    pub(super) ended: bool,
    pub(super) address: String,
    /// A node of a version before regions tells none.
    #[serde(default)]
    pub(super) region: String,
    pub(super) version: String,
    pub(super) started_at: i64,
    /// When it was renewed, by its own clock.
    pub(super) renewed_at: i64,
    pub(super) live: BTreeMap<String, i64>,
    /// Names the process among those of its machine.
    pub(super) process: String,
}

/// The documents of all nodes. One that was not heard of for an hour has none any more, if another
/// node ran.
pub(super) async fn all_nodes(collections: &Collections) -> Result<Vec<NodeDocument>> {
    let nodes = collections.database.collection::<NodeDocument>(NODES);
    let found = async {
        let mut cursor = nodes.find(Document::new()).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok::<_, Error>(found)
    };
    answered(found).await
}

/// With this begins the `_id` of the document by which a node is asked to drain.
pub(in super::super) const DRAIN: &str = "drain.";

/// The `_id` of the document by which a node is asked to drain.
pub(super) fn drain_id(node: NodeId) -> String {
    format!("{DRAIN}{node}")
}

/// The `_id` of the document that says who leads.
pub(in super::super) const LEADER: &str = "leader";

/// So many nodes at most, those that are gone for less than an hour with them.
const SLOTS: i32 = 4096;

/// The lowest slot that no node has.
pub(super) async fn free_slot(collections: &Collections) -> Result<i32> {
    let nodes = collections.database.collection::<Document>(NODES);
    let fields = doc! {"slot": 1};
    let mut cursor = nodes.find(Document::new()).projection(fields).await?;
    let mut taken = Vec::new();
    while cursor.advance().await? {
        taken.extend(cursor.deserialize_current()?.get_i32("slot").ok());
    }
    let free = (0..SLOTS).find(|slot| !taken.contains(slot));
    free.ok_or_else(|| Error::custom(format!("{SLOTS} nodes used the database in the last hour")))
}
