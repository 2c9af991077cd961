//! Every flow, run by real clients, with a real browser where a person signs in and consents.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BACK, Registered, VERIFIER, consents, held, python, signed_in, text};
use crate::support::console::{PASSWORD, Person};
use crate::support::{Browser, Receiver, Server, until};

/// The longest that a browser takes to follow where it is sent.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);

/// Signs in where the client sends the browser, allows it, and gives the address to which the
/// browser was sent back.
async fn in_a_browser(server: &Server, url: &str, email: &str, receiver: &Receiver) -> String {
    let browser = Browser::open(server).await;
    let path = url.split_once(&server.address()).unwrap().1;
    browser.go(path).await;
    browser.fill("#field-name", email).await;
    browser.fill("#field-password", PASSWORD).await;
    browser.click(".door > form .button").await;
    browser.waits_for("button[value=allow]").await;
    assert!(
        browser.barriers().await.is_empty(),
        "{:?}",
        browser.barriers().await
    );
    browser.picture("consent").await;
    browser.click("button[value=allow]").await;
    // The page that another test has left open may still look for its server at this port.
    let came = until("the browser comes back", COMES_BACK_WITHIN, async || {
        let mut came = receiver.received().into_iter();
        came.find(|one| one.path.starts_with("/hook"))
    })
    .await;
    let (back, _) = receiver
        .url()
        .rsplit_once("/hook")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    format!("{back}{}", came.path)
}

async fn email_of(person: &Person, account: &crate::support::Account) -> String {
    let user = account
        .live()
        .get(&format!("/v1/users/{}", person.user))
        .await
        .expect(200);
    text(&user.body, "email")
}

/// The whole code flow with this package, for a client with or without a secret.
async fn code_flow(package: &str, confidential: bool) -> (Value, Server) {
    let (server, account, person, authority) = signed_in("agent").await;
    let receiver = Receiver::start().await;
    // The port does not count on a loopback address (RFC 8252, 7.3).
    let registered = "http://127.0.0.1/hook";
    let client = Registered::make(
        &account.live(),
        json!({"name": "App", "redirect_uris": [registered], "scopes": ["conversations:read"], "confidential": confidential}),
    )
    .await;
    let mut asked = json!({
        "issuer": authority.issuer(), "client_id": client.id, "client_secret": client.secret,
        "redirect_uri": receiver.url(), "scope": "conversations:read", "verifier": VERIFIER,
        "step": format!("{package}_begin"),
    });
    let begun = python(&asked);
    let email = email_of(&person, &account).await;
    asked["came_to"] = json!(in_a_browser(&server, &text(&begun, "url"), &email, &receiver).await);
    asked["state"] = begun["state"].clone();
    asked["step"] = json!(format!("{package}_finish"));
    (python(&asked), server)
}

#[tokio::test]
async fn authlib_gets_tokens_refreshes_asks_and_ends_them() {
    for confidential in [true, false] {
        let (done, _server) = code_flow("authlib", confidential).await;
        assert_eq!(done["token"]["token_type"], "Bearer");
        assert_eq!(done["token"]["scope"], "conversations:read");
        assert_eq!(done["token"]["expires_in"], 900);
        assert_eq!((&done["read"], &done["again"]), (&json!(200), &json!(200)));
        assert_ne!(
            done["token"]["refresh_token"],
            done["refreshed"]["refresh_token"]
        );
        assert_eq!(done["known"]["active"], true, "{done}");
        assert_eq!(
            (&done["revoked"], &done["after"]),
            (&json!(200), &json!(401))
        );
    }
}

#[tokio::test]
async fn oauthlib_gets_a_token_and_is_told_who_issued_the_code() {
    let (done, server) = code_flow("oauthlib", true).await;
    assert_eq!(done["read"], 200);
    assert_eq!(done["iss"], format!("http://{}", server.address()));
}

#[tokio::test]
async fn a_client_acts_for_its_account_and_pyjwt_verifies_its_token() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    for (c, mode) in [(account.live(), "live"), (account.test(), "test")] {
        let client = Registered::machine(&c).await;
        let mut asked = json!({
            "issuer": authority.issuer(), "client_id": client.id, "client_secret": client.secret,
            "scope": "conversations:read", "step": "credentials",
        });
        let given = python(&asked);
        for package in ["authlib", "oauthlib"] {
            let token = text(&given[package], "access_token");
            c.with_key(&token)
                .get("/v1/conversations")
                .await
                .expect(200);
            (asked["token"], asked["step"]) = (json!(token), json!("verify"));
            let verified = python(&asked);
            let claims = &verified["claims"];
            assert_eq!(claims["sub"], json!(client.id));
            assert_eq!(claims["client_id"], json!(client.id));
            assert_eq!(claims["mode"], mode);
            assert_eq!(claims["scope"], "conversations:read");
            assert!(claims["account_id"].as_str().unwrap().starts_with("acc_"));
            assert_eq!(verified["header"]["typ"], "at+jwt");
            assert_eq!(verified["header"]["alg"], "EdDSA");
        }
    }
}

#[tokio::test]
async fn a_token_acts_as_its_user_with_its_scopes_and_in_its_mode() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let tokens = super::tokens(&authority, &person, &client).await;
    let c = account.live().with_key(&text(&tokens, "access_token"));
    let conversation = c.conversation().await;
    let message = c.message(&conversation, "By an app.").await.expect(201);
    assert_eq!(message.body["sender_type"], "agent");
    assert_eq!(message.body["sender_id"], json!(person.user));
    account
        .test()
        .get(&format!("/v1/conversations/{conversation}"))
        .await
        .error(404, "not_found", "");
    c.get("/api/v1/documents").await.error(403, "forbidden", "");
    c.get("/v1/conversations")
        .with("x-acting-user", &account.live().user("agent").await)
        .await
        .error(403, "forbidden", "");
}

#[tokio::test]
async fn who_does_not_allow_it_is_sent_back_with_words() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let sent = consents(&person, &client.asks(&[]), "deny")
        .await
        .expect(303);
    let place = sent.location();
    assert!(place.starts_with(BACK));
    assert_eq!(held(place, "error").as_deref(), Some("access_denied"));
    assert_eq!(held(place, "state").as_deref(), Some("xyz"));
    assert_eq!(held(place, "iss").as_deref(), Some(authority.issuer()));
    assert_eq!(held(place, "code"), None);
}

#[tokio::test]
async fn the_sign_in_means_the_clients_account() {
    let (server, account, person, authority) = signed_in("agent").await;
    let other = server.account().await;
    let email = email_of(&person, &account).await;
    // The same address, and the same password, in another account.
    let twin = other
        .live()
        .post(
            "/v1/users",
            json!({"name": "Twin", "email": email, "role": "agent"}),
        )
        .await
        .expect(201)
        .id("user_id");
    let path = format!("/v1/users/{twin}/invitations");
    let invited = other.live().post(&path, json!({})).await.expect(201);
    let elsewhere = Person::invited(&other.anonymous(), &invited.id("url")).await;

    let client = Registered::web(&account.live()).await;
    let led = authority.leads(&client.asks(&[])).await.1;
    let refused = elsewhere.get(&led).await.expect(403);
    assert!(
        refused.text.contains("Sign in as somebody else"),
        "{}",
        refused.text
    );

    let stranger = Person::stranger(&server);
    let sign_in = stranger.get(&led).await.expect(303).location().to_owned();
    let fields = [("name", email.as_str()), ("password", PASSWORD)];
    let seen = stranger
        .post_without_token(&sign_in, &fields)
        .await
        .expect(303);
    assert!(
        seen.location().starts_with("/console/authorize?"),
        "no account is asked for: {}",
        seen.text
    );
}

#[tokio::test]
async fn a_user_sees_what_was_allowed_and_withdraws_it() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let tokens = super::tokens(&authority, &person, &client).await;
    let c = account.live().with_key(&text(&tokens, "access_token"));
    c.get("/v1/conversations").await.expect(200);
    let page = person.page("/console/session").await;
    let (_, behind) = page.split_once("/console/session/consents/").unwrap();
    let grant = behind.split('/').next().unwrap().to_owned();
    let path = format!("/console/session/consents/{grant}/withdraw");

    // Nobody else can, of the account or of another.
    let colleague = Person::user(&account, "admin").await;
    colleague.post(&path, &[]).await.expect(404);
    c.get("/v1/conversations").await.expect(200);

    person.post(&path, &[]).await.expect(303);
    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    authority
        .refresh(&client, &text(&tokens, "refresh_token"))
        .await
        .refused(400, "invalid_grant");
    assert!(
        !person
            .page("/console/session")
            .await
            .contains("Helpful app")
    );
}

#[tokio::test]
async fn what_a_server_says_of_itself_is_where_it_says() {
    let (_server, _account, _person, authority) = signed_in("agent").await;
    let (status, _, text) = authority
        .leads("/.well-known/oauth-authorization-server")
        .await;
    assert_eq!(status, 200);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(metadata["issuer"], authority.issuer());
    for (name, path) in [
        ("authorization_endpoint", "/oauth/authorize"),
        ("token_endpoint", "/oauth/token"),
        ("revocation_endpoint", "/oauth/revoke"),
        ("introspection_endpoint", "/oauth/introspect"),
        ("jwks_uri", "/.well-known/jwks.json"),
    ] {
        assert_eq!(metadata[name], format!("{}{path}", authority.issuer()));
    }
    assert_eq!(
        metadata["code_challenge_methods_supported"],
        json!(["S256"])
    );
    assert_eq!(
        metadata["authorization_response_iss_parameter_supported"],
        true
    );
}

#[tokio::test]
async fn a_consent_page_can_be_framed_by_nobody_and_leads_to_the_client_alone() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let led = authority.leads(&client.asks(&[])).await.1;
    let page = person.get(&led).await.expect(200);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(
        policy.contains("form-action 'self' https://app.example;"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
}
