//! HTTP: requests in, messages to actors, answers out. Knows status codes and headers; knows no
//! rule of the business and no store.
//!
//! - `routes/` the table of operations, and one file of handlers per resource
//! - `operation.rs` a row of that table; `router.rs` from a path to a row; `openapi.rs` and `docs/`
//!   the table for readers
//! - `dispatch.rs` one request from its head to its response, each check in its order
//! - `credential.rs`, `admission.rs` who calls and what that allows; `body.rs`, `json.rs`,
//!   `query.rs`, `conditions.rs`, `idempotency.rs` what is asked, and under which conditions
//! - `reply.rs`, `respond.rs`, `links.rs`, `headers.rs`, `accept.rs`, `cors.rs` what goes back
//! - `budget.rs`, `concurrency.rs`, `outgoing.rs` what bodies and answers may hold in memory, how
//!   many large answers are made at once, and how they leave
//! - `realtime/` what stays open: event streams and WebSockets
//! - `problem.rs` the only pairing of errors with statuses
//! - `edge.rs` what all requests share; `traffic.rs` how many there were and how long they took;
//!   `metrics.rs` what operators read of that;
//!   `running.rs` which are under way; `connections.rs` who is connected, `idle.rs` for how long
//!   without a request, `pipelining.rs` how many requests are read ahead, `outlet.rs` a connection
//!   below HTTP; `server.rs` the listener

mod accept;
mod admission;
mod body;
mod budget;
mod call;
mod concurrency;
mod conditions;
mod connections;
mod cors;
mod credential;
mod dispatch;
mod docs;
mod edge;
mod headers;
mod idempotency;
mod idle;
mod json;
mod links;
mod metrics;
mod objects;
mod openapi;
mod openapi_bounds;
mod operation;
mod outgoing;
mod outlet;
mod pipelining;
mod problem;
mod query;
mod realtime;
mod reply;
mod respond;
mod router;
mod routes;
mod running;
mod server;
mod traffic;

pub(crate) use edge::Edge;
pub(crate) use server::bind;

#[cfg(test)]
mod erased_tests;
