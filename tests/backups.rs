//! Backups of the embedded store while it serves: what they hold, how they are restored, and what
//! becomes of those that are not made to their end.

mod files;
mod restoring;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::console::Person;
use crate::support::files::{below, files_with};
use crate::support::server::{Folder, Server, Setup};
use crate::support::stored::execute;
use crate::support::{Answer, Client, process, unique, until};

const SOON: Duration = Duration::from_secs(60);
const MASTER_KEY: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
/// 32 bytes in base64.
const GIVEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A server on a file, with backups beside it that are made when they are asked for.
fn backed_up() -> Setup {
    Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__BACKUP__URL", "file:backups")
        .env("COLLOQUY__BACKUP__EVERY_HOURS", "0")
}

pub(crate) async fn begun(operator: &Client) -> Answer {
    let begun = operator.post("/admin/v1/backups", json!({})).await;
    begun.expect(202)
}

/// A backup when it has ended.
pub(crate) async fn ended(operator: &Client, backup: &Value) -> Answer {
    let at = format!("/admin/v1/backups/{}", backup.as_str().unwrap());
    until("the backup has ended", SOON, async || {
        let shown = operator.get(&at).await.expect(200);
        (shown["state"] != "running").then_some(shown)
    })
    .await
}

/// One that was made.
async fn made(operator: &Client) -> Answer {
    let begun = begun(operator).await;
    let made = ended(operator, &begun["backup_id"]).await;
    assert_eq!(made["state"], "finished", "{made}");
    made
}

fn restored(url: &str, to: &Path, settings: &[(&str, &str)]) -> Output {
    let mut command = process::colloquy();
    command
        .args(["restore", url, "--to"])
        .arg(to)
        .envs(settings.iter().copied());
    command.output().unwrap()
}

/// Restores into a folder of its own, and says where.
fn restored_soundly(url: &str, settings: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    let output = restored(url, &folder.work().join("data"), settings);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("The store is sound."), "{said}");
    assert!(said.contains("data/colloquy.db"), "{said}");
    folder
}

/// It ends, and says why in one line.
fn refused(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(words), "{words}: {said}");
}

/// The folder of a backup that is kept in one.
fn folder_of(url: &str) -> PathBuf {
    PathBuf::from(url.strip_prefix("file:").unwrap())
}

/// Copies a folder of files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in below(from) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Sends messages until it is told to stop; gives those that were acknowledged, in order.
async fn sending(
    c: Client,
    conversation: String,
    stop: tokio::sync::watch::Receiver<bool>,
) -> Vec<String> {
    let at = format!("/v1/conversations/{conversation}/messages");
    let mut sent = Vec::new();
    while !*stop.borrow() {
        let message =
            json!({"content": format!("message {}", sent.len()), "sender_type": "customer"});
        let answer = c.post(&at, message).await.expect(201);
        sent.push(answer["message_id"].as_str().unwrap().to_owned());
    }
    sent
}

/// Conversations into which somebody writes without an end.
struct Load {
    conversations: Vec<String>,
    writers: Vec<tokio::task::JoinHandle<Vec<String>>>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Load {
    async fn begin(c: &Client) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let (mut conversations, mut writers) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let conversation = c.conversation().await;
            let writing = sending(c.clone(), conversation.clone(), stopped.clone());
            writers.push(tokio::spawn(writing));
            conversations.push(conversation);
        }
        Self {
            conversations,
            writers,
            stop,
        }
    }

    /// Ends it; gives each conversation with what was acknowledged in it.
    async fn end(self) -> Vec<(String, Vec<String>)> {
        self.stop.send(true).unwrap();
        let mut sent = Vec::new();
        for (conversation, writer) in self.conversations.into_iter().zip(self.writers) {
            sent.push((conversation, writer.await.unwrap()));
        }
        sent
    }
}

async fn messages_in(c: &Client, conversation: &str) -> u64 {
    let shown = c.get(&format!("/v1/conversations/{conversation}")).await;
    shown.expect(200)["message_count"].as_u64().unwrap()
}

/// Makes one, and looks at it from its beginning to its end.
async fn watched(operator: &Client) -> Answer {
    let begun = begun(operator).await;
    for (field, value) in [
        ("state", json!("running")),
        ("finished_at", json!(null)),
        ("bytes", json!(null)),
        ("verified", json!(false)),
    ] {
        assert_eq!(begun[field], value, "{begun}");
    }
    let made = ended(operator, &begun["backup_id"]).await;
    assert_eq!(made["state"], "finished", "{made}");
    assert_eq!(made["verified"], true, "{made}");
    assert!(made["bytes"].as_u64().unwrap() > 1_000, "{made}");
    assert!(made["position"].as_u64().unwrap() > 80, "{made}");
    let all = operator.get("/admin/v1/backups").await.expect(200);
    assert_eq!(*all.data(), std::slice::from_ref(&made.body));
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_backup_began_is_in_it_whole_while_others_write() {
    let mut server = backed_up().start();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let document = c.document("kept\n").await;
    let receiver = json!({"url": "https://example.com/hook"});
    c.post("/v1/webhooks", receiver).await.expect(201);
    let redacted = unique("redacted");
    let message = c.message(&c.conversation().await, &redacted).await;
    c.delete(message.header("location")).await.expect(204);
    let load = Load::begin(&c).await;
    let mut before = Vec::new();
    for conversation in &load.conversations {
        let many = until("some are sent", SOON, async || {
            let count = messages_in(&c, conversation).await;
            (count >= 20).then_some(count)
        });
        before.push(many.await);
    }
    let made = watched(&operator).await;
    let sent = load.end().await;
    server.kill9();
    server.assert_sound();
    let url = made["url"].as_str().unwrap();
    let mut again = backed_up().known().start_in(restored_soundly(url, &[]));
    let c = again.with_key(account.test_key());
    c.get(&document).await.expect(200);
    assert_eq!(c.get("/v1/webhooks").await.expect(200).data().len(), 1);
    for ((conversation, sent), before) in sent.iter().zip(before) {
        let many = messages_in(&c, conversation).await;
        assert!(many >= before, "{many} < {before}");
        // What it holds of a conversation is its beginning, without a gap.
        let at = format!("/v1/conversations/{conversation}/messages?limit=100");
        let page = c.get(&at).await.expect(200);
        assert!(page.data().len() >= 20);
        for (message, id) in page.data().iter().zip(sent) {
            assert_eq!(message["message_id"], json!(id));
        }
        c.message(conversation, "goes on").await;
    }
    assert_eq!(files_with(&again.work(), &redacted), [] as [PathBuf; 0]);
    again.term();
    again.assert_sound();
}

#[tokio::test]
async fn nobody_else_on_the_machine_reads_one_wherever_it_lies() {
    let mut server = backed_up().start();
    let backups = server.work().join("backups");
    // As an operator has made it.
    fs::set_permissions(&backups, fs::Permissions::from_mode(0o755)).unwrap();
    let made = made(&server.operator()).await;
    let folder = backups.join(made["backup_id"].as_str().unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files = ["manifest.json", "colloquy.db.zst", "colloquy.db.key"];
    assert_eq!(files.map(|file| mode(&folder.join(file))), [0o600; 3]);
    server.term();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_that_is_made_nobody_hears_meanwhile_that_it_failed() {
    let mut server = backed_up()
        .env("COLLOQUY__BACKUP__VERIFY", "false")
        .env("COLLOQUY__BACKUP__KEEP", "1")
        .start();
    let operator = server.operator();
    let ended_all = Arc::new(AtomicBool::new(false));
    let watching = (0..3).map(|_| {
        let (operator, ended_all) = (server.operator(), Arc::clone(&ended_all));
        tokio::spawn(async move {
            while !ended_all.load(Ordering::Relaxed) {
                let all = operator.get("/admin/v1/backups").await.expect(200);
                let failed = all.data().iter().find(|one| one["state"] == "failed");
                assert_eq!(failed, None);
            }
        })
    });
    let watching: Vec<_> = watching.collect();
    for _ in 0..30 {
        let begun = begun(&operator).await;
        assert_eq!(
            ended(&operator, &begun["backup_id"]).await["state"],
            "finished"
        );
    }
    ended_all.store(true, Ordering::Relaxed);
    for watching in watching {
        watching.await.unwrap();
    }
    server.term();
}

/// A backup can't know of what is erased later: it is told who is back, and when it was begun.
#[tokio::test]
async fn whoever_restores_a_backup_is_told_that_it_holds_people_who_were_erased_later() {
    let mut server = backed_up().start();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let (customer, kept) = (c.customer().await, c.customer().await);
    let conversation = c.conversation_of(&customer).await;
    let made = made(&operator).await;
    let at = format!("/v1/customers/{customer}");
    c.delete(&format!("{at}?erase=true")).await.expect(202);
    let audit = "/v1/audit?action=customer.erased";
    let later = c.get(audit).await.expect(200);
    let begun_at = made["started_at"].as_str().unwrap();
    assert_eq!(later.data()[0]["subject"]["id"], customer.as_str());
    assert!(later.data()[0]["at"].as_str().unwrap() > begun_at);
    server.term();
    let url = made["url"].as_str().unwrap();
    // What is beside the copies names nobody: it is not erased with them.
    let manifest = fs::read_to_string(folder_of(url).join("manifest.json")).unwrap();
    for of_theirs in [&*customer, &*conversation, "Ada"] {
        assert!(!manifest.contains(of_theirs), "{manifest}");
    }
    let folder = Folder::new();
    let output = restored(url, &folder.work().join("data"), &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    for words in [
        begun_at,
        "WHOEVER WAS ERASED LATER IS IN IT AGAIN",
        "customer.erased",
        "DELETE /v1/customers/{customer_id}?erase=true",
        "[store]",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // It is so, and what it says to do helps.
    let again = backed_up().known().start_in(folder);
    let c = again.with_key(account.test_key());
    c.get(&at).await.expect(200);
    c.delete(&format!("{at}?erase=true")).await.expect(202);
    c.get(&at).await.error(404, "not_found", "");
    let at = format!("/v1/conversations/{conversation}");
    c.get(&at).await.error(404, "not_found", "");
    c.get(&format!("/v1/customers/{kept}")).await.expect(200);
}

#[tokio::test]
async fn a_backup_of_encrypted_texts_is_sealed_under_the_master_key() {
    let setup = backed_up()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env(MASTER_KEY, GIVEN);
    let mut server = setup.clone().start();
    let (account, text) = (server.account().await, unique("secret words"));
    let c = account.test();
    let conversation = c.conversation().await;
    c.message(&conversation, &text).await;
    let made = made(&server.operator()).await;
    let url = made["url"].as_str().unwrap();
    let folder = folder_of(url);
    // Neither what was written nor what makes a file of SQLite recognizable.
    for plain in [text.as_str(), "SQLite format 3", "CREATE TABLE"] {
        assert_eq!(files_with(&folder, plain), [] as [PathBuf; 0], "{plain}");
    }
    server.term();
    let to = Folder::new();
    let to = to.work().join("data");
    refused(&restored(url, &to, &[]), "master_key_file");
    refused(
        &restored(url, &to, &[(MASTER_KEY, OTHER)]),
        "master_key_file",
    );
    let mut again = setup
        .known()
        .start_in(restored_soundly(url, &[(MASTER_KEY, GIVEN)]));
    let c = again.with_key(account.test_key());
    let found = c
        .get(&format!("/v1/conversations/{conversation}/messages"))
        .await;
    assert_eq!(found.expect(200).data()[0]["content"], json!(text));
    again.term();
}

#[tokio::test]
async fn backups_are_made_by_themselves_and_the_oldest_go() {
    let mut server = backed_up()
        .env("COLLOQUY__BACKUP__EVERY_HOURS", "0.0002")
        .env("COLLOQUY__BACKUP__KEEP", "2")
        .start();
    let operator = server.operator();
    let mut seen = BTreeSet::new();
    until("five are made", SOON, async || {
        let all = operator.get("/admin/v1/backups").await.expect(200);
        let whole = all.data().iter().filter(|one| one["state"] == "finished");
        let whole: Vec<String> = whole.map(|one| one["backup_id"].to_string()).collect();
        seen.extend(whole);
        (seen.len() >= 5).then_some(())
    })
    .await;
    server.term();
    // The folder has those that are kept, and at most one that the end of the server interrupted.
    let folders = fs::read_dir(server.work().join("backups")).unwrap().count();
    assert!((2..=3).contains(&folders), "{folders}");
    assert!(!server.work().join("data/colloquy.db.backup").exists());
    let mode = fs::metadata(server.work().join("backups"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    server.assert_sound();
}

/// All backups, the latest first, once there are so many and the latest has ended.
async fn ended_of(operator: &Client, count: usize) -> Answer {
    let what = format!("{count} backups have ended");
    until(&what, SOON, async || {
        let all = operator.get("/admin/v1/backups").await;
        let is_there =
            |all: &Answer| all.data().len() == count && all.data()[0]["state"] != "running";
        (all.status == 200 && is_there(&all)).then_some(all)
    })
    .await
}

fn states(all: &Answer) -> Vec<&Value> {
    all.data().iter().map(|one| &one["state"]).collect()
}

#[tokio::test]
async fn a_backup_that_is_not_sound_has_failed_and_the_last_whole_one_stays() {
    let setup = backed_up().env("COLLOQUY__BACKUP__KEEP", "1");
    let mut server = setup.start();
    server.account().await.test().conversation().await;
    let whole = made(&server.operator()).await;
    server.term();
    let file = server.work().join("data/colloquy.db");
    execute(
        &file,
        "UPDATE counters SET total = total + 1 WHERE total > 0",
        &[],
    );
    server.expect_errors();
    server.restart();
    let operator = server.operator();
    let failed = begun(&operator).await;
    let failed = ended(&operator, &failed["backup_id"]).await;
    assert_eq!(
        (&failed["state"], &failed["verified"]),
        (&json!("failed"), &json!(false))
    );
    let error = failed["error"].as_str().unwrap();
    assert!(
        error.contains("is not sound: counters of conversations"),
        "{error}"
    );
    let kept = operator.get("/admin/v1/backups").await.expect(200);
    assert_eq!(states(&kept), ["failed", "finished"]);
    let to = Folder::new();
    let output = restored(whole["url"].as_str().unwrap(), &to.work(), &[]);
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_backup_that_failed_is_made_again_within_15_minutes() {
    let daily = backed_up().env("COLLOQUY__BACKUP__EVERY_HOURS", "24");
    let (mut server, clock) = Clock::start_as(daily);
    server.expect_errors();
    let operator = server.operator();
    assert_eq!(states(&ended_of(&operator, 1).await), ["finished"]);
    // Where it would be made there is a file.
    let scratch = server.work().join("data/colloquy.db.backup");
    fs::write(&scratch, "").unwrap();
    let failed = begun(&operator).await;
    let failed = ended(&operator, &failed["backup_id"]).await;
    assert_eq!(failed["state"], "failed", "{failed}");
    let person = Person::operator(&server).await;
    let overview = person.page("/console/overview").await;
    let told = "The latest backup has failed";
    assert!(overview.contains(told), "{overview}");
    fs::remove_file(&scratch).unwrap();
    clock.ahead(15);
    let again = ended_of(&operator, 3).await;
    assert_eq!(states(&again), ["finished", "failed", "finished"]);
    // The next is due, and the place is away: it is made as soon as that is back.
    let (place, aside) = (server.work().join("backups"), server.work().join("aside"));
    fs::rename(&place, &aside).unwrap();
    fs::write(&place, "").unwrap();
    clock.ahead(15 + 24 * 60 + 1);
    until("it is told", SOON, async || {
        let told = server.log().contains("no backup could be begun");
        told.then_some(())
    })
    .await;
    let failures = server.metric("backup_failures_total").await;
    assert!(
        failures > 1,
        "the one above, and that it is away: {failures}"
    );
    let list = operator.get("/admin/v1/backups").await;
    list.error(503, "unavailable", "");
    let overview = person.page("/console/overview").await;
    assert!(overview.contains("No backup can be made"), "{overview}");
    fs::remove_file(&place).unwrap();
    fs::rename(&aside, &place).unwrap();
    assert_eq!(states(&ended_of(&operator, 4).await)[0], "finished");
    assert_eq!(server.metric("backup_every_seconds").await, 24 * 60 * 60);
    let overview = person.page("/console/overview").await;
    assert!(!overview.contains("See the backups"), "{overview}");
    server.term();
    server.assert_sound();
}

/// A backup that is begun and not made to its end: the server is killed.
async fn interrupted(server: &mut Server) -> Answer {
    let interrupted = begun(&server.operator()).await;
    let second = server.operator().post("/admin/v1/backups", json!({})).await;
    second.error(409, "conflict", "");
    server.kill9();
    interrupted
}

#[tokio::test]
async fn a_backup_that_a_kill_interrupts_has_failed_and_the_next_is_made() {
    let mut server = backed_up().env("COLLOQUY__BACKUP__KEEP", "1").start();
    let c = server.account().await.test();
    // Enough to be copied for a while.
    let text = "words ".repeat(10_000);
    let conversation = c.conversation().await;
    for _ in 0..60 {
        c.message(&conversation, &text).await;
    }
    let earlier = interrupted(&mut server).await;
    // As a kill leaves it that comes while the file is put.
    let backups = server.work().join("backups");
    let earlier = backups.join(earlier["backup_id"].as_str().unwrap());
    fs::write(earlier.join("colloquy.db.zst#1"), "half of it").unwrap();
    fs::write(earlier.join("colloquy.db.key"), GIVEN).unwrap();
    server.restart();
    let manifest = earlier.join("manifest.json");
    until("what was put of it is gone", SOON, async || {
        (below(&earlier) == [manifest.clone()]).then_some(())
    })
    .await;
    until("it counts as one that failed", SOON, async || {
        (server.metric("backup_failures_total").await == 1).then_some(())
    })
    .await;
    let interrupted = interrupted(&mut server).await;
    server.restart();
    let operator = server.operator();
    let failed = ended(&operator, &interrupted["backup_id"]).await;
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(
        failed["error"].as_str().unwrap().contains("ended before"),
        "{failed}"
    );
    let output = restored(
        failed["url"].as_str().unwrap(),
        &server.work().join("to"),
        &[],
    );
    refused(&output, "not made to its end");
    assert!(earlier.exists());
    made(&operator).await;
    assert!(!earlier.exists(), "more are kept than are to be");
    let scratch = server.work().join("data/colloquy.db.backup");
    until("nothing is left beside the store", SOON, async || {
        (!scratch.exists()).then_some(())
    })
    .await;
    server.term();
    server.assert_sound();
}

/// Another machine may run a copy of the store and keep its backups in the same place.
#[tokio::test]
async fn a_backup_that_is_made_elsewhere_is_left_alone_at_a_start() {
    let mut server = backed_up().start();
    made(&server.operator()).await;
    let elsewhere = interrupted(&mut server).await;
    let half = format!("backups/{}/colloquy.db.zst#1", elsewhere.id("backup_id"));
    let half = server.work().join(half);
    fs::write(&half, "half of it").unwrap();
    // A copy of the store comes without what stands beside it.
    fs::remove_dir_all(server.work().join("data/colloquy.db.backup")).unwrap();
    server.restart();
    until("the place was looked at", SOON, async || {
        let latest = "backup_last_finished_timestamp_seconds";
        (server.metric(latest).await > 0).then_some(())
    })
    .await;
    made(&server.operator()).await;
    assert!(half.exists());
    assert_eq!(server.metric("backup_failures_total").await, 0);
    server.term();
    server.assert_sound();
}

#[tokio::test]
async fn what_a_kill_left_beside_the_store_goes_where_none_are_made_any_more() {
    let mut server = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .start();
    server.kill9();
    let scratch = server.work().join("data/colloquy.db.backup");
    fs::create_dir_all(scratch.join("restored")).unwrap();
    let noted = "bak_01a222a101737000ad853283ca2e244a";
    for copy in ["colloquy.db", "packed", "restored/colloquy.db", noted] {
        fs::write(scratch.join(copy), "words of somebody").unwrap();
    }
    let theirs = server.work().join("somebody's");
    fs::write(&theirs, "theirs").unwrap();
    symlink(&theirs, scratch.join("link")).unwrap();
    server.restart();
    until("nothing is left beside the store", SOON, async || {
        (!scratch.exists()).then_some(())
    })
    .await;
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    server.term();
    server.assert_sound();
}

/// Puts as many manifests of backups that ended into the place, as if they were made every second
/// before this one; gives their identifiers, the latest first.
pub(crate) fn older(made: &Answer, count: usize) -> Vec<String> {
    let folder = folder_of(made["url"].as_str().unwrap());
    let manifest = fs::read(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let id = made["backup_id"].as_str().unwrap();
    let ms = u64::from_str_radix(&id[4..16], 16).unwrap();
    (1..=count)
        .map(|before| {
            let ms = ms - 1_000 * before as u64;
            let id = format!("bak_{ms:012x}{}", &id[16..]);
            let mut manifest = manifest.clone();
            manifest["backup_id"] = json!(id);
            let folder = folder.with_file_name(&id);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
            id
        })
        .collect()
}

#[tokio::test]
async fn backups_are_listed_page_by_page_as_everything_else_is() {
    let server = backed_up().env("COLLOQUY__BACKUP__KEEP", "100").start();
    let operator = server.operator();
    let at = "/admin/v1/backups";
    let none = operator.get(at).await.expect(200);
    assert_eq!(
        none.body,
        json!({"data": [], "meta": {"total": 0, "limit": 20, "offset": 0}})
    );
    let made = made(&operator).await;
    let mut expected = vec![made["backup_id"].as_str().unwrap().to_owned()];
    expected.extend(older(&made, 60));
    let (mut seen, mut next) = (Vec::new(), Some(format!("{at}?limit=25")));
    while let Some(path) = next {
        let page = operator.get(&path).await.expect(200);
        assert_eq!((page.total(), &page["meta"]["limit"]), (61, &json!(25)));
        seen.extend(page.column("backup_id"));
        next = page.link("next");
    }
    assert_eq!(seen, expected);
    let first = operator.get(at).await.expect(200);
    assert_eq!(first.column("backup_id"), expected[..20]);
    assert_eq!(first.data()[0], made.body);
    let tag = first.etag();
    operator
        .get(at)
        .with("if-none-match", &tag)
        .await
        .expect(304);
    let oldest = operator.get(&format!("{at}?order=asc&limit=1")).await;
    assert_eq!(oldest.expect(200).column("backup_id"), expected[60..]);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("offset=-1", "offset"),
        ("order=up", "order"),
        ("state=failed", "state"),
    ] {
        let refused = operator.get(&format!("{at}?{query}")).await;
        refused.error(400, "invalid_request", field);
    }
    // What changes is seen at once.
    fs::remove_dir_all(folder_of(made["url"].as_str().unwrap()).with_file_name(&expected[60]))
        .unwrap();
    assert_eq!(operator.get(at).await.expect(200).total(), 60);
}

#[tokio::test]
async fn a_damaged_manifest_hides_no_other_backup_and_the_next_is_made() {
    let server = backed_up().start();
    let operator = server.operator();
    let first = made(&operator).await;
    let at = format!("/admin/v1/backups/{}", older(&first, 1)[0]);
    operator.get(&at).await.expect(200);
    let folder = folder_of(first["url"].as_str().unwrap());
    let damaged = folder.with_file_name(at.rsplit('/').next().unwrap());
    fs::write(damaged.join("manifest.json"), "{\"backup_id\":").unwrap();
    operator.get(&at).await.error(404, "not_found", "");
    let all = operator.get("/admin/v1/backups").await.expect(200);
    assert_eq!(*all.data(), std::slice::from_ref(&first.body));
    made(&operator).await;
    assert_eq!(
        operator.get("/admin/v1/backups").await.expect(200).total(),
        2
    );
    let told = server
        .log()
        .lines()
        .filter(|line| line.contains("its manifest is damaged"))
        .count();
    assert_eq!(told, 1, "it is told once");
    assert!(damaged.exists());
}

/// What the OpenAPI document says of an operation on backups.
fn documented<'d>(document: &'d Value, path: &str, method: &str) -> &'d Value {
    let operation = &document["paths"][path][method];
    assert!(operation.is_object(), "{method} {path}");
    operation
}

#[tokio::test]
async fn a_backup_is_as_the_document_says_and_has_a_tag_of_its_own() {
    let server = backed_up().start();
    let operator = server.operator();
    let begun = begun(&operator).await;
    let tag_before = begun.etag();
    let at = format!("/admin/v1/backups/{}", begun.id("backup_id"));
    ended(&operator, &begun["backup_id"]).await;
    let shown = operator.get(&at).await.expect(200);
    let tag = shown.etag();
    assert!(!tag.starts_with("W/") && tag != tag_before, "{shown}");
    assert_eq!(shown.header("cache-control"), "private, no-cache");
    operator
        .get(&at)
        .with("if-none-match", &tag)
        .await
        .expect(304);
    operator
        .get(&at)
        .with("if-none-match", &tag_before)
        .await
        .expect(200);
    let document = operator.get("/openapi.json").await.expect(200).body;
    let path = "/admin/v1/backups/{backup_id}";
    let responses = &documented(&document, path, "get")["responses"];
    assert!(responses["304"].is_object(), "{responses}");
    let pattern = &document["components"]["parameters"]["backup_id"]["schema"]["pattern"];
    assert!(pattern.as_str().unwrap().starts_with("^bak_"), "{pattern}");
    let fields: BTreeSet<_> = shown.body.as_object().unwrap().keys().collect();
    let schema = &document["components"]["schemas"]["Backup"];
    let known: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, known, "{schema}");
    assert_eq!(
        schema["properties"]["error"]["type"],
        json!(["string", "null"])
    );
    let list = documented(&document, "/admin/v1/backups", "get");
    let schema = &list["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/BackupPage");
}

#[tokio::test]
async fn no_backup_is_made_where_there_is_no_place_for_it_or_no_file_to_copy() {
    let server = Setup::default().start();
    let operator = server.operator();
    let refused = operator.post("/admin/v1/backups", json!({})).await;
    refused.error(409, "conflict", "");
    assert_eq!(
        operator
            .get("/admin/v1/backups")
            .await
            .expect(200)
            .data()
            .as_slice(),
        [] as [Value; 0]
    );
    let unknown = "/admin/v1/backups/bak_01890000000070008000000000000000";
    operator.get(unknown).await.error(404, "not_found", "");
    for (name, value, key) in [
        ("URL", "ftp://x", "backup.url"),
        ("URL", "file:/dev/null/x", "[backup] url"),
        ("ENDPOINT", "nowhere", "backup.endpoint"),
        ("EVERY_HOURS", "-1", "backup.every_hours"),
        ("KEEP", "0", "backup.keep"),
    ] {
        let folder = Folder::new();
        let setup = Setup::default().env(&format!("COLLOQUY__BACKUP__{name}"), value);
        let (status, said) = setup.refused_in(&folder.work());
        assert!(!status.success() && said.contains(key), "{said}");
    }
}

#[tokio::test]
async fn a_backup_whose_place_is_full_fails_and_the_server_goes_on() {
    let mut server = backed_up().start();
    server.expect_errors();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    // Where the folder was there is a file: nothing can be put there.
    let folder = server.work().join("backups");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let refused = server.operator().post("/admin/v1/backups", json!({})).await;
    refused.error(503, "unavailable", "");
    c.message(&conversation, "goes on").await;
    fs::remove_file(&folder).unwrap();
    made(&server.operator()).await;
    server.term();
    server.assert_sound();
}
