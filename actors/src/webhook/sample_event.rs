//! Events that never happened, for trying an endpoint out: of the shape of real ones, with
//! identifiers of nothing.

use bytes::Bytes;
use serde_json::{Value, json};

use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::{Event, EventRow, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{
    AccountId, ConversationId, CustomerId, DocumentId, Id, KeyId, MessageId, Prefix, UserId,
};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::time::Timestamp;

/// The kinds of identifiers that only samples make up.
enum VersionKind {}
impl Prefix for VersionKind {
    const PREFIX: &'static str = "ver";
    const NOUN: &'static str = "a version";
}
enum ShareKind {}
impl Prefix for ShareKind {
    const PREFIX: &'static str = "shr";
    const NOUN: &'static str = "a share link";
}
enum CommentKind {}
impl Prefix for CommentKind {
    const PREFIX: &'static str = "cmt";
    const NOUN: &'static str = "a comment";
}

/// A sample of this kind, as of now.
pub(super) fn sample(kind: EventKind, tenant: Tenant, now: Timestamp) -> Event {
    // So large that no real position is like it: the event's identifier is made of it.
    let position = i64::try_from(colloquy_model::random::u64() >> 2).unwrap_or(i64::MAX);
    let row = EventRow {
        position: Position(position),
        tenant,
        number: FeedNumber(1),
        entity: EntityNumber(1),
        sequence: Sequence(1),
        kind,
        at: now,
        credential: None,
        text_bytes: 0,
    };
    let payload = serde_json::to_vec(&data(kind, now)).unwrap_or_default();
    Event::new(row, SeenNow::default(), Bytes::from(payload))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no public event has no data; a test asks for that of every one"
)]
fn data(kind: EventKind, now: Timestamp) -> Value {
    match kind {
        EventKind::ConversationCreated => conversation(now),
        EventKind::ConversationUpdated => {
            let changes = json!({"priority": {"from": "normal", "to": "high"}});
            with(
                conversation(now),
                [("priority", json!("high")), ("changes", changes)],
            )
        }
        EventKind::ConversationClosed => {
            let changes = json!({"status": {"from": "active", "to": "closed"}});
            let closed = [("status", json!("closed")), ("closed_at", json!(now))];
            with(
                with(conversation(now), closed),
                [("changes", changes), ("reason", json!("resolved"))],
            )
        }
        EventKind::ConversationErased => erased(now),
        EventKind::MessageCreated => message(now),
        EventKind::MessageUpdated => with(
            message(now),
            [
                ("content", json!("Where is my order 1234?")),
                ("edited_at", json!(now)),
            ],
        ),
        EventKind::DocumentUpdated => {
            let changes = json!({"title": {"from": "Draft", "to": "Returns policy"}});
            with(document(now), [("changes", changes)])
        }
        EventKind::DocumentCreated | EventKind::DocumentRestored => document(now),
        EventKind::DocumentDeleted => with(document(now), [("permanent", json!(false))]),
        EventKind::DocumentVersionCreated | EventKind::DocumentMerged => {
            let parents = 1 + usize::from(kind == EventKind::DocumentMerged);
            with(
                document(now),
                [
                    ("version", version(now, parents)),
                    ("version_number", json!(parents + 1)),
                ],
            )
        }
        EventKind::DocumentShared => with(document(now), [("share", share(now))]),
        EventKind::DocumentPermissionsUpdated => {
            let user = json!({"user_id": UserId::new(now), "email": "grace@example.com", "role": "editor", "added_at": now});
            with(document(now), [("collaborators", json!([user]))])
        }
        EventKind::DocumentCommented => with(document(now), [("comment", comment(now))]),
        EventKind::AccountQuotaWarning => json!({
            "account_id": AccountId::new(now), "percent": 80, "used": 800_000, "limit": 1_000_000,
            "month": now.to_string().get(..7),
        }),
        EventKind::AccountRateLimited => json!({
            "account_id": AccountId::new(now), "key_id": KeyId::new(now), "limit": 600,
            "burst": 900, "at": now,
        }),
        _ => Value::Null,
    }
}

fn with<const N: usize>(mut object: Value, fields: [(&str, Value); N]) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}

/// A conversation without what people wrote.
fn erased(now: Timestamp) -> Value {
    let mut left = conversation(now);
    if let Some(left) = left.as_object_mut() {
        left.retain(|name, _| !["customer", "metadata", "snoozed_until"].contains(&&**name));
    }
    left
}

fn conversation(now: Timestamp) -> Value {
    let customer = CustomerId::new(now);
    json!({
        "conversation_id": ConversationId::new(now),
        "customer_id": customer,
        "customer": {"id": customer, "name": "Ada Lovelace"},
        "status": "active",
        "channel": "chat",
        "priority": "normal",
        "assignee_id": null,
        "metadata": {},
        "message_count": 0,
        "last_message_at": null,
        "snoozed_until": null,
        "created_at": now,
        "updated_at": now,
        "closed_at": null,
    })
}

fn message(now: Timestamp) -> Value {
    json!({
        "message_id": MessageId::with_sequence(now, Sequence(1)),
        "conversation_id": ConversationId::new(now),
        "seq": 1,
        "content": "Where is my order?",
        "type": "text",
        "sender_type": "customer",
        "sender_id": CustomerId::new(now),
        "metadata": {},
        "sent_at": now,
        "edited_at": null,
        "redacted": false,
    })
}

fn document(now: Timestamp) -> Value {
    let author = UserId::new(now);
    json!({
        "id": DocumentId::new(now),
        "title": "Returns policy",
        "content_type": "text/markdown",
        "metadata": {},
        "owner_id": author,
        "version": Id::<VersionKind>::new(now),
        "version_number": 1,
        "role": null,
        "created_at": now,
        "updated_at": now,
        "created_by": author,
        "updated_by": author,
    })
}

fn version(now: Timestamp, parents: usize) -> Value {
    let parents: Vec<Id<VersionKind>> = (0..parents).map(|_| Id::new(now)).collect();
    json!({
        "id": Id::<VersionKind>::new(now),
        "document_id": DocumentId::new(now),
        "number": parents.len() + 1,
        "label": null,
        "branch": "main",
        "parents": parents,
        "message": "Say how long a refund takes",
        "author": UserId::new(now),
        "created_at": now,
    })
}

fn share(now: Timestamp) -> Value {
    json!({
        "share_id": Id::<ShareKind>::new(now),
        "role": "viewer",
        "expires_at": null,
        "max_uses": null,
        "uses": 0,
        "has_password": false,
        "created_at": now,
    })
}

fn comment(now: Timestamp) -> Value {
    json!({
        "comment_id": Id::<CommentKind>::new(now),
        "version": Id::<VersionKind>::new(now),
        "start_line": 1,
        "end_line": 1,
        "body": "Which countries?",
        "author": UserId::new(now),
        "resolved": false,
        "outdated": false,
        "created_at": now,
        "updated_at": now,
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use super::*;
    use colloquy_model::conversation::MessageView;

    #[test]
    fn every_kind_has_a_sample_in_the_shape_of_an_event() {
        for kind in EventKind::EVENTS {
            let event = sample(*kind, Tenant::OPERATORS, Timestamp(1_773_570_600_000));
            let body: Value = serde_json::from_slice(&event.body()).unwrap();
            assert_eq!(
                (&body["event"], &body["seq"]),
                (&json!(kind.word()), &json!(1))
            );
            assert_eq!(body["id"], json!(event.id()));
            let fields = if kind.is_alert() { 5 } else { 11 };
            assert!(
                body["data"]
                    .as_object()
                    .is_some_and(|data| data.len() >= fields),
                "{body}"
            );
            if matches!(kind, EventKind::MessageCreated | EventKind::MessageUpdated) {
                let shown: MessageView = serde_json::from_value(body["data"].clone()).unwrap();
                assert_eq!(json!(shown), body["data"]);
            }
        }
    }
}
