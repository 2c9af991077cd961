//! What the operations of the OpenAPI document share: schemas of errors and pages, and headers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::problem::Kind;
use super::query::OFFSET_MAX;

/// A schema of the document, by its name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Headers of the document, by their names.
pub(super) fn header_refs(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| {
            (
                (*name).to_owned(),
                json!({"$ref": format!("#/components/headers/{name}")}),
            )
        })
        .collect()
}

pub(super) fn headers() -> Value {
    let of = |kind: &str, description: &str| json!({"description": description, "schema": {"type": kind}});
    json!({
        "X-Request-Id": of("string", "The request's name: yours, or one that we made."),
        "X-API-Version": of("string", "The interface's version."),
        "X-RateLimit-Limit": of("integer", "Requests a minute."),
        "X-RateLimit-Remaining": of("integer", "What is left of them in the last 60 seconds. What passed at another node of the same database counts a good second \
             later; until then n nodes together may let up to n times the burst pass."),
        "X-RateLimit-Reset": of("integer", "When they would be whole again, in Unix seconds."),
        "RateLimit-Policy": of("string", "The limits by name."),
        "RateLimit": of("string", "What is left of each limit, by name."),
        "ETag": of("string", "The entity tag of what is shown."),
        "Cache-Control": of("string", "How it may be kept."),
        "Surrogate-Key": of("string", "What shared caches purge it by, between spaces: its document, its link, `share-links`. Only where \
             `[shared_caches]` is set, and the link is one whose answers they may keep."),
        "Cache-Tag": of("string", "The same as `Surrogate-Key`, between commas."),
        "Location": of("string", "The path of what was created."),
        "Link": of("string", "The next and the previous page (RFC 8288)."),
        "Idempotent-Replayed": of("string", "`true` where the answer is that of an earlier request with the same key."),
        "Accept-Ranges": of("string", "`bytes`: parts of it may be asked for."),
        "Content-Range": of("string", "Which part of how many bytes it is; with 416 `bytes */` and how many there are."),
        "Content-Disposition": of("string", "`inline` of an image that browsers show safely, otherwise `attachment`; and the file's name, where it has one."),
        "WWW-Authenticate": of("string", "`Bearer`."),
        "Retry-After": of("integer", "Seconds to wait."),
    })
}

pub(super) fn shared_schemas() -> BTreeMap<String, Value> {
    let codes: Vec<&str> = Kind::ALL.iter().map(|kind| kind.code()).collect();
    let details = json!({
        "type": "object",
        "required": ["field", "reason"],
        "properties": {
            "field": {"type": "string", "description": "The parameter at fault; empty where none is."},
            "reason": {"type": "string", "description": "What it must be, or why not."},
            "outcome": {"type": "string", "enum": ["none", "unknown"],
                "description": "With 500 and 503: whether nothing was done, or nobody knows."},
        },
    });
    let error = json!({
        "type": "object",
        "required": ["error"],
        "additionalProperties": false,
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "additionalProperties": false,
            "properties": {
                "code": {"type": "string", "enum": codes},
                "message": {"type": "string", "description": "What happened, and what to do about it."},
                "details": details,
            },
        }},
    });
    let problem = json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "code", "details"],
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
            "detail": {"type": "string"}, "instance": {"type": "string"},
            "code": {"type": "string", "enum": codes}, "details": details,
        },
    });
    let meta = json!({
        "type": "object",
        "required": ["total", "limit", "offset"],
        "additionalProperties": false,
        "properties": {
            "total": {"type": "integer", "minimum": 0, "description": "How many the whole list has."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "offset": {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX},
        },
    });
    BTreeMap::from([
        ("Error".to_owned(), error),
        ("ProblemDetails".to_owned(), problem),
        ("PageMeta".to_owned(), meta),
    ])
}

pub(super) fn page_schema(item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["data", "meta"],
        "additionalProperties": false,
        "properties": {
            "data": {"type": "array", "items": reference(item)},
            "meta": reference("PageMeta"),
        },
    })
}
