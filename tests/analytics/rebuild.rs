//! Figures that are made anew from the log, and what retention leaves of them.

use std::time::Duration;

use serde_json::json;

use super::{FIGURES, asked};
use crate::support::process;
use crate::support::server::{OPERATOR, Setup};
use crate::support::stored::execute;
use crate::support::{Client, Server, until};

const SOON: Duration = Duration::from_secs(60);

/// Some conversations, of which one is closed.
async fn filled(c: &Client, count: usize) {
    for _ in 0..count {
        let at = format!("/v1/conversations/{}", c.conversation().await);
        let body = json!({"content": "Words.", "sender_type": "agent"});
        c.post(&format!("{at}/messages"), body).await.expect(201);
        c.post(&format!("{at}/close"), json!({})).await.expect(200);
        c.post(&format!("{at}/reopen"), json!({})).await.expect(200);
    }
}

/// Has all figures made anew, as an operator does who sits at the machine.
fn rebuild(server: &Server) {
    let mut command = process::colloquy();
    let command = command
        .args(["analytics", "rebuild"])
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR)
        .current_dir(server.work());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("made anew"), "{said}");
}

#[tokio::test]
async fn figures_that_are_made_anew_from_the_log_are_the_same_while_others_write() {
    let mut server = Server::start();
    let c = server.account().await.test();
    filled(&c, 30).await;
    let other = server.account().await.test();
    let before = asked(&c, &[("group_by", "channel")]).await.body;
    let rebuilding = async { rebuild(&server) };
    let writing = filled(&other, 10);
    tokio::join!(writing, rebuilding);
    assert_eq!(asked(&c, &[("group_by", "channel")]).await.body, before);
    // What was written meanwhile is there, and what comes from now on.
    let made = other.conversation().await;
    let theirs = asked(&other, &[("interval", "month")]).await;
    assert_eq!(theirs.data().last().unwrap()["created"], 11, "{made}");
    let state = server
        .operator()
        .get("/admin/v1/analytics")
        .await
        .expect(200);
    assert_eq!(state["state"], "kept");
    let trail = server
        .operator()
        .get("/admin/v1/audit?action=analytics.rebuilt")
        .await
        .expect(200);
    assert_eq!(trail.data().len(), 1, "{trail}");
    // It begins again where it stood.
    server
        .operator()
        .post("/admin/v1/analytics/rebuild", json!({}))
        .await
        .expect(202);
    server.kill9();
    server.restart();
    let c = c.at(&server.address());
    until("the figures are made anew", SOON, async || {
        let state = server
            .operator()
            .get("/admin/v1/analytics")
            .await
            .expect(200);
        (state["state"] == "kept").then_some(())
    })
    .await;
    assert_eq!(asked(&c, &[("group_by", "channel")]).await.body, before);
    server.term();
    server.assert_sound();
}

#[tokio::test]
async fn figures_that_were_damaged_are_right_again_when_they_are_made_anew() {
    let setup = Setup::default().env("COLLOQUY__STORE__KIND", "sqlite");
    let mut server = setup.start();
    let account = server.account().await;
    let c = account.test();
    filled(&c, 4).await;
    let document = c.document("of some length").await;
    let message = c.message(&c.conversation().await, "gone").await;
    c.delete(message.header("location")).await.expect(204);
    c.delete(&document).await.expect(204);
    c.document("kept").await;
    let shown = async |c: &Client| {
        let figures = asked(c, &[("group_by", "channel")]).await.body;
        let usage = account.live().at(c.address()).get("/v1/usage");
        let usage = usage.await.expect(200);
        (figures, usage["meta"]["stored"].clone())
    };
    let before = shown(&c).await;
    assert_eq!(before.1["bytes"], 4 * "Words.".len() + "kept".len());
    server.term();
    let file = server.work().join("data/colloquy.db");
    for damage in [
        "DELETE FROM figures",
        "UPDATE made SET messages = messages + 1, text_bytes = 12345",
        "UPDATE milestones SET opened_at = opened_at - 5000",
    ] {
        execute(&file, damage, &[]);
    }
    let check = server.check();
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    let found = String::from_utf8(check.stdout).unwrap();
    assert!(found.contains("what was made"), "{found}");
    server.restart();
    let c = c.at(&server.address());
    let damaged = shown(&c).await;
    assert!(damaged.0 != before.0 && damaged.1 != before.1);
    rebuild(&server);
    assert_eq!(shown(&c).await, before);
    server.term();
    server.assert_sound();
}

#[tokio::test]
async fn retention_leaves_the_figures_and_they_can_not_be_made_anew_without_the_events() {
    // Six seconds.
    let setup = Setup::default().env("COLLOQUY__EVENTS__RETENTION_DAYS", "0.00007");
    let server = setup.start();
    let c = server.account().await.test();
    filled(&c, 3).await;
    let path = format!("{FIGURES}?interval=month");
    let before = c
        .get(&path)
        .await
        .expect(200)
        .data()
        .last()
        .unwrap()
        .clone();
    assert_eq!(before["created"], 3);
    until("retention has taken the events", SOON, async || {
        let page = c.get("/v1/events").await.expect(200);
        (page.total() == 0).then_some(())
    })
    .await;
    let shown = c.get(&path).await.expect(200);
    let shown = shown
        .data()
        .iter()
        .find(|entry| entry["start"] == before["start"]);
    assert_eq!(shown, Some(&before));
    let operator = server.operator();
    let refused = operator
        .post("/admin/v1/analytics/rebuild", json!({}))
        .await;
    refused.error(409, "conflict", "");
    let shown = c.get(&path).await.expect(200);
    assert!(shown.data().contains(&before), "{shown}");
}
