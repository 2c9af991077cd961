//! A key as the interface shows it, and its secrets as they are known: by their hashes.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use utoipa::ToSchema;

use crate::id::{AccountId, KeyId, UserId};
use crate::time::Timestamp;

/// What a key may do by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// `sk_test_`: reads and writes test data.
    Test,
    /// `sk_prod_`: reads and writes live data.
    Prod,
    /// `sk_read_`: reads live data.
    Read,
}

/// A part of the interface that a key may be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the published names say it")]
pub enum Permission {
    #[serde(rename = "conversations:read")]
    ConversationsRead,
    #[serde(rename = "conversations:write")]
    ConversationsWrite,
    /// Reading and writing the conversations that are assigned to the credential's user. No
    /// credential has it unless it is named.
    #[serde(rename = "conversations:assigned")]
    ConversationsAssigned,
    #[serde(rename = "documents:read")]
    DocumentsRead,
    #[serde(rename = "documents:write")]
    DocumentsWrite,
    #[serde(rename = "documents:share")]
    DocumentsShare,
    #[serde(rename = "webhooks:manage")]
    WebhooksManage,
    #[serde(rename = "analytics:read")]
    AnalyticsRead,
    #[serde(rename = "users:manage")]
    UsersManage,
}

impl Permission {
    /// All of them, in the order in which people are shown them.
    pub const ALL: &[Permission] = &[
        Permission::ConversationsRead,
        Permission::ConversationsWrite,
        Permission::ConversationsAssigned,
        Permission::DocumentsRead,
        Permission::DocumentsWrite,
        Permission::DocumentsShare,
        Permission::WebhooksManage,
        Permission::AnalyticsRead,
        Permission::UsersManage,
    ];
}

/// A key as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Key)]
pub struct KeyView {
    /// The identifier of the key.
    pub key_id: KeyId,
    /// The owner.
    pub account_id: AccountId,
    /// What it may do by its kind.
    #[serde(rename = "type")]
    pub kind: KeyType,
    /// A name for people to read; nothing depends on it.
    pub name: Option<String>,
    /// How its secret begins.
    pub prefix: String,
    /// How its secret ends.
    pub last4: String,
    /// What it is narrowed to; null: nothing.
    pub scopes: Option<Vec<Permission>>,
    /// Addresses that may use it; empty: all.
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// The user that it acts as.
    pub user_id: Option<UserId>,
    /// Whether it takes only signed requests (RFC 9421).
    pub require_signature: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was used last, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The secret: shown once, where it was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub key: Option<Option<String>>,
    /// The secret with which requests are signed: shown once, where it was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub signing_secret: Option<Option<String>>,
}

impl KeyType {
    /// What the secrets of a key of this kind begin with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            KeyType::Test => "sk_test_",
            KeyType::Prod => "sk_prod_",
            KeyType::Read => "sk_read_",
        }
    }
}

/// A secret as it is known: by its hash, and until when it holds.
pub type SecretHash = [u8; 32];

/// The hash under which a secret is known.
#[must_use]
pub fn secret_hash(secret: &str) -> SecretHash {
    let digest = Sha256::digest(secret.as_bytes());
    let mut hash = [0; 32];
    for (to, from) in hash.iter_mut().zip(digest) {
        *to = from;
    }
    hash
}

/// Whether two hashes are the same, in a time that tells nothing of where they differ.
#[must_use]
pub fn same_hash(one: &SecretHash, other: &SecretHash) -> bool {
    one.ct_eq(other).into()
}

/// A secret with which requests are signed: the whole text is the key of the HMAC.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret {
    /// The secret itself.
    pub secret: String,
    /// Until when it holds; none: as long as the key.
    pub until: Option<Timestamp>,
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningSecret")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// The secrets with which requests of a key may be signed.
pub type SigningSecrets = Vec<SigningSecret>;

/// A key's secrets, each with the end of its overlap.
pub type Secrets = Vec<(SecretHash, Option<Timestamp>)>;
