//! How webhooks leave the house: one POST each, over HTTP. Follows no redirect, believes no proxy
//! of the environment, and looks at every address before it connects, so that a name that leads
//! elsewhere today than it did yesterday is no way in.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use colloquy_actors::store::Later;
use colloquy_actors::webhook::target::{self, PrivateTargets, Target, TargetError, is_special};
use colloquy_actors::webhook::{Courier, Lost, OutboundRequest, Reply};
use colloquy_runtime::threads;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, redirect, retry};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};

use crate::name_resolver::{NameResolver, RESOLVERS_MAX};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4_096;
/// Connections to one host that are kept for the next request …
const IDLE_PER_HOST_MAX: usize = 4;
/// … and how long. Receivers close theirs after 60 seconds and more.
const IDLE: Duration = Duration::from_secs(30);
/// Whose share of the resolver a request takes that was sent for no account.
pub(crate) const NO_ACCOUNT: u32 = 0;
/// How long a name is looked at before an endpoint is taken.
const LOOK: Duration = Duration::from_secs(2);

tokio::task_local! {
    /// For which account the running request is sent.
    static ACCOUNT: u32;
}

/// Brings requests over HTTP, on a thread of its own: a slow handshake keeps no actor waiting.
pub(crate) struct HttpCourier {
    client: Client,
    runtime: Handle,
    names: NameResolver,
    timeout: Duration,
    targets: PrivateTargets,
    /// Ends the thread when it is dropped.
    _end: oneshot::Sender<()>,
}

/// Why nothing can be sent to webhook endpoints.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// Its thread can't be started.
    #[error("can't start the thread that sends webhooks: {0}")]
    Thread(#[from] std::io::Error),
    /// The HTTP client can't be made.
    #[error("can't prepare sending webhooks: {0}")]
    Client(#[from] reqwest::Error),
    /// Its encryption can't be set up.
    #[error("can't prepare encryption for webhooks: {0}")]
    Tls(#[from] rustls::Error),
}

impl HttpCourier {
    /// Gives each request so long, and sends to private addresses and without encryption only if
    /// that is allowed.
    pub(crate) fn start(timeout: Duration, targets: PrivateTargets) -> Result<Self, CourierError> {
        let mut runtime = Builder::new_current_thread();
        // Only names take other threads of it.
        runtime
            .thread_name("colloquy-names")
            .on_thread_start(|| threads::register("names"));
        let runtime = runtime
            .enable_all()
            .max_blocking_threads(RESOLVERS_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let names = NameResolver::new(handle.clone());
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .dns_resolver(Arc::new(PublicAddresses {
                names: names.clone(),
                targets,
            }))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .https_only(targets == PrivateTargets::Refused)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .pool_idle_timeout(IDLE)
            .build()?;
        let (end, ended) = oneshot::channel::<()>();
        threads::spawn("courier", threads::EndProcess, move || {
            colloquy_runtime::cores::mark_latency_sensitive();
            let _ = runtime.block_on(ended);
            // A name that is still being resolved would hold the end up.
            runtime.shutdown_background();
        })?;
        Ok(HttpCourier {
            client,
            runtime: handle,
            names,
            timeout,
            targets,
            _end: end,
        })
    }

    /// Judges where an endpoint wants its deliveries, as far as it can be known now: a name that
    /// does not resolve, or not soon enough, is accepted. What it resolves to later is judged again
    /// at each connect.
    pub(crate) async fn look(&self, url: &str) -> Result<(), TargetError> {
        let Target::Name(name, _) = target::check(url, self.targets)? else {
            return Ok(());
        };
        if self.targets == PrivateTargets::Allowed {
            return Ok(());
        }
        let Ok(Some(Ok(addresses))) = timeout(LOOK, self.names.look(&name)).await else {
            return Ok(());
        };
        match addresses.iter().find(|address| is_special(**address)) {
            Some(address) => Err(TargetError::Special(*address)),
            None => Ok(()),
        }
    }
}

impl Courier for HttpCourier {
    fn post(&self, request: OutboundRequest) -> Later<Result<Reply, Lost>> {
        // An address in the URL itself is never resolved, so it is judged here.
        let judged = match target::check(&request.url, self.targets) {
            Ok(_) => Ok(()),
            Err(TargetError::Special(address)) => Err(Lost::Refused(address)),
            Err(error) => Err(Lost::Broken(format!("the URL {error}"))),
        };
        let (client, deadline) = (self.client.clone(), Instant::now() + self.timeout);
        let account = request.account;
        let sending = judged.map(|()| {
            self.runtime
                .spawn(ACCOUNT.scope(account, send(client, request, deadline)))
        });
        Box::pin(async move {
            let gone = |error: JoinError| {
                let why = if error.is_panic() {
                    "the attempt failed within the server"
                } else {
                    "the server is stopping"
                };
                Err(Lost::Broken(why.to_owned()))
            };
            sending?.await.unwrap_or_else(gone)
        })
    }
}

/// TLS as rustls has it by default, with the machine's own root certificates.
pub(crate) fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        tracing::warn!(
            errors = ?found.errors,
            "no root certificates found: nothing can be sent over https; install ca-certificates or set SSL_CERT_FILE"
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn send(client: Client, request: OutboundRequest, deadline: Instant) -> Result<Reply, Lost> {
    let OutboundRequest {
        account: _,
        url,
        headers,
        body,
    } = request;
    let request = headers
        .into_iter()
        .fold(client.post(url).body(body), |request, (name, value)| {
            request.header(name, value)
        });
    let response = timeout_at(deadline, request.send())
        .await
        .map_err(|_| Lost::TimedOut)?
        .map_err(|error| why(&error))?;
    let (status, retry_after) = (
        response.status().as_u16(),
        retry_after(response.headers(), SystemTime::now()),
    );
    Ok(Reply {
        status,
        retry_after,
        answer: answer(response, deadline).await,
    })
}

/// The first bytes of what it says. The status has come already, so what fails from here on fails
/// no delivery.
async fn answer(mut response: Response, deadline: Instant) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX
        && let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await
    {
        bytes.extend(chunk.iter().take(ANSWER_BYTES_MAX - bytes.len()));
    }
    String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}")
}

/// How long the receiver asks to be left alone by `Retry-After`: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// What stood in the way, without the URL: its owner knows it, and it may hold a secret.
fn why(error: &reqwest::Error) -> Lost {
    let mut innermost: &(dyn Error + 'static) = error;
    loop {
        if let Some(Refused(address)) = innermost.downcast_ref() {
            return Lost::Refused(*address);
        }
        match innermost.source() {
            Some(source) => innermost = source,
            None => break,
        }
    }
    if error.is_timeout() {
        return Lost::TimedOut;
    }
    let stage = if error.is_connect() {
        "can't connect"
    } else {
        "the connection broke"
    };
    Lost::Broken(format!("{stage}: {innermost}"))
}

/// Resolves names as the operating system does, and lets no special-purpose address pass.
struct PublicAddresses {
    names: NameResolver,
    targets: PrivateTargets,
}

/// A name leads to an address to which nothing is sent.
#[derive(Debug)]
struct Refused(IpAddr);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a special-purpose address", self.0)
    }
}

impl Error for Refused {}

impl Resolve for PublicAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, targets) = (self.names.clone(), self.targets);
        // A connection is begun by the request that needs it, in its own task.
        let account = ACCOUNT.try_with(|account| *account).unwrap_or(NO_ACCOUNT);
        Box::pin(async move {
            let addresses = names
                .resolve(account, name.as_str())
                .await
                .map_err(|why| why.to_string())?;
            match addresses
                .iter()
                .find(|address| targets == PrivateTargets::Refused && is_special(**address))
            {
                Some(address) => Err(Refused(*address).into()),
                // The connector puts the URL's own port in the place of 0.
                None => {
                    let addresses: Vec<SocketAddr> =
                        addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
                    Ok(Box::new(addresses.into_iter()) as Addrs)
                }
            }
        })
    }
}

#[cfg(test)]
#[path = "courier_tests.rs"]
mod tests;
