//! The black-box tests: one binary that speaks only HTTP to the real server, a file for each
//! resource.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod addresses;
mod admin;
mod alerts;
mod analytics;
mod assigned;
mod attachments;
mod audit;
mod audit_chain;
mod backups;
mod bulk;
mod check;
mod concurrency;
mod console;
mod console_documents;
mod console_operators;
mod conversation_search;
mod conversations;
mod cors;
mod crash;
mod customers;
mod delivery_order;
mod deprecations;
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
mod encrypted_texts;
mod encryption;
mod errors;
mod events;
mod filters;
mod headers;
mod hostile;
mod idempotency;
mod keys;
mod limits;
mod linearizability;
mod listen;
mod lists;
mod logs;
mod malformed;
mod messages;
mod metrics;
mod moving;
mod nodes;
mod oauth;
mod operations;
mod output;
mod quotas;
mod realtime;
mod redaction;
mod released;
mod reload;
mod scopes;
mod service_manager;
mod settings;
mod share_pages;
mod signatures;
mod sizes;
mod sockets;
mod streams;
mod supervision;
mod support;
mod tidy;
mod timers;
mod tls;
mod unreadable;
mod usage;
mod users;
mod webhook_delivery;
mod webhook_targets;
mod webhooks;
