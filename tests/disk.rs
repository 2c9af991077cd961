//! A full disk: nothing is acknowledged that is not stored, the answer is 503, and it goes on when there is room.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::server::Folder;
use crate::support::{Client, Setup, until};

/// Room for an empty store and its WAL, and little more.
const DISK: &str = "size=24m";

/// A small disk of its own, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(at).status().unwrap();
        assert!(mounted.success(), "this test needs the right to mount a tmpfs (root)");
        Self(at.to_owned())
    }

    /// Fills what is left, to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        for size in [65_536, 4096, 512, 1] {
            let part = vec![b'x'; size];
            while file.write_all(&part).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: when a test fails, the server may still hold its files for a moment.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

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
    assert_eq!(stored.len(), acknowledged.len(), "refused with outcome none, so not stored");
    assert!(stored == acknowledged);
}

#[tokio::test]
async fn a_full_disk_is_503_and_loses_nothing_and_it_goes_on_when_there_is_room() {
    let folder = Folder::new();
    let disk = SmallDisk::mount(&folder.work().join("data"));
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
