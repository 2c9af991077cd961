//! The listeners: how many workers, which time-outs, each worker's share of the actors, and a
//! connection's way to its version of HTTP.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::{BoxBody, MessageBody};
use actix_http::{Extensions, HttpService, KeepAlive, Request, Response};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{
    IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, fn_factory, fn_service,
    map_config,
};
use actix_web::App;
use actix_web::dev::{AppConfig, ServiceRequest};
use actix_web::rt::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::app_state::AppState;
use super::connection_data::ConnectionData;
use super::connections::{Admitted, Connections};
use super::dispatch::serve;
use super::pipelining::Paced;
use super::stream::Stream;
use super::{http2, redirect, slices};
use crate::config::{self, Config};
use crate::tls::ListenerTls;

/// Connections that may wait to be taken.
const BACKLOG: u32 = 2_048;
/// What HTTP/2 counts of a header beside its bytes, for as many headers as a head may have.
const HEADERS_OVERHEAD: usize = 32 * 1_024;

/// Sockets that are bound and do not listen yet.
pub(crate) struct Bound {
    listener: std::net::TcpListener,
    /// Where it will listen, with the real port.
    pub(crate) address: SocketAddr,
    /// The listener that leads from plain HTTP to HTTPS, if there is one.
    redirecting: Option<std::net::TcpListener>,
}

/// Takes the addresses. What is asked before the server runs waits.
///
/// # Errors
/// The address that can't be taken, and why.
pub(crate) fn bind(config: &Config) -> Result<Bound, (String, io::Error)> {
    let server = &config.server;
    let take = |address: &str| {
        let bound = bind_one(address, server);
        bound.map_err(|error| (address.to_owned(), error))
    };
    let (listener, address) = take(&server.bind)?;
    let from = Some(&config.tls.redirect_from).filter(|from| !from.is_empty());
    let redirecting = from.map(|from| take(from)).transpose()?;
    Ok(Bound {
        listener,
        address,
        redirecting: redirecting.map(|(listener, _)| listener),
    })
}

fn bind_one(
    address: &str,
    settings: &config::Server,
) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    if settings.write_timeout_seconds > 0.0 {
        // Accepted connections inherit it. Nothing else ends one whose reader stopped reading, or
        // is gone without a word.
        let most = Duration::from_secs_f64(settings.write_timeout_seconds);
        socket2::SockRef::from(&listener).set_tcp_user_timeout(Some(most))?;
    }
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl Bound {
    /// Serves until it is stopped.
    pub(crate) fn serve(self, settings: &config::Server, app: Arc<AppState>) -> io::Result<Server> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = if settings.workers == 0 {
            cores
        } else {
            settings.workers
        };
        let builder = Server::build();
        let reception = Reception {
            address: self.address,
            connections: Arc::clone(&app.connections),
            tls: app.tls.clone(),
            limits: Limits::new(settings, &app),
            stopping: builder.graceful_shutdown_signal(),
        };
        let mut builder = builder
            .workers(workers)
            // Of each worker. Beyond it new ones wait until others have ended.
            .max_concurrent_connections(app.connections_max.div_ceil(workers))
            .backlog(BACKLOG)
            .shutdown_timeout(whole(settings.drain_seconds))
            .disable_signals();
        if let Some(redirecting) = self.redirecting {
            let reception = Reception {
                tls: None,
                ..reception.clone()
            };
            let app = Arc::clone(&app);
            builder = builder.listen("redirect", redirecting, move || {
                let app = Arc::clone(&app);
                let answers = fn_service(move |request: Request| {
                    let app = Arc::clone(&app);
                    async move { Ok::<_, Response<BoxBody>>(redirect::answer(&app, &request).await) }
                });
                reception.clone().receive(answers)
            })?;
        }
        let server = builder.listen("http", self.listener, move || {
            app.system.register_worker();
            let app = Arc::clone(&app);
            let requests =
                App::new().default_service(fn_service(move |request: ServiceRequest| {
                    serve(Arc::clone(&app), request)
                }));
            let requests = requests
                .into_factory()
                .map_err(|error: actix_web::Error| error.error_response());
            reception
                .clone()
                .receive(map_config(requests, |()| AppConfig::default()))
        })?;
        Ok(server.run())
    }
}

/// How long connections may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    keep_alive: Duration,
    head: Duration,
    linger: Duration,
    http2: http2::Limits,
}

impl Limits {
    fn new(settings: &config::Server, app: &AppState) -> Self {
        let seconds = Duration::from_secs_f64;
        let (keep_alive, head) = (
            seconds(settings.keep_alive_seconds),
            seconds(settings.request_head_timeout_seconds),
        );
        let unsent = Some(settings.write_timeout_seconds).filter(|most| *most > 0.0);
        let head_bytes = app.request_line_bytes_max + app.header_bytes_max + HEADERS_OVERHEAD;
        Limits {
            keep_alive,
            head,
            linger: seconds(settings.linger_seconds),
            http2: http2::Limits {
                preface: head,
                idle: keep_alive,
                unsent: unsent.map(seconds),
                head_bytes: u32::try_from(head_bytes).unwrap_or(u32::MAX),
            },
        }
    }
}

/// What becomes of a connection before its first request.
#[derive(Debug, Clone)]
struct Reception {
    address: SocketAddr,
    connections: Arc<Connections>,
    /// None where bytes are not encrypted.
    tls: Option<Arc<ListenerTls>>,
    limits: Limits,
    stopping: GracefulShutdownSignal,
}

impl Reception {
    /// Has each connection's requests answered by these.
    fn receive<F, B>(
        self,
        requests: F,
    ) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = Infallible, InitError = ()>
    where
        F: ServiceFactory<Request, Config = (), InitError = ()> + 'static,
        F::Service: 'static,
        <F::Service as Service<Request>>::Future: 'static,
        F::Response: Into<Response<B>> + 'static,
        F::Error: Into<Response<BoxBody>> + 'static,
        B: MessageBody + 'static,
    {
        let requests = Rc::new(requests);
        fn_factory(move || {
            let (reception, requests) = (self.clone(), Rc::clone(&requests));
            async move {
                let requests = Rc::new(requests.new_service(()).await?);
                let http1 = reception
                    .http1(Rc::clone(&requests))
                    .new_service(())
                    .await?;
                let http1 = Rc::new(http1);
                Ok(fn_service(move |stream: TcpStream| {
                    let (reception, http1) = (reception.clone(), Rc::clone(&http1));
                    let requests = Rc::clone(&requests);
                    async move {
                        if let Some((stream, admitted)) = reception.admit(stream).await {
                            let data = ConnectionData::new(admitted, &stream);
                            if stream.is_http_2() {
                                reception.http2(requests, data).serve(stream).await;
                            } else {
                                let peer = Some(data.peer());
                                // How a connection ended is nobody's concern.
                                let _ = http1.call((Paced::new(stream, data), peer)).await;
                            }
                        }
                        Ok::<_, Infallible>(())
                    }
                }))
            }
        })
    }

    /// Lets a connection in, and shakes hands with it where it is to be encrypted. Each step of a handshake is
    /// computed at a turn, which comes when the client has spoken: a thousand may do so at the same instant. A
    /// client has the time of a first head to begin it, and as much again, from its first turn on, to end it.
    async fn admit(&self, stream: TcpStream) -> Option<(Stream, Admitted)> {
        let admitted = self.connections.admit(&stream)?;
        // It is slower without.
        let _ = stream.set_nodelay(true);
        let owner = admitted.owner.get();
        slices::begin(owner, slices::BEGINNING).await;
        let stream = match &self.tls {
            None => Stream::plain(stream, &admitted),
            Some(tls) => {
                let stopping = self.stopping.clone();
                tokio::select! {
                    biased;
                    spoken = timeout(self.limits.head, stream.readable()) => spoken.ok()?.ok()?,
                    // Nothing has come from it.
                    () = stopping.notified() => return None,
                }
                slices::begin(owner, slices::HANDSHAKE).await;
                let shaken = slices::in_steps(owner, slices::HANDSHAKE, tls.accept(stream));
                let encrypted = timeout(self.limits.head, shaken).await;
                Stream::encrypted(encrypted.ok()??, &admitted)
            }
        };
        Some((stream, admitted))
    }

    fn http1<S, B>(
        &self,
        requests: Rc<S>,
    ) -> impl ServiceFactory<(Paced, Option<SocketAddr>), Config = (), InitError = ()> + use<S, B>
    where
        S: Service<Request> + 'static,
        S::Future: 'static,
        S::Response: Into<Response<B>> + 'static,
        S::Error: Into<Response<BoxBody>> + 'static,
        B: MessageBody + 'static,
    {
        let stopping = self.stopping.clone();
        HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move {
                    stopping.notified().await;
                    slices::read_at_once();
                    // The connection is told only when it has read: then it answers what has come.
                    yield_now().await;
                }
            })
            .keep_alive(KeepAlive::Timeout(self.limits.keep_alive))
            .client_request_timeout(self.limits.head)
            // Also how long the rest of a body is read after an early answer.
            .client_disconnect_timeout(self.limits.linger)
            .local_addr(self.address)
            .on_connect_ext(|connection: &Paced, with: &mut Extensions| {
                with.insert(connection.data());
            })
            .h1(fn_factory(move || ready(Ok::<_, ()>(Rc::clone(&requests)))))
    }

    fn http2<S>(&self, service: Rc<S>, data: Rc<ConnectionData>) -> http2::Connection<S> {
        http2::Connection {
            service,
            data,
            limits: self.limits.http2,
            stopping: self.stopping.clone(),
        }
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
