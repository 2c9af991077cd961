//! One account writes more than the search indexes can keep up with, and another one searches for what it
//! wrote itself.

use futures_util::future::join_all;
use serde_json::Value;

use super::Neighbour;
use crate::support::{Client, Dice, Server};

/// Searches of the other account.
const SEARCHES: u64 = 10;
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
