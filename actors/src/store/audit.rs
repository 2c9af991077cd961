//! The log of changes as the audit trail: who did what, and what became of it. Every row of the log
//! is a record of it.

use bytes::Bytes;
use colloquy_model::audit::{AuditAction, AuditOutcome};
use colloquy_model::caller::{CredentialId, Tenant};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::page::Paging;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Which records of the audit trail a list shows, and which page of it.
#[derive(Debug, Clone)]
pub struct AuditQuery {
    /// The account whose trail it is, in both modes; [`Tenant::OPERATORS`]: that of all accounts and
    /// of the operators.
    pub trail: Tenant,
    /// The account itself, whose records are the operators', but of its trail.
    pub account: Option<EntityNumber>,
    /// Only what this user, or the holder of this credential, did.
    pub actor: Option<EntityNumber>,
    /// Only this.
    pub action: Option<AuditAction>,
    /// Only what was done to this.
    pub subject: Option<Subject>,
    /// Only what was done, or only what was refused.
    pub outcome: Option<AuditOutcome>,
    /// Only after this instant …
    pub since: Option<Timestamp>,
    /// … and before this one.
    pub until: Option<Timestamp>,
    /// The page.
    pub paging: Paging,
}

impl AuditQuery {
    /// Whether the list shows this action.
    #[must_use]
    pub fn admits(&self, action: AuditAction) -> bool {
        self.action.is_none_or(|wanted| wanted == action)
            && self.outcome.is_none_or(|wanted| wanted == action.outcome())
    }
}

/// One record of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place in the log.
    pub position: Position,
    /// When it was done.
    pub at: Timestamp,
    /// Whose data it is.
    pub tenant: Tenant,
    /// To what it was done; none where the identifier is not known any more.
    pub subject: Option<Subject>,
    /// What was done; none of a record that is gone and of which nothing says what it was.
    pub action: Option<AuditAction>,
    /// The kind of the row.
    pub event: EventKind,
    /// What it was done with; none where that is not known any more.
    pub credential: Option<CredentialId>,
    /// The user in whose name it was done.
    pub user: Option<UserId>,
    /// Where the request came from.
    pub address: Option<String>,
    /// The request.
    pub request_id: String,
    /// What the row says; none where that was freed.
    pub payload: Option<Bytes>,
    /// What the row before it of the same record says.
    pub before: Option<Bytes>,
}
