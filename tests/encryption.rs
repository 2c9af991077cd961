//! Secrets that must be read again are sealed at rest, under a master key that the start insists on.

use std::fs;

use serde_json::{Value, json};

use crate::support::server::{Folder, OPERATOR};
use crate::support::verify::assert_accepted;
use crate::support::{Receiver, Server, Setup, mongodb, process};

const MASTER_KEY: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
const MASTER_KEY_FILE: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY_FILE";
const PREVIOUS: &str = "COLLOQUY__ENCRYPTION__PREVIOUS_MASTER_KEY";
/// 32 other bytes in base64.
const NEXT: &str = "HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// 32 bytes in base64.
const GIVEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn delivering() -> Setup {
    Setup::default().delivering("[0.05]", "5")
}

#[tokio::test]
async fn what_signs_webhooks_is_in_no_file_and_signs_after_a_restart() {
    let receiver = Receiver::start().await;
    let mut server = delivering().start();
    let account = server.account().await;
    let c = account.test();
    let made = c
        .post("/v1/webhooks", json!({"url": receiver.url()}))
        .await
        .expect(201);
    let secret = made.body["secret"].as_str().unwrap().to_owned();
    let name = made.body["webhook_id"].as_str().unwrap().to_owned();
    server.kill9();
    assert_eq!(server.places_with(&secret), [] as [std::path::PathBuf; 0]);
    let bare = secret.trim_start_matches("whsec_");
    assert_eq!(server.places_with(bare), [] as [std::path::PathBuf; 0]);
    server.restart();
    let c = server.with_key(account.test_key());
    c.post(&format!("/v1/webhooks/{name}/test"), json!({}))
        .await
        .expect(200);
    assert_accepted(&receiver.wait_for(1).await.remove(0), &secret);
}

#[tokio::test]
async fn a_store_whose_master_key_is_gone_does_not_start_and_loses_nothing() {
    let mut server = delivering().start();
    let account = server.account().await;
    let made = account
        .test()
        .post("/v1/webhooks", json!({"url": "https://example.com/hook"}))
        .await
        .expect(201);
    server.term();
    let (path, away) = (
        server.work().join("data/colloquy.db.key"),
        server.work().join("kept-elsewhere"),
    );
    fs::rename(&path, &away).unwrap();
    let (status, output) = delivering().known().refused_in(&server.work());
    assert!(!status.success());
    assert!(
        output.contains("the master key is missing") && output.contains("colloquy.db.key"),
        "{output}"
    );
    assert!(!path.exists(), "no other key takes its place");
    fs::rename(&away, &path).unwrap();
    server.restart();
    let id = made.body["webhook_id"].as_str().unwrap();
    let c = server.with_key(account.test_key());
    c.get(&format!("/v1/webhooks/{id}")).await.expect(200);
}

#[test]
fn what_is_no_master_key_stops_the_start_and_is_not_shown() {
    let folder = Folder::new();
    let file = folder.work().join("master.key");
    fs::write(&file, "not a key").unwrap();
    let file = file.display().to_string();
    for (name, value, key) in [
        (MASTER_KEY, "c2hvcnQ=", "`encryption.master_key`"),
        (
            MASTER_KEY_FILE,
            "no/such/file",
            "`encryption.master_key_file`",
        ),
        (MASTER_KEY_FILE, &file, "`encryption.master_key_file`"),
    ] {
        let (status, output) = Setup::default().env(name, value).refused_in(&folder.work());
        assert!(!status.success());
        assert!(output.contains(key), "{output}");
        assert!(
            !output.contains("c2hvcnQ="),
            "a secret is not printed: {output}"
        );
    }
    let (status, output) = Setup::default()
        .env(PREVIOUS, GIVEN)
        .refused_in(&folder.work());
    assert!(
        !status.success() && output.contains("`encryption.previous_master_key`"),
        "{output}"
    );
    let both = Setup::default()
        .env(MASTER_KEY, GIVEN)
        .env(MASTER_KEY_FILE, &file);
    let (status, output) = both.refused_in(&folder.work());
    assert!(
        !status.success() && output.contains("must be empty where"),
        "{output}"
    );
}

/// What operators see of the master key.
async fn state(server: &Server) -> Value {
    let state = server.operator().get("/admin/v1/encryption").await;
    state.expect(200).body
}

/// Stops a server and starts it again with these master keys.
fn restart_with(server: &mut Server, present: &str, previous: &str) {
    server.term();
    server.set_env(MASTER_KEY, present);
    server.set_env(PREVIOUS, previous);
    server.restart();
}

/// Has a start with this master key alone refused.
fn assert_refused_with(server: &Server, key: &str) {
    let setup = delivering().known().env(MASTER_KEY, key);
    let (status, output) = setup.refused_in(&server.work());
    assert!(!status.success());
    assert!(
        output.contains("the store is under the master key named") && !output.contains(key),
        "{output}"
    );
}

/// Asks for a rotation from a terminal; gives what is printed.
fn rotate(server: &Server) -> String {
    let mut command = process::colloquy();
    command
        .args(["encryption", "rotate"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// An endpoint at this receiver; gives its secret.
async fn endpoint(server: &Server, key: &str, receiver: &Receiver) -> String {
    let made = server
        .with_key(key)
        .post("/v1/webhooks", json!({"url": receiver.url()}))
        .await
        .expect(201);
    made.body["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn another_master_key_takes_over_while_messages_and_signed_deliveries_go_on() {
    let receiver = Receiver::start().await;
    let mut server = delivering().env(MASTER_KEY, GIVEN).start();
    let account = server.account().await;
    let secret = endpoint(&server, account.test_key(), &receiver).await;
    let before = state(&server).await;
    assert_eq!(before["master_key"], before["wrapped_under"]);
    assert_eq!(before["previous_master_key"], Value::Null);
    assert_eq!(before["kept_with_store"], false);
    assert_refused_with_stopped(&mut server);
    restart_with(&mut server, NEXT, GIVEN);
    let between = state(&server).await;
    assert_eq!(between["wrapped_under"], before["master_key"]);
    assert_eq!(between["previous_master_key"], before["master_key"]);
    let c = server.with_key(account.test_key());
    let conversation = c.conversation().await;
    let messages = async {
        for number in 0..40 {
            c.message(&conversation, &format!("message {number}")).await;
        }
    };
    let rotation = async {
        let rotated = server
            .operator()
            .post("/admin/v1/encryption/rotate", json!({}));
        rotated.await.expect(200).body
    };
    let ((), rotated) = tokio::join!(messages, rotation);
    assert_eq!(rotated["was"], before["master_key"]);
    assert_eq!(rotated["master_key"], between["master_key"]);
    let said = rotate(&server);
    assert!(said.contains("Nothing was to be done"), "{said}");
    let trail = server
        .operator()
        .get("/admin/v1/audit?action=master_key.rotated");
    let trail = trail.await.expect(200);
    assert_eq!(trail.data().len(), 1, "{trail}");
    restart_with(&mut server, NEXT, "");
    let c = server.with_key(account.test_key());
    c.message(&conversation, "behind it").await;
    for delivered in receiver.wait_for(42).await {
        assert_accepted(&delivered, &secret);
    }
    if !mongodb::is_used() {
        assert_verified(&server);
    }
    server.term();
    assert_refused_with(&server, GIVEN);
    server.restart();
}

/// Another master key alone is refused, and the right one finds everything.
fn assert_refused_with_stopped(server: &mut Server) {
    server.term();
    assert_refused_with(server, NEXT);
    server.restart();
}

fn assert_verified(server: &Server) {
    let mut command = process::colloquy();
    command
        .args(["audit", "verify"])
        .current_dir(server.work())
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("the end is signed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_rotation_that_kill_9_meets_was_made_or_not_and_the_next_one_ends_it() {
    let receiver = Receiver::start().await;
    let mut server = delivering().env(MASTER_KEY, GIVEN).start();
    let account = server.account().await;
    let secret = endpoint(&server, account.test_key(), &receiver).await;
    let before = state(&server).await;
    restart_with(&mut server, NEXT, GIVEN);
    let operator = server.operator();
    let asked = tokio::spawn(async move {
        operator
            .post("/admin/v1/encryption/rotate", json!({}))
            .try_send()
            .await
            .is_ok()
    });
    tokio::task::yield_now().await;
    server.kill9();
    let was_answered = asked.await.unwrap();
    server.restart();
    let after = state(&server).await;
    let is_made = after["wrapped_under"] == after["master_key"];
    assert!(
        is_made || after["wrapped_under"] == before["master_key"],
        "{after}"
    );
    assert!(is_made || !was_answered, "{after}");
    rotate(&server);
    restart_with(&mut server, NEXT, "");
    server.with_key(account.test_key()).conversation().await;
    for delivered in receiver.wait_for(1).await {
        assert_accepted(&delivered, &secret);
    }
}

#[tokio::test]
async fn a_key_that_is_given_takes_the_place_of_the_one_kept_with_the_store() {
    let receiver = Receiver::start().await;
    let mut server = delivering().start();
    let account = server.account().await;
    let secret = endpoint(&server, account.test_key(), &receiver).await;
    let kept = state(&server).await;
    assert_eq!(kept["kept_with_store"], true);
    restart_with(&mut server, GIVEN, "");
    let given = state(&server).await;
    assert_eq!(given["previous_master_key"], kept["master_key"]);
    assert_eq!(given["wrapped_under"], kept["master_key"]);
    let said = rotate(&server);
    assert!(
        said.contains(kept["master_key"].as_str().unwrap()) && said.contains("may be thrown away"),
        "{said}"
    );
    server.term();
    if !mongodb::is_used() {
        fs::remove_file(server.work().join("data/colloquy.db.key")).unwrap();
    }
    server.restart();
    server.with_key(account.test_key()).conversation().await;
    assert_accepted(&receiver.wait_for(1).await.remove(0), &secret);
}
