//! The listener: how many workers, which time-outs, and each worker's share of the actors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::{Extensions, HttpService, KeepAlive};
use actix_server::Server;
use actix_service::{IntoServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{AppConfig, ServiceRequest};
use actix_web::rt::net::TcpStream;

use super::app_state::AppState;
use super::dispatch::serve;
use super::pipelining::Paced;
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
        // Accepted connections inherit it. Nothing else ends one whose reader stopped reading, or
        // is gone without a word.
        let most = Duration::from_secs_f64(settings.write_timeout_seconds);
        socket2::SockRef::from(&listener).set_tcp_user_timeout(Some(most))?;
    }
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

impl Bound {
    /// Serves until it is stopped.
    pub(crate) fn serve(self, settings: &config::Server, app: Arc<AppState>) -> io::Result<Server> {
        let seconds = Duration::from_secs_f64;
        let connections = Arc::clone(&app.connections);
        let (connections_max, address) = (app.connections_max, self.address);
        let app = move || {
            app.system.register_worker();
            let app = Arc::clone(&app);
            App::new().default_service(fn_service(move |request: ServiceRequest| {
                serve(Arc::clone(&app), request)
            }))
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = if settings.workers == 0 {
            cores
        } else {
            settings.workers
        };
        let (keep_alive, head, linger) = (
            settings.keep_alive_seconds,
            settings.request_head_timeout_seconds,
            settings.linger_seconds,
        );
        let builder = Server::build();
        let stopping = builder.graceful_shutdown_signal();
        let service = move || {
            let (connections, stopping) = (Arc::clone(&connections), stopping.clone());
            let app = app()
                .into_factory()
                .map_err(|error: actix_web::Error| error.error_response());
            let requests = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                .keep_alive(KeepAlive::Timeout(seconds(keep_alive)))
                .client_request_timeout(seconds(head))
                // Also how long the rest of a body is read after an early answer.
                .client_disconnect_timeout(seconds(linger))
                .local_addr(address)
                .on_connect_ext(move |connection: &Paced, with: &mut Extensions| {
                    with.insert(connection.turns());
                    connections.note(connection.stream(), with);
                })
                .h1(map_config(app, |()| AppConfig::default()));
            fn_service(|stream: TcpStream| async move {
                // It is slower without.
                let _ = stream.set_nodelay(true);
                let address = stream.peer_addr().ok();
                Ok((Paced::new(stream), address))
            })
            .and_then(requests)
        };
        let server = builder
            .workers(workers)
            // Of each worker. Beyond it new ones wait until others have ended.
            .max_concurrent_connections(connections_max.div_ceil(workers))
            .backlog(BACKLOG)
            .shutdown_timeout(whole(settings.drain_seconds))
            .disable_signals()
            .listen("http", self.listener, service)?;
        Ok(server.run())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: 0 to 86,400"
)]
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}
