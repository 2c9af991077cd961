//! Everything in Colloquy that remembers: conversations, accounts, limits, and the store beneath them.

pub mod accounts;
pub mod answer;
mod bootstrap;
pub mod bounds;
pub mod caller;
mod chores;
pub mod conversation;
pub mod id;
pub mod idempotency;
pub mod journal;
pub mod limiter;
pub mod metadata;
pub mod metrics;
pub mod page;
pub mod present;
pub mod random;
pub mod runtime;
pub mod store;
pub mod system;
pub mod text;
pub mod time;
