//! The outside world of the benchmark: receivers of webhooks, event streams, WebSockets and paced
//! senders, in one process and so by one clock. It does what lines on stdin say, `word name=value
//! …`, and answers each with a line of JSON. A message that it sends is marked, so that each
//! receipt finds when its message was sent and when that was answered.
#![expect(
    clippy::print_stdout,
    reason = "the benchmark reads the answers from stdout"
)]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

type Failure = Box<dyn Error + Send + Sync>;
type Socket = WebSocketStream<TcpStream>;

/// What stands before a message's mark, and behind it.
const MARK: &str = r##""content":"#"##;
const MARK_END: char = '#';
/// The mark of what carries none.
const UNMARKED: u32 = u32::MAX;
const FILLING: &str = "Thank you for waiting. Your parcel left our warehouse this morning and arrives on Tuesday, noon.";
/// How long receipts may be absent before what is missing counts as lost.
const QUIET: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);
const NANOS_OF_A_MS: f64 = 1e6;

/// One event that came to one of the crowd.
#[derive(Clone, Copy)]
struct Receipt {
    who: u32,
    mark: u32,
    at: u64,
}

/// Instants of one marked message.
#[derive(Clone, Copy, Default)]
struct Sent {
    at: u64,
    answered: u64,
}

struct Crowd {
    begun: Instant,
    address: String,
    key: String,
    receipts: Mutex<Vec<Receipt>>,
    sent: Mutex<Vec<Sent>>,
    /// Whether events are looked through for marks.
    marking: AtomicBool,
    /// Streams and sockets that have ended.
    ended: AtomicU32,
    /// Whether receivers keep their answers back.
    held: watch::Sender<bool>,
}

impl Crowd {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn receive(&self, who: u32, event: &str) {
        let at = self.now();
        let mark = if self.marking.load(Ordering::Relaxed) {
            mark(event)
        } else {
            None
        };
        self.receipts.lock().push(Receipt {
            who,
            mark: mark.unwrap_or(UNMARKED),
            at,
        });
    }

    fn note(&self, mark: usize, change: impl FnOnce(&mut Sent)) {
        if let Some(sent) = self.sent.lock().get_mut(mark) {
            change(sent);
        }
    }
}

fn mark(event: &str) -> Option<u32> {
    let (_, rest) = event.split_once(MARK)?;
    rest.split_once(MARK_END)?.0.parse().ok()
}

/// The values of one line.
struct Given<'a>(HashMap<&'a str, &'a str>);

impl Given<'_> {
    fn get<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        let value = self
            .0
            .get(name)
            .ok_or_else(|| format!("{name} is missing"))?;
        value
            .parse()
            .map_err(|_| format!("{name}={value} can't be read").into())
    }

    fn ids(&self) -> Result<Vec<String>, Failure> {
        let (from, count): (usize, usize) = (self.get("from")?, self.get("ids_count")?);
        let text = std::fs::read_to_string(self.get::<String>("ids")?)?;
        Ok(text
            .lines()
            .skip(from)
            .take(count)
            .map(str::to_owned)
            .collect())
    }
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let crowd = Arc::new(Crowd {
        begun: Instant::now(),
        address: args.next().ok_or("usage: crowd ADDRESS KEY")?,
        key: args.next().ok_or("usage: crowd ADDRESS KEY")?,
        receipts: Mutex::default(),
        sent: Mutex::default(),
        marking: AtomicBool::new(false),
        ended: AtomicU32::new(0),
        held: watch::Sender::new(false),
    });
    let runtime = Runtime::new()?;
    let mut open = JoinSet::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = runtime.block_on(obey(&crowd, &mut open, &line))?;
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

async fn obey(crowd: &Arc<Crowd>, open: &mut JoinSet<()>, line: &str) -> Result<Value, Failure> {
    let mut words = line.split(' ');
    let word = words.next().unwrap_or_default();
    let given = Given(words.filter_map(|word| word.split_once('=')).collect());
    match word {
        "receive" => receiver(crowd, given.get("hang")?).await,
        "hold" => Ok(json!({"held": !crowd.held.send_replace(given.get("on")?)})),
        "sockets" => sockets(crowd, open, &given).await,
        "streams" => streams(crowd, open, given.get("count")?).await,
        "leave" => {
            open.shutdown().await;
            Ok(json!({}))
        }
        "clear" => {
            crowd.receipts.lock().clear();
            crowd.sent.lock().clear();
            crowd.marking.store(false, Ordering::Relaxed);
            crowd.ended.store(0, Ordering::Relaxed);
            Ok(json!({}))
        }
        "send" => send(crowd, &given).await,
        "wait" => Ok(wait(crowd, given.get("for")?).await),
        "seen" => Ok(seen(crowd)),
        _ => Err(format!("{word} is no command").into()),
    }
}

// Receivers of webhooks: `/N` is the N-th of them.

async fn receiver(crowd: &Arc<Crowd>, hang: bool) -> Result<Value, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let crowd = Arc::clone(crowd);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let crowd = Arc::clone(&crowd);
            tokio::spawn(async move {
                if hang {
                    return hold_open(stream).await;
                }
                // The sender's end of the connection is the end of it here too.
                drop(answer_all(&crowd, stream).await);
            });
        }
    });
    Ok(json!({"port": port}))
}

async fn hold_open(mut stream: TcpStream) {
    let mut part = [0; 4096];
    while stream.read(&mut part).await.is_ok_and(|count| count > 0) {}
}

async fn answer_all(crowd: &Crowd, mut stream: TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut held) = (Vec::new(), crowd.held.subscribe());
    loop {
        let (head, body) = read_http(&mut stream, &mut buffer).await?;
        let path = head
            .split(' ')
            .nth(1)
            .and_then(|path| path.strip_prefix('/'));
        crowd.receive(path.and_then(|who| who.parse().ok()).unwrap_or(0), &body);
        held.wait_for(|held| !held).await?;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await?;
    }
}

/// One request or answer whose body's length is told: its head and its body.
async fn read_http(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> Result<(String, String), Failure> {
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            break String::from_utf8(std::mem::replace(buffer, rest))?;
        }
        read_more(stream, buffer).await?;
    };
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value);
    let length = length.map_or(Ok(0), |value| value.trim().parse())?;
    while buffer.len() < length {
        read_more(stream, buffer).await?;
    }
    let rest = buffer.split_off(length);
    Ok((head, String::from_utf8(std::mem::replace(buffer, rest))?))
}

async fn read_more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), Failure> {
    if stream.read_buf(buffer).await? == 0 {
        Err("the connection ended".into())
    } else {
        Ok(())
    }
}

// Event streams and WebSockets

async fn streams(crowd: &Arc<Crowd>, open: &mut JoinSet<()>, count: u32) -> Result<Value, Failure> {
    for who in 0..count {
        let mut stream = TcpStream::connect(&crowd.address).await?;
        let head = format!(
            "GET /v1/events HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nAuthorization: Bearer {}\r\n\r\n",
            crowd.key
        );
        stream.write_all(head.as_bytes()).await?;
        let mut buffer = Vec::with_capacity(1 << 16);
        read_http(&mut stream, &mut buffer)
            .await
            .and_then(|(head, _)| is_status(&head, "200"))?;
        let crowd = Arc::clone(crowd);
        open.spawn(async move {
            // A line that a chunk's end cuts in two is not one of ours: an event comes in one
            // piece.
            while read_more(&mut stream, &mut buffer).await.is_ok() {
                let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else {
                    continue;
                };
                let rest = buffer.split_off(end + 1);
                let lines = String::from_utf8_lossy(&buffer);
                lines
                    .lines()
                    .filter(|line| line.starts_with("data:"))
                    .for_each(|line| crowd.receive(who, line));
                buffer = rest;
            }
            crowd.ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    Ok(json!({"open": count}))
}

fn is_status(head: &str, status: &str) -> Result<(), Failure> {
    let is = head.split(' ').nth(1) == Some(status);
    if is {
        Ok(())
    } else {
        Err(format!("{status} was awaited, not {head}").into())
    }
}

async fn socket(crowd: &Crowd) -> Result<Socket, Failure> {
    let mut request = format!("ws://{}/v1/realtime", crowd.address).into_client_request()?;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", "colloquy.v1".parse()?);
    request
        .headers_mut()
        .insert("authorization", format!("Bearer {}", crowd.key).parse()?);
    let stream = TcpStream::connect(&crowd.address).await?;
    stream.set_nodelay(true)?;
    Ok(tokio_tungstenite::client_async(request, stream).await?.0)
}

/// Sockets that subscribe to a conversation each, in turn of those given.
async fn sockets(
    crowd: &Arc<Crowd>,
    open: &mut JoinSet<()>,
    given: &Given<'_>,
) -> Result<Value, Failure> {
    let (count, ids): (u32, _) = (given.get("count")?, given.ids()?);
    for (who, id) in (0..count).zip(ids.iter().cycle()) {
        let mut socket = socket(crowd).await?;
        say(
            &mut socket,
            &json!({"type": "subscribe", "conversation_id": id}),
        )
        .await?;
        hear(&mut socket, "subscribed").await?;
        let crowd = Arc::clone(crowd);
        open.spawn(async move {
            while let Some(Ok(frame)) = socket.next().await {
                if let Message::Text(text) = &frame
                    && text.starts_with(r#"{"type":"event""#)
                {
                    crowd.receive(who, text);
                } else if frame.is_ping() {
                    // The answer to it stands ready and wants to be sent.
                    drop(socket.flush().await);
                }
            }
            crowd.ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    Ok(json!({"open": count}))
}

async fn say(socket: &mut Socket, frame: &Value) -> Result<(), Failure> {
    Ok(socket.send(Message::text(frame.to_string())).await?)
}

/// Waits for a frame of this type; one of another is an error.
async fn hear(socket: &mut Socket, kind: &str) -> Result<(), Failure> {
    let begins = format!(r#"{{"type":"{kind}""#);
    loop {
        let frame = socket.next().await.ok_or("the socket ended")??;
        if matches!(&frame, Message::Text(text) if text.starts_with(&begins)) {
            return Ok(());
        }
        if frame.is_ping() {
            socket.flush().await?;
        } else if !frame.is_pong() {
            return Err(format!("{kind} was awaited, not {frame:?}").into());
        }
    }
}

// Senders

enum Line {
    Http(TcpStream, Vec<u8>),
    Socket(Box<Socket>),
}

impl Line {
    async fn open(crowd: &Crowd, by: &str) -> Result<Self, Failure> {
        if by == "socket" {
            return Ok(Line::Socket(Box::new(socket(crowd).await?)));
        }
        let stream = TcpStream::connect(&crowd.address).await?;
        stream.set_nodelay(true)?;
        Ok(Line::Http(stream, Vec::new()))
    }

    /// Sends a message and waits until it is acknowledged.
    async fn send(&mut self, crowd: &Crowd, id: &str, mark: usize) -> Result<(), Failure> {
        let content = format!("#{mark}# {FILLING}");
        match self {
            Line::Http(stream, buffer) => {
                let body = json!({"content": content, "sender_type": "customer"}).to_string();
                let request = format!(
                    "POST /v1/conversations/{id}/messages HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    crowd.key,
                    body.len()
                );
                crowd.note(mark, |sent| sent.at = crowd.now());
                stream.write_all(request.as_bytes()).await?;
                let (head, _) = read_http(stream, buffer).await?;
                is_status(&head, "201")?;
            }
            Line::Socket(socket) => {
                let message = json!({"content": content, "sender_type": "customer"});
                let reference = format!("{}-{mark}", crowd.now());
                let frame = json!({"type": "send", "ref": reference, "conversation_id": id, "message": message});
                crowd.note(mark, |sent| sent.at = crowd.now());
                say(socket, &frame).await?;
                hear(socket, "ack").await?;
            }
        }
        crowd.note(mark, |sent| sent.answered = crowd.now());
        Ok(())
    }
}

/// So many messages, `rate` a second in all, over so many connections, to the conversations in
/// turn.
async fn send(crowd: &Arc<Crowd>, given: &Given<'_>) -> Result<Value, Failure> {
    let (count, connections): (usize, usize) = (given.get("count")?, given.get("connections")?);
    let (rate, by, ids): (f64, String, _) =
        (given.get("rate")?, given.get("by")?, Arc::new(given.ids()?));
    *crowd.sent.lock() = vec![Sent::default(); count];
    crowd.marking.store(true, Ordering::Relaxed);
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Line::open(crowd, &by).await?);
    }
    let (begun, mut senders) = (tokio::time::Instant::now(), JoinSet::new());
    for (first, mut line) in lines.into_iter().enumerate() {
        let (crowd, ids) = (Arc::clone(crowd), Arc::clone(&ids));
        senders.spawn(async move {
            for mark in (first..count).step_by(connections) {
                let due = Duration::from_secs_f64(f64::from(u32::try_from(mark)?) / rate);
                tokio::time::sleep_until(begun + due).await;
                let id = ids
                    .get(mark % ids.len())
                    .ok_or("no conversation is given")?;
                line.send(&crowd, id, mark).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender??;
    }
    Ok(json!({"seconds": begun.elapsed().as_secs_f64()}))
}

// What was seen

/// Waits until so many have come, or nothing comes any more.
async fn wait(crowd: &Crowd, count: usize) -> Value {
    let begun = crowd.now();
    let (mut seen, mut since) = (crowd.receipts.lock().len(), Instant::now());
    while seen < count && since.elapsed() < QUIET {
        tokio::time::sleep(LOOK).await;
        let now = crowd.receipts.lock().len();
        since = if now == seen { since } else { Instant::now() };
        seen = now;
    }
    json!({"receipts": seen, "ms": ms(crowd.now() - begun)})
}

fn seen(crowd: &Crowd) -> Value {
    let (receipts, sent) = (crowd.receipts.lock().clone(), crowd.sent.lock().clone());
    let mut each: HashMap<u32, u64> = HashMap::new();
    let mut last: HashMap<u32, u64> = HashMap::new();
    let (mut from_sent, mut from_answer) = (Vec::new(), Vec::new());
    for Receipt { who, mark, at } in &receipts {
        *each.entry(*who).or_default() += 1;
        let message = usize::try_from(*mark).ok().and_then(|mark| sent.get(mark));
        let Some(message) = message else { continue };
        from_sent.push(at.saturating_sub(message.at));
        // What comes before the answer does has taken no time from then on.
        from_answer.push(at.saturating_sub(message.answered));
        let latest = last.entry(*mark).or_default();
        *latest = (*latest).max(at.saturating_sub(message.at));
    }
    json!({
        "receipts": receipts.len(),
        "who": each.len(),
        "least": each.values().min(),
        "most": each.values().max(),
        "ended": crowd.ended.load(Ordering::Relaxed),
        "answer": spread(sent.iter().map(|sent| sent.answered.saturating_sub(sent.at)).collect()),
        "from_sent": spread(from_sent),
        "from_answer": spread(from_answer),
        "to_all": spread(last.into_values().collect()),
    })
}

/// Median, 99th part of a hundred and most, in milliseconds.
fn spread(mut nanos: Vec<u64>) -> Value {
    nanos.sort_unstable();
    let at = |percent: usize| {
        nanos
            .get(nanos.len().saturating_sub(1) * percent / 100)
            .copied()
            .map(ms)
    };
    json!({"p50": at(50), "p99": at(99), "max": at(100)})
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run has far fewer nanoseconds than a float keeps"
)]
fn ms(nanos: u64) -> f64 {
    nanos as f64 / NANOS_OF_A_MS
}
