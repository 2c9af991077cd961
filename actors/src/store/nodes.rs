//! Nodes: the processes that serve one store. On the embedded store there is one; on a store that
//! several share, each keeps a lease there, and what only one of them may do is done by whoever
//! leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::RwLock;

use super::{Broadcast, FirstStartMark, Later, Operator, ReadError, SharedTickets};
use colloquy_model::account::AccountNumber;
use colloquy_model::id::NodeId;
use colloquy_model::node::{Node, NodeState};
use colloquy_model::time::Timestamp;

/// What a node tells of itself.
#[derive(Debug, Clone, Default)]
pub struct NodeFigures {
    /// The address that it is bound to, with its port.
    pub address: String,
    /// The region that it runs in; empty where its settings name none.
    pub region: String,
    /// How many actors of each kind it has in memory.
    pub live: BTreeMap<String, u64>,
}

/// Gives what a node tells of itself, as of now.
pub type DescribeNode = Arc<dyn Fn() -> NodeFigures + Send + Sync>;

/// The nodes of a store, and this one among them.
pub trait Nodes: Send + Sync + 'static {
    /// Has this node tell these figures of itself from now on.
    fn describe(&self, figures: DescribeNode);

    /// All nodes that were heard of in the last hour, by the time of their start.
    fn list(&self) -> Later<Result<Vec<Node>, ReadError>>;

    /// Asks a node to drain; false where there is none with this identifier, or it is gone.
    fn drain(&self, node: NodeId) -> Later<Result<bool, ReadError>>;

    /// Whether this node has been asked to drain.
    fn is_draining(&self) -> bool;

    /// Whether what this node holds in memory may be relied on: its lease runs, and it has taken in
    /// what others committed before.
    fn is_current(&self) -> bool;

    /// The way to all other nodes; none on a store that only one node can serve.
    fn broadcast(&self) -> Option<Arc<dyn Broadcast>>;

    /// Where all nodes find the tickets of each; none on a store that only one node can serve.
    fn tickets(&self) -> Option<Arc<dyn SharedTickets>>;

    /// The number of a new account: above this one, and at no node given to another account. One
    /// that is not used is left out.
    fn next_account(&self, above: u32) -> Later<Result<AccountNumber, ReadError>>;

    /// What a first start makes here, where the highest number of an account is this one: something
    /// where there is none, or where whoever made what is there died before its secrets were shown.
    /// Of nodes that start together one makes it; the others wait until it has. `makes_token` says
    /// that the operators' token is none of the settings. Asked once, before anything is served.
    ///
    /// # Errors
    /// The store does not answer.
    fn first_start(&self, highest: u32, makes_token: bool) -> Result<ToMake, ReadError>;

    /// Notes that the secrets of the first account, which this node was to make, were shown, for good:
    /// from then on none is made again. Waits for the store; until it has answered nothing may be
    /// served.
    ///
    /// # Errors
    /// It is not noted, or another node has made them anew since.
    fn secrets_shown(&self) -> Result<(), ReadError>;
}

/// What a first start makes at a node.
#[derive(Debug, Default)]
pub struct ToMake {
    /// The number of the first account, where it is made here: should there be one already, nobody has
    /// seen its secrets.
    pub account: Option<AccountNumber>,
    /// How operators are known, where that is no longer as it was when the store was opened.
    pub operator: Option<Operator>,
}

/// The one node of an embedded store.
pub struct OnlyNode {
    id: NodeId,
    started_at: Timestamp,
    draining: AtomicBool,
    figures: RwLock<DescribeNode>,
    /// The number that was given to an account last.
    last_account: AtomicU32,
    first_start: FirstStartMark,
}

impl OnlyNode {
    /// This process, which has just been started, on a store with this mark.
    #[must_use]
    pub fn new(first_start: FirstStartMark) -> Self {
        OnlyNode {
            first_start,
            id: NodeId::new(Timestamp::now()),
            started_at: Timestamp::now(),
            draining: AtomicBool::new(false),
            figures: RwLock::new(Arc::new(NodeFigures::default)),
            last_account: AtomicU32::new(0),
        }
    }

    fn node(&self) -> Node {
        let describe = Arc::clone(&self.figures.read());
        let NodeFigures {
            address,
            region,
            live,
        } = describe();
        Node {
            id: self.id,
            address,
            region,
            version: VERSION.to_owned(),
            started_at: self.started_at,
            state: if self.is_draining() {
                NodeState::Draining
            } else {
                NodeState::Live
            },
            lease_until: None,
            live,
        }
    }
}

impl Nodes for OnlyNode {
    fn describe(&self, figures: DescribeNode) {
        *self.figures.write() = figures;
    }

    fn list(&self) -> Later<Result<Vec<Node>, ReadError>> {
        Box::pin(std::future::ready(Ok(vec![self.node()])))
    }

    fn drain(&self, node: NodeId) -> Later<Result<bool, ReadError>> {
        let is_this = self.id == node;
        if is_this {
            self.draining.store(true, Ordering::Relaxed);
        }
        Box::pin(std::future::ready(Ok(is_this)))
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn is_current(&self) -> bool {
        true
    }

    fn broadcast(&self) -> Option<Arc<dyn Broadcast>> {
        None
    }

    fn tickets(&self) -> Option<Arc<dyn SharedTickets>> {
        None
    }

    fn next_account(&self, above: u32) -> Later<Result<AccountNumber, ReadError>> {
        self.last_account.fetch_max(above, Ordering::Relaxed);
        let number = self.last_account.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(std::future::ready(Ok(AccountNumber(number))))
    }

    fn first_start(&self, highest: u32, _makes_token: bool) -> Result<ToMake, ReadError> {
        if highest > 0 && !self.first_start.is_set() {
            return Ok(ToMake::default());
        }
        self.first_start.set().map_err(|error| away(&error))?;
        self.last_account.fetch_max(highest, Ordering::Relaxed);
        let number = self.last_account.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(ToMake {
            account: Some(AccountNumber(number)),
            // Whoever opened the store has made another.
            operator: None,
        })
    }

    fn secrets_shown(&self) -> Result<(), ReadError> {
        self.first_start.clear().map_err(|error| away(&error))
    }
}

fn away(error: &std::io::Error) -> ReadError {
    tracing::error!(%error, "the mark of a first start can't be changed");
    ReadError::Away
}

/// The version of the program, as nodes tell it of themselves.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
