//! People's passwords: how they are stored, how long they may be, what an invitation is worth, and
//! from which pages they are taken.

use serde_json::json;

use super::super::support::clock::Clock;
use super::super::support::console::{PASSWORD, Person, Seen};
use super::super::support::{Account, Server, process, tool, until};
use super::{browser_of, email_of};

const CHANGE: &str = "/console/session/password";
const ANOTHER: &str = "another password, as long";
const SLACK: std::time::Duration = std::time::Duration::from_secs(30);

/// Invites a new user; gives its identifier and the path of the invitation's page.
async fn invited(account: &Account) -> (String, String) {
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let made = account.live().post(&path, json!({})).await.expect(201);
    let url = made.id("url");
    let (_, path) = url.split_once("/console/").unwrap();
    (user, format!("/console/{path}"))
}

async fn sets(person: &Person, invitation: &str, password: &str) -> u16 {
    let fields = [("password", password), ("repeated", password)];
    person.post_without_token(invitation, &fields).await.status
}

async fn signs_in(server: &Server, email: &str, password: &str) -> u16 {
    let fields = [("name", email), ("password", password)];
    Person::stranger(server).sign_in(&fields).await.status
}

#[tokio::test]
async fn equal_passwords_are_kept_as_argon2id_with_a_salt_each() {
    const STORED: &str = "$argon2id$v=19$m=19456,t=2,p=1$";
    let mut server = Server::start();
    let account = server.account().await;
    for _ in 0..3 {
        Person::user(&account, "agent").await;
    }
    assert!(server.places_with(PASSWORD).is_empty());
    server.term();
    let export = process::colloquy()
        .arg("export")
        .current_dir(server.work())
        .envs(server.store())
        .output();
    let export = tool::started("setpriv", export);
    assert!(export.status.success(), "{export:?}");
    let dump = String::from_utf8_lossy(&export.stdout);
    assert!(!dump.contains(PASSWORD));
    let (mut salts, mut hashes) = (Vec::new(), Vec::new());
    for rest in dump.split("$argon2id$").skip(1) {
        let whole = format!("$argon2id${rest}");
        let rest = whole.strip_prefix(STORED).expect("OWASP's parameters");
        let (salt, rest) = rest.split_once('$').unwrap();
        // 128 bits in base64.
        assert_eq!(salt.len(), 22, "{salt}");
        salts.push(salt.to_owned());
        hashes.push(rest.chars().take(43).collect::<String>());
    }
    for all in [&mut salts, &mut hashes] {
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3, "{all:?}");
    }
}

#[tokio::test]
async fn passwords_of_1024_bytes_fit_and_longer_ones_do_not_and_every_character_counts() {
    let server = Server::start();
    let account = server.account().await;
    let stranger = Person::stranger(&server);
    let longest = format!("{}ab", "é".repeat(511));
    assert_eq!(longest.len(), 1_024);
    let (user, invitation) = invited(&account).await;
    let longer = format!("{longest}c");
    assert_eq!(sets(&stranger, &invitation, &longer).await, 422);
    assert_eq!(sets(&stranger, &invitation, &longest).await, 303);
    let email = email_of(&account, &user).await;
    let without_the_last = &longest[..1_023];
    for wrong in [
        longer.as_str(),
        without_the_last,
        &format!("{without_the_last}c"),
        &format!("{without_the_last}B"),
    ] {
        assert_eq!(signs_in(&server, &email, wrong).await, 422);
    }
    assert_eq!(signs_in(&server, &email, &longest).await, 303);
    // Whatever can be written, and spaces where they stand.
    for password in [
        "🦀🐢🦀🐢🦀🐢🦀🐢🦀🐢🦀🐢",
        " two  spaces, kept ",
        "\"'$ne%_\\\\;--<b>",
    ] {
        let (user, invitation) = invited(&account).await;
        let email = email_of(&account, &user).await;
        assert_eq!(sets(&stranger, &invitation, password).await, 303);
        let trimmed = password.trim();
        if trimmed != password {
            assert_eq!(signs_in(&server, &email, trimmed).await, 422);
        }
        assert_eq!(signs_in(&server, &email, password).await, 303, "{password}");
    }
}

#[tokio::test]
async fn an_invitation_opens_nothing_after_72_hours() {
    const HOURS: u32 = 72;
    let (server, clock) = Clock::start();
    let account = server.account().await;
    let stranger = Person::stranger(&server);
    let (_, used) = invited(&account).await;
    let (user, late) = invited(&account).await;
    clock.ahead(HOURS * 60 - 2);
    until("the clock is ahead", SLACK, async || {
        let page = stranger.get("/healthz").await;
        let date = page.header("date");
        let date = chrono::DateTime::parse_from_rfc2822(date).unwrap();
        (date.timestamp() - chrono::Utc::now().timestamp() > 3_600).then_some(())
    })
    .await;
    stranger.get(&late).await.expect(200);
    assert_eq!(sets(&stranger, &used, PASSWORD).await, 303);
    clock.ahead(HOURS * 60 + 1);
    until("the invitation has ended", SLACK, async || {
        (stranger.get(&late).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(sets(&stranger, &late, PASSWORD).await, 404);
    let email = email_of(&account, &user).await;
    assert_eq!(signs_in(&server, &email, PASSWORD).await, 422);
}

#[tokio::test]
async fn another_sites_page_signs_nobody_in_and_sets_no_password() {
    let server = Server::start();
    let account = server.account().await;
    let (_, invitation) = invited(&account).await;
    let operator = format!("token={}", super::super::support::OPERATOR);
    let password = "password=a+password+of+theirs&repeated=a+password+of+theirs";
    let stranger = Person::stranger(&server);
    let (http, base) = stranger.raw();
    let sent = async |path: &str, body: &str, header: (&str, &str)| {
        let form = http
            .post(format!("{base}{path}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header(header.0, header.1)
            .body(body.to_owned());
        stranger.seen(form).await
    };
    for header in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for (path, body) in [("/console/sign-in", &*operator), (&*invitation, password)] {
            let refused = sent(path, body, header).await.expect(403);
            assert!(!refused.headers.contains_key("set-cookie"), "{header:?}");
        }
    }
    for header in [("origin", base), ("sec-fetch-site", "same-origin")] {
        let begun = sent("/console/sign-in", &operator, header).await;
        assert!(begun.expect(303).headers.contains_key("set-cookie"));
    }
    // Nobody has used the invitation.
    assert_eq!(sets(&stranger, &invitation, PASSWORD).await, 303);
}

/// Gives the form of the page on which the own password is changed.
async fn changes(person: &Person, old: &str, new: &str) -> Seen {
    let fields = [("old_password", old), ("password", new), ("repeated", new)];
    person.post(CHANGE, &fields).await
}

/// Three browsers in which one person is signed in, and the e-mail address.
async fn thrice(server: &Server, account: &Account) -> ([Person; 3], String) {
    let first = Person::user(account, "agent").await;
    let email = email_of(account, &first.user).await;
    let fields = [("name", email.as_str()), ("password", PASSWORD)];
    let (mut second, mut third) = (Person::stranger(server), Person::stranger(server));
    for person in [&mut second, &mut third] {
        person.sign_in(&fields).await.expect(303);
    }
    ([first, second, third], email)
}

/// How often this stands in the account's audit trail.
async fn recorded(account: &Account, action: &str) -> u64 {
    let path = format!("/v1/audit?action={action}");
    account.live().get(&path).await.expect(200).total()
}

#[tokio::test]
async fn who_gives_the_old_password_sets_another_and_is_signed_out_everywhere_else() {
    let server = Server::start();
    let account = server.account().await;
    let ([first, second, third], email) = thrice(&server, &account).await;
    let bystander = Person::user(&account, "agent").await;
    let before = recorded(&account, "password.set").await;
    let own = second.get("/console/session").await.expect(200);
    assert!(own.text.contains(CHANGE));
    second.get(CHANGE).await.expect(200);
    let changed = changes(&second, PASSWORD, ANOTHER).await.expect(303);
    assert_eq!(changed.location(), "/console/session");
    second.get("/console/inbox").await.expect(200);
    bystander.get("/console/inbox").await.expect(200);
    for ended in [&first, &third] {
        ended.get("/console/inbox").await.expect(303);
    }
    assert_eq!(signs_in(&server, &email, PASSWORD).await, 422);
    assert_eq!(signs_in(&server, &email, ANOTHER).await, 303);
    until("it is in the audit trail", SLACK, async || {
        (recorded(&account, "password.set").await == before + 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_new_password_by_invitation_ends_the_sessions_that_were_open() {
    let server = Server::start();
    let account = server.account().await;
    let ([first, second, third], email) = thrice(&server, &account).await;
    let path = format!("/v1/users/{}/invitations", first.user);
    let made = account.live().post(&path, json!({})).await.expect(201);
    let url = made.id("url");
    let (_, invitation) = url.split_once("/console/").unwrap();
    let invitation = format!("/console/{invitation}");
    // Being invited ends nothing.
    second.get("/console/inbox").await.expect(200);
    let stranger = Person::stranger(&server);
    assert_eq!(sets(&stranger, &invitation, ANOTHER).await, 303);
    for ended in [&first, &second, &third] {
        ended.get("/console/inbox").await.expect(303);
    }
    assert_eq!(signs_in(&server, &email, PASSWORD).await, 422);
}

#[tokio::test]
async fn a_wrong_old_password_changes_nothing_and_counts_as_a_try() {
    const TRIES: usize = 10;
    let server = Server::start();
    let account = server.account().await;
    let ([first, second, third], email) = thrice(&server, &account).await;
    // What can be no new one is said before the old one is looked at, and is no try.
    for (new, repeated) in [
        ("short", "short"),
        (ANOTHER, "not the same as that"),
        (PASSWORD, PASSWORD),
    ] {
        let fields = [
            ("old_password", PASSWORD),
            ("password", new),
            ("repeated", repeated),
        ];
        second.post(CHANGE, &fields).await.expect(422);
    }
    for _ in 0..TRIES {
        let refused = changes(&second, "a guess of many", ANOTHER).await;
        let refused = refused.expect(422);
        assert!(refused.text.contains("is not your password"));
        assert!(!refused.text.contains("a guess of many") && !refused.text.contains(ANOTHER));
    }
    let refused = changes(&second, PASSWORD, ANOTHER).await.expect(429);
    assert!(refused.headers.contains_key("retry-after"));
    for person in [&first, &second, &third] {
        person.get("/console/inbox").await.expect(200);
    }
    // It is the count that signing in there goes by, too.
    let mut again = second.clone();
    let fields = [("name", email.as_str()), ("password", PASSWORD)];
    again.sign_in(&fields).await.expect(429);
    until("each is in the audit trail", SLACK, async || {
        let refused = recorded(&account, "session.refused").await;
        (refused == u64::try_from(TRIES).unwrap()).then_some(())
    })
    .await;
    // In another browser of the person's it goes on.
    changes(&third, PASSWORD, ANOTHER).await.expect(303);
}

#[tokio::test]
async fn a_password_is_changed_by_its_person_alone() {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let fields = [
        ("old_password", PASSWORD),
        ("password", ANOTHER),
        ("repeated", ANOTHER),
    ];
    let forged = person.post_without_token(CHANGE, &fields).await.expect(403);
    assert!(!forged.text.contains(PASSWORD) && !forged.text.contains(ANOTHER));
    let nobody = Person::stranger(&server);
    nobody.get(CHANGE).await.expect(303);
    let refused = nobody.post_without_token(CHANGE, &fields).await.expect(403);
    assert!(!refused.text.contains(PASSWORD) && !refused.text.contains(ANOTHER));
    // Whoever has the operator token has no password.
    let operator = Person::operator(&server).await;
    operator.get(CHANGE).await.expect(404);
    changes(&operator, PASSWORD, ANOTHER).await.expect(404);
    let own = operator.get("/console/session").await.expect(200);
    assert!(!own.text.contains(CHANGE));
    let email = email_of(&account, &person.user).await;
    assert_eq!(signs_in(&server, &email, PASSWORD).await, 303);
}

#[tokio::test]
async fn in_a_browser_the_password_is_changed_from_the_page_about_oneself() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, user) = browser_of(&server, &account, "agent").await;
    browser.go("/console/session").await;
    browser.press("Change your password").await;
    browser.waits_for("#field-old_password").await;
    assert!(browser.barriers().await.is_empty());
    browser
        .fill("#field-old_password", "not the one that holds")
        .await;
    browser.fill("#field-password", ANOTHER).await;
    browser.fill("#field-repeated", ANOTHER).await;
    browser.press("Change the password").await;
    browser.shows("main", "is not your password").await;
    browser.picture("password-refused").await;
    browser.fill("#field-old_password", PASSWORD).await;
    browser.fill("#field-password", ANOTHER).await;
    browser.fill("#field-repeated", ANOTHER).await;
    browser.press("Change the password").await;
    browser.shows("main", "Your password is changed").await;
    browser.picture("password-changed").await;
    let email = email_of(&account, &user).await;
    assert_eq!(signs_in(&server, &email, ANOTHER).await, 303);
}

#[tokio::test]
async fn whom_a_test_key_invited_sees_no_live_data_after_changing_the_password() {
    let server = Server::start();
    let account = server.account().await;
    let user = account.live().user("admin").await;
    let path = format!("/v1/users/{user}/invitations");
    let made = account.test().post(&path, json!({})).await.expect(201);
    let person = Person::invited(&account.anonymous(), &made.id("url")).await;
    changes(&person, PASSWORD, ANOTHER).await.expect(303);
    let email = email_of(&account, &user).await;
    let mut again = Person::stranger(&server);
    let fields = [("name", email.as_str()), ("password", ANOTHER)];
    again.sign_in(&fields).await.expect(303);
    for person in [&person, &again] {
        let live = [("mode", "live")];
        let switched = person.post("/console/session/mode", &live).await;
        switched.expect(403);
    }
}
