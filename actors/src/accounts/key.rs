//! A key: a secret with which an account's software calls, and what that secret may do.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{AccountId, KeyId, UserId};
use crate::present::present;
use crate::text::Name;
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

/// Makes a key.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// What it may do by its kind.
    #[serde(rename = "type")]
    pub kind: KeyType,
    /// For people.
    #[serde(default)]
    pub name: Option<Name>,
    /// Narrows it to these; null: all.
    #[serde(default)]
    pub scopes: Option<Vec<Permission>>,
    /// Addresses that may use it (CIDR); empty: all.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
    /// When it ends.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The user that it acts as.
    #[serde(default)]
    pub user_id: Option<UserId>,
}

/// Changes a key.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeKey {
    /// For people.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Name>)]
    pub name: Option<Option<Name>>,
    /// Narrows it to these; null: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<Permission>>)]
    pub scopes: Option<Option<Vec<Permission>>>,
    /// Addresses that may use it (CIDR); empty: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub allowed_ips: Option<Vec<IpNet>>,
    /// When it ends; null: never.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Timestamp>)]
    pub expires_at: Option<Option<Timestamp>>,
    /// The user that it acts as; null: the account itself.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<UserId>)]
    pub user_id: Option<Option<UserId>>,
}

/// Gives a key a new secret.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// How long the old secret stays valid; default 86,400, 0: not at all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, maximum = 31_536_000)]
    pub overlap_seconds: Option<u32>,
}

/// A key as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Key)]
pub struct KeyView {
    /// Names it.
    pub key_id: KeyId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What it may do by its kind.
    #[serde(rename = "type")]
    pub kind: KeyType,
    /// For people.
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
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was used last, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The secret: shown once, where it was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub key: Option<Option<String>>,
}
