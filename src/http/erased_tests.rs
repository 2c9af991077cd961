//! Events of erased documents: made from the schemas of the OpenAPI document, with a word wherever
//! a word can stand. Nothing of it stays, everything else does, and what is left still has the
//! shape that the interface promises.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use colloquy_actors::erasures::redacted;
use colloquy_model::event_kind::EventKind;
use serde_json::{Map, Value, json};

use super::openapi::document;
use super::routes;
use crate::config::Config;

/// What stands wherever somebody can write something.
const MARKER: &str = "Marker-7f3a";
const TIME: &str = "2026-03-15T10:30:00.000Z";

struct Schemas(Value);

impl Schemas {
    fn new() -> Self {
        Schemas(document(
            &routes::operations(),
            &Config::of_defaults(),
            "http://localhost",
        ))
    }

    fn named(&self, name: &str) -> &Value {
        let found = &self.0["components"]["schemas"][name];
        assert!(found.is_object(), "no schema {name}");
        found
    }

    /// The schema itself, not a reference to it or a choice between it and null.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.resolved(self.0.pointer(reference.trim_start_matches('#')).unwrap());
        }
        for choices in ["oneOf", "anyOf", "allOf"] {
            if let Some(choice) = schema[choices]
                .as_array()
                .and_then(|all| all.iter().find(|one| one["type"] != "null"))
            {
                return self.resolved(choice);
            }
        }
        schema
    }

    /// Whether null may stand there.
    fn nullable(&self, schema: &Value) -> bool {
        let in_type = schema["type"]
            .as_array()
            .is_some_and(|kinds| kinds.contains(&json!("null")));
        let in_choice = schema["oneOf"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == "null"));
        in_type || in_choice
    }

    fn kind<'a>(&'a self, schema: &'a Value) -> &'a str {
        let kinds = schema["type"]
            .as_array()
            .into_iter()
            .flatten()
            .chain([&schema["type"]]);
        kinds
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null")
            .unwrap_or("object")
    }

    /// A value of this schema, with all of its fields and one that nobody knows.
    fn value(&self, schema: &Value) -> Value {
        let schema = self.resolved(schema);
        if let Some(words) = schema["enum"].as_array() {
            return words.iter().find(|word| !word.is_null()).unwrap().clone();
        }
        match self.kind(schema) {
            "integer" => json!(7),
            "boolean" => json!(true),
            "array" => json!([self.value(&schema["items"])]),
            "object" => match schema["properties"].as_object() {
                Some(fields) => {
                    let mut made: Map<String, Value> = fields
                        .iter()
                        .map(|(name, field)| (name.clone(), self.value(field)))
                        .collect();
                    made.insert("added_later".to_owned(), json!({MARKER: [MARKER, 17]}));
                    Value::Object(made)
                }
                None => json!({MARKER: {"deep": [MARKER]}, "number": 17}),
            },
            "string" => match (schema["pattern"].as_str(), schema["format"].as_str()) {
                (Some(pattern), _) if pattern.contains("_[0-9a-f]") => {
                    let prefix = pattern.trim_start_matches('^').split('_').next().unwrap();
                    json!(format!("{prefix}_0190163d8694739b85d52d5e4a4d6d5f"))
                }
                (_, Some("date-time")) => json!(TIME),
                (_, Some("email")) => json!(format!("{MARKER}@example.com")),
                _ => json!(MARKER),
            },
            kind => panic!("no value of {kind}: {schema}"),
        }
    }

    /// The data of an event of this kind: the document as lists show it, and what the kind says.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "it is asked about kinds of documents alone, and fails for others"
    )]
    fn data(&self, kind: EventKind) -> Value {
        let Value::Object(mut data) = self.value(self.named("Document")) else {
            panic!("no object")
        };
        data.remove("content");
        let mut put = |name: &str, value: Value| drop(data.insert(name.to_owned(), value));
        match kind {
            EventKind::DocumentCreated | EventKind::DocumentRestored => {}
            EventKind::DocumentUpdated => put("changes", self.changes("Document")),
            EventKind::DocumentDeleted => put("permanent", json!(true)),
            EventKind::DocumentVersionCreated | EventKind::DocumentMerged => {
                put("version", self.value(self.named("DocumentVersion")));
            }
            EventKind::DocumentShared => {
                put("share", self.value(self.named("Share")));
                put("removed", json!(true));
            }
            EventKind::DocumentPermissionsUpdated => {
                put("changes", self.changes("Permissions"));
                put(
                    "collaborators",
                    json!([self.value(self.named("Collaborator"))]),
                );
            }
            EventKind::DocumentCommented => {
                put("comment", self.value(self.named("Comment")));
                put("share_id", json!("shr_0190163d8694739b85d52d5e4a4d6d5f"));
            }
            other => panic!("{other:?} is of no document"),
        }
        Value::Object(data)
    }

    fn changes(&self, name: &str) -> Value {
        let fields = self.named(name)["properties"].as_object().unwrap();
        let change = |field| json!({"from": self.value(field), "to": self.value(field)});
        Value::Object(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), change(field)))
                .collect(),
        )
    }

    /// Fails unless what was left of a value still fits its schema, and keeps all that is no word.
    fn assert_left(&self, schema: &Value, before: &Value, after: &Value, at: &str) {
        let nullable = self.nullable(schema);
        let schema = self.resolved(schema);
        let free = before.to_string().contains(MARKER);
        match (before, after) {
            (Value::Object(before), Value::Object(after)) if schema["properties"].is_object() => {
                for (name, field) in schema["properties"].as_object().unwrap() {
                    if let Some(before) = before.get(name) {
                        self.assert_left(field, before, &after[name], &format!("{at}.{name}"));
                    }
                }
            }
            (Value::Array(before), Value::Array(after)) => {
                assert_eq!(before.len(), after.len(), "{at}");
                for (before, after) in before.iter().zip(after) {
                    self.assert_left(&schema["items"], before, after, at);
                }
            }
            (_, after) if free => {
                let fits = match after {
                    Value::Null => nullable,
                    Value::String(text) => {
                        text.is_empty()
                            && self.kind(schema) == "string"
                            && schema["format"].is_null()
                    }
                    Value::Object(fields) => fields.is_empty() && self.kind(schema) == "object",
                    Value::Array(items) => items.is_empty() && self.kind(schema) == "array",
                    Value::Bool(_) | Value::Number(_) => false,
                };
                assert!(fits, "{at} is {after}, which is no {schema}");
            }
            (before, after) => assert_eq!(before, after, "{at} is no word, and stays"),
        }
    }
}

#[test]
fn events_of_erased_documents_hold_no_word_and_everything_else() {
    let schemas = Schemas::new();
    let of_documents: Vec<EventKind> = EventKind::EVENTS
        .iter()
        .copied()
        .filter(|kind| kind.is_of_document())
        .collect();
    assert_eq!(of_documents.len(), 9);
    for kind in of_documents {
        let before = schemas.data(kind);
        assert!(before.to_string().matches(MARKER).count() >= 3, "{before}");
        let left = redacted(before.to_string().as_bytes());
        let text = String::from_utf8(left).unwrap();
        assert!(
            !text.contains(MARKER) && !text.contains("17"),
            "{kind:?}: {text}"
        );
        let after: Value = serde_json::from_str(&text).unwrap();
        let parts = [
            ("Document", ""),
            ("DocumentVersion", "version"),
            ("Share", "share"),
            ("Comment", "comment"),
            ("Collaborator", "collaborators"),
        ];
        for (name, part) in parts {
            let (before, after) = if part.is_empty() {
                (&before, &after)
            } else {
                (&before[part], &after[part])
            };
            match before {
                Value::Object(fields) if part.is_empty() && fields["version"].is_object() => {
                    // Here the version is told as a whole.
                    let mut schema = schemas.named(name).clone();
                    schema["properties"]["version"] =
                        json!({"$ref": "#/components/schemas/DocumentVersion"});
                    schemas.assert_left(&schema, before, after, "document");
                }
                Value::Object(_) => schemas.assert_left(schemas.named(name), before, after, name),
                Value::Array(_) => {
                    schemas.assert_left(
                        &json!({"type": "array", "items": schemas.named(name)}),
                        before,
                        after,
                        part,
                    );
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        for field in ["permanent", "removed", "share_id"] {
            assert_eq!(before[field], after[field], "{kind:?}.{field}");
        }
        assert!(
            before["changes"].is_null() || after["changes"] == json!({}),
            "{kind:?}: {after}"
        );
    }
}

#[test]
fn kept_answers_of_erased_documents_hold_no_word_and_fit_their_schemas() {
    let schemas = Schemas::new();
    for name in [
        "Document",
        "DocumentVersion",
        "Comment",
        "Share",
        "Collaborator",
    ] {
        let mut before = schemas.value(schemas.named(name));
        // A document's answer is kept without its content.
        before.as_object_mut().unwrap().remove("content");
        let after: Value =
            serde_json::from_slice(&redacted(before.to_string().as_bytes())).unwrap();
        assert!(!after.to_string().contains(MARKER), "{name}: {after}");
        schemas.assert_left(schemas.named(name), &before, &after, name);
    }
}
