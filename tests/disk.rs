//! A full disk: nothing is acknowledged that is not stored, the answer is 503, and it goes on when
//! there is room.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::documents::DOCUMENTS;
use crate::support::server::Folder;
use crate::support::{Client, Dice, Setup, SmallDisk, until};

/// MiB for an empty store and its WAL, and little more.
const DISK: u32 = 24;

async fn send(c: &Client, list: &str, n: usize) -> (u16, serde_json::Value, String) {
    let content = format!("{n} {}", "m".repeat(20_000));
    let answer = c.post(list, json!({"content": content})).await;
    if answer.status == 201 {
        (201, answer.body, content)
    } else {
        (503, answer.error(503, "unavailable", "").body, content)
    }
}

async fn assert_stored(c: &Client, list: &str, acknowledged: &[String]) {
    let (mut stored, mut path) = (Vec::new(), Some(format!("{list}?limit=100&after_seq=0")));
    while let Some(next) = path {
        let page = c.get(&next).await.expect(200);
        for message in page.data() {
            assert_eq!(message["seq"], stored.len() + 1, "a gap or a repeat");
            stored.push(message["content"].as_str().unwrap().to_owned());
        }
        path = page.link("next");
    }
    assert_eq!(
        stored.len(),
        acknowledged.len(),
        "refused with outcome none, so not stored"
    );
    assert!(stored == acknowledged);
}

#[tokio::test]
async fn a_full_disk_is_503_and_loses_nothing_and_it_goes_on_when_there_is_room() {
    let folder = Folder::new();
    let disk = SmallDisk::mount(&folder.work().join("data"), DISK);
    let mut server = Setup::default().start_in(folder);
    server.expect_errors();
    let account = server.account().await;
    let (secret, c) = (account.test_key().to_owned(), account.test());
    let conversation = format!("/v1/conversations/{}", c.conversation().await);
    let list = format!("{conversation}/messages");
    let mut acknowledged = vec![send(&c, &list, 0).await.2];
    for round in 1..=3 {
        let filler = disk.fill();
        let mut n = 0;
        let refused = until("the disk is full", Duration::from_secs(30), async || {
            n += 1;
            let (status, body, content) = send(&c, &list, round * 10_000 + n).await;
            if status == 201 {
                acknowledged.push(content);
                return None;
            }
            Some(body)
        });
        assert_eq!(refused.await["error"]["details"]["outcome"], "none");
        c.get(&conversation).await.expect(200);
        fs::remove_file(filler).unwrap();
        let again = until("it goes on", Duration::from_secs(30), async || {
            let (status, _, content) = send(&c, &list, round * 10_000).await;
            (status == 201).then_some(content)
        });
        acknowledged.push(again.await);
        assert_stored(&c, &list, &acknowledged).await;
    }
    server.restart();
    assert_stored(&server.with_key(&secret), &list, &acknowledged).await;
    server.kill9();
    drop(disk);
}

/// A document on a small disk, and what was acknowledged of it.
struct Written {
    c: Client,
    at: String,
    dice: Dice,
    contents: Vec<String>,
    /// How often each was acknowledged beside versions: documents, comments, links.
    beside: [u64; 3],
    keys: u64,
}

impl Written {
    async fn begin(c: Client) -> Self {
        let at = c.document("begun").await;
        Self {
            c,
            at,
            dice: Dice::new(7),
            contents: vec!["begun".to_owned()],
            beside: [1, 0, 0],
            keys: 0,
        }
    }

    /// A change under this key: done, or refused with the documented 503 that nothing was done.
    async fn change(&self, method: &str, path: &str, body: &Value, key: u64) -> bool {
        let call = self
            .c
            .call(method, path)
            .bytes(body.to_string())
            .with("content-type", "application/json");
        let answer = call.with("idempotency-key", &format!("k{key}")).await;
        if answer.status < 300 {
            return true;
        }
        assert_eq!(
            answer.error(503, "unavailable", "").body["error"]["details"]["outcome"],
            "none"
        );
        false
    }

    /// One of everything that is large; how many were refused.
    async fn one_of_each(&mut self) -> usize {
        self.keys += 10;
        let mut refused = 0;
        for (n, (method, below)) in [("PUT", ""), ("POST", "/versions"), ("PUT", "")]
            .into_iter()
            .enumerate()
        {
            let content = self.dice.noise(100_000);
            let path = format!("{}{below}", self.at);
            if self
                .change(
                    method,
                    &path,
                    &json!({"content": content}),
                    self.keys + n as u64,
                )
                .await
            {
                self.contents.push(content);
            } else {
                refused += 1;
            }
        }
        let words = self.dice.noise(60_000);
        let cases = [
            (
                DOCUMENTS.to_owned(),
                json!({"title": "More", "content": words}),
            ),
            (
                format!("{}/comments", self.at),
                json!({"start_line": 1, "body": words}),
            ),
            (format!("{}/share", self.at), json!({})),
        ];
        for (n, (path, body)) in cases.into_iter().enumerate() {
            let key = self.keys + 5 + n as u64;
            let done = self.change("POST", &path, &body, key).await;
            self.beside[n] += u64::from(done);
            refused += usize::from(!done);
        }
        refused
    }

    /// What was acknowledged is there, and nothing else.
    async fn assert_kept(&self) {
        let (c, at) = (&self.c, &self.at);
        let versions = c.get(&format!("{at}/versions?limit=1")).await.expect(200);
        assert_eq!(versions.total(), self.contents.len() as u64);
        for (n, content) in self.contents.iter().enumerate() {
            let read = c.get(&format!("{at}/versions/{}", n + 1)).await.expect(200);
            assert!(read["content"] == content.as_str(), "version {}", n + 1);
        }
        let mut found = Vec::new();
        for list in [
            DOCUMENTS.to_owned(),
            format!("{at}/comments"),
            format!("{at}/share"),
        ] {
            found.push(c.get(&format!("{list}?limit=1")).await.expect(200).total());
        }
        assert_eq!(found, self.beside);
        let changes = self.contents.len() as u64 + self.beside[1] + self.beside[2];
        assert_eq!(
            c.get(&format!("{at}/activity?limit=1"))
                .await
                .expect(200)
                .total(),
            changes
        );
        let events = c
            .get("/v1/events?after=0&limit=1")
            .await
            .expect(200)
            .total();
        assert_eq!(events, changes + self.beside[0] - 1);
    }
}

#[tokio::test]
async fn on_a_full_disk_a_document_is_written_whole_or_not_at_all() {
    let folder = Folder::new();
    let disk = SmallDisk::mount(&folder.work().join("data"), DISK);
    let mut server = Setup::default().start_in(folder);
    server.expect_errors();
    let account = server.account().await;
    let secret = account.test_key().to_owned();
    let mut written = Written::begin(account.test()).await;
    for _ in 0..2 {
        let filler = disk.fill();
        until("the disk is full", Duration::from_secs(30), async || {
            (written.one_of_each().await >= 5).then_some(())
        })
        .await;
        written.c.get(&written.at).await.expect(200);
        fs::remove_file(filler).unwrap();
        until("it goes on", Duration::from_secs(30), async || {
            (written.one_of_each().await == 0).then_some(())
        })
        .await;
        written.assert_kept().await;
    }
    // The index is on the same disk: it has what was acknowledged, too.
    until(
        "every title is found",
        Duration::from_secs(30),
        async || {
            let found = written.c.get(&format!("{DOCUMENTS}?q=more")).await;
            (found.status == 200).then(|| assert_eq!(found.total(), written.beside[0] - 1))
        },
    )
    .await;
    server.restart();
    written.c = server.with_key(&secret);
    written.assert_kept().await;
    server.kill9();
    drop(disk);
}
