//! The listener: how many workers, which time-outs, and each worker's share of the actors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServiceRequest, fn_service};
use actix_web::http::KeepAlive;
use actix_web::{App, HttpServer};

use super::dispatch::serve;
use super::edge::Edge;
use crate::config;

/// Connections that may wait to be taken.
const BACKLOG: u32 = 2_048;

/// A socket that is bound and does not listen yet.
pub(crate) struct Bound {
    listener: std::net::TcpListener,
    /// Where it will listen, with the real port.
    pub(crate) address: SocketAddr,
}

/// Takes the address. What is asked before the server runs waits.
pub(crate) fn bind(settings: &config::Server) -> io::Result<Bound> {
    let listener = std::net::TcpListener::bind(settings.bind.as_str())?;
    if settings.write_timeout_seconds > 0.0 {
        // Accepted connections inherit it. Nothing else ends one whose reader stopped reading, or is gone without a word.
        let most = Duration::from_secs_f64(settings.write_timeout_seconds);
        socket2::SockRef::from(&listener).set_tcp_user_timeout(Some(most))?;
    }
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

impl Bound {
    /// Serves until it is stopped.
    pub(crate) fn serve(self, settings: &config::Server, edge: Arc<Edge>) -> io::Result<Server> {
        let seconds = Duration::from_secs_f64;
        let connections = Arc::clone(&edge.connections);
        let connections_max = edge.connections_max;
        let app = move || {
            edge.system.register_worker();
            let edge = Arc::clone(&edge);
            App::new().default_service(fn_service(move |request: ServiceRequest| serve(Arc::clone(&edge), request)))
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = if settings.workers == 0 { cores } else { settings.workers };
        let server = HttpServer::new(app)
            .workers(workers)
            // Of each worker. Beyond it new ones wait until others have ended.
            .max_connections(connections_max.div_ceil(workers))
            .backlog(BACKLOG)
            .tcp_nodelay(true)
            .keep_alive(KeepAlive::Timeout(seconds(settings.keep_alive_seconds)))
            .client_request_timeout(seconds(settings.request_head_timeout_seconds))
            // Also how long the rest of a body is read after an early answer.
            .client_disconnect_timeout(seconds(settings.linger_seconds))
            .shutdown_timeout(whole(settings.drain_seconds))
            .disable_signals()
            .on_connect(move |connection, with| connections.note(connection, with))
            .listen(self.listener)?;
        Ok(server.run())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: 0 to 86,400")]
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}
