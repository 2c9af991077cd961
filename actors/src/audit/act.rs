//! What is done or refused without a commit of its own, as a row of the log.

use colloquy_model::caller::Caller;
use colloquy_model::commit::{Commit, NewRow};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AuditId;
use colloquy_model::json;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// To what something was done that is no entity of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What it is: `actor`, `node`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its identifier.
    pub id: String,
}

/// Something to be recorded.
#[derive(Debug, Clone)]
pub struct AuditedAct {
    /// What was done.
    pub event: EventKind,
    /// To what.
    pub target: Option<Target>,
    /// What is told of it beside.
    pub details: Map<String, Value>,
}

/// What the row of such an act says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ActRow {
    pub(super) subject: Option<Target>,
    pub(super) details: Map<String, Value>,
}

impl AuditedAct {
    /// The commit that records it. It stands for itself: nothing comes before or behind it.
    pub(super) fn commit(self, caller: Caller, now: Timestamp) -> Commit {
        let AuditedAct {
            event,
            target,
            details,
        } = self;
        let id = AuditId::new(now);
        let subject = Subject {
            kind: Kind::Audit,
            number: id.number(),
            tail: id.tail(),
        };
        let row = ActRow {
            subject: target,
            details,
        };
        let mut commit = Commit::new(subject, Sequence::ZERO, caller, now);
        commit.rows.push(NewRow::new(event, json::bytes(&row)));
        commit
    }
}
