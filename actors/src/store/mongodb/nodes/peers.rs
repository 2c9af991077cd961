//! What a node sees of the others: whose lease runs, and who is gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::super::processes::has_ended_here;
use super::documents::NodeDocument;
use super::lease::{GONE_AFTER, TOLD_FOR};
use colloquy_model::id::NodeId;

/// What was last seen of another node.
#[derive(Debug, Clone, Copy)]
struct Seen {
    beat: i64,
    since: Instant,
    /// When was asked for what showed it last.
    until: Instant,
}

impl Seen {
    /// For how long the node has said nothing, as far as it was asked: this process may have been
    /// stopped between its question and the answer, while the node was as alive as ever.
    fn silent(&self) -> Duration {
        self.until.saturating_duration_since(self.since)
    }
}

/// Which other nodes are there, and which were.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Standing {
    /// Nodes whose lease runs, as this one last saw.
    pub(in super::super) peers: Vec<NodeId>,
    /// Nodes that have ended, or whose lease is over.
    pub(in super::super) gone: Vec<NodeId>,
}

/// The other nodes, as this one saw them last.
pub(super) struct Peers {
    me: NodeId,
    has_peers: AtomicBool,
    had_peers: AtomicBool,
    others: Mutex<HashMap<NodeId, Seen>>,
    standing: Mutex<Standing>,
}

impl Peers {
    /// Before the first look: others may be there.
    pub(super) fn of(me: NodeId) -> Self {
        Peers {
            me,
            has_peers: AtomicBool::new(true),
            had_peers: AtomicBool::new(false),
            others: Mutex::default(),
            standing: Mutex::default(),
        }
    }

    /// Whether another node may be there.
    pub(super) fn are_there(&self) -> bool {
        self.has_peers.load(Ordering::Acquire)
    }

    /// Whether another node was there at any time.
    pub(super) fn were_there(&self) -> bool {
        self.had_peers.load(Ordering::Acquire)
    }

    /// Notes the beats of all nodes, as they were shown to a question that was asked then.
    pub(super) fn note(&self, asked: Instant, nodes: &[NodeDocument]) {
        let now = Instant::now();
        let mut others = self.others.lock();
        others.retain(|id, _| nodes.iter().any(|node| node.id == *id));
        for node in nodes {
            let first = Seen {
                beat: node.beat,
                since: now,
                until: now,
            };
            let seen = others.entry(node.id).or_insert(first);
            if seen.beat == node.beat {
                seen.until = seen.until.max(asked);
            } else {
                *seen = first;
            }
        }
        drop(others);
        let mut standing = Standing::default();
        for node in nodes.iter().filter(|node| node.id != self.me) {
            let list = if self.is_gone(node) {
                &mut standing.gone
            } else {
                &mut standing.peers
            };
            list.push(node.id);
        }
        let has_peers = !standing.peers.is_empty();
        if has_peers {
            self.had_peers.store(true, Ordering::Release);
        }
        self.has_peers.store(has_peers, Ordering::Release);
        *self.standing.lock() = standing;
    }

    /// Those that were not heard of for an hour, and of whose commits all is carried over.
    pub(super) fn long_gone(&self, nodes: &[NodeDocument]) -> Vec<NodeId> {
        let others = self.others.lock();
        let is_old = |node: &&NodeDocument| {
            let seen = others.get(&node.id);
            node.recovered && seen.is_some_and(|seen| seen.silent() > TOLD_FOR)
        };
        nodes.iter().filter(is_old).map(|node| node.id).collect()
    }

    /// Which other nodes were there when this one last looked.
    pub(super) fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }

    /// Whether a node has ended, or was not heard of for so long that its lease is over.
    pub(super) fn is_gone(&self, node: &NodeDocument) -> bool {
        node.ended
            || has_ended_here(&node.process)
            || self
                .others
                .lock()
                .get(&node.id)
                .is_some_and(|seen| seen.beat == node.beat && seen.silent() > GONE_AFTER)
    }
}
