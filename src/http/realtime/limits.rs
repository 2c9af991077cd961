//! What the settings say of event streams and WebSockets, and how many there are: in all, of one
//! key, of one account.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use colloquy_actors::accounts::Principal;
use colloquy_actors::metrics::MetricsWriter;
use colloquy_model::id::KeyId;
use parking_lot::Mutex;

use super::super::budget::BudgetOwner;
use super::super::problem::Problem;
use super::frame_bucket::FrameRate;
use crate::config::Config;

/// When who has too many connections open may come again: nobody knows when one of them is closed.
const RETRY_AFTER_SECONDS: u64 = 5;

/// Bounds of one event stream or WebSocket, from the settings.
#[derive(Debug, Clone)]
pub(crate) struct RealtimeLimits {
    pub(crate) heartbeat: Duration,
    pub(crate) ticket: Duration,
    pub(crate) subscriptions_max: usize,
    pub(crate) sends_max: usize,
    pub(crate) message_bytes_max: usize,
    pub(crate) frames: FrameRate,
}

impl RealtimeLimits {
    pub(crate) fn new(config: &Config) -> Self {
        let settings = &config.realtime;
        RealtimeLimits {
            heartbeat: Duration::from_secs_f64(settings.heartbeat_seconds),
            ticket: Duration::from_secs_f64(settings.ticket_seconds),
            subscriptions_max: settings.subscriptions_max,
            sends_max: settings.sends_max,
            message_bytes_max: config.limits.max_body_bytes,
            frames: FrameRate {
                per_second: settings.frames_per_second,
                burst: f64::from(settings.frames_burst),
            },
        }
    }
}

/// How events reach a client that stays connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    EventStream,
    WebSocket,
}

/// The event streams and WebSockets that are open, bounded by key and by account.
#[derive(Debug)]
pub(crate) struct LiveConnections {
    key_max: usize,
    account_max: usize,
    frame_bytes_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    streams: usize,
    sockets: usize,
    keys: HashMap<KeyId, usize>,
    /// By account's number: how many, and what of their frames is in memory.
    accounts: HashMap<u32, (usize, Arc<AtomicUsize>)>,
}

impl Counts {
    fn of(&mut self, transport: Transport) -> &mut usize {
        match transport {
            Transport::EventStream => &mut self.streams,
            Transport::WebSocket => &mut self.sockets,
        }
    }
}

/// Counts one event stream or WebSocket until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveConnection {
    live_connections: Arc<LiveConnections>,
    transport: Transport,
    key: KeyId,
    account: u32,
    owner: BudgetOwner,
    frame_bytes: Arc<AtomicUsize>,
}

impl LiveConnections {
    pub(crate) fn new(config: &Config) -> Self {
        let settings = &config.realtime;
        LiveConnections {
            key_max: settings.lines_per_key,
            account_max: settings.lines_per_account,
            frame_bytes_max: settings.frame_bytes_per_account,
            counts: Mutex::default(),
        }
    }

    /// Opens one more, where its key and its account have room for it.
    pub(crate) fn open(
        self: &Arc<Self>,
        transport: Transport,
        principal: &Principal,
    ) -> Result<LiveConnection, Problem> {
        let (key, account) = (principal.key.view.key_id, principal.account.number);
        let refused = |reason| Err(Problem::rate_limited(reason, RETRY_AFTER_SECONDS));
        let mut counts = self.counts.lock();
        if counts
            .keys
            .get(&key)
            .is_some_and(|open| *open >= self.key_max)
        {
            return refused("the key has too many streams and WebSockets open");
        }
        if counts
            .accounts
            .get(&account)
            .is_some_and(|(open, _)| *open >= self.account_max)
        {
            return refused("the account has too many streams and WebSockets open");
        }
        *counts.of(transport) += 1;
        *counts.keys.entry(key).or_default() += 1;
        let (open, frame_bytes) = counts.accounts.entry(account).or_default();
        *open += 1;
        let frame_bytes = Arc::clone(frame_bytes);
        drop(counts);
        Ok(LiveConnection {
            live_connections: Arc::clone(self),
            transport,
            key,
            account,
            owner: BudgetOwner::of(principal),
            frame_bytes,
        })
    }

    /// Writes how many are open, as metrics.
    pub(crate) fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let (streams, sockets) = {
            let counts = self.counts.lock();
            (counts.streams, counts.sockets)
        };
        out.gauges(
            "lines_open",
            "Event streams and WebSockets that are open.",
            [("sse", streams), ("websocket", sockets)].map(|(kind, open)| ([("kind", kind)], open)),
        )
    }
}

impl LiveConnection {
    /// The account whose event stream or WebSocket it is.
    pub(super) fn owner(&self) -> BudgetOwner {
        self.owner
    }

    /// What its account may hold of frames.
    pub(super) fn frame_budget(&self) -> FrameBudget {
        FrameBudget {
            held: Arc::clone(&self.frame_bytes),
            most: self.live_connections.frame_bytes_max,
        }
    }
}

impl Drop for LiveConnection {
    fn drop(&mut self) {
        let mut counts = self.live_connections.counts.lock();
        *counts.of(self.transport) -= 1;
        if let Some(open) = counts.keys.get_mut(&self.key) {
            *open -= 1;
            if *open == 0 {
                counts.keys.remove(&self.key);
            }
        }
        if let Some((open, _)) = counts.accounts.get_mut(&self.account) {
            *open -= 1;
            if *open == 0 {
                counts.accounts.remove(&self.account);
            }
        }
    }
}

/// What the frames of one account's sockets may hold in memory, from their first byte until they
/// were acted on.
#[derive(Debug, Clone)]
pub(super) struct FrameBudget {
    held: Arc<AtomicUsize>,
    most: usize,
}

/// What one socket, or a message that came through it, holds of its account's room for frames.
#[derive(Debug)]
pub(super) struct FrameBytes {
    room: FrameBudget,
    bytes: usize,
}

impl FrameBudget {
    #[cfg(test)]
    pub(super) fn of(most: usize) -> Self {
        FrameBudget {
            held: Arc::default(),
            most,
        }
    }

    /// A socket's part of it, which is nothing yet.
    pub(super) fn none(&self) -> FrameBytes {
        FrameBytes {
            room: self.clone(),
            bytes: 0,
        }
    }
}

impl FrameBytes {
    /// Holds so many bytes in all; false where there is no room for them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let before = self.room.held.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > self.room.most {
            self.room.held.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Gives all of it, if it is anything, to whoever holds what it stands for.
    pub(super) fn hand_over(&mut self) -> Option<FrameBytes> {
        (self.bytes > 0).then(|| std::mem::replace(self, self.room.none()))
    }
}

impl Drop for FrameBytes {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_by_whoever_holds_it_last() {
        let room = FrameBudget::of(100);
        let (mut one, mut other) = (room.none(), room.none());
        assert!(one.grow(60) && one.grow(40) && !other.grow(41) && other.grow(40));
        let kept = one.hand_over();
        assert!(!one.grow(1));
        drop(kept);
        assert!(one.grow(60) && !one.grow(61));
        drop((one, other));
        assert_eq!(room.held.load(Ordering::Relaxed), 0);
    }
}
