//! The search index is a file that can be lost: whatever becomes of it, the server starts, searches
//! answer rightly or say that they can't yet, and soon they answer again.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::support::clock::Clock;
use crate::support::documents::DOCUMENTS;
use crate::support::{Client, Server, Setup, until};

/// What the log says of it.
const ANEW: &str = "the search index is made anew";
const MANY: usize = 40;
const AGAIN_WITHIN: Duration = Duration::from_secs(30);

fn index_of(server: &Server) -> PathBuf {
    server.work().join("data/colloquy.db.search")
}

async fn documents(c: &Client, word: &str, count: usize) {
    let body = |n: usize| {
        format!(
            "{word} number{n}end {}\n",
            format!("filler{n} ").repeat(200)
        )
    };
    join_all((0..count).map(|n| async move { c.document(&body(n)).await })).await;
}

/// How many a search finds, or none where it says that it can't yet.
async fn found(c: &Client, word: &str) -> Option<u64> {
    let answer = c.get(&format!("{DOCUMENTS}?q={word}&limit=1")).await;
    if answer.status == 503 {
        assert_eq!(
            answer.error(503, "unavailable", "").body["error"]["details"]["outcome"],
            "none"
        );
        return None;
    }
    Some(answer.expect(200).total())
}

/// The index answers again, and whatever it answered until then was right.
async fn answers_rightly(c: &Client, expected: &[(&str, u64)], when: &str) {
    for (word, count) in expected {
        until(
            &format!("a search answers: {when}"),
            AGAIN_WITHIN,
            async || {
                let found = found(c, word).await?;
                assert_eq!(found, *count, "{word}: {when}");
                Some(())
            },
        )
        .await;
    }
}

type Spoil = fn(&Path);

fn write_at(path: &Path, from: u64, bytes: usize) {
    let mut file = File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    assert!(from < length, "nothing to spoil: {length} bytes");
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![
        0x5a;
        bytes.min(usize::try_from(length - from).unwrap())
    ])
    .unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).unwrap();
    assert!(file.metadata().unwrap().len() > bytes);
    file.set_len(bytes).unwrap();
}

#[tokio::test]
async fn an_index_that_was_lost_while_the_server_stood_still_is_made_anew() {
    let spoils: [(&str, Spoil); 9] = [
        ("it is gone", |path| fs::remove_file(path).unwrap()),
        ("it is empty", |path| cut(path, 0)),
        ("half of its header is left", |path| cut(path, 50)),
        ("its first page is left", |path| cut(path, 4_096)),
        ("its last page is missing", |path| {
            cut(path, fs::metadata(path).unwrap().len() - 4_096)
        }),
        ("all of it is garbage", |path| write_at(path, 0, usize::MAX)),
        ("all but its header is garbage", |path| {
            write_at(path, 100, usize::MAX)
        }),
        ("all but its first page is garbage", |path| {
            write_at(path, 4_096, usize::MAX)
        }),
        ("a log of garbage lies beside it", |path| {
            fs::write(path.with_extension("search-wal"), [0x5a; 70_000]).unwrap()
        }),
    ];
    let mut server = Server::start();
    let account = server.account().await;
    documents(&account.test(), "numbat", MANY).await;
    let key = account.test_key().to_owned();
    for (made, (when, spoil)) in spoils.into_iter().enumerate() {
        answers_rightly(
            &server.with_key(&key),
            &[("numbat", (MANY + made) as u64)],
            "before",
        )
        .await;
        assert!(server.term().success());
        spoil(&index_of(&server));
        server.restart();
        let c = server.with_key(&key);
        c.document("numbat afterwards\n").await;
        answers_rightly(
            &c,
            &[("numbat", (MANY + made + 1) as u64), ("number7end", 1)],
            when,
        )
        .await;
    }
    // A file that is gone or empty is as good as a new one, and a log that is none harms nothing.
    assert_eq!(server.log().matches(ANEW).count(), 6, "{}", server.log());
}

#[tokio::test]
async fn an_index_that_is_lost_while_the_server_runs_is_made_anew() {
    let spoils: [(&str, Spoil); 4] = [
        ("it is gone", |path| fs::remove_file(path).unwrap()),
        ("it is empty", |path| cut(path, 0)),
        ("its first page is left", |path| cut(path, 4_096)),
        ("all but its first page is garbage", |path| {
            write_at(path, 4_096, usize::MAX)
        }),
    ];
    for (when, spoil) in spoils {
        let mut server = Server::start();
        // It says so, once.
        server.expect_errors();
        let account = server.account().await;
        documents(&account.test(), "numbat", MANY).await;
        let key = account.test_key().to_owned();
        answers_rightly(&account.test(), &[("numbat", MANY as u64)], "before").await;
        // What is in the log comes into the file.
        assert!(server.term().success());
        server.restart();
        let c = server.with_key(&key);
        spoil(&index_of(&server));
        documents(&c, "numbat", 5).await;
        answers_rightly(&c, &[("numbat", MANY as u64 + 5), ("number7end", 1)], when).await;
        assert!(server.term().success(), "{when}");
        server.restart();
        answers_rightly(&server.with_key(&key), &[("numbat", MANY as u64 + 5)], when).await;
        // A file without a name goes on until the end, and then there is none.
        assert_eq!(server.log().contains(ANEW), when != "it is gone", "{when}");
    }
}

#[tokio::test]
async fn an_index_that_lags_behind_retention_learns_of_every_document() {
    let (mut server, clock) =
        Clock::start_as(Setup::default().env("COLLOQUY__EVENTS__RETENTION_DAYS", "0.00002"));
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let changed = c.document("numbat before\n").await;
    let erased = c.document("numbat before\n").await;
    let trimmed = c.conversation().await;
    answers_rightly(&c, &[("numbat", 2)], "before").await;
    assert!(server.term().success());
    let older = fs::read(index_of(&server)).unwrap();
    server.restart();
    let c = server.with_key(&key);
    c.write(&changed, "wombat\n").await;
    c.delete(&format!("{erased}?permanent=true"))
        .await
        .expect(204);
    c.document("wombat\n").await;
    c.patch(
        &format!("/v1/conversations/{trimmed}"),
        json!({"priority": "high"}),
    )
    .await
    .expect(200);
    answers_rightly(&c, &[("numbat", 0), ("wombat", 2)], "the index keeps up").await;
    // Events are lists no more at once; what their rows hold goes when no answer under a key needs
    // it, a day later.
    clock.ahead(25 * 60);
    until("retention takes the events", AGAIN_WITHIN, async || {
        (c.get("/v1/events?after=0").await.expect(200).total() == 0).then_some(())
    })
    .await;
    assert!(server.term().success());
    fs::write(index_of(&server), older).unwrap();
    server.restart();
    answers_rightly(
        &server.with_key(&key),
        &[("numbat", 0), ("wombat", 2)],
        "an older index",
    )
    .await;
    assert!(!server.log().contains(ANEW), "the older index is used");
}
