//! Who guesses passwords is limited, and shuts out nobody who has signed in before.

use super::super::support::clock::Clock;
use super::super::support::console::{PASSWORD, Person, Seen};
use super::super::support::{Account, Server, Setup, until};
use super::email_of;

const TRIES_A_MINUTE: usize = 10;
const TRIES_AN_HOUR: usize = 50;
const NAME_AN_HOUR: usize = 100;
const SLACK: std::time::Duration = std::time::Duration::from_secs(30);

/// A server that believes this machine's word from which address a request comes.
fn setup() -> Setup {
    Setup::default().env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
}

/// Somebody at the address with this number.
fn at(server: &Server, number: usize) -> Person {
    Person::stranger(server).behind("x-forwarded-for", format!("203.0.113.{number}"))
}

async fn tries(person: &mut Person, email: &str, password: &str) -> Seen {
    let fields = [("name", email), ("password", password)];
    person.sign_in(&fields).await
}

/// So many wrong passwords, each of which is looked at.
async fn guesses(person: &mut Person, email: &str, count: usize) {
    for _ in 0..count {
        tries(person, email, "a guess of many").await.expect(422);
    }
}

/// A person who has a password, in the browser in which it was set; with the e-mail address.
async fn agent(account: &Account) -> (Person, String) {
    let person = Person::user(account, "agent").await;
    let email = email_of(account, &person.user).await;
    (person, email)
}

#[tokio::test]
async fn ten_wrong_ones_a_minute_from_one_address_shut_out_that_address_alone() {
    let server = setup().start();
    let account = server.account().await;
    let (_, email) = agent(&account).await;
    guesses(&mut at(&server, 1), &email, TRIES_A_MINUTE).await;
    let refused = tries(&mut at(&server, 1), &email, PASSWORD).await;
    assert!(refused.expect(429).headers.contains_key("retry-after"));
    // A network of IPv6 is one address.
    let of_ipv6 = |host: &str| Person::stranger(&server).behind("x-forwarded-for", host);
    guesses(&mut of_ipv6("2001:db8::1"), &email, TRIES_A_MINUTE).await;
    let same = tries(&mut of_ipv6("2001:db8::2"), &email, PASSWORD).await;
    same.expect(429);
    tries(&mut at(&server, 2), &email, PASSWORD)
        .await
        .expect(303);
}

#[tokio::test]
async fn who_has_signed_in_before_in_a_browser_gets_in_there_whoever_guesses_elsewhere() {
    let server = setup().start();
    let account = server.account().await;
    let (invited, email) = agent(&account).await;
    let mut signed_in = at(&server, 200);
    tries(&mut signed_in, &email, PASSWORD).await.expect(303);
    let (_, other_email) = agent(&account).await;
    let mut other = at(&server, 201);
    tries(&mut other, &other_email, PASSWORD).await.expect(303);
    for address in 1..=NAME_AN_HOUR / TRIES_A_MINUTE {
        guesses(&mut at(&server, address), &email, TRIES_A_MINUTE).await;
    }
    // From now on nobody is let in whose browser does not know the name: at no address, not with the
    // right password, and not in a browser that knows another name.
    for mut stranger in [at(&server, 99), other.clone()] {
        let refused = tries(&mut stranger, &email, PASSWORD).await.expect(429);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((60..=3_600).contains(&wait), "{wait} s");
    }
    let known = signed_in.known_by.clone().unwrap();
    let end = known.len() - 8;
    for forged in [
        format!("{}AAAAAAAA", &known[..end]),
        known[..end].to_owned(),
        "colloquy_browser=".to_owned(),
        "colloquy_browser=a.9999999999999.b".to_owned(),
    ] {
        let mut forger = at(&server, 99);
        forger.known_by = Some(forged);
        tries(&mut forger, &email, PASSWORD).await.expect(429);
    }
    // In the browser it goes by nobody's tries but its own, wherever it is now.
    for mut person in [
        signed_in.clone(),
        invited.behind("x-forwarded-for", "192.0.2.9"),
    ] {
        person.post("/console/session/end", &[]).await.expect(303);
        let wrong = tries(&mut person, &email, "not quite the password").await;
        wrong.expect(422);
        tries(&mut person, &email, PASSWORD).await.expect(303);
        person.get("/console/inbox").await.expect(200);
    }
    // Somebody else's name is tried as ever.
    tries(&mut at(&server, 98), &other_email, PASSWORD)
        .await
        .expect(303);
}

#[tokio::test]
async fn a_browser_that_knows_a_name_has_ten_wrong_ones_a_minute_of_its_own() {
    let server = setup().start();
    let account = server.account().await;
    let (mut person, email) = agent(&account).await;
    let mut elsewhere = at(&server, 1);
    tries(&mut elsewhere, &email, PASSWORD).await.expect(303);
    guesses(&mut person, &email, TRIES_A_MINUTE).await;
    let refused = tries(&mut person, &email, PASSWORD).await;
    refused.expect(429);
    // A copy of what it keeps is the same browser, at whatever address.
    let mut copy = at(&server, 2);
    copy.known_by = person.known_by.clone();
    tries(&mut copy, &email, PASSWORD).await.expect(429);
    tries(&mut elsewhere, &email, PASSWORD).await.expect(303);
}

#[tokio::test]
async fn one_address_has_fifty_wrong_ones_an_hour_and_a_name_still_lets_in_others() {
    let (server, clock) = Clock::start_as(setup());
    let account = server.account().await;
    let (_, email) = agent(&account).await;
    let mut guesser = at(&server, 1);
    let minutes = u32::try_from(TRIES_AN_HOUR / TRIES_A_MINUTE).unwrap();
    for minute in 0..minutes {
        clock.ahead(2 * minute);
        let looked_at = until("the next minute has begun", SLACK, async || {
            let seen = tries(&mut guesser, &email, "a guess of many").await;
            (seen.status == 422).then_some(1)
        });
        let first = looked_at.await;
        guesses(&mut guesser, &email, TRIES_A_MINUTE - first).await;
    }
    clock.ahead(2 * minutes);
    until("the hour's bound is met", SLACK, async || {
        let refused = tries(&mut guesser, &email, PASSWORD).await.expect(429);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        // Those of the last minute are over; what is waited for are those of the hour.
        (wait > 60).then_some(())
    })
    .await;
    tries(&mut at(&server, 2), &email, PASSWORD)
        .await
        .expect(303);
    clock.ahead(75);
    until("the hour is over", SLACK, async || {
        let seen = tries(&mut guesser, &email, PASSWORD).await;
        (seen.status == 303).then_some(())
    })
    .await;
}
