//! What the OpenAPI document says of the bounds that callers meet: they are settings, so it says
//! them in words.

use crate::config::{Config, Limits};

use super::body::Encoding;
use super::operation::Operation;

/// Says all bounds, and how what is beyond each is answered.
pub(super) fn in_words(config: &Config) -> String {
    [
        of_requests(config),
        of_texts(config),
        of_many(config),
        of_lines(config),
        of_memory(&config.limits),
    ]
    .join(" ")
}

/// How large the body of this operation may be.
pub(super) fn of_body(operation: &Operation, limits: &Limits) -> String {
    let bytes = match (operation.encoding, operation.large) {
        (Encoding::Form, false) => limits.max_form_bytes,
        (Encoding::Form | Encoding::Json, true) => limits.max_document_bytes,
        (Encoding::Json, false) => limits.max_body_bytes,
        (Encoding::File, _) => usize::try_from(limits.max_attachment_bytes).unwrap_or(usize::MAX),
    };
    format!("At most {bytes} bytes.")
}

fn of_requests(Config { limits, bounds, .. }: &Config) -> String {
    format!(
        "A request line has at most {} bytes (beyond: 400; what the parser itself refuses: 414 or 431) and {} names in its \
         query (400), a header block {} bytes (431), a body {} and where it holds a document {} bytes (413), a form {} \
         bytes and {} names (400).",
        limits.max_request_line_bytes,
        bounds.query_names_max,
        limits.max_header_bytes,
        limits.max_body_bytes,
        limits.max_document_bytes,
        limits.max_form_bytes,
        bounds.query_names_max,
    )
}

fn of_texts(Config { bounds, .. }: &Config) -> String {
    format!(
        "A message's content has at most {} bytes, a document's {}, metadata {} keys and {} bytes, a customer's name {} \
         characters, any other name or title {}, a URL {} (400). A difference as `json` or `html` has at most {} bytes \
         (400), and so have the conflicts that a merge tells of (409).",
        bounds.content_bytes_max,
        bounds.document_bytes_max,
        bounds.metadata_keys_max,
        bounds.metadata_bytes_max,
        bounds.customer_name_chars_max,
        bounds.name_chars_max,
        bounds.url_chars_max,
        bounds.diff_bytes_max,
    )
}

fn of_many(Config { limits, bounds, .. }: &Config) -> String {
    format!(
        "A message may be edited {} times (409). An account has at most {} webhook endpoints in each mode (409), each with \
         {} values for one property in its filter (400). Share links take {} requests a minute from one address and {} for \
         one link (429).",
        bounds.message_edits_max,
        bounds.webhook_endpoints_max,
        bounds.filter_values_max,
        limits.link_requests_per_address_per_minute,
        limits.link_requests_per_minute,
    )
}

fn of_lines(Config { realtime, .. }: &Config) -> String {
    format!(
        "A key may have {} event streams and WebSockets open, its account {} (429). A WebSocket has at most {} subscriptions \
         and takes {} frames a second, {} at once (an `error` frame); the sockets of an account are present in at most {} \
         conversations (an `error` frame); of its unused tickets the newest {} open one.",
        realtime.lines_per_key,
        realtime.lines_per_account,
        realtime.subscriptions_max,
        realtime.frames_per_second,
        realtime.frames_burst,
        realtime.presences_per_account,
        realtime.tickets_per_account,
    )
}

fn of_memory(limits: &Limits) -> String {
    format!(
        "Large bodies under way have at most {} bytes, large answers that wait for their readers {}, an account a quarter \
         of each (503). {} reads of an account may wait for the store (503); {} of its large answers are made at once, the \
         next ones wait.",
        limits.bodies_in_flight_bytes,
        limits.answers_in_flight_bytes,
        limits.reads_waiting_per_account,
        limits.large_answers_at_once,
    )
}
