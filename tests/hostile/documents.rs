//! Documents: comparisons, merges and comments that cost much, and whoever works with documents of
//! their own beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::task::JoinHandle;

use super::Neighbour;
use crate::support::client::Call;
use crate::support::documents::DOCUMENTS;
use crate::support::{Client, Dice, Server, Setup};

/// The most that the whole process may ever hold.
const PEAK_MAX: u64 = 700 << 20;
/// Lines of a text of one letter each that a request of 8 MiB holds, with `\n` written as two
/// characters.
const SHORT_LINES: usize = 2_790_000;
/// Lines that take a debug build about a second to compare, in 60 KB.
const SLOW: u64 = 30_000;
/// Lines that would take a debug build minutes to compare if nothing bounded it, in 1 MB.
const SLOWEST: u64 = 520_000;

/// A server on which a debug build on a busy machine may take its time.
fn patient() -> Server {
    patient_setup().start()
}

fn patient_setup() -> Setup {
    let setup = Setup::default().env("COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS", "28");
    setup.env("COLLOQUY__DOCUMENTS__TURN_WAIT_SECONDS", "28")
}

/// A text in which almost any line may be almost any other: nothing is harder to compare.
fn hard(lines: u64, seed: u64) -> String {
    let mut dice = Dice::new(seed);
    (0..lines)
        .map(|_| ["a\n", "b\n"][dice.below(2) as usize])
        .collect()
}

/// A document with these versions.
async fn versions(c: &Client, texts: &[&str]) -> String {
    let at = c.document(texts[0]).await;
    for text in &texts[1..] {
        c.write(&at, text).await;
    }
    at
}

/// Sends all of them, so many at once; counts what they were answered with.
async fn all_at_once(calls: impl Iterator<Item = Call>, at_once: usize) -> BTreeMap<u16, usize> {
    let sent = calls.map(|call| async { call.try_send().await.map_or(0, |answer| answer.status) });
    let mut counts = BTreeMap::new();
    let mut answered = stream::iter(sent).buffer_unordered(at_once);
    while let Some(status) = answered.next().await {
        *counts.entry(status).or_default() += 1;
    }
    counts
}

/// Sends the same call one after the other until it is told to stop; gives how often, and the
/// longest time that one took.
fn watch(
    call: impl Fn() -> Call + Send + 'static,
    over: &Arc<AtomicBool>,
) -> JoinHandle<(usize, Duration)> {
    let over = Arc::clone(over);
    tokio::spawn(async move {
        let (mut sent, mut longest) = (0, Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            call().await.expect(200);
            longest = longest.max(asked.elapsed());
            sent += 1;
        }
        (sent, longest)
    })
}

/// Runs an attack beside somebody who does the same small thing again and again, and does not wait
/// for the attack's end: at most for a third of it, whatever the machine.
async fn beside<T>(
    name: &str,
    call: impl Fn() -> Call + Send + 'static,
    attack: impl Future<Output = T>,
) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let watching = watch(call, &over);
    let began = Instant::now();
    let given = attack.await;
    let took = began.elapsed();
    over.store(true, Ordering::Relaxed);
    let (sent, longest) = watching.await.unwrap();
    eprintln!("hostile: {name}: {sent} calls, the longest took {longest:?} of {took:?}");
    assert!(
        longest < took / 3,
        "{name}: it waited for {longest:?} of {took:?}"
    );
    given
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons_of_the_worst_texts_of_8_mib() {
    let server = patient();
    let c = server.account().await.test();
    let neighbour = Neighbour::of(&server).await;
    let at = versions(
        &c,
        &["", &"a\n".repeat(SHORT_LINES), &"b\n".repeat(SHORT_LINES)],
    )
    .await;
    let attack = async {
        for format in ["json", "html"] {
            c.get(&format!("{at}/diff?format={format}")).await.error(
                400,
                "invalid_request",
                "format",
            );
        }
        let stat = c.get(&format!("{at}/diff?format=stat")).await.expect(200);
        assert_eq!(
            stat.body,
            json!({"added": SHORT_LINES, "removed": SHORT_LINES})
        );
        let one = c
            .get(&format!("{at}/diff?format=json&from=1&to=1"))
            .await
            .expect(200);
        assert_eq!(one.body, json!({"hunks": []}));
    };
    let beside = neighbour
        .beside("comparisons of the worst texts", attack)
        .await;
    assert!(beside.peak_bytes < PEAK_MAX, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_comparisons_of_8_mib_at_once() {
    let server = patient();
    let c = server.account().await.test();
    let neighbour = Neighbour::of(&server).await;
    let line = |n: usize, word: &str| format!("line {n:08} {word}\n");
    let text = |word: &str| -> String {
        (0..340_000)
            .map(|n| line(n, if n % 50 == 1 { word } else { "as is" }))
            .collect()
    };
    let at = versions(&c, &[&text("once"), &text("now")]).await;
    let calls = (0..40).map(|n| c.get(&format!("{at}/diff?format={}", ["stat", "unified"][n % 2])));
    let beside = neighbour
        .beside("40 comparisons of 8 MiB", all_at_once(calls, 40))
        .await;
    assert!(
        beside
            .attack
            .keys()
            .all(|status| [200, 503].contains(status)),
        "{:?}",
        beside.attack
    );
    assert!(beside.attack.contains_key(&200), "none was answered");
    assert!(beside.peak_bytes < PEAK_MAX, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_leaves_half_a_million_conflicts() {
    let server = patient();
    let c = server.account().await.test();
    let neighbour = Neighbour::of(&server).await;
    let text = |word: &str| -> String {
        (0..500_000)
            .map(|n| format!("{word}\n{}\n", n % 7))
            .collect()
    };
    let at = c.document(&text("x")).await;
    let side = "s".repeat(100);
    c.branch(&at, &side, &text("y")).await;
    c.write(&at, &text("z")).await;
    let attack = async {
        let body = json!({"source": side, "style": "diff3"});
        c.post(&format!("{at}/merge"), body)
            .await
            .error(409, "conflict", "source");
        c.post(
            &format!("{at}/merge"),
            json!({"source": side, "strategy": "ours"}),
        )
        .await
        .expect(201);
    };
    let beside = neighbour
        .beside("a merge with 500,000 conflicts", attack)
        .await;
    assert!(beside.peak_bytes < PEAK_MAX, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_that_follow_a_head_that_changes_in_a_hundred_thousand_places() {
    const COMMENTS: u64 = 2_000;
    const HUNKS: u64 = 100_000;
    let mut server = patient();
    let c = server.account().await.test();
    let neighbour = Neighbour::of(&server).await;
    let kept: String = (0..COMMENTS).map(|n| format!("kept {n}\n")).collect();
    let text = |word: &str| {
        (0..HUNKS)
            .map(|n| format!("{word}\n{n}\n"))
            .collect::<String>()
            + &kept
    };
    let (few, many) = (c.document(&kept).await, c.document(&kept).await);
    let comment = |at: &str, n: u64| {
        c.post(
            &format!("{at}/comments"),
            json!({"start_line": n + 1, "body": format!("on {n}")}),
        )
    };
    comment(&few, 0).await.expect(201);
    let made = all_at_once((0..COMMENTS).map(|n| comment(&many, n)), 8).await;
    assert_eq!(made, BTreeMap::from([(201, COMMENTS as usize)]));
    let attack = async {
        let mut took = [Duration::ZERO; 2];
        for (top, word) in [("", "a"), ("", "b"), ("top\n", "c"), ("top\n", "d")] {
            for (at, took) in [&few, &many].into_iter().zip(&mut took) {
                let asked = Instant::now();
                c.write(at, &(top.to_owned() + &text(word))).await;
                *took += asked.elapsed();
            }
        }
        took
    };
    let [one, all] = neighbour
        .beside("2,000 comments follow 100,000 hunks", attack)
        .await
        .attack;
    eprintln!("hostile: new heads with one comment {one:?}, with {COMMENTS} {all:?}");
    assert!(
        all < 2 * one + Duration::from_millis(500),
        "{all:?} in place of {one:?}"
    );
    let list = format!("{many}/comments?limit=100&order=asc");
    let (shown, head) = (c.get(&list).await.expect(200).body, c.head(&many).await);
    for one in shown["data"].as_array().unwrap() {
        let on: u64 = one["body"].as_str().unwrap()[3..].parse().unwrap();
        let expected = (json!(2 * HUNKS + 2 + on), json!(head), json!(false));
        assert_eq!(
            (&one["start_line"], &one["version"], &one["outdated"]),
            (&expected.0, &expected.1, &expected.2)
        );
    }
    server.restart();
    assert_eq!(
        c.at(&server.address()).get(&list).await.expect(200).body,
        shown,
        "they stand where they stood"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons_that_take_long_over_few_bytes() {
    let server = patient();
    let (c, other) = (server.account().await.test(), server.account().await.test());
    let at = versions(&c, &[&hard(SLOW, 1), &hard(SLOW, 2)]).await;
    let small = versions(&other, &["one\n", "two\n"]).await;
    let neighbour = Neighbour::of(&server).await;
    let attack = neighbour.beside(
        "12 hard comparisons of 60 KB",
        all_at_once(
            (0..12).map(|_| c.get(&format!("{at}/diff?format=stat"))),
            12,
        ),
    );
    let compared = move || other.get(&format!("{small}/diff"));
    let done = beside("a comparison beside hard ones", compared, attack).await;
    assert!(
        done.attack.keys().all(|status| [200, 503].contains(status)),
        "{:?}",
        done.attack
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_heads_that_take_long_to_compare_for_their_comments() {
    let server = patient();
    let c = server.account().await.test();
    let mut commented = Vec::new();
    for _ in 0..8 {
        let at = c.document(&hard(SLOW, 1)).await;
        c.post(
            &format!("{at}/comments"),
            json!({"start_line": 1, "body": "Why?"}),
        )
        .await
        .expect(201);
        commented.push(at);
    }
    let long = c.document(&"some words in a line\n".repeat(5_000)).await;
    let neighbour = Neighbour::of(&server).await;
    let writes = (0..16).map(|n| {
        c.put(
            &commented[n % 8],
            json!({"content": hard(SLOW, 2 + n as u64 / 8)}),
        )
    });
    let attack = neighbour.beside("16 hard heads under comments", all_at_once(writes, 16));
    // Of the same account: what only reads does not stand behind what compares.
    let reader = c.clone();
    let read = move || reader.get(&long);
    let done = beside(
        "a document of 100 KB is read beside hard heads",
        read,
        attack,
    )
    .await;
    assert!(
        done.attack.keys().all(|status| [200, 503].contains(status)),
        "{:?}",
        done.attack
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_that_nobody_waits_for_any_more_makes_room() {
    // As if nothing bounded it: its account's only turn among the large ones would be taken for
    // minutes.
    let server = patient_setup()
        .env("COLLOQUY__BOUNDS__COMPARISON_STEPS_MAX", "1000000000000000")
        .start();
    let c = server.account().await.test();
    let at = versions(&c, &[&hard(SLOWEST, 1), &hard(SLOWEST, 2)]).await;
    let easy = versions(&c, &["one\n", &"some words in a line\n".repeat(60_000)]).await;
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        for _ in 0..5 {
            let asked = c.get(&format!("{at}/diff?format=stat")).try_send();
            let left = tokio::time::timeout(Duration::from_millis(1_500), asked).await;
            assert!(
                left.is_err(),
                "the comparison was over before its caller left"
            );
        }
        c.get(&format!("{easy}/diff?format=stat")).await.expect(200)
    };
    let stat = neighbour
        .beside("comparisons whose callers have left", attack)
        .await
        .attack;
    assert_eq!(stat.body, json!({"added": 60_000, "removed": 1}));
}

#[tokio::test]
async fn a_comparison_settles_once_its_steps_are_spent() {
    let mut added = Vec::new();
    for steps in ["1000", "1000000000"] {
        let server = patient_setup()
            .env("COLLOQUY__BOUNDS__COMPARISON_STEPS_MAX", steps)
            .start();
        let c = server.account().await.test();
        let at = versions(&c, &[&hard(3_000, 1), &hard(3_000, 2)]).await;
        let stat = c.get(&format!("{at}/diff?format=stat")).await.expect(200);
        assert_eq!(stat["added"], stat["removed"], "both have 3,000 lines");
        added.push(stat["added"].as_u64().unwrap());
    }
    assert!(added[0] > added[1] && added[0] < 2 * added[1], "{added:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_of_8_mib_one_behind_the_other() {
    let server = patient();
    let (c, other) = (server.account().await.test(), server.account().await.test());
    let text = |n: usize, word: &str| -> String {
        (0..n)
            .map(|n| format!("line {n:08} {}\n", if n % 50 == 1 { word } else { "as is" }))
            .collect()
    };
    let forked = async |c: &Client, lines: usize| {
        let at = c.document(&text(lines, "once")).await;
        c.branch(&at, "side", &text(lines, "at the side")).await;
        c.write(&at, &text(lines, "on the head")).await;
        at
    };
    // Over 1 MiB: beyond that, large texts take turns.
    let (large, middle) = (forked(&c, 300_000).await, forked(&other, 60_000).await);
    let merge = |c: &Client, at: &str| {
        c.post(
            &format!("{at}/merge"),
            json!({"source": "side", "strategy": "ours", "dry_run": true}),
        )
    };
    let neighbour = Neighbour::of(&server).await;
    let attack = neighbour.beside(
        "16 merges of 8 MiB",
        all_at_once((0..16).map(|_| merge(&c, &large)), 16),
    );
    let same = move || merge(&other, &middle);
    let over = Arc::new(AtomicBool::new(false));
    let watching = watch(same, &over);
    let began = Instant::now();
    let done = attack.await;
    over.store(true, Ordering::Relaxed);
    let ((sent, longest), took) = (watching.await.unwrap(), began.elapsed());
    eprintln!(
        "hostile: {sent} merges of another account, the longest took {longest:?} of {took:?}"
    );
    assert!(
        longest < took / 3,
        "another account's merge waited for {longest:?} of {took:?}"
    );
    assert!(done.peak_bytes < PEAK_MAX, "{} bytes", done.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_of_lines_that_were_merged_crosswise_again_and_again() {
    const ROUNDS: usize = 100;
    let server = patient();
    let c = server.account().await.test();
    let at = c.document("a\nb\nc\n").await;
    c.branch(&at, "side", "a\nb\nc\n").await;
    let merge = |body| c.post(&format!("{at}/merge"), body);
    for round in 0..ROUNDS {
        let head = c.write(&at, &format!("a{round}\nb\nc\n")).await;
        c.branch(&at, "side", &format!("a\nb\nc{round}\n")).await;
        merge(json!({"source": "side", "strategy": "ours"}))
            .await
            .expect(201);
        merge(json!({"source": head, "target": "side", "strategy": "ours"}))
            .await
            .expect(201);
    }
    c.write(&at, "zz\nb\nc\n").await;
    c.branch(&at, "side", "a\nb\nyy\n").await;
    let neighbour = Neighbour::of(&server).await;
    let tries =
        (0..200).map(|_| merge(json!({"source": "side", "strategy": "ours", "dry_run": true})));
    let done = neighbour
        .beside("merges of crossed lines", all_at_once(tries, 24))
        .await;
    assert!(
        done.attack.keys().all(|status| [200, 503].contains(status)) && done.attack[&200] > 0,
        "{:?}",
        done.attack
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_document_does_not_wait_for_the_index_of_anothers() {
    let server = patient();
    // It has the machine to itself, and nobody writes but these two.
    let _turn = Neighbour::of(&server).await;
    let (account, other) = (server.account().await.test(), server.account().await.test());
    let unread = async || {
        let store = server.operator().get("/admin/v1/store").await.expect(200);
        store["index"]["lag"].as_u64().unwrap()
    };
    // More than a million words, of which few are alike: an index reads them for seconds.
    let words = json!({"title": "Words", "content": Dice::new(1).noise(7_000_000)});
    let large = json!({"title": "Large", "content": "word ".repeat(300_000)});
    account.post(DOCUMENTS, words).await.expect(201);
    let before = unread().await;
    other.post(DOCUMENTS, large).await.expect(201);
    let behind = unread().await;
    assert!(
        before > 0 && behind > before,
        "the words were read first: {before}, then {behind}"
    );
}
