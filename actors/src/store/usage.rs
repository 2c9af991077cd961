//! How much accounts use, by day and credential: counted in memory at each node and written behind,
//! some seconds' worth at once.

use std::sync::Arc;

use super::{Later, ReadError};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::DayUsage;

/// What was counted at a node since the slice before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSlice {
    /// Counts the slices of this process, from 1 on: one that is written again is known by it.
    pub number: u64,
    /// What was counted, each account, day and credential once.
    pub rows: Vec<AccountUsage>,
}

/// What was counted of one account, on one day and of one credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountUsage {
    /// The account's small number.
    pub account: u32,
    /// What it used.
    pub used: DayUsage,
}

/// Requests of an account that one node let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRequests {
    /// The account's small number.
    pub account: u32,
    /// The rest of the node's identifier; 0 on a store that only one node can serve.
    pub node: u64,
    /// How many.
    pub requests: u64,
}

/// Which usage of an account is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// The account's small number.
    pub account: u32,
    /// From the beginning of this day on …
    pub from: Timestamp,
    /// … to the beginning of this one.
    pub to: Timestamp,
}

/// What accounts have used.
pub trait UsageStore: Send + Sync + 'static {
    /// Adds a slice. Where that fails, some of it may have been added: handed in again before any
    /// later one, it is added once all the same.
    fn add_usage(&self, slice: Arc<UsageSlice>) -> Later<Result<(), ReadError>>;

    /// What an account used on these days, by day and credential, each once.
    fn usage(&self, query: UsageQuery) -> Later<Result<Vec<DayUsage>, ReadError>>;

    /// How many requests of each account each node has let in on this day and later.
    fn requests_since(&self, day: Timestamp) -> Later<Result<Vec<NodeRequests>, ReadError>>;
}
