//! Bodies whose JSON is small to send and large to hold: they are refused where they pass their
//! bound, not when all of it has been read.

use serde_json::json;

use super::{Neighbour, fill};
use crate::support::documents::DOCUMENTS;
use crate::support::{Answer, Client, Server};

const SECONDS: u64 = 4;
const MIB: u64 = 1 << 20;

/// Sends this body, written out, and gives the answer.
async fn send(client: &Client, (method, path): (&str, &str), body: &str) -> Answer {
    client
        .call(method, path)
        .with("content-type", "application/json")
        .bytes(body.to_owned())
        .await
}

/// The answer to metadata beyond its bounds is one about it; where too many such bodies come at
/// once, one that did nothing.
fn refused(answer: Answer) -> u16 {
    if answer.status == 503 {
        assert_eq!(
            answer.body["error"]["details"]["outcome"], "none",
            "{answer}"
        );
        return 503;
    }
    answer.error(400, "invalid_request", "metadata").status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_megabyte_of_small_values_as_metadata() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let client = server.account().await.test();
    let path = format!("/v1/conversations/{}", client.conversation().await);
    let before = client.get(&path).await.expect(200);
    let names: Vec<String> = (0..80_000).map(|n| format!("\"k{n}\":1")).collect();
    let bodies = [
        format!("{{\"metadata\":{{{}}}}}", names.join(",")),
        format!("{{\"metadata\":{{\"a\":[{}{{}}]}}}}", "{},".repeat(300_000)),
    ];
    let attack = fill::ask_for(SECONDS, 16, async |n| {
        refused(send(&client, ("PATCH", &path), &bodies[n % 2]).await)
    });
    let beside = neighbour
        .beside("a megabyte of small values as metadata", attack)
        .await;
    assert!(beside.attack[&400] > 0, "{:?}", beside.attack);
    assert!(beside.peak_bytes < 400 * MIB, "{} bytes", beside.peak_bytes);
    assert_eq!(
        client.get(&path).await.expect(200).body,
        before.body,
        "nothing was changed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_megabytes_of_small_values_beside_a_document() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let client = server.account().await.test();
    let body = format!(
        "{{\"title\":\"x\",\"metadata\":{{\"a\":[{}[1]]}}}}",
        "[1],".repeat(1_900_000)
    );
    let attack = fill::ask_for(SECONDS, 16, async |_| {
        refused(send(&client, ("POST", DOCUMENTS), &body).await)
    });
    let beside = neighbour
        .beside("8 MB of small values as metadata", attack)
        .await;
    assert!(beside.attack[&400] > 0, "{:?}", beside.attack);
    assert!(beside.peak_bytes < 700 * MIB, "{} bytes", beside.peak_bytes);
    assert_eq!(client.get(DOCUMENTS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_patch_of_metadata_may_be_four_times_as_long_as_metadata() {
    let server = Server::start();
    let client = server.account().await.test();
    let path = format!("/v1/conversations/{}", client.conversation().await);
    // Of nulls, which take away what is not there: as JSON `"…":null`, 4 bytes in all beside each
    // name and a comma.
    let patch = |names: usize| {
        let names: Vec<String> = (0..names).map(|n| format!("\"{n:0>95}\":null")).collect();
        format!("{{\"metadata\":{{{}}}}}", names.join(","))
    };
    client
        .patch(&path, json!({"metadata": {"kept": 1}}))
        .await
        .expect(200);
    let taken = send(&client, ("PATCH", &path), &patch(600))
        .await
        .expect(200);
    assert_eq!(taken["metadata"], json!({"kept": 1}));
    let refused = send(&client, ("PATCH", &path), &patch(700)).await.error(
        400,
        "invalid_request",
        "metadata",
    );
    assert!(
        refused["error"]["details"]["reason"]
            .as_str()
            .unwrap()
            .contains("65536 bytes"),
        "{refused}"
    );
}
