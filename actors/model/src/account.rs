//! An account as the interface shows it.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::DomainView;
use crate::id::AccountId;
use crate::time::Timestamp;

/// What an account has booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Plan {
    /// 100 requests a minute, bursts of 150.
    Basic,
    /// 500 requests a minute, bursts of 750.
    Pro,
    /// Whatever the account says.
    Enterprise,
}

/// An account as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    /// The identifier of the account.
    pub account_id: AccountId,
    /// The name for people; it need not be unique.
    pub name: String,
    /// What it has booked.
    pub plan: Plan,
    /// Requests a minute that each of its keys may make.
    pub rate_per_minute: u32,
    /// The most requests in any minute.
    pub burst_per_minute: u32,
    /// Requests per calendar month; 0: no bound.
    pub monthly_quota: u64,
    /// Addresses that may use its keys; empty: all.
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
    /// After how long without a message a conversation closes; null: never.
    pub auto_close_after_minutes: Option<u32>,
    /// Host names of its own at which it is reached, once they are proven.
    #[serde(default)]
    pub domains: Vec<DomainView>,
    /// Origins whose pages may call; null: those that config.toml names.
    #[serde(default)]
    pub cors_origins: Option<Vec<String>>,
    /// How many days a closed conversation is kept; then it is erased. Null: for ever.
    pub retention_days: Option<u32>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// When the keys of its texts were destroyed: nobody comes in any more. Absent: they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub forgotten_at: Option<Timestamp>,
}

/// The keys that encrypt an account's texts: the last one encrypts, the others read what was
/// encrypted before. None, where texts are not encrypted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TextKeys(pub Vec<[u8; 32]>);

impl fmt::Debug for TextKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TextKeys").field(&self.0.len()).finish()
    }
}

/// The small number that stands for an account in every row of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountNumber(pub u32);
