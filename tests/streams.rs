//! Server-Sent Events: what they carry, where they begin, resuming through a proxy that cuts
//! connections at random bytes, server restarts included; the same for WebSocket.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::raw::Raw;
use crate::support::stream::StreamEvent;
use crate::support::{
    Client, EventStream, Item, Proxy, Server, Setup, Socket, account, account_with_client, sized,
    until,
};

/// The longest that the end of a stream is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

fn events_of(conversation: &str) -> String {
    format!("/v1/conversations/{conversation}/events")
}

#[tokio::test]
async fn a_stream_carries_id_kind_and_the_event_on_one_line() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    c.message(&id, "line 1\nline 2\r\nline 3").await;
    let listed = c.get(&events_of(&id)).await.expect(200).data().clone();
    let mut own = EventStream::open(c.get(&format!("{}?after=0", events_of(&id)))).await;
    let mut all = EventStream::open(c.get("/v1/events?after=0")).await;
    for event in &listed {
        let (own, all) = (own.event().await, all.event().await);
        assert_eq!(
            (own.id.clone(), own.json()),
            (event["seq"].to_string(), event.clone())
        );
        assert_eq!(own.event, event["event"].as_str().unwrap());
        assert_eq!((&own.data, &own.event), (&all.data, &all.event));
        let rest = c
            .get(&format!("/v1/events?after={}", all.id))
            .await
            .expect(200);
        assert_eq!(
            rest.total(),
            listed.len() as u64 - event["seq"].as_u64().unwrap(),
            "the id is the list's cursor"
        );
    }
    assert!(own.header("x-request-id").is_some() && own.header("x-ratelimit-limit").is_some());
    assert!(
        own.header("cache-control")
            .is_some_and(|value| value.contains("no-")),
        "a stream is not to be kept"
    );
}

#[tokio::test]
async fn without_a_cursor_a_stream_begins_with_what_comes_next() {
    let (_account, c) = account_with_client().await;
    let (id, other) = (c.conversation().await, c.conversation().await);
    let mut own = EventStream::open(c.get(&events_of(&id))).await;
    let mut all = EventStream::open(c.get("/v1/events")).await;
    c.message(&other, "elsewhere").await;
    c.message(&id, "here").await;
    assert_eq!(own.event().await.json()["data"]["content"], "here");
    assert_eq!(all.event().await.json()["data"]["content"], "elsewhere");
    assert_eq!(all.event().await.json()["data"]["content"], "here");
}

#[tokio::test]
async fn a_stream_that_broke_before_its_first_event_goes_on_where_it_began() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for list in [events_of(&id), "/v1/events".to_owned()] {
        let mut cut = EventStream::open(c.get(&list)).await;
        let place = cut.begins_at().await;
        drop(cut);
        c.message(&id, &list).await;
        let mut again = EventStream::open(c.get(&list).with("last-event-id", &place)).await;
        assert_eq!(again.event().await.json()["data"]["content"], list);
    }
}

#[tokio::test]
async fn a_client_of_http_1_0_is_sent_no_chunks() {
    let server = Setup::default().start();
    let c = server.account().await.test();
    c.conversation().await;
    let head = format!(
        "authorization: {}\r\naccept: text/event-stream\r\n",
        c.credential().unwrap()
    );
    let mut line = Raw::connect(&server.address()).await;
    line.write(format!("GET /v1/events?after=0 HTTP/1.0\r\nhost: x\r\n{head}\r\n").as_bytes())
        .await;
    let answer = line.read_to_end(Duration::from_secs(5)).await;
    assert_eq!(answer.status, 200);
    assert!(
        !answer.text.to_lowercase().contains("transfer-encoding"),
        "{}",
        answer.text
    );
    assert!(
        answer.body().starts_with("id: 0\n\nid: ") && !answer.closed,
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn last_event_id_wins_over_after() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for n in 0..4 {
        c.message(&id, &format!("{n}")).await;
    }
    let seq = async |call| EventStream::open(call).await.event().await.json()["seq"].clone();
    let list = events_of(&id);
    assert_eq!(seq(c.get(&format!("{list}?after=2"))).await, 3);
    assert_eq!(seq(c.get(&list).with("last-event-id", "3")).await, 4);
    assert_eq!(
        seq(c.get(&format!("{list}?after=1")).with("last-event-id", "4")).await,
        5
    );
    let mut all = EventStream::open(c.get("/v1/events?after=0")).await;
    let (first, third) = (
        all.event().await.id,
        (all.event().await, all.event().await.id).1,
    );
    assert_eq!(
        seq(c
            .get(&format!("/v1/events?after={third}"))
            .with("last-event-id", &first))
        .await,
        2
    );
}

#[tokio::test]
async fn filters_hold_in_a_stream() {
    let (_account, c) = account_with_client().await;
    let id = c.conversation().await;
    for query in [
        "/v1/events?after=0&event=message.created".to_owned(),
        format!("{}?after=0&event=message.created", events_of(&id)),
    ] {
        let mut stream = EventStream::open(c.get(&query)).await;
        c.patch(
            &format!("/v1/conversations/{id}"),
            json!({"metadata": {"q": query}}),
        )
        .await
        .expect(200);
        c.message(&id, &query).await;
        let event = until(
            "the last message comes",
            Duration::from_secs(10),
            async || {
                let event = stream.event().await;
                assert_eq!(event.event, "message.created");
                (event.json()["data"]["content"] == query.as_str()).then_some(event)
            },
        )
        .await;
        assert_eq!(event.json()["data"]["conversation_id"], id.as_str());
    }
}

#[tokio::test]
async fn a_comment_keeps_a_quiet_line_open() {
    let server = Setup::default()
        .env("COLLOQUY__REALTIME__HEARTBEAT_SECONDS", "0.2")
        .start();
    let c = server.account().await.test();
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    stream.begins_at().await;
    let begun = Instant::now();
    for _ in 0..5 {
        let next = tokio::time::timeout(Duration::from_secs(10), stream.next())
            .await
            .expect("a comment in time");
        assert!(matches!(next, Some(Item::Comment)), "{next:?}");
    }
    assert!(
        begun.elapsed() >= Duration::from_millis(600),
        "comments come every 0.2 s, not in a flood"
    );
    let id = c.conversation().await;
    assert_eq!(
        stream.event().await.json()["data"]["conversation_id"],
        id.as_str()
    );
}

#[tokio::test]
async fn what_can_not_be_streamed_is_an_ordinary_error() {
    let account = account().await;
    let c = account.test();
    let id = c.conversation().await;
    let open = |path: String| c.get(&path).with("accept", "text/event-stream");
    open(events_of("conv_0190163d8694739b85d52d5e4a4d6d5f"))
        .await
        .error(404, "not_found", "*");
    let live = account
        .live()
        .get(&events_of(&id))
        .with("accept", "text/event-stream");
    live.await.error(404, "not_found", "*");
    for list in ["/v1/events".to_owned(), events_of(&id)] {
        open(format!("{list}?after=nonsense!"))
            .await
            .error(400, "invalid_request", "after");
        open(format!("{list}?before=1"))
            .await
            .error(400, "invalid_request", "before");
        open(format!("{list}?event=x"))
            .await
            .error(400, "invalid_request", "event");
        open(list.clone())
            .with("last-event-id", "nonsense!")
            .await
            .error(400, "invalid_request", "*");
        let head = c
            .call("HEAD", &list)
            .with("accept", "text/event-stream")
            .await;
        assert!(head.bytes.is_empty() && head.status < 500, "{head}");
        let anonymous = account
            .anonymous()
            .get(&list)
            .with("accept", "text/event-stream");
        anonymous.await.error(401, "unauthorized", "");
    }
}

#[tokio::test]
async fn a_stream_costs_one_request_when_it_is_opened() {
    let (_account, c) = account_with_client().await;
    let remaining = async || {
        c.get("/v1")
            .await
            .expect(200)
            .number("x-ratelimit-remaining")
    };
    let before = remaining().await;
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let id = c.conversation().await;
    for _ in 0..3 {
        c.message(&id, "x").await;
    }
    for _ in 0..4 {
        stream.event().await;
    }
    // The customer, the conversation, three messages, the stream, and this question.
    assert_eq!(remaining().await, before - 7);
}

#[tokio::test]
async fn a_revoked_or_expired_keys_stream_ends() {
    let account = account().await;
    let (revoked, made) = account.key(json!({"type": "test"})).await;
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(12);
    let expires_at = soon.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let (expiring, _) = account
        .key(json!({"type": "test", "expires_at": expires_at}))
        .await;
    let mut first = EventStream::open(revoked.get("/v1/events")).await;
    let mut second = EventStream::open(expiring.get("/v1/events")).await;
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    account.operator().delete(&at).await.expect(204);
    // The revoked one at once, long before the other's time has come.
    tokio::select! {
        _ = first.rest(ENDS_WITHIN) => {}
        _ = second.rest(ENDS_WITHIN) => panic!("the one that expires later ended first"),
    }
    second.rest(ENDS_WITHIN).await;
    let late = chrono::Utc::now() - soon;
    assert!(late.num_milliseconds() >= -100, "{late} after the expiry");
}

#[tokio::test]
async fn sigterm_ends_streams_and_the_server_exits_in_order() {
    let mut server = Server::start();
    let c = server.account().await.test();
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let begun = stream.begins_at().await;
    let mut made = vec![c.conversation().await];
    server.send_term();
    let before = stream.rest(Duration::from_secs(30)).await;
    assert!(server.ended().success());
    server.restart();
    let c = c.at(&server.address());
    made.push(c.conversation().await);
    // The end may overtake an event that was acknowledged right before it: then it comes when the
    // stream goes on.
    let conversation = |event: &StreamEvent| {
        event.json()["data"]["conversation_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut shown: Vec<String> = before.iter().map(conversation).collect();
    let place = before.last().map_or(begun, |event| event.id.clone());
    let mut stream = EventStream::open(c.get("/v1/events").with("last-event-id", &place)).await;
    while shown.len() < made.len() {
        shown.push(conversation(&stream.event().await));
    }
    assert_eq!(shown, made, "a gap or a repeat");
}

/// Half of this is the mean of what a connection carries; an event has about 600 bytes.
const BYTES_MAX: u64 = 6000;
fn cuts() -> u64 {
    sized(200, 12)
}

/// After so many cuts the server ends, by kill -9 and by SIGTERM in turn.
fn cuts_between_ends() -> u64 {
    sized(40, 3)
}

const WRITERS: usize = 4;
/// Writers wait while the reader has so many of their messages before it.
const AHEAD_MAX: usize = 100;
/// Nothing for so long: time to look whether everything has come.
const QUIET: Duration = Duration::from_millis(500);

/// Writers, a server that ends now and then, and a reader behind a bad line.
struct Chase {
    server: Server,
    key: String,
    proxy: Proxy,
    address: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
    conversations: Vec<String>,
    ends: u64,
}

/// What the reader has, and from where it goes on.
#[derive(Default)]
struct Seen {
    cursor: Option<String>,
    events: Vec<Value>,
}

impl Seen {
    fn take(&mut self, cursor: String, event: Value) {
        self.cursor = Some(cursor);
        self.events.push(event);
    }
}

impl Chase {
    async fn begin() -> Self {
        let server = Server::start();
        let account = server.account().await;
        let (key, c, mut conversations) =
            (account.test_key().to_owned(), account.test(), Vec::new());
        for _ in 0..WRITERS {
            conversations.push(c.conversation().await);
        }
        let proxy = Proxy::start(&server.address(), BYTES_MAX).await;
        let address = Arc::new(Mutex::new(server.address()));
        let (stop, written, read) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            server,
            key,
            proxy,
            address,
            stop,
            written,
            read,
            conversations,
            ends: 0,
        }
    }

    fn behind_the_proxy(&self) -> Client {
        self.server.with_key(&self.key).at(&self.proxy.address())
    }

    /// A writer that goes on through every end of the server until it is told to stop.
    fn spawn_writer(&self, number: usize) -> tokio::task::JoinHandle<()> {
        let c = self.server.with_key(&self.key);
        let path = format!("/v1/conversations/{}/messages", self.conversations[number]);
        let (address, stop) = (Arc::clone(&self.address), Arc::clone(&self.stop));
        let (written, read) = (Arc::clone(&self.written), Arc::clone(&self.read));
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let now = address.lock().unwrap().clone();
                let body = json!({"content": "x".repeat(100)});
                let answer = c.at(&now).post(&path, body).try_send().await;
                if answer.is_ok_and(|answer| answer.status == 201) {
                    written.fetch_add(1, Ordering::SeqCst);
                }
                while written.load(Ordering::SeqCst) > read.load(Ordering::SeqCst) + AHEAD_MAX {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
    }

    fn end_and_start(&mut self) {
        self.ends += 1;
        if self.ends.is_multiple_of(2) {
            assert!(self.server.term().success());
        }
        self.server.restart();
        self.proxy.lead_to(&self.server.address());
        *self.address.lock().unwrap() = self.server.address();
    }

    /// Reads again and again until the line has been cut often enough and all has come; compares
    /// with the log.
    async fn run(
        mut self,
        conversation: Option<usize>,
        mut read: impl AsyncFnMut(&Client, &mut Seen),
    ) {
        let numbers = conversation.map_or(0..WRITERS, |number| number..number + 1);
        let writers: Vec<_> = numbers.map(|number| self.spawn_writer(number)).collect();
        let (mut seen, end) = (Seen::default(), Instant::now() + Duration::from_secs(120));
        while self.proxy.cuts() < cuts() {
            assert!(Instant::now() < end, "{} cuts only", self.proxy.cuts());
            read(&self.behind_the_proxy(), &mut seen).await;
            self.read.store(seen.events.len(), Ordering::SeqCst);
            if self.proxy.cuts() >= (self.ends + 1) * cuts_between_ends() {
                self.end_and_start();
            }
        }
        self.stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
        let list = conversation.map_or("/v1/events".to_owned(), |number| {
            events_of(&self.conversations[number])
        });
        let log = whole(&self.server.with_key(&self.key), &list).await;
        while seen.events.len() < log.len() {
            assert!(
                Instant::now() < end,
                "{} of {} events came",
                seen.events.len(),
                log.len()
            );
            read(&self.behind_the_proxy(), &mut seen).await;
        }
        let ids = |events: &[Value]| -> Vec<String> {
            events.iter().map(|event| event["id"].to_string()).collect()
        };
        assert_eq!(
            ids(&seen.events),
            ids(&log),
            "a gap, a repeat or another order"
        );
        assert_eq!(seen.events, log);
        assert!(self.ends >= 4, "the server ended {} times only", self.ends);
    }
}

async fn whole(c: &Client, list: &str) -> Vec<Value> {
    let (mut log, mut path) = (Vec::new(), format!("{list}?limit=100"));
    loop {
        let page = c.get(&path).await.expect(200);
        if page.data().is_empty() {
            return log;
        }
        log.extend(page.data().clone());
        path = page.link("next").unwrap();
    }
}

/// Reads one connection's events until it breaks or is quiet.
async fn read_stream(c: &Client, list: &str, seen: &mut Seen) {
    let call = match &seen.cursor {
        Some(cursor) => c.get(list).with("last-event-id", cursor),
        None => c.get(&format!("{list}?after=0")),
    };
    let Ok(mut stream) = EventStream::try_open(call).await else {
        return;
    };
    if stream.status() == 503 {
        return;
    }
    assert_eq!(stream.status(), 200);
    while let Ok(Some(event)) = tokio::time::timeout(QUIET, stream.next_event()).await {
        seen.take(event.id.clone(), event.json());
    }
}

/// The same over a socket.
async fn read_socket(c: &Client, seen: &mut Seen) {
    let Ok(mut socket) = Socket::try_open(c, "/v1/realtime").await else {
        return;
    };
    let after = seen.cursor.clone().map_or(json!(0), |cursor| json!(cursor));
    if socket
        .try_say(json!({"type": "subscribe", "after": after}))
        .await
        .is_err()
    {
        return;
    }
    while let Ok(Ok(mut frame)) = tokio::time::timeout(QUIET, socket.try_hear()).await {
        match frame["type"].as_str().unwrap_or_default() {
            "event" => seen.take(
                frame["cursor"].as_str().unwrap().to_owned(),
                frame["event"].take(),
            ),
            "subscribed" => {}
            other => panic!("{other}: {frame}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_stream_of_the_account_resumes_without_gap_or_repeat() {
    let chase = Chase::begin().await;
    chase
        .run(None, async |c, seen| {
            read_stream(c, "/v1/events", seen).await
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_stream_of_a_conversation_resumes_without_gap_or_repeat() {
    let chase = Chase::begin().await;
    let list = events_of(&chase.conversations[0]);
    chase
        .run(Some(0), async |c, seen| read_stream(c, &list, seen).await)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_socket_resumes_without_gap_or_repeat() {
    let chase = Chase::begin().await;
    chase
        .run(None, async |c, seen| read_socket(c, seen).await)
        .await;
}
