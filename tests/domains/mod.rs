//! Domains: an account's own host names. They are proven by a TXT record at a real nameserver; there the
//! server is that account's alone, and what it links to carries them. Which pages may call an account is
//! told beside.

mod console;
mod encrypted;
mod origins;
mod reach;
mod tokens;

use std::future::IntoFuture;
use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Account, Answer, Nameserver, Server, Setup, account, unique, until};

const SOON: Duration = Duration::from_secs(30);

/// A server that asks this nameserver, and asks again soon.
pub(crate) fn setup(names: &Nameserver) -> Setup {
    Setup::default()
        .env(
            "COLLOQUY__DOMAINS__NAMESERVERS",
            &format!("[\"{}\"]", names.address()),
        )
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MIN", "0.1")
        .env("COLLOQUY__DOMAINS__RETRY_SECONDS_MAX", "0.2")
}

pub(crate) fn host() -> String {
    format!("{}.shop.example", unique("chat").replace('_', "-"))
}

/// The account's path for operators.
pub(crate) fn at(account: &Account) -> String {
    format!("/admin/v1/accounts/{}", account.account_id)
}

pub(crate) async fn set(account: &Account, change: Value) -> Answer {
    account.operator().patch(&at(account), change).await
}

pub(crate) async fn domain(account: &Account, place: usize) -> Value {
    let shown = account.operator().get(&at(account)).await.expect(200);
    shown.body["domains"][place].clone()
}

pub(crate) fn text(value: &Value, name: &str) -> String {
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
pub(crate) async fn prove(names: &Nameserver, account: &Account, host: &str) {
    let set = set(account, json!({"domains": [host]})).await.expect(200);
    let domain = &set.body["domains"][0];
    names
        .publish(&text(domain, "txt_name"), &text(domain, "txt_value"))
        .await;
    is_proven(account, host).await;
}

/// Has two accounts that both publish their records for one host look them up at the same time.
pub(crate) async fn both_verified(
    names: &Nameserver,
    accounts: &[Account; 2],
    host: &str,
) -> (Answer, Answer) {
    for account in accounts {
        set(account, json!({"domains": [host]})).await.expect(200);
    }
    for account in accounts {
        let value = text(&domain(account, 0).await, "txt_value");
        names.publish(&format!("_colloquy.{host}"), &value).await;
    }
    let [first, second] = accounts;
    let verify = |account: &Account| {
        let path = format!("{}/domains/{host}/verify", at(account));
        account.operator().call("POST", &path).into_future()
    };
    tokio::join!(verify(first), verify(second))
}

/// Two accounts that have no domain yet.
async fn two_accounts(server: &Server) -> (Account, Account) {
    let accounts = (server.account(), server.account());
    (accounts.0.await, accounts.1.await)
}

/// The address under which the server is reached at a host.
fn address(server: &Server, host: &str) -> String {
    let own = server.address();
    let (_, port) = own.rsplit_once(':').unwrap();
    format!("http://{host}:{port}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_the_accounts_once_its_record_is_found() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_stays_proven_without_its_record_and_is_anybodys_once_it_is_given_up() {
    let names = Nameserver::start();
    let mut server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    set(&b, json!({"domains": []})).await.expect(200);
    let value = text(&domain(&a, 0).await, "txt_value");
    names.withdraw(&format!("_colloquy.{host}")).await;
    let shown = domain(&a, 0).await;
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
    // Whoever has it next proves it by a value of its own, also who had it before.
    names.publish(&format!("_colloquy.{host}"), &value).await;
    set(&a, json!({"domains": [host]})).await.expect(200);
    assert_ne!(text(&domain(&a, 0).await, "txt_value"), value);
    set(&b, json!({"domains": [host]})).await.expect(200);
    let others = text(&domain(&b, 0).await, "txt_value");
    names.publish(&format!("_colloquy.{host}"), &others).await;
    is_proven(&b, &host).await;
    assert_eq!(domain(&a, 0).await["state"], "pending");
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
        let (one, other) = both_verified(&names, &accounts, &host).await;
        let [first, second] = &accounts;
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
    let a = account().await;
    let good = host();
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
        let refused = refused.error(400, "invalid_request", "domains[1]");
        assert!(!refused.reason().ends_with(" o"), "{refused}");
    }
    let after = a.operator().get(&at(&a)).await.expect(200);
    assert_eq!(
        (after.bytes.clone(), after.etag()),
        (before.bytes.clone(), before.etag())
    );
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

/// So many origins, each another.
fn origins(count: usize) -> Vec<String> {
    (0..count)
        .map(|at| format!("https://{at}.example"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_domains_and_origins_are_taken_whole_or_not_at_all() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let (good, proven) = (host(), host());
    prove(&names, &b, &proven).await;
    let before = a.operator().get(&at(&a)).await.expect(200);
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
        (json!({"cors_origins": origins(101)}), 400, "cors_origins"),
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
