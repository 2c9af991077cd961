//! Whose pages may call an account.

use serde_json::json;

use super::{at, host, prove, set, setup, two_accounts};
use crate::support::client::Call;
use crate::support::{Account, Answer, Nameserver, Setup, account};

const APP: &str = "https://app.shop.example";
const OTHER: &str = "https://app.other.example";
const CONFIGURED: &str = "https://configured.example";

/// The origin whose pages may read the answer.
fn allowed(answer: &Answer) -> Option<String> {
    let header = answer.headers.get("access-control-allow-origin");
    header.map(|value| value.to_str().unwrap().to_owned())
}

fn get(account: &Account, origin: &str) -> Call {
    account.test().get("/v1").with("origin", origin)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_says_whose_pages_may_call_it() {
    let server = Setup::default()
        .config(&format!("[cors]\nallowed_origins = [\"{CONFIGURED}\"]\n"))
        .start();
    let (a, b, c) = (
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
        Account::make(server.anonymous()).await,
    );
    set(&a, json!({"cors_origins": [APP]})).await.expect(200);
    set(&b, json!({"cors_origins": [OTHER]})).await.expect(200);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_is_answered_for_the_account_of_its_domain_else_for_any() {
    let names = Nameserver::start();
    let server = setup(&names)
        .config(&format!("[cors]\nallowed_origins = [\"{CONFIGURED}\"]\n"))
        .start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    set(&a, json!({"cors_origins": [APP]})).await.expect(200);
    set(&b, json!({"cors_origins": [OTHER]})).await.expect(200);
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
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_no_browser_sends_is_refused_by_its_place() {
    let account = account().await;
    let before = account.operator().get(&at(&account)).await.expect(200);
    for wrong in [
        // The port of the scheme itself is never sent, …
        "https://app.example:443",
        "http://app.example:80",
        "http://[::1]:80",
        // … nor one that is written otherwise, …
        "https://app.example:08443",
        "https://app.example:0",
        "https://app.example:",
        // … nor another spelling of the host.
        "https://APP.example",
        "HTTPS://app.example",
        "https://b\u{fc}cher.example",
        "http://[0:0:0:0:0:0:0:1]:8080",
        "http://127.1:8080",
        "http://0x7f000001",
        "https://app.example/",
        "https://app.example?x",
        "https://user@app.example",
        "https://*.app.example",
        "wss://app.example",
        "file://app.example",
        "null",
        "",
    ] {
        let refused = set(&account, json!({"cors_origins": [APP, wrong]})).await;
        refused.error(400, "invalid_request", "cors_origins[1]");
    }
    let after = account.operator().get(&at(&account)).await.expect(200);
    assert_eq!(after.bytes, before.bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_origins_names_each_once_or_all_of_them() {
    let account = account().await;
    // One that stands there already, and "*", beside which the others say nothing.
    for wrong in [
        json!([APP, OTHER, APP]),
        json!([APP, OTHER, "*"]),
        json!(["*", APP]),
        json!(["*", "*"]),
    ] {
        let place = wrong.as_array().unwrap().len() - 1;
        let refused = set(&account, json!({"cors_origins": wrong})).await;
        refused.error(400, "invalid_request", &format!("cors_origins[{place}]"));
    }
    for right in [
        json!([
            "https://app.example:8443",
            "http://app.example:443",
            "https://app.example:80",
            "http://localhost:3000",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
            "chrome-extension://abcdefghijklmnop",
            "capacitor://localhost"
        ]),
        json!(["*"]),
        json!([]),
    ] {
        let set = set(&account, json!({"cors_origins": right})).await;
        assert_eq!(set.expect(200)["cors_origins"], right);
    }
}
