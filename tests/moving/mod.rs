//! `colloquy export` and `colloquy import`: afterwards everything is answered as before, byte for
//! byte, whichever stores it moved between; what is not a whole dump never becomes a store.

mod filled;
mod place;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use self::filled::Filled;
use self::place::{MASTER_KEY, Place, assert_refused, said};
use crate::domains;
use crate::erasing::{Somebody, Words, begin_many, erased, finished};
use crate::support::attachments::{content_of, upload, uploaded};
use crate::support::clock::Clock;
use crate::support::server::Folder;
use crate::support::{Client, Nameserver, Server, files, until};

const SOON: Duration = Duration::from_secs(60);

/// Moves what a server that has ended holds to another place; gives that one's server.
fn moved(server: &Server, from: &Place, to: &Place) -> Server {
    let dump = from.export(&server.work());
    let folder = Folder::new();
    to.import(&folder.work(), &dump);
    to.start_imported(folder)
}

/// Everything is answered as before, on each of these stores in turn, and goes on at the last.
async fn assert_moves(places: &[Place]) {
    let (first, others) = places.split_first().unwrap();
    let mut server = first.setup().start();
    let filled = Filled::server(&server).await;
    let reads = filled.reads(&server).await;
    assert!(reads.count() > 171, "{} reads", reads.count());
    let mut repeated = Vec::new();
    for mode in [&filled.test, &filled.live] {
        repeated.push(mode.repeated(&mode.client).await);
    }
    assert!(server.term().success());
    let mut from = first;
    for to in others {
        let mut next = moved(&server, from, to);
        reads.assert_same_at(&next).await;
        for (mode, before) in [&filled.test, &filled.live].into_iter().zip(&repeated) {
            let client = mode.client.at(&next.address());
            assert_eq!(&mode.repeated(&client).await, before);
        }
        assert!(next.term().success());
        next.assert_sound();
        (server, from) = (next, to);
    }
    server.restart();
    goes_on(&server, &filled).await;
}

/// What is written now comes behind what was there, and is delivered.
async fn goes_on(server: &Server, filled: &Filled) {
    let mode = &filled.test;
    let c = mode.client.at(&server.address());
    let end = c.get("/v1/events?after=0&limit=100").await.expect(200);
    let next = end.link("next").unwrap();
    let came = filled.receiver.count();
    for conversation in &mode.conversations {
        let sent = c.message(conversation, "from here").await;
        let at = sent.header("location").to_owned();
        assert_eq!(c.get(&at).await.expect(200).body, sent.body);
    }
    for at in &mode.documents {
        c.write(at, "from here\n").await;
    }
    let behind = c.get(&next).await.expect(200);
    let written = mode.conversations.len() + mode.documents.len();
    let count = usize::try_from(behind.total()).unwrap();
    assert!(count >= written, "{behind}");
    assert_eq!(behind.data().len(), count, "{behind}");
    let received = filled.receiver.wait_for(came + count).await;
    let ids: std::collections::BTreeSet<String> = received
        .iter()
        .map(|request| request.event()["id"].to_string())
        .collect();
    assert_eq!(ids.len(), received.len(), "an event came twice");
    let last = behind.body["data"].as_array().unwrap().last().unwrap();
    let known: Vec<Value> = received.iter().map(|request| request.event()).collect();
    assert!(known.iter().any(|event| event["id"] == last["id"]));
}

#[tokio::test]
async fn everything_is_answered_as_before_in_another_file() {
    assert_moves(&[Place::sqlite(), Place::sqlite()]).await;
}

#[tokio::test]
async fn everything_is_answered_as_before_in_a_file_and_then_in_two_other_databases() {
    let places = [
        Place::mongodb(),
        Place::sqlite(),
        Place::mongodb(),
        Place::mongodb(),
    ];
    assert_moves(&places).await;
}

#[tokio::test]
async fn what_an_account_used_moves_along_and_counts_for_its_quota() {
    let places = [
        Place::sqlite(),
        Place::mongodb(),
        Place::mongodb(),
        Place::sqlite(),
    ];
    let mut server = places[0].setup().start();
    let account = server.account().await;
    let (c, made) = account.key(json!({"type": "test"})).await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let quota = json!({"monthly_quota": 11});
    account.operator().patch(&at, quota).await.expect(200);
    for _ in 0..3 {
        c.get("/v1").await.expect(200);
    }
    let mut text = "a text".to_owned();
    let document = account.live().document(&text).await;
    for pair in places.windows(2) {
        assert!(server.term().success());
        server = moved(&server, &pair[0], &pair[1]);
        let live = account.live().at(&server.address());
        let usage = live.get("/v1/usage?group_by=key").await.expect(200);
        assert_eq!(usage["meta"]["stored"]["bytes"], text.len(), "{usage}");
        text.push_str(" and more");
        let body = json!({"content": text});
        live.put(&document, body).await.expect(200);
        let row = usage.data().iter();
        let row = row.clone().find(|row| row["key_id"] == made["key_id"]);
        assert_eq!(row.unwrap()["requests"], 3, "{usage}");
    }
    let c = c.at(&server.address());
    c.get("/v1").await.expect(200);
    c.get("/v1").await.error(429, "quota_exceeded", "");
}

/// Puts the files of attachments where a server in the other folder looks for them.
fn bring_objects(from: &Path, to: &Path) {
    for path in files::below(&from.join("data/objects")) {
        let place = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(path, place).unwrap();
    }
}

#[tokio::test]
async fn attachments_move_along_their_bytes_stay_where_they_are_kept() {
    let places = [Place::sqlite(), Place::mongodb(), Place::sqlite()];
    let mut server = places[0].setup().start();
    let c = server.account().await.test();
    let (taken, untaken) = (uploaded(&c, "taken").await, uploaded(&c, "not taken").await);
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let message = |id: &str| json!({"type": "file", "attachment_id": id});
    let sent = c.post(&messages, message(&taken)).await.expect(201);
    let at = format!("{messages}/{}", sent.id("message_id"));
    for pair in places.windows(2) {
        assert!(server.term().success());
        let dump = pair[0].export(&server.work());
        let folder = Folder::new();
        pair[1].import(&folder.work(), &dump);
        bring_objects(&server.work(), &folder.work());
        server = pair[1].start_imported(folder);
        let c = c.at(&server.address());
        for (id, content) in [(&taken, "taken"), (&untaken, "not taken")] {
            let read = c.get(&content_of(id)).await;
            assert_eq!(read.expect(200).bytes, content.as_bytes());
        }
        assert_eq!(
            c.get(&at).await.expect(200)["attachment"],
            sent["attachment"]
        );
        let again = c.post(&messages, message(&taken)).await;
        again.error(409, "conflict", "attachment_id");
    }
    let c = c.at(&server.address());
    c.post(&messages, message(&untaken)).await.expect(201);
    c.delete(&at).await.expect(204);
    let objects = server.work().join("data/objects");
    until("its bytes are gone", SOON, async || {
        (files::below(&objects).len() == 1).then_some(())
    })
    .await;
    assert!(server.term().success());
    server.assert_sound();
}

#[tokio::test]
async fn a_proven_domain_moves_along_and_is_still_nobody_elses() {
    let places = [Place::sqlite(), Place::mongodb(), Place::sqlite()];
    let names = Nameserver::start();
    let nameservers = format!("[\"{}\"]", names.address());
    let setup = places[0].setup();
    let mut server = setup
        .env("COLLOQUY__DOMAINS__NAMESERVERS", &nameservers)
        .start();
    let (a, b) = (server.account().await, server.account().await);
    let host = domains::host();
    domains::prove(&names, &a, &host).await;
    for pair in places.windows(2) {
        assert!(server.term().success());
        server = moved(&server, &pair[0], &pair[1]);
        let there = |c: Client| c.at(&server.address()).get("/v1").with("host", &host);
        there(a.test()).await.expect(200);
        there(b.test()).await.error(404, "not_found", "");
        let operator = b.operator().at(&server.address());
        let wanted = operator.patch(&domains::at(&b), json!({"domains": [host]}));
        wanted.await.error(409, "conflict", "domains[0]");
    }
    assert!(server.term().success());
    server.assert_sound();
}

/// A filled embedded store that has ended, and its dump.
async fn dumped() -> (Server, Vec<u8>) {
    let mut server = Place::sqlite().setup().start();
    Filled::server(&server).await;
    assert!(server.term().success());
    let dump = Place::sqlite().export(&server.work());
    let dump = fs::read(dump).unwrap();
    (server, dump)
}

#[tokio::test]
async fn a_dump_is_lines_of_json_with_readable_texts() {
    let (_server, dump) = dumped().await;
    let text = String::from_utf8(dump).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["dump"]["format"], "colloquy");
    assert_eq!(lines[0]["dump"]["version"], 1);
    assert_eq!(lines[0]["dump"]["source"]["store"], "sqlite");
    let end = &lines.last().unwrap()["end"];
    assert_eq!(end["lines"], lines.len() - 1);
    let conversations = lines.iter().filter(|line| line["conversation"].is_object());
    assert_eq!(end["counts"]["conversation"], conversations.count());
    for readable in [
        "The first of 1 ☕",
        "Blaise Pascal",
        "what the receiver says",
    ] {
        assert!(text.contains(readable), "{readable}");
    }
    assert!(
        !text.contains("$bytes"),
        "something is not as readable as it could be"
    );
}

#[tokio::test]
async fn what_is_no_whole_dump_is_refused_and_no_server_starts_on_a_part() {
    let (_server, dump) = dumped().await;
    for to in [Place::sqlite(), Place::mongodb()] {
        assert_takes_only_the_whole(&to, &dump);
    }
}

fn assert_takes_only_the_whole(to: &Place, dump: &[u8]) {
    let folder = Folder::new();
    let work = folder.work();
    to.refused(&work, b"", "the input is empty");
    to.refused(&work, b"PGDMP\x01\n", "no dump");
    to.refused(&work, b"{\"some\":\"json\"}\n", "no dump");
    let mut altered = dump.to_vec();
    let place = dump.len() / 2;
    altered[place] = if altered[place] == b'a' { b'b' } else { b'a' };
    to.refused(&work, &altered, "not as it was exported");
    to.refused(&work, &dump[..dump.len() * 2 / 3], "cut off");
    let (status, said) = to.setup().refused_in(&work);
    assert!(!status.success());
    assert!(said.contains("only a part of a dump"), "{said}");
    // It would take the part for a store that a crash has left.
    assert_refused(&to.check(&work), "only a part of a dump");
    let file = work.join("whole.ndjson");
    fs::write(&file, dump).unwrap();
    to.import(&work, &file);
    // Once more changes nothing.
    to.import(&work, &file);
    let mut server = to.start_imported(folder);
    assert!(server.term().success());
    server.assert_sound();
}

#[tokio::test]
async fn a_store_that_holds_something_else_takes_no_dump() {
    let (server, dump) = dumped().await;
    let to = Place::sqlite();
    to.refused(&server.work(), &dump, "the store is not empty");
    let mut fresh = to.setup().start();
    assert!(fresh.term().success());
    to.refused(&fresh.work(), &dump, "the store is not empty");
    let other = to.export(&fresh.work());
    let folder = Folder::new();
    to.refused(&folder.work(), &dump[..dump.len() * 2 / 3], "cut off");
    let other = fs::read(other).unwrap();
    to.refused(&folder.work(), &other, "a part of another dump");
}

#[tokio::test]
async fn a_store_that_a_server_uses_is_neither_exported_nor_imported_into() {
    for place in [Place::sqlite(), Place::mongodb()] {
        let nowhere = Folder::new();
        let dump = nowhere.work().join("dump.ndjson");
        let absent = place.try_export(&nowhere.work(), &dump);
        assert_refused(&absent, "there is no store to export");
        let server = place.setup().start();
        assert_refused(&place.try_export(&server.work(), &dump), "in use");
        assert_eq!(fs::read(&dump).unwrap(), b"", "nothing is written");
        assert_refused(&place.try_import(&server.work(), &dump), "in use");
    }
}

#[tokio::test]
async fn a_store_whose_server_was_killed_is_in_use_no_more() {
    for place in [Place::sqlite(), Place::mongodb()] {
        let mut server = place.setup().start();
        server.kill9();
        place.export(&server.work());
    }
}

#[tokio::test]
async fn an_import_that_is_killed_goes_on_where_it_stopped() {
    let (_server, dump) = dumped().await;
    for to in [Place::sqlite(), Place::mongodb()] {
        assert_survives_kills(&to, &dump);
    }
}

/// Kills imports at several places of the dump; the whole one completes them.
fn assert_survives_kills(to: &Place, dump: &[u8]) {
    let folder = Folder::new();
    for part in [3, 5, 8] {
        let mut import = to.begin_import(&folder.work());
        let mut input = import.stdin.take().unwrap();
        input.write_all(&dump[..dump.len() * part / 10]).unwrap();
        input.flush().unwrap();
        import.kill().unwrap();
        import.wait().unwrap();
    }
    let file = folder.work().join("whole.ndjson");
    fs::write(&file, dump).unwrap();
    to.import(&folder.work(), &file);
    let mut server = to.start_imported(folder);
    assert!(server.term().success());
}

/// Somebody's erasure is under way when the server is killed: what is exported then holds no word of
/// theirs, and the erasure is finished where it is imported.
async fn assert_erased_on_the_way(from: &Place, to: &Place) {
    let mut server = from.setup().start();
    let account = server.account().await;
    let c = account.test();
    let mut somebody = Somebody::talking(&c).await;
    let (id, words) = (somebody.customer.clone(), &mut somebody.words);
    begin_many(&c, &id, (40, words)).await;
    let neighbour = Somebody::talking(&c).await;
    let begun = erased(&c, &somebody.customer).await;
    server.kill9();
    let dump = from.export(&server.work());
    let text = fs::read_to_string(&dump).unwrap();
    for word in &somebody.words.0 {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains(&neighbour.words.0[0]));
    let folder = Folder::new();
    to.import(&folder.work(), &dump);
    bring_objects(&server.work(), &folder.work());
    let mut next = to.start_imported(folder);
    let c = c.at(&next.address());
    finished(&c, &begun.id("erasure_id")).await;
    for path in somebody.paths() {
        c.get(&path).await.error(404, "not_found", "");
    }
    for path in neighbour.paths() {
        c.get(&path).await.expect(200);
    }
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 2);
    assert_eq!(somebody.words.found(&next), BTreeSet::new());
    assert!(next.term().success());
    next.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_in_the_middle_of_an_erasure_holds_no_word_in_another_file() {
    assert_erased_on_the_way(&Place::sqlite(), &Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_in_the_middle_of_an_erasure_holds_no_word_on_mongodb() {
    assert_erased_on_the_way(&Place::sqlite(), &Place::mongodb()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_of_mongodb_in_the_middle_of_an_erasure_holds_no_word() {
    assert_erased_on_the_way(&Place::mongodb(), &Place::sqlite()).await;
}

/// On a database files go behind their conversations: another node could have one reopened meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_right_after_retention_names_no_file_of_what_is_gone() {
    let place = Place::sqlite();
    let (mut server, clock) = Clock::start_as(place.setup());
    let account = server.account().await;
    let c = account.test();
    let (mut words, mut conversations) = (Words::default(), Vec::new());
    for _ in 0..60 {
        let (conversation, word) = (c.conversation().await, words.next("filename"));
        let file = upload(&c, &format!("{word}.txt"), &word).await;
        let file = json!({"type": "file", "attachment_id": file.expect(201).id("attachment_id")});
        let at = format!("/v1/conversations/{conversation}");
        c.post(&format!("{at}/messages"), file).await.expect(201);
        c.post(&format!("{at}/close"), json!({})).await.expect(200);
        conversations.push(at);
    }
    let of = format!("/admin/v1/accounts/{}", account.account_id);
    let keeps = json!({"retention_days": 2});
    account.operator().patch(&of, keeps).await.expect(200);
    clock.ahead(3 * 24 * 60);
    until("all are gone", Duration::from_secs(90), async || {
        (c.get("/v1/conversations").await.expect(200).total() == 0).then_some(())
    })
    .await;
    server.kill9();
    let dump = fs::read_to_string(place.export(&server.work())).unwrap();
    for word in &words.0 {
        assert!(!dump.contains(word), "{word}");
    }
    server.restart();
    let objects = server.work().join("data/objects");
    until("no file is left", SOON, async || {
        files::below(&objects).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_encrypted_store_is_moved_as_it_is() {
    let encrypted = |place: &Place| place.setup().env("COLLOQUY__ENCRYPTION__ENABLED", "true");
    let (from, to) = (Place::sqlite(), Place::mongodb());
    let mut server = encrypted(&from).start();
    let account = server.account().await;
    let c = account.test();
    let conversation = c.conversation().await;
    c.message(&conversation, "words that nobody may read").await;
    let document = c.document("content that nobody may read").await;
    let paths = [
        "/v1/customers".to_owned(),
        "/v1/events?limit=100".to_owned(),
        format!("/v1/conversations/{conversation}/messages"),
        document,
    ];
    let mut before = Vec::new();
    for path in &paths {
        before.push(c.get(path).await.expect(200).body);
    }
    assert!(server.term().success());
    let dump = from.export(&server.work());
    let text = fs::read_to_string(&dump).unwrap();
    assert!(!text.contains("that nobody may read"));
    let folder = Folder::new();
    to.import(&folder.work(), &dump);
    let moved = encrypted(&to).known().start_in(folder);
    let c = moved.with_key(account.test_key());
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(c.get(path).await.expect(200).body, before, "{path}");
    }
}

#[tokio::test]
async fn a_dump_needs_a_master_key_that_opens_it() {
    const OTHER: &str = "HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const PRESENT: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
    const PREVIOUS: &str = "COLLOQUY__ENCRYPTION__PREVIOUS_MASTER_KEY";
    let (_server, dump) = dumped().await;
    for to in [Place::sqlite(), Place::mongodb()] {
        let folder = Folder::new();
        let file = folder.work().join("whole.ndjson");
        fs::write(&file, &dump).unwrap();
        for (key, at_hand) in [(OTHER, "at hand is "), ("", "at hand is none")] {
            let refused = to.import_with(&folder.work(), &file, &[(PRESENT, key)]);
            assert_refused(&refused, "the store is under the master key named");
            assert!(said(&refused).contains(at_hand), "{}", said(&refused));
        }
        let imported = to.import_with(
            &folder.work(),
            &file,
            &[(PRESENT, OTHER), (PREVIOUS, MASTER_KEY)],
        );
        assert!(imported.status.success(), "{}", said(&imported));
        let setup = to.setup().env(PRESENT, OTHER).env(PREVIOUS, MASTER_KEY);
        let server = setup.known().start_in(folder);
        let state = server
            .operator()
            .get("/admin/v1/encryption")
            .await
            .expect(200);
        assert_ne!(state.body["wrapped_under"], state.body["master_key"]);
        assert_eq!(
            state.body["wrapped_under"],
            state.body["previous_master_key"]
        );
    }
}
