//! A process that serves a store, as operators see it.

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::time::Timestamp;

/// What a node is doing, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It has a lease and answers requests.
    Live,
    /// It still serves, but is to be taken out of rotation.
    Draining,
    /// It has ended, or nobody has heard of it for longer than its lease.
    Gone,
}

/// A node as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its identifier, made anew at each start.
    pub id: NodeId,
    /// The address that it is bound to, with its port.
    pub address: String,
    /// The region that it runs in, as its settings name it; empty where they name none.
    pub region: String,
    /// The version of the program.
    pub version: String,
    /// When the process was started, by its own clock.
    pub started_at: Timestamp,
    /// Whether it serves, is to be taken out of rotation, or has ended.
    pub state: NodeState,
    /// When it counts as gone unless it is heard of again; none where nobody waits for it.
    pub lease_until: Option<Timestamp>,
    /// How many actors of each kind it has in memory.
    pub live: BTreeMap<String, u64>,
}
