//! A TCP proxy between a client and the server that cuts connections at random bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::Dice;

struct Shared {
    target: Mutex<String>,
    dice: Mutex<Dice>,
    /// A connection is cut after fewer bytes of the server's than this.
    bytes_max: u64,
    cuts: AtomicU64,
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
            bytes_max,
            cuts: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            accepting,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
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
            let target = shared.target.lock().unwrap().clone();
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, &shared).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Carries both ways until one side closes, or until the server's side has used up what chance gave
/// it.
async fn carry(client: TcpStream, server: TcpStream, shared: &Shared) {
    let mut left =
        usize::try_from(shared.dice.lock().unwrap().below(shared.bytes_max) + 1).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut part = [0_u8; 4096];
        while left > 0 {
            let most = left.min(part.len());
            let Ok(count) = from_server.read(&mut part[..most]).await else {
                return;
            };
            if count == 0 || to_client.write_all(&part[..count]).await.is_err() {
                return;
            }
            left -= count;
        }
        shared.cuts.fetch_add(1, Ordering::SeqCst);
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}
