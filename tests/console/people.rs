//! Signing in and out: by password, by invitation, with the operator token; and what ends a session.

use std::time::Duration;

use serde_json::json;

use super::super::support::console::{PASSWORD, Person};
use super::super::support::{Server, Setup, until};
use super::email_of;

#[tokio::test]
async fn an_invitation_sets_a_password_once_and_the_person_signs_in_with_it() {
    let server = Server::start();
    let account = server.account().await;
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let first = account.live().post(&path, json!({})).await.expect(201);
    let expires = first.body["expires_at"].as_str().unwrap().to_owned();
    assert!(expires > colloquy_model::time::Timestamp::now().to_string());
    let second = account.live().post(&path, json!({})).await.expect(201);
    let page = |answer: &serde_json::Value| {
        let url = answer["url"].as_str().unwrap();
        format!("/console/{}", url.split_once("/console/").unwrap().1)
    };
    let stranger = Person::stranger(&server);
    stranger.get(&page(&first.body)).await.expect(404);
    let invitation = page(&second.body);
    stranger.get(&invitation).await.expect(200);

    // What can be no password, and two that differ, set nothing.
    for (password, repeated) in [
        ("short", "short"),
        ("            ", "            "),
        (PASSWORD, "another one, as long"),
    ] {
        let fields = [("password", password), ("repeated", repeated)];
        stranger
            .post_without_token(&invitation, &fields)
            .await
            .expect(422);
    }
    let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
    stranger
        .post_without_token(&invitation, &fields)
        .await
        .expect(303);
    stranger
        .post_without_token(&invitation, &fields)
        .await
        .expect(404);

    let email = email_of(&account, &user).await;
    let mut person = Person::stranger(&server);
    let wrong = [
        ("name", email.as_str()),
        ("password", "not the one that was set"),
    ];
    let refused = person.sign_in(&wrong).await.expect(422);
    assert!(
        !refused.text.contains("not the one that was set"),
        "a password is shown"
    );
    assert_eq!(person.cookie, None);
    let right = [("name", &*email.to_uppercase()), ("password", PASSWORD)];
    assert_eq!(
        person.sign_in(&right).await.expect(303).location(),
        "/console"
    );
    person.get("/console/inbox").await.expect(200);
}

#[tokio::test]
async fn an_invitation_is_shown_once_and_needs_the_right_to_manage_users() {
    let server = Server::start();
    let account = server.account().await;
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let key = [("idempotency-key", "invite-once")];
    let invite = || {
        account
            .live()
            .post(&path, json!({}))
            .with(key[0].0, key[0].1)
    };
    let first = invite().await.expect(201);
    assert!(first.body["url"].as_str().unwrap().starts_with("http"));
    let again = invite().await.expect(201);
    assert_eq!(again.body["url"], json!(null), "it is shown once");
    assert_eq!(again.body["expires_at"], first.body["expires_at"]);
    let (narrow, _) = account
        .key(json!({"type": "prod", "scopes": ["conversations:read"]}))
        .await;
    narrow
        .post(&path, json!({}))
        .await
        .error(403, "forbidden", "");
    let other = server.account().await;
    other
        .live()
        .post(&path, json!({}))
        .await
        .error(404, "not_found", "");
    account
        .live()
        .acting_for(&user)
        .post(&path, json!({}))
        .await
        .error(403, "forbidden", "");
}

#[tokio::test]
async fn signing_in_and_out_changes_no_users_entity_tag() {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let user = person.user.clone();
    let path = format!("/v1/users/{user}");
    let before = account.live().get(&path).await.expect(200).etag();
    person.post("/console/session/end", &[]).await.expect(303);
    assert_eq!(account.live().get(&path).await.expect(200).etag(), before);
    let changed = account
        .live()
        .patch(&path, json!({"name": "Another"}))
        .with("if-match", &before);
    assert_ne!(changed.await.expect(200).etag(), before);
}

#[tokio::test]
async fn a_session_ends_when_its_person_says_so_everywhere_when_asked_and_with_the_user() {
    let server = Server::start();
    let account = server.account().await;
    let one = Person::user(&account, "agent").await;
    let user = one.user.clone();
    let email = email_of(&account, &user).await;
    let mut two = Person::stranger(&server);
    two.sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(303);
    let mut three = Person::stranger(&server);
    three
        .sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(303);

    // The cookie that the browser has forgotten opens nothing either.
    one.post("/console/session/end", &[]).await.expect(303);
    assert!(
        one.get("/console/inbox")
            .await
            .expect(303)
            .location()
            .starts_with("/console/sign-in")
    );
    two.get("/console/inbox").await.expect(200);
    two.post("/console/session/end-all", &[]).await.expect(303);
    for person in [&two, &three] {
        person.get("/console/inbox").await.expect(303);
    }

    three
        .sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(303);
    three.get("/console/inbox").await.expect(200);
    account
        .live()
        .delete(&format!("/v1/users/{user}"))
        .await
        .expect(204);
    three.get("/console/inbox").await.expect(303);
    three
        .sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(422);
}

#[tokio::test]
async fn a_session_survives_a_restart_and_a_kill() {
    let mut server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let operator = Person::operator(&server).await;
    server.kill9();
    server.restart();
    let at_new_port = |person: Person| Person::stranger(&server).with_cookie(person.cookie);
    at_new_port(person).get("/console/inbox").await.expect(200);
    at_new_port(operator)
        .get("/console/session")
        .await
        .expect(200);
}

#[tokio::test]
async fn operators_sign_in_by_name_once_they_have_been_made() {
    let server = Server::start();
    let operator = server.operator();
    let made = operator
        .post("/admin/v1/operators", json!({"name": "Ada"}))
        .await
        .expect(201);
    let id = made.id("operator_id");
    operator
        .post("/admin/v1/operators", json!({"name": "ADA"}))
        .await
        .error(409, "conflict", "name");
    let path = format!("/admin/v1/operators/{id}/invitations");
    let url = operator.post(&path, json!({})).await.expect(201).id("url");
    let page = format!("/console/{}", url.split_once("/console/").unwrap().1);
    let stranger = Person::stranger(&server);
    let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
    stranger
        .post_without_token(&page, &fields)
        .await
        .expect(303);
    let mut ada = Person::stranger(&server);
    ada.sign_in(&[("name", "ada"), ("password", PASSWORD)])
        .await
        .expect(303);
    ada.get("/console/session").await.expect(200);

    operator
        .delete(&format!("/admin/v1/operators/{id}"))
        .await
        .expect(204);
    ada.get("/console/session").await.expect(303);
}

#[tokio::test]
async fn whoever_has_the_token_is_an_operator_for_as_long_as_the_token_holds() {
    let mut server = Server::start();
    let operator = server.operator();
    let mut wrong = Person::stranger(&server);
    let token = "op_wrong0123456789abcdefghijABCDEFGHIJ";
    wrong.sign_in(&[("token", token)]).await.expect(422);
    let holder = Person::operator(&server).await;
    holder.get("/console/session").await.expect(200);
    let listed = operator
        .get("/admin/v1/operators")
        .await
        .expect(200)
        .column("operator_id");
    let token_holder = &listed[0];
    let path = format!("/admin/v1/operators/{token_holder}/invitations");
    operator
        .post(&path, json!({}))
        .await
        .error(409, "conflict", "");
    for name in [" ", " Olga", "a\nb", "\u{202e}adA"] {
        let refused = operator
            .post("/admin/v1/operators", json!({"name": name}))
            .await;
        refused.error(400, "invalid_request", "name");
    }
    operator
        .delete(&format!("/admin/v1/operators/{token_holder}"))
        .await
        .error(409, "conflict", "");
    // A session that was opened with a token ends with it.
    server.kill9();
    server.set_env(
        "COLLOQUY__ADMIN__TOKEN",
        "op_another0123456789abcdefghijABCDEF",
    );
    server.restart();
    let holder = Person::stranger(&server).with_cookie(holder.cookie);
    holder.get("/console/session").await.expect(303);
}

#[tokio::test]
async fn whoever_is_in_two_accounts_is_asked_which_one() {
    let server = Server::start();
    let mut invited = Vec::new();
    for _ in 0..2 {
        let account = server.account().await;
        let body = json!({"name": "Grace", "email": "grace@example.com", "role": "agent"});
        let user = account
            .live()
            .post("/v1/users", body)
            .await
            .expect(201)
            .id("user_id");
        let path = format!("/v1/users/{user}/invitations");
        let url = account
            .live()
            .post(&path, json!({}))
            .await
            .expect(201)
            .id("url");
        let page = format!("/console/{}", url.split_once("/console/").unwrap().1);
        let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
        Person::stranger(&server)
            .post_without_token(&page, &fields)
            .await
            .expect(303);
        invited.push((account, user));
    }
    let mut person = Person::stranger(&server);
    let fields = [("name", "grace@example.com"), ("password", PASSWORD)];
    let asked = person.sign_in(&fields).await.expect(200);
    assert_eq!(asked.text.matches("name=\"account\"").count(), 2);
    let (_, rest) = asked.text.split_once("name=\"account\" value=\"").unwrap();
    let first = rest.split('"').next().unwrap();
    let fields = [
        ("name", "grace@example.com"),
        ("password", PASSWORD),
        ("account", first),
    ];
    person.sign_in(&fields).await.expect(303);
    person.get("/console/inbox").await.expect(200);
}

#[tokio::test]
async fn tries_are_limited_by_name_and_by_address_and_others_are_let_in() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "15")
        .start();
    let account = server.account().await;
    let user = Person::user(&account, "agent").await.user;
    let other = Person::user(&account, "agent").await.user;
    let (email, other) = (
        email_of(&account, &user).await,
        email_of(&account, &other).await,
    );
    let mut guesser = Person::stranger(&server);
    for _ in 0..10 {
        guesser
            .sign_in(&[("name", &email), ("password", "a guess of many")])
            .await
            .expect(422);
    }
    // The right one is not looked at any more, and somebody else's is.
    let refused = guesser
        .sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(429);
    assert!(
        refused.text.contains("too many wrong passwords"),
        "{}",
        refused.text
    );
    assert!(refused.headers.contains_key("retry-after"));
    Person::stranger(&server)
        .sign_in(&[("name", &other), ("password", PASSWORD)])
        .await
        .expect(303);
    for number in 0..5 {
        let name = format!("nobody{number}@example.com");
        guesser
            .sign_in(&[("name", &name), ("password", "a guess of many")])
            .await
            .expect(422);
    }
    let refused = guesser
        .sign_in(&[("name", &other), ("password", PASSWORD)])
        .await
        .expect(429);
    assert!(
        refused.text.contains("from this address"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn a_session_that_is_open_in_two_tabs_ends_in_both_when_its_user_is_deleted() {
    let server = Server::start();
    let account = server.account().await;
    let (one, user) = super::browser_of(&server, &account, "agent").await;
    one.run("window.open('/console/customers')", vec![]).await;
    account
        .live()
        .delete(&format!("/v1/users/{user}"))
        .await
        .expect(204);
    until(
        "the page asks to sign in",
        Duration::from_secs(60),
        async || {
            one.go("/console/inbox").await;
            one.path()
                .await
                .starts_with("/console/sign-in")
                .then_some(())
        },
    )
    .await;
    one.waits_for("#field-name").await;
}

#[tokio::test]
async fn a_session_lasts_as_long_as_the_settings_say() {
    let server = Setup::default()
        .env("COLLOQUY__CONSOLE__SESSION_HOURS", "0.001")
        .env(
            "COLLOQUY__SECURITY_HEADERS__CONSOLE_CONTENT_SECURITY_POLICY",
            "default-src 'none'; img-src 'self'; frame-ancestors 'none'",
        )
        .start();
    let person = Person::operator(&server).await;
    let shown = person.get("/console/session").await.expect(200);
    assert_eq!(
        shown.headers["content-security-policy"],
        "default-src 'none'; img-src 'self'; frame-ancestors 'none'"
    );
    until(
        "the session ends by itself",
        Duration::from_secs(30),
        async || (person.get("/console/session").await.status == 303).then_some(()),
    )
    .await;
}
