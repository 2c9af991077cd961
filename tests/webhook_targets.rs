//! Where webhooks may go: what is refused when an endpoint is made, and again at each connect.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Account, Nginx, Receiver, Server, Setup, account_with_client, account_with_deliveries, until,
};

const HOOKS: &str = "/v1/webhooks";
const ALLOW_PRIVATE: &str = "COLLOQUY__WEBHOOKS__ALLOW_PRIVATE_TARGETS";

/// IANA's special-purpose ranges, mapped and NAT64 forms, names of this machine, and 127.0.0.1 in
/// every spelling.
const PRIVATE_HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x1",
    "127.0.0.1.",
    "127%2e0.0.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "167772161",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.169.254",
    "0xa9fea9fe",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.254",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[100::1]",
    "[2001::1]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:db8::1]",
    "[2002:7f00:1::1]",
    "[3fff::1]",
    "[5f00::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[febf::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "hooks.localhost",
];

#[tokio::test]
async fn no_spelling_of_a_private_address_is_registered() {
    let (_account, c) = account_with_client().await;
    let made = c
        .post(
            HOOKS,
            json!({"url": "https://hooks.example.com/", "events": ["*"]}),
        )
        .await
        .expect(201);
    let at = format!("{HOOKS}/{}", made.id("webhook_id"));
    for host in PRIVATE_HOSTS {
        for url in [
            format!("https://{host}/hook"),
            format!("https://{host}:8443/hook"),
        ] {
            let refused = c.post(HOOKS, json!({"url": url, "events": ["*"]})).await;
            assert_eq!(refused.status, 400, "{url} was taken: {refused}");
            refused.error(400, "invalid_request", "url");
        }
        c.patch(&at, json!({"url": format!("https://{host}/")}))
            .await
            .error(400, "invalid_request", "url");
    }
    assert_eq!(
        c.get(&at).await.expect(200)["url"],
        "https://hooks.example.com/"
    );
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 1);
}

#[tokio::test]
async fn a_url_is_https_without_user_info_and_not_too_long() {
    let (_account, c) = account_with_client().await;
    let long = format!("https://hooks.example.com/{}", "x".repeat(2023));
    for url in [
        json!("http://hooks.example.com/"),
        json!("ftp://hooks.example.com/"),
        json!("file:///etc/passwd"),
        json!("javascript:alert(1)"),
        json!("hooks.example.com"),
        json!("//hooks.example.com/"),
        json!("/hook"),
        json!("https://"),
        json!("https:///hook"),
        json!("https://user@hooks.example.com/"),
        json!("https://user:pass@hooks.example.com/"),
        json!("https://:pass@hooks.example.com/"),
        json!("https://hooks.example.com:0/"),
        json!("https://hooks.example.com:65536/"),
        json!("https://hooks.example.com:x/"),
        json!("https://[::1/"),
        json!("https://[fe80::1%25eth0]/"),
        json!("https://256.1.1.1/"),
        json!("https://hooks.example.com/ \u{0}"),
        json!("https://hooks.exa mple.com/"),
        json!(""),
        json!(" "),
        json!(7),
        Value::Null,
        json!(long),
    ] {
        let refused = c.post(HOOKS, json!({"url": url, "events": ["*"]})).await;
        assert_eq!(refused.status, 400, "{url} was taken: {refused}");
        refused.error(400, "invalid_request", "url");
    }
    assert_eq!(c.get(HOOKS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_refusal_names_the_schemes_that_this_server_takes() {
    let (_account, strict) = account_with_client().await;
    let (_other, private) = account_with_deliveries().await;
    let cases = [
        (
            &strict,
            "ftp://hooks.example.com/",
            "must be an https: URL with a host",
        ),
        (&strict, "http://hooks.example.com/", "must be https"),
        (
            &private,
            "ftp://hooks.example.com/",
            "must be an http: or https: URL with a host",
        ),
        (
            &private,
            "nonsense",
            "must be an http: or https: URL with a host",
        ),
    ];
    for (client, url, reason) in cases {
        let refused = client
            .post(HOOKS, json!({"url": url, "events": ["*"]}))
            .await;
        let refused = refused.error(400, "invalid_request", "url");
        assert_eq!(refused["error"]["details"]["reason"], reason, "{url}");
    }
}

#[tokio::test]
async fn public_addresses_and_names_that_do_not_resolve_yet_are_taken() {
    let (_account, c) = account_with_client().await;
    for url in [
        "https://93.184.215.14/hook",
        "https://[2606:4700:4700::1111]/hook",
        "https://172.32.0.1/hook",
        "https://100.128.0.1/hook",
        "https://11.0.0.1:8443/a?b=c",
        "https://not-yet.colloquy-tests.invalid/hook",
        "https://bücher.colloquy-tests.invalid/hook",
    ] {
        let made = c
            .post(
                HOOKS,
                json!({"url": url, "events": ["*"], "enabled": false}),
            )
            .await;
        assert_eq!(made.status, 201, "{url}: {made}");
    }
}

#[tokio::test]
async fn where_private_targets_are_allowed_http_is_too_but_no_user_info() {
    let (_account, c) = account_with_deliveries().await;
    for url in [
        "http://127.0.0.1:9/hook",
        "https://10.0.0.1/hook",
        "http://localhost:9/",
        "http://[::1]:9/",
    ] {
        c.post(
            HOOKS,
            json!({"url": url, "events": ["*"], "enabled": false}),
        )
        .await
        .expect(201);
    }
    for url in ["ftp://127.0.0.1/", "http://user@127.0.0.1/", "nonsense"] {
        c.post(HOOKS, json!({"url": url, "events": ["*"]}))
            .await
            .error(400, "invalid_request", "url");
    }
}

/// The name of this machine, which its hosts file knows.
fn own_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap()
        .trim()
        .to_owned()
}

/// A server that took these URLs while private targets were allowed, started again now that they
/// are not; each URL's endpoint has one event to deliver.
async fn changed_its_mind(urls: &[String]) -> (Server, Account, Vec<String>) {
    let mut server = Setup::default().delivering("[0.05, 0.05]", "5").start();
    let account = server.account().await;
    let mut hooks = Vec::new();
    for url in urls {
        let body = json!({"url": url, "events": ["*"]});
        hooks.push(
            account
                .test()
                .post(HOOKS, body)
                .await
                .expect(201)
                .id("webhook_id"),
        );
    }
    server.set_env(ALLOW_PRIVATE, "false");
    server.restart();
    server.with_key(account.test_key()).conversation().await;
    (server, account, hooks)
}

#[tokio::test]
async fn a_target_that_turned_private_is_refused_at_connect_and_never_reached() {
    let receiver = Receiver::start().await;
    let port = receiver.port();
    let hosts = [
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        "2130706433".to_owned(),
        "[::ffff:127.0.0.1]".to_owned(),
    ];
    let mut urls: Vec<String> = hosts
        .iter()
        .map(|host| format!("https://{host}:{port}/hook"))
        .collect();
    urls.push(format!("https://{}:{port}/hook", own_name()));
    let (server, account, hooks) = changed_its_mind(&urls).await;
    let c = server.with_key(account.test_key());
    for (hook, url) in hooks.iter().zip(&urls) {
        let list = format!("{HOOKS}/{hook}/deliveries");
        let failed = until(
            &format!("{url} is given up"),
            Duration::from_secs(20),
            async || {
                let page = c.get(&format!("{list}?status=failed")).await.expect(200);
                page.data().first().cloned()
            },
        )
        .await;
        let id = failed["delivery_id"].as_str().unwrap().to_owned();
        let single = c.get(&format!("{list}/{id}")).await.expect(200);
        for attempt in single["attempt_log"].as_array().unwrap() {
            let error = attempt["error"].as_str().unwrap_or_default();
            let named = ["127.0.", "::1", "this machine"]
                .iter()
                .any(|name| error.contains(name));
            assert!(named, "{url}: what is refused is not named: {attempt}");
            assert!(attempt["status"].is_null(), "{attempt}");
        }
        let test = c
            .post(&format!("{HOOKS}/{hook}/test"), json!({}))
            .await
            .expect(200);
        assert!(test["error"].is_string(), "{url}: {test}");
    }
    assert_eq!(receiver.connections(), 0, "a private address was reached");
}

#[tokio::test]
async fn proxy_variables_of_the_environment_are_ignored() {
    let (receiver, proxy) = (Receiver::start().await, Receiver::start().await);
    let proxy_url = format!("http://127.0.0.1:{}", proxy.port());
    let mut setup = Setup::default().delivering("[0.05, 0.05]", "5");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        setup = setup.env(name, &proxy_url);
    }
    let server = setup.start();
    let account = server.account().await;
    let c = account.test();
    c.post(HOOKS, json!({"url": receiver.url(), "events": ["*"]}))
        .await
        .expect(201);
    c.conversation().await;
    receiver.wait_for(1).await;
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_receiver_whose_certificate_nobody_vouches_for_gets_nothing() {
    let receiver = Receiver::start().await;
    let behind = receiver.url();
    let behind = behind
        .trim_start_matches("http://")
        .trim_end_matches("/hook");
    let nginx = Nginx::start([behind; 3]);
    let hook = json!({"url": format!("https://{}/hook", nginx.encrypted()), "events": ["*"]});
    let distrustful = Setup::default().delivering("[1]", "5");
    let trusting = distrustful
        .clone()
        .env("SSL_CERT_FILE", nginx.authority().to_str().unwrap());
    let server = distrustful.start();
    let account = server.account().await;
    let c = account.test();
    let made = c.post(HOOKS, hook.clone()).await.expect(201);
    c.conversation().await;
    let list = format!("{HOOKS}/{}/deliveries?status=failed", made.id("webhook_id"));
    let failed = until("it is given up", Duration::from_secs(30), async || {
        let failed = c.get(&list).await.expect(200);
        (failed.total() == 1).then_some(failed)
    });
    let failed = failed.await;
    assert_eq!(failed["data"][0]["attempts"], 2, "{failed}");
    assert_eq!(receiver.count(), 0);
    // Where it is vouched for, it gets what it is sent: the certificate was what was wrong.
    let server = trusting.start();
    let c = server.account().await.test();
    c.post(HOOKS, hook).await.expect(201);
    c.conversation().await;
    receiver.wait_for(1).await;
}
