//! The shapes of the contract's section 1: every field is always there, and no other.

use serde_json::Value;

pub(crate) const ACCOUNT: &str = "account_id, name, plan, rate_per_minute, burst_per_minute, monthly_quota, allowed_ips, \
    auto_close_after_minutes, retention_days, domains, cors_origins, created_at, updated_at";
pub(crate) const KEY: &str = "key_id, account_id, type, name, prefix, last4, scopes, allowed_ips, expires_at, user_id, \
    require_signature, created_at, last_used_at, revoked_at";
pub(crate) const CUSTOMER: &str =
    "customer_id, name, email, external_id, metadata, created_at, updated_at";
pub(crate) const USER: &str = "user_id, name, email, role, created_at, updated_at";
pub(crate) const CONVERSATION: &str = "conversation_id, customer_id, customer, status, channel, priority, assignee_id, \
    metadata, message_count, last_message_at, snoozed_until, created_at, updated_at, closed_at";
pub(crate) const MESSAGE: &str = "message_id, conversation_id, seq, content, type, sender_type, sender_id, metadata, \
    sent_at, edited_at, redacted";

pub(crate) const WEBHOOK: &str = "webhook_id, url, events, filter, description, enabled, disabled_reason, created_at, updated_at";
pub(crate) const DELIVERY: &str =
    "delivery_id, webhook_id, event_id, event, status, attempts, next_attempt_at, created_at";
pub(crate) const ATTEMPT: &str = "attempted_at, status, duration_ms, answer, error";
pub(crate) const EVENT: &str = "id, event, created_at, api_version, seq, data";

/// As lists show it; one that is read has `content` too.
pub(crate) const DOCUMENT: &str = "id, title, content_type, metadata, owner_id, version, version_number, role, \
    created_at, updated_at, created_by, updated_by";
/// As lists show it; one that is read has `content` too.
pub(crate) const VERSION: &str =
    "id, document_id, number, label, branch, parents, message, author, created_at";
pub(crate) const SHARE: &str =
    "share_id, role, expires_at, max_uses, uses, has_password, created_at";
pub(crate) const COLLABORATOR: &str = "user_id, email, role, added_at";
pub(crate) const PERMISSIONS: &str =
    "visibility, default_role, owner_id, collaborators, link_sharing";
pub(crate) const COMMENT: &str = "comment_id, version, start_line, end_line, body, author, resolved, outdated, \
    created_at, updated_at";
pub(crate) const ACTIVITY: &str = "id, action, actor, at, version, details";
pub(crate) const AUDIT: &str =
    "audit_id, at, actor, action, subject, outcome, address, request_id, details";

/// The names of an object's fields, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("no object: {value}"));
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Fails unless the object has exactly these fields.
pub(crate) fn assert_shape(value: &Value, shape: &str) {
    let mut expected: Vec<&str> = shape.split(',').map(str::trim).collect();
    expected.sort_unstable();
    assert_eq!(keys(value), expected, "{value}");
}

/// Fails unless it is this prefix and a version 7 UUID in 32 hex digits.
pub(crate) fn assert_id(value: &Value, prefix: &str) {
    let digits = value
        .as_str()
        .and_then(|text| text.strip_prefix(prefix))
        .unwrap_or_default();
    let hex = digits
        .chars()
        .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    assert!(
        hex && digits.len() == 32 && digits.as_bytes()[12] == b'7',
        "no {prefix} id: {value}"
    );
}

/// Fails unless it is RFC 3339, UTC, milliseconds, `Z`, and close to now; gives the instant.
pub(crate) fn instant(value: &Value) -> chrono::DateTime<chrono::Utc> {
    let text = value.as_str().unwrap_or_default();
    let parsed = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.3fZ");
    let at = parsed
        .unwrap_or_else(|error| panic!("{value} is no timestamp: {error}"))
        .and_utc();
    assert_eq!(text.len(), "2026-03-15T10:30:00.000Z".len(), "{value}");
    at
}

/// Fails unless the instant is within a minute of now.
pub(crate) fn assert_recent(value: &Value) {
    let off = (chrono::Utc::now() - instant(value)).num_seconds().abs();
    assert!(off < 60, "{value} is {off} s off");
}
