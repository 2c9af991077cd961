//! The black-box tests: one binary that speaks only HTTP to the real server, a file for each resource.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod admin;
mod bulk;
mod concurrency;
mod conversations;
mod crash;
mod customers;
mod disk;
mod errors;
mod idempotency;
mod keys;
mod limits;
mod lists;
mod malformed;
mod messages;
mod operations;
mod output;
mod redaction;
mod sizes;
mod support;
mod tidy;
mod timers;
mod users;
