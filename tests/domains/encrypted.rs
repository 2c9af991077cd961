//! Domains where the server speaks TLS itself: the host that a request of HTTP/2 names, and where plain
//! HTTP leads.

use serde_json::{Value, json};

use super::{SOON, host, prove, set, setup, two_accounts};
use crate::support::ports::ReservedPort;
use crate::support::raw::exchange;
use crate::support::{Authority, Client, Nameserver, Server, Setup, http2};

/// A server that speaks TLS, and who vouches for it.
fn start(setup: Setup) -> (Server, Authority) {
    let authority = Authority::new();
    let server = setup
        .encrypted(&authority, &authority.issue("server"))
        .start();
    (server, authority)
}

/// Asks over HTTP/2 with this `:authority`, and a `Host` beside it where one is named; gives the status
/// and the error's code.
async fn asked(
    c: &Client,
    authority: &Authority,
    (named, beside): (&str, Option<&str>),
) -> (u16, String) {
    let settings = h2::client::Builder::new();
    let (sender, connection) = http2::connect(c.address(), authority.trusting(), &settings).await;
    let mut request = http::Request::get(format!("https://{named}/v1"))
        .header("authorization", c.credential().unwrap());
    if let Some(beside) = beside {
        request = request.header("host", beside);
    }
    let mut sender = sender.ready().await.unwrap();
    let sent = sender.send_request(request.body(()).unwrap(), true);
    let answer = tokio::time::timeout(SOON, sent.unwrap().0).await;
    let answer = answer.expect("an answer").unwrap();
    let status = answer.status().as_u16();
    let (mut text, mut body) = (Vec::new(), answer.into_body());
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        text.extend_from_slice(&piece);
    }
    connection.abort();
    let told: Value = serde_json::from_slice(&text).unwrap();
    let code = told["error"]["code"].as_str().unwrap_or_default();
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_2_only_its_account_is_at_a_domain_whatever_the_host_header_says() {
    let names = Nameserver::start();
    let (server, authority) = start(setup(&names));
    let (a, b) = two_accounts(&server).await;
    let (ours, theirs) = (host(), host());
    prove(&names, &a, &ours).await;
    prove(&names, &b, &theirs).await;
    let own = server.address();
    let found = (200, String::new());
    let unknown = (404, "not_found".to_owned());
    let of_a = format!("{}:443", ours.to_uppercase());
    for (named, beside, account, expected) in [
        (&ours, None, &a, &found),
        (&of_a, None, &a, &found),
        (&ours, None, &b, &unknown),
        (&of_a, None, &b, &unknown),
        // The header is no second name: neither does it open a domain, nor close the server's own host.
        (&ours, Some(&theirs), &b, &unknown),
        (&ours, Some(&own), &b, &unknown),
        (&ours, Some(&theirs), &a, &found),
        (&own, Some(&ours), &b, &found),
    ] {
        let c = account.test();
        let answer = asked(&c, &authority, (named, beside.map(String::as_str))).await;
        assert_eq!(&answer, expected, "{named} {beside:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_names_a_host_counts_before_the_host_header() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    let own = server.address();
    for (named, beside, c, status) in [
        (&host, &own, a.test(), 200),
        (&host, &own, b.test(), 404),
        (&own, &host, b.test(), 200),
    ] {
        let credential = c.credential().unwrap();
        let request = format!(
            "GET http://{named}/v1 HTTP/1.1\r\nHost: {beside}\r\nAuthorization: {credential}\r\nConnection: close\r\n\r\n"
        );
        let answer = exchange(&own, request.as_bytes()).await;
        assert_eq!(answer.status, status, "{named} {beside}: {}", answer.text);
    }
}

/// Where plain HTTP leads that is asked by these lines of a request's head.
async fn led(plain: &str, head: &str) -> String {
    let request = format!("{head}\r\nConnection: close\r\n\r\n");
    let answer = exchange(plain, request.as_bytes()).await;
    assert_eq!(answer.status, 308, "{head}: {}", answer.text);
    let mut lines = answer.text.lines();
    let location = lines.find_map(|line| line.strip_prefix("location: "));
    location
        .unwrap_or_else(|| panic!("{head}: {}", answer.text))
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_leads_to_the_domain_that_was_asked_and_to_no_foreign_host() {
    let names = Nameserver::start();
    let port = ReservedPort::new();
    let plain = port.address();
    let own = "https://support.example.com";
    let setup = setup(&names)
        .env("COLLOQUY__TLS__REDIRECT_FROM", &plain)
        .env("COLLOQUY__SERVER__PUBLIC_URL", own);
    let (server, _authority) = start(setup);
    let (a, b) = two_accounts(&server).await;
    let (proven, claimed) = (host(), host());
    prove(&names, &a, &proven).await;
    set(&b, json!({"domains": [claimed]})).await.expect(200);
    let there = format!("https://{proven}");
    let path = "/s/abc?done=saved";
    let foreign = "elsewhere.example";
    for (asked, base) in [
        (proven.clone(), &*there),
        (proven.to_uppercase(), &there),
        (format!("{proven}:80"), &there),
        (format!("{proven}."), &there),
        (claimed, own),
        (foreign.to_owned(), own),
        (format!("{proven}.{foreign}"), own),
        (format!("{foreign}/{proven}"), own),
        (format!("{proven}@{foreign}"), own),
        (format!("{foreign}@{proven}"), own),
        (String::new(), own),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {asked}");
        assert_eq!(led(&plain, &head).await, format!("{base}{path}"), "{asked}");
    }
    // A target that names a host counts before the header, and a path is none.
    for (target, beside, expected) in [
        (
            format!("http://{proven}{path}"),
            foreign,
            format!("{there}{path}"),
        ),
        (
            format!("http://{foreign}{path}"),
            &proven,
            format!("{own}{path}"),
        ),
        (
            format!("//{foreign}/x"),
            &proven,
            format!("{there}//{foreign}/x"),
        ),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {beside}");
        assert_eq!(led(&plain, &head).await, expected, "{target}");
    }
    // Once it is given up it leads to the server's own again.
    set(&a, json!({"domains": []})).await.expect(200);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {proven}");
    assert_eq!(led(&plain, &head).await, format!("{own}{path}"));
}
