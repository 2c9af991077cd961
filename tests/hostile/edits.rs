//! A message that is edited for ever: its edits are bounded, nothing costs more because of them,
//! and its redaction is done whatever its size.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Neighbour;
use crate::support::files::files_with;
use crate::support::{Client, Server, Setup, unique, until};

/// The contract's bound.
const EDITS_MAX: usize = 1_000;
/// Bytes of each text.
const TEXT_BYTES: usize = 64_000;
/// The contract's 30 s, and as much again for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// The text of edit `n`.
fn text(marker: &str, n: usize, bytes: usize) -> String {
    let start = format!("{marker} {n} ");
    let rest = "x".repeat(bytes.saturating_sub(start.len()));
    start + &rest
}

/// A message that was edited so often; gives its path.
async fn edited(c: &Client, (marker, edits, bytes): (&str, usize, usize)) -> String {
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let sent = c
        .post(&list, json!({"content": text(marker, 0, bytes)}))
        .with("idempotency-key", marker)
        .await;
    let at = sent.expect(201).header("location").to_owned();
    for n in 1..=edits {
        c.patch(&at, json!({"content": text(marker, n, bytes)}))
            .await
            .expect(200);
    }
    at
}

/// The least that each of these paths took, asked for in turn: whatever else runs at the time only
/// adds to it.
async fn least<const N: usize>(c: &Client, paths: [String; N]) -> [Duration; N] {
    let mut least = [Duration::MAX; N];
    for _ in 0..21 {
        for (path, least) in paths.iter().zip(&mut least) {
            let asked = Instant::now();
            c.get(path).await.expect(200);
            *least = asked.elapsed().min(*least);
        }
    }
    least
}

/// What readers show of a message, whichever way they come to it.
async fn shown(c: &Client, at: &str, marker: &str) -> Vec<String> {
    let (list, _) = at.rsplit_once('/').unwrap();
    let conversation = list.strip_suffix("/messages").unwrap();
    let body = json!({"content": text(marker, 0, TEXT_BYTES)});
    let answers = [
        c.get(at).await.expect(200),
        c.get(list).await.expect(200),
        c.get(&format!("{at}/revisions?limit=100"))
            .await
            .expect(200),
        c.get(&format!("{at}/revisions?limit=100&order=asc"))
            .await
            .expect(200),
        c.get(&format!("{conversation}/events?limit=100"))
            .await
            .expect(200),
        c.get("/v1/events?limit=100").await.expect(200),
        c.post(list, body)
            .with("idempotency-key", marker)
            .await
            .expect(201),
    ];
    answers
        .into_iter()
        .map(|answer| String::from_utf8(answer.bytes).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_edit_beyond_the_bound_is_a_conflict_and_none_makes_reading_dearer() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let c = server.account().await.test();
    let marker = unique("EditedForEver");
    let fresh = edited(&c, (&unique("Fresh"), 0, TEXT_BYTES)).await;
    let attack = async {
        let at = edited(&c, (&marker, EDITS_MAX, TEXT_BYTES)).await;
        let beyond = c.patch(&at, json!({"content": "once more"})).await;
        assert!(beyond.reason().contains("1000"), "{beyond}");
        beyond.error(409, "conflict", "");
        c.patch(&at, json!({})).await.expect(200);
        for path in [
            String::new(),
            "/revisions?limit=1".to_owned(),
            format!("/revisions?limit=1&offset={}", EDITS_MAX - 1),
        ] {
            let [few, many] = least(&c, [format!("{fresh}{path}"), format!("{at}{path}")]).await;
            eprintln!("hostile: GET …{path}: {few:?} without edits, {many:?} with {EDITS_MAX}");
            assert!(
                many < few * 4 + Duration::from_millis(10),
                "GET …{path}: {many:?} in place of {few:?}"
            );
        }
        let revisions = c
            .get(&format!("{at}/revisions?limit=3&offset=5"))
            .await
            .expect(200);
        assert_eq!(revisions.total(), EDITS_MAX as u64);
        let expected: Vec<String> = [994, 993, 992].map(|n| text(&marker, n, TEXT_BYTES)).into();
        assert_eq!(revisions.column("content"), expected);
        at
    };
    let beside = neighbour.beside("1,000 edits of 64 KB", attack).await;
    assert!(beside.peak_bytes < 200 << 20, "{} bytes", beside.peak_bytes);
    redacted(&server, &neighbour, (&c, &beside.attack, &marker)).await;
}

/// Redacts the message beside the neighbour: nobody sees a text from then on, and the files lose
/// them in time.
async fn redacted(server: &Server, neighbour: &Neighbour, (c, at, marker): (&Client, &str, &str)) {
    assert!(
        shown(c, at, marker)
            .await
            .iter()
            .all(|shown| shown.contains(marker)),
        "the test looks where texts are"
    );
    let attack = async {
        let asked = Instant::now();
        c.delete(at).await.expect(204);
        let took = asked.elapsed();
        let seen: Vec<String> = shown(c, at, marker)
            .await
            .into_iter()
            .filter(|shown| shown.contains(marker))
            .collect();
        assert_eq!(seen, Vec::<String>::new(), "right after the redaction");
        let work = server.work();
        until("no file holds the texts", GONE_WITHIN, async || {
            files_with(&work, marker).is_empty().then_some(())
        })
        .await;
        eprintln!(
            "hostile: redaction of {EDITS_MAX} edits: 204 after {took:?}, gone after {:?}",
            asked.elapsed()
        );
        took
    };
    let beside = neighbour
        .beside("a redaction of 1,000 edits of 64 KB", attack)
        .await;
    assert!(
        beside.attack < Duration::from_secs(2),
        "{:?}",
        beside.attack
    );
    let all: u64 = c.get(&format!("{at}/revisions")).await.expect(200).total();
    assert_eq!(all, EDITS_MAX as u64 + 1, "the redaction is one more");
    c.patch(at, json!({"content": "back"}))
        .await
        .error(409, "conflict", "");
    c.delete(at).await.expect(204);
}

#[tokio::test]
async fn a_redaction_of_many_edits_is_finished_after_kill_9() {
    const EDITS: usize = 300;
    let mut server = Server::start();
    let c = server.account().await.test();
    let marker = unique("KilledInTheMiddle");
    let at = edited(&c, (&marker, EDITS, TEXT_BYTES)).await;
    c.delete(&at).await.expect(204);
    server.kill9();
    assert!(
        !files_with(&server.work(), &marker).is_empty(),
        "the files still hold it"
    );
    server.restart();
    let c = c.at(&server.address());
    let seen: Vec<String> = shown(&c, &at, &marker)
        .await
        .into_iter()
        .filter(|shown| shown.contains(&marker))
        .collect();
    assert_eq!(seen, Vec::<String>::new(), "right after the start");
    let work = server.work();
    until("no file holds the texts", GONE_WITHIN, async || {
        files_with(&work, &marker).is_empty().then_some(())
    })
    .await;
    assert_eq!(
        c.get(&format!("{at}/revisions")).await.expect(200).total(),
        EDITS as u64 + 1
    );
}

#[tokio::test]
async fn the_bound_is_a_setting() {
    let server = Setup::default()
        .env("COLLOQUY__BOUNDS__MESSAGE_EDITS_MAX", "2")
        .start();
    let c = server.account().await.test();
    let at = edited(&c, ("few", 2, 10)).await;
    let before = c.get(&at).await.expect(200);
    let refused = c.patch(&at, json!({"content": "third"})).await;
    assert!(refused.reason().contains('2'), "{refused}");
    refused.error(409, "conflict", "");
    c.patch(&at, json!({"content": ""}))
        .await
        .error(400, "invalid_request", "content");
    let stale = c
        .patch(&at, json!({"content": "third"}))
        .with("if-match", "\"0\"")
        .await;
    stale.error(412, "precondition_failed", "*");
    assert_eq!(
        c.get(&at).await.expect(200).bytes,
        before.bytes,
        "a refusal changes nothing"
    );
    c.delete(&at).await.expect(204);
    let read: Value = c.get(&at).await.expect(200).body;
    assert_eq!(read["redacted"], true);
}
