//! Three nodes behind the nginx of `deploy/nginx.conf`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::load::Load;
use super::{SLACK, nodes};
use crate::support::nginx::Passed;
use crate::support::{Client, EventStream, Nginx, Server, Socket, until};

/// How soon after a node's death requests are as quick as before.
const RECOVERS_WITHIN: Duration = Duration::from_secs(10);
/// What counts as quick whatever it was before, on a machine that builds beside it.
const QUICK: Duration = Duration::from_secs(1);
/// So many conversations are at all nodes, whatever their identifiers are.
const CONVERSATIONS_MAX: usize = 60;
/// The span over which it is looked at.
const WINDOW: Duration = Duration::from_secs(2);

/// The nginx of `deploy/` in front of these.
pub(super) fn behind_nginx(nodes: &[Server]) -> Nginx {
    let addresses: Vec<_> = nodes.iter().map(Server::address).collect();
    let [a, b, c] = &addresses[..] else {
        panic!("three nodes");
    };
    Nginx::start([a, b, c])
}

#[tokio::test]
async fn a_conversation_is_asked_at_one_node_and_conversations_at_all() {
    let nodes = nodes(3);
    let nginx = behind_nginx(&nodes);
    let c = nodes[0].account().await.test().at(&nginx.address());
    let mut used = HashSet::new();
    // Where an identifier falls is chance: a dozen of them miss one of the nodes once in 40 times.
    for _ in 0..CONVERSATIONS_MAX {
        let conversation = c.conversation().await;
        let path = format!("/v1/conversations/{conversation}");
        let messages = format!("{path}/messages");
        for number in 0..3 {
            let sent = c.message(&conversation, &number.to_string()).await;
            assert_eq!(sent["seq"], number + 1);
            c.get(&path).await.expect(200);
            let list = c.get(&format!("{messages}?limit=1")).await.expect(200);
            assert_eq!(list.total(), number + 1);
        }
        let passed = passed(&nginx, &conversation, 9).await;
        let node = &passed[0].nodes;
        assert_eq!(node.len(), 1, "{passed:?}");
        assert!(passed.iter().all(|one| one.nodes == *node), "{passed:?}");
        used.extend(node.clone());
        if used.len() == nodes.len() {
            return;
        }
    }
    panic!("{CONVERSATIONS_MAX} conversations at {used:?}");
}

#[tokio::test]
async fn event_streams_and_sockets_go_through_nginx_at_once() {
    let nodes = nodes(3);
    let nginx = behind_nginx(&nodes);
    let c = nodes[0].account().await.test().at(&nginx.address());
    let conversation = c.conversation().await;
    let events = format!("/v1/conversations/{conversation}/events");
    let mut of_conversation = EventStream::open(c.get(&events)).await;
    let mut of_account = EventStream::open(c.get("/v1/events")).await;
    let mut socket = Socket::open(&c).await;
    socket.subscribe(json!(conversation), None).await;
    for number in 1..4 {
        let sent = c.message(&conversation, &number.to_string()).await;
        let id = &sent["message_id"];
        let told = of_conversation.event().await.json();
        assert_eq!(told["data"]["message_id"], *id, "{told}");
        let told = of_account.event().await.json();
        assert_eq!(told["data"]["message_id"], *id, "{told}");
        let told = socket.event().await;
        assert_eq!(told["data"]["message_id"], *id, "{told}");
    }
}

#[tokio::test]
async fn files_of_any_length_go_through_nginx_and_what_is_too_long_is_told_as_a_node_tells_it() {
    let nodes = nodes(3);
    let nginx = behind_nginx(&nodes);
    let c = nodes[0].account().await.test().at(&nginx.address());
    let upload = |bytes: usize| c.call("POST", "/v1/attachments").bytes(vec![7; bytes]);
    let made = upload(20 << 20).await.expect(201);
    let at = format!("/v1/attachments/{}/content", made.id("attachment_id"));
    let elsewhere = c.at(&nodes[1].address());
    // A node's own folder, unless they share one.
    assert_eq!(
        elsewhere.get(&at[..at.len() - 8]).await.expect(200)["bytes"],
        20 << 20
    );
    upload((25 << 20) + 1)
        .await
        .error(413, "payload_too_large", "");
    // What nginx refuses by itself has no more of a node's headers than this.
    let refused = c.post("/v1/customers", json!({"name": "x".repeat(17 << 20)}));
    let refused = refused.open().await.unwrap();
    assert_eq!(refused.status(), 413);
    assert!(!refused.headers()["x-request-id"].is_empty());
    let told: Value = refused.json().await.unwrap();
    assert_eq!(told["error"]["code"], "payload_too_large");
}

#[tokio::test]
async fn a_node_that_is_killed_costs_no_acknowledged_write_and_no_wrong_answer() {
    const KEYED: usize = 2;
    const BARE: usize = 2;
    let mut nodes = nodes(3);
    let nginx = behind_nginx(&nodes);
    let c = nodes[0].account().await.test().at(&nginx.address());
    let load = Load::start(&c, KEYED, BARE, 3).await;
    load.answers(100).await;
    let before = load.p99(SLACK).unwrap();
    // The first to be started leads: it does the others' chores, too.
    nodes[0].kill9();
    let killed = Instant::now();
    until(
        "requests are as quick as before",
        RECOVERS_WITHIN,
        async || {
            // Nothing from before is left in the window.
            let recent = load.p99(WINDOW).filter(|_| killed.elapsed() > WINDOW)?;
            (recent <= QUICK.max(before * 3)).then_some(())
        },
    )
    .await;
    load.answers(100).await;
    let unknown = load.finish().await;
    // Who writes without a key had at most one request under way.
    assert!(unknown.len() <= BARE, "{unknown:?}");
}

#[tokio::test]
async fn what_may_have_been_carried_out_is_repeated_only_where_that_is_safe() {
    const CONVERSATION: &str = "/v1/conversations/conv_0123456789abcdef0123456789abcdef";
    const DOCUMENT: &str = "/api/v1/documents/doc_0123456789abcdef0123456789abcdef";
    let cases = [
        ("GET", CONVERSATION, "", 3),
        ("HEAD", DOCUMENT, "", 3),
        ("POST", CONVERSATION, "a key", 3),
        ("POST", "/admin/v1/accounts", "a key", 3),
        ("POST", CONVERSATION, "", 1),
        // There, nobody looks at the key.
        ("POST", "/oauth/token", "a key", 1),
        ("POST", "/s/token", "a key", 1),
        ("PATCH", CONVERSATION, "", 1),
        ("PATCH", CONVERSATION, "a key", 1),
        ("PUT", DOCUMENT, "", 1),
        ("PUT", DOCUMENT, "a key", 1),
        ("DELETE", DOCUMENT, "", 1),
    ];
    for (method, path, key, times) in cases {
        let [a, b, c] = [
            Stub::start("").await,
            Stub::start("").await,
            Stub::start("").await,
        ];
        let nginx = Nginx::start([&a.address, &b.address, &c.address]);
        let (status, error) = asked(&nginx, method, path, key).await;
        assert_eq!(status, 503, "{method} {path} {key:?}: {error}");
        let outcome = &error["error"]["details"]["outcome"];
        assert!(method == "HEAD" || *outcome == "unknown", "{error}");
        let requests = [a, b, c].map(|stub| stub.requests.load(Ordering::SeqCst));
        let asked: usize = requests.iter().sum();
        assert_eq!(asked, times, "{method} {path} {key:?}");
    }
}

#[tokio::test]
async fn what_a_node_has_seen_no_byte_of_goes_to_another() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    for method in ["GET", "POST", "PATCH", "PUT", "DELETE"] {
        let (a, b) = (Stub::start(OK).await, Stub::start(OK).await);
        let dead = Stub::start(OK).await.address.clone();
        let nginx = Nginx::start([&a.address, &dead, &b.address]);
        let mut requests = 0;
        // The ring gives each node a part of all identifiers: in turn until the dead one is met.
        let met = loop {
            let path = format!("/v1/conversations/conv_{requests:032x}");
            let (status, _) = asked(&nginx, method, &path, "").await;
            assert_eq!(status, 200, "{method} {path}");
            requests += 1;
            let passed = passed(&nginx, &path, 1).await.remove(0);
            if passed.nodes.contains(&dead) {
                break passed;
            }
            assert!(requests < 100, "no identifier belongs to the second node");
        };
        assert_eq!(met.nodes.len(), 2, "{met:?}");
        let came = [a, b].map(|stub| stub.requests.load(Ordering::SeqCst));
        assert_eq!(came.iter().sum::<usize>(), requests, "each once: {method}");
    }
}

/// What nginx did with so many requests whose path has this text; it writes it down afterwards.
async fn passed(nginx: &Nginx, text: &str, count: usize) -> Vec<Passed> {
    let passed = until("nginx has written its log", SLACK, async || {
        let passed = nginx.passed(text);
        (passed.len() >= count).then_some(passed)
    })
    .await;
    assert_eq!(passed.len(), count, "{passed:?}");
    passed
}

/// Asks for this through nginx; gives status and body.
async fn asked(nginx: &Nginx, method: &str, path: &str, key: &str) -> (u16, Value) {
    let c = Client::anonymous(&format!("http://{}", nginx.address()));
    let mut call = c.call(method, path);
    if !key.is_empty() {
        call = call.with("idempotency-key", key);
    }
    let answer = call.open().await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// What reads a request, writes a fixed answer, if any, and closes the connection.
struct Stub {
    address: String,
    requests: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Stub {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let accepting = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match connection.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                if head.is_empty() {
                    continue;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                drop(connection.write_all(answer.as_bytes()).await);
            }
        });
        Self {
            address,
            requests,
            accepting,
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
