//! Access tokens of other issuers, made with Authlib, as far as the settings trust them.

use std::fs;

use serde_json::{Value, json};

use super::{python, text};
use crate::support::server::Folder;
use crate::support::{Account, Receiver, Reply, Server, Setup};

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "https://colloquy.example/api";

fn settings(keys: &str, more: &str) -> String {
    format!(
        "[[issuers]]\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\n{keys}\nalgorithms = [\"RS256\", \"RS384\", \"ES256\", \
         \"EdDSA\"]\naccount_claim = \"https://example/account\"\nuser_claim = \"email\"\nscopes = [\"conversations:read\", \
         \"conversations:write\"]\n{more}"
    )
}

fn now() -> i64 {
    colloquy_model::time::Timestamp::now().0 / 1_000
}

/// Claims that are good, but for these.
fn claims(account: &str, email: &str, other: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "someone", "exp": now() + 600, "iat": now(),
        "https://example/account": account, "email": email, "scope": "openid conversations:read documents:read users:manage",
    });
    for (name, value) in other.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let named = claims.as_object_mut().unwrap();
    named.retain(|_, value| !value.is_null());
    claims
}

/// A server that trusts an issuer whose keys are in a file, which is written afterwards.
async fn trusting(more: &str) -> (Server, Account, String, std::path::PathBuf) {
    let folder = Folder::new();
    let file = folder.work().join("issuer.json");
    let keys = format!("jwks_file = \"{}\"", file.display());
    let server = Setup::default()
        .config(&settings(&keys, more))
        .start_in(folder);
    let account = server.account().await;
    let user = account.live().user("agent").await;
    let user = account
        .live()
        .get(&format!("/v1/users/{user}"))
        .await
        .expect(200);
    (server, account, text(&user.body, "email"), file)
}

fn account_id(account: &Account) -> String {
    account.account_id.clone()
}

#[tokio::test]
async fn a_token_of_an_issuer_that_is_trusted_acts_as_the_user_whom_it_names() {
    let (_server, account, email, file) = trusting("mode_claim = \"mode\"").await;
    let id = account_id(&account);
    let case = |key: &str, alg: &str, mode: &str| json!({"key": key, "kid": key, "alg": alg, "claims": claims(&id, &email, &json!({"mode": mode}))});
    let made = python(&json!({
        "step": "foreign", "keys": {"r": "RS256", "e": "ES256", "d": "EdDSA", "short": "ES256"},
        "cases": [case("r", "RS256", "live"), case("e", "ES256", "test"), case("d", "EdDSA", "live"), case("short", "ES256", "live")],
    }));
    fs::write(&file, made["jwks"].to_string()).unwrap();
    let live = account.live().conversation().await;
    for (token, finds) in made["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .zip([200, 404, 200, 200])
    {
        let c = account.live().with_key(token.as_str().unwrap());
        assert_eq!(
            c.get(&format!("/v1/conversations/{live}")).await.status,
            finds
        );
        // What the token and the entry share: not users:manage and documents:read, which the entry
        // leaves out, and not conversations:write, which the token does. An agent may read documents.
        c.get("/api/v1/documents").await.error(403, "forbidden", "");
        c.get("/v1/oauth/clients").await.error(403, "forbidden", "");
        c.post("/v1/customers", json!({"name": "A"}))
            .await
            .error(403, "forbidden", "");
    }
}

fn plain(claims: Value) -> Value {
    json!({"key": "r", "kid": "r", "alg": "RS256", "claims": claims})
}

fn with(mut case: Value, name: &str, value: Value) -> Value {
    case[name] = value;
    case
}

/// Tokens that must open nothing.
fn wrong_cases(good: &dyn Fn(Value) -> Value, stranger: &str) -> Vec<Value> {
    vec![
        plain(good(json!({"exp": null}))),
        plain(good(json!({"exp": "never"}))),
        plain(good(json!({"exp": now() - 120}))),
        plain(good(json!({"nbf": now() + 120}))),
        plain(good(json!({"nbf": "soon"}))),
        plain(good(json!({"aud": "https://elsewhere.example"}))),
        plain(good(json!({"aud": null}))),
        plain(good(json!({"iss": "https://login.example/"}))),
        plain(good(json!({"iss": "https://evil.example"}))),
        plain(good(json!({"iss": null}))),
        plain(good(json!({"email": "nobody@example.com"}))),
        plain(good(json!({"email": null}))),
        plain(good(json!({"https://example/account": "acc_0"}))),
        plain(good(json!({"https://example/account": stranger}))),
        with(plain(good(json!({}))), "kid", json!("e")),
        with(plain(good(json!({}))), "kid", json!("unknown")),
        with(plain(good(json!({}))), "kid", json!("../r")),
        with(plain(good(json!({}))), "alg", json!("PS256")),
        // The issuer may sign so, but not with this key; and with this key, but not so.
        with(plain(good(json!({}))), "alg", json!("RS384")),
        json!({"key": "q", "kid": "q", "alg": "PS256", "claims": good(json!({}))}),
        // A key that encrypts.
        json!({"key": "x", "kid": "x", "alg": "ES256", "claims": good(json!({}))}),
        plain(good(json!({"pad": "a".repeat(6_400)}))),
        with(
            plain(good(json!({}))),
            "header",
            json!({"jku": "https://evil.example/jwks"}),
        ),
        with(
            plain(good(json!({}))),
            "header",
            json!({"x5u": "https://evil.example/x"}),
        ),
        with(plain(good(json!({}))), "key", json!("p")),
    ]
}

#[tokio::test]
async fn a_token_that_an_issuer_did_not_make_for_this_server_is_refused() {
    let (server, account, email, file) = trusting("").await;
    let (id, stranger) = (account_id(&account), server.account().await);
    let good = |other: Value| claims(&id, &email, &other);
    let fine = [
        plain(good(json!({}))),
        plain(good(json!({"exp": now() - 30}))),
        plain(good(json!({"nbf": now() + 30}))),
        plain(good(
            json!({"aud": ["https://elsewhere.example", AUDIENCE]}),
        )),
    ];
    let wrong = wrong_cases(&good, &account_id(&stranger));
    let cases: Vec<&Value> = fine.iter().chain(&wrong).collect();
    let mut made = python(&json!({
        "step": "foreign", "cases": cases,
        "keys": {"r": "RS256", "e": "ES256", "p": "PS256", "q": "PS256", "x": "ES256"},
    }));
    // The key named p is nobody's.
    let keys = made["jwks"]["keys"].as_array_mut().unwrap();
    keys.retain(|key| key["kid"] != "p");
    for (name, field, value) in [
        ("r", "alg", "RS256"),
        ("q", "alg", "PS256"),
        ("x", "use", "enc"),
    ] {
        let key = keys.iter_mut().find(|key| key["kid"] == name);
        key.unwrap()[field] = json!(value);
    }
    fs::write(&file, made["jwks"].to_string()).unwrap();
    for (place, token) in made["tokens"].as_array().unwrap().iter().enumerate() {
        let c = account.live().with_key(token.as_str().unwrap());
        let status = c.get("/v1/conversations").await.status;
        let expected = if place < fine.len() { 200 } else { 401 };
        assert_eq!(status, expected, "{}", cases[place]);
    }
}

/// An issuer whose keys are fetched, with tokens of one key each.
struct Published {
    receiver: Receiver,
    _server: Server,
    account: Account,
    made: Value,
}

impl Published {
    async fn start() -> Self {
        let receiver = Receiver::start().await;
        let url = format!("jwks_url = \"{}\"", receiver.url());
        let server = Setup::default().config(&settings(&url, "")).start();
        let account = server.account().await;
        let made = Self::made(&account).await;
        Published {
            receiver,
            _server: server,
            account,
            made,
        }
    }

    async fn made(account: &Account) -> Value {
        let user = account.live().user("agent").await;
        let user = account
            .live()
            .get(&format!("/v1/users/{user}"))
            .await
            .expect(200);
        let claims = claims(&account_id(account), &text(&user.body, "email"), &json!({}));
        let case = |key: &str| json!({"key": key, "kid": key, "alg": "ES256", "claims": claims});
        let keys = json!({"one": "ES256", "two": "ES256", "three": "ES256", "four": "ES256"});
        let cases = ["one", "two", "three", "four"].map(case);
        python(&json!({"step": "foreign", "keys": keys, "cases": cases}))
    }

    /// Answers with these keys from now on.
    fn publish(&self, names: &[&str]) {
        let all = self.made["jwks"]["keys"].as_array().unwrap().iter();
        let some: Vec<&Value> = all
            .filter(|key| names.contains(&key["kid"].as_str().unwrap()))
            .collect();
        let body = json!({"keys": some}).to_string();
        self.receiver.answer(move |_| Reply::with_body(200, &body));
    }

    /// What a request with one of the tokens is answered.
    async fn status(&self, place: usize) -> u16 {
        let token = self.made["tokens"][place].as_str().unwrap();
        let c = self.account.live().with_key(token);
        c.get("/v1/conversations").await.status
    }

    fn fetches(&self) -> usize {
        self.receiver.count()
    }
}

#[tokio::test]
async fn keys_are_fetched_again_for_an_unknown_name_and_at_most_once_a_minute() {
    let issuer = Published::start().await;
    issuer.publish(&["one"]);
    assert_eq!(issuer.status(0).await, 200);
    assert_eq!(issuer.fetches(), 1, "the first time");
    issuer.publish(&["one", "two"]);
    assert_eq!(
        issuer.status(1).await,
        200,
        "the first time does not count for the minute"
    );
    assert_eq!(issuer.fetches(), 2);
    issuer.publish(&["one", "two", "three"]);
    for _ in 0..5 {
        assert_eq!(issuer.status(2).await, 401);
    }
    assert_eq!(issuer.fetches(), 2, "at most once a minute");
    assert_eq!((issuer.status(0).await, issuer.status(1).await), (200, 200));
}

#[tokio::test]
async fn an_issuer_that_is_away_at_first_is_asked_once_more_and_then_once_a_minute() {
    let issuer = Published::start().await;
    issuer.receiver.answer(|_| Reply::status(500));
    assert_eq!(issuer.status(0).await, 401);
    assert_eq!(issuer.fetches(), 1);
    issuer.publish(&["one"]);
    assert_eq!(
        issuer.status(0).await,
        200,
        "the first time does not count for the minute, whatever it gave"
    );
    issuer.publish(&["one", "two"]);
    assert_eq!(issuer.status(1).await, 401);
    assert_eq!(issuer.fetches(), 2, "at most once a minute");

    let away = Published::start().await;
    away.receiver.answer(|_| Reply::status(500));
    for _ in 0..5 {
        assert_eq!(away.status(0).await, 401);
    }
    assert_eq!(away.fetches(), 2);
}

#[test]
fn an_issuer_that_makes_no_sense_stops_the_start() {
    let folder = Folder::new();
    for (text, words) in [
        (settings("", ""), "jwks_url"),
        (settings("jwks_url = \"ftp://a\"", ""), "jwks_url"),
        (
            settings("jwks_url = \"https://a\"\njwks_file = \"b\"", ""),
            "jwks_url",
        ),
        (
            settings("jwks_url = \"https://a\"", "colour = \"red\""),
            "colour",
        ),
        (
            settings("jwks_url = \"https://a\"", "").replace("\"RS256\"", "\"none\""),
            "none",
        ),
        (
            settings("jwks_url = \"https://a\"", "").replace("\"RS256\"", "\"HS256\""),
            "HS256",
        ),
        (
            settings("jwks_url = \"https://a\"", "").repeat(2),
            "named twice",
        ),
    ] {
        fs::write(folder.work().join("config.toml"), &text).unwrap();
        let (status, output) = Setup::default().refused_in(&folder.work());
        assert!(
            !status.success() && output.contains(words),
            "{text}: {output}"
        );
    }
}
