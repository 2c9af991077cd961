//! Certificates that the server has issued by itself, by a real authority of ACME: how names are
//! proven, which certificate is shown to whom, renewal, several nodes, and an authority that refuses
//! or is away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio_rustls::TlsConnector;

use crate::domains;
use crate::support::bucket::{Provider, with};
use crate::support::clock::Clock;
use crate::support::pebble::{Issuing, Pebble, at};
use crate::support::raw::exchange;
use crate::support::{
    Authority, Bucket, Nameserver, Person, Server, Setup, files, process, tool, until,
};

/// An order takes a few seconds, and a dead node's lease ten.
const SOON: Duration = Duration::from_secs(90);
/// Less than the wait after a failure.
const AT_ONCE: Duration = Duration::from_secs(30);

/// The certificate that is shown to whoever asks for this name, and trusts as that says; none where
/// the handshake fails.
async fn shown(address: &str, name: &str, tls: &ClientConfig) -> Option<CertificateDer<'static>> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut tls = tls.clone();
    // Who takes a session up again is shown nothing.
    tls.resumption = Resumption::disabled();
    let shaken = TlsConnector::from(Arc::new(tls)).connect(name, stream);
    let shaken = shaken.await.ok()?;
    Some(shaken.get_ref().1.peer_certificates().unwrap()[0].clone())
}

/// Waits until this name is shown a certificate that is trusted.
async fn certified(server: &Server, name: &str, tls: &ClientConfig) -> CertificateDer<'static> {
    until(name, SOON, async || {
        shown(&server.address(), name, tls).await
    })
    .await
}

/// What the metrics tell of orders that have ended so.
async fn orders(server: &Server, outcome: &str) -> u64 {
    server
        .metric(&format!("acme_orders_total{{outcome=\"{outcome}\"}}"))
        .await
}

async fn readiness(server: &Server) -> String {
    let answer = server.anonymous().get("/readyz").await.expect(200);
    String::from_utf8(answer.bytes).unwrap()
}

#[tokio::test]
async fn each_name_is_proven_over_http_and_shown_its_own_certificate() {
    let pebble = Pebble::start(Issuing::default()).await;
    let setup = pebble.setup_over_http(&["a.example", "B.example"], "127.0.0.1");
    let mut server = setup.start();
    let tls = pebble.trusting().await;
    let a = certified(&server, "a.example", &tls).await;
    let b = certified(&server, "b.example", &tls).await;
    assert_ne!(a, b);
    until("both are told of", SOON, async || {
        (orders(&server, "issued").await == 2).then_some(())
    })
    .await;
    let accounts = server.log().matches("an account was made").count();
    assert_eq!(
        accounts, 1,
        "the second order is of the first one's account"
    );
    assert_eq!(readiness(&server).await, "ready\n");
    assert_eq!(server.metric("tls_certificates_missing").await, 0);
    for name in ["a.example", "b.example"] {
        let metric = format!("tls_certificate_days_left{{host=\"{name}\"}}");
        assert_eq!(server.metric(&metric).await, 89);
    }
    // Over plain HTTP nothing else is answered than what is pending.
    let http = format!("127.0.0.1:{}", pebble.http_port());
    for path in [
        "/.well-known/acme-challenge/x",
        "/.well-known/acme-challenge/../x",
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        assert_eq!(
            exchange(&http, request.as_bytes()).await.status,
            308,
            "{path}"
        );
    }
    // Everything is there for the next life: nothing is asked of the authority.
    server.restart();
    assert_eq!(certified(&server, "a.example", &tls).await, a);
    assert_eq!(certified(&server, "b.example", &tls).await, b);
    assert_eq!(pebble.counts(), (2, 2));
    let kept = files::below(&server.work().join("data/acme"));
    let secrets = ["account.json", "a.example.json", "b.example.json"];
    for name in secrets {
        let file = kept.iter().find(|file| file.ends_with(name)).unwrap();
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let left = |folder: &str| {
        kept.iter()
            .any(|file| file.iter().any(|part| part == folder))
    };
    assert!(!left("orders") && !left("challenges"), "{kept:?}");
}

#[tokio::test]
async fn a_name_is_proven_in_tls_where_no_plain_http_is_listened_to() {
    let pebble = Pebble::start(Issuing::default()).await;
    let server = pebble.setup(&["a.example"]).start();
    let tls = pebble.trusting().await;
    let own = certified(&server, "a.example", &tls).await;
    for (protocol, version) in [
        ("h2", reqwest::Version::HTTP_2),
        ("http/1.1", reqwest::Version::HTTP_11),
    ] {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let http = at(&server.address(), "a.example", tls);
        let url = format!("https://a.example:{}/healthz", pebble.tls_port());
        let answer = http.get(url).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
    }
    // What proves a name is shown to nobody when nobody has asked for it.
    let mut asking = tls.clone();
    asking.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    assert!(
        shown(&server.address(), "a.example", &asking)
            .await
            .is_none()
    );
    assert!(
        shown(&server.address(), "b.example", &asking)
            .await
            .is_none()
    );
    // A name that is not ours gets the certificate of one that is, and its client refuses it.
    assert!(shown(&server.address(), "b.example", &tls).await.is_none());
    let other = shown(&server.address(), "b.example", &server.tls()).await;
    assert_eq!(other, Some(own));
}

#[tokio::test]
async fn a_server_without_a_certificate_serves_and_says_what_is_missing() {
    let mut pebble = Pebble::start(Issuing::default()).await;
    pebble.stop();
    // By the fixture's address, which is no name, it is ready: a probe gets its answer.
    let server = pebble.setup(&["a.example"]).start();
    let told = until("the failure is told", SOON, async || {
        let log = server.log();
        log.contains("no TLS certificate was issued").then_some(log)
    })
    .await;
    assert!(
        told.contains("the authority: it does not answer: "),
        "{told}"
    );
    assert!(told.contains("name=\"a.example\""), "{told}");
    let ready = readiness(&server).await;
    assert!(
        ready.contains("no TLS certificate yet for 1 of 1"),
        "{ready}"
    );
    assert_eq!(server.metric("tls_certificates_missing").await, 1);
    assert_eq!(orders(&server, "failed").await, 1);
    // The name itself is shown nothing, not even to whoever would take anything.
    let anybody = server.tls();
    assert!(
        shown(&server.address(), "a.example", &anybody)
            .await
            .is_none()
    );
    assert!(
        shown(&server.address(), "127.0.0.1", &anybody)
            .await
            .is_some()
    );
    let operator = Person::operator_over_tls(&server, anybody).await;
    let overview = operator.page("/console/overview").await;
    assert!(
        overview.contains("There is no TLS certificate for a.example yet"),
        "{overview}"
    );
    assert!(
        overview.contains("the authority: it does not answer"),
        "{overview}"
    );
    // It is tried again in a minute, or as soon as an operator wants it.
    pebble.go_on().await;
    let tls = pebble.trusting().await;
    process::signal("HUP", server.pid());
    until("it is tried again at once", AT_ONCE, async || {
        shown(&server.address(), "a.example", &tls).await
    })
    .await;
    assert_eq!(orders(&server, "failed").await, 1);
    until("nothing is missing", SOON, async || {
        let overview = operator.page("/console/overview").await;
        (!overview.contains("a.example")).then_some(())
    })
    .await;
}

/// Requests by connections that stay and by new ones, again and again until they are told to stop.
async fn load(url: &str, address: &str, tls: &ClientConfig, stop: &AtomicBool) -> usize {
    let answered = AtomicUsize::new(0);
    let ask = async |http: &reqwest::Client| {
        let answer = http.get(url).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        answered.fetch_add(1, Ordering::Relaxed);
    };
    let client = |protocol: &str| {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        at(address, "a.example", tls)
    };
    let staying = ["http/1.1", "h2"].map(client);
    while !stop.load(Ordering::Relaxed) {
        ask(&staying[0]).await;
        ask(&staying[1]).await;
        ask(&client("h2")).await;
    }
    answered.into_inner()
}

#[tokio::test]
async fn it_is_renewed_before_its_end_and_no_request_is_lost() {
    let issuing = Issuing {
        validity_seconds: 24,
        ..Issuing::default()
    };
    let mut pebble = Pebble::start(issuing).await;
    let server = pebble.setup(&["a.example"]).start();
    let tls = pebble.trusting().await;
    let first = certified(&server, "a.example", &tls).await;
    let (stop, address) = (AtomicBool::new(false), server.address());
    let url = format!("https://a.example:{}/healthz", pebble.tls_port());
    let renewed = async {
        let second = until("another one is shown", SOON, async || {
            let now = shown(&address, "a.example", &tls)
                .await
                .expect("it is valid");
            (now != first).then_some(now)
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        second
    };
    let (second, answered) = tokio::join!(renewed, load(&url, &address, &tls, &stop));
    assert!(answered > 20, "{answered}");
    assert!(pebble.times_asked_when_to_renew() > 0);
    // An authority that is away: the one that is there is shown to its end, and the log tells.
    pebble.stop();
    until("the failure is told", SOON, async || {
        let now = shown(&address, "a.example", &tls).await;
        assert_eq!(
            now.as_ref(),
            Some(&second),
            "it is valid for some seconds more"
        );
        (orders(&server, "failed").await > 0).then_some(())
    })
    .await;
    let operator = Person::operator_over_tls(&server, server.tls()).await;
    let overview = operator.page("/console/overview").await;
    assert!(
        overview.contains("ends today, and was not renewed"),
        "{overview}"
    );
    // Back, it knows neither the account nor the order, and gets new ones.
    pebble.go_on().await;
    process::signal("HUP", server.pid());
    certified(&server, "a.example", &pebble.trusting().await).await;
    assert!(
        server
            .log()
            .contains("the authority does not know the account")
    );
}

#[tokio::test]
async fn it_is_renewed_as_soon_as_the_authority_suggests_it() {
    const DAY: u32 = 24 * 60;
    let pebble = Pebble::start(Issuing::default()).await;
    let (server, clock) = Clock::start_as(pebble.setup(&["a.example"]));
    let tls = pebble.trusting().await;
    let first = certified(&server, "a.example", &tls).await;
    let is_asked_beyond = async |times: usize| {
        until(
            "the authority is asked when to renew it",
            SOON,
            async || (pebble.times_asked_when_to_renew() > times).then_some(()),
        )
        .await;
    };
    is_asked_beyond(0).await;
    // Of itself it would be renewed after 60 days, and that is what the authority suggests so far.
    let times = pebble.times_asked_when_to_renew();
    clock.ahead(2 * DAY);
    is_asked_beyond(times).await;
    let past = [2, 1].map(|hours| Utc::now() - TimeDelta::hours(hours));
    pebble.suggest(&first, past).await;
    assert_eq!(pebble.counts(), (1, 1));
    // It is asked again as soon as it says: six hours later.
    clock.ahead(3 * DAY);
    let second = until("another one is shown", SOON, async || {
        let now = shown(&server.address(), "a.example", &tls).await;
        now.filter(|now| *now != first)
    })
    .await;
    // Of the new one it suggests nothing yet: that one stays.
    let times = pebble.times_asked_when_to_renew();
    clock.ahead(4 * DAY);
    is_asked_beyond(times).await;
    assert_eq!(certified(&server, "a.example", &tls).await, second);
    assert_eq!(pebble.counts(), (2, 2));
    assert_eq!(orders(&server, "failed").await, 0);
}

#[tokio::test]
async fn what_the_authority_refuses_is_told_and_keeps_no_other_name_waiting() {
    let pebble = Pebble::start(Issuing::default()).await;
    let server = pebble.setup(&["blocked.example", "elsewhere.example", "z.example"]);
    pebble.lead("elsewhere.example", "127.0.0.77").await;
    let mut server = server.start();
    let tls = pebble.trusting().await;
    certified(&server, "z.example", &tls).await;
    let log = server.log();
    let of = |name: &str| {
        let line = log
            .lines()
            .find(|line| line.contains("no TLS certificate was issued") && line.contains(name));
        line.unwrap_or_else(|| panic!("{name}: {log}")).to_owned()
    };
    let blocked = of("blocked.example");
    assert!(blocked.contains("rejectedIdentifier"), "{blocked}");
    let elsewhere = of("elsewhere.example");
    assert!(
        elsewhere.contains("127.0.0.77") || elsewhere.contains("connection"),
        "{elsewhere}"
    );
    let (_, next) = elsewhere.split_once("next_in_seconds=").expect("the wait");
    let next = next.split(' ').next().unwrap().trim().parse().unwrap();
    assert!((48..=72).contains(&next), "a minute or so: {elsewhere}");
    assert_eq!(orders(&server, "failed").await, 2);
    // A life that begins anew does not try again before its time.
    let orders_before = pebble.counts().1;
    server.restart();
    certified(&server, "z.example", &tls).await;
    until("it knows of the failures", SOON, async || {
        let ready = readiness(&server).await;
        ready.contains("for 2 of 3").then_some(())
    })
    .await;
    // Names that are listed while it runs are ordered at once, and those before are let alone.
    assert_eq!(orders(&server, "failed").await, 0);
    assert_eq!(pebble.counts().1, orders_before);
}

#[tokio::test]
async fn sighup_has_a_name_ordered_that_is_new_in_the_settings() {
    let pebble = Pebble::start(Issuing::default()).await;
    let settings = |names: &str| format!("[tls.acme]\ndomains = {names}\nprofile = \"brief\"\n");
    let setup = pebble
        .setup(&[])
        .unset("COLLOQUY__TLS__ACME__DOMAINS")
        .unset("COLLOQUY__TLS__ACME__PROFILE");
    let server = setup.config(&settings("[\"a.example\"]")).start();
    let tls = pebble.trusting().await;
    let first = certified(&server, "a.example", &tls).await;
    let metric = "tls_certificate_days_left{host=\"a.example\"}";
    assert_eq!(
        server.metric(metric).await,
        0,
        "the profile is that of a day"
    );
    fs::write(
        server.work().join("config.toml"),
        settings("[\"b.example\"]"),
    )
    .unwrap();
    process::signal("HUP", server.pid());
    certified(&server, "b.example", &tls).await;
    assert!(server.log().contains("holds_now=\"tls.acme.domains\""));
    until("the other is shown no more", SOON, async || {
        shown(&server.address(), "a.example", &tls)
            .await
            .is_none()
            .then_some(())
    })
    .await;
    // What was kept of it is good still where it comes back.
    fs::write(
        server.work().join("config.toml"),
        settings("[\"a.example\", \"b.example\"]"),
    )
    .unwrap();
    process::signal("HUP", server.pid());
    assert_eq!(certified(&server, "a.example", &tls).await, first);
    assert_eq!(pebble.counts(), (2, 2));
}

#[tokio::test]
async fn a_domain_of_an_account_has_its_certificate_once_it_is_proven() {
    let pebble = Pebble::start(Issuing::default()).await;
    let names = Nameserver::start();
    let nameservers = format!("[\"{}\"]", names.address());
    let mut server = pebble
        .setup(&["a.example"])
        .env("COLLOQUY__DOMAINS__NAMESERVERS", &nameservers)
        .start();
    let tls = pebble.trusting().await;
    certified(&server, "a.example", &tls).await;
    let account = server.account().await;
    let host = domains::host();
    let set = domains::set(&account, json!({"domains": [host]})).await;
    set.expect(200);
    // Nobody has anything issued for a name that it only claims.
    assert_eq!(shown(&server.address(), &host, &tls).await, None);
    domains::prove(&names, &account, &host).await;
    let own = certified(&server, &host, &tls).await;
    let operator = Person::operator_over_tls(&server, server.tls()).await;
    let page = format!("/console/accounts/{}", account.account_id);
    let page = operator.page(&page).await;
    assert!(page.contains("Its TLS certificate ends"), "{page}");
    server.restart();
    assert_eq!(certified(&server, &host, &tls).await, own);
    assert_eq!(pebble.counts(), (2, 2));
    let given_up = server
        .operator()
        .patch(&domains::at(&account), json!({"domains": []}));
    given_up.await.expect(200);
    until("it is shown no more", SOON, async || {
        let shown = shown(&server.address(), &host, &tls).await;
        shown.is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn nodes_that_share_the_storage_order_once_and_answer_for_one_another() {
    let storage = tempfile::tempdir().unwrap();
    let storage = format!("file:{}", storage.path().display());
    let sharing = |setup: Setup| setup.env("COLLOQUY__TLS__ACME__STORAGE", &storage);
    check_that_nodes_order_once(sharing).await;
}

#[tokio::test]
async fn nodes_that_share_a_bucket_do_so_too() {
    for provider in [Provider::S3, Provider::Gcs, Provider::Azure] {
        let bucket = Bucket::start_of(provider);
        let sharing = |setup: Setup| {
            with(setup, &bucket.credentials())
                .env("COLLOQUY__TLS__ACME__STORAGE", &bucket.url("acme"))
                .env("COLLOQUY__TLS__ACME__STORAGE_ENDPOINT", &bucket.endpoint())
        };
        check_that_nodes_order_once(sharing).await;
    }
}

async fn check_that_nodes_order_once(sharing: impl Fn(Setup) -> Setup) {
    let pebble = Pebble::start(Issuing::default()).await;
    pebble.lead("b.example", "127.0.0.2").await;
    let names = ["a.example", "b.example"];
    let node = |address: &str| sharing(pebble.setup_over_http(&names, address));
    // Names lead to one node each: whichever orders, the other is asked for one of them.
    let (first, second) = (node("127.0.0.1").start(), node("127.0.0.2").start());
    let tls = pebble.trusting().await;
    for name in names {
        let shown = certified(&first, name, &tls).await;
        assert_eq!(certified(&second, name, &tls).await, shown);
    }
    assert_eq!(pebble.counts(), (2, 2));
    let issued = orders(&first, "issued").await + orders(&second, "issued").await;
    assert_eq!(issued, 2);
}

#[tokio::test]
async fn an_order_that_a_kill_interrupts_is_taken_up_by_the_next_life() {
    let issuing = Issuing {
        look_seconds: 3,
        ..Issuing::default()
    };
    let pebble = Pebble::start(issuing).await;
    let mut server = pebble.setup(&["a.example"]).start();
    let acme = server.work().join("data/acme");
    until("an order is under way", SOON, async || {
        let is_order = |file: &PathBuf| file.ends_with("orders/a.example.json");
        files::below(&acme).iter().any(is_order).then_some(())
    })
    .await;
    server.kill9();
    server.restart();
    certified(&server, "a.example", &pebble.trusting().await).await;
    assert!(
        server
            .log()
            .contains("an order of a certificate that was begun goes on")
    );
    assert_eq!(pebble.counts(), (1, 1));
}

#[tokio::test]
async fn a_damaged_file_of_one_name_keeps_no_other_from_its_certificate() {
    let pebble = Pebble::start(Issuing::default()).await;
    let names = |names: &str| format!("[tls.acme]\ndomains = {names}\n");
    let setup = pebble.setup(&[]).unset("COLLOQUY__TLS__ACME__DOMAINS");
    let mut server = setup.config(&names("[\"a.example\"]")).start();
    let tls = pebble.trusting().await;
    certified(&server, "a.example", &tls).await;
    let kept = files::below(&server.work().join("data/acme"));
    let is_kept = |file: &&PathBuf| file.ends_with("certificates/a.example.json");
    let file = kept.iter().find(is_kept).unwrap();
    server.term();
    fs::write(file, "{\"chain\":").unwrap();
    let both = names("[\"a.example\", \"b.example\"]");
    fs::write(server.work().join("config.toml"), both).unwrap();
    server.restart();
    certified(&server, "b.example", &tls).await;
    // Neither looking nor SIGHUP replaces what can't be read, and whoever looks is told which file it is.
    process::signal("HUP", server.pid());
    let path = file.to_str().unwrap();
    let told = |line: &&str| line.contains("no certificate is ordered") && line.contains(path);
    until("SIGHUP was taken", SOON, async || {
        let log = server.log();
        log.contains("the settings were read again").then_some(())
    })
    .await;
    assert_eq!(server.log().lines().filter(told).count(), 1);
    assert_eq!(fs::read_to_string(file).unwrap(), "{\"chain\":");
    assert!(shown(&server.address(), "a.example", &tls).await.is_none());
    fs::remove_file(file).unwrap();
    process::signal("HUP", server.pid());
    certified(&server, "a.example", &tls).await;
    assert_eq!(pebble.counts(), (3, 3));
}

#[tokio::test]
async fn keys_are_sealed_where_texts_are_encrypted_and_read_again() {
    let pebble = Pebble::start(Issuing::default()).await;
    let mut server = pebble
        .setup(&["a.example"])
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env(
            "COLLOQUY__ENCRYPTION__MASTER_KEY",
            "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        )
        .start();
    let tls = pebble.trusting().await;
    let first = certified(&server, "a.example", &tls).await;
    let kept = files::below(&server.work().join("data/acme"));
    let text: String = kept
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    assert!(
        text.contains("BEGIN CERTIFICATE") && text.contains("sealed:"),
        "{text}"
    );
    assert!(
        !text.contains("PRIVATE KEY") && !text.contains("key_pkcs8"),
        "{text}"
    );
    server.restart();
    assert_eq!(certified(&server, "a.example", &tls).await, first);
    assert_eq!(pebble.counts(), (1, 1));
}

#[tokio::test]
async fn an_account_is_bound_to_another_where_the_authority_wants_it() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let issuing = Issuing {
        external: Some(("kid-1", key)),
        ..Issuing::default()
    };
    let pebble = Pebble::start(issuing).await;
    let server = pebble
        .setup(&["a.example"])
        .env("COLLOQUY__TLS__ACME__EXTERNAL_ACCOUNT_ID", "kid-1")
        .env("COLLOQUY__TLS__ACME__EXTERNAL_ACCOUNT_KEY", key)
        .start();
    certified(&server, "a.example", &pebble.trusting().await).await;
}

#[tokio::test]
async fn the_certificate_of_the_files_is_shown_to_whoever_asks_for_another_name() {
    let pebble = Pebble::start(Issuing::default()).await;
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = pebble
        .setup(&["a.example"])
        .encrypted(&authority, &pair)
        .start();
    certified(&server, "a.example", &pebble.trusting().await).await;
    let other = shown(&server.address(), "localhost", &authority.trusting()).await;
    assert_eq!(other, Some(pair.shown()));
    assert_eq!(
        server.metric("tls_certificate_days_left{host=\"\"}").await,
        89
    );
}

#[tokio::test]
async fn commands_know_the_server_by_the_certificates_that_are_kept() {
    let pebble = Pebble::start(Issuing::default()).await;
    let server = pebble.setup(&["a.example"]).start();
    certified(&server, "a.example", &pebble.trusting().await).await;
    let mut command = process::colloquy();
    command
        .arg("actors")
        .current_dir(server.work())
        .envs(server.store());
    let done = tool::started("setpriv", command.output());
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("conversation"));
}

/// A setting that can't be used beside names and an agreement, and what is said of it.
const MISTAKES: [(&str, &str, &str, &str); 15] = [
    (
        "DOMAINS",
        r#"["*.example.com"]"#,
        "domains",
        "give their certificate as files",
    ),
    ("DOMAINS", r#"["127.0.0.1"]"#, "domains", "no address"),
    (
        "DOMAINS",
        r#"["a..example"]"#,
        "domains",
        "must be a host name",
    ),
    ("DOMAINS", r#"["münchen.example"]"#, "domains", "xn--"),
    (
        "DOMAINS",
        r#"["a.example", "A.example"]"#,
        "domains",
        "twice",
    ),
    ("DIRECTORY", "http://a.example/dir", "directory", "https://"),
    (
        "DIRECTORY_CA",
        "nowhere.pem",
        "directory_ca",
        "file that can be read",
    ),
    ("CONTACT", r#"["ops@example.com"]"#, "contact", "mailto:"),
    (
        "TERMS_OF_SERVICE_AGREED",
        "false",
        "terms_of_service_agreed",
        "must be true",
    ),
    (
        "EXTERNAL_ACCOUNT_ID",
        "kid-1",
        "external_account_key",
        "other half",
    ),
    (
        "EXTERNAL_ACCOUNT_KEY",
        "c2VjcmV0",
        "external_account_id",
        "other half",
    ),
    ("STORAGE", "data/acme", "storage", "must be file:FOLDER"),
    (
        "STORAGE_ENDPOINT",
        "storage:9000",
        "storage_endpoint",
        "http://",
    ),
    ("RENEW_BEFORE_DAYS", "-1", "renew_before_days", "at least 0"),
    (
        "RENEW_BEFORE_DAYS",
        "366",
        "renew_before_days",
        "at most 365",
    ),
];

#[test]
fn config_check_names_the_setting_of_acme_that_can_not_be_used() {
    let checked = |settings: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = process::colloquy();
        command.args(["config", "check"]).current_dir(folder.path());
        for (name, value) in settings {
            command.env(format!("COLLOQUY__TLS__ACME__{name}"), value);
        }
        let output = tool::started("setpriv", command.output());
        let text = [output.stdout, output.stderr].concat();
        let made = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(made, 0, "a check makes nothing");
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let good = [
        ("DOMAINS", r#"["a.example", "xn--mnchen-3ya.example"]"#),
        ("TERMS_OF_SERVICE_AGREED", "true"),
    ];
    let (is_good, told) = checked(&good);
    assert!(is_good, "{told}");
    for (name, value, field, right) in MISTAKES {
        let (is_good, told) = checked(&[&good[..], &[(name, value)]].concat());
        assert!(!is_good, "{name} = {value}");
        assert!(
            told.contains(&format!("`tls.acme.{field}`")),
            "{name} = {value}: {told}"
        );
        assert!(told.contains(right), "{name} = {value}: {told}");
        assert!(!told.contains("c2VjcmV0"), "a key is told: {told}");
    }
}
