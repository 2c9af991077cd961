//! The servers that a history runs over, where clients find them, and what befalls them.

use serde_json::json;

use super::history::Entity;
use crate::support::process::{self, Pause};
use crate::support::{Addresses, Cluster, Dice, Proxy, Server, Setup, mongodb};

/// The server of MongoDB's protocol in the tests is so many times slower than the embedded store:
/// histories on it are so much shorter, and impatient clients wait so much longer.
const SLOWER: u8 = 6;

/// Servers that serve the same data, and the way to them.
pub(super) struct Nodes {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    /// Their ways to the database, where several nodes share one.
    ways: Vec<Proxy>,
    pub(super) addresses: Addresses,
}

impl Nodes {
    /// One server by itself, whose actors may be crashed.
    pub(super) fn one() -> Self {
        let setup = Setup::default().env("COLLOQUY__SUPERVISION__DRILLS", "true");
        Self::of(vec![setup.start()], Vec::new())
    }

    /// Three nodes on one database, each behind a proxy on its way there.
    pub(super) async fn three() -> Self {
        let cluster = Cluster::start(3, mongodb::host(mongodb::uri())).await;
        Self::of(cluster.servers, cluster.ways)
    }

    fn of(servers: Vec<Server>, ways: Vec<Proxy>) -> Self {
        Self {
            addresses: Addresses::of(&servers),
            servers,
            proxies: Vec::new(),
            ways,
        }
    }

    /// Puts a proxy in front of each, which cuts each connection before it has carried so many
    /// bytes of answers.
    pub(super) async fn cut_after(mut self, bytes_max: u64) -> Self {
        for (node, server) in self.servers.iter().enumerate() {
            let proxy = Proxy::start(&server.address(), bytes_max).await;
            self.addresses.put(node, proxy.address());
            self.proxies.push(proxy);
        }
        self
    }

    /// Lets clients go past the proxies.
    pub(super) fn cut_no_more(&self) {
        for (node, server) in self.servers.iter().enumerate() {
            self.addresses.put(node, server.address());
        }
    }

    /// How many connections were cut in the middle.
    pub(super) fn cuts(&self) -> u64 {
        self.proxies.iter().map(Proxy::cuts).sum()
    }

    pub(super) fn first(&self) -> &Server {
        &self.servers[0]
    }

    /// Whether what they serve is on MongoDB.
    pub(super) fn is_on_mongodb(&self) -> bool {
        mongodb::is_used() || !self.ways.is_empty()
    }

    /// How many times slower the store is than the embedded one.
    pub(super) fn slower(&self) -> u8 {
        if self.is_on_mongodb() { SLOWER } else { 1 }
    }

    /// Lets nodes tell in their logs that the database is away.
    pub(super) fn allow_absence(&mut self) {
        for server in &mut self.servers {
            server.expect_errors();
        }
    }

    /// Their ways to the database.
    pub(super) fn ways(&self) -> &[Proxy] {
        &self.ways
    }

    /// Whether a node says that it can serve.
    pub(super) fn is_ready(&self, node: usize) -> bool {
        self.servers[node].is_ready()
    }

    /// One of them, by chance.
    pub(super) fn any(&self, dice: &mut Dice) -> usize {
        usize::try_from(dice.below(self.servers.len() as u64)).unwrap()
    }

    /// kill -9, and a start in the same folder.
    pub(super) fn kill_and_restart_one(&mut self, dice: &mut Dice) {
        let node = self.any(dice);
        self.servers[node].kill9();
        self.servers[node].restart();
        let address = self.servers[node].address();
        match self.proxies.get(node) {
            Some(proxy) => proxy.lead_to(&address),
            None => self.addresses.put(node, address),
        }
    }

    /// Stops one in the midst of whatever it does; it goes on when this is dropped.
    pub(super) fn pause_one(&mut self, dice: &mut Dice) -> Pause {
        let node = self.any(dice);
        process::pause(self.servers[node].pid())
    }

    /// Lets actors crash as often as they will: each is back at once.
    pub(super) async fn allow_crashes(&mut self) {
        for server in &mut self.servers {
            server.expect_errors();
        }
        let at_once = json!({"window_seconds": 0});
        let kinds = json!({"kinds": {"conversation": at_once, "document": at_once}});
        let operator = self.first().operator();
        operator
            .patch("/admin/v1/supervision", kinds)
            .await
            .expect(200);
    }

    /// What an operator does to the actor of one entity, at any node.
    pub(super) async fn steer(&mut self, entity: &Entity, command: &str, dice: &mut Dice) -> u16 {
        let node = self.any(dice);
        let Entity { kind, id } = entity;
        let path = format!("/admin/v1/actors/{kind}/instances/{id}/{command}");
        let operator = self.servers[node].operator();
        operator.post(&path, json!({})).await.status
    }
}
