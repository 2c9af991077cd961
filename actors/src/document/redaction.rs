//! What stays of a document's events and kept answers once it is erased: identifiers, numbers,
//! times and words of the interface, each where it is known to stand. Whatever stands elsewhere
//! goes, what is added to an event later too.

use serde_json::{Map, Value};

use super::access::{DocumentRole, Visibility};
use super::names::{ContentType, MAIN};
use colloquy_model::time::Timestamp;

/// What a field of an erased document's JSON may keep.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// Identifiers: one, or a list of them.
    Ids,
    /// A number that counts something of ours.
    Count,
    /// A JSON boolean.
    Truth,
    /// A time in RFC 3339.
    Time,
    /// One of the interface's own words, such as a role.
    Word(fn(&str) -> bool),
    /// What its own fields may keep: of one object, or of a list of them.
    Inside,
}

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

/// The same JSON without what people wrote: what an event or a kept answer of an erased document
/// still shows.
#[must_use]
pub fn redacted(json: &[u8]) -> Vec<u8> {
    if json.is_empty() {
        return Vec::new();
    }
    let left = match serde_json::from_slice(json) {
        Ok(Value::Object(fields)) => Value::Object(without_words(fields)),
        Ok(_) | Err(_) => Value::Null,
    };
    serde_json::to_vec(&left).unwrap_or_default()
}

fn without_words(fields: Map<String, Value>) -> Map<String, Value> {
    let left = |(name, value): (String, Value)| {
        let rule = KEPT.iter().find(|(known, _)| *known == name);
        let kept = rule.and_then(|(_, kept)| kept.left_of(value));
        let kept = kept.unwrap_or_else(|| empty(&name));
        (name, kept)
    };
    fields.into_iter().map(left).collect()
}

impl Kept {
    /// What stays of a value; none where it is not what may stand there.
    fn left_of(self, value: Value) -> Option<Value> {
        let is_id = |value: &Value| value.as_str().is_some_and(is_id);
        match (self, value) {
            (Kept::Inside, Value::Object(fields)) => Some(Value::Object(without_words(fields))),
            (Kept::Inside, Value::Array(items)) => {
                let left = items
                    .into_iter()
                    .map(|item| Kept::Inside.left_of(item).unwrap_or_default());
                Some(Value::Array(left.collect()))
            }
            (Kept::Ids, Value::Array(items)) => {
                Some(Value::Array(items.into_iter().filter(is_id).collect()))
            }
            (Kept::Ids | Kept::Inside, value) => Some(value).filter(is_id),
            (Kept::Count, value) => Some(value).filter(Value::is_u64),
            (Kept::Truth, value) => Some(value).filter(Value::is_boolean),
            (Kept::Time, value) => Some(value).filter(|value| {
                value
                    .as_str()
                    .is_some_and(|text| text.parse::<Timestamp>().is_ok())
            }),
            (Kept::Word(known), value) => {
                Some(value).filter(|value| value.as_str().is_some_and(known))
            }
        }
    }
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

/// A prefix of small letters and 32 hex digits.
fn is_id(text: &str) -> bool {
    let digits = |text: &str| {
        text.len() == 32
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_prefix = |prefix: &str| {
        (3..=4).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_lowercase())
    };
    text.split_once('_')
        .is_some_and(|(prefix, rest)| is_prefix(prefix) && digits(rest))
}

/// Whether a word is one of those that this can be.
fn is_one<T: serde::de::DeserializeOwned>(word: &str) -> bool {
    serde_json::from_value::<T>(Value::String(word.to_owned())).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_of(value: &Value) -> Value {
        serde_json::from_slice(&redacted(value.to_string().as_bytes())).unwrap_or_default()
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
        assert_eq!(
            (
                redacted(b""),
                redacted(b"broken"),
                redacted(b"[\"secret\"]")
            ),
            (vec![], b"null".to_vec(), b"null".to_vec())
        );
    }
}
