//! One account writes more than the search indexes can keep up with, and another one searches for what it
//! wrote itself.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Neighbour;
use crate::support::documents::DOCUMENTS;
use crate::support::{Client, Dice, Server};

/// Searches of the other account.
const SEARCHES: u64 = 10;
/// Clients of the account that writes more than the index of documents keeps up with.
const CLIENTS: u64 = 3;
const CONVERSATIONS: &str = "/v1/conversations";

/// Searches for what `write` has just written, again and again, while somebody else writes what no index
/// keeps up with: it is found each time.
async fn finds_its_own(
    server: &Server,
    (searcher, list, lag): (&Client, &str, &str),
    write: impl AsyncFn(String),
    attack: impl Future<Output = ()>,
) {
    let searching = async {
        let mut behind = 0;
        for n in 0..SEARCHES {
            write(format!("zebra{n}")).await;
            let found = searcher.get(&format!("{list}?q=zebra{n}")).await;
            assert_eq!(found.expect(200).total(), 1, "zebra{n}");
            behind += u64::from(server.metric(lag).await > 0);
        }
        behind
    };
    let behind = tokio::select! {
        behind = searching => behind,
        () = attack => unreachable!("it has no end"),
    };
    assert!(
        behind > SEARCHES / 2,
        "the index was behind at {behind} of {SEARCHES} searches only"
    );
}

/// The same for documents, while clients of another account each do `attack` with a document of theirs, again
/// and again, and with 7 MB of noise.
async fn documents_are_found_beside(attack: impl AsyncFn(&Client, &str, String)) {
    let server = Server::start();
    // It has the machine to itself.
    let _turn = Neighbour::of(&server).await;
    let (account, other) = (server.account().await.test(), server.account().await.test());
    let attack_with = async |first: u64| {
        let document = json!({"title": "Words", "content": "none"});
        let document = account.post(DOCUMENTS, document).await.expect(201).id("id");
        for seed in (first..).step_by(1_000) {
            attack(&account, &document, Dice::new(seed).noise(7_000_000)).await;
        }
    };
    let attacks = async {
        join_all((0..CLIENTS).map(attack_with)).await;
    };
    let write = async |word: String| {
        let small = json!({"title": word, "content": "small"});
        other.post(DOCUMENTS, small).await.expect(201);
    };
    finds_its_own(
        &server,
        (&other, DOCUMENTS, "search_positions_behind"),
        write,
        attacks,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_found_beside_long_ones_that_an_account_creates() {
    let create = async |account: &Client, _: &str, content: String| {
        let words = json!({"title": "Words", "content": content});
        account.post(DOCUMENTS, words).await.expect(201);
    };
    documents_are_found_beside(create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_found_beside_long_ones_that_an_account_replaces() {
    let replace = async |account: &Client, document: &str, content: String| {
        let words = json!({"content": content});
        let path = format!("{DOCUMENTS}/{document}");
        account.put(&path, words).await.expect(200);
    };
    documents_are_found_beside(replace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_are_found_beside_those_of_an_account_that_the_index_is_behind_with() {
    let server = Server::start();
    let _turn = Neighbour::of(&server).await;
    let (account, other) = (server.account().await.test(), server.account().await.test());
    let (busy, conversation) = (account.conversation().await, other.conversation().await);
    let send = async |seed: u64| {
        let mut dice = Dice::new(seed);
        loop {
            account.message(&busy, &dice.noise(60_000)).await;
        }
    };
    let attack = async {
        let _: Vec<Value> = join_all((0..8).map(send)).await;
    };
    let write = async |word: String| {
        other.message(&conversation, &word).await;
    };
    finds_its_own(
        &server,
        (&other, CONVERSATIONS, "message_search_positions_behind"),
        write,
        attack,
    )
    .await;
}
