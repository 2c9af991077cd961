//! Everything in Colloquy that remembers: conversations, accounts, limits, and the store beneath them.

pub mod limiter;
pub mod runtime;
