//! How many attempts each account's endpoints have under way together, and which of them wait for
//! one of its places. Each endpoint may always have one attempt under way.

use colloquy_model::entity_number::EntityNumber;
use std::collections::{HashMap, VecDeque};

/// What one account's endpoints have under way.
#[derive(Debug, Default)]
struct Share {
    in_flight: usize,
    /// Endpoints that would send more, whoever has waited longest first.
    waiting: VecDeque<EntityNumber>,
}

impl Share {
    fn is_unused(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }
}

/// The shares of all accounts that have something under way, by the account's number.
#[derive(Debug)]
pub(super) struct AccountShares {
    shares: HashMap<u32, Share>,
    in_flight_max: usize,
}

impl AccountShares {
    /// Nothing is under way, and of each account at most `in_flight_max` attempts will be.
    pub(super) fn new(in_flight_max: usize) -> Self {
        AccountShares {
            shares: HashMap::new(),
            in_flight_max,
        }
    }

    /// Whether an endpoint that has so many attempts under way may begin another one.
    pub(super) fn has_place(&self, account: u32, endpoint_in_flight: usize) -> bool {
        let in_flight = self.shares.get(&account).map_or(0, |share| share.in_flight);
        in_flight < self.in_flight_max || endpoint_in_flight == 0
    }

    /// An attempt begins, and takes a place.
    pub(super) fn take_place(&mut self, account: u32) {
        self.shares.entry(account).or_default().in_flight += 1;
    }

    /// An endpoint would send more: it is told when a place is free.
    pub(super) fn wait(&mut self, account: u32, endpoint: EntityNumber) {
        let share = self.shares.entry(account).or_default();
        if !share.waiting.contains(&endpoint) {
            share.waiting.push_back(endpoint);
        }
    }

    /// An attempt is over: gives the endpoint that has waited longest for its place.
    pub(super) fn free_place(&mut self, account: u32) -> Option<EntityNumber> {
        let share = self.shares.get_mut(&account)?;
        share.in_flight = share.in_flight.saturating_sub(1);
        let next = share.waiting.pop_front();
        if share.is_unused() {
            self.shares.remove(&account);
        }
        next
    }

    /// Whether no account has anything under way.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }
}
