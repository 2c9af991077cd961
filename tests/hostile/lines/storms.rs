//! What one client can send through its sockets: typing, frames, subscriptions, and nothing but
//! silence where it should read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::super::Neighbour;
use super::{keys_for, open};
use crate::support::{Client, EventStream, Server, Socket, raw, unique};

/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(4);

/// Reads a socket until it ends or it is over; gives how many frames of each of these types came.
async fn count(mut socket: Socket, types: &[&str], over: &AtomicBool) -> Vec<usize> {
    let mut counts = vec![0; types.len()];
    while !over.load(Ordering::Relaxed) {
        let Ok(heard) =
            tokio::time::timeout(Duration::from_millis(100), socket.try_hear_text()).await
        else {
            continue;
        };
        let Ok(text) = heard else { break };
        for (count, kind) in counts.iter_mut().zip(types) {
            *count += usize::from(text.starts_with(&format!("{{\"type\":\"{kind}\"")));
        }
    }
    counts
}

/// Says these frames again and again until the storm is over; who hears nothing any more is no
/// reason to stop.
async fn rage(socket: &mut Socket, frames: &[Message], end: Instant) {
    let raging = async {
        for frame in frames.iter().cycle() {
            if socket.try_say_raw(frame.clone()).await.is_err() {
                return;
            }
        }
    };
    // The server may read no more for a while, so what is said last is not waited for.
    drop(tokio::time::timeout_at(end.into(), raging).await);
}

const LISTENERS: usize = 900;

/// How many frames each listener heard.
async fn heard(kind: &str, listening: Vec<JoinHandle<usize>>) -> Vec<usize> {
    let heard = futures_util::future::join_all(listening).await;
    let heard: Vec<usize> = heard.into_iter().map(Result::unwrap).collect();
    let (least, most) = (heard.iter().min(), heard.iter().max());
    eprintln!("{kind} heard by each: {least:?} to {most:?}");
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_type_without_pause_among_900_listeners() {
    let server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let (customer, mut conversations) = (c.customer().await, Vec::new());
    for _ in 0..20 {
        conversations.push(c.conversation_of(&customer).await);
    }
    let keys = keys_for(&account, LISTENERS).await;
    let sockets = open(&keys, LISTENERS, async |socket: &mut Socket| {
        socket.subscribe(Value::Null, None).await;
        socket.subscribe(json!(conversations[0]), None).await;
    });
    let sockets = sockets.await;
    let over = Arc::new(AtomicBool::new(false));
    let listening: Vec<_> = sockets
        .into_iter()
        .map(|socket| {
            let over = Arc::clone(&over);
            tokio::spawn(async move { count(socket, &["typing"], &over).await[0] })
        })
        .collect();
    let typing: Vec<Message> = conversations
        .iter()
        .map(|id| Message::text(json!({"type": "typing", "conversation_id": id}).to_string()))
        .collect();
    let mut typists = open(&[c], 2, async |_: &mut Socket| {}).await;
    for socket in &mut typists {
        for id in &conversations {
            socket.subscribe(json!(id), None).await;
        }
    }
    let neighbour = Neighbour::of(&server).await;
    let begun = Instant::now();
    let attack = async {
        let end = Instant::now() + STORM;
        let raging = typists.into_iter().map(|mut socket| {
            let typing = typing.clone();
            tokio::spawn(async move { rage(&mut socket, &typing, end).await })
        });
        futures_util::future::join_all(raging).await;
    };
    let beside = neighbour
        .beside("2 who type among 900 listeners", attack)
        .await;
    over.store(true, Ordering::Relaxed);
    let heard = heard("typing", listening).await;
    assert!(heard.iter().any(|count| *count > 0), "typing is passed on");
    // Two who type, each once a second in each of 20 conversations, and what was under way at the
    // end.
    let most = 2 * conversations.len() * (begun.elapsed().as_secs() as usize + 2);
    assert!(
        heard.iter().all(|count| *count <= most),
        "{:?} typing frames came",
        heard.iter().max()
    );
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
}

/// Frames of every kind that cost something to answer.
fn nuisances() -> Vec<Message> {
    let unknown = "conv_0190163d8694739b85d52d5e4a4d6d5f";
    vec![
        Message::text(r#"{"type":"ping"}"#),
        Message::Ping(vec![b'x'; 125].into()),
        Message::text("{"),
        Message::text(format!("[{}]", "1,".repeat(100_000))),
        Message::text(json!({"type": "subscribe", "conversation_id": unknown}).to_string()),
        Message::text(json!({"type": "unsubscribe"}).to_string()),
        Message::text(
            json!({"type": "presence", "conversation_id": unknown, "state": "online"}).to_string(),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_frames_from_many_sockets() {
    let server = Server::start();
    let account = server.account().await;
    let sockets = open(&[account.test()], 24, async |_: &mut Socket| {}).await;
    let refused = Arc::new(AtomicUsize::new(0));
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let (over, end) = (Arc::new(AtomicBool::new(false)), Instant::now() + STORM);
        let raging = sockets.into_iter().map(|socket| {
            let (over, refused) = (Arc::clone(&over), Arc::clone(&refused));
            let (mut out, mut into) = socket.split();
            tokio::spawn(async move {
                let frames = nuisances();
                let saying = async {
                    let raging = async {
                        for frame in frames.iter().cycle() {
                            if out.say_raw(frame.clone()).await.is_err() {
                                break;
                            }
                        }
                    };
                    drop(tokio::time::timeout_at(end.into(), raging).await);
                    over.store(true, Ordering::Relaxed);
                };
                let hearing = async {
                    while !over.load(Ordering::Relaxed) {
                        let heard =
                            tokio::time::timeout(Duration::from_millis(100), into.hear_text())
                                .await;
                        match heard {
                            Ok(Some(text)) if text.contains("\"rate_limited\"") => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(None) => break,
                            Ok(Some(_)) | Err(_) => {}
                        }
                    }
                };
                tokio::join!(saying, hearing);
            })
        });
        futures_util::future::join_all(raging).await;
    };
    let beside = neighbour
        .beside("24 sockets that say anything without pause", attack)
        .await;
    assert!(
        refused.load(Ordering::Relaxed) > 0,
        "what is beyond the bucket is refused"
    );
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
    let mut socket = Socket::open(&account.test()).await;
    assert!(
        socket.before_pong().await.is_empty(),
        "another socket of the key has a bucket of its own"
    );
}

/// A frame's head that says that so many bytes follow, masked with nothing, and whether it is the
/// last of its message.
fn head(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first, 0x80 | 127];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Opens a WebSocket over a bare connection.
async fn bare(c: &Client) -> raw::Raw {
    let mut raw = raw::Raw::connect(c.address()).await;
    let request = format!(
        "GET /v1/realtime HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        c.credential().unwrap()
    );
    assert!(raw.write(request.as_bytes()).await);
    assert_eq!(raw.read_head().await, 101);
    raw
}

const UNFINISHED: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_a_megabyte_that_never_end() {
    let server = Server::start();
    let account = server.account().await;
    let keys = keys_for(&account, UNFINISHED).await;
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let opening = (0..UNFINISHED).map(|number| {
            let c = keys[number % keys.len()].clone();
            async move {
                let mut raw = bare(&c).await;
                // Half as fragments, which nobody knows the sum of beforehand.
                if number % 2 == 0 {
                    raw.write(&head(0x81, 1 << 20)).await;
                    raw.write(&vec![b' '; (1 << 20) - 1]).await;
                } else {
                    for part in 0..127_u8 {
                        raw.write(&head(u8::from(part == 0), 8_192)).await;
                        raw.write(&[b' '; 8_192]).await;
                    }
                }
                raw
            }
        });
        let held: Vec<raw::Raw> = futures_util::stream::iter(opening)
            .buffer_unordered(16)
            .collect()
            .await;
        // The server reads the last of them meanwhile, and its size is looked at with each.
        neighbour.is_answered(50).await;
        held.len()
    };
    let beside = neighbour
        .beside("400 frames of a megabyte that never end", attack)
        .await;
    assert_eq!(beside.attack, UNFINISHED);
    // Without the account's bound on frames they are 400 MiB, beside what the server takes itself.
    assert!(beside.peak_bytes < 350 << 20, "{} bytes", beside.peak_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fragments_without_content_and_without_end() {
    let server = Server::start();
    let account = server.account().await;
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let end = Instant::now() + STORM;
        let flooding = (0..16).map(|_| {
            let c = account.test();
            tokio::spawn(async move {
                let mut raw = bare(&c).await;
                raw.write(&[0x01, 0x80, 0, 0, 0, 0]).await;
                let fragments = [0x00, 0x80, 0, 0, 0, 0].repeat(8_192);
                while Instant::now() < end {
                    let left = end.saturating_duration_since(Instant::now());
                    match tokio::time::timeout(left, raw.write(&fragments)).await {
                        Ok(true) => {}
                        Ok(false) | Err(_) => break,
                    }
                }
            })
        });
        futures_util::future::join_all(flooding).await;
    };
    neighbour
        .beside("fragments without content and without end", attack)
        .await;
}

const SILENT: usize = 20;
const FOLLOWED: usize = 40;
const WAVE: usize = 6_000;
const WAVE_BYTES: usize = 60_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_never_read_while_thousands_of_large_events_come() {
    let server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let (customer, mut conversations) = (c.customer().await, Vec::new());
    for _ in 0..FOLLOWED {
        conversations.push(c.conversation_of(&customer).await);
    }
    // Each follows all conversations, one by one, and never reads again.
    let keys = [c.clone()];
    let silent = open(&keys, SILENT, async |socket: &mut Socket| {
        for id in &conversations {
            socket.subscribe(json!(id), None).await;
        }
    });
    let silent = silent.await;
    let mut streams = Vec::new();
    for _ in 0..SILENT {
        streams.push(EventStream::open(c.get("/v1/events")).await);
    }
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let text = "x".repeat(WAVE_BYTES);
        let sends = (0..WAVE).map(|n| c.message(&conversations[n % FOLLOWED], &text));
        futures_util::stream::iter(sends)
            .buffer_unordered(4)
            .for_each(|_| async {})
            .await;
    };
    let beside = neighbour
        .beside("40 readers that never read 360 MB of events", attack)
        .await;
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
    drop((silent, streams));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_sockets_opened_and_closed_in_a_loop() {
    let server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let id = c.conversation().await;
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let end = Instant::now() + STORM;
        let loops = (0..8).map(|number| {
            let (c, id) = (c.clone(), id.clone());
            tokio::spawn(async move {
                let mut opened = 0;
                while Instant::now() < end {
                    if number % 2 == 0 {
                        let stream = EventStream::try_open(c.get("/v1/events")).await;
                        opened += usize::from(stream.is_ok_and(|stream| stream.status() == 200));
                    } else if let Ok(mut socket) = Socket::try_open(&c, "/v1/realtime").await {
                        let joined = socket
                            .try_say(json!({"type": "subscribe", "conversation_id": id}))
                            .await;
                        opened += usize::from(joined.is_ok());
                    }
                }
                opened
            })
        });
        futures_util::future::join_all(loops)
            .await
            .into_iter()
            .map(Result::unwrap)
            .sum::<usize>()
    };
    let beside = neighbour
        .beside("lines opened and closed in a loop", attack)
        .await;
    eprintln!("{} lines were opened", beside.attack);
    assert!(beside.attack > 0);
    for kind in ["sse", "websocket"] {
        let name = format!("lines_open{{kind=\"{kind}\"}}");
        crate::support::until(
            "every line is closed",
            Duration::from_secs(60),
            async || (server.metric(&name).await == 0).then_some(()),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn presence_that_changes_without_pause_in_many_conversations() {
    let server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let (customer, mut conversations) = (c.customer().await, Vec::new());
    for _ in 0..200 {
        conversations.push(c.conversation_of(&customer).await);
    }
    let user = c.user("agent").await;
    let (named, _) = account
        .key(json!({"type": "test", "name": unique("agent"), "user_id": user}))
        .await;
    let keys = keys_for(&account, 300).await;
    let listeners = open(&keys, 300, async |socket: &mut Socket| {
        socket.subscribe(Value::Null, None).await;
    });
    let over = Arc::new(AtomicBool::new(false));
    let listening: Vec<_> = listeners
        .await
        .into_iter()
        .map(|socket| {
            let over = Arc::clone(&over);
            tokio::spawn(async move { count(socket, &["presence"], &over).await[0] })
        })
        .collect();
    let sockets = open(&[named], 20, async |_: &mut Socket| {}).await;
    let neighbour = Neighbour::of(&server).await;
    let attack = async {
        let end = Instant::now() + STORM;
        let raging = sockets.into_iter().enumerate().map(|(number, mut socket)| {
            let frames: Vec<Message> = ["online", "away"]
                .iter()
                .flat_map(|state| conversations.iter().map(move |id| (state, id)))
                .skip(number)
                .map(|(state, id)| {
                    json!({"type": "presence", "conversation_id": id, "state": state}).to_string()
                })
                .map(Message::text)
                .collect();
            tokio::spawn(async move { rage(&mut socket, &frames, end).await })
        });
        futures_util::future::join_all(raging).await;
    };
    let beside = neighbour
        .beside(
            "presence that changes without pause among 300 listeners",
            attack,
        )
        .await;
    over.store(true, Ordering::Relaxed);
    let heard = heard("presence", listening).await;
    assert!(
        heard.iter().any(|count| *count > 0),
        "presence is passed on"
    );
    assert!(beside.peak_bytes < 300 << 20, "{} bytes", beside.peak_bytes);
}
