//! Tickets that open a realtime connection, where several nodes share the store: what one node
//! issued opens a connection at any of them, once. A node that is alone keeps them in memory.

use super::{Later, ReadError};
use colloquy_model::access_token::Bearer;
use colloquy_model::id::UserId;
use colloquy_model::key::SecretHash;
use colloquy_model::time::Timestamp;

/// What a ticket stands for: what it was made with, and until when it opens a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The small number of the account.
    pub account: u32,
    /// What it was made with.
    pub bearer: Bearer,
    /// The user that this acts for.
    pub user: Option<UserId>,
    /// Whether the request that made it was signed.
    pub signed: bool,
    /// The instant from which on it opens nothing.
    pub ends_at: Timestamp,
}

/// The tickets of all nodes, each by the hash of its text. Every answer is that of the database: no
/// node holds any of them in memory.
pub trait SharedTickets: Send + Sync + 'static {
    /// Keeps a ticket until it ends or is redeemed. Of an account's tickets only so many wait:
    /// beyond that the oldest are void.
    fn issue(
        &self,
        hash: SecretHash,
        ticket: Ticket,
        per_account: usize,
    ) -> Later<Result<(), ReadError>>;

    /// The ticket with this hash, if it was not redeemed. It may have ended.
    fn find(&self, hash: SecretHash) -> Later<Result<Option<Ticket>, ReadError>>;

    /// Uses the ticket up; false where there is none any more. Of all who try, at all nodes, one
    /// is told true.
    fn redeem(&self, hash: SecretHash) -> Later<Result<bool, ReadError>>;
}
