//! Who asks, for which account and in which mode. What the edge has found out travels with each
//! command.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{KeyId, UserId};

/// Live or test: two worlds of one account that never see each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Real customers.
    Live,
    /// Play data.
    Test,
}

/// Whose data something is: an account's in one mode, an account's in both, or the operators'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(i64);

impl Tenant {
    /// Belongs to no account: accounts themselves.
    pub const OPERATORS: Tenant = Tenant(0);

    /// What belongs to the account in one mode. `account` is the small number that the store gave
    /// it.
    #[must_use]
    pub fn of(account: u32, mode: Mode) -> Self {
        Tenant(i64::from(account) * 4 + if mode == Mode::Live { 1 } else { 2 })
    }

    /// What belongs to the account in both modes: users and keys.
    #[must_use]
    pub fn account(account: u32) -> Self {
        Tenant(i64::from(account) * 4)
    }

    /// The account-wide tenant that this one lies in.
    #[must_use]
    pub fn account_wide(self) -> Self {
        Tenant(self.0 & !3)
    }

    /// The small number of the account that it belongs to; 0: to none.
    #[must_use]
    pub fn account_number(self) -> u32 {
        u32::try_from(self.0 / 4).unwrap_or(0)
    }

    /// The number by which the store writes it: four for each account.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0
    }

    /// Reads back what [`Tenant::number`] gave.
    #[must_use]
    pub fn from_number(number: i64) -> Self {
        Tenant(number)
    }
}

/// Who did it: stands in the row of every change.
#[derive(Debug, Clone)]
pub struct Actor {
    /// The key that was used; none for an operator and for the server itself.
    pub key: Option<KeyId>,
    /// The user in whose name it was done, if any.
    pub user: Option<UserId>,
    /// Where the request came from.
    pub address: Option<IpAddr>,
    /// The request's identifier, as its answer shows it.
    pub request_id: Arc<str>,
}

impl Actor {
    /// The server itself, by a chore of this name.
    #[must_use]
    pub fn server(chore: &'static str) -> Self {
        Actor {
            key: None,
            user: None,
            address: None,
            request_id: Arc::from(chore),
        }
    }
}

/// The sender of a command: whose data is meant, and who acts on it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What it may see and change.
    pub tenant: Tenant,
    /// The user or key that acts, as events and activities name it.
    pub actor: Actor,
}
