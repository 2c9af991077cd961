//! What has answers purged although no document has changed: an account whose texts nobody may read any
//! more, and a node that has ended, for only itself knew what it had let caches keep.

use std::collections::HashSet;
use std::sync::Arc;

use colloquy_actors::accounts::Identity;
use colloquy_actors::store::Nodes;
use colloquy_actors::system::System;
use colloquy_model::id::NodeId;
use colloquy_model::node::NodeState;

/// Where it is looked for.
pub(super) struct Watched {
    identity: Arc<Identity>,
    nodes: Arc<dyn Nodes>,
}

/// What is known of by now.
#[derive(Debug, Default)]
pub(super) struct Known {
    forgotten_accounts: usize,
    ended_nodes: HashSet<NodeId>,
}

impl Watched {
    pub(super) fn of(system: &System) -> Self {
        Watched {
            identity: Arc::clone(&system.identity),
            nodes: Arc::clone(&system.nodes),
        }
    }

    /// Looks for more; whether there is any. Nodes of which a store that is away does not tell are found
    /// by a later look: each is told of for an hour.
    pub(super) async fn look(&self, known: &mut Known) -> bool {
        let forgotten = self.identity.forgotten_accounts();
        let mut is_more = forgotten > known.forgotten_accounts;
        known.forgotten_accounts = forgotten;
        if let Ok(nodes) = self.nodes.list().await {
            let ended = nodes.iter().filter(|node| node.state == NodeState::Gone);
            for node in ended {
                is_more |= known.ended_nodes.insert(node.id);
            }
        }
        is_more
    }
}
