//! `[encryption] enabled`: what people write is in no file, is read again by those who may, and is gone
//! for good when the keys of its account are destroyed.

use std::collections::HashSet;
use std::process::Output;
use std::time::Duration;

use serde_json::json;
use sha2::Digest;

use crate::oauth::{Authority, Registered};
use crate::support::account::Account;
use crate::support::documents::DOCUMENTS;
use crate::support::receiver::{Received, Reply};
use crate::support::server::Folder;
use crate::support::{
    Client, OPERATOR, Person, Receiver, Server, Setup, mongodb, process, stored, unique, until,
};

const ENABLED: &str = "COLLOQUY__ENCRYPTION__ENABLED";
const MASTER_KEY: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
/// 32 bytes in base64.
const GIVEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// A redacted text, and a destroyed key, is in no file any more after this.
const GONE_WITHIN: Duration = Duration::from_secs(30);

fn encrypting() -> Setup {
    Setup::default()
        .delivering("[0.05]", "5")
        .env(ENABLED, "true")
        .env(MASTER_KEY, GIVEN)
}

/// Words that nobody else writes, one for each place in which people write.
struct Words {
    all: Vec<String>,
}

impl Words {
    fn new() -> Self {
        Words { all: Vec::new() }
    }

    fn next(&mut self, place: &str) -> String {
        let word = unique(place).replace('-', "x").to_lowercase();
        self.all.push(word.clone());
        word
    }

    /// The places in the store that hold any of them.
    fn found(&self, server: &Server) -> Vec<(String, Vec<std::path::PathBuf>)> {
        let places = |word: &String| (word.clone(), server.places_with(word));
        let found = self.all.iter().map(places);
        found.filter(|(_, places)| !places.is_empty()).collect()
    }
}

/// What was written of customers and conversations: paths, and what they must show.
async fn talk(c: &Client, words: &mut Words) -> Vec<(String, String)> {
    let (name, external) = (words.next("name"), words.next("external"));
    let email = format!("{}@example.com", words.next("email"));
    let body = json!({
        "name": name, "email": email, "external_id": external, "metadata": {"note": words.next("ofcustomer")},
    });
    let made = c.post("/v1/customers", body).await.expect(201);
    let customer = made.id("customer_id");
    let taken = json!({"name": "another", "external_id": external});
    c.post("/v1/customers", taken)
        .await
        .error(409, "conflict", "external_id");
    let first = words.next("initial");
    let body = json!({
        "customer_id": customer, "initial_message": first, "metadata": {"note": words.next("ofconversation")},
    });
    let begun = c
        .post("/v1/conversations", body)
        .with("idempotency-key", "begun-once")
        .await
        .expect(201);
    let at = format!("/v1/conversations/{}", begun.id("conversation_id"));
    let body =
        json!({"content": words.next("said"), "metadata": {"note": words.next("ofmessage")}});
    let sent = c.post(&format!("{at}/messages"), body).await.expect(201);
    let message = sent.header("location").to_owned();
    let edited = words.next("edited");
    c.patch(&message, json!({"content": edited}))
        .await
        .expect(200);
    let renamed = words.next("renamed");
    c.patch(
        &format!("/v1/customers/{customer}"),
        json!({"name": renamed}),
    )
    .await
    .expect(200);
    let said = &words.all;
    let shown = |path: String, word: &str| {
        let word = said.iter().find(|one| one.starts_with(word)).unwrap();
        (path, word.clone())
    };
    vec![
        shown(format!("/v1/customers/{customer}"), "renamed"),
        shown(format!("/v1/customers?email={email}"), "ofcustomer"),
        shown(format!("/v1/customers?external_id={external}"), "email"),
        shown(at.clone(), "ofconversation"),
        shown("/v1/conversations".to_owned(), "renamed"),
        shown(format!("{at}/messages"), "edited"),
        shown(format!("{at}/messages?order=asc"), "initial"),
        shown(message.clone(), "ofmessage"),
        shown(format!("{message}/revisions"), "said"),
        shown(format!("{at}/events"), "edited"),
        shown("/v1/events".to_owned(), "initial"),
    ]
}

/// The same of documents.
async fn write(c: &Client, words: &mut Words) -> Vec<(String, String)> {
    let (title, content) = (words.next("title"), words.next("content"));
    let metadata = json!({"note": words.next("ofdocument")});
    let body = json!({"title": title, "content": content, "metadata": metadata});
    let made = c.post(DOCUMENTS, body).await.expect(201);
    let at = made.header("location").to_owned();
    let (label, branch) = (words.next("label"), words.next("branch"));
    let body = json!({
        "content": words.next("second"), "label": label, "message": words.next("about"), "branch": branch,
    });
    c.version(&at, body).await;
    let comment = json!({"body": words.next("comment"), "start_line": 1, "end_line": 1});
    c.post(&format!("{at}/comments"), comment).await.expect(201);
    let said = &words.all;
    let shown = |path: String, word: &str| {
        let word = said.iter().find(|one| one.starts_with(word)).unwrap();
        (path, word.clone())
    };
    vec![
        shown(at.clone(), "content"),
        shown(at.clone(), "ofdocument"),
        shown(DOCUMENTS.to_owned(), "title"),
        shown(format!("{at}/versions"), "about"),
        shown(format!("{at}/versions?branch={branch}"), "label"),
        shown(format!("{at}/versions/{label}"), "second"),
        shown(format!("{at}/comments"), "comment"),
        shown("/v1/events?limit=100".to_owned(), "title"),
    ]
}

async fn assert_shown(c: &Client, shown: &[(String, String)]) {
    for (path, word) in shown {
        let answer = c.get(path).await.expect(200);
        assert!(answer.body.to_string().contains(word), "{path}: {answer}");
    }
}

#[tokio::test]
async fn what_people_write_is_in_no_file_and_is_read_again_after_kill_9() {
    let mut words = Words::new();
    let heard = words.next("heard");
    let receiver = Receiver::start().await;
    let mut server = encrypting().start();
    let account = server.account().await;
    let c = account.test();
    let hook = json!({"url": receiver.url(), "events": ["conversation.created"]});
    let hook = c.post("/v1/webhooks", hook).await.expect(201);
    let answer = heard.clone();
    receiver.answer(move |_| Reply::with_body(200, &answer));
    let mut shown = talk(&c, &mut words).await;
    shown.extend(write(&c, &mut words).await);
    assert_shown(&c, &shown).await;
    let delivered = receiver.wait_for(1).await.remove(0);
    assert!(delivered.event().to_string().contains("ofconversation"));
    let deliveries = format!("/v1/webhooks/{}/deliveries", hook.id("webhook_id"));
    let log = until("the delivery's log", GONE_WITHIN, async || {
        let list = c.get(&deliveries).await.expect(200);
        let id = list["data"][0]["delivery_id"].as_str()?.to_owned();
        let one = c.get(&format!("{deliveries}/{id}")).await.expect(200);
        one.body.to_string().contains(&heard).then_some(one)
    });
    log.await;
    let search = c.get("/v1/conversations?q=renamed").await;
    search.error(400, "invalid_request", "q");
    c.get("/api/v1/documents?q=title")
        .await
        .error(400, "invalid_request", "q");
    let sorted = c.get("/api/v1/documents?sort=title").await;
    sorted.error(400, "invalid_request", "sort");

    server.kill9();
    assert_eq!(words.found(&server), [], "in plain");
    server.restart();
    let c = server.with_key(account.test_key());
    assert_shown(&c, &shown).await;
    assert_eq!(server.term().code(), Some(0));
    assert_eq!(words.found(&server), [], "in plain");
    server.assert_sound();
}

#[tokio::test]
async fn redaction_and_erasure_leave_encrypted_things_as_they_leave_plain_ones() {
    let server = encrypting().start();
    let c = server.account().await.test();
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let sent = c.post(&format!("{at}/messages"), json!({"content": "a secret"}));
    let message = sent.await.expect(201).header("location").to_owned();
    c.patch(&message, json!({"content": "another"}))
        .await
        .expect(200);
    c.delete(&message).await.expect(204);
    let redacted = c.get(&message).await.expect(200);
    assert_eq!(
        (&redacted["redacted"], &redacted["content"]),
        (&json!(true), &json!(""))
    );
    let earlier = c.get(&format!("{message}/revisions")).await.expect(200);
    assert!(!earlier.body.to_string().contains("secret"), "{earlier}");
    let document = c.document("of no use").await;
    c.delete(&format!("{document}?permanent=true")).await;
    let events = c.get("/v1/events?limit=100").await.expect(200);
    assert!(!events.body.to_string().contains("secret"), "{events}");
    server.assert_quiet();
}

/// What is found by its value tells nobody that two accounts have the same.
#[tokio::test]
async fn equal_words_of_two_accounts_are_not_equal_in_the_store() {
    let server = encrypting().start();
    let email = "ada@example.com";
    for account in [server.account().await, server.account().await] {
        let c = account.test();
        let body = json!({"name": "Ada", "email": email, "external_id": "ada"});
        c.post("/v1/customers", body).await.expect(201);
        let at = c.document("a text").await;
        c.version(&at, json!({"content": "another", "branch": "draft"}))
            .await;
    }
    let file = server.work().join("data/colloquy.db");
    let written = |sql| {
        let rows = stored::query(&file, sql, &[]);
        let texts = rows.iter().map(|row| row[0].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    let mut found =
        written("SELECT value FROM names WHERE value GLOB '[0-9a-f]*' AND length(value) = 64");
    assert_eq!(found.len(), 4, "{found:?}");
    // Without account and number, as much as tells the nonce.
    let branches = written("SELECT branch FROM versions WHERE branch <> ''");
    assert_eq!(branches.len(), 2, "{branches:?}");
    found.extend(branches.iter().map(|branch| {
        let (_, sealed) = branch.split_once(':').unwrap();
        sealed[..16].to_owned()
    }));
    let different: HashSet<&String> = found.iter().collect();
    assert_eq!(different.len(), found.len(), "{found:?}");
    // Nor is a hash one that everybody can make.
    for value in [email, "ada"] {
        let hash = sha2::Sha256::digest(value);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!found.contains(&hash), "{found:?}");
    }
}

#[test]
fn it_wants_a_master_key_that_is_given() {
    let folder = Folder::new();
    let setup = Setup::default().env(ENABLED, "true");
    let (status, output) = setup.refused_in(&folder.work());
    assert!(!status.success());
    assert!(output.contains("`encryption.enabled`"), "{output}");
}

#[tokio::test]
async fn whether_texts_are_encrypted_is_settled_when_the_store_is_made() {
    for (first, then, said) in [
        ("true", "false", "texts are encrypted in this store"),
        ("false", "true", "texts are not encrypted in this store"),
    ] {
        let setup = |enabled: &str| encrypting().env(ENABLED, enabled);
        let mut server = setup(first).start();
        let account = server.account().await;
        let customer = account.test().customer().await;
        server.term();
        let (status, output) = setup(then).known().refused_in(&server.work());
        assert!(!status.success());
        assert!(output.contains(said), "{output}");
        server.restart();
        let c = server.with_key(account.test_key());
        c.get(&format!("/v1/customers/{customer}"))
            .await
            .expect(200);
    }
}

fn forget(server: &Server, account: &str) -> Output {
    let mut command = process::colloquy();
    command
        .args(["encryption", "forget-account", account])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    command.output().unwrap()
}

/// The keys of an account's texts, as the store holds them.
fn sealed_keys(account: &Account, server: &Server) -> String {
    let file = server.work().join("data/colloquy.db");
    let sql = "SELECT json_extract(body, '$.text_keys') FROM records WHERE json_extract(body, '$.account_id') = ?1";
    let found = stored::query(&file, sql, &[json!(account.account_id)]);
    let keys = found[0][0].as_str().unwrap().to_owned();
    assert!(keys.starts_with("sealed:"), "they stand there in plain");
    keys
}

/// That operators can't change an account that was forgotten, and are told so.
async fn assert_nothing_can_be_made_in(account: &Account, server: &Server) {
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let change = account.operator().patch(&path, json!({"name": "Again"}));
    change.await.error(409, "conflict", "");
    let key = json!({"type": "test"});
    let key = account.operator().post(&format!("{path}/keys"), key);
    key.await.error(409, "conflict", "");
    let keys_path = format!("{path}/keys");
    let listed = account.operator().get(&keys_path).await.expect(200);
    let rotate = format!(
        "/admin/v1/keys/{}/rotate",
        listed["data"][0]["key_id"].as_str().unwrap()
    );
    let rotate = account.operator().post(&rotate, json!({}));
    rotate.await.error(409, "conflict", "");
    let operator = Person::operator(server).await;
    let page = operator
        .page(&format!("/console/accounts/{}", account.account_id))
        .await;
    assert!(page.contains("was forgotten") && !page.contains("Save"));
    assert!(
        operator
            .page("/console/accounts")
            .await
            .contains("forgotten")
    );
}

#[tokio::test]
async fn an_account_that_is_forgotten_lets_nobody_in_and_can_be_read_by_nobody() {
    let mut server = encrypting().start();
    let (account, other) = (server.account().await, server.account().await);
    let (c, neighbour) = (account.test(), other.test());
    let mut words = Words::new();
    talk(&c, &mut words).await;
    let shown = talk(&neighbour, &mut Words::new()).await;
    let (_, link) = c.share(&c.document("shared").await, json!({})).await;
    let keys = (!mongodb::is_used()).then(|| sealed_keys(&account, &server));
    if let Some(keys) = &keys {
        assert!(!server.places_with(keys).is_empty(), "the search is blind");
    }

    let output = forget(&server, &account.account_id);
    assert!(output.status.success(), "{output:?}");
    let again = forget(&server, &account.account_id);
    assert_eq!(again.stdout, output.stdout, "once more changes nothing");

    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    account.anonymous().get(&link).await.expect(404);
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let told = account.operator().get(&path).await.expect(200);
    assert!(told["forgotten_at"].is_string(), "{told}");
    assert_nothing_can_be_made_in(&account, &server).await;
    let trail = account
        .operator()
        .get("/admin/v1/audit?action=account.forgotten");
    assert_eq!(
        trail.await.expect(200)["data"][0]["subject"]["id"],
        account.account_id
    );
    assert_shown(&neighbour, &shown).await;
    if let Some(keys) = &keys {
        until("no file holds the keys", GONE_WITHIN, async || {
            server.places_with(keys).is_empty().then_some(())
        })
        .await;
    }
    server.assert_quiet();

    server.kill9();
    server.restart();
    let c = server.with_key(account.test_key());
    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    assert_shown(&server.with_key(other.test_key()), &shown).await;
    assert_eq!(server.term().code(), Some(0));
    server.assert_sound();
}

#[tokio::test]
async fn what_waits_to_be_delivered_is_not_sent_once_its_account_is_forgotten() {
    let receiver = Receiver::start().await;
    receiver.answer(|_| Reply::status(500));
    let server = encrypting().delivering("[0.2, 0.2, 0.2, 0.2]", "5").start();
    let (account, other) = (server.account().await, server.account().await);
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    for c in [account.test(), other.test()] {
        c.post("/v1/webhooks", hook.clone()).await.expect(201);
    }
    let c = account.test();
    let conversation = c.conversation().await;
    for n in 0..20 {
        c.message(&conversation, &format!("of the forgotten {n}"))
            .await;
    }
    receiver.wait_for(1).await;
    let output = forget(&server, &account.account_id);
    assert!(output.status.success(), "{output:?}");
    receiver.answer(|_| Reply::ok());
    let before = receiver.count();
    // Whatever was under way has come by the time that something younger has.
    let neighbour = other.test();
    let conversation = neighbour.conversation().await;
    neighbour.message(&conversation, "of the neighbour").await;
    until("the neighbour's delivery", GONE_WITHIN, async || {
        let received = receiver.received();
        let is_there = |one: &Received| one.event().to_string().contains("of the neighbour");
        received.iter().any(is_there).then_some(())
    })
    .await;
    let later = receiver.received().split_off(before);
    let forgotten = |one: &&Received| one.event().to_string().contains("of the forgotten");
    // At most the one that was being sent when the account was forgotten.
    assert!(later.iter().filter(forgotten).count() <= 1);
    until("what waited is given up", GONE_WITHIN, async || {
        let path = "/admin/v1/webhooks";
        let list = account.operator().get(path).await.expect(200);
        (!list.body.to_string().contains("\"pending\":2")).then_some(())
    })
    .await;
    let later = receiver.received().split_off(before);
    assert!(later.iter().filter(forgotten).count() <= 1);
}

#[tokio::test]
async fn the_bin_of_a_forgotten_account_keeps_nothing_of_others_there() {
    let mut server = encrypting().start();
    let (account, other) = (server.account().await, server.account().await);
    // More than are looked at in one go, and before the neighbour's.
    for _ in 0..66 {
        let at = account.test().document("of the forgotten").await;
        account.test().delete(&at).await.expect(204);
    }
    let at = other.test().document("of the neighbour").await;
    other.test().delete(&at).await.expect(204);
    let output = forget(&server, &account.account_id);
    assert!(output.status.success(), "{output:?}");
    assert!(server.term().success());
    server.set_env("COLLOQUY__DOCUMENTS__BIN_DAYS", "0.00001");
    server.restart();
    let neighbour = other.test().at(&server.address());
    let bin = format!("{DOCUMENTS}?deleted=true");
    until("the neighbour's bin is emptied", GONE_WITHIN, async || {
        (neighbour.get(&bin).await.expect(200).total() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_signs_in_and_no_application_gets_a_token_of_an_account_that_is_forgotten() {
    let server = encrypting().start();
    let account = server.account().await;
    let person = Person::user(&account, "admin").await;
    let client = Registered::machine(&account.live()).await;
    let authority = Authority::of(&server);
    authority.credentials(&client).await;
    let path = format!("/admin/v1/accounts/{}/forget", account.account_id);
    let wrong = account.operator().post(&path, json!({}));
    let wrong = wrong.with("if-match", "\"nonsense\"").await;
    wrong.error(412, "precondition_failed", "");
    account.live().get("/v1/conversations").await.expect(200);
    account.operator().post(&path, json!({})).await.expect(200);
    let grant = [("grant_type", "client_credentials")];
    let refused = authority.post("/oauth/token", &client, &grant).await;
    refused.refused(401, "invalid_client");
    let page = person.get("/console/inbox").await.expect(303);
    assert!(page.location().contains("sign-in"), "{}", page.location());
}

#[tokio::test]
async fn an_account_whose_texts_are_not_encrypted_is_not_forgotten() {
    let server = Setup::default().start();
    let account = server.account().await;
    let output = forget(&server, &account.account_id);
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("not encrypted on this server"), "{words}");
    account.test().get("/v1/conversations").await.expect(200);
}
