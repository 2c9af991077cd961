//! What a record tells beside who, what and when: names of what has changed, and identifiers. No
//! value that anybody wrote is shown.

use colloquy_model::caller::{CredentialId, Mode, Tenant};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AccountId;
use serde_json::{Map, Value};

use crate::store::AuditRow;

/// Fields of a message's or a document's event that name something, with the name under which the
/// record has it; the path to it is of one or two steps.
const NAMES: &[(&[&str], &str)] = &[
    (&["message_id"], "message_id"),
    (&["version", "id"], "version_id"),
    (&["share", "share_id"], "share_id"),
    (&["comment", "comment_id"], "comment_id"),
    (&["permanent"], "permanent"),
];

/// Fields that change with every change.
const ALWAYS: &[&str] = &["updated_at", "created_at"];

/// What the row's own data tells.
pub(super) fn of(row: &AuditRow) -> Map<String, Value> {
    let mut details = Map::new();
    let parsed = |payload: &[u8]| serde_json::from_slice::<Map<String, Value>>(payload).ok();
    let Some(payload) = row.payload.as_deref().and_then(parsed) else {
        return details;
    };
    if EventKind::EVENTS.contains(&row.event) {
        for (path, name) in NAMES {
            if let Some(value) = found(&payload, path) {
                details.insert((*name).to_owned(), value.clone());
            }
        }
        if let Some(Value::Object(changes)) = payload.get("changes") {
            let names = changes.keys().map(|name| Value::from(name.as_str()));
            details.insert("changed".to_owned(), Value::Array(names.collect()));
        }
    }
    if let Some(before) = row.before.as_deref().and_then(parsed) {
        let changed = payload.iter().filter(|(name, value)| {
            !ALWAYS.contains(&name.as_str()) && before.get(*name) != Some(*value)
        });
        let names = changed.map(|(name, _)| Value::from(name.as_str()));
        details.insert("changed".to_owned(), Value::Array(names.collect()));
    }
    details
}

fn found<'p>(payload: &'p Map<String, Value>, path: &[&str]) -> Option<&'p Value> {
    let (first, rest) = path.split_first()?;
    let mut value = payload.get(*first)?;
    for step in rest {
        value = value.get(step)?;
    }
    (value.is_string() || value.is_boolean()).then_some(value)
}

/// In which mode it was done, by what a user did it, and in the operators' list for which account.
pub(super) fn add_origin(
    row: &AuditRow,
    account: Option<AccountId>,
    details: &mut Map<String, Value>,
) {
    let mut add = |name: &str, value: String| {
        details.insert(name.to_owned(), value.into());
    };
    if let Some(mode) = mode(row.tenant) {
        add("mode", mode.to_owned());
    }
    if let Some(account) = account {
        add("account_id", account.to_string());
    }
    match row.credential {
        Some(CredentialId::Key(id)) if row.user.is_some() => add("key_id", id.to_string()),
        Some(CredentialId::Client(id)) if row.user.is_some() => add("client_id", id.to_string()),
        _ => {}
    }
}

fn mode(tenant: Tenant) -> Option<&'static str> {
    let account = tenant.account_number();
    if tenant == Tenant::of(account, Mode::Live) {
        Some("live")
    } else if tenant == Tenant::of(account, Mode::Test) {
        Some("test")
    } else {
        None
    }
}
