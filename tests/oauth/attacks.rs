//! The attacks of RFC 9700 (OAuth 2.0) and RFC 8725 (JWT), each of which finds its defence.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{ABSENT, BACK, Registered, code, form_urlencoded, held, signed_in, text, tokens};
use crate::support::{Client, Setup};

pub(super) fn part(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token's header and claims.
pub(super) fn read(token: &str) -> (Value, Value) {
    let mut parts = token.split('.').map(|part| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    });
    (parts.next().unwrap(), parts.next().unwrap())
}

pub(super) async fn refuses(c: &Client, token: &str, what: &str) {
    let answer = c.with_key(token).get("/v1/conversations").await;
    assert_eq!(answer.status, 401, "{what}: {:?}", answer.body);
    answer.error(401, "unauthorized", "");
}

/// The same object with another value.
pub(super) fn with(base: &Value, name: &str, value: Value) -> Value {
    let mut changed = base.clone();
    changed[name] = value;
    changed
}

/// Headers that no token of this server has, and what each tries.
fn other_headers(header: &Value) -> Vec<(Value, &'static str)> {
    vec![
        (with(header, "alg", json!("none")), "alg: none"),
        (with(header, "alg", json!("None")), "alg: None"),
        (with(header, "alg", json!("HS256")), "algorithm confusion"),
        (with(header, "alg", json!("RS256")), "another algorithm"),
        (
            with(header, "kid", json!("../../etc/passwd")),
            "kid injection",
        ),
        (with(header, "kid", json!("' OR 1=1 --")), "kid injection"),
        (
            with(header, "jku", json!("https://evil.example/jwks")),
            "jku",
        ),
        (with(header, "x5u", json!("https://evil.example/x")), "x5u"),
        (with(header, "typ", json!("JWT")), "another type"),
        (with(header, "crit", json!(["exp"])), "crit"),
    ]
}

#[tokio::test]
async fn a_token_that_was_changed_in_any_way_is_refused() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let token = authority.credentials(&client).await;
    let c = account.live();
    c.with_key(&token)
        .get("/v1/conversations")
        .await
        .expect(200);
    let (header, claims) = read(&token);
    let signature = token.rsplit('.').next().unwrap();
    let joined = |header: &Value, claims: &Value, signature: &str| {
        format!("{}.{}.{signature}", part(header), part(claims))
    };
    for (header, what) in other_headers(&header) {
        for signature in [signature, ""] {
            refuses(&c, &joined(&header, &claims, signature), what).await;
        }
    }
    for (name, value) in [
        ("scope", json!("users:manage webhooks:manage")),
        ("exp", json!(i64::MAX)),
        ("sub", json!("usr_0")),
        ("mode", json!("test")),
        ("aud", json!("https://other.example")),
        ("iss", json!("https://other.example")),
    ] {
        refuses(
            &c,
            &joined(&header, &with(&claims, name, value), signature),
            name,
        )
        .await;
    }
    for broken in [
        "..",
        "a.b.c",
        ".",
        &token[..token.len() - 2],
        &format!("{token}."),
        &format!("{token}.x"),
    ] {
        refuses(&c, broken, "broken").await;
    }
    refuses(
        &c,
        &format!("{}.{}.{signature}", part(&header), "A".repeat(12_000)),
        "oversized",
    )
    .await;
}

#[tokio::test]
async fn a_token_signed_with_a_public_key_as_a_shared_secret_is_refused() {
    use hmac::{Hmac, KeyInit, Mac};
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let (mut header, claims) = read(&authority.credentials(&client).await);
    header["alg"] = json!("HS256");
    let (_, _, jwks) = authority.leads("/.well-known/jwks.json").await;
    let jwks: Value = serde_json::from_str(&jwks).unwrap();
    for key in jwks["keys"].as_array().unwrap() {
        let x = text(key, "x");
        let raw = BASE64_URL_SAFE_NO_PAD.decode(&x).unwrap();
        header["kid"] = key["kid"].clone();
        for secret in [raw.as_slice(), x.as_bytes()] {
            let signed = format!("{}.{}", part(&header), part(&claims));
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).unwrap();
            mac.update(signed.as_bytes());
            let code = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
            refuses(
                &account.live(),
                &format!("{signed}.{code}"),
                "HS256 with a public key",
            )
            .await;
        }
    }
}

#[tokio::test]
async fn tricks_with_the_redirect_uri_are_told_on_a_page_and_lead_nowhere() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    for trick in [
        "https://app.example/callback/",
        "https://app.example/callback/../evil",
        "https://app.example/callback?next=https://evil.example",
        "https://app.example/CALLBACK",
        "https://APP.example/callback",
        "https://app.example/callback#token",
        "https://app.example@evil.example/callback",
        "https://user@app.example/callback",
        "https://app.example.evil.example/callback",
        "https://app.example:8443/callback",
        "https://evil.example/https://app.example/callback",
        "http://app.example/callback",
        "https://app.example/callback%2f..",
        "//app.example/callback",
        "javascript:alert(1)",
        ABSENT,
        "",
    ] {
        let asks = client.asks(&[("redirect_uri", trick)]);
        let (status, place, page) = authority.leads(&asks).await;
        assert_eq!((status, place.as_str()), (400, ""), "{trick}");
        assert!(page.contains("redirect_uri is not registered"), "{page}");
        // The page on which users consent looks again.
        let console = asks.replace("/oauth/authorize", "/console/authorize");
        person.get(&console).await.expect(400);
    }
    for unknown in ["cli_0", "", ABSENT, &client.id.replace("cli_", "key_")] {
        let (status, place, _) = authority
            .leads(&client.asks(&[("client_id", unknown)]))
            .await;
        assert_eq!((status, place.as_str()), (400, ""), "{unknown}");
    }
}

#[tokio::test]
async fn what_is_asked_wrongly_is_told_to_the_client() {
    let (_server, account, _person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    for (more, error) in [
        (("response_type", "token"), "unsupported_response_type"),
        (("response_type", ABSENT), "invalid_request"),
        (("code_challenge", ABSENT), "invalid_request"),
        (("code_challenge", "short"), "invalid_request"),
        (("code_challenge_method", "plain"), "invalid_request"),
        (("code_challenge_method", ABSENT), "invalid_request"),
        (("scope", "users:manage"), "invalid_scope"),
        (("scope", "conversations:read openid"), "invalid_scope"),
    ] {
        let (status, place, _) = authority.leads(&client.asks(&[more])).await;
        assert_eq!(status, 303, "{more:?}");
        assert!(place.starts_with(&format!("{BACK}?")), "{place}");
        assert_eq!(held(&place, "error").as_deref(), Some(error), "{more:?}");
        assert_eq!(held(&place, "state").as_deref(), Some("xyz"));
        assert_eq!(
            held(&place, "iss").as_deref(),
            Some(authority.issuer()),
            "a mix-up is noticed"
        );
    }
    // What nobody knows does not count (RFC 6749, 3.1).
    let (status, place, _) = authority
        .leads(&client.asks(&[("prompt", "none"), ("nonce", "n")]))
        .await;
    assert!(
        status == 303 && place.starts_with("/console/authorize?"),
        "{place}"
    );
}

#[tokio::test]
async fn a_code_is_of_use_to_its_own_client_with_its_own_verifier_alone() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let (client, other) = (
        Registered::web(&account.live()).await,
        Registered::web(&account.live()).await,
    );
    let verifiers = ["", "A", &"a".repeat(43), super::CHALLENGE];
    for verifier in verifiers {
        let code = code(&person, &client, &[]).await;
        let error = if verifier.is_empty() {
            "invalid_request"
        } else {
            "invalid_grant"
        };
        authority
            .redeem(&client, &code, &[("code_verifier", verifier)])
            .await
            .refused(400, error);
        if error == "invalid_grant" {
            authority
                .redeem(&client, &code, &[])
                .await
                .refused(400, "invalid_grant");
        }
    }
    // Code injection: it was given to another client, or sent elsewhere.
    let given = code(&person, &client, &[]).await;
    authority
        .redeem(&other, &given, &[])
        .await
        .refused(400, "invalid_grant");
    for elsewhere in [ABSENT, "https://app.example/other"] {
        let given = code(&person, &client, &[]).await;
        authority
            .redeem(&client, &given, &[("redirect_uri", elsewhere)])
            .await
            .refused(400, "invalid_grant");
    }
    // Somebody who guesses uses up nothing.
    let given = code(&person, &client, &[]).await;
    let wrong = if given.ends_with('A') { 'B' } else { 'A' };
    let guessed = format!("{}{wrong}", &given[..given.len() - 1]);
    authority
        .redeem(&client, &guessed, &[])
        .await
        .refused(400, "invalid_grant");
    authority.redeem(&client, &given, &[]).await.expect(200);
}

#[tokio::test]
async fn a_refresh_token_that_was_guessed_ends_nothing_and_one_that_was_used_is_told_as_such() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let given = tokens(&authority, &person, &client).await;
    let first = text(&given, "refresh_token");
    // Of the same grant, by who never had one of its tokens.
    let (known, secret) = first.split_at("ort_".len() + 32);
    let guessed = format!("{known}{}", "A".repeat(secret.len()));
    authority
        .refresh(&client, &guessed)
        .await
        .refused(400, "invalid_grant");
    let given = authority.refresh(&client, &first).await.expect(200);
    let second = text(&given, "refresh_token");
    for (token, active) in [(&first, false), (&guessed, false), (&second, true)] {
        let named = [("token", token.as_str())];
        let known = authority.post("/oauth/introspect", &client, &named).await;
        assert_eq!(known.expect(200)["active"], active, "{token}");
    }
    authority.refresh(&client, &second).await.expect(200);
}

#[tokio::test]
async fn a_client_neither_uses_nor_ends_the_tokens_of_another_one_of_its_account() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let c = account.live();
    let (client, other) = (Registered::web(&c).await, Registered::web(&c).await);
    let given = tokens(&authority, &person, &client).await;
    let (access, refresh) = (text(&given, "access_token"), text(&given, "refresh_token"));
    authority
        .refresh(&other, &refresh)
        .await
        .refused(400, "invalid_grant");
    for token in [&access, &refresh] {
        let named = [("token", token.as_str())];
        let known = authority.post("/oauth/introspect", &other, &named).await;
        assert_eq!(known.expect(200), json!({"active": false}));
        let ended = authority.post("/oauth/revoke", &other, &named).await;
        ended.expect(200);
        c.with_key(&access)
            .get("/v1/conversations")
            .await
            .expect(200);
    }
    authority.refresh(&client, &refresh).await.expect(200);
}

#[tokio::test]
async fn a_client_is_who_it_says_in_one_way_and_with_its_own_secret() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let other = Registered::machine(&account.live()).await;
    let secret = client.secret.clone().unwrap();
    let grant = ("grant_type", "client_credentials");
    let by_form = [
        grant,
        ("client_id", client.id.as_str()),
        ("client_secret", secret.as_str()),
    ];
    authority
        .post_bare("/oauth/token", &by_form)
        .await
        .expect(200);
    authority
        .post("/oauth/token", &client, &by_form)
        .await
        .refused(400, "invalid_request");
    for (id, secret) in [
        (client.id.as_str(), "cls_wrong"),
        (client.id.as_str(), ""),
        (other.id.as_str(), secret.as_str()),
        ("cli_0", secret.as_str()),
        ("", ""),
    ] {
        let fields = [grant, ("client_id", id), ("client_secret", secret)];
        authority
            .post_bare("/oauth/token", &fields)
            .await
            .refused(401, "invalid_client");
    }
    // A client without a secret can't be played by one who has any, and the other way round.
    let public = Registered::make(
        &account.live(),
        json!({"name": "Phone", "redirect_uris": [BACK], "scopes": ["conversations:read"], "confidential": false}),
    )
    .await;
    let posed = Registered {
        id: public.id.clone(),
        secret: Some(secret),
    };
    authority
        .refresh(&posed, "x")
        .await
        .refused(401, "invalid_client");
    let bare = Registered {
        id: client.id.clone(),
        secret: None,
    };
    authority
        .refresh(&bare, "x")
        .await
        .refused(401, "invalid_client");
    let fields = [grant];
    authority
        .post("/oauth/token", &public, &fields)
        .await
        .refused(400, "unauthorized_client");
}

#[tokio::test]
async fn a_scope_never_grows() {
    let (_server, account, person, authority) = signed_in("admin").await;
    let client = Registered::web(&account.live()).await;
    let given = code(&person, &client, &[("scope", "conversations:read")]).await;
    let given = authority
        .redeem(&client, &given, &[("scope", "conversations:write")])
        .await;
    let given = given.expect(200);
    assert_eq!(given["scope"], "conversations:read");
    let refresh = text(&given, "refresh_token");
    let asks = |scope: &'static str| {
        [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("scope", scope),
        ]
    };
    for scope in [
        "conversations:read conversations:write",
        "users:manage",
        "nonsense",
    ] {
        authority
            .post("/oauth/token", &client, &asks(scope))
            .await
            .refused(400, "invalid_scope");
    }
    let given = authority.refresh(&client, &refresh).await.expect(200);
    // What is taken away from the client is gone from what it was allowed.
    let less = json!({"scopes": ["conversations:write"]});
    let c = account.live();
    c.patch(&client.path(), less).await.expect(200);
    let refresh = text(&given, "refresh_token");
    authority
        .refresh(&client, &refresh)
        .await
        .refused(400, "invalid_scope");
    let again = json!({"scopes": ["conversations:read"]});
    c.patch(&client.path(), again).await.expect(200);
    authority.refresh(&client, &refresh).await.expect(200);
    let machine = Registered::machine(&account.live()).await;
    let fields = [
        ("grant_type", "client_credentials"),
        ("scope", "webhooks:manage"),
    ];
    authority
        .post("/oauth/token", &machine, &fields)
        .await
        .refused(400, "invalid_scope");
}

#[tokio::test]
async fn a_user_may_no_more_through_a_client_than_alone() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::make(
        &account.live(),
        json!({"name": "Greedy", "redirect_uris": [BACK], "scopes": ["users:manage", "conversations:read"]}),
    )
    .await;
    let given = tokens(&authority, &person, &client).await;
    let c = account.live().with_key(&text(&given, "access_token"));
    c.get("/v1/conversations").await.expect(200);
    let body = json!({"name": "Me again", "email": "me@example.com", "role": "admin"});
    c.post("/v1/users", body).await.error(403, "forbidden", "");
}

#[tokio::test]
async fn a_client_of_another_account_gets_nothing_of_this_one() {
    let (server, account, person, authority) = signed_in("admin").await;
    let stranger = server.account().await;
    let client = Registered::web(&account.live()).await;
    let foreign = Registered::web(&stranger.live()).await;
    let conversation = account.live().conversation().await;
    let token = authority
        .credentials(&Registered::machine(&stranger.live()).await)
        .await;
    account
        .live()
        .with_key(&token)
        .get(&format!("/v1/conversations/{conversation}"))
        .await
        .error(404, "not_found", "");
    stranger
        .live()
        .get(&client.path())
        .await
        .error(404, "not_found", "");
    let given = tokens(&authority, &person, &client).await;
    let refresh = text(&given, "refresh_token");
    authority
        .refresh(&foreign, &refresh)
        .await
        .refused(400, "invalid_grant");
    let named = [("token", refresh.as_str())];
    let known = authority.post("/oauth/introspect", &foreign, &named).await;
    assert_eq!(known.expect(200), json!({"active": false}));
    let ended = authority.post("/oauth/revoke", &foreign, &named).await;
    ended.expect(200);
    authority.refresh(&client, &refresh).await.expect(200);
    let led = authority.leads(&foreign.asks(&[])).await.1;
    person.get(&led).await.expect(403);
}

#[tokio::test]
async fn a_token_of_one_mode_reaches_nothing_of_the_other() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let modes = [account.live(), account.test()];
    let mut paths = Vec::new();
    for c in &modes {
        paths.push(format!("/v1/conversations/{}", c.conversation().await));
    }
    for (own, c) in modes.iter().enumerate() {
        let token = authority.credentials(&Registered::machine(c).await).await;
        for (place, path) in paths.iter().enumerate() {
            let answer = c.with_key(&token).get(path).await;
            let expected = if place == own { 200 } else { 404 };
            assert_eq!(answer.status, expected, "{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_consent_can_be_given_by_nobody_elses_page() {
    let (_server, account, person, authority) = signed_in("agent").await;
    let client = Registered::web(&account.live()).await;
    let page = authority.leads(&client.asks(&[])).await.1;
    let fields = [("decision", "allow")];
    person.post_without_token(&page, &fields).await.expect(403);
    let (http, base) = person.raw();
    let shown = person.get(&page).await.expect(200);
    let fields = [
        ("csrf", shown.held("csrf")),
        ("decision", "allow".to_owned()),
    ];
    let pairs: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let forged = http
        .post(format!("{base}{page}"))
        .header("cookie", person.cookie.clone().unwrap())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", "https://evil.example")
        .body(form_urlencoded(&pairs));
    person.seen(forged).await.expect(403);
}

#[tokio::test]
async fn who_guesses_at_the_token_endpoint_is_slowed_down_by_address() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "5")
        .start();
    let account = server.account().await;
    let authority = super::Authority::of(&server);
    let client = Registered::machine(&account.live()).await;
    let guess = Registered {
        id: client.id.clone(),
        secret: Some("cls_guess".to_owned()),
    };
    let fields = [("grant_type", "client_credentials")];
    for _ in 0..5 {
        authority
            .post("/oauth/token", &guess, &fields)
            .await
            .refused(401, "invalid_client");
    }
    let limited = authority.post("/oauth/token", &guess, &fields).await;
    assert!(limited.headers.contains_key("retry-after"));
    limited.refused(429, "temporarily_unavailable");
    // Whoever knows the secret is let in all the same.
    authority.credentials(&client).await;
}

#[tokio::test]
async fn what_is_sent_to_the_token_endpoint_otherwise_is_refused_in_its_own_words() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    for (fields, error) in [
        (vec![], "invalid_request"),
        (vec![("grant_type", "password")], "unsupported_grant_type"),
        (
            vec![("grant_type", "authorization_code")],
            "invalid_request",
        ),
        (vec![("grant_type", "refresh_token")], "invalid_request"),
        (
            vec![
                ("grant_type", "client_credentials"),
                ("grant_type", "client_credentials"),
            ],
            "invalid_request",
        ),
    ] {
        authority
            .post("/oauth/token", &client, &fields)
            .await
            .refused(400, error);
    }
    let json = authority
        .posting("/oauth/token")
        .header("content-type", "application/json")
        .body("{}");
    let answer = json.send().await.unwrap();
    assert_eq!(answer.status(), 415);
    let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(body["error"], "invalid_request");
}
