//! The black-box tests: one binary that speaks only HTTP to the real server, a file for each
//! resource.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod admin;
mod bulk;
mod check;
mod concurrency;
mod console_operators;
mod conversations;
mod cors;
mod crash;
mod customers;
mod delivery_order;
mod disk;
mod document_activity;
mod document_bounds;
mod document_comments;
mod document_crash;
mod document_diff;
mod document_history;
mod document_index;
mod document_lists;
mod document_merge;
mod document_model;
mod document_neighbours;
mod document_owners;
mod document_roles;
mod document_search;
mod document_shares;
mod document_slow_merge;
mod document_versions;
mod documents;
mod drills;
mod errors;
mod events;
mod hostile;
mod idempotency;
mod keys;
mod limits;
mod linearizability;
mod listen;
mod lists;
mod malformed;
mod messages;
mod moving;
mod nodes;
mod operations;
mod output;
mod realtime;
mod redaction;
mod released;
mod sizes;
mod sockets;
mod streams;
mod supervision;
mod support;
mod tidy;
mod timers;
mod unreadable;
mod users;
mod webhook_delivery;
mod webhook_targets;
mod webhooks;
