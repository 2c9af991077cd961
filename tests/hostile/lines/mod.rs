//! Streams and WebSockets: storms that come through them, readers that never read, how many may be
//! open, and what is shown after a right was taken away.

mod bounds;
mod rights;
mod storms;

use futures_util::StreamExt;
use serde_json::json;

use crate::support::{Account, Client, Socket};

/// Sockets that are being opened at once.
const OPENING: usize = 32;
/// Lines that one key may hold open by default.
const LINES_OF_A_KEY: usize = 100;

/// Test keys enough for so many lines.
async fn keys_for(account: &Account, lines: usize) -> Vec<Client> {
    let mut keys = Vec::new();
    for _ in 0..lines.div_ceil(LINES_OF_A_KEY) {
        keys.push(account.key(json!({"type": "test"})).await.0);
    }
    keys
}

/// So many open sockets, spread over these keys, each after its first frames.
async fn open(keys: &[Client], count: usize, begin: impl AsyncFn(&mut Socket)) -> Vec<Socket> {
    let begin = &begin;
    let opening = (0..count).map(|number| async move {
        let mut socket = Socket::open(&keys[number % keys.len()]).await;
        begin(&mut socket).await;
        socket
    });
    futures_util::stream::iter(opening)
        .buffer_unordered(OPENING)
        .collect()
        .await
}
