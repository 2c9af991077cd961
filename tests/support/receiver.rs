//! A receiver of webhooks on this machine that answers as it is told, misbehaves as it is told, and
//! keeps every request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::until;

/// The longest that a delivery may take to come on a busy machine.
const COMES_WITHIN: Duration = Duration::from_secs(20);

/// How one request is answered.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A status, header lines, each with its line end, and a body.
    Answer(u16, String, String),
    /// The same as 200, but this much later.
    Late(Duration),
    /// Never; the connection stays open.
    Hang,
    /// The connection is reset.
    Reset,
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::status(200)
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, String::new(), String::new())
    }

    pub(crate) fn with_body(status: u16, body: &str) -> Self {
        Self::Answer(status, String::new(), body.to_owned())
    }

    pub(crate) fn with_header(status: u16, name: &str, value: &str) -> Self {
        Self::Answer(status, format!("{name}: {value}\r\n"), String::new())
    }
}

/// One request that came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) method: String,
    pub(crate) path: String,
    /// By name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Whether it was to be answered with 2xx at once.
    pub(crate) taken: bool,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// The body, which must be JSON.
    pub(crate) fn event(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn kind(&self) -> String {
        self.event()["event"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

type Plan = Box<dyn FnMut(&Received) -> Reply + Send>;

struct Shared {
    plan: Mutex<Plan>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
}

/// A listening receiver; it is gone when it is dropped.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// One that answers 200.
    pub(crate) async fn start() -> Self {
        Self::planned(|_| Reply::ok()).await
    }

    /// One that answers each request as the plan says.
    pub(crate) async fn planned(plan: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            plan: Mutex::new(Box::new(plan)),
            received: Mutex::new(Vec::new()),
            connections: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// One that gives these answers in turn, then 200 to all that comes.
    pub(crate) async fn in_turn(
        replies: impl IntoIterator<Item = Reply, IntoIter: Send + 'static>,
    ) -> Self {
        let mut replies = replies.into_iter();
        Self::planned(move |_| replies.next().unwrap_or_else(Reply::ok)).await
    }

    /// Answers by another plan from now on.
    pub(crate) fn answer(&self, plan: impl FnMut(&Received) -> Reply + Send + 'static) {
        *self.shared.plan.lock().unwrap() = Box::new(plan);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// All that came so far, in order.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.received.lock().unwrap().len()
    }

    /// Connections that were made, whatever came over them.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until so many have come; gives all.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Received> {
        let what = format!("{count} requests come to the receiver");
        until(&what, COMES_WITHIN, async || {
            (self.count() >= count).then(|| self.received())
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A URL of this machine where nobody listens.
pub(crate) async fn dead_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/hook", listener.local_addr().unwrap())
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Some(mut request) = read_request(&mut stream, &mut buffer).await {
        let reply = (shared.plan.lock().unwrap())(&request);
        request.taken = matches!(reply, Reply::Answer(200..=299, ..));
        shared.received.lock().unwrap().push(request);
        match reply {
            Reply::Answer(status, headers, body) => {
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} Told\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
                );
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            Reply::Late(wait) => {
                tokio::time::sleep(wait).await;
                if stream
                    .write_all(b"HTTP/1.1 200 Late\r\nContent-Length: 0\r\n\r\n")
                    .await
                    .is_err()
                {
                    return;
                }
            }
            // Until the other side has had enough.
            Reply::Hang => drop(stream.read(&mut [0; 1]).await),
            Reply::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let head_end = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at;
        }
        read_more(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    while buffer.len() < length {
        read_more(stream, buffer).await?;
    }
    let body: Vec<u8> = buffer.drain(..length).collect();
    // Of traces it is no text; of webhooks, whose signature is checked over it, nothing else.
    let body = String::from_utf8_lossy(&body).into_owned();
    Some(Received {
        at: Instant::now(),
        method,
        path,
        headers,
        body,
        taken: false,
    })
}

async fn read_more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut part = [0_u8; 16_384];
    let count = stream
        .read(&mut part)
        .await
        .ok()
        .filter(|count| *count > 0)?;
    buffer.extend_from_slice(&part[..count]);
    Some(())
}
