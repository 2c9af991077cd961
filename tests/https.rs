//! TLS of the server itself, without a proxy: both versions of HTTP, the certificate's replacement,
//! operators' client certificates, and the way from plain HTTP.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::raw::{Raw, exchange};
use crate::support::server::encrypted;
use crate::support::tool::handshake;
use crate::support::{
    Account, Authority, Client, EventStream, OPERATOR, Pair, Server, Setup, http2, process, tool,
    until,
};

const SOON: Duration = Duration::from_secs(20);
const HSTS: &str = "strict-transport-security";
const CHECK_SECONDS: &str = "COLLOQUY__TLS__CHECK_SECONDS";
const ADMIN_CLIENT_CA: &str = "COLLOQUY__TLS__ADMIN_CLIENT_CA";

/// A server that speaks TLS, with who vouches for it and the files of its certificate.
fn start(setup: Setup) -> (Server, Authority, Pair) {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = setup.encrypted(&authority, &pair).start();
    (server, authority, pair)
}

/// The same in which operators have to show a certificate of the second authority.
fn with_operators_certificates() -> (Server, Authority, Authority) {
    let operators = Authority::new();
    let file = operators.certificate().display().to_string();
    let (server, authority, _) = start(Setup::default().env(ADMIN_CLIENT_CA, &file));
    (server, authority, operators)
}

/// A client that speaks one version of HTTP only.
fn speaking(mut tls: ClientConfig, protocol: &str) -> reqwest::Client {
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .tls_backend_preconfigured(tls)
        .build()
        .unwrap()
}

/// The certificate that the server shows to whoever comes now.
fn shown(server: &Server, authority: &Authority) -> CertificateDer<'static> {
    let stream = TcpStream::connect(server.address()).unwrap();
    let mut stream = encrypted(stream, &authority.trusting());
    stream.conn.complete_io(&mut stream.sock).unwrap();
    stream.conn.peer_certificates().unwrap()[0].clone()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_and_answer_alike() {
    let (server, authority, _) = start(Setup::default());
    assert!(server.printed().contains("curl -s https://127.0.0.1:"));
    assert!(
        !server.printed().contains("http://"),
        "{}",
        server.printed()
    );
    let account = server.account().await;
    let key = account.test().credential().unwrap()[7..].to_owned();
    let long = "a".repeat(60_000);
    for (protocol, version) in [
        ("http/1.1", reqwest::Version::HTTP_11),
        ("h2", reqwest::Version::HTTP_2),
    ] {
        let mut tls = authority.trusting();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let client = server.over_tls(tls).with_key(&key);
        let conversation = client.conversation().await;
        // A body of several frames, and one that comes back.
        client.message(&conversation, &long).await;
        let messages = format!("/v1/conversations/{conversation}/messages");
        let read = client.get(&messages).await.expect(200);
        assert_eq!(read.body["data"][0]["content"], long.as_str());
        assert_eq!(read.header(HSTS), "max-age=63072000");
        client.with_key("x").get(&messages).await.expect(401);
        let document = client.get("/openapi.json").open().await.unwrap();
        assert_eq!(document.version(), version);
        let length = document.headers()["content-length"].clone();
        let bytes = document.bytes().await.unwrap();
        assert_eq!(length, bytes.len().to_string().as_str());
        let head = client.call("HEAD", "/openapi.json").open().await.unwrap();
        assert_eq!(head.headers()["content-length"], length);
    }
    // Who takes nothing of its certificate, or speaks no TLS, is not let in.
    let stranger = server.over_tls(Authority::new().trusting());
    assert!(stranger.get("/healthz").try_send().await.is_err());
    let plain = exchange(&server.address(), b"GET /healthz HTTP/1.1\r\n\r\n").await;
    assert_eq!(plain.status, 0);
    assert!(!server.log().contains("put a TLS proxy in front"));
    let days_left = server.metric("tls_certificate_days_left").await;
    assert!((88..=90).contains(&days_left), "{days_left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_of_one_connection_are_answered_and_an_event_stream_beside_them() {
    let (mut server, authority, _) = start(Setup::default());
    let account = server.account().await;
    let client = account.test();
    let key = client.credential().unwrap().to_owned();
    let http = speaking(authority.trusting(), "h2");
    let base = format!("https://{}", server.address());
    let stream = http
        .get(format!("{base}/v1/events"))
        .header("accept", "text/event-stream")
        .header("authorization", &key);
    let mut stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let customer = json!({"customer_id": client.customer().await});
    let made = join_all((0..300).map(|_| {
        let request = http
            .post(format!("{base}/v1/conversations"))
            .header("authorization", &key)
            .json(&customer);
        async { request.send().await.unwrap().status().as_u16() }
    }));
    assert!(made.await.iter().all(|status| *status == 201));
    let open = server.metric("connections").await;
    assert!(
        open < 20,
        "one connection, and those of other clients: {open}"
    );
    let mut heard = String::new();
    while heard.matches("event: conversation.created").count() < 300 {
        assert!(!heard.contains(": ping"), "nothing more comes: {heard}");
        let piece = timeout(SOON, stream.chunk()).await.expect("more events");
        heard += &String::from_utf8_lossy(&piece.unwrap().unwrap());
    }
    // A server that stops says goodbye to connections that are open for nothing.
    drop(stream);
    let begun = Instant::now();
    assert!(server.term().success());
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

/// HTTP/2 says that a body ends with a frame that may be empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_ends_before_it_begins_is_empty_over_http_2_too() {
    let (server, authority, _) = start(Setup::default());
    let key = server.account().await.test_key().to_owned();
    let settings = h2::client::Builder::new();
    let (mut sender, _) = http2::connect(&server.address(), authority.trusting(), &settings).await;
    for (pieces, status) in [(&[""][..], 400), (&["", "x", ""], 201)] {
        let url = format!("https://{}/v1/attachments", server.address());
        let request = http::Request::post(&url)
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "text/plain");
        let request = request.body(()).unwrap();
        sender = sender.ready().await.unwrap();
        let (answer, mut body) = sender.send_request(request, false).unwrap();
        for (number, piece) in pieces.iter().enumerate() {
            let is_last = number + 1 == pieces.len();
            body.send_data(Bytes::from_static(piece.as_bytes()), is_last)
                .unwrap();
        }
        assert_eq!(answer.await.unwrap().status(), status, "{pieces:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_http_2_that_takes_nothing_is_cut_off_and_harms_nobody() {
    let setup = Setup::default()
        .env("COLLOQUY__SERVER__WRITE_TIMEOUT_SECONDS", "0.5")
        .env("COLLOQUY__SERVER__KEEP_ALIVE_SECONDS", "0.5");
    let (server, authority, _) = start(setup);
    let mut taking_nothing = h2::client::Builder::new();
    taking_nothing
        .initial_window_size(0)
        .initial_max_send_streams(1);
    let (mut sender, connection) =
        http2::connect(&server.address(), authority.trusting(), &taking_nothing).await;
    let url = format!("https://{}/openapi.json", server.address());
    // More than have room at once: those that have none wait for it.
    let mut answers = Vec::new();
    for _ in 0..20 {
        sender = sender.ready().await.unwrap();
        let request = http::Request::get(&url).body(()).unwrap();
        let (answer, _) = sender.send_request(request, true).unwrap();
        answers.push(tokio::spawn(async {
            let mut body = answer.await.unwrap().into_body();
            body.data().await
        }));
    }
    assert_eq!(sender.current_max_send_streams(), 100, "the server's bound");
    server.anonymous().get("/openapi.json").await.expect(200);
    for answer in answers {
        let piece = timeout(SOON, answer).await.expect("it is cut off");
        let error = piece.unwrap().expect("no end").unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL), "{error}");
    }
    // A connection that is open for nothing is told goodbye before it would be cut, 5 s later. The
    // client's own goodbye may find it closed.
    let ended = timeout(Duration::from_secs(4), connection).await;
    let ended = ended.expect("goodbye is said").unwrap();
    assert!(
        ended.is_ok() || ended.as_ref().unwrap_err().is_io(),
        "{ended:?}"
    );
}

#[tokio::test]
async fn old_versions_of_tls_and_weak_ciphers_are_refused() {
    let (server, _authority, _) = start(Setup::default());
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let told = handshake(&server.address(), &[version, "-alpn", "h2,http/1.1"]);
        assert!(told.contains(&format!("New, {name}, Cipher is ")), "{told}");
        assert!(told.contains("ALPN protocol: h2"), "{told}");
    }
    let any = "ALL:@SECLEVEL=0";
    for version in ["-tls1", "-tls1_1"] {
        let told = handshake(&server.address(), &[version, "-cipher", any]);
        // It is the server that refuses it, and not this client.
        assert!(told.contains("SSL alert number"), "{version}: {told}");
        assert!(told.contains("Cipher is (NONE)"), "{version}: {told}");
    }
    for cipher in [
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-ECDSA-AES256-SHA384",
        "AES128-GCM-SHA256",
    ] {
        let cipher = format!("{cipher}:@SECLEVEL=0");
        let told = handshake(&server.address(), &["-tls1_2", "-cipher", &cipher]);
        assert!(told.contains("alert handshake failure"), "{cipher}: {told}");
    }
}

/// Requests by connections that stay and by new ones, again and again until they are told to stop.
async fn load(account: &Account, authority: &Authority, stop: &AtomicBool, answered: &AtomicUsize) {
    let key = account.test().credential().unwrap().to_owned();
    let base = format!("https://{}", account.test().address());
    let ask = async |http: &reqwest::Client| {
        let request = http.get(format!("{base}/v1/customers"));
        let answer = request.header("authorization", &key).send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
        answered.fetch_add(1, Ordering::Relaxed);
    };
    let staying = ["http/1.1", "h2"].map(|protocol| speaking(authority.trusting(), protocol));
    while !stop.load(Ordering::Relaxed) {
        ask(&staying[0]).await;
        ask(&staying[1]).await;
        ask(&speaking(authority.trusting(), "h2")).await;
    }
}

/// A certificate that has ended, with its own key.
fn put_ended(pair: &Pair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut ended = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    ended.not_after = rcgen::date_time_ymd(2026, 1, 1);
    let ended = ended.self_signed(&key).unwrap();
    fs::write(&pair.key, key.serialize_pem()).unwrap();
    fs::write(&pair.certificate, ended.pem()).unwrap();
}

#[tokio::test]
async fn a_new_certificate_holds_without_a_restart_and_no_request_is_lost() {
    let (server, authority, pair) = start(Setup::default().env(CHECK_SECONDS, "0.05"));
    let account = server.account().await;
    let (first, second) = (pair.shown(), authority.issue("second"));
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut stream = EventStream::open(account.test().get("/v1/events")).await;
    let change = async {
        assert_eq!(shown(&server, &authority), first);
        second.replace(&pair);
        until("the files' change is seen", SOON, async || {
            (shown(&server, &authority) == second.shown()).then_some(())
        })
        .await;
        // The key of another certificate, and what is none: what is in force stays there.
        fs::copy(authority.issue("third").key, &pair.key).unwrap();
        for wrong in [
            "must belong to the certificate",
            "must be certificates in PEM",
        ] {
            until("the log tells of it", SOON, async || {
                server.log().contains(wrong).then_some(())
            })
            .await;
            assert_eq!(shown(&server, &authority), second.shown());
            fs::write(&pair.certificate, "no certificate").unwrap();
        }
        put_ended(&pair);
        until("the log tells that it has ended", SOON, async || {
            let told = server.log().contains("must not have ended already");
            told.then_some(())
        })
        .await;
        assert_eq!(shown(&server, &authority), second.shown());
        fs::write(&pair.certificate, "no certificate").unwrap();
        until("the log tells of what is none again", SOON, async || {
            let log = server.log();
            (log.matches("must be certificates in PEM").count() == 2).then_some(())
        })
        .await;
        process::signal("HUP", server.pid());
        until("SIGHUP tells of it, too", SOON, async || {
            server
                .log()
                .contains("the settings were not read again")
                .then_some(())
        })
        .await;
        assert_eq!(shown(&server, &authority), second.shown());
        // Requests went on all the while.
        let before = answered.load(Ordering::Relaxed);
        until("more are answered", SOON, async || {
            (answered.load(Ordering::Relaxed) > before + 5).then_some(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        // What is open stays so: no client opens it again by itself.
        account.test().conversation().await;
        let event = stream.event().await;
        assert_eq!(event.event, "conversation.created");
    };
    tokio::join!(change, load(&account, &authority, &stop, &answered));
    let told = server.log().matches("must be certificates in PEM").count();
    assert_eq!(told, 3, "twice by the look and once by SIGHUP");
}

#[tokio::test]
async fn sighup_has_the_files_read_that_the_settings_name_by_then() {
    let authority = Authority::new();
    let (first, second) = (authority.issue("first"), authority.issue("second"));
    let settings = |pair: &Pair| {
        let (certificate, key) = (pair.certificate.display(), pair.key.display());
        format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n")
    };
    let server = Setup::default()
        .config(&settings(&first))
        .trusting(&authority)
        .start();
    assert_eq!(shown(&server, &authority), first.shown());
    fs::write(server.work().join("config.toml"), settings(&second)).unwrap();
    process::signal("HUP", server.pid());
    until("the new certificate is shown", SOON, async || {
        (shown(&server, &authority) == second.shown()).then_some(())
    })
    .await;
    until("the log tells of it", SOON, async || {
        let log = server.log();
        log.contains("holds_now=\"tls.certificate, tls.key\"")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn operators_show_a_certificate_that_is_vouched_for_and_nobody_else_needs_one() {
    let (server, authority, operators) = with_operators_certificates();
    let known = operators.issue("operator");
    let with = |tls: ClientConfig| server.over_tls(tls).with_operator(OPERATOR);
    let operator = with(authority.trusting_as(&known));
    operator.get("/admin/v1/accounts").await.expect(200);
    let account = Account::make(server.over_tls(authority.trusting_as(&known))).await;
    // Without one, the token says nothing, right or wrong.
    let bare = with(authority.trusting());
    for token in [OPERATOR, "op_wrong0123456789wrong0123456789"] {
        let refused = bare.with_operator(token).get("/admin/v1/accounts").await;
        let refused = refused.expect(403);
        let error = &refused.body["error"];
        assert_eq!(error["code"], "forbidden");
        assert!(error.to_string().contains("client certificate"), "{error}");
        assert!(error.to_string().contains("admin_client_ca"), "{error}");
    }
    let base = format!("https://{}", server.address());
    let http = speaking(authority.trusting(), "h2");
    let over_h2 = http.get(format!("{base}/admin/v1/accounts"));
    let over_h2 = over_h2.bearer_auth(OPERATOR).send().await.unwrap();
    assert_eq!(over_h2.status(), 403);
    let key = account.test().credential().unwrap()[7..].to_owned();
    let customer = server.over_tls(authority.trusting()).with_key(&key);
    customer.get("/v1/customers").await.expect(200);
    customer.get("/api/v1/documents").await.expect(200);
    // One that nobody here vouches for ends the handshake, as it would end it anywhere.
    let others = Authority::new();
    let foreign = others.issue("stranger");
    let stranger = server.over_tls(authority.trusting_as(&foreign));
    assert!(stranger.get("/healthz").try_send().await.is_err());
    let own = server.over_tls(authority.trusting_as(&authority.issue("of the server's")));
    assert!(own.get("/healthz").try_send().await.is_err());
}

#[tokio::test]
async fn the_operators_console_wants_the_certificate_too() {
    let (server, authority, operators) = with_operators_certificates();
    let base = format!("https://{}", server.address());
    let sign_in = async |tls: ClientConfig| {
        let http = speaking(tls, "h2");
        let form = http
            .post(format!("{base}/console/sign-in"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("token={OPERATOR}"));
        form.send().await.unwrap()
    };
    let refused = sign_in(authority.trusting()).await;
    assert_eq!(refused.status(), 403);
    assert!(refused.text().await.unwrap().contains("client certificate"));
    let known = authority.trusting_as(&operators.issue("operator"));
    let begun = sign_in(known.clone()).await;
    assert_eq!(begun.status(), 303);
    let cookie = begun.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    for (tls, status) in [(known, 200), (authority.trusting(), 403)] {
        let page = speaking(tls, "h2").get(format!("{base}/console/overview"));
        let page = page.header("cookie", cookie).send().await.unwrap();
        assert_eq!(page.status(), status);
    }
    let without = speaking(authority.trusting(), "http/1.1");
    let page = without.get(format!("{base}/console/sign-in")).send();
    assert_eq!(page.await.unwrap().status(), 200);
}

#[tokio::test]
async fn commands_know_the_server_by_its_certificate_and_show_their_own() {
    let (server, _authority, operators) = with_operators_certificates();
    let known = operators.issue("operator");
    let asked = |more: &[(&str, String)]| -> Output {
        let mut command = process::colloquy();
        command
            .arg("actors")
            .current_dir(server.work())
            .envs(server.store())
            .env("COLLOQUY__SERVER__BIND", server.address())
            .envs(more.iter().map(|(name, value)| (*name, value.as_str())));
        tool::started("setpriv", command.output())
    };
    let shows = [
        (
            "COLLOQUY__TLS__ADMIN_CLIENT_CERTIFICATE",
            known.certificate.display().to_string(),
        ),
        (
            "COLLOQUY__TLS__ADMIN_CLIENT_KEY",
            known.key.display().to_string(),
        ),
    ];
    let done = asked(&shows);
    assert!(done.status.success(), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("conversation"));
    let bare = String::from_utf8(asked(&[]).stderr).unwrap();
    assert!(
        bare.contains("403") && bare.contains("client certificate"),
        "{bare}"
    );
    let others = Authority::new();
    let other = others.issue("other");
    let other = [
        (
            "COLLOQUY__TLS__CERTIFICATE",
            other.certificate.display().to_string(),
        ),
        ("COLLOQUY__TLS__KEY", other.key.display().to_string()),
    ];
    let other = String::from_utf8(asked(&other).stderr).unwrap();
    assert!(
        other.contains("no server answers at https://127.0.0.1:"),
        "{other}"
    );
}

#[tokio::test]
async fn plain_http_leads_to_https_and_nothing_is_served_over_it() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let setup = Setup::default()
        .env("COLLOQUY__TLS__REDIRECT_FROM", &free.to_string())
        .env(
            "COLLOQUY__SERVER__PUBLIC_URL",
            "https://support.example.com",
        );
    let (server, _authority, _) = start(setup);
    assert!(
        server
            .printed()
            .contains("curl -s https://support.example.com/v1")
    );
    let leading = Client::anonymous(&format!("http://{free}"));
    for (method, path) in [
        ("GET", "/console/inbox?assigned=me"),
        ("POST", "/v1/customers"),
        ("DELETE", "//elsewhere.example/"),
        ("GET", "/healthz"),
    ] {
        let answer = leading.call(method, path).bytes("{}").open().await.unwrap();
        assert_eq!(answer.status(), 308, "{method} {path}");
        let location = format!("https://support.example.com{path}");
        assert_eq!(answer.headers()["location"], location.as_str());
        // Who is on the way may have written it.
        assert!(!answer.headers().contains_key(HSTS));
    }
    for line in [
        "OPTIONS * HTTP/1.1",
        "GET http://elsewhere.example HTTP/1.1",
    ] {
        let request = format!("{line}\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n");
        let answer = exchange(&free.to_string(), request.as_bytes()).await;
        assert_eq!(answer.status, 308, "{line}");
        assert!(
            answer
                .text
                .contains("location: https://support.example.com/\r\n"),
            "{}",
            answer.text
        );
    }
    let leading_at = free.to_string();
    // Its connections count with all others, and end as they do.
    let held = join_all((0..5).map(|_| Raw::connect(&leading_at))).await;
    until("they are counted", SOON, async || {
        (server.metric("connections").await >= 5).then_some(())
    })
    .await;
    drop(held);
}

#[tokio::test]
async fn websockets_are_opened_inside_of_tls() {
    let (server, authority, _) = start(Setup::default());
    let account = server.account().await;
    let client = account.test();
    let mut request = format!("wss://{}/v1/realtime", server.address())
        .into_client_request()
        .unwrap();
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", "colloquy.v1".parse().unwrap());
    headers.insert(
        "authorization",
        client.credential().unwrap().parse().unwrap(),
    );
    let stream = tokio::net::TcpStream::connect(server.address()).await;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let shaking = TlsConnector::from(Arc::new(authority.trusting()));
    let stream = shaking.connect(name, stream.unwrap()).await.unwrap();
    let (mut socket, answer) = tokio_tungstenite::client_async(request, stream)
        .await
        .unwrap();
    assert_eq!(answer.status(), 101);
    let subscribe = Message::text(json!({"type": "subscribe"}).to_string());
    socket.send(subscribe).await.unwrap();
    let mut hear = async || {
        let frame = timeout(SOON, socket.next()).await.expect("a frame");
        frame.expect("the socket goes on").unwrap().to_string()
    };
    let joined = hear().await;
    assert!(joined.contains("\"subscribed\""), "{joined}");
    client.conversation().await;
    let first = hear().await;
    assert!(first.contains("conversation.created"), "{first}");
    socket.close(None).await.unwrap();
}

#[tokio::test]
async fn handshakes_that_never_end_are_counted_and_cut_and_harm_nobody() {
    let setup = Setup::default()
        .env("COLLOQUY__SERVER__CONNECTIONS_MAX", "80")
        .env("COLLOQUY__SERVER__REQUEST_HEAD_TIMEOUT_SECONDS", "1");
    let (server, authority, _) = start(setup);
    let account = server.account().await;
    // All that say nothing, or say how they would begin and then nothing.
    let held = join_all((0..60).map(async |n| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
        let mut stream = socket
            .connect(server.address().parse().unwrap())
            .await
            .unwrap();
        if n % 2 == 0 {
            let begun = tokio::io::AsyncWriteExt::write_all(&mut stream, &[22, 3, 1, 2, 0, 1]);
            begun.await.unwrap();
        }
        stream
    }))
    .await;
    let begun = Instant::now();
    let key = account.test().credential().unwrap().to_owned();
    let base = format!("https://{}", server.address());
    for protocol in ["h2", "http/1.1"] {
        let http = speaking(authority.trusting(), protocol);
        let beside = http.get(format!("{base}/v1/customers"));
        let beside = beside.header("authorization", &key).send().await.unwrap();
        assert_eq!(beside.status(), 200);
    }
    assert!(
        server.metric("connections").await <= 20 + 5,
        "an address has a quarter"
    );
    until("all of them are cut", SOON, async || {
        (server.metric("connections").await <= 5).then_some(())
    })
    .await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    drop(held);
}

/// What `colloquy config check` says of these settings.
fn checked(settings: &[(&str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = process::colloquy();
    command.args(["config", "check"]).current_dir(folder.path());
    for (name, value) in settings {
        command.env(format!("COLLOQUY__{name}"), value);
    }
    let output = tool::started("setpriv", command.output());
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// A setting that can't be used beside a certificate and its key, the setting that is named, and what
/// is said of it. `ONE` and `OTHER` stand for two pairs of files.
const MISTAKES: [(&str, &str, &str, &str); 13] = [
    (
        "TLS__CERTIFICATE",
        "nowhere.pem",
        "tls.certificate",
        "file that can be read",
    ),
    (
        "TLS__CERTIFICATE",
        "ONE.key",
        "tls.certificate",
        "certificates in PEM",
    ),
    (
        "TLS__CERTIFICATE",
        "",
        "tls.key",
        "unless tls.certificate is given",
    ),
    (
        "TLS__KEY",
        "nowhere.pem",
        "tls.key",
        "file that can be read",
    ),
    ("TLS__KEY", "ONE.pem", "tls.key", "private key in PEM"),
    (
        "TLS__KEY",
        "OTHER.key",
        "tls.key",
        "must belong to the certificate",
    ),
    (
        "TLS__KEY",
        "",
        "tls.key",
        "must be given where tls.certificate is",
    ),
    (
        "TLS__ADMIN_CLIENT_CA",
        "ONE.key",
        "tls.admin_client_ca",
        "certificates in PEM",
    ),
    (
        "TLS__ADMIN_CLIENT_CERTIFICATE",
        "ONE.pem",
        "tls.admin_client_certificate",
        "unless",
    ),
    (
        "TLS__REDIRECT_FROM",
        "80",
        "tls.redirect_from",
        "address and a port",
    ),
    (
        "TLS__REDIRECT_FROM",
        "0.0.0.0:80",
        "server.public_url",
        "where that leads",
    ),
    (
        "SERVER__PUBLIC_URL",
        "http://a.example",
        "server.public_url",
        "https://",
    ),
    (
        "TLS__CHECK_SECONDS",
        "0",
        "tls.check_seconds",
        "more than 0",
    ),
];

#[test]
fn config_check_names_the_setting_that_can_not_be_used() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let text = |path: &Path| path.display().to_string();
    let (certificate, key) = (text(&one.certificate), text(&one.key));
    let pem = fs::read_to_string(&one.key).unwrap();
    let good = [
        ("TLS__CERTIFICATE", certificate.as_str()),
        ("TLS__KEY", &key),
    ];
    let leading = [
        ("SERVER__PUBLIC_URL", "https://a.example"),
        ("TLS__REDIRECT_FROM", "0.0.0.0:80"),
    ];
    for more in [&[][..], &[("TLS__KEY", pem.as_str())], &leading] {
        let (is_good, told) = checked(&[&good[..], more].concat());
        assert!(is_good, "{told}");
    }
    let folder = certificate.strip_suffix("one.pem").unwrap();
    for (name, value, field, right) in MISTAKES {
        let value = value.replace("ONE", &format!("{folder}one"));
        let value = value.replace("OTHER", &format!("{folder}other"));
        let (is_good, told) = checked(&[&good[..], &[(name, &value)]].concat());
        assert!(!is_good, "{name} = {value}");
        assert!(
            told.contains(&format!("`{field}`")),
            "{name} = {value}: {told}"
        );
        assert!(told.contains(right), "{name} = {value}: {told}");
    }
    let other = fs::read_to_string(&other.key).unwrap();
    let (_, told) = checked(&[good[0], ("TLS__KEY", &other)]);
    assert!(told.contains("`tls.key`"), "{told}");
    assert!(!told.contains("BEGIN"), "a key is told: {told}");
}
