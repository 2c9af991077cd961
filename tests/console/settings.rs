//! Settings → API Keys, users, account, webhooks and customers: from click to effect.

use serde_json::json;

use super::super::support::console::Person;
use super::super::support::{Receiver, Server, Setup};
use super::browser_of;

#[tokio::test]
async fn settings_api_keys_generate_a_new_key() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, user) = browser_of(&server, &account, "admin").await;
    // The words of the platform's documents: Settings → API Keys → Generate a new key.
    browser.shows(".side nav", "Settings").await;
    browser
        .click(".side a[href='/console/settings/api-keys']")
        .await;
    browser.shows("h1", "API Keys").await;
    browser.press("Generate a new key").await;
    browser.fill("#field-name", "Shop backend").await;
    browser.choose("#field-type", "prod").await;
    browser.click("input[value='conversations:read']").await;
    browser.click("input[value='conversations:write']").await;
    browser.fill("#field-allowed_ips", "127.0.0.0/8\n::1").await;
    browser.choose("#field-user_id", &user).await;
    browser.press("Generate a new key").await;
    browser.shows("main", "it is not shown again").await;
    let secret = browser.value("#secret").await;
    assert!(secret.starts_with("sk_prod_"), "{secret}");
    browser.click("[data-copy]").await;
    browser.shows("[data-copy]", "Copied").await;
    let key = account.anonymous().with_key(&secret);
    key.get("/v1/customers").await.expect(200);
    key.get("/v1/webhooks").await.error(403, "forbidden", "");

    // Shown once: neither its page nor the list has it.
    browser.press("Done").await;
    browser.press("Shop backend").await;
    browser.waits_for("#field-name").await;
    let page = browser
        .run("return document.documentElement.outerHTML", vec![])
        .await;
    assert!(!page.as_str().unwrap().contains(&secret));
    browser.shows("main", &secret[secret.len() - 4..]).await;

    // Renamed, rotated, revoked.
    browser.fill("#field-name", "Shop").await;
    browser.press("Save").await;
    browser.shows("#notices", "The key is saved.").await;
    browser.choose("#field-overlap_seconds", "0").await;
    browser.press("Rotate").await;
    browser.shows("main", "it is not shown again").await;
    let rotated = browser.value("#secret").await;
    key.get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
    let key = account.anonymous().with_key(&rotated);
    key.get("/v1/customers").await.expect(200);
    browser.press("Done").await;
    browser.press("Shop").await;
    browser.press("Revoke this key").await;
    key.get("/v1/customers").await.expect(200);
    browser.confirm().await;
    browser.shows("#notices", "The key is revoked.").await;
    key.get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
    browser.shows("tbody", "revoked").await;
    browser.assert_quiet().await;
}

#[tokio::test]
async fn a_key_is_made_to_require_signatures_and_its_signing_secret_is_shown_once() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let path = "/console/settings/api-keys";
    let form = [
        ("name", "Bot"),
        ("type", "prod"),
        ("require_signature", "true"),
    ];
    let made = admin.post(path, &form).await.expect(200).text;
    assert!(made.contains("sk_prod_") && made.contains("ss_"), "{made}");
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let of = || async {
        let listed = account.operator().get(&keys).await.expect(200);
        listed.data()[0].clone()
    };
    let key = of().await;
    assert_eq!(key["require_signature"], true);
    let page = format!("{path}/{}", key["key_id"].as_str().unwrap());
    let shown = admin.page(&page).await;
    assert!(
        !shown.contains("ss_") && shown.contains("value=\"true\" checked"),
        "{shown}"
    );
    // Not ticked, it takes unsigned requests; ticked again, it has another secret.
    admin.post(&page, &[("name", "Bot")]).await.expect(303);
    assert_eq!(of().await["require_signature"], false);
    let ticked = [form[0], form[2]];
    let again = admin.post(&page, &ticked);
    let again = again.await.expect(200).text;
    assert!(
        again.contains("ss_") && !again.contains("sk_prod_"),
        "{again}"
    );
}

#[tokio::test]
async fn a_wrong_value_is_told_at_its_field_and_what_was_filled_in_stays() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let before = account.operator().get(&keys).await.expect(200).total();
    let fields = [
        ("name", "Mine"),
        ("type", "prod"),
        ("allowed_ips", "not an address"),
        ("scopes", "documents:read"),
    ];
    let refused = admin
        .post("/console/settings/api-keys", &fields)
        .await
        .expect(422);
    assert!(
        refused.text.contains("id=\"wrong-allowed_ips\""),
        "{}",
        refused.text
    );
    for kept in [
        "value=\"Mine\"",
        "not an address",
        "value=\"documents:read\" checked",
    ] {
        assert!(
            refused.text.contains(kept),
            "{kept} is lost: {}",
            refused.text
        );
    }
    assert_eq!(
        account.operator().get(&keys).await.expect(200).total(),
        before
    );
    for (page, fields, at) in [
        (
            "settings/users",
            vec![("name", "X"), ("email", "no address"), ("role", "agent")],
            "email",
        ),
        ("customers", vec![("name", "")], "name"),
        (
            "settings/account",
            vec![("name", "Ours"), ("auto_close_after_minutes", "5")],
            "auto_close_after_minutes",
        ),
        (
            "settings/account",
            vec![("name", "Ours"), ("retention_days", "0")],
            "retention_days",
        ),
    ] {
        let refused = admin
            .post(&format!("/console/{page}"), &fields)
            .await
            .expect(422);
        let wrong = format!("id=\"wrong-{at}\"");
        assert!(refused.text.contains(&wrong), "{page}: {}", refused.text);
    }
}

#[tokio::test]
async fn an_admin_says_how_long_closed_conversations_are_kept() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let page = "/console/settings/account";
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    for (typed, kept) in [("30", json!(30)), ("", json!(null))] {
        let etag = admin.get(page).await.expect(200).held("etag");
        let fields = [
            ("etag", &*etag),
            ("name", "Ours"),
            ("retention_days", typed),
        ];
        admin.post(page, &fields).await.expect(303);
        let shown = account.operator().get(&at).await.expect(200);
        assert_eq!(shown["retention_days"], kept, "{shown}");
    }
}

#[tokio::test]
async fn who_comes_late_overwrites_nothing_and_keeps_what_was_typed() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let customer = account.live().customer().await;
    let page = format!("/console/customers/{customer}");
    let etag = admin.get(&page).await.expect(200).held("etag");
    account
        .live()
        .patch(
            &format!("/v1/customers/{customer}"),
            json!({"name": "Faster"}),
        )
        .await
        .expect(200);
    let late = admin
        .post(&page, &[("name", "Late"), ("etag", &etag)])
        .await
        .expect(422);
    assert!(late.text.contains("value=\"Late\""), "{}", late.text);
    let shown = account
        .live()
        .get(&format!("/v1/customers/{customer}"))
        .await
        .expect(200);
    assert_eq!(shown.body["name"], "Faster");
}

#[tokio::test]
async fn an_admin_makes_a_user_and_the_invitation_signs_that_person_in() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, _) = browser_of(&server, &account, "admin").await;
    browser.go("/console/settings/users").await;
    browser.press("New user").await;
    browser.fill("#field-name", "Barbara Liskov").await;
    browser.fill("#field-email", "barbara@example.com").await;
    browser.press("Create and invite").await;
    browser.shows("main", "not shown again").await;
    let url = browser.value("#secret").await;
    browser.press("Done").await;
    browser.shows("tbody", "invited").await;

    let guest = super::Browser::open(&server).await;
    guest
        .go(&format!(
            "/console/{}",
            url.split_once("/console/").unwrap().1
        ))
        .await;
    guest.shows("h1", "Welcome, Barbara Liskov").await;
    guest
        .fill("#field-password", "a sentence to remember")
        .await;
    guest
        .fill("#field-repeated", "a sentence to remember")
        .await;
    guest.click(".button.primary").await;
    guest.shows("#notices", "Welcome").await;
    guest.shows(".person", "Barbara Liskov").await;

    // Deleted, the person is out.
    browser.press("Barbara Liskov").await;
    browser.press("Delete this user").await;
    browser.confirm().await;
    browser.shows("#notices", "The user is deleted.").await;
    guest.go("/console/inbox").await;
    guest.waits_for("#field-name").await;
    browser.assert_quiet().await;
}

#[tokio::test]
async fn an_endpoint_is_made_tested_replayed_and_disabled() {
    let server = Setup::default().delivering("[1]", "5").start();
    let account = server.account().await;
    let receiver = Receiver::start().await;
    let (browser, _) = browser_of(&server, &account, "admin").await;
    let conversation = account.live().conversation().await;
    browser.go("/console/webhooks").await;
    browser.press("New endpoint").await;
    browser.fill("#field-url", &receiver.url()).await;
    browser.fill("#field-description", "The shop").await;
    browser.press("Create").await;
    browser.shows("main", "it is not shown again").await;
    assert!(browser.value("#secret").await.starts_with("whsec_"));
    browser.press("Done").await;
    browser.press("Send it").await;
    browser.shows("main", "The test event").await;
    browser.shows("main .badge.good", "200").await;

    account
        .live()
        .message(&conversation, "what is delivered")
        .await;
    browser.click(".tabs a[href$='status=delivered']").await;
    super::super::support::until(
        "the delivery is listed",
        std::time::Duration::from_secs(60),
        async || {
            browser.go(&browser.path().await).await;
            browser
                .text("tbody")
                .await
                .contains("message.created")
                .then_some(())
        },
    )
    .await;
    browser.press("message.created").await;
    browser.shows("h1", "message.created").await;
    browser.shows("main", "Attempts").await;
    let heard = receiver.count();
    browser.press("Send it again").await;
    browser.shows("#notices", "sent again").await;
    super::super::support::until(
        "it comes again",
        std::time::Duration::from_secs(60),
        async || (receiver.count() > heard).then_some(()),
    )
    .await;
    browser.press("Back to the endpoint").await;
    browser.press("Disable").await;
    browser.confirm().await;
    browser.shows("#notices", "disabled").await;
    let listed = account.live().get("/v1/webhooks").await.expect(200);
    assert_eq!(listed.data()[0]["enabled"], false);
    browser.assert_quiet().await;
}

#[tokio::test]
async fn test_data_and_live_data_are_two_worlds_behind_one_switch() {
    let server = Server::start();
    let account = server.account().await;
    account
        .live()
        .post("/v1/customers", json!({"name": "Live Lea"}))
        .await
        .expect(201);
    account
        .test()
        .post("/v1/customers", json!({"name": "Test Theo"}))
        .await
        .expect(201);
    let person = Person::user(&account, "agent").await;
    let live = person.get("/console/customers").await.expect(200).text;
    assert!(live.contains("Live Lea") && !live.contains("Test Theo"));
    person
        .post("/console/session/mode", &[("mode", "test")])
        .await
        .expect(303);
    let test = person.get("/console/customers").await.expect(200).text;
    assert!(test.contains("Test Theo") && !test.contains("Live Lea"));
    assert!(test.contains("You see test data"));
    person
        .post("/console/session/mode", &[("mode", "live")])
        .await
        .expect(303);
    assert!(
        person
            .get("/console/customers")
            .await
            .expect(200)
            .text
            .contains("Live Lea")
    );
}
