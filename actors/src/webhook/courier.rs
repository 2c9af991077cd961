//! How a delivery leaves the server. The actors name no HTTP crate: the edge brings the courier.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;

use crate::store::Later;

/// One POST to a receiver, as it is to be sent.
#[derive(Debug)]
pub struct OutboundRequest {
    /// The number of the account for which it is sent: what it holds up while it is under way counts
    /// against the account's share.
    pub account: u32,
    /// The URL that it is sent to.
    pub url: String,
    /// The headers that go with it, each a name and its value.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent, byte for byte.
    pub body: Bytes,
}

/// What the receiver answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code, whatever it is.
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The first bytes of the body, as text.
    pub answer: String,
}

/// Why a request has got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No answer came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The name resolves to an address to which nothing is sent.
    #[error("the target resolves to {0}, an address to which nothing is sent")]
    Refused(IpAddr),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Broken(String),
}

/// Brings requests to receivers: follows no redirect, believes no proxy of the environment, and
/// connects to no special-purpose address unless the settings allow it.
pub trait Courier: Send + Sync + 'static {
    /// Sends it once, and waits at most as long as the settings say.
    fn post(&self, request: OutboundRequest) -> Later<Result<Reply, Lost>>;
}
