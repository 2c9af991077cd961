//! Several nodes on one database: each shows what the others acknowledged, and none does harm.

mod accounts;
mod alerts;
mod attachments;
mod audit;
mod balancer;
mod commits;
mod conditions;
mod deliveries;
mod domains;
mod elsewhere;
mod encryption;
mod erasing;
mod faults;
mod feeds;
mod figures;
mod limits;
mod links;
mod load;
mod manifests;
mod oauth;
mod operators;
mod paused;
mod quotas;
mod regions;
mod rolling;
mod scaling;
mod shared_caches;
mod signals;
mod signatures;
mod supervision;
mod tickets;
mod traces;
mod writers;

use std::time::Duration;

use crate::support::server::Folder;
use crate::support::{Server, Setup, mongodb};

/// The longest that something which has to happen may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

/// A node on a database of its own, and others that join it; they deliver to this machine.
fn nodes(count: usize) -> Vec<Server> {
    nodes_with(&Setup::default(), count)
}

/// The same, set up so.
fn nodes_with(setup: &Setup, count: usize) -> Vec<Server> {
    let setup = setup.clone().delivering("[0.05, 0.1, 0.2, 0.4]", "5");
    let folder = Folder::new();
    let settings = mongodb::settings_of(&folder.work());
    let alone = settings
        .iter()
        .fold(setup.clone(), |setup, (name, value)| setup.env(name, value));
    let mut nodes = vec![alone.start_in(folder)];
    for _ in 1..count {
        let joined = setup.clone().joining(&nodes[0]).start();
        nodes.push(joined);
    }
    nodes
}
