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
    let of = async |page: &str| {
        let text = visitor.get(page).await.expect(200).text;
        // "1–25 of 240"
        let (_, rest) = text.split_once(" of ")?;
        let digits: String = rest
            .chars()
            .take_while(|one| one.is_ascii_digit() || *one == '\u{202f}')
            .collect();
        digits.replace('\u{202f}', "").parse::<u64>().ok()
    };
    until("200 conversations", FILLED_WITHIN, async || {
        of("/console/inbox?status=all")
            .await
            .filter(|count| *count >= 200)
    })
    .await;
    until("24 documents", FILLED_WITHIN, async || {
        of("/console/documents").await.filter(|count| *count >= 24)
    })
    .await;
}
