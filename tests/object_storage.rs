//! Attachments and backups in a bucket: the same promises on a server of the S3 protocol and on one of
//! Azure Blob Storage, neither of which is ours, and on the former behind a gateway of ours to which it
//! is one of Google Cloud Storage.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use chrono::DateTime;
use serde_json::{Value, json};

use crate::backups::{begun, ended};
use crate::support::attachments::{content_of, upload, uploaded};
use crate::support::bucket::{Provider, with};
use crate::support::client::no_tls;
use crate::support::server::{Folder, Server, Setup};
use crate::support::{Answer, Bucket, Client, Receiver, Reply, process, unique, until};

const SOON: Duration = Duration::from_secs(60);
/// 32 bytes in base64.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NONE: [PathBuf; 0] = [];

/// The promises, each a test on each provider.
macro_rules! on_each_provider {
    ($($promise:ident),+ $(,)?) => {
        on_each_provider!(of s3, S3: $($promise),+);
        on_each_provider!(of gcs, Gcs: $($promise),+);
        on_each_provider!(of azure, Azure: $($promise),+);
    };
    (of $module:ident, $provider:ident: $($promise:ident),+) => {
        mod $module {
            use super::{Bucket, Provider};
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    super::$promise(Bucket::start_of(Provider::$provider)).await;
                }
            )+
        }
    };
}

on_each_provider!(
    files_are_kept_in_the_bucket_and_go_with_their_message,
    what_fits_into_a_part_is_one_request,
    what_is_given_up_leaves_nothing,
    encrypted_where_texts_are_nobody_is_led_to_them,
    readers_are_led_to_the_bucket_where_the_settings_say_so,
    a_check_finds_what_is_missing_in_the_bucket_and_what_nobody_knows,
    while_the_bucket_is_away_uploads_and_downloads_say_so_and_the_rest_goes_on,
    backups_are_kept_in_the_bucket_and_restored_out_of_it,
    a_backup_that_was_moved_is_restored_from_where_it_is_and_what_is_missing_is_named,
    a_backup_without_its_bucket_is_refused_and_the_next_is_made,
    a_backup_whose_bucket_goes_away_says_so,
    credentials_and_buckets_that_are_refused_stop_the_start,
    a_bucket_that_is_away_is_told_at_the_start_and_waited_for,
);

/// A message of a conversation of its own that has the attachment.
async fn sent(c: &Client, attachment: &str) -> String {
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let message = json!({"type": "file", "attachment_id": attachment});
    let sent = c.post(&messages, message).await.expect(201);
    format!("{messages}/{}", sent.id("message_id"))
}

/// Enough for several parts, no two alike.
fn large() -> Vec<u8> {
    let numbers = (0..5_000_011_u32).flat_map(u32::to_be_bytes);
    numbers.collect()
}

async fn check_reading(c: &Client, content: &[u8]) -> String {
    let id = uploaded(c, content).await;
    let whole = c.get(&content_of(&id)).await.expect(200);
    assert!(whole.bytes == content);
    for (range, start, end) in [
        ("bytes=0-9", 0, 10),
        ("bytes=8388600-8388620", 8_388_600, 8_388_621),
        ("bytes=-7", content.len() - 7, content.len()),
    ] {
        let part = c.get(&content_of(&id)).with("range", range).await;
        assert!(part.expect(206).bytes == content[start..end], "{range}");
    }
    id
}

async fn files_are_kept_in_the_bucket_and_go_with_their_message(bucket: Bucket) {
    let mut server = bucket.setup().start();
    let c = server.account().await.test();
    let large = check_reading(&c, &large()).await;
    let words = unique("kept in a bucket");
    let small = uploaded(&c, words.as_bytes()).await;
    assert_eq!(bucket.objects_with(&words).len(), 1);
    let names = bucket.objects();
    assert_eq!(names.len(), 2);
    let below = |name: &PathBuf| name.to_str().unwrap().contains("files/attachments/");
    assert!(names.iter().all(below), "{names:?}");
    assert!(!server.work().join("data/objects").exists());
    for id in [&large, &small] {
        let message = sent(&c, id).await;
        c.delete(&message).await.expect(204);
        c.get(&content_of(id)).await.error(404, "not_found", "");
    }
    until("the bytes are gone", SOON, async || {
        bucket.objects().is_empty().then_some(())
    })
    .await;
    server.term();
    server.assert_sound();
}

/// What is sent at a time of a file that is longer.
const PART_BYTES: usize = 8 << 20;

async fn what_fits_into_a_part_is_one_request(bucket: Bucket) {
    let mut server = bucket.setup().start();
    let c = server.account().await.test();
    for (bytes, fits) in [(1, true), (PART_BYTES, true), (PART_BYTES + 1, false)] {
        let id = uploaded(&c, &large()[..bytes]).await;
        let requests = until("the requests are printed", SOON, async || {
            let requests = bucket.requests_for(&id);
            (!requests.is_empty()).then_some(requests)
        })
        .await;
        // As S3 and Google name it, and Azure.
        let in_parts = |line: &String| line.contains("upload") || line.contains("comp=block");
        let sent_in_parts = requests.iter().any(in_parts);
        assert_eq!(sent_in_parts, !fits, "{bytes}: {requests:?}");
        assert!(!fits || requests.len() == 1, "{bytes}: {requests:?}");
        let read = c.get(&content_of(&id)).await.expect(200);
        assert!(read.bytes == large()[..bytes], "{bytes}");
    }
    server.term();
}

async fn what_is_given_up_leaves_nothing(bucket: Bucket) {
    let mut server = bucket.setup().start();
    let c = server.account().await.test();
    // Of three parts at most two are under way at once: one of the larger file has been sent.
    for bytes in [1, 2 * PART_BYTES + 1] {
        // Only behind the file it shows that there is more than the file.
        let form = [
            &b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"[..],
            &large()[..bytes],
            b"\r\n--b\r\nContent-Disposition: form-data; name=\"more\"\r\n\r\nx\r\n--b--\r\n",
        ];
        let refused = c
            .call("POST", "/v1/attachments")
            .with("content-type", "multipart/form-data; boundary=b")
            .bytes(form.concat());
        refused.await.error(400, "invalid_request", "file");
        let sent = bucket.requests_for("/att_");
        let is_sent = sent.iter().any(|line| line.contains("PUT"));
        assert!(bytes > PART_BYTES || !is_sent, "{sent:?}");
    }
    until("nothing is left", SOON, async || {
        bucket.objects().is_empty().then_some(())
    })
    .await;
    server.term();
    server.assert_sound();
}

async fn encrypted_where_texts_are_nobody_is_led_to_them(bucket: Bucket) {
    let setup = bucket
        .setup()
        .env("COLLOQUY__OBJECTS__REDIRECT", "true")
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env("COLLOQUY__ENCRYPTION__MASTER_KEY", MASTER_KEY);
    let mut server = setup.start();
    let c = server.account().await.test();
    check_reading(&c, &large()).await;
    let (words, name) = (unique("sealed words"), unique("a-name"));
    let made = upload(&c, &name, words.as_bytes()).await.expect(201);
    let read = c.get(&content_of(&made.id("attachment_id"))).await;
    assert_eq!(read.expect(200).bytes, words.as_bytes());
    assert_eq!(bucket.objects_with(&words), NONE);
    assert_eq!(bucket.objects_with(&name), NONE);
    server.term();
}

/// For how many seconds a presigned address says that it holds.
fn seconds_of(address: &str) -> i64 {
    let url = reqwest::Url::parse(address).unwrap();
    let said = |name: &str| {
        let mut pairs = url.query_pairs();
        pairs.find(|(key, _)| key == name).map(|pair| pair.1)
    };
    if let Some(seconds) = said("X-Amz-Expires").or_else(|| said("X-Goog-Expires")) {
        return seconds.parse().unwrap();
    }
    let time = |name| DateTime::parse_from_rfc3339(&said(name).unwrap()).unwrap();
    (time("se") - time("st")).num_seconds()
}

async fn readers_are_led_to_the_bucket_where_the_settings_say_so(bucket: Bucket) {
    let setup = bucket.setup().env("COLLOQUY__OBJECTS__REDIRECT", "true");
    let mut server = setup.start();
    let account = server.account().await;
    let c = account.test();
    let anybody = reqwest::Client::builder()
        .tls_backend_preconfigured(no_tls())
        .build()
        .unwrap();
    let image = |content: &[u8]| [&b"\x89PNG\r\n\x1a\n"[..], content].concat();
    let words = unique("read at its source").into_bytes();
    // Sent as one request, and in parts.
    for (content, media, kind) in [
        (image(&words), "image/png", "inline"),
        (words, "application/octet-stream", "attachment"),
        (large(), "application/octet-stream", "attachment"),
        (image(&large()), "image/png", "inline"),
    ] {
        let made = upload(&c, "naïve.html", &content).await.expect(201);
        let at = content_of(&made.id("attachment_id"));
        let led = c.get(&at).await.expect(303);
        let address = led.header("location").to_owned();
        assert!(address.starts_with(&bucket.endpoint()), "{address}");
        assert_eq!(seconds_of(&address), 60, "{address}");
        assert_eq!(led.header("cache-control"), "no-store");
        let read = anybody.get(&address).send().await.unwrap();
        assert_eq!(read.status(), 200);
        // The address is one for GET: whoever asks for the head alone is told it here.
        let head = c.call("HEAD", &at).open().await.unwrap();
        assert_eq!(head.status(), 200);
        assert_eq!(head.headers()["content-length"], content.len().to_string());
        let tag = head.headers()["etag"].to_str().unwrap();
        c.get(&at).with("if-none-match", tag).await.expect(304);
        let told = ["content-type", "content-disposition"].map(|name| &read.headers()[name]);
        let names = "filename=\"na_ve.html\"; filename*=UTF-8''na%C3%AFve.html";
        assert_eq!(told, [media, &format!("{kind}; {names}")]);
        assert!(read.bytes().await.unwrap() == content);
        // The address is for this file alone, and nothing leads those there who may not read it.
        let other = address.replace(&made.id("attachment_id"), "att_other");
        assert_ne!(other, address);
        let refused = anybody.get(&other).send().await.unwrap();
        assert_eq!(refused.status(), 403);
        account.live().get(&at).await.error(404, "not_found", "");
    }
    server.term();
}

/// What `colloquy check` says, where something is wrong.
fn found(server: &Server) -> String {
    let check = server.check();
    assert!(!check.status.success(), "{check:?}");
    String::from_utf8(check.stdout).unwrap()
}

async fn a_check_finds_what_is_missing_in_the_bucket_and_what_nobody_knows(mut bucket: Bucket) {
    let mut server = bucket.setup().start();
    let id = uploaded(&server.account().await.test(), b"kept").await;
    server.term();
    server.assert_sound();
    bucket.put("files/attachments/1/live/stray", "whose is it?");
    let stray = "bytes of attachments have a record: attachments/1/live/stray\n";
    assert_eq!(found(&server), stray);
    let kept = bucket.objects();
    let kept = kept.iter().find(|name| name.ends_with(&id)).unwrap();
    bucket.delete(kept);
    let both = found(&server);
    assert!(both.contains(stray), "{both}");
    assert!(both.contains("attachments have their bytes: attachments/"));
    assert!(both.contains(&id), "{both}");
    // What is known of the store is told all the same.
    bucket.close();
    assert_eq!(found(&server), "The store is sound.\n");
}

async fn while_the_bucket_is_away_uploads_and_downloads_say_so_and_the_rest_goes_on(
    mut bucket: Bucket,
) {
    let mut server = bucket.setup().start();
    let c = server.account().await.test();
    let (kept, words) = (uploaded(&c, b"kept").await, unique("to be forgotten"));
    let message = sent(&c, &uploaded(&c, words.as_bytes()).await).await;
    let tag = c.get(&content_of(&kept)).await.expect(200).etag();
    bucket.close();
    // Whoever has it needs no bucket.
    let again = c.get(&content_of(&kept)).with("if-none-match", &tag);
    again.await.expect(304);
    for refused in [upload(&c, "a", b"x").await, c.get(&content_of(&kept)).await] {
        let refused = refused.error(503, "unavailable", "");
        assert_eq!(refused["error"]["details"]["outcome"], "none", "{refused}");
        // The log says why, and of whose request it speaks.
        let log = server.log();
        let request = refused.header("x-request-id");
        let told: Vec<&str> = log.lines().filter(|line| line.contains(request)).collect();
        assert_eq!(told.len(), 1, "{log}");
        let ours = ["account=acc_", "key=key_", "error="];
        assert!(ours.iter().all(|one| told[0].contains(one)), "{told:?}");
    }
    // Redacted all the same: the bytes go when the bucket is there again.
    c.delete(&message).await.expect(204);
    assert!(bucket.keeps(&words));
    bucket.open();
    assert_eq!(c.get(&content_of(&kept)).await.expect(200).bytes, b"kept");
    uploaded(&c, b"another").await;
    until("the bytes are gone", SOON, async || {
        bucket.objects_with(&words).is_empty().then_some(())
    })
    .await;
    until("what was refused has left nothing", SOON, async || {
        (bucket.objects().len() == 2).then_some(())
    })
    .await;
    server.term();
    server.assert_sound();
}

fn backed_up(bucket: &Bucket) -> Server {
    let setup = bucket
        .setup()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__BACKUP__URL", &bucket.url("backups"))
        .env("COLLOQUY__BACKUP__ENDPOINT", &bucket.endpoint())
        .env("COLLOQUY__BACKUP__KEEP", "2")
        .env("COLLOQUY__BACKUP__EVERY_HOURS", "0");
    setup.start()
}

/// A backup when it has ended.
async fn backup(operator: &Client) -> Answer {
    let begun = begun(operator).await;
    ended(operator, &begun["backup_id"]).await
}

/// Restores into `data` of this folder.
fn restored(bucket: &Bucket, url: &str, folder: &Folder) -> Output {
    let mut restoring = process::colloquy();
    restoring
        .args(["restore", url, "--to"])
        .arg(folder.work().join("data"))
        .env("COLLOQUY__BACKUP__ENDPOINT", bucket.endpoint())
        .envs(bucket.credentials());
    restoring.output().unwrap()
}

async fn backups_are_kept_in_the_bucket_and_restored_out_of_it(bucket: Bucket) {
    let mut server = backed_up(&bucket);
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let conversation = c.conversation().await;
    let words = unique("to be restored");
    c.message(&conversation, &words).await;
    let mut last = Value::Null;
    for _ in 0..3 {
        let made = backup(&operator).await;
        assert_eq!(
            (&made["state"], &made["verified"]),
            (&json!("finished"), &json!(true)),
            "{made}"
        );
        last = made["url"].clone();
    }
    assert!(
        last.as_str()
            .unwrap()
            .starts_with(&bucket.url("backups/bak_"))
    );
    until("the oldest is gone", SOON, async || {
        let kept = operator.get("/admin/v1/backups").await.expect(200);
        let objects = bucket.objects();
        let folders: BTreeSet<_> = objects.iter().map(|path| path.parent()).collect();
        (kept.data().len() == 2 && folders.len() == 2).then_some(())
    })
    .await;
    server.term();
    let folder = Folder::new();
    let restored = restored(&bucket, last.as_str().unwrap(), &folder);
    assert!(restored.status.success(), "{restored:?}");
    let mut again = bucket
        .setup()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .known()
        .start_in(folder);
    let c = again.with_key(account.test_key());
    let messages = format!("/v1/conversations/{conversation}/messages");
    let found = c.get(&messages).await.expect(200);
    assert_eq!(found.data()[0]["content"], json!(words));
    again.term();
}

async fn a_backup_that_was_moved_is_restored_from_where_it_is_and_what_is_missing_is_named(
    mut bucket: Bucket,
) {
    let mut server = backed_up(&bucket);
    let made = backup(&server.operator()).await;
    assert_eq!(made["state"], "finished", "{made}");
    server.term();
    let id = made.id("backup_id");
    bucket.rename(&format!("backups/{id}"), "archive/2026/before-the-update");
    let folder = Folder::new();
    let absent = restored(&bucket, made["url"].as_str().unwrap(), &folder);
    let url = bucket.url("archive/2026/before-the-update");
    let whole = restored(&bucket, &url, &Folder::new());
    assert!(whole.status.success(), "{whole:?}");
    let objects = bucket.objects();
    let key = objects
        .iter()
        .find(|name| name.ends_with("colloquy.db.key"));
    bucket.delete(key.unwrap());
    let missing = restored(&bucket, &url, &folder);
    bucket.close();
    let away = restored(&bucket, &url, &folder);
    for (refused, words) in [
        (
            absent,
            format!("there is no backup at {}", made["url"].as_str().unwrap()),
        ),
        (missing, format!("{url}/colloquy.db.key is missing")),
        (away, format!("{url}/manifest.json can't be read")),
    ] {
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(&words), "{said}");
        // Before it stand the tries of the bucket's client, in the log.
        let told = said.lines().filter(|line| line.starts_with("colloquy: "));
        assert_eq!(told.count(), 1, "{said}");
        assert!(
            said.trim_end()
                .lines()
                .last()
                .unwrap()
                .starts_with("colloquy: ")
        );
    }
    assert!(!folder.work().join("data").exists());
}

async fn a_backup_without_its_bucket_is_refused_and_the_next_is_made(mut bucket: Bucket) {
    let mut server = backed_up(&bucket);
    let operator = server.operator();
    backup(&operator).await;
    bucket.close();
    let refused = operator.post("/admin/v1/backups", json!({})).await;
    refused.error(503, "unavailable", "");
    bucket.open();
    let made = backup(&operator).await;
    assert_eq!(made["state"], "finished", "{made}");
    server.term();
    server.assert_sound();
}

async fn a_backup_whose_bucket_goes_away_says_so(mut bucket: Bucket) {
    let mut server = backed_up(&bucket);
    server.expect_errors();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    // Takes longer to be packed than the bucket takes to be closed.
    for number in 0..4_u8 {
        upload(&c, "large.bin", vec![number; 24 << 20])
            .await
            .expect(201);
    }
    let begun = begun(&operator).await;
    bucket.close();
    until("it has failed", SOON, async || {
        server
            .log()
            .contains("does not take what became of one")
            .then_some(())
    })
    .await;
    bucket.open();
    let why = |made: &Answer| {
        assert_eq!(made["state"], "failed", "{made}");
        made["error"].as_str().unwrap().to_owned()
    };
    let said = why(&ended(&operator, &begun["backup_id"]).await);
    assert!(!said.contains("the server ended"), "{said}");
    // Once the next is made, the bucket knows it, too.
    backup(&operator).await;
    server.term();
    server.restart();
    let read = ended(&server.operator(), &begun["backup_id"]).await;
    assert_eq!(why(&read), said);
    server.term();
    server.assert_sound();
}

/// Google's stand in a file anyway.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_read_from_the_file_that_a_variable_names() {
    for (provider, name) in [
        (Provider::S3, "AWS_SECRET_ACCESS_KEY"),
        (Provider::Azure, "AZURE_STORAGE_ACCOUNT_KEY"),
    ] {
        let bucket = Bucket::start_of(provider);
        let credentials = bucket.credentials();
        let (_, secret) = credentials.iter().find(|(one, _)| *one == name).unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, format!("{secret}\n")).unwrap();
        let (file, variable) = (file.to_str().unwrap(), format!("{name}_FILE"));
        let setup = bucket.setup().unset(name);
        let server = setup.clone().env(&variable, file).start();
        uploaded(&server.account().await.test(), b"kept").await;
        assert_eq!(bucket.objects().len(), 1);
        let refused = |setup: Setup, words: &str| {
            let (status, output) = setup.refused_in(folder.path());
            assert!(!status.success(), "{output}");
            let told = output.contains(&variable) && output.contains(words);
            assert!(told && !output.contains(secret), "{output}");
        };
        refused(setup.env(&variable, "nowhere"), "No such file");
        refused(bucket.setup().env(&variable, file), "is set, too");
    }
}

async fn credentials_and_buckets_that_are_refused_stop_the_start(bucket: Bucket) {
    let missing = bucket.url_of("another-bucket", "files");
    let kept = bucket.url("files");
    let refused = |setup: Setup, setting: &str, [url, said]: [&str; 2]| {
        let folder = tempfile::TempDir::new().unwrap();
        let (status, output) = setup.refused_in(folder.path());
        assert!(!status.success(), "{output}");
        let line = output.lines().find(|line| line.contains(setting));
        let line = line.unwrap_or_else(|| panic!("{setting} is not named: {output}"));
        assert!(
            line.contains(&format!("{url} is refused: {said}")),
            "{line}"
        );
        assert!(!folder.path().join("data/colloquy.db").exists());
    };
    let (wrong, no_bucket) = bucket.refusals();
    let strangers = with(bucket.setup(), &bucket.wrong_credentials());
    refused(strangers, "[objects] url", [&kept, wrong]);
    let elsewhere = bucket.setup().env("COLLOQUY__OBJECTS__URL", &missing);
    refused(elsewhere, "[objects] url", [&missing, no_bucket]);
    let backups = bucket
        .setup()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env("COLLOQUY__BACKUP__URL", &missing)
        .env("COLLOQUY__BACKUP__ENDPOINT", &bucket.endpoint());
    refused(backups, "[backup] url", [&missing, no_bucket]);
    // What is looked at without the network is not asked.
    let mut checking = process::colloquy();
    checking
        .args(["config", "check"])
        .env("COLLOQUY__OBJECTS__URL", &missing)
        .env("COLLOQUY__OBJECTS__ENDPOINT", bucket.endpoint())
        .envs(bucket.wrong_credentials());
    let checked = checking.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

async fn a_bucket_that_is_away_is_told_at_the_start_and_waited_for(mut bucket: Bucket) {
    bucket.close();
    let mut server = backed_up(&bucket);
    let told = server.log();
    for (setting, prefix) in [("[objects] url", "files"), ("[backup] url", "backups")] {
        let mut told = told.lines().filter(|line| line.contains(setting));
        let line = told.next().expect("it is told");
        assert!(line.contains("WARN"), "{line}");
        let away = format!("{} does not answer", bucket.url(prefix));
        assert!(line.contains(&away), "{line}");
        assert_eq!(told.next(), None);
    }
    let c = server.account().await.test();
    let refused = upload(&c, "a", b"x").await.error(503, "unavailable", "");
    assert_eq!(refused["error"]["details"]["outcome"], "none", "{refused}");
    bucket.open();
    uploaded(&c, b"kept").await;
    let made = backup(&server.operator()).await;
    assert_eq!(made["state"], "finished", "{made}");
    server.term();
    server.assert_sound();
}

/// A server whose bucket is kept by whoever answers at this port.
fn kept_at(port: u16) -> Setup {
    let setup = Setup::default()
        .env("COLLOQUY__OBJECTS__URL", "s3://a-bucket")
        .env(
            "COLLOQUY__OBJECTS__ENDPOINT",
            &format!("http://127.0.0.1:{port}"),
        );
    let credentials = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    credentials
        .iter()
        .fold(setup, |setup, name| setup.env(name, "any"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_would_be_refused_later_too_stops_the_start() {
    for (status, stops) in [
        (301, true),
        (400, true),
        (408, false),
        (429, false),
        (500, false),
        (503, false),
    ] {
        let storage = Receiver::planned(move |_| Reply::status(status)).await;
        if stops {
            let folder = tempfile::TempDir::new().unwrap();
            let (ended, output) = kept_at(storage.port()).refused_in(folder.path());
            assert!(!ended.success(), "{status}: {output}");
            assert!(output.contains("[objects] url: s3://"), "{output}");
            continue;
        }
        let mut server = kept_at(storage.port()).start();
        let log = server.log();
        let told = log.lines().find(|line| line.contains("[objects] url"));
        assert!(told.is_some_and(|line| line.contains("WARN")), "{log}");
        server.term();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_waited_for_long_where_nobody_answers() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut server = kept_at(port).start();
    let log = server.log();
    let told = log.lines().find(|line| line.contains("[objects] url"));
    assert!(told.is_some_and(|line| line.contains("WARN")), "{log}");
    server.term();
}
