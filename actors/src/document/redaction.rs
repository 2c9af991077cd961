//! What stays of a document's events and kept answers once it is erased: identifiers, numbers,
//! times and words of the interface, each where it is known to stand. Whatever stands elsewhere
//! goes, what is added to an event later too.

use serde_json::{Map, Value};

use super::access::{DocumentRole, Visibility};
use super::names::{ContentType, MAIN};
use crate::redaction::{Kept, Redaction, is_one};

/// All fields that may keep something. What a caller named (keys of metadata) stands in none of
/// these.
const KEPT: &[(&str, Kept)] = &[
    ("id", Kept::Ids),
    ("document_id", Kept::Ids),
    ("comment_id", Kept::Ids),
    ("share_id", Kept::Ids),
    ("user_id", Kept::Ids),
    ("owner_id", Kept::Ids),
    ("created_by", Kept::Ids),
    ("updated_by", Kept::Ids),
    ("author", Kept::Ids),
    ("parents", Kept::Ids),
    ("version_number", Kept::Count),
    ("number", Kept::Count),
    ("start_line", Kept::Count),
    ("end_line", Kept::Count),
    ("max_uses", Kept::Count),
    ("uses", Kept::Count),
    ("has_password", Kept::Truth),
    ("outdated", Kept::Truth),
    ("permanent", Kept::Truth),
    ("removed", Kept::Truth),
    ("resolved", Kept::Truth),
    ("up_to_date", Kept::Truth),
    ("link_sharing", Kept::Truth),
    ("added_at", Kept::Time),
    ("created_at", Kept::Time),
    ("expires_at", Kept::Time),
    ("updated_at", Kept::Time),
    ("branch", Kept::Word(|word| word == MAIN)),
    ("content_type", Kept::Word(is_one::<ContentType>)),
    ("default_role", Kept::Word(is_one::<DocumentRole>)),
    ("role", Kept::Word(is_one::<DocumentRole>)),
    ("visibility", Kept::Word(is_one::<Visibility>)),
    ("collaborators", Kept::Inside),
    ("comment", Kept::Inside),
    ("share", Kept::Inside),
    // The version of an event is an object, that of a document or a comment an identifier.
    ("version", Kept::Inside),
];

/// What may stay of a document's JSON.
const REDACTION: Redaction = Redaction { kept: KEPT, empty };

/// A document's JSON without what people wrote: what an event or a kept answer of an erased one still
/// shows.
#[must_use]
pub(crate) fn redacted(fields: Map<String, Value>) -> Map<String, Value> {
    REDACTION.of(fields)
}

/// What stands in a field that keeps nothing: the interface promises some a shape.
fn empty(name: &str) -> Value {
    match name {
        "title" | "body" | "merged" | "branch" => Value::String(String::new()),
        "metadata" | "changes" => Value::Object(Map::new()),
        "conflicts" => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_of(value: &Value) -> Value {
        redacted(value.as_object().cloned().unwrap_or_default()).into()
    }

    #[test]
    fn what_is_not_known_to_be_no_word_goes() {
        let id = "usr_0190163d8694739b85d52d5e4a4d6d5f";
        let cases = [
            (json!({"title": "secret"}), json!({"title": ""})),
            (json!({"metadata": {"secret": 7}}), json!({"metadata": {}})),
            (
                json!({"message": "secret", "label": "secret"}),
                json!({"message": null, "label": null}),
            ),
            (json!({"branch": "secret"}), json!({"branch": ""})),
            (json!({"branch": "main"}), json!({"branch": "main"})),
            (json!({"author": "secret"}), json!({"author": null})),
            (json!({"author": id}), json!({"author": id})),
            (
                json!({"uses": "secret", "number": 3}),
                json!({"uses": null, "number": 3}),
            ),
            (
                json!({"role": "secret", "removed": "secret"}),
                json!({"role": null, "removed": null}),
            ),
            (json!({"created_at": "secret"}), json!({"created_at": null})),
            (
                json!({"added_later": "secret", "age": 17, "more": {"of": ["it"]}}),
                json!({"added_later": null, "age": null, "more": null}),
            ),
            (
                json!({"comment": {"body": "secret", "added_later": "secret"}}),
                json!({"comment": {"body": "", "added_later": null}}),
            ),
            (json!({"parents": [id, "secret"]}), json!({"parents": [id]})),
            (
                json!({"collaborators": [{"user_id": id, "email": "secret"}, "secret"]}),
                json!({"collaborators": [{"user_id": id, "email": null}, null]}),
            ),
        ];
        for (before, after) in cases {
            assert_eq!(left_of(&before), after, "{before}");
        }
    }
}
