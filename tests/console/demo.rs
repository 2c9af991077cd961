//! `colloquy demo`: a server with something in it, and words on where to sign in.

use std::time::Duration;

use super::super::support::{Person, Setup, until};

const FILLED_WITHIN: Duration = Duration::from_secs(90);

#[tokio::test]
async fn the_demo_is_filled_and_lets_its_visitor_in() {
    let server = Setup::default().demo().start();
    let word = |name: &str| {
        let log = server.log();
        let line = log
            .lines()
            .find_map(|line| line.trim().strip_prefix(name).map(str::trim));
        line.map(str::to_owned)
    };
    let (name, password) = until("it says where to sign in", FILLED_WITHIN, async || {
        Some((word("name:")?, word("password:")?))
    })
    .await;
    let mut visitor = Person::stranger(&server);
    visitor
        .sign_in(&[("name", &name), ("password", &password)])
        .await
        .expect(303);
    until("200 conversations", FILLED_WITHIN, async || {
        let page = visitor.get("/console/inbox?status=all").await.expect(200);
        let (_, rest) = page.text.split_once("–25 of ")?;
        let total: u64 = rest.split('<').next()?.parse().ok()?;
        (total >= 200).then_some(())
    })
    .await;
    until("24 documents", FILLED_WITHIN, async || {
        let page = visitor.get("/console/documents").await.expect(200);
        (page.text.matches("data-item").count() >= 24).then_some(())
    })
    .await;
}
