//! What stays of a conversation's and its customer's events and kept answers once they are erased:
//! identifiers, numbers, times and words of the interface, so that figures can be counted again.

use serde_json::{Map, Value};

use crate::redaction::{Kept, Redaction, is_one};
use colloquy_model::conversation::{Channel, MessageType, Priority, SenderType, Status};

/// All fields that may keep something.
const KEPT: &[(&str, Kept)] = &[
    ("conversation_id", Kept::Ids),
    ("customer_id", Kept::Ids),
    ("message_id", Kept::Ids),
    ("attachment_id", Kept::Ids),
    ("assignee_id", Kept::Ids),
    ("sender_id", Kept::Ids),
    ("id", Kept::Ids),
    ("customer", Kept::Inside),
    ("status", Kept::Word(is_one::<Status>)),
    ("channel", Kept::Word(is_one::<Channel>)),
    ("priority", Kept::Word(is_one::<Priority>)),
    ("type", Kept::Word(is_one::<MessageType>)),
    ("sender_type", Kept::Word(is_one::<SenderType>)),
    ("message_count", Kept::Count),
    ("seq", Kept::Count),
    ("bytes", Kept::Count),
    ("last_message_at", Kept::Time),
    ("snoozed_until", Kept::Time),
    ("created_at", Kept::Time),
    ("updated_at", Kept::Time),
    ("closed_at", Kept::Time),
    ("sent_at", Kept::Time),
    ("edited_at", Kept::Time),
    ("changes", Kept::Changes),
];

/// What may stay of the JSON of conversations, messages, customers and attachments.
const REDACTION: Redaction = Redaction { kept: KEPT, empty };

/// The fields by which JSON of these is told from that of documents.
const OWN: [&str; 3] = ["conversation_id", "customer_id", "attachment_id"];

/// The JSON of a conversation, a message, a customer or an attachment without what people wrote: what
/// an event or a kept answer of an erased one still shows. None where it is that of something else.
#[must_use]
pub(crate) fn redacted(fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    let is_own = OWN.iter().any(|name| fields.contains_key(*name));
    is_own.then(|| REDACTION.of(fields.clone()))
}

/// What stands in a field that keeps nothing: the interface promises some a shape.
fn empty(name: &str) -> Value {
    match name {
        "name" | "content" | "content_type" | "sha256" => Value::String(String::new()),
        "metadata" => Value::Object(Map::new()),
        "redacted" => Value::Bool(true),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_of(value: &Value) -> Option<Value> {
        redacted(value.as_object()?).map(Value::from)
    }

    #[test]
    fn identifiers_numbers_and_our_own_words_stay_and_nothing_else() {
        let id = "conv_0190163d8694739b85d52d5e4a4d6d5f";
        let customer = "cus_0190163d8694739b85d52d5e4a4d6d5f";
        let time = "2026-03-15T10:30:00.000Z";
        let cases = [
            (
                json!({"conversation_id": id, "customer": {"id": customer, "name": "secret"}, "status": "active",
                    "metadata": {"status": "secret"}, "message_count": 3, "closed_at": time, "reason": "secret",
                    "changes": {"status": {"from": "closed", "to": "active"}, "metadata": {"from": {}, "to": {"a": "secret"}},
                        "assignee_id": {"from": null, "to": "secret"}}}),
                json!({"conversation_id": id, "customer": {"id": customer, "name": ""}, "status": "active",
                    "metadata": {}, "message_count": 3, "closed_at": time, "reason": null,
                    "changes": {"status": {"from": "closed", "to": "active"}, "assignee_id": {"from": null, "to": null}}}),
            ),
            (
                json!({"conversation_id": id, "seq": 7, "content": "secret", "type": "text", "sender_type": "secret",
                    "redacted": false, "attachment": {"filename": "secret"}}),
                json!({"conversation_id": id, "seq": 7, "content": "", "type": "text", "sender_type": null,
                    "redacted": true, "attachment": null}),
            ),
            (
                json!({"customer_id": customer, "name": "secret", "email": "secret", "external_id": "secret",
                    "added_later": "secret", "age": 17}),
                json!({"customer_id": customer, "name": "", "email": null, "external_id": null,
                    "added_later": null, "age": null}),
            ),
        ];
        for (before, after) in cases {
            assert_eq!(left_of(&before), Some(after), "{before}");
        }
        assert_eq!(left_of(&json!({"id": id, "title": "secret"})), None);
    }
}
