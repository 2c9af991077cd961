//! `colloquy listen`: the account's events, signed and posted to a local address, each shown with
//! its answer.

use std::fs::{self, File};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::receiver::dead_url;
use crate::support::verify::{assert_accepted, assert_refused};
use crate::support::{
    Client, Proxy, Receiver, Reply, Server, account_with_client, process, until, until_now,
};

const SOON: Duration = Duration::from_secs(20);
/// A proxy that cuts nothing in a test's time.
const NEVER: u64 = 1 << 40;

/// A running `colloquy listen`; it is killed when it is dropped.
struct Listener {
    child: Child,
    folder: TempDir,
}

impl Listener {
    /// Starts it with these arguments, and with the key in the environment when there is one.
    fn spawn(arguments: &[&str], key: Option<&str>) -> Self {
        let folder = TempDir::with_prefix_in("listen-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let output = File::create(folder.path().join("output")).unwrap();
        let mut command = process::colloquy();
        command
            .arg("listen")
            .args(arguments)
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .env_remove("COLLOQUY_KEY");
        if let Some(key) = key {
            command.env("COLLOQUY_KEY", key);
        }
        command
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Self {
            child: process::spawn(command),
            folder,
        }
    }

    /// Starts it for a server and a receiver, and waits for its secret.
    async fn start(server: &str, target: &str, events: &str, key: &str) -> (Self, String) {
        let server = format!("http://{server}");
        let listener = Self::spawn(
            &[
                "--forward-to",
                target,
                "--events",
                events,
                "--server",
                &server,
            ],
            Some(key),
        );
        let secret = listener.secret().await;
        (listener, secret)
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("output")).unwrap()).into_owned()
    }

    /// The secret that it prints at its start.
    async fn secret(&self) -> String {
        until("listen prints a secret", SOON, async || {
            let text = self.printed();
            let rest = &text[text.find("whsec_")?..];
            let end = rest.find(|c: char| c.is_whitespace())?;
            Some(rest[..end].trim_matches(['"', '\'', '.', ',']).to_owned())
        })
        .await
    }

    /// Waits for a line with all of these words.
    async fn line(&self, words: &[&str]) -> String {
        until(
            &format!("listen prints a line with {words:?}"),
            SOON,
            async || {
                let text = self.printed();
                text.lines()
                    .find(|line| words.iter().all(|word| line.contains(word)))
                    .map(str::to_owned)
            },
        )
        .await
    }

    fn ended(&mut self) -> ExitStatus {
        until_now("listen has ended", SOON, || self.child.try_wait().unwrap())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- what listen printed:\n{}", self.printed());
        }
    }
}

/// Makes conversations until the listener has passed one on: it is then connected. Gives how many.
async fn connected(c: &Client, receiver: &Receiver) -> usize {
    let mut made = 0;
    until("the listener is connected", SOON, async || {
        if receiver.count() == 0 {
            c.conversation().await;
            made += 1;
        }
        (receiver.count() > 0).then_some(())
    })
    .await;
    made
}

/// The deliveries that carry the message.
fn with_text<'a>(all: &'a [crate::support::receiver::Received], text: &str) -> Vec<&'a str> {
    all.iter()
        .filter(|delivery| delivery.body.contains(text))
        .map(|delivery| delivery.body.as_str())
        .collect()
}

#[tokio::test]
async fn events_are_posted_signed_and_shown_with_their_answers() {
    let (account, c) = account_with_client().await;
    let receiver = Receiver::start().await;
    let (listener, secret) =
        Listener::start(c.address(), &receiver.url(), "*", account.test_key()).await;
    connected(&c, &receiver).await;
    let id = c.conversation().await;
    receiver.answer(|_| Reply::status(418));
    c.message(&id, "ünder way 🎈").await;
    let delivery = until("the message is posted", SOON, async || {
        receiver
            .received()
            .into_iter()
            .find(|delivery| delivery.body.contains("ünder way"))
    })
    .await;
    assert_accepted(&delivery, &secret);
    assert_refused(&delivery, &format!("whsec_{}=", "A".repeat(43)));
    assert_eq!(
        (delivery.method.as_str(), delivery.path.as_str()),
        ("POST", "/hook")
    );
    assert_eq!(delivery.header("content-type"), "application/json");
    let stored = c
        .get(&format!("/v1/conversations/{id}/events?after=1"))
        .await
        .expect(200);
    assert_eq!(stored["data"][0], delivery.event());
    assert_eq!(
        delivery.header("webhook-id"),
        stored["data"][0]["id"].as_str().unwrap()
    );
    listener.line(&["message.created", "418"]).await;
    listener.line(&["conversation.created", "200"]).await;
    assert!(
        !listener.printed().contains(account.test_key()),
        "the key is printed"
    );
}

#[tokio::test]
async fn only_the_named_kinds_are_posted() {
    let (account, c) = account_with_client().await;
    let receiver = Receiver::start().await;
    let kinds = "conversation.created,conversation.closed";
    let (_listener, _) =
        Listener::start(c.address(), &receiver.url(), kinds, account.test_key()).await;
    let made = connected(&c, &receiver).await;
    let id = c.conversation().await;
    c.message(&id, "not wanted").await;
    c.call("POST", &format!("/v1/conversations/{id}/close"))
        .await
        .expect(200);
    let all = until("the closing is posted", SOON, async || {
        let all = receiver.received();
        all.iter()
            .any(|delivery| delivery.kind() == "conversation.closed")
            .then_some(all)
    })
    .await;
    assert!(
        all.iter()
            .all(|delivery| delivery.kind() != "message.created"),
        "{all:?}"
    );
    assert!(all.len() <= made + 2, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_loses_and_repeats_nothing() {
    let mut server = Server::start();
    let account = server.account().await;
    let (key, c) = (account.test_key().to_owned(), account.test());
    let receiver = Receiver::start().await;
    let proxy = Proxy::start(&server.address(), NEVER).await;
    let (_listener, _) = Listener::start(&proxy.address(), &receiver.url(), "*", &key).await;
    connected(&c, &receiver).await;
    let id = c.conversation().await;
    for round in 0..3 {
        server.restart();
        let c = server.with_key(&key);
        // Committed while the listener is away: it can't have found the new address yet.
        c.message(&id, &format!("during restart {round}")).await;
        proxy.lead_to(&server.address());
        until("the listener has resumed", SOON, async || {
            receiver
                .received()
                .iter()
                .any(|one| one.body.contains(&format!("during restart {round}")))
                .then_some(())
        })
        .await;
    }
    let all = receiver.received();
    for round in 0..3 {
        assert_eq!(with_text(&all, &format!("during restart {round}")).len(), 1);
    }
    let seqs: Vec<u64> = all
        .iter()
        .map(crate::support::receiver::Received::event)
        .filter(|event| event["data"]["conversation_id"] == json!(id))
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_target_that_is_away_is_shown_and_does_not_end_it() {
    let (account, c) = account_with_client().await;
    let (mut listener, _) =
        Listener::start(c.address(), &dead_url().await, "*", account.test_key()).await;
    until("a failure is shown", SOON, async || {
        c.conversation().await;
        let text = listener.printed();
        text.lines()
            .any(|line| line.contains("conversation.created"))
            .then_some(())
    })
    .await;
    assert!(
        listener.child.try_wait().unwrap().is_none(),
        "{}",
        listener.printed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_work_ends_with_a_word_on_what_is_wrong() {
    let (account, c) = account_with_client().await;
    let server = format!("http://{}", c.address());
    let target = dead_url().await;
    let wrong = "sk_test_0000000000000000000000000000000000000000000000000";
    let base = ["--forward-to", &target, "--server", &server];
    let unknown_kind = [&base[..], &["--events", "message.deleted"]].concat();
    for (arguments, key, said) in [
        (&base[..], None, "COLLOQUY_KEY"),
        (&base[..], Some(wrong), "API key"),
        (&base[2..], Some(account.test_key()), "--forward-to"),
        (
            &unknown_kind[..],
            Some(account.test_key()),
            "message.deleted",
        ),
        (
            &["--forward-to", "nonsense", "--server", &server][..],
            Some(account.test_key()),
            "nonsense",
        ),
    ] {
        let mut listener = Listener::spawn(arguments, key);
        let status = listener.ended();
        let printed = listener.printed();
        assert!(
            !status.success() && printed.contains(said),
            "{arguments:?} ended with {status}: {printed}"
        );
        assert!(!printed.contains("panicked"), "{printed}");
    }
}

#[tokio::test]
async fn the_key_may_stand_in_an_argument() {
    let (account, c) = account_with_client().await;
    let receiver = Receiver::start().await;
    let (server, url) = (format!("http://{}", c.address()), receiver.url());
    let arguments = [
        "--forward-to",
        &url,
        "--events",
        "*",
        "--server",
        &server,
        "--key",
        account.test_key(),
    ];
    let listener = Listener::spawn(&arguments, None);
    listener.secret().await;
    connected(&c, &receiver).await;
}
