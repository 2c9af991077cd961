//! Who is connected: one client address has a part of all connections at most, so that it can't
//! keep others out, and nobody keeps one that is idle for too long.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::rt::net::TcpStream;
use colloquy_model::network::includes;
use ipnet::IpNet;
use parking_lot::Mutex;

use super::budget::BudgetOwner;
use super::idle::{IdleLimits, IdleTimer};
use super::socket_handle::SocketHandle;

/// One address may have one part in so many.
const ADDRESS_SHARE: usize = 4;

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<BudgetOwner, usize>,
}

/// The connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    each: usize,
    idle: IdleLimits,
    proxies: Vec<IpNet>,
    open: Mutex<Open>,
}

/// A connection that was let in.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) peer: SocketAddr,
    pub(super) idle: IdleTimer,
    /// Whose its requests are: whoever the last one was known to be from, at first the address.
    pub(super) owner: Rc<Cell<BudgetOwner>>,
    /// Whether its peer is a proxy that is believed, through which many clients' requests come.
    pub(super) is_shared: bool,
    _counted: Connection,
}

/// One connection that counts; dropped with it.
#[derive(Debug)]
struct Connection {
    connections: Arc<Connections>,
    address: BudgetOwner,
}

impl Connections {
    /// Of so many in all; proxies, through which many clients come, may have them all.
    pub(crate) fn new(max: usize, idle: IdleLimits, proxies: Vec<IpNet>) -> Arc<Self> {
        Arc::new(Connections {
            max,
            each: max.div_ceil(ADDRESS_SHARE),
            idle,
            proxies,
            open: Mutex::default(),
        })
    }

    /// Counts a new connection and starts its timer; none where its address has too many, or its
    /// peer is gone already.
    pub(super) fn admit(self: &Arc<Self>, stream: &TcpStream) -> Option<Admitted> {
        let peer = stream.peer_addr().ok()?;
        let address = peer.ip().to_canonical();
        let counted = self.enter(address)?;
        Some(Admitted {
            peer,
            idle: IdleTimer::start(SocketHandle::of(stream), self.idle),
            owner: Rc::new(Cell::new(counted.address)),
            is_shared: self.is_proxy(address),
            _counted: counted,
        })
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let owner = BudgetOwner::at(address);
        let mut open = self.open.lock();
        let mine = open.by_address.get(&owner).copied().unwrap_or(0);
        if mine >= self.each && !self.is_proxy(address) {
            return None;
        }
        open.total += 1;
        open.by_address.insert(owner, mine + 1);
        Some(Connection {
            connections: Arc::clone(self),
            address: owner,
        })
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|proxy| includes(proxy, address))
    }

    /// How much is open of what the server takes.
    pub(crate) fn share(&self) -> f64 {
        self.open() as f64 / self.max.max(1) as f64
    }

    /// How many connections are open, from all addresses.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().total
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total = open.total.saturating_sub(1);
        if let Some(mine) = open.by_address.get_mut(&self.address) {
            *mine = mine.saturating_sub(1);
            if *mine == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_has_a_quarter_and_a_proxy_all() {
        let idle = IdleLimits {
            next_head: Duration::ZERO,
            rest_of_body: Duration::ZERO,
        };
        let connections = Connections::new(8, idle, vec!["192.0.2.9/32".parse().unwrap()]);
        let enter = |address: &str| connections.enter(address.parse().unwrap());
        let mut mine: Vec<Connection> = (0..2).map(|_| enter("192.0.2.1").unwrap()).collect();
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some());
        mine.pop();
        assert!(enter("192.0.2.1").is_some());
        let proxied: Vec<Connection> = (0..8).map(|_| enter("192.0.2.9").unwrap()).collect();
        drop((mine, proxied));
        let open = connections.open.lock();
        assert_eq!((open.total, open.by_address.len()), (0, 0));
    }
}
