//! Keys whose requests must be signed (RFC 9421): how they are made, what is let in, and what is
//! refused with which words.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::signing::{COVERED, Signature, Signer, digest_of, now};
use crate::support::socket::Ended;
use crate::support::{Account, Server, Setup, Socket, account, until};

/// A URL that no test's server has: what is signed is where clients find the server.
const PUBLIC_URL: &str = "https://api.example.com";

/// A key of the account that requires signatures, and what made it.
async fn signer(account: &Account, public_url: &str) -> (Signer, Value) {
    let body = json!({"type": "test", "require_signature": true});
    let (client, made) = account.key(body).await;
    let signer = Signer {
        client,
        key_id: made["key_id"].as_str().unwrap().to_owned(),
        secret: made["signing_secret"].as_str().unwrap().to_owned(),
        public_url: public_url.to_owned(),
    };
    (signer, made)
}

/// The same on the shared server.
async fn own() -> (Account, Signer) {
    let account = account().await;
    let base = format!("http://{}", account.anonymous().address());
    let (signer, _) = signer(&account, &base).await;
    (account, signer)
}

/// Fails unless it is refused for this.
async fn refused(call: crate::support::client::Call, why: &str) {
    let refused = call.await.error(401, "unauthorized", "");
    assert!(refused.reason().contains(why), "{why}: {refused}");
    assert_eq!(refused.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn what_pypis_library_signs_is_let_in() {
    let (_account, signer) = own().await;
    let body = r#"{"name": "Ada Lovelace", "metadata": {"a": "ü"}}"#;
    for (method, path, body, status) in [
        ("GET", "/v1", None, 200),
        ("GET", "/v1/customers?limit=5&order=asc", None, 200),
        ("POST", "/v1/customers", Some(body), 201),
        (
            "DELETE",
            "/v1/customers/cus_0190163d8694739b85d52d5e4a4d6d5f",
            None,
            404,
        ),
    ] {
        let headers = signer.by_the_library(method, path, body);
        let mut call = signer.client.call(method, path);
        if let Some(body) = body {
            call = call.bytes(body).with("content-type", "application/json");
        }
        for (name, value) in headers.as_object().unwrap() {
            call = call.with(name, value.as_str().unwrap());
        }
        call.await.expect(status);
    }
}

#[tokio::test]
async fn a_key_shows_its_signing_secret_once() {
    let account = account().await;
    let (signer, made) = signer(&account, "").await;
    assert!(
        signer.secret.starts_with("ss_") && signer.secret.len() > 40,
        "{made}"
    );
    assert_eq!(made["require_signature"], true);
    let at = format!("/admin/v1/keys/{}", signer.key_id);
    let operator = account.operator();
    let read = operator.get(&at).await.expect(200);
    assert_eq!(read.body["require_signature"], true);
    let unchanged = operator
        .patch(&at, json!({"require_signature": true}))
        .await;
    for answer in [&read, &unchanged] {
        assert!(answer.body.get("signing_secret").is_none(), "{answer}");
    }
    let off = operator
        .patch(&at, json!({"require_signature": false}))
        .await;
    assert!(off.body.get("signing_secret").is_none(), "{off}");
    signer.client.get("/v1").await.expect(200);
    let on = operator
        .patch(&at, json!({"require_signature": true}))
        .await;
    let other = on.expect(200).id("signing_secret");
    assert_ne!(other, signer.secret);
    refused(signer.client.get("/v1"), "not signed").await;
    let plain = account.key(json!({"type": "test"})).await.1;
    assert!(plain.get("signing_secret").is_none(), "{plain}");
    assert_eq!(plain["require_signature"], false);
}

#[tokio::test]
async fn a_signing_secret_is_rotated_with_its_key_and_overlaps_with_it() {
    let (account, mut signer) = own().await;
    let at = format!("/admin/v1/keys/{}/rotate", signer.key_id);
    let rotated = account
        .operator()
        .post(&at, json!({"overlap_seconds": 60}))
        .await;
    let rotated = rotated.expect(200);
    signer.get("/v1").call().await.expect(200);
    let first = signer.secret.clone();
    signer.secret = rotated.id("signing_secret");
    signer.client = account.anonymous().with_key(&rotated.id("key"));
    signer.get("/v1").call().await.expect(200);
    let last = account
        .operator()
        .post(&at, json!({"overlap_seconds": 0}))
        .await;
    let last = last.expect(200);
    let client = account.anonymous().with_key(&last.id("key"));
    for old in [first, signer.secret.clone()] {
        let stale = Signer {
            client: client.clone(),
            secret: old,
            ..signer.clone()
        };
        refused(stale.get("/v1").call(), "signing secret").await;
    }
    let soon = json!({"overlap_seconds": 1});
    let next = account.operator().post(&at, soon).await.expect(200);
    let stale = Signer {
        client: account.anonymous().with_key(&next.id("key")),
        secret: last.id("signing_secret"),
        ..signer.clone()
    };
    until("the overlap is over", Duration::from_secs(30), async || {
        (stale.get("/v1").call().await.status == 401).then_some(())
    })
    .await;
    refused(stale.get("/v1").call(), "signing secret").await;
}

#[tokio::test]
async fn a_signing_secret_stands_in_no_file() {
    let server = Server::start();
    let account = server.account().await;
    let (signer, _) = signer(&account, "").await;
    let places = server.places_with(&signer.secret);
    assert!(places.is_empty(), "{places:?}");
    assert_ne!(
        server.places_with(&signer.key_id).len(),
        0,
        "what is there is found"
    );
}

/// A request whose signature was made otherwise by this, and the words with which it is refused.
type Attack = (&'static str, fn(&mut Signature));

/// Each way in which a signature can be no good.
const ATTACKS: &[Attack] = &[
    ("signing secret", |one| one.secret = "ss_another".to_owned()),
    ("signing secret", |one| one.signed_method = "PUT".to_owned()),
    ("signing secret", |one| {
        one.signed_url = one.signed_url.replace("127.0.0.1", "evil.example");
    }),
    ("signing secret", |one| {
        (one.path, one.signed_url) = (
            "/v1/customers?a=1&b=2".to_owned(),
            one.signed_url.replace('?', "?b=2&a=1"),
        );
    }),
    ("created is missing", |one| one.created = None),
    ("created is more", |one| one.created = Some(now() - 310)),
    ("created is more", |one| one.created = Some(now() + 310)),
    ("expires is past", |one| {
        one.more = format!(";expires={}", now() - 5);
    }),
    ("nonce is missing", |one| one.nonce = None),
    ("nonce is missing", |one| one.nonce = Some(String::new())),
    ("nonce is missing", |one| one.nonce = Some("n".repeat(65))),
    ("alg must be", |one| {
        one.more = ";alg=\"ed25519\"".to_owned()
    }),
    ("alg must be", |one| {
        one.more = ";alg=hmac-sha256".to_owned()
    }),
    ("twice", |one| one.more = format!(";created={}", now())),
    ("twice", |one| one.covered.push("@method".to_owned())),
    ("not supported", |one| {
        one.covered.push("@method;req".to_owned())
    }),
    ("not supported", |one| {
        one.covered.push("x-absent".to_owned())
    }),
    ("not supported", |one| {
        one.covered.push("@status".to_owned())
    }),
    ("not supported", |one| {
        one.covered.push("Authorization".to_owned())
    }),
    ("not that of the body", |one| {
        one.body = Some(r#"{"name": "y"}"#.to_owned());
    }),
    ("not that of the body", |one| {
        one.digest = Some(format!("{}, sha-512=:AAAA:", one.digest.clone().unwrap()));
    }),
    ("Content-Digest is missing", |one| {
        one.digest = Some("md5=:AAAA:".to_owned());
    }),
    ("Signature-Input is not written", |one| {
        one.more = ";a=".to_owned()
    }),
];

#[tokio::test]
async fn what_is_signed_otherwise_is_refused_and_told_why() {
    let (account, signer) = own().await;
    let sound = || signer.request("POST", "/v1/customers?", Some(r#"{"name": "x"}"#));
    let mut wrong = Vec::new();
    for (index, (why, attack)) in ATTACKS.iter().enumerate() {
        let mut request = sound();
        attack(&mut request);
        let answer = request.call().await;
        if answer.status != 401 || !answer.reason().contains(why) {
            wrong.push(format!("{index}, {why}: {answer}"));
        }
    }
    for name in COVERED.into_iter().chain(["content-digest"]) {
        let mut request = sound();
        request.covered.retain(|one| one != name);
        let answer = request.call().await;
        if answer.status != 401 || !answer.reason().contains(&format!("cover \"{name}\"")) {
            wrong.push(format!("without {name}: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let listed = account.test().get("/v1/customers").await.expect(200);
    assert_eq!(listed.total(), 0, "nothing was done");
}

#[tokio::test]
async fn one_signature_counts_and_it_is_the_keys_own() {
    let (account, signer) = own().await;
    let other = account.key(json!({"type": "test", "require_signature": true}));
    let other = other.await.1;
    let sound = || signer.request("POST", "/v1/customers?", Some(r#"{"name": "x"}"#));
    let mut elsewhere = sound();
    elsewhere.key_id = other["key_id"].as_str().unwrap().to_owned();
    elsewhere.secret = other["signing_secret"].as_str().unwrap().to_owned();
    refused(elsewhere.call(), "key_id as its keyid").await;
    refused(sound().unsigned(), "not signed").await;
    let half = sound().unsigned();
    let half = half.with("signature-input", &sound().headers()[0].1);
    refused(half, "Signature is missing").await;
    let [(_, input), (_, signature)] = sound().headers();
    let mut several = sound();
    several.others = [input, signature].map(|text| format!(", two{}", &text[3..]));
    refused(several.call(), "more than one signature").await;
    // What others have signed beside it is theirs.
    let mut beside = sound();
    beside.others = [", two=(\"@method\");keyid=\"other\"", ", two=:AAAA:"].map(str::to_owned);
    beside.call().await.expect(201);
    let mut more = sound();
    more.covered.push("@path".to_owned());
    more.more = ";alg=\"hmac-sha256\"".to_owned();
    more.nonce = Some("n".repeat(64));
    more.call().await.expect(201);
    let listed = account.test().get("/v1/customers").await.expect(200);
    assert_eq!(listed.total(), 2, "nothing else was done");
}

#[tokio::test]
async fn a_header_block_that_is_too_large_is_refused_before_it_is_read() {
    let (account, mut signer) = own().await;
    let key = signer.client.credential().unwrap().to_owned();
    let mut request = signer.get("/v1");
    request.more = format!(";tag=\"{}\"", "t".repeat(17_000));
    let [(input, said), (name, signature)] = request.headers();
    signer.client = account.anonymous();
    let call = signer.client.get("/v1").with("authorization", &key);
    let call = call.with(input, &said).with(name, &signature);
    call.await.error(431, "headers_too_large", "");
}

#[tokio::test]
async fn of_many_requests_with_one_nonce_one_passes() {
    let (account, signer) = own().await;
    let request = signer.request("POST", "/v1/customers", Some(r#"{"name": "x"}"#));
    let calls = (0..16).map(|_| request.call().into_future());
    let answers = futures_util::future::join_all(calls).await;
    let passed = answers.iter().filter(|answer| answer.status == 201);
    assert_eq!(passed.count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert!(
            answer.reason().contains("nonce was used before"),
            "{answer}"
        );
    }
    assert_eq!(account.test().get("/v1/customers").await.total(), 1);
    // The nonces of another key are its own.
    let base = signer.public_url.clone();
    let mut elsewhere = self::signer(&account, &base).await.0.get("/v1");
    elsewhere.nonce.clone_from(&request.nonce);
    elsewhere.call().await.expect(200);
}

#[tokio::test]
async fn a_replay_is_refused_after_kill_9() {
    let mut server = Setup::default()
        .env("COLLOQUY__SERVER__PUBLIC_URL", PUBLIC_URL)
        .start();
    let account = server.account().await;
    let (mut signer, _) = signer(&account, PUBLIC_URL).await;
    let request = signer.get("/v1/customers?limit=3");
    request.call().await.expect(200);
    server.kill9();
    server.restart();
    signer.client = signer.client.at(&server.address());
    let fresh = signer.get("/v1/customers?limit=3");
    fresh.call().await.expect(200);
    let headers = request.headers();
    let mut replayed = signer.client.get("/v1/customers?limit=3");
    for (name, value) in &headers {
        replayed = replayed.with(name, value);
    }
    refused(replayed, "nonce was used before").await;
}

#[tokio::test]
async fn a_socket_is_signed_at_its_opening() {
    let (account, signer) = own().await;
    let path = "/v1/realtime";
    let opened = Socket::try_open(&signer.client, path).await;
    assert_eq!(opened.err(), Some(401));
    let headers = signer.get(path).headers();
    let mut socket = Socket::try_open_with(&signer.client, path, &headers)
        .await
        .unwrap();
    assert!(socket.before_pong().await.is_empty());
    let replayed = Socket::try_open_with(&signer.client, path, &headers).await;
    assert_eq!(replayed.err(), Some(401));
    let tickets = "/v1/realtime/tickets";
    let unsigned = signer.client.call("POST", tickets);
    refused(unsigned, "not signed").await;
    let made = signer
        .request("POST", tickets, None)
        .call()
        .await
        .expect(201);
    let by_ticket = format!("{path}?ticket={}", made.id("ticket"));
    Socket::try_open(&account.anonymous(), &by_ticket)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_was_opened_unsigned_ends_when_signatures_are_required() {
    let account = account().await;
    let (client, made) = account.key(json!({"type": "test"})).await;
    let ticket = client
        .call("POST", "/v1/realtime/tickets")
        .await
        .id("ticket");
    let mut socket = Socket::open(&client).await;
    socket.subscribe(Value::Null, None).await;
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    let required = json!({"require_signature": true});
    account.operator().patch(&at, required).await.expect(200);
    let ended = socket.end(Duration::from_secs(30)).await;
    assert_eq!(ended, Ended(1008));
    let by_ticket = format!("/v1/realtime?ticket={ticket}");
    let opened = Socket::try_open(&account.anonymous(), &by_ticket).await;
    assert_eq!(opened.err(), Some(401), "its ticket was made unsigned");
}

#[tokio::test]
async fn failing_signatures_count_for_the_address() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "5")
        .start();
    let account = server.account().await;
    let (signer, _) = signer(&account, &format!("http://{}", server.address())).await;
    let mut swapped = signer.request("POST", "/v1/customers", Some("{}"));
    swapped.digest = Some(digest_of("other"));
    refused(swapped.call(), "not that of the body").await;
    for _ in 0..4 {
        refused(signer.client.get("/v1"), "not signed").await;
    }
    let limited = signer.client.get("/v1").await;
    limited.error(429, "rate_limited", "");
    signer.get("/v1").call().await.expect(200);
}
