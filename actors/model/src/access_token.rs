//! An access token whose signature has been verified.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::caller::Mode;
use crate::id::{AccountId, ClientId, GrantId, UserId};
use crate::key::{Permission, SecretHash};
use crate::time::Timestamp;

/// What an access token says (RFC 9068).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// Its identifier: the claim `jti`.
    pub id: String,
    /// The client to which it was issued.
    pub client: ClientId,
    /// What it rests on; none where the client acts for the account itself.
    pub grant: Option<GrantId>,
    /// Who issued it, where that is not this server: `client` then only stands for one that is
    /// registered there.
    #[serde(default)]
    pub issuer: Option<String>,
    /// The domain of its account at which this server issued it; none at its own address. It holds as
    /// long as that is the account's.
    #[serde(default)]
    pub domain: Option<String>,
    /// The user who allowed it.
    pub user: Option<UserId>,
    /// The account whose data it opens.
    pub account: AccountId,
    /// The mode in which it opens them: live or test.
    pub mode: Mode,
    /// The permissions that it carries: the claim `scope`.
    pub scopes: Vec<Permission>,
    /// When it was issued, to the second.
    pub issued_at: Timestamp,
    /// When it ends, to the second.
    pub ends_at: Timestamp,
    /// The hash of the whole token.
    pub hash: SecretHash,
}

/// A credential that was found good, as it is looked up again while a connection is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bearer {
    /// The secret of a key or of a session, by its hash.
    Secret(SecretHash),
    /// An access token, whose signature was verified.
    Token(Arc<AccessToken>),
}
