//! The runtime, tried without HTTP and without a store.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step is the failure, and panics are what is tested"
)]

mod commits;
mod crashes;
mod fixture;
mod ledger;
mod mailbox;
mod memory_journal;
mod passivation;
