//! The keys that sign access tokens, as they are stored.

use serde::{Deserialize, Serialize};

use crate::time::{Timestamp, unix_ms};

/// All keys that are published: one that will sign next, one that signs, and those that signed tokens
/// which may still hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptSigningKeys(pub Vec<SigningKey>);

/// One key pair (Ed25519, RFC 8032).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SigningKey {
    /// Its name, `kid`.
    pub name: String,
    /// The public half in base64url, as a JWK has it (RFC 8037).
    pub public: String,
    /// The private half, sealed; none once it signs no more.
    pub sealed_private: Option<String>,
    /// From when on it signs; none: it comes next.
    #[serde(with = "unix_ms::option", default)]
    pub signs_from: Option<Timestamp>,
    /// Since when it signs no more.
    #[serde(with = "unix_ms::option", default)]
    pub retired_at: Option<Timestamp>,
}
