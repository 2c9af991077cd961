//! Requests to the operators' interface of the server that the settings describe.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, redirect};
use serde_json::Value;
use url::Url;

use crate::config::{Config, ConfigError};
use crate::courier::{CourierError, tls};
use crate::refusal::{innermost, refusal};
use crate::tls::of_this_server;

/// How long the server has for an answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why a request of an operator came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The settings name no address that could be asked.
    #[error("[server] bind = {0:?} is no address to ask: it needs a port, such as 127.0.0.1:8080")]
    Address(String),
    /// The settings name a certificate that can't be used.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// The settings hold no operator token.
    #[error(
        "no operator token: the first start printed it; set [admin] token in config.toml, or \
         COLLOQUY__ADMIN__TOKEN in the environment"
    )]
    NoToken,
    /// The server does not take the operator token.
    #[error(
        "the server at {0} does not take this operator token: it is [admin] token, or COLLOQUY__ADMIN__TOKEN (401)"
    )]
    WrongToken(String),
    /// The identifier is of nothing that has an actor.
    #[error("{0:?} is no id of an actor, such as conv_018f2f6e5c6a7c3e8d2b1a0f9e8d7c6b")]
    Id(String),
    /// There is no such kind, or it has nothing that could be set.
    #[error("{0:?} is no kind of actor that has settings: `colloquy supervision` shows them")]
    Kind(String),
    /// No operator has this name.
    #[error("no operator is called {0:?}: `colloquy operators` shows them")]
    NoOperator(String),
    /// One setting is given two values.
    #[error("{0} is given twice")]
    Twice(String),
    /// No server answers at the address that the settings give.
    #[error("no server answers at {address}: {why}")]
    Unreachable {
        /// The address at which a server was looked for.
        address: String,
        /// What the connection ended with.
        why: String,
    },
    /// The server refuses the request.
    #[error("{url} answers {status}: {why}")]
    Refused {
        /// The URL that was asked for.
        url: Url,
        /// The status of the server's answer.
        status: u16,
        /// Its words, with the field that they are about.
        why: String,
    },
    /// The answer has another shape than the interface promises.
    #[error("{0} does not answer as this version's server does: is it a Colloquy server?")]
    NotUnderstood(String),
    /// No HTTP client can be made on this machine.
    #[error(transparent)]
    Client(#[from] CourierError),
    /// The system gives no event loop.
    #[error("can't start: {0}")]
    Runtime(io::Error),
    /// Nobody reads what is printed.
    #[error("stdout can't be written: {0}")]
    Stdout(io::Error),
}

/// An operator's access to one server.
pub(super) struct AdminClient {
    client: Client,
    root: Url,
    token: String,
}

impl AdminClient {
    /// For the server that runs with these settings.
    ///
    /// # Errors
    /// The settings name no port or hold no token.
    pub(super) fn new(config: &Config) -> Result<Self, OperateError> {
        let bind = &config.server.bind;
        let mut root = root(bind).ok_or_else(|| OperateError::Address(bind.clone()))?;
        let tls = match of_this_server(&config.tls)? {
            Some(of_this_server) => {
                // Which never fails between these two.
                let _ = root.set_scheme("https");
                of_this_server
            }
            None => tls().map_err(CourierError::from)?,
        };
        let token = Some(config.admin.token.clone()).filter(|token| !token.is_empty());
        Ok(AdminClient {
            client: Client::builder()
                .tls_backend_preconfigured(tls)
                .redirect(redirect::Policy::none())
                .no_proxy()
                .timeout(TIMEOUT)
                .build()
                .map_err(CourierError::from)?,
            root,
            token: token.ok_or(OperateError::NoToken)?,
        })
    }

    /// What a GET of this path beneath `/admin/v1` answers.
    pub(super) async fn get(
        &self,
        path: &[&str],
        query: &[(&'static str, String)],
    ) -> Result<Vec<u8>, OperateError> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.send(self.client.get(url)).await
    }

    /// What a POST without a body answers.
    pub(super) async fn post(&self, path: &[&str]) -> Result<Vec<u8>, OperateError> {
        self.send(self.client.post(self.url(path))).await
    }

    /// What a POST with this body answers.
    pub(super) async fn make(&self, path: &[&str], body: &Value) -> Result<Vec<u8>, OperateError> {
        let request = self.client.post(self.url(path));
        let request = request.header(CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_string())).await
    }

    /// Deletes what is at this path.
    pub(super) async fn delete(&self, path: &[&str]) -> Result<(), OperateError> {
        let deleted = self.send(self.client.delete(self.url(path))).await;
        deleted.map(|_| ())
    }

    /// What a PATCH with this body answers.
    pub(super) async fn patch(&self, path: &[&str], body: &Value) -> Result<Vec<u8>, OperateError> {
        let request = self.client.patch(self.url(path));
        let request = request.header(CONTENT_TYPE, "application/json");
        self.send(request.body(body.to_string())).await
    }

    /// That the server's answer has another shape than was expected.
    pub(super) fn not_understood(&self) -> OperateError {
        OperateError::NotUnderstood(self.address())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, OperateError> {
        let unreachable = |error: reqwest::Error| OperateError::Unreachable {
            address: self.address(),
            why: innermost(&error),
        };
        let response = request.bearer_auth(&self.token).send().await;
        let response = response.map_err(unreachable)?;
        match response.status().as_u16() {
            200 | 201 | 202 | 204 => Ok(response.bytes().await.map_err(unreachable)?.into()),
            401 => Err(OperateError::WrongToken(self.address())),
            status @ 400.. => Err(OperateError::Refused {
                url: response.url().clone(),
                status,
                why: refusal(response).await,
            }),
            _ => Err(self.not_understood()),
        }
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.root.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(["admin", "v1"]).extend(path);
        }
        url
    }

    fn address(&self) -> String {
        self.root.as_str().trim_end_matches('/').to_owned()
    }
}

/// Where a server that is bound to this address is found on its own machine.
fn root(bind: &str) -> Option<Url> {
    let host = match bind.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => return None,
        Ok(address) => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
            };
            SocketAddr::new(ip, address.port()).to_string()
        }
        // A name with a port, such as localhost:8080.
        Err(_) => {
            let (_, port) = bind.rsplit_once(':')?;
            port.parse::<u16>().ok().filter(|port| *port != 0)?;
            bind.to_owned()
        }
    };
    Url::parse(&format!("http://{host}")).ok()
}

#[cfg(test)]
mod tests {
    use super::root;

    #[test]
    fn the_server_is_asked_on_its_own_machine() {
        let found = |bind| root(bind).map(String::from);
        let local = |url: &str| Some(url.to_owned());
        assert_eq!(found("127.0.0.1:8080"), local("http://127.0.0.1:8080/"));
        assert_eq!(found("0.0.0.0:80"), local("http://127.0.0.1/"));
        assert_eq!(found("[::]:8080"), local("http://[::1]:8080/"));
        assert_eq!(found("localhost:8080"), local("http://localhost:8080/"));
        assert_eq!((found("127.0.0.1:0"), found("localhost")), (None, None));
    }
}
