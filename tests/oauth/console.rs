//! Applications in the console, and the signing keys from a terminal.

use serde_json::json;

use super::{Authority, Registered, signed_in};
use crate::support::console::Person;
use crate::support::{OPERATOR, Server, process};

const HERE: &str = "/console/settings/applications";

#[tokio::test]
async fn an_admin_registers_changes_and_deletes_an_application() {
    let (_server, account, person, authority) = signed_in("admin").await;
    let machine = [
        ("name", "Nightly job"),
        ("kind", "machine"),
        ("scopes", "users:manage"),
    ];
    let made = person.post(HERE, &machine).await.expect(200);
    let between = |mark: &str| {
        let (_, behind) = made.text.split_once(mark).unwrap();
        let end = behind
            .find(|one: char| !one.is_ascii_alphanumeric())
            .unwrap();
        format!("{mark}{}", &behind[..end])
    };
    let client = Registered {
        id: between("cli_"),
        secret: Some(between("cls_")),
    };
    authority.credentials(&client).await;

    let page = format!("{HERE}/{}", client.id);
    let shown = person.get(&page).await.expect(200);
    assert!(!shown.text.contains("cls_"), "the secret is shown once");
    let etag = shown.held("etag");
    let fields = [
        ("name", "Weekly job"),
        ("scopes", "conversations:read"),
        ("etag", etag.as_str()),
    ];
    person.post(&page, &fields).await.expect(303);
    let stale = [
        ("name", "Late"),
        ("scopes", "conversations:read"),
        ("etag", etag.as_str()),
    ];
    person.post(&page, &stale).await.expect(422);
    let client_now = account.live().get(&client.path()).await.expect(200);
    assert_eq!(client_now.body["name"], "Weekly job");
    assert_eq!(client_now.body["scopes"], json!(["conversations:read"]));

    let rotated = person
        .post(&format!("{page}/rotate-secret"), &[])
        .await
        .expect(200);
    assert!(rotated.text.contains("cls_"));
    person
        .post(&format!("{page}/delete"), &[])
        .await
        .expect(303);
    account
        .live()
        .get(&client.path())
        .await
        .error(404, "not_found", "");
    assert!(person.page(HERE).await.contains("None yet"));
}

#[tokio::test]
async fn a_refused_application_keeps_what_was_typed_and_an_agent_has_no_page() {
    let (_server, account, person, _authority) = signed_in("admin").await;
    let wrong = [
        ("name", "App"),
        ("kind", "web"),
        ("redirect_uris", "http://app.example/cb"),
        ("scopes", "users:manage"),
    ];
    let refused = person.post(HERE, &wrong).await.expect(422);
    assert!(
        refused.text.contains("http://app.example/cb") && refused.text.contains("must be https"),
        "{}",
        refused.text
    );
    assert_eq!(
        account
            .live()
            .get("/v1/oauth/clients")
            .await
            .expect(200)
            .total(),
        0
    );
    let agent = Person::user(&account, "agent").await;
    agent.get(HERE).await.expect(403);
}

#[tokio::test]
async fn an_operator_rotates_the_signing_keys_from_a_terminal() {
    let server = Server::start();
    let authority = Authority::of(&server);
    let published = async || authority.leads("/.well-known/jwks.json").await.2;
    let before = published().await;
    let mut command = process::colloquy();
    command
        .args(["oauth", "rotate-keys"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("COLLOQUY__SERVER__BIND", server.address())
        .env("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let after = published().await;
    assert_ne!(before, after);
    let words = String::from_utf8(output.stdout).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&after).unwrap();
    for key in keys["keys"].as_array().unwrap() {
        assert!(words.contains(key["kid"].as_str().unwrap()), "{words}");
    }
    // Repeated under its key, it is done once.
    let rotate = || {
        server
            .operator()
            .post("/admin/v1/oauth/rotate-keys", json!({}))
            .with("idempotency-key", "once")
    };
    let first = rotate().await.expect(200);
    assert_eq!(rotate().await.expect(200).body, first.body);
    server
        .account()
        .await
        .live()
        .post("/admin/v1/oauth/rotate-keys", json!({}))
        .await
        .error(401, "unauthorized", "");
}
