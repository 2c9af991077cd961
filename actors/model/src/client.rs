//! An OAuth client: software of others that asks for access to an account, and how requests meet it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::caller::{Mode, Tenant};
use crate::id::{ClientId, GrantId, UserId};
use crate::key::{Permission, Secrets};
use crate::time::Timestamp;

/// A way to get an access token (RFC 6749, 1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// A user of the account consents in a browser.
    AuthorizationCode,
    /// The client acts for the account itself.
    ClientCredentials,
    /// The client goes on after its access token has ended, without the user.
    RefreshToken,
}

/// A client as the interface shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Client)]
pub struct ClientView {
    /// The identifier of the client.
    pub client_id: ClientId,
    /// As users read it when they are asked for consent.
    pub name: String,
    /// Where browsers may be sent back to: compared whole, but for the port of a loopback address.
    pub redirect_uris: Vec<String>,
    /// How it may get access tokens.
    pub grant_types: Vec<GrantType>,
    /// The most that it may be allowed.
    pub scopes: Vec<Permission>,
    /// Whether it has a secret; an application in a browser or on a telephone can keep none.
    pub confidential: bool,
    /// Whose data it opens.
    pub mode: Mode,
    /// When it was created.
    pub created_at: Timestamp,
    /// The secret: shown once, where it was made; null for a client that has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub client_secret: Option<Option<String>>,
}

/// Tokens of a client that were ended before their time, until that comes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedTokens {
    /// By their `jti`, each with its own end.
    pub tokens: Vec<(String, Timestamp)>,
    /// All that were issued up to this instant.
    pub issued_until: Timestamp,
}

/// A client as requests meet it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownClient {
    /// What the interface shows of it.
    pub view: ClientView,
    /// The account and mode that it belongs to.
    pub tenant: Tenant,
    /// The hashes of its secrets.
    pub secrets: Secrets,
    /// Its own tokens that were ended before their time.
    pub ended: EndedTokens,
}

/// What a user has allowed a client, as requests meet it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownGrant {
    /// The identifier of the grant.
    pub id: GrantId,
    /// Who may act.
    pub client: ClientId,
    /// For whom.
    pub user: UserId,
    /// The account and mode of both.
    pub tenant: Tenant,
    /// What was allowed.
    pub scopes: Vec<Permission>,
    /// Whether it has given tokens that hold as far as it goes.
    pub is_open: bool,
    /// When it was given.
    pub given_at: Timestamp,
    /// When it ends by itself.
    pub ends_at: Timestamp,
}
