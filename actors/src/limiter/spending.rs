//! Limits in step with those of other nodes: what was spent here, as it is told to them, and what
//! they tell. A node that hears of it counts it, whether it fits or not; so a limit is exceeded at
//! most by what nodes let pass before they heard of one another.

use std::sync::Arc;

use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::allowance_table::Spent;
use super::client_address::{AddressLimiter, ClientAddress};
use super::link_limiter::{LinkLimiter, LinkSpending};
use super::messages::LimitKey;
use super::rate_limiter::RateLimiter;

/// Every limit that nodes keep in step.
#[derive(Clone)]
pub struct SharedLimits {
    /// The limit of requests a minute of each API key.
    pub keys: RateLimiter,
    /// The limit of failed authentications a minute of each client address.
    pub addresses: Arc<AddressLimiter>,
    /// The limits of each share link, and of addresses that ask for them.
    pub links: Arc<LinkLimiter>,
}

/// What was spent at one node since it told the others last.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Spending {
    keys: Vec<Spent<LimitKey>>,
    addresses: Vec<Spent<ClientAddress>>,
    links: LinkSpending,
}

impl Spending {
    /// Whether nothing was spent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.addresses.is_empty() && self.links.is_empty()
    }
}

impl SharedLimits {
    /// What was spent here since this was asked last.
    pub async fn take_spent(&self) -> Spending {
        Spending {
            keys: self.keys.take_spent().await,
            addresses: self.addresses.take_spent(),
            links: self.links.take_spent(),
        }
    }

    /// Counts what was spent at another node.
    pub fn spend_elsewhere(&self, spending: Spending, now: Timestamp) {
        self.keys.spend_elsewhere(spending.keys, now);
        self.addresses.spend_elsewhere(spending.addresses, now);
        self.links.spend_elsewhere(spending.links, now);
    }
}
