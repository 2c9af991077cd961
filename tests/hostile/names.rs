//! Names of a query or a form: compared with a set of known ones, and few.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::Neighbour;
use crate::support::raw::Raw;
use crate::support::{Server, account, account_with_client, raw, shared};

/// What a head that is answered without its body takes at most on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// `aaa&aab&aac…`, so many bytes.
fn names(bytes: usize) -> String {
    let letters = || 'a'..='z';
    let mut text = String::with_capacity(bytes + 5);
    for (((a, b), c), d) in letters()
        .flat_map(|a| letters().map(move |b| (a, b)))
        .flat_map(|ab| letters().map(move |c| (ab, c)))
        .flat_map(|abc| letters().map(move |d| (abc, d)))
    {
        text.extend([a, b, c, d, '&']);
        if text.len() >= bytes {
            break;
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_many_names_at_a_link_that_does_not_exist() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let form = names(900_000);
    let request = format!(
        "POST /s/anything HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let attack = async {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(
                raw::exchange(&server.address(), request.as_bytes())
                    .await
                    .status,
            );
        }
        statuses
    };
    let beside = neighbour.beside("900 KB of names in a form", attack).await;
    assert!(
        beside
            .attack
            .iter()
            .all(|status| (400..500).contains(status)),
        "{:?}",
        beside.attack
    );
    assert!(beside.peak_bytes < 200 << 20, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_of_many_names() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let request = format!(
        "GET /healthz?{} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
        names(60_000)
    );
    let address = server.address();
    let attack = async {
        let mut statuses = Vec::new();
        for _ in 0..50 {
            let four = (0..4).map(|_| raw::exchange(&address, request.as_bytes()));
            statuses.extend(join_all(four).await.into_iter().map(|answer| answer.status));
        }
        statuses
    };
    let beside = neighbour.beside("60 KB of names in a query", attack).await;
    assert!(
        beside.attack.iter().all(|status| *status == 400),
        "{:?}",
        beside.attack
    );
}

#[tokio::test]
async fn a_query_has_at_most_64_names_and_the_next_one_is_told() {
    let (_account, c) = account_with_client().await;
    let query = |count: usize| {
        (0..count)
            .map(|n| format!("name{n}=1"))
            .collect::<Vec<_>>()
            .join("&")
    };
    for path in [
        "/v1/conversations",
        "/v1",
        "/v1/customers",
        "/api/v1/documents",
        "/v1/events",
    ] {
        c.get(&format!("{path}?{}", query(64)))
            .await
            .error(400, "invalid_request", "name0");
        c.get(&format!("{path}?{}", query(65)))
            .await
            .error(400, "invalid_request", "name64");
    }
}

#[tokio::test]
async fn a_request_line_has_at_most_16_kib() {
    let account = account().await;
    let asked = async |bytes: usize| {
        let frame = "GET /v1/customers?external_id= HTTP/1.1".len();
        let line = format!(
            "GET /v1/customers?external_id={} HTTP/1.1",
            "x".repeat(bytes - frame)
        );
        let key = account.test_key();
        let request = format!(
            "{line}\r\nHost: test\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
        );
        raw::exchange(&shared().address(), request.as_bytes()).await
    };
    assert_eq!(asked(16_384).await.status, 200);
    let refused = asked(16_385).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused
            .body()
            .contains("the request line must be at most 16384 bytes"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn a_form_has_at_most_8_kib_and_64_names() {
    let (_account, c) = account_with_client().await;
    let new = json!({"title": "Shared", "content": "words", "content_type": "text/plain"});
    let document = c.post("/api/v1/documents", new).await.expect(201).id("id");
    let share = c
        .post(&format!("/api/v1/documents/{document}/share"), json!({}))
        .await
        .expect(201);
    let link = share["url"]
        .as_str()
        .unwrap()
        .split_once("/s/")
        .unwrap()
        .1
        .to_owned();
    let nobody = shared().anonymous();
    let enter = |form: String| {
        let call = nobody
            .call("POST", &format!("/s/{link}"))
            .bytes(form)
            .with("accept", "application/json");
        call.with("content-type", "application/x-www-form-urlencoded")
    };
    let padded = |bytes: usize| format!("password={}", "x".repeat(bytes - "password=".len()));
    enter(padded(8_192)).await.expect(200);
    enter(padded(8_193)).await.error(400, "invalid_request", "");
    enter(names(8_000))
        .await
        .error(400, "invalid_request", "aacm");
    enter(names(64 * 5))
        .await
        .error(400, "invalid_request", "aaaa");
}

#[tokio::test]
async fn no_body_is_read_for_a_link_that_does_not_exist() {
    account().await;
    let heads = [
        "POST /s/anything HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 8000\r\n",
        "PUT /s/anything HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n",
        "POST /s/anything/comments HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n",
    ];
    for head in heads {
        let mut raw = Raw::connect(&shared().address()).await;
        raw.write(
            format!("{head}Host: test\r\nAccept: application/json\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .await;
        let answer = raw.read_to_end(ANSWERED_WITHIN).await;
        // Whoever waits for a body that does not come answers 408.
        assert_eq!(answer.status, 404, "{head}: {}", answer.text);
    }
}
