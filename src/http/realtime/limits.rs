//! What the settings say of lines that stay open, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::config::Config;

/// Bounds of a line.
#[derive(Debug, Clone)]
pub(crate) struct LineLimits {
    pub(crate) heartbeat: Duration,
    pub(crate) ticket_ms: i64,
    pub(crate) subscriptions_max: usize,
    pub(crate) sends_max: usize,
    pub(crate) message_bytes_max: usize,
}

impl LineLimits {
    pub(crate) fn new(config: &Config) -> Self {
        let settings = &config.realtime;
        let ticket = Duration::from_secs_f64(settings.ticket_seconds);
        LineLimits {
            heartbeat: Duration::from_secs_f64(settings.heartbeat_seconds),
            ticket_ms: i64::try_from(ticket.as_millis()).unwrap_or(i64::MAX),
            subscriptions_max: settings.subscriptions_max,
            sends_max: settings.sends_max,
            message_bytes_max: config.limits.max_body_bytes,
        }
    }
}

/// How a line is kept open.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Stream,
    Socket,
}

/// How many lines are open.
#[derive(Debug, Default)]
pub(crate) struct OpenLines {
    streams: AtomicUsize,
    sockets: AtomicUsize,
}

/// One of them, as long as it lives.
#[derive(Debug)]
pub(super) struct OpenLine(Arc<OpenLines>, Way);

impl OpenLines {
    pub(super) fn open(self: &Arc<Self>, way: Way) -> OpenLine {
        self.counter(way).fetch_add(1, Ordering::Relaxed);
        OpenLine(Arc::clone(self), way)
    }

    fn counter(&self, way: Way) -> &AtomicUsize {
        match way {
            Way::Stream => &self.streams,
            Way::Socket => &self.sockets,
        }
    }

    /// The counters in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let count = |way| self.counter(way).load(Ordering::Relaxed);
        format!(
            "# HELP colloquy_lines_open Event streams and WebSockets that are open.\n\
             # TYPE colloquy_lines_open gauge\n\
             colloquy_lines_open{{kind=\"sse\"}} {}\n\
             colloquy_lines_open{{kind=\"websocket\"}} {}\n",
            count(Way::Stream),
            count(Way::Socket),
        )
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.0.counter(self.1).fetch_sub(1, Ordering::Relaxed);
    }
}
