//! An account: the customer of the platform. It has a plan and owns everything else.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::AccountId;
use crate::present::present;
use crate::text::Name;
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

/// Makes an account.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAccount {
    /// Need not be unique.
    pub name: Name,
    /// Default: `basic`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub plan: Option<Plan>,
    /// Requests a minute; `enterprise` only, and required there.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub rate_per_minute: Option<u32>,
    /// At least the rate; `enterprise` only. Default: 1.5 times the rate.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 15_000_000)]
    pub burst_per_minute: Option<u32>,
    /// Addresses that may use its keys (CIDR); empty: all.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
}

/// Changes an account.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeAccount {
    /// Need not be unique.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<Name>,
    /// The plan from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub plan: Option<Plan>,
    /// Requests a minute; `enterprise` only.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 10_000_000)]
    pub rate_per_minute: Option<u32>,
    /// At least the rate; `enterprise` only.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 15_000_000)]
    pub burst_per_minute: Option<u32>,
    /// Addresses that may use its keys (CIDR); empty: all.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub allowed_ips: Option<Vec<IpNet>>,
}

/// An account as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    /// Names it.
    pub account_id: AccountId,
    /// Need not be unique.
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
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}
