//! Domains of accounts: host names of their own at which they are reached.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Before a host name: where the TXT record stands that proves whose it is.
const TXT_PREFIX: &str = "_colloquy.";

/// Whether it is certain that a domain is the account's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DomainState {
    /// Its TXT record has not been found: nothing is answered there yet.
    Pending,
    /// It is the account's until it is taken from its list.
    Proven,
}

/// A domain as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = Domain)]
pub struct DomainView {
    /// The host name, in small letters and A-labels.
    pub host: String,
    /// Whether the account has proven that the host name is its own.
    pub state: DomainState,
    /// Where a TXT record has to stand.
    pub txt_name: String,
    /// The text that the TXT record has to hold.
    pub txt_value: String,
    /// When the account has proven that the host name is its own.
    pub proven_at: Option<Timestamp>,
}

impl DomainView {
    /// Whether the account has proven that the host name is its own.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.state == DomainState::Proven
    }
}

/// The name of the TXT record that proves whose a host name is.
#[must_use]
pub fn txt_name(host: &str) -> String {
    format!("{TXT_PREFIX}{host}")
}

/// The longest host name for which that name is none too long for DNS (RFC 1035, 2.3.4).
pub const HOST_BYTES_MAX: usize = 253 - TXT_PREFIX.len();
