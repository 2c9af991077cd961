//! A merge that takes long: nobody but its caller waits for it, and it merges what is there when it
//! is done.

use std::future::IntoFuture;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Client, Dice, Server, Setup};

/// Lines that take a debug build about a second to merge.
const SLOW: u64 = 30_000;
/// Fewer, where it is merged again and again; still longer than a request.
const SLOWISH: u64 = 20_000;

/// A server on which a debug build on a busy machine may take its time.
async fn patient() -> (Server, Client) {
    let setup = Setup::default().env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "25");
    let server = setup
        .env("COLLOQUY__DOCUMENTS__TURN_WAIT_SECONDS", "25")
        .start();
    let client = server.account().await.test();
    (server, client)
}

/// A text in which almost any line may be almost any other: nothing is harder to compare.
fn hard(lines: u64, seed: u64, first: &str, last: &str) -> String {
    let mut dice = Dice::new(seed);
    let block: String = (0..lines)
        .map(|_| ["a\n", "b\n"][dice.below(2) as usize])
        .collect();
    format!("{first}\nbetween\n{block}between\nthem\n{last}\n")
}

/// A document whose head and whose branch `side` differ in all of that, with a comment on its first
/// line.
async fn forked(c: &Client, lines: u64) -> String {
    let at = c.document(&hard(lines, 1, "first", "last")).await;
    c.branch(&at, "side", &hard(lines, 2, "first", "the side's"))
        .await;
    c.write(&at, &hard(lines, 3, "first", "last")).await;
    comment(c, &at).await;
    at
}

async fn comment(c: &Client, at: &str) {
    c.post(
        &format!("{at}/comments"),
        json!({"start_line": 1, "body": "Why?"}),
    )
    .await
    .expect(201);
}

fn merge(c: &Client, at: &str, mut body: Value) -> JoinHandle<Answer> {
    body["source"] = json!("side");
    body["strategy"] = json!("ours");
    let call = c
        .post(&format!("{at}/merge"), body)
        .with("idempotency-key", "merge");
    tokio::spawn(call.into_future())
}

/// Reads until the merge, which was asked for before, must have begun.
async fn begun(c: &Client, at: &str, merging: &JoinHandle<Answer>) {
    for _ in 0..3 {
        c.get(at).await.expect(200);
    }
    assert!(!merging.is_finished(), "too fast to be met halfway");
}

#[tokio::test]
async fn while_a_merge_runs_its_document_is_read_commented_and_changed() {
    let (_server, c) = patient().await;
    let at = forked(&c, SLOW).await;
    let merging = merge(&c, &at, json!({}));
    let mut rounds = 0;
    while rounds < 5 && !merging.is_finished() {
        c.get(&at).await.expect(200);
        comment(&c, &at).await;
        c.put(&at, json!({"title": format!("Title {rounds}")}))
            .await
            .expect(200);
        rounds += usize::from(!merging.is_finished());
    }
    assert!(
        rounds >= 2,
        "only {rounds} rounds were answered before the merge"
    );
    let made = merging.await.unwrap().expect(201);
    assert_eq!(made["number"], 4);
    assert!(c.text(&at).await.ends_with("\nthe side's\n"));
    let comments = c.get(&format!("{at}/comments?limit=100")).await.expect(200);
    let followed =
        |comment: &Value| comment["version"] == made["id"] && comment["outdated"] == false;
    assert!(
        comments["data"].as_array().unwrap().iter().all(followed),
        "all comments follow: {comments}"
    );
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_merge_is_merged_too() {
    let (_server, c) = patient().await;
    let at = forked(&c, SLOW).await;
    let merging = merge(&c, &at, json!({}));
    begun(&c, &at, &merging).await;
    let head = c.write(&at, &hard(SLOW, 3, "the head's", "last")).await;
    assert!(!merging.is_finished(), "too late to be in the middle");
    let made = merging.await.unwrap().expect(201);
    assert_eq!(
        (&made["parents"][0], &made["number"]),
        (&json!(head), &json!(5))
    );
    let text = c.text(&at).await;
    assert!(
        text.starts_with("the head's\n") && text.ends_with("\nthe side's\n"),
        "both changes stand"
    );
    let again = merge(&c, &at, json!({})).await.unwrap().expect(201);
    assert_eq!(
        (again.header("idempotent-replayed"), &again["id"]),
        ("true", &made["id"]),
        "its key is kept"
    );
}

#[tokio::test]
async fn a_merge_into_one_version_is_refused_when_that_is_no_tip_any_more() {
    let (_server, c) = patient().await;
    let at = forked(&c, SLOW).await;
    let merging = merge(&c, &at, json!({"target": c.head(&at).await}));
    begun(&c, &at, &merging).await;
    let head = c.write(&at, "somebody was faster\n").await;
    merging
        .await
        .unwrap()
        .error(412, "precondition_failed", "*");
    assert_eq!(c.head(&at).await, head);
}

#[tokio::test]
async fn a_merge_that_is_overtaken_again_and_again_gives_up_having_done_nothing() {
    let (_server, c) = patient().await;
    let at = forked(&c, SLOWISH).await;
    let merging = merge(&c, &at, json!({}));
    let mut written = 3;
    while !merging.is_finished() {
        c.write(
            &at,
            &hard(
                SLOWISH,
                3,
                &format!("first, changed {written} times"),
                "last",
            ),
        )
        .await;
        written += 1;
    }
    let refused = merging.await.unwrap().error(503, "unavailable", "");
    assert_eq!(refused.body["error"]["details"]["outcome"], "none");
    let versions = c.get(&format!("{at}/versions?limit=1")).await.expect(200);
    assert_eq!(
        (versions.total(), &versions["data"][0]["number"]),
        (written, &json!(written))
    );
    merge(&c, &at, json!({})).await.unwrap().expect(201);
    assert!(
        c.text(&at).await.ends_with("\nthe side's\n"),
        "its key is free again"
    );
}
