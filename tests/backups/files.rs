//! Files of messages in backups: each backup has them all, and gives them back.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{
    GIVEN, MASTER_KEY, SOON, backed_up, folder_of, made, refused, restored, restored_soundly,
};
use crate::support::attachments::{content_of, uploaded};
use crate::support::files::{below, files_with};
use crate::support::server::{Folder, Server};
use crate::support::{Client, unique, until};

/// Sends a message with a file of this content; gives the message's path and the file's identifier.
async fn sent(c: &Client, conversation: &str, content: &[u8]) -> (String, String) {
    let attachment = uploaded(c, content).await;
    let message = json!({"type": "file", "attachment_id": attachment});
    let at = format!("/v1/conversations/{conversation}/messages");
    let sent = c.post(&at, message).await.expect(201);
    (sent.header("location").to_owned(), attachment)
}

fn file_of(server: &Server, attachment: &str) -> PathBuf {
    let files = below(&server.work().join("data/objects"));
    let mut files = files.into_iter();
    files.find(|file| file.ends_with(attachment)).unwrap()
}

#[tokio::test]
async fn a_backup_has_the_files_of_messages_and_none_that_was_redacted_before() {
    let mut server = backed_up().start();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let conversation = c.conversation().await;
    let large: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|at| at.wrapping_mul(at).to_be_bytes())
        .collect();
    let contents = [large.as_slice(), b"small"];
    let mut kept = Vec::new();
    for content in contents {
        kept.push((sent(&c, &conversation, content).await.1, content));
    }
    // One that no message has taken yet is the sender's, too.
    kept.push((uploaded(&c, "waiting").await, b"waiting"));
    let secret = unique("redacted");
    let (message, _) = sent(&c, &conversation, secret.as_bytes()).await;
    c.delete(&message).await.expect(204);
    let made = made(&operator).await;
    assert_eq!(made["attachments"], 3, "{made}");
    assert_eq!(made["verified"], true, "{made}");
    let url = made["url"].as_str().unwrap();
    let on_disk = below(&folder_of(url))
        .iter()
        .filter(|file| !file.ends_with("manifest.json"))
        .map(|file| fs::metadata(file).unwrap().len())
        .sum::<u64>();
    let key = fs::metadata(folder_of(url).join("colloquy.db.key"))
        .unwrap()
        .len();
    assert_eq!(made["bytes"].as_u64().unwrap(), on_disk - key);
    // What comes later is not in it, and nothing of it is orphaned by that.
    uploaded(&c, "later").await;
    server.term();
    let folder = restored_soundly(url, &[]);
    assert_eq!(files_with(&folder.work(), &secret), [] as [PathBuf; 0]);
    let mut again = backed_up().known().start_in(folder);
    let c = again.with_key(account.test_key());
    for (attachment, content) in &kept {
        let read = c.get(&content_of(attachment)).await.expect(200);
        assert_eq!(read.bytes, *content);
    }
    again.term();
    again.assert_sound();
}

#[tokio::test]
async fn files_of_encrypted_texts_are_sealed_in_a_backup_as_they_are_in_the_store() {
    let setup = backed_up()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env(MASTER_KEY, GIVEN);
    let mut server = setup.clone().start();
    let account = server.account().await;
    let c = account.test();
    let (_, attachment) = sent(&c, &c.conversation().await, b"secret words").await;
    let made = made(&server.operator()).await;
    let url = made["url"].as_str().unwrap();
    // Neither what it says nor what makes a tar file recognizable.
    for plain in ["secret words", "ustar", &attachment] {
        assert_eq!(
            files_with(&folder_of(url), plain),
            [] as [PathBuf; 0],
            "{plain}"
        );
    }
    server.term();
    let folder = restored_soundly(url, &[(MASTER_KEY, GIVEN)]);
    let again = setup.known().start_in(folder);
    let c = again.with_key(account.test_key());
    let read = c.get(&content_of(&attachment)).await.expect(200);
    assert_eq!(read.bytes, b"secret words");
}

#[tokio::test]
async fn a_file_that_is_lost_keeps_nothing_else_from_a_backup_and_is_told() {
    let mut server = backed_up().start();
    let account = server.account().await;
    let c = account.test();
    let conversation = c.conversation().await;
    let (_, lost) = sent(&c, &conversation, b"lost").await;
    let (_, there) = sent(&c, &conversation, b"there").await;
    server.expect_errors();
    fs::remove_file(file_of(&server, &lost)).unwrap();
    let made = made(&server.operator()).await;
    assert_eq!(
        (&made["attachments"], &made["verified"]),
        (&json!(1), &json!(true)),
        "{made}"
    );
    let log = server.log();
    let told = log.lines().filter(|line| line.contains("is in no backup"));
    assert!(
        told.clone().count() == 1 && told.clone().all(|line| line.contains(&lost)),
        "{log}"
    );
    server.term();
    let folder = Folder::new();
    let output = restored(
        made["url"].as_str().unwrap(),
        &folder.work().join("data"),
        &[],
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("attachments have their bytes") && said.contains(&lost),
        "{said}"
    );
    assert!(!said.contains(&there), "{said}");
}

#[tokio::test]
async fn files_that_are_redacted_while_a_backup_is_made_are_erased_of_it_too() {
    let mut server = backed_up().start();
    let account = server.account().await;
    let (c, operator) = (account.test(), server.operator());
    // They are copied first, which takes a while.
    let other = c.conversation().await;
    for _ in 0..3 {
        sent(&c, &other, &vec![0; 20_000_000]).await;
    }
    // Until some are erased between the copy of the store and that of their files.
    let mut rounds = 0..20;
    let (mut again, lost) = loop {
        rounds.next().expect("some are redacted in time");
        let conversation = c.conversation().await;
        let mut sent_now = Vec::new();
        for _ in 0..40 {
            sent_now.push(sent(&c, &conversation, b"soon redacted").await);
        }
        let redacted = async {
            for (message, _) in &sent_now {
                c.delete(message).await.expect(204);
            }
        };
        let (made, ()) = tokio::join!(made(&operator), redacted);
        let folder = restored_soundly(made["url"].as_str().unwrap(), &[]);
        let again = backed_up().known().start_in(folder);
        let copy = again.with_key(account.test_key());
        let at = format!("/v1/conversations/{conversation}/messages?limit=100");
        let messages = copy.get(&at).await.expect(200);
        let unredacted = messages
            .data()
            .iter()
            .filter(|one| one["redacted"] == false);
        let known: Vec<String> = unredacted
            .map(|one| {
                one["attachment"]["attachment_id"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        if made["attachments"].as_u64().unwrap() < 3 + known.len() as u64 {
            break (again, known);
        }
    };
    server.term();
    let copy = again.with_key(account.test_key());
    let kept = below(&again.work().join("data/objects"));
    for attachment in &lost {
        let is_kept = kept.iter().any(|file| file.ends_with(attachment));
        let status = if is_kept { 200 } else { 404 };
        until("what has no bytes is not there", SOON, async || {
            // From the start on, whatever is shown of it.
            let read = copy.get(&content_of(attachment)).await;
            assert_eq!(read.status, status, "{attachment}");
            let shown = copy.get(&format!("/v1/attachments/{attachment}")).await;
            (shown.status == status).then_some(())
        })
        .await;
    }
    again.term();
    again.assert_sound();
}

#[tokio::test]
async fn where_files_do_not_go_along_whoever_restores_is_told() {
    let setup = backed_up().env("COLLOQUY__BACKUP__ATTACHMENTS", "false");
    let mut server = setup.start();
    let account = server.account().await;
    let c = account.test();
    sent(&c, &c.conversation().await, b"kept elsewhere").await;
    let made = made(&server.operator()).await;
    assert_eq!(made["attachments"], json!(null), "{made}");
    let url = made["url"].as_str().unwrap();
    assert!(
        below(&folder_of(url))
            .iter()
            .all(|file| !file.to_str().unwrap().contains("attachments"))
    );
    server.term();
    let folder = Folder::new();
    let output = restored(url, &folder.work().join("data"), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("Files of messages are not in this backup"),
        "{said}"
    );
    assert!(!folder.work().join("data/objects").exists());
}

#[tokio::test]
async fn files_that_are_damaged_in_a_backup_are_told_and_nothing_is_restored() {
    let mut server = backed_up().start();
    let account = server.account().await;
    let c = account.test();
    sent(&c, &c.conversation().await, b"whole").await;
    let made = made(&server.operator()).await;
    server.term();
    let url = made["url"].as_str().unwrap();
    let file = folder_of(url).join("attachments-0001.tar.zst");
    let whole = fs::read(&file).unwrap();
    let to = Folder::new();
    fs::write(&file, &whole[1..]).unwrap();
    refused(
        &restored(url, &to.work(), &[]),
        "attachments-0001.tar.zst is damaged",
    );
    fs::remove_file(&file).unwrap();
    refused(
        &restored(url, &to.work(), &[]),
        "attachments-0001.tar.zst is missing",
    );
    assert_eq!(fs::read_dir(to.work()).unwrap().count(), 0);
}
