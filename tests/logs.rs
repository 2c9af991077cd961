//! What the log tells nobody, and what nobody can write into it.

use std::time::Duration;

use serde_json::{Value, json};

use super::oauth::{Authority, Registered};
use super::support::console::{PASSWORD, Person};
use super::support::{Account, Client, OPERATOR, Receiver, Server, Setup, Socket, until};

const SOON: Duration = Duration::from_secs(30);

/// A server that logs all that it can, in lines of this format; what libraries say of bytes on the
/// wire is theirs.
fn talkative(format: &str) -> Setup {
    Setup::default()
        .delivering("[1]", "5")
        .env("COLLOQUY__LOG__FORMAT", format)
        .env("COLLOQUY__LOG__REQUESTS", "true")
        .env("COLLOQUY__LOG__LEVEL", "info,colloquy=trace,colloquy_actors=trace,colloquy_runtime=trace,actix_web=debug,actix_http=debug")
}

/// Uses a secret of each kind of the account's, also in places where it is refused; gives them.
async fn used(server: &Server, account: &Account) -> Vec<String> {
    let live = account.live();
    let mut secrets = vec![account.test_key().to_owned(), OPERATOR.to_owned()];
    let (_, key) = account.key(json!({"type": "prod"})).await;
    secrets.push(key["key"].as_str().unwrap().to_owned());
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["*"]});
    secrets.push(
        live.post("/v1/webhooks", hook)
            .await
            .expect(201)
            .id("secret"),
    );
    live.conversation().await;
    receiver.wait_for(1).await;
    let client = Registered::machine(&live).await;
    let authority = Authority::of(server);
    secrets.extend(client.secret.clone());
    secrets.push(authority.credentials(&client).await);
    let tickets = live.call("POST", "/v1/realtime/tickets").await;
    let ticket = tickets.expect(201).id("ticket");
    let path = format!("/v1/realtime?ticket={ticket}");
    Socket::try_open(&account.anonymous(), &path).await.unwrap();
    let document = live.document("shared\n").await;
    let protected = json!({"password": "a password of a link"});
    let (_, link) = live.share(&document, protected).await;
    let opened = account.anonymous().get(&link);
    opened
        .with("x-share-password", "a password of a link")
        .await
        .expect(200);
    secrets.extend([ticket, link.trim_start_matches("/s/").to_owned()]);
    secrets.push("a password of a link".to_owned());
    secrets.extend(signed_in(server, account).await);
    secrets
}

/// What a person has, who is invited and signs in.
async fn signed_in(server: &Server, account: &Account) -> Vec<String> {
    let user = account.live().user("agent").await;
    let path = format!("/v1/users/{user}/invitations");
    let url = account
        .live()
        .post(&path, json!({}))
        .await
        .expect(201)
        .id("url");
    let person = Person::invited(&account.anonymous(), &url).await;
    person.get("/console/inbox").await.expect(200);
    let mut wrong = Person::stranger(server);
    let fields = [("name", "ada"), ("password", "a wrong password of mine")];
    wrong.sign_in(&fields).await.expect(422);
    let cookie = |pair: Option<&String>| pair.unwrap().split_once('=').unwrap().1.to_owned();
    vec![
        url.rsplit_once('/').unwrap().1.to_owned(),
        cookie(person.cookie.as_ref()),
        cookie(person.known_by.as_ref()),
        PASSWORD.to_owned(),
        "a wrong password of mine".to_owned(),
    ]
}

/// Shows each secret where it does not belong.
async fn misused(anonymous: &Client, secret: &str) {
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    for path in ["/v1/customers", "/admin/v1/nodes", "/console/inbox"] {
        let shown = anonymous.get(path);
        shown
            .with("authorization", &format!("Bearer {secret}"))
            .with("cookie", &format!("colloquy_session={secret}"))
            .await;
    }
    for path in [
        "/v1/customers?q=",
        "/console/invitations/",
        "/s/",
        "/v1/realtime?ticket=",
    ] {
        anonymous.get(&format!("{path}{encoded}")).await;
    }
}

#[tokio::test]
async fn no_secret_stands_in_the_log_wherever_it_was_used() {
    no_secret_stands_in("full").await;
}

#[tokio::test]
async fn no_secret_stands_in_a_log_of_json_either() {
    no_secret_stands_in("json").await;
}

async fn no_secret_stands_in(format: &str) {
    let server = talkative(format).start();
    let account = server.account().await;
    let secrets = used(&server, &account).await;
    for secret in &secrets {
        misused(&account.anonymous(), secret).await;
    }
    let printed = server.printed();
    let log = server.log();
    assert!(log.lines().count() > 4, "it says nothing: {log}");
    for line in log.lines().filter(|line| !printed.contains(*line)) {
        for secret in &secrets {
            let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            let tells = line.contains(secret.as_str()) || line.contains(&encoded);
            assert!(!tells, "a secret in the log: {line}");
        }
        assert!(!line.contains("whsec_") && !line.contains("cs_"), "{line}");
    }
}

#[tokio::test]
async fn what_callers_write_stands_within_one_line_of_the_log() {
    const FORGED: &str =
        "x\n2026-01-01T00:00:00.000000Z  INFO forged\r\n\u{1b}[31mred\u{9b}31m\u{2028}";
    let server = talkative("full").start();
    let account = server.account().await;
    let live = account.live();
    let encoded: String = url::form_urlencoded::byte_serialize(FORGED.as_bytes()).collect();
    for path in [
        "/v1/customers?q=",
        "/console/",
        "/s/",
        "/v1/",
        "/oauth/authorize?client_id=",
    ] {
        account.anonymous().get(&format!("{path}{encoded}")).await;
    }
    let named = |field: &str| -> Value { json!({(field): FORGED}) };
    live.post("/v1/customers", named("name")).await;
    account
        .operator()
        .post("/admin/v1/accounts", named("name"))
        .await;
    live.post("/v1/webhooks", json!({"url": FORGED, "events": [FORGED]}))
        .await;
    live.post("/v1/oauth/clients", named("name")).await;
    let mut stranger = Person::stranger(&server);
    stranger
        .sign_in(&[("name", FORGED), ("password", FORGED)])
        .await;
    stranger.sign_in(&[("token", FORGED)]).await;
    for header in [
        "x-request-id",
        "user-agent",
        "origin",
        "idempotency-key",
        "x-acting-user",
    ] {
        let sent = account
            .anonymous()
            .get("/v1/customers")
            .with(header, "x\t[31mforged \u{9b}31m");
        sent.await;
    }
    let log = server.log();
    for line in log.lines() {
        let begins = line.trim_start_matches(|c: char| c.is_ascii_control());
        let is_forged = begins.starts_with("2026-01-01") || begins.starts_with("[31m");
        assert!(!is_forged, "a line of theirs: {line:?}");
        let plain = line.chars().all(|c| !c.is_control() || c == '\t');
        assert!(plain, "it says more than text: {line:?}");
    }
}

/// A server that logs each answer as JSON.
fn telling() -> Server {
    let settings = "[log]\nformat = \"json\"\nrequests = true\n";
    Setup::default().config(settings).start()
}

/// What the log says of the request with this identifier.
async fn told(server: &Server, request_id: &str) -> Value {
    until("the log tells of it", SOON, async || {
        let printed = server.printed();
        let log = server.log();
        let lines = log.lines().filter(|line| !printed.contains(*line));
        let mut objects = lines.map(|line| -> Value { serde_json::from_str(line).expect(line) });
        objects.find(|one| one["message"] == "answered" && one["request_id"] == request_id)
    })
    .await
}

#[tokio::test]
async fn an_answer_is_told_as_one_object_with_who_asked_for_what_and_how_it_went() {
    let server = telling();
    let account = server.account().await;
    let (c, key) = account.key(json!({"type": "prod"})).await;
    let body = json!({"name": "Augusta King"}).to_string();
    let made = c
        .call("POST", "/v1/customers")
        .bytes(body.clone())
        .with("x-request-id", "a-request-of-mine");
    let made = made.await.expect(201);
    let one = told(&server, "a-request-of-mine").await;
    let expected = json!({
        "level": "INFO", "message": "answered", "method": "POST", "route": "/v1/customers", "status": 201,
        "request_id": "a-request-of-mine", "account": account.account_id, "key": key["key_id"],
        "address": "127.0.0.1", "bytes_in": body.len(), "bytes_out": made.bytes.len(),
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&one[name], value, "{name}: {one}");
    }
    assert!(one["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{one}");
    assert!(one["timestamp"].as_str().unwrap().ends_with('Z'), "{one}");
    for absent in ["user", "client"] {
        assert_eq!(one.get(absent), None, "{one}");
    }
    assert!(!server.log().contains("Augusta"), "a text in the log");
}

#[tokio::test]
async fn refusals_users_and_paths_of_nothing_are_told_and_no_path_is() {
    let server = telling();
    let account = server.account().await;
    let live = account.live();
    let conversation = live.conversation().await;
    let user = json!({"name": "Ada", "email": "ada@example.com", "role": "agent"});
    let user = live.post("/v1/users", user).await.expect(201).id("user_id");
    let live = live.acting_for(&user);
    let path = format!("/v1/conversations/{conversation}");
    let got = live.call("GET", &path).with("x-request-id", "by-a-user");
    got.await.expect(200);
    let one = told(&server, "by-a-user").await;
    assert_eq!(
        (&one["user"], &one["route"]),
        (&json!(user), &json!("/v1/conversations/{conversation_id}"))
    );
    let anonymous = server.anonymous();
    let refused = anonymous
        .call("GET", &path)
        .with("x-request-id", "by-nobody");
    refused.await.expect(401);
    let one = told(&server, "by-nobody").await;
    assert_eq!((&one["status"], one.get("account")), (&json!(401), None));
    for (path, id) in [
        ("/v1/no-such-path", "nothing"),
        ("/s/no-such-link", "a-link"),
    ] {
        anonymous.call("GET", path).with("x-request-id", id).await;
        let one = told(&server, id).await;
        assert_eq!(one["status"], 404, "{one}");
    }
    let log = server.log();
    for path in [&conversation, "no-such-path", "no-such-link"] {
        assert!(!log.contains(path), "a path in the log: {path}");
    }
}

#[tokio::test]
async fn answers_are_told_of_only_where_that_is_wanted() {
    let server = Server::start();
    let c = server.account().await.test();
    c.get("/v1/customers").await.expect(200);
    assert!(!server.log().contains("answered"), "{}", server.log());
}
