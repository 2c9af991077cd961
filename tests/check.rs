//! `colloquy check` on both stores: what kill -9 leaves is sound, what was damaged is told, and a
//! store that a server uses is left alone.

use std::process::Output;

use serde_json::json;

use crate::support::server::{Folder, Setup};
use crate::support::{Account, Client, Server, mongodb};

/// A server whose store is a file.
fn on_sqlite() -> Server {
    Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .start()
}

/// A server whose store is a database.
fn on_mongodb() -> Server {
    let folder = Folder::new();
    let settings = mongodb::settings_of(&folder.work());
    let setup = settings.iter().fold(Setup::default(), |setup, setting| {
        setup.env(setting.0, &setting.1)
    });
    setup.start_in(folder)
}

/// Writes of every kind: headers, counters, names and texts follow from them.
async fn write(account: &Account) -> String {
    let c = account.test();
    let customer = c.customer().await;
    let user = c.user("agent").await;
    let conversation = c.conversation_of(&customer).await;
    let at = format!("/v1/conversations/{conversation}");
    let sent = c.message(&conversation, "written").await;
    let message = sent.header("location").to_owned();
    let edited = json!({"content": "written anew"});
    c.patch(&message, edited).await.expect(200);
    let assigned = json!({"assignee_id": user});
    c.patch(&at, assigned).await.expect(200);
    let another = json!({"type": "test", "name": "another"});
    let (_, key) = account.key(another).await;
    let key = format!("/admin/v1/keys/{}", key["key_id"].as_str().unwrap());
    account.operator().delete(&key).await.expect(204);
    let document = json!({"title": "Notes", "content": "one\n"});
    let owner = c.acting_for(&user);
    let documents = owner.post("/api/v1/documents", document);
    documents.await.expect(201);
    let closed = c.post(&format!("{at}/close"), json!({})).await;
    closed.expect(200);
    c.conversation_of(&customer).await
}

/// Sends messages until the server is killed in the middle of it.
async fn killed_while_written(server: &mut Server, c: &Client, conversation: &str) {
    let (first, mut begun) = tokio::sync::mpsc::channel(1);
    let (c, conversation) = (c.clone(), conversation.to_owned());
    let writing = tokio::spawn(async move {
        let at = format!("/v1/conversations/{conversation}/messages");
        for number in 0.. {
            let message = json!({"content": number.to_string(), "sender_type": "customer"});
            if c.post(&at, message).try_send().await.is_err() {
                return number;
            }
            // Nobody hears it any more when enough are sent.
            let _ = first.send(()).await;
        }
        0
    });
    for _ in 0..10 {
        begun.recv().await.unwrap();
    }
    drop(begun);
    server.kill9();
    assert!(writing.await.unwrap() >= 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_sound_after_kill_9_and_after_the_next_start() {
    for mut server in [on_sqlite(), on_mongodb()] {
        let account = server.account().await;
        let conversation = write(&account).await;
        killed_while_written(&mut server, &account.test(), &conversation).await;
        server.assert_sound();
        server.restart();
        let c = server.with_key(account.test_key());
        killed_while_written(&mut server, &c, &conversation).await;
        server.restart();
        let c = server.with_key(account.test_key());
        c.message(&conversation, "after both").await;
        assert!(server.term().success());
        server.assert_sound();
    }
}

fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[tokio::test]
async fn a_store_that_a_server_uses_is_not_checked() {
    for server in [on_sqlite(), on_mongodb()] {
        let check = server.check();
        assert_eq!(check.status.code(), Some(1), "{check:?}");
        assert!(said(&check).contains("in use"), "{check:?}");
        assert!(server.is_ready());
    }
}

#[tokio::test]
async fn what_is_lost_from_a_database_is_told() {
    let mut server = on_mongodb();
    let account = server.account().await;
    account.test().customer().await;
    assert!(server.term().success());
    server.assert_sound();
    mongodb::lose_one(&server.work(), "counters");
    let check = server.check();
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(said(&check).starts_with("counters: tenant "), "{check:?}");
}
