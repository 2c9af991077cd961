//! A record of the audit trail as the interface shows it.

use colloquy_model::audit::AuditOutcome;
use colloquy_model::caller::CredentialId;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AccountId, AuditId};
use colloquy_model::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::act::ActRow;
use super::details;
use crate::store::AuditRow;

/// A record of the audit trail.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = AuditRecord)]
pub struct AuditView {
    /// The record's identifier.
    pub audit_id: AuditId,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it; null where nobody is known.
    pub actor: Option<AuditActor>,
    /// What was done: the kind of the event where there is one, else such as `key.created`.
    pub action: String,
    /// To what it was done.
    pub subject: Option<AuditSubject>,
    /// Whether it was done or refused.
    pub outcome: AuditOutcome,
    /// The address that the request came from.
    pub address: Option<String>,
    /// The request, as its answer named it; of what the server did by itself, the chore.
    pub request_id: String,
    /// What else is known: names of fields, identifiers, reasons. Never a text of a message or a
    /// document, never a secret.
    #[schema(value_type = Object)]
    pub details: Value,
}

/// Who did it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AuditActor {
    /// `key`, `client`, `user`, `operator`, or `system` for the server itself.
    #[serde(rename = "type")]
    #[schema(pattern = "^(key|client|user|operator|system)$")]
    pub kind: &'static str,
    /// The identifier; none of the server.
    pub id: Option<String>,
}

/// To what it was done.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AuditSubject {
    /// Its kind, such as `key` or `conversation`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its identifier.
    pub id: String,
}

impl AuditView {
    pub(super) fn of(row: &AuditRow, account: Option<AccountId>) -> Self {
        let payload = row.payload.as_deref();
        let act: Option<ActRow> = payload
            .filter(|_| {
                row.subject
                    .is_some_and(|subject| subject.kind == Kind::Audit)
            })
            .and_then(|payload| serde_json::from_slice(payload).ok());
        let subject = match (&act, row.subject) {
            (Some(act), _) => act.subject.as_ref().map(|target| AuditSubject {
                kind: target.kind.clone(),
                id: target.id.clone(),
            }),
            (None, Some(subject)) if subject.kind != Kind::Audit => Some(AuditSubject {
                kind: subject.kind.word().to_owned(),
                id: subject.to_string(),
            }),
            (None, _) => None,
        };
        let mut details = act.map_or_else(|| details::of(row), |act| act.details);
        details::add_origin(row, account, &mut details);
        AuditView {
            audit_id: AuditId::at_position(row.at, row.position),
            at: row.at,
            actor: actor(row),
            action: action(row),
            subject,
            outcome: match row.event.is_refusal() {
                true => AuditOutcome::Refused,
                false => AuditOutcome::Done,
            },
            address: row.address.clone(),
            request_id: row.request_id.clone(),
            details: Value::Object(details),
        }
    }
}

fn action(row: &AuditRow) -> String {
    if let Some(action) = row.action {
        return action.word().into_owned();
    }
    let done = if row.event == EventKind::RecordCreated {
        "created"
    } else if row.event == EventKind::RecordDeleted {
        "deleted"
    } else {
        "updated"
    };
    format!("record.{done}")
}

/// Who did it: a user by whatever credential, else the credential's holder.
fn actor(row: &AuditRow) -> Option<AuditActor> {
    if let Some(user) = row.user {
        return Some(AuditActor {
            kind: "user",
            id: Some(user.to_string()),
        });
    }
    let (kind, id) = match row.credential? {
        CredentialId::Key(id) => ("key", Some(id.to_string())),
        CredentialId::Client(id) => ("client", Some(id.to_string())),
        CredentialId::Operator(id) => ("operator", Some(id.to_string())),
        CredentialId::Session => ("user", None),
        CredentialId::Server => ("system", None),
        CredentialId::Visitor => return None,
    };
    Some(AuditActor { kind, id })
}
