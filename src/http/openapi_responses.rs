//! The answers of an operation in the OpenAPI document: its success, and what it can be refused for,
//! by what it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::body::Encoding;
use super::metrics;
use super::openapi_schemas::{header_refs, reference};
use super::operation::{AuthRequirement, Operation, Success, Verb};
use super::problem::Kind;

/// What it can be refused for, by what it is.
fn refusals(operation: &Operation) -> Vec<Kind> {
    let mut kinds = vec![
        Kind::InvalidRequest,
        Kind::HeadersTooLarge,
        Kind::ServerError,
        Kind::Unavailable,
    ];
    match operation.auth {
        AuthRequirement::Public => {}
        AuthRequirement::ShareLink | AuthRequirement::OAuthClient => {
            kinds.extend([Kind::Unauthorized, Kind::RateLimited]);
        }
        AuthRequirement::Key(_) | AuthRequirement::KeyOrTicket(_) => {
            kinds.extend([Kind::Unauthorized, Kind::Forbidden]);
            kinds.extend([Kind::RateLimited, Kind::QuotaExceeded]);
        }
        AuthRequirement::Metrics => kinds.extend([Kind::Unauthorized, Kind::RateLimited]),
        AuthRequirement::Operator => {
            kinds.extend([Kind::Unauthorized, Kind::Forbidden, Kind::RateLimited]);
        }
    }
    if operation.path.contains('{') {
        kinds.push(Kind::NotFound);
    }
    if operation.body.is_some() {
        kinds.extend([Kind::RequestTimeout, Kind::UnsupportedMediaType]);
        // A small form that is too large is a bad request.
        let in_its_own_right = operation.encoding != Encoding::Form || operation.large;
        kinds.extend(in_its_own_right.then_some(Kind::PayloadTooLarge));
    }
    if operation.conditional {
        kinds.push(Kind::PreconditionFailed);
    }
    if operation.repeatable {
        kinds.extend([Kind::IdempotencyInProgress, Kind::IdempotencyKeyReused]);
    }
    kinds.extend(&operation.refusals);
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

pub(super) fn responses(operation: &Operation) -> Value {
    let mut all = Map::new();
    let (status, whole) = success(operation);
    all.insert(status.to_owned(), whole);
    if let Some(name) = &operation.otherwise {
        let content = json!({"application/json": {"schema": reference(name)}});
        let words = "Nothing was made.";
        let headers = header_refs(&common(operation));
        all.insert(
            "200".to_owned(),
            json!({"description": words, "headers": headers, "content": content}),
        );
    }
    if let Some(name) = &operation.goes_on {
        let content = json!({"application/json": {"schema": reference(name)}});
        let mut headers = common(operation);
        headers.extend(["ETag", "Cache-Control"]);
        let words = "It goes on afterwards.";
        all.insert(
            "202".to_owned(),
            json!({"description": words, "headers": header_refs(&headers), "content": content}),
        );
    }
    if matches!(operation.success, Success::File) {
        let (_, mut part) = success(operation);
        if let Some(part) = part.as_object_mut() {
            let words = json!("The part of it that `Range` names.");
            part.insert("description".to_owned(), words);
            let mut headers = success_headers(operation);
            headers.push("Content-Range");
            part.insert("headers".to_owned(), header_refs(&headers));
        }
        all.insert("206".to_owned(), part);
    }
    if operation.leads_on {
        let mut names = common(operation);
        names.push("Location");
        let words = "Done: the page at `Location` shows it.";
        all.insert(
            "303".to_owned(),
            json!({"description": words, "headers": header_refs(&names)}),
        );
    }
    if tagged(operation) && operation.verb == Verb::Get {
        let mut names = vec!["ETag"];
        names.extend(purge_tags(operation));
        all.insert(
            "304".to_owned(),
            json!({"description": "You already have it.", "headers": header_refs(&names)}),
        );
    }
    for refusal in refusals_by_status(operation) {
        let shared = json!({"$ref": format!("#/components/responses/{}", refusal.name())});
        all.insert(refusal.status.to_string(), shared);
    }
    Value::Object(all)
}

fn success(operation: &Operation) -> (&'static str, Value) {
    let (status, media_type, schema) = match &operation.success {
        Success::Ok(name) => ("200", "application/json", reference(name)),
        Success::Created(name) => ("201", "application/json", reference(name)),
        Success::Accepted(name) => ("202", "application/json", reference(name)),
        Success::Page(name) => ("200", "application/json", reference(&format!("{name}Page"))),
        Success::Deleted => {
            return (
                "204",
                json!({"description": "Done.", "headers": header_refs(&common(operation))}),
            );
        }
        Success::Switched => {
            let words = "Switching protocols: frames from here on.";
            return (
                "101",
                json!({"description": words, "headers": header_refs(&common(operation))}),
            );
        }
        Success::File => {
            let schema = json!({"type": "string", "format": "binary"});
            // Whatever kind the file is of.
            ("200", "*/*", schema)
        }
        Success::Text(media_type) => {
            let schema = if *media_type == "application/json" {
                json!({"type": "object"})
            } else {
                json!({"type": "string"})
            };
            ("200", *media_type, schema)
        }
    };
    let names = success_headers(operation);
    let content = contents(operation, media_type, &schema);
    let words = if status == "201" {
        "Created."
    } else {
        "Here it is."
    };
    (
        status,
        json!({"description": words, "headers": header_refs(&names), "content": content}),
    )
}

/// The headers of a success that shows something.
fn success_headers(operation: &Operation) -> Vec<&'static str> {
    let mut names = common(operation);
    if tagged(operation) {
        names.extend(["ETag", "Cache-Control"]);
    }
    match operation.success {
        Success::Created(_) => names.push("Location"),
        Success::Page(_) => names.push("Link"),
        Success::File => names.extend(["Accept-Ranges", "Content-Disposition"]),
        Success::Ok(_)
        | Success::Accepted(_)
        | Success::Deleted
        | Success::Text(_)
        | Success::Switched => {}
    }
    if operation.repeatable {
        names.push("Idempotent-Replayed");
    }
    names.extend(purge_tags(operation));
    names
}

/// The headers by which shared caches purge what they may keep of this operation.
fn purge_tags(operation: &Operation) -> &'static [&'static str] {
    match operation.shared {
        true => &["Surrogate-Key", "Cache-Tag"],
        false => &[],
    }
}

/// A success in each media type in which it may come.
fn contents(operation: &Operation, media_type: &str, schema: &Value) -> Map<String, Value> {
    let mut content = Map::from_iter([(media_type.to_owned(), json!({"schema": schema}))]);
    if operation.streams {
        let words = "Events as they happen: `id` is the cursor, `event` the kind, `data` the event on one line.";
        let schema = json!({"type": "string", "description": words});
        content.insert("text/event-stream".to_owned(), json!({"schema": schema}));
    }
    for form in operation.forms {
        let kind = if *form == "application/json" {
            "object"
        } else {
            "string"
        };
        content.insert((*form).to_owned(), json!({"schema": {"type": kind}}));
    }
    content
}

/// What operations are refused with alike: it stands in the document once.
pub(super) struct Refusal {
    status: u16,
    kinds: Vec<Kind>,
    /// The headers that every answer of its operation has.
    headers: Vec<&'static str>,
    limited: bool,
    /// Whether people are told on a page.
    paged: bool,
    /// Whether OAuth clients are told in words of their own.
    oauth: bool,
}

pub(super) fn refusals_by_status(operation: &Operation) -> Vec<Refusal> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in refusals(operation) {
        by_status
            .entry(kind.status().as_u16())
            .or_default()
            .push(kind);
    }
    let limited = is_limited(operation);
    let paged = operation.shows_pages();
    let oauth = matches!(operation.auth, AuthRequirement::OAuthClient);
    by_status
        .into_iter()
        .map(|(status, kinds)| Refusal {
            status,
            kinds,
            headers: common(operation),
            limited,
            paged,
            oauth,
        })
        .collect()
}

impl Refusal {
    /// Its name among the shared responses, such as `conflict.idempotency_in_progress.limited`.
    pub(super) fn name(&self) -> String {
        let mut words: Vec<&str> = self.kinds.iter().map(|kind| kind.code()).collect();
        words.extend(self.limited.then_some("limited"));
        words.extend(self.paged.then_some("paged"));
        words.extend(self.oauth.then_some("oauth"));
        words.join(".")
    }

    /// What the error is in JSON; of OAuth clients also as RFC 6749 has it (section 5.2).
    fn error_schema(&self) -> Value {
        if !self.oauth {
            return reference("Error");
        }
        let own = json!({
            "type": "object",
            "required": ["error", "error_description"],
            "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
        });
        json!({"anyOf": [reference("Error"), own]})
    }

    pub(super) fn response(&self) -> Value {
        let words: Vec<String> = self
            .kinds
            .iter()
            .map(|kind| format!("`{}`: {}.", kind.code(), kind.message()))
            .collect();
        let mut names = self.headers.clone();
        match self.status {
            401 => names.push("WWW-Authenticate"),
            416 => names.push("Content-Range"),
            429 | 503 => names.push("Retry-After"),
            _ => {}
        }
        let mut content = json!({
            "application/json": {"schema": self.error_schema()},
            "application/problem+json": {"schema": reference("ProblemDetails")},
        });
        if let (Value::Object(forms), true) = (&mut content, self.paged) {
            forms.insert(
                "text/html".to_owned(),
                json!({"schema": {"type": "string"}}),
            );
        }
        json!({"description": words.join(" "), "headers": header_refs(&names), "content": content})
    }
}

/// Whether its answers show a key's limits.
pub(super) fn is_limited(operation: &Operation) -> bool {
    matches!(
        operation.auth,
        AuthRequirement::Key(_) | AuthRequirement::KeyOrTicket(_)
    )
}

/// The headers that every answer of this operation has.
fn common(operation: &Operation) -> Vec<&'static str> {
    let mut names = vec!["X-Request-Id", "X-API-Version"];
    if is_limited(operation) {
        names.extend([
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "RateLimit-Policy",
            "RateLimit",
        ]);
    }
    names
}

/// Whether its success bears an entity tag.
pub(super) fn tagged(operation: &Operation) -> bool {
    match operation.success {
        Success::Ok(_) | Success::Created(_) | Success::Accepted(_) | Success::Page(_) => true,
        Success::File => true,
        Success::Deleted => false,
        Success::Switched => false,
        Success::Text(media_type) => {
            !media_type.starts_with("text/plain") && media_type != metrics::MEDIA_TYPE
        }
    }
}
