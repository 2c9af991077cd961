//! What ends tokens: time, use, revocation, the end of what they rest on; and what does not: a crash, a new
//! signing key.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Authority, Registered, code, python, signed_in, text, tokens};
use crate::support::console::Person;
use crate::support::{EventStream, Server, Setup, until};

/// A server that keeps its address over restarts, so that its issuer stays the same.
fn of_one_issuer() -> Setup {
    Setup::default().env("COLLOQUY__SERVER__PUBLIC_URL", "https://colloquy.example")
}

#[tokio::test]
async fn a_code_is_taken_once_and_a_second_use_ends_what_the_first_gave() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let code = code(&person, &client, &[]).await;
    let given = authority.redeem(&client, &code, &[]).await.expect(200);
    let c = account.live().with_key(&text(&given, "access_token"));
    c.get("/v1/conversations").await.expect(200);
    authority
        .redeem(&client, &code, &[])
        .await
        .refused(400, "invalid_grant");
    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    authority
        .refresh(&client, &text(&given, "refresh_token"))
        .await
        .refused(400, "invalid_grant");
}

#[tokio::test]
async fn of_many_uses_of_a_code_at_once_one_at_most_is_good() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let code = code(&person, &client, &[]).await;
    let tries = (0..16).map(|_| {
        let (authority, client, code) = (authority.clone(), client.clone(), code.clone());
        tokio::spawn(async move { authority.redeem(&client, &code, &[]).await.status })
    });
    let mut good = 0;
    for tried in tries.collect::<Vec<_>>() {
        let status = tried.await.unwrap();
        assert!(status == 200 || status == 400, "{status}");
        good += u32::from(status == 200);
    }
    assert_eq!(good, 1);
}

#[tokio::test]
async fn a_refresh_token_is_taken_once_also_across_a_crash_and_a_second_use_ends_the_family() {
    let mut server = of_one_issuer().start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let client = Registered::web(&account.live()).await;
    let first = tokens(&Authority::of(&server), &person, &client).await;
    let refresh = text(&first, "refresh_token");
    let second = Authority::of(&server)
        .refresh(&client, &refresh)
        .await
        .expect(200);
    server.restart();
    let authority = Authority::of(&server);
    let holds = async |given: &Value| {
        let c = server.with_key(&text(given, "access_token"));
        c.get("/v1/conversations").await.status == 200
    };
    assert!(
        holds(&first).await && holds(&second).await,
        "what was signed before holds on"
    );
    let third = authority
        .refresh(&client, &text(&second, "refresh_token"))
        .await
        .expect(200);
    assert!(holds(&third).await);
    authority
        .refresh(&client, &refresh)
        .await
        .refused(400, "invalid_grant");
    assert!(!holds(&first).await && !holds(&second).await && !holds(&third).await);
    authority
        .refresh(&client, &text(&third, "refresh_token"))
        .await
        .refused(400, "invalid_grant");
}

#[tokio::test]
async fn a_token_names_no_scope_that_its_client_has_lost() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let first = tokens(&authority, &person, &client).await;
    let fewer = json!({"scopes": ["conversations:read"]});
    account
        .live()
        .patch(&client.path(), fewer)
        .await
        .expect(200);
    let refresh = text(&first, "refresh_token");
    let second = authority.refresh(&client, &refresh).await.expect(200);
    assert_eq!(second["scope"], "conversations:read");
    let token = text(&second, "access_token");
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap());
    let claims: Value = serde_json::from_slice(&claims.unwrap()).unwrap();
    assert_eq!(claims["scope"], "conversations:read");
}

#[tokio::test]
async fn codes_and_tokens_end_by_themselves() {
    let server = Setup::default()
        .env("COLLOQUY__OAUTH__CODE_SECONDS", "1")
        .env("COLLOQUY__OAUTH__ACCESS_TOKEN_SECONDS", "2")
        .start();
    let account = server.account().await;
    let (person, authority) = (
        Person::user(&account, "agent").await,
        Authority::of(&server),
    );
    let client = Registered::web(&account.live()).await;
    let late = code(&person, &client, &[]).await;
    let given = tokens(&authority, &person, &client).await;
    assert_eq!(given["expires_in"], 2);
    let c = account.live().with_key(&text(&given, "access_token"));
    until(
        "the access token has ended",
        Duration::from_secs(10),
        async || (c.get("/v1/conversations").await.status == 401).then_some(()),
    )
    .await;
    authority
        .redeem(&client, &late, &[])
        .await
        .refused(400, "invalid_grant");
}

#[tokio::test]
async fn a_consent_that_is_over_ends_all_that_it_gave() {
    let server = Setup::default()
        .env("COLLOQUY__OAUTH__CONSENT_DAYS", "0.00005")
        .start();
    let account = server.account().await;
    let (person, authority) = (
        Person::user(&account, "agent").await,
        Authority::of(&server),
    );
    let client = Registered::web(&account.live()).await;
    let given = tokens(&authority, &person, &client).await;
    let refresh = text(&given, "refresh_token");
    // Asked about, a token is not used up.
    let named = [("token", refresh.as_str())];
    until("the consent is over", Duration::from_secs(20), async || {
        let known = authority.post("/oauth/introspect", &client, &named).await;
        (known.expect(200)["active"] == false).then_some(())
    })
    .await;
    let c = account.live().with_key(&text(&given, "access_token"));
    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    authority
        .refresh(&client, &refresh)
        .await
        .refused(400, "invalid_grant");
}

#[tokio::test]
async fn a_deleted_user_or_client_ends_tokens_at_once_and_so_does_a_narrowed_client() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let c = account.live();
    let (kept, gone) = (Registered::web(&c).await, Registered::web(&c).await);
    let bearer = |given: &Value| c.with_key(&text(given, "access_token"));
    let (by_kept, by_gone) = (
        bearer(&tokens(&authority, &person, &kept).await),
        bearer(&tokens(&authority, &person, &gone).await),
    );
    by_gone.get("/v1/conversations").await.expect(200);
    c.delete(&gone.path()).await.expect(204);
    by_gone
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");

    by_kept.get("/v1/conversations").await.expect(200);
    c.patch(&kept.path(), json!({"scopes": ["conversations:write"]}))
        .await
        .expect(200);
    by_kept
        .get("/v1/conversations")
        .await
        .error(403, "forbidden", "");
    c.patch(&kept.path(), json!({"scopes": ["conversations:read"]}))
        .await
        .expect(200);
    by_kept.get("/v1/conversations").await.expect(200);
    c.delete(&format!("/v1/users/{}", person.user))
        .await
        .expect(204);
    by_kept
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
}

#[tokio::test]
async fn an_open_stream_ends_with_its_token() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let given = tokens(&authority, &person, &client).await;
    let c = account.live().with_key(&text(&given, "access_token"));
    let ticket = c.post("/v1/realtime/tickets", json!({})).await.expect(201);
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let fields = [("token", given["refresh_token"].as_str().unwrap())];
    authority
        .post("/oauth/revoke", &client, &fields)
        .await
        .expect(200);
    stream.rest(Duration::from_secs(10)).await;
    let path = format!("/v1/realtime?ticket={}", text(&ticket.body, "ticket"));
    let refused = account.anonymous().get(&path).await;
    assert_eq!(refused.status, 401);
}

#[tokio::test]
async fn a_token_of_the_clients_own_is_ended_alone() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let (one, other) = (
        authority.credentials(&client).await,
        authority.credentials(&client).await,
    );
    let stranger = Registered::machine(&account.live()).await;
    let status = async |token: &str| {
        account
            .live()
            .with_key(token)
            .get("/v1/conversations")
            .await
            .status
    };
    authority
        .post("/oauth/revoke", &stranger, &[("token", &one)])
        .await
        .expect(200);
    assert_eq!(status(&one).await, 200, "it is another client's");
    authority
        .post("/oauth/revoke", &client, &[("token", &one)])
        .await
        .expect(200);
    assert_eq!((status(&one).await, status(&other).await), (401, 200));
    authority
        .post("/oauth/revoke", &client, &[("token", "unknown")])
        .await
        .expect(200);
    let known = authority
        .post("/oauth/introspect", &client, &[("token", &other)])
        .await
        .expect(200);
    assert_eq!(
        (&known["active"], &known["client_id"]),
        (&json!(true), &json!(client.id))
    );
    for (who, token) in [(&client, &one), (&stranger, &other)] {
        let known = authority
            .post("/oauth/introspect", who, &[("token", token)])
            .await
            .expect(200);
        assert_eq!(known, json!({"active": false}));
    }
}

#[tokio::test]
async fn a_token_that_was_ended_opens_nothing_also_when_more_were_than_are_remembered() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let ended = async || {
        let token = authority.credentials(&client).await;
        let fields = [("token", token.as_str())];
        let told = authority.post("/oauth/revoke", &client, &fields).await;
        told.expect(200);
        token
    };
    let first = ended().await;
    for _ in 0..50 {
        futures_util::future::join_all((0..20).map(|_| ended())).await;
    }
    let c = account.live().with_key(&first);
    c.get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
}

#[tokio::test]
async fn keys_are_rotated_without_an_outage_by_an_operator_and_by_time() {
    let server = Setup::default()
        .env("COLLOQUY__OAUTH__SIGNING_KEY_DAYS", "0.00006")
        .start();
    let account = server.account().await;
    let authority = Authority::of(&server);
    let client = Registered::machine(&account.live()).await;
    let kids = async || {
        let (_, _, text) = authority.leads("/.well-known/jwks.json").await;
        let keys: Value = serde_json::from_str(&text).unwrap();
        let names = keys["keys"].as_array().unwrap().iter();
        names.map(|key| text_of(key, "kid")).collect::<Vec<_>>()
    };
    let token = authority.credentials(&client).await;
    let signer = |token: &str| {
        let asked = json!({"step": "verify", "issuer": authority.issuer(), "token": token});
        text(&python(&asked)["header"], "kid")
    };
    let first = signer(&token);
    let published = kids().await;
    assert!(
        published.contains(&first) && published.len() == 2,
        "{published:?}"
    );
    let second = until("the next key signs", Duration::from_secs(30), async || {
        let signer = signer(&authority.credentials(&client).await);
        (signer != first).then_some(signer)
    })
    .await;
    assert!(
        published.contains(&second),
        "it was published before it signed"
    );
    assert!(kids().await.contains(&first), "what it signed still holds");
    account
        .live()
        .with_key(&token)
        .get("/v1/conversations")
        .await
        .expect(200);
}

fn text_of(value: &Value, name: &str) -> String {
    text(value, name)
}

#[tokio::test]
async fn a_store_that_was_sealed_with_another_master_key_does_not_start() {
    let folder = crate::support::server::Folder::new();
    let key = |byte: &str| Setup::default().env("COLLOQUY__ENCRYPTION__MASTER_KEY", byte);
    const ONE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OTHER: &str = "HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let mut server = key(ONE).start_in(folder);
    server.term();
    let (status, output) = key(OTHER).known().refused_in(&server.work());
    assert!(!status.success());
    assert!(
        output.contains("the store is under the master key named"),
        "{output}"
    );
    assert!(!output.contains(OTHER), "{output}");
    server.restart();
    let _: &Server = &server;
}
