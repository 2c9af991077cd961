//! Customers with very many conversations, and very many customers: what is done to one of them
//! holds nobody else up.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::json;

use super::{Neighbour, fill};
use crate::support::{Client, Server, until};

/// Conversations of one customer here: enough for hundreds of slices.
const CONVERSATIONS: usize = 5_000;
/// Customers that are renamed one after the other.
const CUSTOMERS: usize = 3_000;
/// The longest that one request about such a customer takes on a busy machine.
const SOON: Duration = Duration::from_secs(3);
/// The longest that copying their names takes there.
const COPIED_WITHIN: Duration = Duration::from_secs(90);

async fn rename(client: &Client, customer: &str, name: &str) {
    client
        .patch(&format!("/v1/customers/{customer}"), json!({"name": name}))
        .await
        .expect(200);
}

async fn all_copied(server: &Server) {
    let copied = async || (server.metric("store_renames_waiting").await == 0).then_some(());
    until("every header has the new name", COPIED_WITHIN, copied).await;
}

/// The name that conversations show in this list.
async fn names(client: &Client, list: &str) -> Vec<String> {
    let page = client.get(list).await.expect(200);
    page.data()
        .iter()
        .map(|one| one["customer"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_with_very_many_conversations_is_renamed_again_and_again() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attacker = server.account().await.test();
    let customer = fill::conversations(&attacker, CONVERSATIONS).await;
    let list = format!("/v1/conversations?customer_id={customer}&limit=100");
    let attack = async {
        for n in 0..20 {
            rename(&attacker, &customer, &format!("Name {n}")).await;
            let newest = format!("Name {n}");
            assert!(
                names(&attacker, &list)
                    .await
                    .iter()
                    .all(|name| *name == newest),
                "at once, in every list"
            );
        }
        all_copied(&server).await;
    };
    neighbour
        .beside("renames of a customer with 5,000 conversations", attack)
        .await;
    for from in [0, CONVERSATIONS / 2, CONVERSATIONS - 100] {
        let names = names(&attacker, &format!("{list}&offset={from}")).await;
        assert_eq!(
            (
                names.len(),
                names.iter().filter(|name| *name == "Name 19").count()
            ),
            (100, 100),
            "from {from}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customer_with_very_many_conversations_is_listed_and_refuses_to_go_quickly() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attacker = server.account().await.test();
    let customer = fill::conversations(&attacker, CONVERSATIONS).await;
    let attack = async {
        let mut longest = Duration::ZERO;
        for n in 0..20 {
            let asked = Instant::now();
            let gone = attacker.delete(&format!("/v1/customers/{customer}")).await;
            gone.error(409, "conflict", "");
            let sort = ["created_at", "updated_at"][n % 2];
            let page = attacker
                .get(&format!(
                    "/v1/conversations?customer_id={customer}&sort={sort}&offset=4990"
                ))
                .await;
            assert_eq!(page.expect(200).data().len(), 10);
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let longest = neighbour
        .beside(
            "lists and deletion of a customer with 5,000 conversations",
            attack,
        )
        .await
        .attack;
    assert!(longest < SOON, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_customers_are_renamed_one_after_the_other() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let attacker = server.account().await.test();
    let customers: Vec<String> =
        futures_util::stream::iter((0..CUSTOMERS).map(|_| attacker.customer()))
            .buffer_unordered(32)
            .collect()
            .await;
    let one = attacker.conversation_of(&customers[CUSTOMERS / 2]).await;
    let attack = async {
        let renames = customers
            .iter()
            .map(|customer| rename(&attacker, customer, "Renamed"));
        futures_util::stream::iter(renames)
            .buffer_unordered(32)
            .collect::<()>()
            .await;
        all_copied(&server).await;
    };
    let beside = neighbour.beside("renames of 3,000 customers", attack).await;
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
    let shown = attacker
        .get(&format!("/v1/conversations/{one}"))
        .await
        .expect(200);
    assert_eq!(shown.body["customer"]["name"], "Renamed");
}
