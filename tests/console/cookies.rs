//! What the browser is told to keep: over which ways it sends it, and what else it may have been
//! told by others.

use super::super::support::console::Person;
use super::super::support::{OPERATOR, Server, Setup};

const HTTPS: (&str, &str) = ("x-forwarded-proto", "https");
const HOME: &str = "/console/overview";

/// A server that believes this machine what it says as a proxy.
fn behind_a_proxy() -> Server {
    Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start()
}

/// Signs the operator in; gives what the browser is told to keep.
async fn signed_in(person: &mut Person) -> String {
    let begun = person.sign_in(&[("token", OPERATOR)]).await.expect(303);
    person.get(HOME).await.expect(200);
    begun.header("set-cookie").to_owned()
}

fn is_bound_to_this_host(set: &str) -> bool {
    let parts: Vec<&str> = set.split("; ").collect();
    let has = |part: &str| parts.contains(&part);
    set.starts_with("__Host-colloquy_session=cs_")
        && ["Secure", "HttpOnly", "Path=/", "SameSite=Lax"].map(has) == [true; 4]
        && !set.to_lowercase().contains("domain")
}

#[tokio::test]
async fn over_https_the_cookie_is_of_this_host_and_sent_over_https_only() {
    let public = Setup::default()
        .env("COLLOQUY__SERVER__PUBLIC_URL", "https://desk.example.com")
        .start();
    let set = signed_in(&mut Person::stranger(&public)).await;
    assert!(is_bound_to_this_host(&set), "{set}");

    let server = behind_a_proxy();
    for (name, value) in [
        HTTPS,
        ("x-forwarded-proto", "http, https"),
        ("forwarded", "for=192.0.2.1;proto=https"),
    ] {
        let mut person = Person::stranger(&server).behind(name, value);
        let set = signed_in(&mut person).await;
        assert!(is_bound_to_this_host(&set), "{name}: {value}: {set}");
        // What is said on the next page can't be planted either, and signing out forgets the session.
        let ended = person.post("/console/session/end", &[]).await.expect(303);
        let forgotten = ended.header("set-cookie");
        assert!(forgotten.starts_with("__Host-colloquy_session=; Path=/; Secure"));
        assert!(forgotten.contains("Max-Age=0"), "{forgotten}");
    }
    for (name, value) in [
        ("x-forwarded-proto", "http"),
        ("x-forwarded-proto", "https, http"),
        ("x-forwarded-for", "192.0.2.1"),
    ] {
        let set = signed_in(&mut Person::stranger(&server).behind(name, value)).await;
        assert!(set.starts_with("colloquy_session=cs_"), "{set}");
        assert!(set.contains("Path=/console;"), "{set}");
        assert!(!set.contains("Secure"), "{name}: {value}: {set}");
    }
}

#[tokio::test]
async fn who_is_no_believed_proxy_can_not_say_that_the_way_is_encrypted() {
    let nobody = Server::start();
    let others = Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"192.0.2.1\"]")
        .start();
    for server in [&nobody, &others] {
        let plain = signed_in(&mut Person::stranger(server)).await;
        for (name, value) in [HTTPS, ("forwarded", "proto=https")] {
            let mut person = Person::stranger(server).behind(name, value);
            let set = signed_in(&mut person).await;
            let attributes = |set: &str| set.split_once("; ").unwrap().1.to_owned();
            assert_eq!(attributes(&set), attributes(&plain), "{name}");
            assert!(set.starts_with("colloquy_session=cs_"), "{set}");
        }
    }
}

#[tokio::test]
async fn a_cookie_that_was_planted_is_not_the_session_after_signing_in() {
    let server = behind_a_proxy();
    for (name, value) in [HTTPS, ("x-forwarded-proto", "http")] {
        let mut person = Person::stranger(&server).behind(name, value);
        let cookie = match value {
            "https" => "__Host-colloquy_session",
            _ => "colloquy_session",
        };
        // A value of one's own choice, and a session of somebody else's that has ended.
        let mut other = Person::stranger(&server).behind(name, value);
        signed_in(&mut other).await;
        let ended = other.cookie.clone().unwrap();
        other.post("/console/session/end", &[]).await.expect(303);
        for planted in [format!("{cookie}=cs_{}", "0".repeat(43)), ended] {
            person.cookie = Some(planted.clone());
            let set = signed_in(&mut person).await;
            assert!(set.starts_with(&format!("{cookie}=cs_")), "{set}");
            assert!(!set.starts_with(&planted), "{set}");
            let planter = Person::stranger(&server).behind(name, value);
            let planter = planter.with_cookie(Some(planted));
            planter.get(HOME).await.expect(303);
        }
    }
}

#[tokio::test]
async fn who_signs_in_again_has_another_session() {
    let server = Server::start();
    let mut person = Person::stranger(&server);
    let mut seen = Vec::new();
    for _ in 0..3 {
        signed_in(&mut person).await;
        seen.push(person.cookie.clone().unwrap());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn over_https_a_cookie_that_a_sibling_domain_may_have_set_opens_nothing() {
    let server = behind_a_proxy();
    let https = |cookie: &str| {
        let person = Person::stranger(&server).behind(HTTPS.0, HTTPS.1);
        person.with_cookie(Some(cookie.to_owned()))
    };
    // Sessions that hold: what counts is under which name they come.
    let mut theirs = Person::stranger(&server);
    signed_in(&mut theirs).await;
    let plain = theirs.cookie.clone().unwrap();
    https(&plain).get(HOME).await.expect(303);
    let mut own = Person::stranger(&server).behind(HTTPS.0, HTTPS.1);
    signed_in(&mut own).await;
    let bound = own.cookie.clone().unwrap();
    let unbound = bound.trim_start_matches("__Host-");
    https(unbound).get(HOME).await.expect(303);
    // Beside the own one it changes nothing, in whichever order the browser sends them.
    for both in [format!("{plain}; {bound}"), format!("{bound}; {plain}")] {
        let shown = https(&both).get("/console/session").await.expect(200);
        assert_eq!(shown.held("csrf"), own.token().await);
    }
    // Nor is a sentence shown that a sibling had the browser keep for the next page.
    let said = format!("{bound}; colloquy_notice=Call+this+number");
    let shown = https(&said).get(HOME).await.expect(200);
    assert!(!shown.text.contains("Call this number"));
    // Over plain HTTP the name of HTTPS is none.
    let plainly = Person::stranger(&server).with_cookie(Some(bound));
    plainly.get(HOME).await.expect(303);
}
