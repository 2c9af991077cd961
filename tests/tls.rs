//! The console through the nginx of `deploy/`, as operators set it up: over TLS, and no other way.

use super::support::console::PASSWORD;
use super::support::{Nginx, OPERATOR, Person, Server, Setup, tool::handshake};

const HSTS: &str = "strict-transport-security";
const TWO_YEARS: &str = "max-age=63072000";

/// The server that believes this machine's nginx, and that.
fn behind_nginx() -> (Server, Nginx) {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let address = server.address();
    let nginx = Nginx::start([&address, &address, &address]);
    (server, nginx)
}

#[tokio::test]
async fn the_console_is_opened_over_tls_and_the_browser_is_told_to_come_back_so() {
    let (server, nginx) = behind_nginx();
    let mut person = Person::over_tls(&nginx);
    let shown = person.get("/console/sign-in").await.expect(200);
    assert_eq!(shown.header(HSTS), TWO_YEARS);
    let begun = person.sign_in(&[("token", OPERATOR)]).await.expect(303);
    let set = begun.header("set-cookie");
    assert!(set.starts_with("__Host-colloquy_session=cs_"), "{set}");
    assert!(set.contains("; Path=/; Secure; HttpOnly"), "{set}");
    person.get("/console/overview").await.expect(200);
    // A form is of this site where its page was: at this port, over this scheme.
    let token = person.token().await;
    let (http, base) = person.raw();
    for (origin, status) in [
        (base.to_owned(), 303),
        (base.replace("https:", "http:"), 403),
        ("https://127.0.0.1".to_owned(), 403),
    ] {
        let form = http
            .post(format!("{base}/console/session/mode"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", &origin)
            .body(format!("mode=live&csrf={token}"));
        assert_eq!(person.seen(form).await.status, status, "{origin}");
    }
    // No client of nginx says in its place by which way it came.
    for (name, value) in [
        ("x-forwarded-proto", "http"),
        ("forwarded", "proto=http;for=192.0.2.1"),
    ] {
        let mut person = Person::over_tls(&nginx).behind(name, value);
        let begun = person.sign_in(&[("token", OPERATOR)]).await.expect(303);
        let set = begun.header("set-cookie");
        assert!(set.starts_with("__Host-"), "{name}: {set}");
    }
    drop(server);
    // What nginx answers by itself says it, too.
    let (http, base) = person.raw();
    let alone = http.get(format!("{base}/v1/customers")).send().await;
    let alone = alone.unwrap();
    assert_eq!(alone.status(), 503);
    assert_eq!(alone.headers()[HSTS], TWO_YEARS);
}

#[tokio::test]
async fn plain_http_leads_to_https_and_nothing_is_served_over_it() {
    let (server, nginx) = behind_nginx();
    let before = server.account().await;
    let leading = before.live().at(&nginx.leading());
    for (method, path) in [
        ("GET", "/console/inbox?assigned=me"),
        ("POST", "/console/sign-in"),
        ("GET", "/v1/customers"),
        ("GET", "/healthz"),
        ("POST", "/v1/customers"),
        ("DELETE", "/api/v1/documents/doc_0"),
    ] {
        let answer = leading.call(method, path).bytes("{}").open().await.unwrap();
        assert_eq!(answer.status(), 308, "{method} {path}");
        let location = format!("https://127.0.0.1{path}");
        assert_eq!(answer.headers()["location"], location.as_str());
        assert!(!answer.headers().contains_key("set-cookie"));
        // Who is on the way may have written it.
        assert!(!answer.headers().contains_key(HSTS));
    }
    let kept = before.live().get("/v1/customers").await.expect(200);
    assert_eq!(kept.total(), 0);
}

#[tokio::test]
async fn old_versions_of_tls_and_weak_ciphers_are_refused() {
    let (_server, nginx) = behind_nginx();
    let any = "ALL:@SECLEVEL=0";
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let told = handshake(&nginx.encrypted(), &[version]);
        assert!(told.contains(&format!("New, {name}, Cipher is ")), "{told}");
    }
    for version in ["-tls1", "-tls1_1"] {
        let told = handshake(&nginx.encrypted(), &[version, "-cipher", any]);
        // It is nginx that refuses it, and not this client.
        assert!(told.contains("alert protocol version"), "{version}: {told}");
    }
    for cipher in [
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-ECDSA-AES256-SHA384",
        "AECDH-AES128-SHA",
        "ECDHE-ECDSA-NULL-SHA",
    ] {
        let weak = format!("{cipher}:@SECLEVEL=0");
        let told = handshake(&nginx.encrypted(), &["-tls1_2", "-cipher", &weak]);
        assert!(told.contains("alert handshake failure"), "{cipher}: {told}");
    }
}

#[tokio::test]
async fn an_invitation_that_is_accepted_over_tls_begins_a_session_of_this_host() {
    let (server, nginx) = behind_nginx();
    let account = server.account().await;
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let invited = account.live().post(&path, serde_json::json!({})).await;
    let url = invited.expect(201).id("url");
    let (_, path) = url.split_once("/console/").unwrap();
    let person = Person::over_tls(&nginx);
    let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
    let accepted = person
        .post_without_token(&format!("/console/{path}"), &fields)
        .await
        .expect(303);
    let mut set = accepted.headers.get_all("set-cookie").iter();
    let is_bound = |line: &str| line.starts_with("__Host-") && line.contains("; Path=/; Secure;");
    assert!(set.all(|line| is_bound(line.to_str().unwrap())));
}
