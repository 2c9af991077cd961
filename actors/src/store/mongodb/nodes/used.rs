//! A database seen by what is no node of it: whether nodes use it, and what they left there.

use std::collections::HashMap;
use std::time::Instant;

use mongodb::bson::doc;
use mongodb::error::Result;

use super::super::codec::int;
use super::super::processes::{has_ended_here, runs_here};
use super::super::recovery;
use super::super::schema::{Collections, NODES};
use super::documents::{NodeDocument, all_nodes};
use super::lease::{GONE_AFTER, RENEW_EVERY};
use colloquy_model::id::NodeId;
use colloquy_model::position::Position;

/// Carries over what every node left, where none is any more.
pub(in super::super) async fn recover_all(collections: &Collections) -> Result<()> {
    let nodes = collections.database.collection::<NodeDocument>(NODES);
    let mut cursor = nodes.find(doc! {"recovered": false}).await?;
    while cursor.advance().await? {
        let node = cursor.deserialize_current()?;
        recovery::recover_node(collections, int(node.id.tail()), Position(node.carried)).await?;
    }
    Ok(())
}

/// Whether a node uses the database. One that may have ended on another machine is waited for as
/// long as other nodes wait for it: it may still renew its lease.
pub(in super::super) async fn is_used(collections: &Collections) -> Result<bool> {
    let begun = Instant::now();
    let mut first_beats: HashMap<NodeId, i64> = HashMap::new();
    loop {
        let mut nodes = all_nodes(collections).await?;
        nodes.retain(|node| !node.ended && !has_ended_here(&node.process));
        let renews = |node: &NodeDocument| {
            runs_here(&node.process)
                || *first_beats.entry(node.id).or_insert(node.beat) != node.beat
        };
        if nodes.iter().any(renews) {
            return Ok(true);
        }
        if nodes.is_empty() || begun.elapsed() > GONE_AFTER {
            return Ok(false);
        }
        tokio::time::sleep(RENEW_EVERY).await;
    }
}
