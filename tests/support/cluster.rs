//! Several nodes on one database, each of which reaches it through a proxy of its own.

use std::sync::{Arc, Mutex};

use super::server::{Folder, Server, Setup};
use super::{Dice, Proxy, mongodb};

/// Where each node is found now. Clients take any of them for each request.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<Mutex<Vec<String>>>);

impl Addresses {
    /// Those of these nodes.
    pub(crate) fn of(servers: &[Server]) -> Self {
        let addresses = servers.iter().map(Server::address).collect();
        Self(Arc::new(Mutex::new(addresses)))
    }

    /// One of them, by chance.
    pub(crate) fn any(&self, dice: &mut Dice) -> String {
        let addresses = self.0.lock().unwrap();
        let place = dice.below(addresses.len() as u64);
        addresses[usize::try_from(place).unwrap()].clone()
    }

    /// All of them, in the order of the nodes.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// A node is found there from now on.
    pub(crate) fn put(&self, node: usize, address: String) {
        self.0.lock().unwrap()[node] = address;
    }
}

/// Nodes, and their ways to the database, in the same order.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    pub(crate) ways: Vec<Proxy>,
    pub(crate) addresses: Addresses,
}

impl Cluster {
    /// So many nodes, started one after the other, on a new database of the server at `database`
    /// (`host:port`).
    pub(crate) async fn start(count: usize, database: &str) -> Self {
        Self::start_with(&Setup::default(), count, database).await
    }

    /// The same, set up so.
    pub(crate) async fn start_with(setup: &Setup, count: usize, database: &str) -> Self {
        let (mut servers, mut ways) = (Vec::<Server>::new(), Vec::new());
        let folder = Folder::new();
        let settings = mongodb::settings_of(&folder.work());
        let setup = settings
            .iter()
            .fold(setup.clone(), |setup, (name, value)| setup.env(name, value));
        let mut folder = Some(folder);
        for _ in 0..count {
            let way = Proxy::open_to(database).await;
            let uri = format!("mongodb://{}/", way.address());
            let setup = setup.clone().env(mongodb::URI, &uri);
            servers.push(match folder.take() {
                Some(folder) => setup.start_in(folder),
                None => setup.known().start(),
            });
            ways.push(way);
        }
        Self {
            addresses: Addresses::of(&servers),
            servers,
            ways,
        }
    }

    /// Lets nodes tell in their logs that the database is away.
    pub(crate) fn allow_absence(&mut self) {
        for server in &mut self.servers {
            server.expect_errors();
        }
    }

    /// kill -9 of a node, and a start in the same folder.
    pub(crate) fn kill_and_restart(&mut self, node: usize) {
        self.servers[node].kill9();
        self.servers[node].restart();
        self.addresses.put(node, self.servers[node].address());
    }
}
