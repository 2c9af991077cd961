//! HTTP: requests in, messages to actors, answers out. Knows status codes and headers; knows no
//! rule of the business and no store.
//!
//! - `routes/` the table of operations, and one file of handlers per resource
//! - `operation.rs` a row of that table; `router.rs` from a path to a row; `openapi.rs` with its
//!   parts, and `docs/`: the table for readers
//! - `dispatch.rs` one request from its head to its response, each check in its order;
//!   `api_call.rs` the request as its handler receives it; `site.rs` at which host name it came in
//! - `authentication.rs`, `admission.rs` who calls and what that allows; `forwarded.rs` from where
//!   and by which scheme; `same_site.rs` from which site a form comes; `body.rs`, `json.rs`,
//!   `strict_json.rs`, `query.rs`, `conditions.rs`, `idempotency.rs` what is asked, and under which
//!   conditions
//! - `output.rs` what a handler returns; `response.rs`, `links.rs`, `headers.rs`, `accept.rs`,
//!   `cors.rs`, `deprecations.rs` the response made of it
//! - `budget.rs`, `concurrency.rs`, `response_body.rs` what bodies and answers may hold in memory,
//!   how many large answers are made at once, and how they leave
//! - `realtime/` what stays open: event streams and WebSockets
//! - `in_process.rs` the operations for the pages of the console, in `src/console/`
//! - `problem.rs` the only pairing of errors with statuses
//! - `app_state.rs` what all requests share; `metrics.rs` the registry of metrics,
//!   `request_metrics.rs` how many requests there were and how long they took, `saturation.rs` how
//!   much of what can be used is;
//!   `in_flight_requests.rs` which are under way; `request_log.rs` a line of the log for each
//! - `server.rs` the listeners; `connections.rs` who is connected, `idle.rs` for how long without a
//!   request, `pipelining.rs` how many requests are read ahead, `stream.rs` a connection as bytes,
//!   encrypted or not, `slices.rs` how much of what is long is read and written in one round,
//!   `slice.rs` whose turn that is, `lanes.rs` whose requests' turn,
//!   `http2.rs` HTTP/2, `connection_data.rs` what requests know of their connection,
//!   `client_certificate.rs` whether an operator's has one, `redirect.rs` what is answered over plain
//!   HTTP beside TLS, `socket_handle.rs` a connection below HTTP

mod accept;
mod admission;
mod api_call;
mod app_state;
mod authentication;
mod authorization;
mod body;
mod budget;
mod client_certificate;
mod concurrency;
mod conditions;
mod connection_data;
mod connections;
mod conversation_access;
mod cors;
mod csv;
mod declared_file;
mod deprecations;
mod dispatch;
mod docs;
mod forwarded;
mod headers;
mod http2;
mod idempotency;
mod idle;
mod in_flight_requests;
mod in_process;
mod json;
mod lanes;
mod links;
mod live_settings;
mod metrics;
mod openapi;
mod openapi_bounds;
mod openapi_responses;
mod openapi_schemas;
mod operation;
mod output;
mod overtaken;
mod pipelining;
mod problem;
mod query;
mod ranges;
mod realtime;
mod redirect;
mod refused;
mod request_log;
mod request_metrics;
mod request_signature;
mod response;
mod response_body;
mod router;
mod routes;
mod same_site;
mod saturation;
mod server;
mod signed_requests;
mod site;
mod slice;
mod slices;
mod socket_handle;
mod stream;
mod strict_json;

use crate::config::{Config, ConfigError};

pub(crate) use app_state::{AppState, Outbound};
pub(crate) use authentication::{address_allowed, check_is_current};
pub(crate) use authorization::{
    AuthorizationQuery, AuthorizationRequest, Unasked, check as check_authorization,
};
pub(crate) use body::{BodyReader, RawBody, read_form};
pub(crate) use budget::BudgetOwner;
pub(crate) use client_certificate::check as check_client_certificate;
pub(crate) use conditions::has_already;
pub(crate) use forwarded::is_encrypted;
pub(crate) use in_process::{Found, InProcess, Request, undecided};
pub(crate) use operation::Verb;
pub(crate) use output::FileContent;
pub(crate) use problem::{Kind, Outcome, Problem};
pub(crate) use refused::{note as note_refusal, stranger};
pub(crate) use request_metrics::{RequestTotals, bounds_ms};
pub(crate) use same_site::check_same_site;
pub(crate) use server::bind;
pub(crate) use site::Site;

#[cfg(test)]
mod erased_tests;

/// Whether the interface has what the settings deprecate.
///
/// # Errors
/// The first that it has not.
pub(crate) fn check_deprecations(config: &Config) -> Result<(), ConfigError> {
    deprecations::Deprecations::new(&routes::operations(), config).map(|_| ())
}
