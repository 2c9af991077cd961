//! Accounts across nodes: nodes that start together make one first account, and accounts made at
//! different nodes at one instant share nothing.

use std::thread;

use futures_util::future::join_all;
use serde_json::json;

use super::{SLACK, nodes};
use crate::support::server::Folder;
use crate::support::{Account, Server, Setup, mongodb, until};

/// Nodes that start together on an empty database, which is named after this folder.
fn started_together(count: usize, folder: &Folder) -> Vec<Server> {
    let settings = mongodb::settings_of(&folder.work());
    let setup = settings
        .iter()
        .fold(Setup::default().known(), |setup, (name, value)| {
            setup.env(name, value)
        });
    let start = || {
        let setup = setup.clone().unset("COLLOQUY__ADMIN__TOKEN");
        thread::spawn(move || setup.start())
    };
    let starting: Vec<_> = (0..count).map(|_| start()).collect();
    let started = starting.into_iter().map(|one| one.join().unwrap());
    started.collect()
}

#[tokio::test]
async fn nodes_that_start_together_make_one_account_and_one_operator_token() {
    let folder = Folder::new();
    let nodes = started_together(3, &folder);
    let printed = |prefix| {
        let each = nodes.iter().filter_map(|node| node.printed_token(prefix));
        each.collect::<Vec<_>>()
    };
    let [token] = &printed("op_")[..] else {
        panic!("{:?}", printed("op_"));
    };
    for prefix in ["sk_test_", "sk_prod_", "sk_read_"] {
        let [key] = &printed(prefix)[..] else {
            panic!("{:?}", printed(prefix));
        };
        for node in &nodes {
            // A node whose lease ended on a busy machine says so for a moment.
            until("the key opens it", SLACK, async || {
                let answer = node.with_key(key).get("/v1").await;
                assert!([200, 503].contains(&answer.status), "{answer}");
                (answer.status == 200).then_some(())
            })
            .await;
        }
    }
    for node in &nodes {
        let operator = node.anonymous().with_operator(token);
        let accounts = operator.get("/admin/v1/accounts").await.expect(200);
        assert_eq!(accounts.column("name"), ["Default account"]);
    }
}

#[tokio::test]
async fn accounts_made_at_several_nodes_at_once_share_nothing() {
    let nodes = nodes(3);
    let made = nodes.iter().cycle().take(9).map(Server::account);
    let accounts: Vec<Account> = join_all(made).await;
    for account in &accounts {
        let name = json!({"name": account.account_id});
        account.test().post("/v1/customers", name).await.expect(201);
    }
    for account in &accounts {
        let listed = account.test().get("/v1/customers").await.expect(200);
        assert_eq!(listed.column("name"), [&*account.account_id]);
    }
}
