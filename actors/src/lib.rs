//! Everything in Colloquy that remembers: conversations, accounts, limits, and the store beneath them.

pub mod accounts;
pub mod answer;
pub mod bounds;
pub mod caller;
pub mod conversation;
pub mod id;
pub mod idempotency;
pub mod metadata;
pub mod page;
pub mod present;
pub mod random;
pub mod system;
pub mod text;
pub mod time;
