//! What an operator meets: start-up output, health, OpenAPI, settings, the folder's lock,
//! drain.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::browser::Tab;
use crate::support::raw::Raw;
use crate::support::shapes::keys;
use crate::support::{OPERATOR, Server, Setup, account, shared, sized, tool, until};

/// Every route of this issue with its methods; a route that is not in the document does not exist.
const ROUTES: [(&str, &str); 23] = [
    ("/v1", "get"),
    ("/v1/changelog", "get"),
    ("/v1/customers", "get post"),
    ("/v1/customers/{customer_id}", "get patch delete"),
    ("/v1/users", "get post"),
    ("/v1/users/{user_id}", "get patch delete"),
    ("/v1/conversations", "get post"),
    ("/v1/conversations/{conversation_id}", "get patch"),
    ("/v1/conversations/{conversation_id}/close", "post"),
    ("/v1/conversations/{conversation_id}/reopen", "post"),
    ("/v1/conversations/{conversation_id}/messages", "get post"),
    (
        "/v1/conversations/{conversation_id}/messages/{message_id}",
        "get patch delete",
    ),
    (
        "/v1/conversations/{conversation_id}/messages/{message_id}/revisions",
        "get",
    ),
    ("/admin/v1/accounts", "get post"),
    ("/admin/v1/accounts/{account_id}", "get patch"),
    ("/admin/v1/accounts/{account_id}/keys", "get post"),
    ("/admin/v1/keys/{key_id}", "get patch delete"),
    ("/admin/v1/keys/{key_id}/rotate", "post"),
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
    ("/openapi.json", "get"),
    ("/docs", "get"),
];

#[tokio::test]
async fn the_first_start_prints_three_keys_an_operator_token_and_a_curl_line_that_works() {
    let mut server = Setup::default().unset("COLLOQUY__ADMIN__TOKEN").start();
    let printed = server.printed().to_owned();
    for prefix in ["sk_test_", "sk_prod_", "sk_read_"] {
        let key = server
            .printed_token(prefix)
            .unwrap_or_else(|| panic!("no {prefix} in\n{printed}"));
        let c = server.with_key(&key);
        assert_eq!(
            c.get("/v1").await.expect(200).number("x-ratelimit-limit"),
            100,
            "the made account is on Basic"
        );
    }
    let token = server
        .printed_token("op_")
        .unwrap_or_else(|| panic!("no operator token in\n{printed}"));
    let operator = server.anonymous().with_operator(&token);
    assert_eq!(
        operator.get("/admin/v1/accounts").await.expect(200).total(),
        1
    );
    let curl = printed
        .lines()
        .find(|line| line.trim_start().starts_with("curl "))
        .expect("a curl line");
    let run = tokio::process::Command::new("bash")
        .args(["-c", &format!("{curl} -sS --fail-with-body")])
        .output();
    let run = tool::started("bash", run.await);
    assert!(
        run.status.success(),
        "{curl}\n{}",
        String::from_utf8_lossy(&run.stdout)
    );
    server.restart();
    for prefix in ["sk_test_", "sk_prod_", "sk_read_", "op_"] {
        assert!(
            server.printed_token(prefix).is_none(),
            "printed once only:\n{}",
            server.printed()
        );
    }
    let operator = server.anonymous().with_operator(&token);
    assert_eq!(
        operator.get("/admin/v1/accounts").await.expect(200).total(),
        1
    );
}

#[tokio::test]
async fn health_needs_no_credential() {
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        shared().anonymous().get(path).await.expect(200);
        shared().anonymous().call("HEAD", path).await.expect(200);
    }
}

#[tokio::test]
async fn the_version_and_the_changelog_are_as_given() {
    let account = account().await;
    account
        .anonymous()
        .get("/v1")
        .await
        .error(401, "unauthorized", "");
    let expected = json!({"api_version": "1.0", "version": "v1.0.0", "released": "2024-03-15", "status": "Stable"});
    assert_eq!(account.read().get("/v1").await.expect(200).body, expected);
    let changelog = account.test().get("/v1/changelog").await.expect(200);
    let text = String::from_utf8_lossy(&changelog.bytes).to_lowercase();
    for part in [
        "v0.9.0",
        "2024-02-15",
        "beta",
        "limited access",
        "v1.0.0",
        "2024-03-15",
        "initial release",
        "webhook",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn openapi() -> Value {
    shared()
        .anonymous()
        .get("/openapi.json")
        .await
        .expect(200)
        .body
}

#[tokio::test]
async fn the_openapi_document_is_3_1_and_has_every_route() {
    let document = openapi().await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, methods) in ROUTES {
        for method in methods.split(' ') {
            let operation = &document["paths"][path][method];
            assert!(
                operation["responses"].is_object(),
                "{method} {path} is not in the document"
            );
        }
    }
}

#[tokio::test]
async fn every_operation_lists_every_status_with_the_error_schema() {
    let document = openapi().await;
    for (path, methods) in ROUTES
        .iter()
        .filter(|(path, _)| path.starts_with("/v1") || path.starts_with("/admin"))
    {
        for method in methods.split(' ') {
            let responses = &document["paths"][*path][method]["responses"];
            let mut expected = vec!["401", "500"];
            expected.extend((path.matches('/').count() > 2).then_some("503"));
            expected.extend(path.starts_with("/v1").then_some("429"));
            expected.extend(path.contains('{').then_some("404"));
            expected.extend(["post", "patch"].contains(&method).then_some("400"));
            expected.extend(["post", "patch"].contains(&method).then_some("413"));
            expected.extend((method == "patch").then_some("412"));
            for status in expected {
                let response = &responses[status];
                let shared = response["$ref"]
                    .as_str()
                    .and_then(|name| document.pointer(name.trim_start_matches('#')));
                let content = &shared.unwrap_or(response)["content"]["application/json"]["schema"];
                assert!(
                    content.is_object(),
                    "{status} of {method} {path}: {responses}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_document_says_each_thing_once() {
    let bytes = shared()
        .anonymous()
        .get("/openapi.json")
        .await
        .expect(200)
        .bytes
        .len();
    let document = openapi().await;
    let operations: usize = keys(&document["paths"])
        .iter()
        .map(|path| keys(&document["paths"][path]).len())
        .sum();
    assert!(
        bytes / operations < 4_500,
        "{bytes} bytes for {operations} operations"
    );
}

/// Bounds that callers meet, each with a number that stands for nothing else.
const BOUNDS: [(&str, &str); 29] = [
    ("LIMITS__MAX_REQUEST_LINE_BYTES", "16391"),
    ("LIMITS__MAX_HEADER_BYTES", "16421"),
    ("LIMITS__MAX_BODY_BYTES", "1048583"),
    ("LIMITS__MAX_DOCUMENT_BYTES", "8388617"),
    ("LIMITS__MAX_FORM_BYTES", "8209"),
    ("LIMITS__LINK_REQUESTS_PER_ADDRESS_PER_MINUTE", "613"),
    ("LIMITS__LINK_REQUESTS_PER_MINUTE", "617"),
    ("LIMITS__BODIES_IN_FLIGHT_BYTES", "268435463"),
    ("LIMITS__ANSWERS_IN_FLIGHT_BYTES", "268435459"),
    ("LIMITS__READS_WAITING_PER_ACCOUNT", "257"),
    ("LIMITS__LARGE_ANSWERS_AT_ONCE", "619"),
    ("BOUNDS__QUERY_NAMES_MAX", "67"),
    ("BOUNDS__CONTENT_BYTES_MAX", "65537"),
    ("BOUNDS__DOCUMENT_BYTES_MAX", "8388623"),
    ("BOUNDS__METADATA_KEYS_MAX", "53"),
    ("BOUNDS__METADATA_BYTES_MAX", "16411"),
    ("BOUNDS__CUSTOMER_NAME_CHARS_MAX", "211"),
    ("BOUNDS__NAME_CHARS_MAX", "521"),
    ("BOUNDS__URL_CHARS_MAX", "2053"),
    ("BOUNDS__MESSAGE_EDITS_MAX", "1009"),
    ("BOUNDS__WEBHOOK_ENDPOINTS_MAX", "101"),
    ("BOUNDS__FILTER_VALUES_MAX", "103"),
    ("BOUNDS__DIFF_BYTES_MAX", "33554467"),
    ("REALTIME__LINES_PER_KEY", "107"),
    ("REALTIME__LINES_PER_ACCOUNT", "1013"),
    ("REALTIME__SUBSCRIPTIONS_MAX", "1019"),
    ("REALTIME__FRAMES_PER_SECOND", "59"),
    ("REALTIME__FRAMES_BURST", "1201"),
    ("REALTIME__PRESENCES_PER_ACCOUNT", "2003"),
];

#[tokio::test]
async fn the_document_states_every_bound_that_callers_meet() {
    let named =
        |setup: Setup, (name, value): &(&str, &str)| setup.env(&format!("COLLOQUY__{name}"), value);
    let server = BOUNDS.iter().fold(Setup::default(), named).start();
    let document = server
        .anonymous()
        .get("/openapi.json")
        .await
        .expect(200)
        .body;
    let words: Vec<&str> = document["info"]["description"]
        .as_str()
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .collect();
    for (name, value) in BOUNDS {
        assert!(
            words.contains(&value),
            "{name} = {value} is not in {}",
            document["info"]["description"]
        );
    }
    for (path, method, bytes) in [
        ("/s/{token}", "post", "8209"),
        ("/s/{token}", "put", "8388617"),
        ("/api/v1/documents", "post", "8388617"),
        (
            "/v1/conversations/{conversation_id}/messages",
            "post",
            "1048583",
        ),
    ] {
        let body = &document["paths"][path][method]["requestBody"]["description"];
        assert_eq!(body, &format!("At most {bytes} bytes."), "{method} {path}");
    }
    let refusals = |path: &str, method: &str| keys(&document["paths"][path][method]["responses"]);
    for (path, method, status) in [
        ("/s/{token}", "post", "400"),
        ("/s/{token}", "get", "429"),
        (
            "/v1/conversations/{conversation_id}/messages/{message_id}",
            "patch",
            "409",
        ),
        ("/v1/webhooks", "post", "409"),
        ("/v1/events", "get", "429"),
        ("/v1/realtime", "get", "429"),
        ("/api/v1/documents/{document_id}/diff", "get", "400"),
        ("/v1/conversations", "get", "503"),
        ("/healthz", "get", "431"),
    ] {
        assert!(
            refusals(path, method).contains(&status),
            "{status} of {method} {path}"
        );
    }
    assert!(
        !refusals("/s/{token}", "post").contains(&"413"),
        "a form beyond its bound is a 400"
    );
}

#[tokio::test]
async fn every_path_of_the_document_is_a_route() {
    let document = openapi().await;
    for path in keys(&document["paths"]) {
        let filled = path.replace(['{', '}'], "x");
        let answer = shared().anonymous().call("OPTIONS", &filled).await;
        assert_eq!(answer.expect(204).bytes.len(), 0, "{path}");
    }
}

#[tokio::test]
async fn the_docs_are_a_page_that_loads_nothing_from_elsewhere() {
    let page = shared().anonymous().get("/docs").await.expect(200);
    assert!(page.header("content-type").starts_with("text/html"));
    let text = String::from_utf8(page.bytes).unwrap();
    for outside in ["src=\"http", "href=\"http://", "src=\"//", "@import"] {
        assert!(!text.contains(outside), "{outside}");
    }
}

#[tokio::test]
async fn the_docs_script_may_run_and_no_other() {
    let page = shared().anonymous().get("/docs").await.expect(200);
    let policy = page.header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'self'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    let script = shared().anonymous().get("/docs/docs.js").await.expect(200);
    assert!(
        script.header("content-type").starts_with("text/javascript"),
        "{script}"
    );
    let missing = shared().anonymous().get("/docs/x.js").await.expect(404);
    assert!(
        !missing
            .header("content-security-policy")
            .contains("script-src"),
        "{missing}"
    );
}

#[tokio::test]
async fn the_docs_are_searched_as_one_types_and_whole_without_it() {
    let address = format!("http://{}/docs", shared().anonymous().address());
    let text =
        String::from_utf8(shared().anonymous().get("/docs").await.expect(200).bytes).unwrap();
    assert!(
        text.contains("<form id=\"search\" role=\"search\" hidden>"),
        "without its script it can't search"
    );
    let mut tab = Tab::open(&address).await;
    tab.shows("Search the operations").await;
    let typed = |words: &str| {
        format!(
            "words.value = '{words}'; words.dispatchEvent(new Event('input')); \
             [document.querySelector('#search output').textContent, sendMessage.hidden, createCustomer.hidden]"
        )
    };
    let pressed = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true, cancelable: true})); document.activeElement.id";
    assert_eq!(
        tab.run(pressed).await,
        "words",
        "the slash leads to the field"
    );
    let found = tab.run(&typed("Send MESSAGE")).await;
    assert_eq!(
        (&found[1], &found[2]),
        (&json!(false), &json!(true)),
        "{found}"
    );
    assert!(found[0].as_str().unwrap().contains(" of "), "{found}");
    let nothing = tab.run(&typed("no such thing")).await;
    assert_eq!(
        nothing,
        json!([
            "Nothing found for \u{201c}no such thing\u{201d}.",
            true,
            true
        ])
    );
    let all = tab.run(&typed("")).await;
    assert_eq!(all, json!(["", false, false]));
    let breaks = "[...document.querySelectorAll('td:first-child code')].filter(name => name.getClientRects().length > 1).length";
    assert_eq!(tab.run(breaks).await, 0, "a name breaks in the middle");
}

#[test]
fn a_second_server_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let server = Server::start();
    let (status, output) = Setup::default().refused_in(&server.work());
    assert!(!status.success());
    assert!(
        output.contains("colloquy.db") || output.contains("data"),
        "the folder is not named:\n{output}"
    );
    assert!(!output.contains("panicked"), "{output}");
    assert!(server.is_ready());
}

#[tokio::test]
async fn missing_folders_of_the_store_path_are_made() {
    let server = Setup::default()
        .env("COLLOQUY__STORE__PATH", "a/b/c/store.db")
        .start();
    assert!(server.work().join("a/b/c/store.db").exists());
    server.account().await.test().customer().await;
}

#[tokio::test]
async fn what_is_stored_is_its_owners_alone() {
    let server = Server::start();
    server.account().await.test().conversation().await;
    for file in fs::read_dir(server.work().join("data")).unwrap() {
        let file = file.unwrap().path();
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", file.display());
    }
}

#[tokio::test]
async fn sigterm_drains_and_loses_nothing_that_was_acknowledged() {
    let mut server = Server::start();
    let account = server.account().await;
    let (secret, c) = (account.test_key().to_owned(), account.test());
    let list = format!("/v1/conversations/{}/messages", c.conversation().await);
    let writers = (0..16).map(|writer| {
        let (c, list) = (c.clone(), list.clone());
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                let content = format!("{writer}/{n}");
                match c.post(&list, json!({"content": content})).try_send().await {
                    Ok(answer) if answer.status == 201 => acknowledged.push(content),
                    Ok(answer) => assert_eq!(answer.status, 503, "{answer}"),
                    Err(_) => break,
                }
            }
            acknowledged
        })
    });
    let writers: Vec<_> = writers.collect();
    until("messages flow", Duration::from_secs(20), async || {
        (c.get(&list).await.total() > 50).then_some(())
    })
    .await;
    assert_eq!(server.term().code(), Some(0));
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    server.restart();
    let mut stored = contents(&server.with_key(&secret), &list).await;
    stored.retain(|content| acknowledged.contains(content));
    acknowledged.sort_unstable();
    stored.sort_unstable();
    assert_eq!(stored, acknowledged);
}

async fn contents(c: &crate::support::Client, list: &str) -> Vec<String> {
    let (mut all, mut path) = (Vec::new(), Some(format!("{list}?limit=100&after_seq=0")));
    while let Some(next) = path {
        let page = c.get(&next).await.expect(200);
        all.extend(page.column("content"));
        path = page.link("next");
    }
    all
}

/// The head of a request that makes a customer, and its body.
fn creation(account: &crate::support::Account) -> (String, &'static str) {
    let body = r#"{"name":"sent in two halves"}"#;
    let (key, length) = (account.test_key(), body.len());
    let start = "POST /v1/customers HTTP/1.1\r\nHost: x";
    (
        format!("{start}\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n"),
        body,
    )
}

/// A status line and headers as the raw answer of one request on its own connection.
async fn asked(server: &Server, request: &str) -> crate::support::raw::RawAnswer {
    let mut raw = Raw::connect(&server.address()).await;
    raw.write(request.as_bytes()).await;
    raw.read_to_end(Duration::from_secs(15)).await
}

#[tokio::test]
async fn a_request_that_is_running_when_sigterm_comes_is_finished_and_new_ones_are_refused() {
    let mut server = Server::start();
    let account = server.account().await;
    let (head, body) = creation(&account);
    let mut raw = Raw::connect(&server.address()).await;
    raw.write(head.as_bytes()).await;
    raw.write(&body.as_bytes()[..10]).await;
    account.test().get("/v1").await.expect(200);
    server.send_term();
    // A probe that comes before the signal is kept open otherwise, and waited for.
    let probe = "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    until("readyz answers 503", Duration::from_secs(5), async || {
        (asked(&server, probe).await.status == 503).then_some(())
    })
    .await;
    let refused = until("new work is refused", Duration::from_secs(5), async || {
        let answer = asked(&server, &format!("{head}{body}")).await;
        (answer.status != 201).then_some(answer)
    })
    .await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    let text = refused.text.to_lowercase();
    assert!(
        text.contains("retry-after: 1") && text.contains("connection: close"),
        "{text}"
    );
    let error: Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!(
        (
            &error["error"]["code"],
            &error["error"]["details"]["outcome"]
        ),
        (&json!("unavailable"), &json!("none"))
    );
    assert_eq!(asked(&server, probe).await.status, 503);
    assert_eq!(
        asked(&server, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .status,
        200
    );
    raw.write(&body.as_bytes()[10..]).await;
    let answer = raw.read_to_end(Duration::from_secs(15)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert!(
        answer.text.to_lowercase().contains("connection: close"),
        "{}",
        answer.text
    );
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn requests_sent_before_sigterm_are_answered_with_success() {
    let mut server = Server::start();
    let account = server.account().await;
    let (head, body) = creation(&account);
    let mut all = Vec::new();
    for _ in 0..sized(200, 40) {
        let mut raw = Raw::connect(&server.address()).await;
        raw.write(format!("{head}{body}").as_bytes()).await;
        all.push(raw);
    }
    server.send_term();
    for mut raw in all {
        let answer = raw.read_to_end(Duration::from_secs(15)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn a_body_that_never_comes_does_not_hold_the_end() {
    let mut server = Setup::default()
        .env("COLLOQUY__SERVER__DRAIN_SECONDS", "2")
        .start();
    let account = server.account().await;
    let mut raw = Raw::connect(&server.address()).await;
    raw.write(creation(&account).0.as_bytes()).await;
    account.test().get("/v1").await.expect(200);
    assert_eq!(server.term().code(), Some(0));
    let answer = raw.read_to_end(Duration::from_secs(15)).await;
    assert_ne!(answer.status, 408, "the body's own time came first");
}

#[tokio::test]
async fn sigterm_ends_an_idle_server_at_once_and_idle_connections_do_not_hold_it() {
    // The test gives up sooner.
    let mut server = Setup::default()
        .env("COLLOQUY__SERVER__DRAIN_SECONDS", "600")
        .start();
    let used = server.anonymous();
    used.get("/healthz").await.expect(200);
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(Raw::connect(&server.address()).await);
    }
    assert_eq!(server.term().code(), Some(0));
}

#[tokio::test]
async fn a_token_given_by_the_settings_opens_the_door_and_is_not_printed() {
    let server = Server::start();
    assert!(
        !server.printed().contains(OPERATOR) && !server.log().contains(OPERATOR),
        "a given token is a secret"
    );
    server
        .operator()
        .get("/admin/v1/accounts")
        .await
        .expect(200);
}

#[test]
fn secrets_do_not_stand_in_the_log() {
    let server = shared();
    let log = server.log();
    let printed = server.printed();
    for line in log.lines().filter(|line| !printed.contains(*line)) {
        for prefix in ["sk_test_", "sk_prod_", "sk_read_"] {
            let secret = line.find(prefix).map(|at| &line[at..]).unwrap_or_default();
            assert!(
                secret.len() < 24 || secret.contains(' '),
                "a key in the log: {line}"
            );
        }
    }
}
