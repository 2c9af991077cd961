//! What keeps others out: cookies, CSRF tokens, other accounts' addresses, the policy of the pages.

use serde_json::json;

use super::super::support::console::Person;
use super::super::support::{Account, Server};

#[tokio::test]
async fn a_post_without_the_sessions_own_token_changes_nothing() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let other = Person::user(&account, "admin").await;
    let path = "/console/customers";
    let fields = |token: &'static str| [("name", "Forged"), ("csrf", token)];
    admin
        .post_without_token(path, &[("name", "Forged")])
        .await
        .expect(403);
    admin
        .post_without_token(path, &fields("x"))
        .await
        .expect(403);
    let token = other.token().await;
    admin
        .post_without_token(path, &[("name", "Forged"), ("csrf", &token)])
        .await
        .expect(403);
    // Another site's page may know everything but where it is.
    let own = admin.token().await;
    let (http, base) = admin.raw();
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("origin", "null"),
    ] {
        let request = http
            .post(format!("{base}{path}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header(name, value)
            .body(format!("name=Forged&csrf={own}"));
        admin.seen(request).await.expect(403);
    }
    assert_eq!(
        account
            .live()
            .get("/v1/customers")
            .await
            .expect(200)
            .total(),
        0
    );
    admin.post(path, &[("name", "Real")]).await.expect(303);
    assert_eq!(
        account
            .live()
            .get("/v1/customers")
            .await
            .expect(200)
            .total(),
        1
    );
}

#[tokio::test]
async fn no_cookie_opens_anything_but_its_own_session() {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let line = person.cookie.clone().unwrap();
    let other = if line.ends_with('0') { '1' } else { '0' };
    let forged = [
        "colloquy_session=".to_owned(),
        "colloquy_session=cs_0".to_owned(),
        format!("{}{other}", &line[..line.len() - 1]),
        format!("colloquy_session={}", account.test_key()),
        "colloquy_session=\"';--".to_owned(),
    ];
    for cookie in forged {
        let forger = person.clone().with_cookie(Some(cookie));
        forger.get("/console/inbox").await.expect(303);
    }
    // A session's token is no key, and a key no session.
    let token = line.trim_start_matches("colloquy_session=");
    account
        .anonymous()
        .with_key(token)
        .get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
    account
        .anonymous()
        .get("/v1/customers")
        .with("cookie", &line)
        .await
        .error(401, "unauthorized", "");
    // What the browser is told to keep can't be read by a page's scripts, nor sent by other sites.
    let mut fresh = Person::stranger(&server);
    let begun = fresh
        .sign_in(&[("token", super::super::support::OPERATOR)])
        .await
        .expect(303);
    let set = begun.headers["set-cookie"].to_str().unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/console"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure"), "it is plain HTTP here: {set}");
}

/// One of each thing that has a page.
struct Things {
    conversation: String,
    customer: String,
    user: String,
    message: String,
    hook: String,
    key: String,
}

impl Things {
    async fn of(account: &Account) -> Self {
        let live = account.live();
        let conversation = live.conversation().await;
        let message = live.message(&conversation, "theirs").await.id("message_id");
        let hook = json!({"url": "https://example.com/hook", "events": ["*"]});
        let hook = live.post("/v1/webhooks", hook).await.expect(201);
        let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
        let keys = account.operator().get(&keys).await.expect(200);
        Things {
            conversation,
            customer: live.customer().await,
            user: live.user("agent").await,
            message,
            hook: hook.id("webhook_id"),
            key: keys.column("key_id")[0].clone(),
        }
    }
}

#[tokio::test]
async fn the_addresses_of_another_accounts_things_are_no_pages() {
    let server = Server::start();
    let (ours, theirs) = (server.account().await, server.account().await);
    let admin = Person::user(&ours, "admin").await;
    let live = theirs.live();
    let Things {
        conversation,
        customer,
        user,
        message,
        hook,
        key,
    } = Things::of(&theirs).await;
    let pages = [
        format!("/console/inbox/{conversation}"),
        format!("/console/inbox/{conversation}/messages/{message}"),
        format!("/console/customers/{customer}"),
        format!("/console/webhooks/{hook}"),
        format!("/console/settings/users/{user}"),
        format!("/console/settings/api-keys/{key}"),
        "/console/inbox/conv_x".to_owned(),
        "/console/nothing".to_owned(),
        "/console/inbox/a/b/c/d".to_owned(),
    ];
    for page in &pages {
        let seen = admin.get(page).await.expect(404);
        assert!(seen.text.contains("Nothing here"), "{page}: {}", seen.text);
        assert!(!seen.text.contains("theirs"));
    }
    for (path, fields) in [
        (
            format!("/console/inbox/{conversation}"),
            vec![("do", "close")],
        ),
        (
            format!("/console/inbox/{conversation}/messages"),
            vec![("content", "ours")],
        ),
        (
            format!("/console/inbox/{conversation}/messages/{message}/redact"),
            vec![],
        ),
        (format!("/console/customers/{customer}/delete"), vec![]),
        (format!("/console/webhooks/{hook}/delete"), vec![]),
        (format!("/console/settings/users/{user}/delete"), vec![]),
        (format!("/console/settings/api-keys/{key}/revoke"), vec![]),
    ] {
        admin.post(&path, &fields).await.expect(404);
    }
    let shown = live
        .get(&format!("/v1/conversations/{conversation}"))
        .await
        .expect(200);
    assert_eq!(shown.body["status"], "active");
    live.get(&format!("/v1/webhooks/{hook}")).await.expect(200);
}

#[tokio::test]
async fn agents_are_told_what_is_for_admins() {
    let server = Server::start();
    let account = server.account().await;
    let agent = Person::user(&account, "agent").await;
    let user = agent.user.clone();
    for page in [
        "webhooks",
        "settings/users",
        "settings/account",
        "settings/api-keys",
        "settings/api-keys/new",
    ] {
        let seen = agent.get(&format!("/console/{page}")).await.expect(403);
        assert!(seen.text.contains("Not allowed"), "{page}: {}", seen.text);
    }
    let menu = agent.get("/console/inbox").await.expect(200).text;
    assert!(!menu.contains("API Keys"));
    agent
        .post(
            "/console/settings/api-keys",
            &[("name", "x"), ("type", "prod")],
        )
        .await
        .expect(403);
    // A role that changes holds for the very next page.
    account
        .live()
        .patch(&format!("/v1/users/{user}"), json!({"role": "admin"}))
        .await
        .expect(200);
    agent.get("/console/settings/api-keys").await.expect(200);
}

#[tokio::test]
async fn every_page_has_a_strict_policy_and_is_kept_by_no_cache() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    for page in [
        "/console/inbox",
        "/console/customers",
        "/console/nothing",
        "/console/sign-in",
    ] {
        let seen = admin.get(page).await;
        let policy = seen.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("script-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(seen.headers["cache-control"], "no-store");
        assert!(seen.headers.contains_key("x-request-id"));
        for never in [" style=\"", "<style", " onclick", "javascript:"] {
            assert!(!seen.text.contains(never), "{page} has {never}");
        }
    }
    let style = admin.get("/console/sign-in").await.text;
    let stranger = Person::stranger(&server);
    let shown = stranger.get("/console/sign-in").await.expect(200).text;
    let (_, rest) = shown.split_once("/console/assets/console.css").unwrap();
    let version = rest.split('"').next().unwrap();
    let asset = stranger
        .get(&format!("/console/assets/console.css{version}"))
        .await
        .expect(200);
    assert!(
        asset.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    stranger.get("/console/assets/nothing.js").await.expect(404);
    stranger
        .get("/console/assets/..%2f..%2fconfig.toml")
        .await
        .expect(404);
    drop(style);
}

#[tokio::test]
async fn what_is_no_form_and_what_is_too_large_is_refused_with_words() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let token = admin.token().await;
    let (http, base) = admin.raw();
    let json = http
        .post(format!("{base}/console/customers"))
        .header("content-type", "application/json")
        .header("x-csrf-token", &token)
        .body("{\"name\":\"x\"}");
    admin.seen(json).await.expect(415);
    let stranger = Person::stranger(&server);
    let large = "x".repeat(100_000);
    let refused = stranger
        .post_without_token("/console/sign-in", &[("name", &large)])
        .await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let put = http.put(format!("{base}/console/customers"));
    let refused = admin.seen(put).await.expect(405);
    assert_eq!(refused.headers["allow"], "GET, HEAD, POST");
    // Names that nobody has, and bytes that are no text.
    for name in ["\u{0}", "😀😀", "a' or 1=1 --"] {
        let mut person = Person::stranger(&server);
        person
            .sign_in(&[("name", name), ("password", "whatever it may be")])
            .await
            .expect(422);
    }
    assert_eq!(
        account
            .live()
            .get("/v1/customers")
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn a_form_lands_only_on_the_side_that_it_was_made_for() {
    let server = Server::start();
    let (one, other) = (server.account().await, server.account().await);
    let operator = Person::operator(&server).await;
    let opens = |account: &Account| format!("/console/accounts/{}/open", account.account_id);
    operator.post(&opens(&one), &[]).await.expect(303);
    let made = operator.get("/console/customers/new").await.expect(200);
    let token = made.held("csrf");
    // Another tab goes on to another account, and to test data.
    operator.post(&opens(&other), &[]).await.expect(303);
    let fields = [("name", "Strayed here"), ("csrf", token.as_str())];
    let refused = operator
        .post_without_token("/console/customers", &fields)
        .await
        .expect(403);
    assert!(refused.text.contains("another account"), "{}", refused.text);
    assert!(
        refused.text.contains("Strayed here"),
        "what was written is lost: {}",
        refused.text
    );
    operator.post(&opens(&one), &[]).await.expect(303);
    operator
        .post("/console/session/mode", &[("mode", "test")])
        .await
        .expect(303);
    operator
        .post_without_token("/console/customers", &fields)
        .await
        .expect(403);
    for client in [one.live(), one.test(), other.live(), other.test()] {
        assert_eq!(client.get("/v1/customers").await.expect(200).total(), 0);
    }
}

#[tokio::test]
async fn what_was_written_is_shown_again_where_the_session_has_ended() {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "agent").await;
    let token = person.token().await;
    person.post("/console/session/end", &[]).await.expect(303);
    let fields = [
        ("title", "T"),
        ("content", "an hour of work"),
        ("csrf", &token),
    ];
    let shown = person
        .post_without_token("/console/documents", &fields)
        .await
        .expect(403);
    assert!(shown.text.contains("an hour of work") && shown.text.contains("Sign in"));
}

#[tokio::test]
async fn a_sign_in_leads_to_pages_of_the_console_and_nowhere_else() {
    let server = Server::start();
    for (next, leads) in [
        ("/console/customers?find=x", "/console/customers?find=x"),
        ("//evil.example", "/console"),
        ("/console/../v1", "/console"),
        ("/console//evil.example", "/console"),
        ("/console\\evil", "/console"),
        ("/console/\r\nset-cookie: a=b", "/console"),
        ("https://evil.example", "/console"),
        ("javascript:alert(1)", "/console"),
    ] {
        let person = Person::stranger(&server);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let path = format!(
            "/console/sign-in?{}",
            query.append_pair("next", next).finish()
        );
        let fields = [("token", super::super::support::OPERATOR)];
        let seen = person.post_without_token(&path, &fields).await.expect(303);
        assert_eq!(seen.location(), leads, "{next:?}");
    }
}

/// A form of the operator's, as a browser sends it from the page of this origin to this host.
async fn sent_from(person: &Person, origin: &str, headers: &[(&str, &str)]) -> u16 {
    let token = person.token().await;
    let (http, base) = person.raw();
    let mut request = http
        .post(format!("{base}/console/session/mode"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", origin)
        .body(format!("mode=live&csrf={token}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    person.seen(request).await.status
}

/// The operator, signed in by a way that a proxy calls HTTPS.
async fn operator_over_https(server: &Server, header: (&'static str, &'static str)) -> Person {
    let mut person = Person::stranger(server).behind(header.0, header.1);
    let token = [("token", super::super::support::OPERATOR)];
    person.sign_in(&token).await.expect(303);
    person
}

#[tokio::test]
async fn an_origin_is_compared_with_its_scheme() {
    let host = |server: &Server| {
        (
            format!("http://{0}", server.address()),
            format!("https://{0}", server.address()),
        )
    };
    let headers = [("x-forwarded-proto", "https"), ("forwarded", "proto=https")];
    let server = Server::start();
    let (plain, encrypted) = host(&server);
    let person = Person::operator(&server).await;
    assert_eq!(sent_from(&person, &plain, &[]).await, 303);
    assert_eq!(sent_from(&person, &encrypted, &[]).await, 403);
    for header in headers {
        let person = operator_over_https(&server, header).await;
        let why = "nobody believes this address";
        assert_eq!(sent_from(&person, &encrypted, &[]).await, 403, "{why}");
        assert_eq!(sent_from(&person, &plain, &[]).await, 303, "{why}");
    }
    let server = super::super::support::Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let (plain, encrypted) = host(&server);
    for header in headers {
        let person = operator_over_https(&server, header).await;
        assert_eq!(sent_from(&person, &encrypted, &[]).await, 303);
        assert_eq!(sent_from(&person, &plain, &[]).await, 403);
    }
    let person = Person::operator(&server).await;
    assert_eq!(sent_from(&person, &plain, &[]).await, 303);
    assert_eq!(sent_from(&person, &encrypted, &[]).await, 403);
}

#[tokio::test]
async fn the_public_address_says_where_forms_come_from() {
    let server = super::super::support::Setup::default()
        .env("COLLOQUY__SERVER__PUBLIC_URL", "https://desk.example.com")
        .start();
    let person = Person::operator(&server).await;
    let desk = [("host", "desk.example.com")];
    let (own, plain) = ("https://desk.example.com", "http://desk.example.com");
    assert_eq!(sent_from(&person, own, &desk).await, 303);
    assert_eq!(
        sent_from(&person, own, &[]).await,
        303,
        "a proxy has changed the host"
    );
    assert_eq!(sent_from(&person, plain, &desk).await, 403);
    assert_eq!(sent_from(&person, "https://evil.example", &desk).await, 403);
}

#[tokio::test]
async fn a_page_that_is_only_read_says_so_to_a_post() {
    let server = Server::start();
    let account = server.account().await;
    let conversation = account.live().conversation().await;
    let document = account.live().document("1\n").await;
    let id = document.rsplit('/').next().unwrap();
    let admin = Person::user(&account, "admin").await;
    let operator = Person::operator(&server).await;
    for (person, page) in [
        (&operator, "/console".to_owned()),
        (&operator, "/console/overview".to_owned()),
        (&operator, "/console/store".to_owned()),
        (&operator, "/console/backups".to_owned()),
        (&operator, "/console/nodes".to_owned()),
        (&operator, "/console/all-audit".to_owned()),
        (&admin, "/console".to_owned()),
        (&admin, "/console/settings".to_owned()),
        (&admin, "/console/inbox".to_owned()),
        (&admin, format!("/console/inbox/{conversation}/side")),
        (&admin, format!("/console/documents/{id}")),
        (&admin, format!("/console/documents/{id}/history")),
        (&admin, format!("/console/documents/{id}/activity")),
        (&admin, "/console/documents/new".to_owned()),
        (&admin, "/console/session".to_owned()),
    ] {
        let refused = person.post(&page, &[("note", "kept words")]).await;
        assert_eq!(refused.status, 405, "{page}: {}", refused.text);
        assert_eq!(refused.header("allow"), "GET, HEAD", "{page}");
        assert!(
            refused.text.contains("only read") && refused.text.contains("kept words"),
            "{page}: {}",
            refused.text
        );
    }
    for nothing in ["/console/nothing", "/console/inbox/conv_x/side"] {
        admin.post(nothing, &[]).await.expect(404);
    }
}

#[tokio::test]
async fn a_slash_at_the_end_leads_to_the_page_without_it() {
    let server = Server::start();
    let account = server.account().await;
    let admin = Person::user(&account, "admin").await;
    let stranger = Person::stranger(&server);
    for (path, to) in [
        ("/console/", "/console"),
        ("/console///", "/console"),
        (
            "/console/documents/?q=a%2Fb/",
            "/console/documents?q=a%2Fb/",
        ),
        ("/console/inbox//", "/console/inbox"),
        ("/console//evil.example/", "/console//evil.example"),
    ] {
        for person in [&admin, &stranger] {
            let moved = person.get(path).await.expect(308);
            assert_eq!(moved.location(), to, "{path}");
        }
    }
    admin.post("/console/customers/", &[]).await.expect(404);
}

#[tokio::test]
async fn the_root_leads_people_to_the_console_and_programs_nowhere() {
    let server = Server::start();
    let led = Person::stranger(&server).get("/").await.expect(303);
    assert_eq!(led.location(), "/console");
    for accept in ["*/*", "application/json", "text/event-stream"] {
        let told = server.anonymous().get("/").with("accept", accept).await;
        told.error(404, "not_found", "");
    }
    let posted = server.anonymous().call("POST", "/");
    posted
        .with("accept", "text/html")
        .await
        .error(404, "not_found", "");
}
