//! Domains: an account's own host names. They are proven by a TXT record at a real nameserver; there the
//! server is that account's alone, and what it links to carries them. Which pages may call an account is
//! told beside.

use std::future::IntoFuture;
use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Call;
use crate::support::{Account, Answer, Client, Nameserver, Server, Setup, unique, until};

const SOON: Duration = Duration::from_secs(30);

/// A server that asks this nameserver, and asks again soon.
fn setup(names: &Nameserver) -> Setup {
    Setup::default()
        .env(
            "COLLOQUY__DOMAINS__NAMESERVERS",
            &format!("[\"{}\"]", names.address()),
        )
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MIN", "0.1")
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MAX", "0.2")
}

fn host() -> String {
    format!("{}.shop.example", unique("chat").replace('_', "-"))
}

/// The account's path for operators.
fn at(account: &Account) -> String {
    format!("/admin/v1/accounts/{}", account.account_id)
}

async fn set(account: &Account, change: Value) -> Answer {
    account.operator().patch(&at(account), change).await
}

async fn domain(account: &Account, place: usize) -> Value {
    let shown = account.operator().get(&at(account)).await.expect(200);
    shown.body["domains"][place].clone()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

async fn is_proven(account: &Account, host: &str) {
    until("the domain is proven", SOON, async || {
        let shown = account.operator().get(&at(account)).await.expect(200);
        let domains = shown.body["domains"].as_array().unwrap().clone();
        let mut domains = domains.iter();
        domains
            .find(|one| one["host"] == host && one["state"] == "proven")
            .cloned()
    })
    .await;
}

/// Gives the account a domain, and waits until it is proven.
async fn prove(names: &Nameserver, account: &Account, host: &str) {
    let set = set(account, json!({"domains": [host]})).await.expect(200);
    let domain = &set.body["domains"][0];
    names
        .publish(&text(domain, "txt_name"), &text(domain, "txt_value"))
        .await;
    is_proven(account, host).await;
}

/// The address under which the server is reached at a host.
fn address(server: &Server, host: &str) -> String {
    let own = server.address();
    let (_, port) = own.rsplit_once(':').unwrap();
    format!("http://{host}:{port}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_the_accounts_once_its_record_is_found_and_until_it_is_given_up() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let host = host();
    let set_up = set(&a, json!({"domains": [host.to_uppercase()]}))
        .await
        .expect(200);
    let pending = set_up.body["domains"][0].clone();
    assert_eq!(pending["host"], host);
    assert_eq!(pending["state"], "pending");
    assert_eq!(pending["proven_at"], Value::Null);
    assert_eq!(pending["txt_name"], format!("_colloquy.{host}"));
    let value = text(&pending, "txt_value");
    assert!(value.starts_with("colloquy-verification="), "{value}");
    // Nothing is answered differently there while nobody knows whose it is.
    b.test()
        .get("/v1/customers")
        .with("host", &host)
        .await
        .expect(200);
    // Another account's value proves nothing for this one.
    set(&b, json!({"domains": [host]})).await.expect(200);
    let others = text(&domain(&b, 0).await, "txt_value");
    assert_ne!(others, value);
    names
        .publish(&format!("_colloquy.{host}"), "v=spf1 -all")
        .await;
    names.publish(&format!("_colloquy.{host}"), &value).await;
    is_proven(&a, &host).await;
    assert_eq!(domain(&b, 0).await["state"], "pending");
    b.test()
        .get("/v1/customers")
        .with("host", &host)
        .await
        .error(404, "not_found", "");
    a.test()
        .get("/v1/customers")
        .with("host", &host)
        .await
        .expect(200);
    // It stays proven without its record, and over a restart.
    names.withdraw(&format!("_colloquy.{host}")).await;
    let shown = domain(&a, 0).await;
    let mut server = server;
    server.restart();
    let (a, b) = (a.at(server.anonymous()), b.at(server.anonymous()));
    assert_eq!(domain(&a, 0).await, shown);
    b.test()
        .get("/v1/customers")
        .with("host", &host)
        .await
        .error(404, "not_found", "");
    set(&a, json!({"domains": []})).await.expect(200);
    b.test()
        .get("/v1/customers")
        .with("host", &host)
        .await
        .expect(200);
    // Whoever has it now proves it by a value of its own.
    names.publish(&format!("_colloquy.{host}"), &value).await;
    set(&a, json!({"domains": [host]})).await.expect(200);
    assert_ne!(text(&domain(&a, 0).await, "txt_value"), value);
    names.publish(&format!("_colloquy.{host}"), &others).await;
    is_proven(&b, &host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_accounts_that_publish_their_records_one_has_the_domain() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    for _ in 0..5 {
        let host = host();
        let accounts = [
            Account::make(server.anonymous()).await,
            Account::make(server.anonymous()).await,
        ];
        for account in &accounts {
            set(account, json!({"domains": [host]})).await.expect(200);
            let value = text(&domain(account, 0).await, "txt_value");
            names.publish(&format!("_colloquy.{host}"), &value).await;
        }
        let [first, second] = &accounts;
        let verify = |account: &Account| {
            let path = format!("{}/domains/{host}/verify", at(account));
            account.operator().call("POST", &path).into_future()
        };
        let (one, other) = tokio::join!(verify(first), verify(second));
        let states = [domain(first, 0).await, domain(second, 0).await];
        let proven = states.iter().filter(|one| one["state"] == "proven").count();
        assert_eq!(proven, 1, "{states:?}");
        for (answer, state) in [(one, &states[0]), (other, &states[1])] {
            if state["state"] == "proven" {
                answer.expect(200);
            } else {
                answer.error(409, "conflict", "domains");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_says_what_was_found_and_proves_at_once() {
    let names = Nameserver::start();
    let server = setup(&names)
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MIN", "3600")
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MAX", "3600")
        .start();
    let account = Account::make(server.anonymous()).await;
    let host = host();
    let path = format!("{}/domains/{host}/verify", at(&account));
    let verify = || account.operator().call("POST", &path);
    verify().await.error(404, "not_found", "");
    set(&account, json!({"domains": [host]})).await.expect(200);
    let reason = |answer: Answer| {
        let refused = answer.error(409, "conflict", "");
        text(&refused.body["error"]["details"], "reason")
    };
    assert!(reason(verify().await).contains("is not there"));
    let name = format!("_colloquy.{host}");
    names.publish(&name, "something else").await;
    assert!(reason(verify().await).contains("another value"));
    let value = text(&domain(&account, 0).await, "txt_value");
    names.publish(&name, &value).await;
    let stale = verify().with("if-match", "\"0\"").await;
    stale.error(412, "precondition_failed", "");
    let proven = verify().await.expect(200);
    assert_eq!(proven.body["domains"][0]["state"], "proven");
    let again = verify().await.expect(200);
    assert_eq!(
        (again.bytes.clone(), again.etag()),
        (proven.bytes.clone(), proven.etag())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nameserver_that_says_nothing_holds_nobody_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Setup::default()
        .env(
            "COLLOQUY__DOMAINS__NAMESERVERS",
            &format!("[\"{}\"]", silent.local_addr().unwrap()),
        )
        .env("COLLOQUY__DOMAINS__TIMEOUT_SECONDS", "0.5")
        .start();
    let account = Account::make(server.anonymous()).await;
    let hosts: Vec<String> = (0..20).map(|_| host()).collect();
    set(&account, json!({"domains": hosts})).await.expect(200);
    let path = format!("{}/domains/{}/verify", at(&account), hosts[0]);
    let told = account.operator().call("POST", &path).await;
    let told = told.error(409, "conflict", "");
    let reason = text(&told.body["error"]["details"], "reason");
    assert!(reason.contains("no nameserver answers"), "{reason}");
    account.test().customer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_domain_is_refused_by_its_place_and_changes_nothing() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let (good, proven) = (host(), host());
    prove(&names, &b, &proven).await;
    let before = a.operator().get(&at(&a)).await.expect(200);
    for wrong in [
        json!("*.shop.example"),
        json!("shop.example:443"),
        json!("https://shop.example"),
        json!("127.0.0.1"),
        json!("[::1]"),
        json!("localhost"),
        json!(""),
        json!("a b.example"),
        json!(format!("{}.example", ["a"; 130].join("."))),
        json!(7),
        json!(null),
    ] {
        let refused = set(&a, json!({"domains": [good, wrong]})).await;
        refused.error(400, "invalid_request", "domains[1]");
    }
    let many: Vec<String> = (0..21).map(|_| host()).collect();
    for (wrong, status, field) in [
        (json!({"domains": [good, good]}), 400, "domains"),
        (json!({"domains": many}), 400, "domains"),
        (json!({"domains": null}), 400, "domains"),
        (json!({"domains": good}), 400, "domains"),
        (json!({"domains": [good, proven]}), 409, "domains[1]"),
        (
            json!({"cors_origins": ["https://a.example/"]}),
            400,
            "cors_origins[0]",
        ),
        (
            json!({"cors_origins": ["*", "a.example"]}),
            400,
            "cors_origins[1]",
        ),
        (json!({"cors_origins": "*"}), 400, "cors_origins"),
    ] {
        let refused = set(&a, wrong.clone()).await.expect(status);
        assert_eq!(refused.body["error"]["details"]["field"], field, "{wrong}");
        let mut creation = wrong;
        creation["name"] = json!("Another");
        let refused = a.operator().post("/admin/v1/accounts", creation).await;
        assert_eq!(
            refused.expect(status).body["error"]["details"]["field"],
            field
        );
    }
    let after = a.operator().get(&at(&a)).await.expect(200);
    assert_eq!(
        (after.bytes.clone(), after.etag()),
        (before.bytes.clone(), before.etag())
    );
    // Whoever has proven it may say so again.
    set(&b, json!({"domains": [proven]})).await.expect(200);
    let named =
        json!({"name": "With domains", "domains": [good], "cors_origins": ["https://a.example"]});
    let made = a
        .operator()
        .post("/admin/v1/accounts", named)
        .await
        .expect(201);
    assert_eq!(made.body["domains"][0]["state"], "pending");
    assert_eq!(made.body["cors_origins"], json!(["https://a.example"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_host_is_nobodys() {
    let names = Nameserver::start();
    let server = setup(&names)
        .env(
            "COLLOQUY__SERVER__PUBLIC_URL",
            "https://api.colloquy.example",
        )
        .start();
    let account = Account::make(server.anonymous()).await;
    let refused = set(&account, json!({"domains": ["API.colloquy.example"]})).await;
    refused.error(400, "invalid_request", "domains[0]");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_domain_only_its_account_is_there() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let host = host();
    prove(&names, &a, &host).await;
    let document = a.test().document("Ours").await;
    let (_, ours) = a.test().share(&document, json!({})).await;
    let document = b.test().document("Theirs").await;
    let (_, theirs) = b.test().share(&document, json!({})).await;
    let there = |call: Call| call.with("host", &format!("{}:443", host.to_uppercase()));
    let nobody = server.anonymous();
    let json = "application/json";
    there(nobody.get(&ours))
        .with("accept", json)
        .await
        .expect(200);
    there(nobody.get(&theirs))
        .with("accept", json)
        .await
        .error(404, "not_found", "");
    nobody.get(&theirs).with("accept", json).await.expect(200);
    there(a.test().get("/v1")).await.expect(200);
    there(b.test().get("/v1")).await.error(404, "not_found", "");
    there(nobody.with_key("sk_test_nonsense").get("/v1"))
        .await
        .error(401, "unauthorized", "");
    there(nobody.get("/v1"))
        .await
        .error(401, "unauthorized", "");
    for path in ["/admin/v1/accounts", "/metrics"] {
        there(server.operator().get(path))
            .await
            .error(404, "not_found", "");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        there(nobody.get(path)).await.expect(200);
    }
    // Nothing of the other account has changed.
    let customer = json!({"name": "Ada"});
    there(b.test().post("/v1/customers", customer))
        .await
        .error(404, "not_found", "");
    let list = b.test().get("/v1/customers").await.expect(200);
    assert_eq!(list.body["meta"]["total"], 0);
    // Anybody may write a header: only a proxy that is believed names another host.
    let spoofed = b.test().get("/v1").with("x-forwarded-host", &host);
    spoofed.await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_believed_says_which_host_was_asked() {
    let names = Nameserver::start();
    let server = setup(&names)
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let (a, b) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let host = host();
    prove(&names, &a, &host).await;
    let asked = |c: Client| c.get("/v1").with("x-forwarded-host", &host);
    asked(a.test()).await.expect(200);
    asked(b.test()).await.error(404, "not_found", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_carry_the_domain() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let account = Account::make(server.anonymous()).await;
    let c = account.test();
    let (first, second) = (host(), host());
    prove(&names, &account, &first).await;
    set(&account, json!({"domains": [first, second]}))
        .await
        .expect(200);
    let value = text(&domain(&account, 1).await, "txt_value");
    names.publish(&format!("_colloquy.{second}"), &value).await;
    is_proven(&account, &second).await;
    let document = c.document("Text").await;
    let share = format!("{document}/share");
    for (asked, shown) in [
        (None, &first),
        (Some(&first), &first),
        (Some(&second), &second),
    ] {
        let call = c.post(&share, json!({}));
        let call = match asked {
            Some(host) => call.with("host", host),
            None => call,
        };
        let url = text(&call.await.expect(201).body, "url");
        assert!(
            url.starts_with(&format!("{}/s/", address(&server, shown))),
            "{url}"
        );
    }
    let user = c.user("agent").await;
    let invited = c.call("POST", &format!("/v1/users/{user}/invitations"));
    let url = text(&invited.await.expect(201).body, "url");
    assert!(url.starts_with(&address(&server, &first)), "{url}");
    // What stands in a message for good is the same wherever it was sent.
    let conversation = c.conversation().await;
    let upload = c
        .call("POST", "/v1/attachments")
        .with("content-type", "text/plain");
    let attachment = upload.bytes("file").await.expect(201).id("attachment_id");
    let message = json!({"type": "file", "attachment_id": attachment});
    let messages = format!("/v1/conversations/{conversation}/messages");
    let sent = c
        .post(&messages, message)
        .with("host", &second)
        .await
        .expect(201);
    let content = text(&sent.body, "content");
    let path = format!("/v1/attachments/{attachment}/content");
    assert_eq!(content, format!("{}{path}", address(&server, &first)));
    assert_eq!(
        c.get(&path).with("host", &first).await.expect(200).bytes,
        b"file"
    );
    // Once it is given up, new links are the server's own again; what was sent stays.
    set(&account, json!({"domains": []})).await.expect(200);
    let url = text(&c.post(&share, json!({})).await.expect(201).body, "url");
    assert!(
        url.starts_with(&format!("http://{}/s/", server.address())),
        "{url}"
    );
    let list = c.get(&messages).await.expect(200);
    assert_eq!(list.body["data"][0]["content"], content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_at_which_domain_it_was_issued_and_ends_with_it() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let host = host();
    prove(&names, &a, &host).await;
    let there = address(&server, &host);
    let metadata = server
        .anonymous()
        .get("/.well-known/oauth-authorization-server");
    let metadata = metadata.with("host", &host).await.expect(200);
    assert_eq!(metadata.body["issuer"], there);
    assert_eq!(
        metadata.body["token_endpoint"],
        format!("{there}/oauth/token")
    );
    let (ours, theirs) = (machine(&a.test()).await, machine(&b.test()).await);
    let token = token_of(&server, &ours, Some(&host)).await.expect(200);
    let token = text(&token.body, "access_token");
    assert_eq!(claim(&token, "iss"), there);
    assert_eq!(claim(&token, "aud"), there);
    token_of(&server, &theirs, Some(&host)).await.expect(401);
    let own = text(
        &token_of(&server, &ours, None).await.expect(200).body,
        "access_token",
    );
    assert_eq!(claim(&own, "iss"), format!("http://{}", server.address()));
    // Both are the account's, wherever it is reached.
    for token in [&token, &own] {
        let c = server.with_key(token);
        c.get("/v1/customers").await.expect(200);
        c.get("/v1/customers").with("host", &host).await.expect(200);
    }
    let told = introspected(&server, &ours, &token).await;
    assert_eq!(
        (&told.body["active"], &told.body["iss"]),
        (&json!(true), &json!(there))
    );
    let foreign = token_of(&server, &theirs, None).await.expect(200);
    let foreign = server.with_key(&text(&foreign.body, "access_token"));
    foreign
        .get("/v1/customers")
        .with("host", &host)
        .await
        .error(404, "not_found", "");
    // What the domain issued ends with it; what the server issued goes on.
    set(&a, json!({"domains": []})).await.expect(200);
    server
        .with_key(&token)
        .get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
    server.with_key(&own).get("/v1/customers").await.expect(200);
    // Nor does it hold for whoever has the domain next.
    prove(&names, &b, &host).await;
    server
        .with_key(&token)
        .get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
}

/// A client that acts for its account itself: its name and its secret.
async fn machine(c: &Client) -> (String, String) {
    let body = json!({"name": "Machine", "grant_types": ["client_credentials"], "scopes": ["conversations:read"]});
    let made = c.post("/v1/oauth/clients", body).await.expect(201);
    (made.id("client_id"), text(&made.body, "client_secret"))
}

async fn token_of(server: &Server, client: &(String, String), host: Option<&str>) -> Answer {
    let (id, secret) = client;
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let call = server.anonymous().call("POST", "/oauth/token");
    let call = call
        .bytes(form)
        .with("content-type", "application/x-www-form-urlencoded");
    match host {
        Some(host) => call.with("host", host).await,
        None => call.await,
    }
}

async fn introspected(server: &Server, client: &(String, String), token: &str) -> Answer {
    let (id, secret) = client;
    let form = format!("token={token}&client_id={id}&client_secret={secret}");
    let call = server.anonymous().call("POST", "/oauth/introspect");
    let call = call
        .bytes(form)
        .with("content-type", "application/x-www-form-urlencoded");
    call.await.expect(200)
}

/// A claim of a JWT, as it is written.
fn claim(token: &str, name: &str) -> String {
    use base64::Engine;
    let payload = token.split('.').nth(1).unwrap();
    let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD
        .decode(payload)
        .unwrap();
    let claims: Value = serde_json::from_slice(&bytes).unwrap();
    text(&claims, name)
}

const APP: &str = "https://app.shop.example";
const OTHER: &str = "https://app.other.example";
const CONFIGURED: &str = "https://configured.example";

#[tokio::test(flavor = "multi_thread")]
async fn an_account_says_whose_pages_may_call_it() {
    let names = Nameserver::start();
    let server = setup(&names)
        .config(&format!("[cors]\nallowed_origins = [\"{CONFIGURED}\"]\n"))
        .start();
    let (a, b, c) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    let host = host();
    prove(&names, &a, &host).await;
    set(&a, json!({"cors_origins": [APP]})).await.expect(200);
    set(&b, json!({"cors_origins": [OTHER]})).await.expect(200);
    let allowed = |answer: &Answer| {
        let header = answer.headers.get("access-control-allow-origin");
        header.map(|value| value.to_str().unwrap().to_owned())
    };
    let get = |account: &Account, origin: &str| account.test().get("/v1").with("origin", origin);
    for (account, mine) in [(&a, APP), (&b, OTHER), (&c, CONFIGURED)] {
        for origin in [APP, OTHER, CONFIGURED, "https://evil.example"] {
            let answer = get(account, origin).await.expect(200);
            let expected = (origin == mine).then(|| origin.to_owned());
            assert_eq!(allowed(&answer), expected, "{mine} {origin}");
            let varies = answer.headers.get_all("vary").iter();
            assert!(
                varies
                    .filter_map(|one| one.to_str().ok())
                    .any(|one| one == "Origin")
            );
        }
    }
    let preflight = |origin: &str| {
        let call = server.anonymous().call("OPTIONS", "/v1/customers");
        call.with("origin", origin)
            .with("access-control-request-method", "POST")
    };
    // At the server's own host nobody knows yet whose it is …
    for origin in [APP, OTHER, CONFIGURED] {
        assert_eq!(
            allowed(&preflight(origin).await.expect(204)).as_deref(),
            Some(origin)
        );
    }
    assert_eq!(
        allowed(&preflight("https://evil.example").await.expect(204)),
        None
    );
    // … so its page learns that its credential is no good, …
    let refused = server
        .anonymous()
        .get("/v1")
        .with("origin", APP)
        .await
        .expect(401);
    assert_eq!(allowed(&refused).as_deref(), Some(APP));
    // … at a domain it is known, …
    for (origin, expected) in [(APP, Some(APP)), (OTHER, None), (CONFIGURED, None)] {
        let answer = preflight(origin).with("host", &host).await.expect(204);
        assert_eq!(allowed(&answer).as_deref(), expected, "{origin}");
    }
    // … and operators' side is no account's.
    let admin = server.anonymous().call("OPTIONS", "/admin/v1/accounts");
    let admin = admin.with("origin", APP).await.expect(204);
    assert_eq!(allowed(&admin), None);
    let admin = server
        .operator()
        .get("/admin/v1/accounts")
        .with("origin", APP);
    assert_eq!(allowed(&admin.await.expect(200)), None);
    // None at all, all of them, and what config.toml says again.
    set(&a, json!({"cors_origins": []})).await.expect(200);
    assert_eq!(allowed(&get(&a, APP).await), None);
    set(&a, json!({"cors_origins": ["*"]})).await.expect(200);
    assert_eq!(
        allowed(&get(&a, "https://any.example").await).as_deref(),
        Some("*")
    );
    set(&a, json!({"cors_origins": null})).await.expect(200);
    assert_eq!(
        allowed(&get(&a, CONFIGURED).await).as_deref(),
        Some(CONFIGURED)
    );
    assert_eq!(allowed(&get(&a, APP).await), None);
}
