//! How long a connection may be open while no request is under way on it. The server itself has a
//! timer for a connection's first head and one for a connection on which nothing comes, but none
//! for a later head that comes byte by byte, nor for a body in chunks that goes on behind its
//! answer: with these a client could hold its connection for ever.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix_web::rt::spawn;
use nix::sys::socket::SockaddrStorage;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::socket_handle::SocketHandle;
use crate::config::Config;

/// How long a connection may be idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleLimits {
    /// Until the head of its next request has come.
    pub(crate) next_head: Duration,
    /// Until a body has ended whose request was answered before.
    pub(crate) rest_of_body: Duration,
}

impl IdleLimits {
    /// Reads the limits from the settings.
    pub(super) fn new(config: &Config) -> Self {
        let seconds = Duration::from_secs_f64;
        let server = &config.server;
        IdleLimits {
            next_head: seconds(server.keep_alive_seconds + server.request_head_timeout_seconds),
            rest_of_body: seconds(server.linger_seconds),
        }
    }
}

/// What a connection's timer and its requests know of each other.
#[derive(Debug)]
struct Usage {
    limits: IdleLimits,
    /// How long the connection may be idle as things stand.
    limit: Cell<Duration>,
    shortened: Notify,
    /// Requests under way and answers on their way out.
    users: Cell<usize>,
    /// When the connection is ended if nobody uses it until then.
    ends: Cell<Instant>,
}

impl Usage {
    /// When the connection may be ended at the earliest.
    fn ends(&self) -> Instant {
        if self.users.get() == 0 {
            self.ends.get()
        } else {
            Instant::now() + self.limit.get()
        }
    }
}

/// The timer of one connection; dropped with it.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    usage: Rc<Usage>,
    socket: SocketHandle,
    running: JoinHandle<()>,
}

impl IdleTimer {
    /// Starts it, on the thread of its connection.
    pub(super) fn start(socket: SocketHandle, limits: IdleLimits) -> Self {
        let usage = Rc::new(Usage {
            limits,
            limit: Cell::new(limits.next_head),
            shortened: Notify::new(),
            users: Cell::new(0),
            ends: Cell::new(Instant::now() + limits.next_head),
        });
        let running = spawn(run(Rc::clone(&usage), socket, socket.peer()));
        IdleTimer {
            usage,
            socket,
            running,
        }
    }

    /// The connection, in use for as long as this lives.
    pub(crate) fn in_use(&self) -> InUse {
        InUse::new(&self.usage, self.socket)
    }
}

impl Drop for IdleTimer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn run(usage: Rc<Usage>, socket: SocketHandle, peer: Option<SockaddrStorage>) {
    loop {
        tokio::select! {
            () = sleep_until(usage.ends()) => {}
            () = usage.shortened.notified() => {}
        }
        if usage.ends() <= Instant::now() {
            // A request may outlive its connection, and this with it: then the descriptor is
            // somebody else's.
            if socket.peer() == peer {
                socket.end();
            }
            return;
        }
    }
}

/// A connection that a request or its answer uses: so long it is not idle.
#[derive(Debug)]
pub(crate) struct InUse {
    usage: Rc<Usage>,
    socket: SocketHandle,
}

impl InUse {
    fn new(usage: &Rc<Usage>, socket: SocketHandle) -> Self {
        usage.users.set(usage.users.get() + 1);
        InUse {
            usage: Rc::clone(usage),
            socket,
        }
    }

    /// The connection below HTTP.
    pub(crate) fn socket(&self) -> SocketHandle {
        self.socket
    }

    /// Keeps the connection, once it is idle, for the rest of its last request's body only.
    pub(super) fn is_last(&self) {
        self.usage.limit.set(self.usage.limits.rest_of_body);
        self.usage.shortened.notify_one();
    }
}

impl Clone for InUse {
    fn clone(&self) -> Self {
        InUse::new(&self.usage, self.socket)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let users = self.usage.users.get() - 1;
        self.usage.users.set(users);
        if users == 0 {
            self.usage.ends.set(Instant::now() + self.usage.limit.get());
        }
    }
}
