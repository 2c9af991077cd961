//! A TCP proxy between a client and a server that cuts connections at random bytes, delays what
//! they carry, and lets nobody through for a while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::Dice;

/// More bytes than any connection carries.
const NEVER: u64 = u64::MAX;

struct Shared {
    target: Mutex<String>,
    dice: Mutex<Dice>,
    /// A connection is cut after fewer bytes of the server's than this.
    bytes_max: AtomicU64,
    /// How long each part of an answer is kept back.
    delay_ms: AtomicU64,
    cuts: AtomicU64,
    gate: watch::Sender<Gate>,
}

/// Who is let through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// Connections are closed as soon as they come.
    Closed,
}

/// A listening proxy; it is gone when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// To the server at `target`; each connection is cut before it has carried `bytes_max` bytes to
    /// the client.
    pub(crate) async fn start(target: &str, bytes_max: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(target.to_owned()),
            dice: Mutex::new(Dice::new(bytes_max)),
            bytes_max: AtomicU64::new(bytes_max),
            delay_ms: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            gate: watch::Sender::new(Gate::Open),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// To the server at `target`; no connection is cut until that is asked for.
    pub(crate) async fn open_to(target: &str) -> Self {
        Self::start(target, NEVER).await
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts each connection before it has carried so many bytes to the client: those that are open
    /// at once, for they may have carried more.
    pub(crate) fn cut_after(&self, bytes_max: u64) {
        self.shared.bytes_max.store(bytes_max, Ordering::SeqCst);
        self.hang_up();
    }

    /// Cuts no further connection.
    pub(crate) fn cut_no_more(&self) {
        self.cut_after(NEVER);
    }

    /// Keeps each part of what the server says back for so long.
    pub(crate) fn delay(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap();
        self.shared.delay_ms.store(delay_ms, Ordering::SeqCst);
    }

    /// Cuts all connections, and lets nobody through.
    pub(crate) fn close(&self) {
        self.shared.gate.send_replace(Gate::Closed);
    }

    /// Lets everybody through again.
    pub(crate) fn open(&self) {
        self.shared.gate.send_replace(Gate::Open);
    }

    /// Cuts all connections; whoever comes then is let through.
    fn hang_up(&self) {
        let gate = *self.shared.gate.borrow();
        self.shared.gate.send_replace(gate);
    }

    /// Connections that come from now on go there.
    pub(crate) fn lead_to(&self, target: &str) {
        target.clone_into(&mut self.shared.target.lock().unwrap());
    }

    /// How many connections were cut in the middle.
    pub(crate) fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let mut gate = shared.gate.subscribe();
            if *gate.borrow_and_update() == Gate::Closed {
                return;
            }
            let target = shared.target.lock().unwrap().clone();
            if let Ok(server) = TcpStream::connect(target).await {
                tokio::select! {
                    () = carry(client, server, &shared) => {}
                    _ = gate.changed() => {}
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Carries both ways until one side closes, or until the server's side has used up what chance gave
/// it.
async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) {
    let bytes_max = shared.bytes_max.load(Ordering::SeqCst);
    let mut left = shared
        .dice
        .lock()
        .unwrap()
        .below(bytes_max)
        .saturating_add(1);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut part = [0_u8; 4096];
        while left > 0 {
            let most = usize::try_from(left).unwrap().min(part.len());
            let Ok(count) = from_server.read(&mut part[..most]).await else {
                return;
            };
            let delay = Duration::from_millis(shared.delay_ms.load(Ordering::SeqCst));
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if count == 0 || to_client.write_all(&part[..count]).await.is_err() {
                return;
            }
            left -= count as u64;
        }
        shared.cuts.fetch_add(1, Ordering::SeqCst);
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}
