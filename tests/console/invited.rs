//! Nobody gets more by an invitation than the credential could that made it.

use serde_json::json;

use crate::oauth::{Authority, Registered, code, consents, tokens};
use crate::support::console::{PASSWORD, Person};
use crate::support::{Account, Client, Server};

/// A person in a role whom this credential has invited.
async fn invited(account: &Account, role: &str, by: &Client) -> Person {
    let user = account.live().user(role).await;
    again(by, &user).await
}

/// A user whom this credential invites, anew perhaps.
async fn again(by: &Client, user: &str) -> Person {
    let path = format!("/v1/users/{user}/invitations");
    let url = by.post(&path, json!({})).await.expect(201).id("url");
    let mut person = Person::invited(by, &url).await;
    person.user = user.to_owned();
    person
}

async fn customer(c: &Client, name: &str) -> String {
    let made = c.post("/v1/customers", json!({"name": name})).await;
    made.expect(201).id("customer_id")
}

#[tokio::test]
async fn a_test_key_lets_nobody_see_live_data() {
    let mut server = Server::start();
    let account = server.account().await;
    let live = customer(&account.live(), "Live Livingstone").await;
    let test = customer(&account.test(), "Test Testington").await;
    let person = invited(&account, "admin", &account.test()).await;
    let sees_test_data_only = async |person: &Person| {
        let page = person.page("/console/customers").await;
        assert!(page.contains("Test Testington") && !page.contains("Live Livingstone"));
        person
            .get(&format!("/console/customers/{test}"))
            .await
            .expect(200);
        person
            .get(&format!("/console/customers/{live}"))
            .await
            .expect(404);
    };
    sees_test_data_only(&person).await;
    person
        .post("/console/session/mode", &[("mode", "live")])
        .await
        .expect(403);
    sees_test_data_only(&person).await;
    for path in [
        "/console/settings/api-keys",
        "/console/settings/api-keys/new",
    ] {
        person.get(path).await.expect(403);
    }
    let key = [("name", "Mine"), ("type", "prod")];
    person
        .post("/console/settings/api-keys", &key)
        .await
        .expect(403);

    // Whom such a person invites gets no more, and neither does who signs in again, later.
    let other = account.live().user("admin").await;
    let page = person
        .post(&format!("/console/settings/users/{other}/invite"), &[])
        .await
        .expect(200);
    let (_, behind) = page.text.split_once("/console/invitations/").unwrap();
    let token = behind.split(['"', '<']).next().unwrap();
    let url = format!("/console/invitations/{token}");
    sees_test_data_only(&Person::invited(&account.anonymous(), &url).await).await;
    server.kill9();
    server.restart();
    let live_key = account.live().at(&server.address());
    let email = live_key.get(&format!("/v1/users/{}", person.user)).await;
    let email = email.expect(200).id("email");
    let mut later = Person::stranger(&server);
    later
        .sign_in(&[("name", &email), ("password", PASSWORD)])
        .await
        .expect(303);
    sees_test_data_only(&later).await;

    // Somebody who may do it lifts it.
    let whole = again(&live_key, &person.user).await;
    let page = whole.page("/console/customers").await;
    assert!(page.contains("Live Livingstone"), "{page}");
    whole.get("/console/settings/api-keys").await.expect(200);
}

#[tokio::test]
async fn a_narrowed_key_lets_nobody_do_more_than_it_may() {
    let server = Server::start();
    let account = server.account().await;
    let (narrow, _) = account
        .key(json!({"type": "prod", "scopes": ["users:manage"]}))
        .await;
    let person = invited(&account, "admin", &narrow).await;
    person.get("/console/settings/users").await.expect(200);
    let talk = account.live().conversation().await;
    let inbox = person.page("/console/inbox").await;
    assert!(!inbox.contains(&talk) && inbox.contains("not allowed"));
    for path in [
        &format!("/console/inbox/{talk}"),
        "/console/customers",
        "/console/documents",
        "/console/webhooks",
        "/console/settings/api-keys",
    ] {
        assert_eq!(person.get(path).await.status, 403, "{path}");
    }
    let posted = person.post("/console/customers", &[("name", "Ada")]).await;
    let posted = posted.expect(422);
    assert!(posted.text.contains("not allowed"), "{}", posted.text);
    let customers = account.live().get("/v1/customers").await.expect(200);
    assert_eq!(customers.total(), 1, "the one of the conversation");
    let application = [
        ("name", "Mine"),
        ("kind", "machine"),
        ("scopes", "conversations:read"),
    ];
    person
        .post("/console/settings/applications", &application)
        .await
        .expect(422);
    let listed = account.live().get("/v1/oauth/clients").await.expect(200);
    assert_eq!(listed.total(), 0);
}

#[tokio::test]
async fn who_is_narrowed_to_assigned_conversations_reads_no_others() {
    let server = Server::start();
    let account = server.account().await;
    let scopes = ["users:manage", "conversations:assigned"];
    let (narrow, _) = account.key(json!({"type": "prod", "scopes": scopes})).await;
    let person = invited(&account, "agent", &narrow).await;
    let c = account.live();
    let own = c.conversation().await;
    let others = c.conversation().await;
    c.patch(
        &format!("/v1/conversations/{own}"),
        json!({"assignee_id": person.user}),
    )
    .await
    .expect(200);
    person
        .get(&format!("/console/inbox/{own}"))
        .await
        .expect(200);
    person
        .get(&format!("/console/inbox/{others}"))
        .await
        .expect(404);
    let page = person.page("/console/inbox").await;
    assert!(page.contains(&own) && !page.contains(&others));
}

#[tokio::test]
async fn an_application_is_allowed_no_more_than_the_person_may() {
    let server = Server::start();
    let account = server.account().await;
    let authority = Authority::of(&server);
    let (live, test) = (
        Registered::web(&account.live()).await,
        Registered::web(&account.test()).await,
    );
    let person = invited(&account, "agent", &account.test()).await;
    let led = person.get(&live.asks(&[])).await.expect(303);
    person.get(led.location()).await.expect(403);
    code(&person, &test, &[]).await;

    let scopes = ["users:manage", "conversations:read", "documents:read"];
    let (narrow, _) = account.key(json!({"type": "prod", "scopes": scopes})).await;
    let person = invited(&account, "agent", &narrow).await;
    let given = tokens(&authority, &person, &live).await;
    assert_eq!(given["scope"], "conversations:read");
    let body = json!({"name": "Scribe", "redirect_uris": [crate::oauth::BACK], "scopes": ["documents:write"]});
    let scribe = Registered::make(&account.live(), body).await;
    let led = person.get(&scribe.asks(&[])).await.expect(303);
    person.get(led.location()).await.expect(403);
    consents(&person, &live.asks(&[]), "deny").await.expect(303);
}
