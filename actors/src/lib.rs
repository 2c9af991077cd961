//! Everything in Colloquy that remembers: conversations, accounts, limits, and the store beneath them.

pub mod accounts;
pub mod answer;
pub mod bounds;
pub mod caller;
pub mod conversation;
pub mod id;
pub mod idempotency;
pub mod journal;
pub mod limiter;
pub mod metadata;
pub mod page;
pub mod present;
pub mod random;
pub mod runtime;
pub mod store;
pub mod text;
pub mod time;
