//! Pages of the console under attack, by whoever is signed in and by strangers: what they hold in memory is bounded,
//! and nobody keeps others from signing in.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connections::from;
use crate::support::console::{PASSWORD, Person};
use crate::support::documents::DOCUMENTS;
use crate::support::process::peak_mib;
use crate::support::raw::Raw;
use crate::support::{Account, Server};

/// Readers of one account's pages who take nothing of them.
const READERS: usize = 40;
/// People who try to sign in from one address.
const STRANGERS: usize = 400;
/// The longest that what happens in seconds may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn admin(server: &Server) -> (Account, Person) {
    let account = server.account().await;
    let person = Person::user(&account, "admin").await;
    (account, person)
}

/// A document of the production account, which its people see.
async fn document(account: &Account, content: &str) -> String {
    let made = account
        .live()
        .post(DOCUMENTS, json!({"title": "Long", "content": content}));
    made.await.expect(201).id("id")
}

#[tokio::test]
async fn a_form_of_millions_of_fields_is_refused() {
    let server = Server::start();
    let (account, person) = admin(&server).await;
    let id = document(&account, "a").await;
    let (http, base) = person.raw();
    let before = peak_mib(server.pid());
    let request = http
        .post(format!("{base}/console/documents/{id}/edit"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body("=&".repeat(4_000_000));
    let seen = person.seen(request).await.expect(400);
    assert!(seen.text.contains("20000 fields"), "{}", seen.text);
    let grown = peak_mib(server.pid()) - before;
    assert!(grown < 100, "{grown} MiB more");
}

#[tokio::test]
async fn pages_that_nobody_takes_hold_no_more_than_answers_of_the_interface() {
    let server = Server::start();
    let (account, person) = admin(&server).await;
    let id = document(&account, &"0123456\n".repeat(900_000)).await;
    let cookie = person.cookie.as_deref().unwrap();
    let request =
        format!("GET /console/documents/{id}/raw HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
    let (mut readers, mut refused) = (Vec::new(), 0);
    for _ in 0..READERS {
        let mut reader = Raw::connect(&server.address()).await;
        reader.write(request.as_bytes()).await;
        match reader.read_head().await {
            200 => readers.push(reader),
            status => {
                assert_eq!(status, 503);
                refused += 1;
            }
        }
    }
    // A quarter of 256 MiB is an account's.
    let room = (64 << 20) / 7_200_000;
    assert!(
        (1..=room).contains(&readers.len()),
        "{} are answered, {refused} refused",
        readers.len()
    );
    drop(readers);
}

#[tokio::test]
async fn a_comparison_of_very_many_lines_is_offered_as_a_patch() {
    let server = Server::start();
    let (account, person) = admin(&server).await;
    let id = document(&account, &"\n".repeat(800_000)).await;
    let before = peak_mib(server.pid());
    let page = person
        .page(&format!("/console/documents/{id}/compare"))
        .await;
    assert!(
        page.contains("in more than a page shows. Download the patch"),
        "{page}"
    );
    let grown = peak_mib(server.pid()) - before;
    assert!(grown < 300, "{grown} MiB more");
}

#[tokio::test]
async fn many_who_try_to_sign_in_from_one_address_keep_nobody_else_out() {
    let server = Server::start();
    let (_, person) = admin(&server).await;
    let request = |name: &str| {
        let body = format!("name={name}&password={PASSWORD}");
        format!(
            "POST /console/sign-in HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        strangers.push(from(0, &server).await.unwrap());
    }
    let mut other = from(1, &server).await.unwrap();
    for (number, stranger) in strangers.iter_mut().enumerate() {
        let request = request(&format!("nobody-{number}"));
        stranger.write_all(request.as_bytes()).await.unwrap();
    }
    let own = request(&person.user);
    other.write_all(own.as_bytes()).await.unwrap();
    // Its name is none, but it is told so.
    assert_eq!(status(&mut other).await, 422);
    for stranger in &mut strangers {
        let status = status(stranger).await;
        assert!(
            [422, 429].contains(&status),
            "{status}: one address fills the queue of all who sign in"
        );
    }
}

/// The status of an answer.
async fn status(connection: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    let reading = connection.read_exact(&mut head);
    timeout(SOON, reading).await.unwrap().unwrap();
    let head = String::from_utf8_lossy(&head);
    head.rsplit(' ').next().unwrap().parse().unwrap()
}
