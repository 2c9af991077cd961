//! Conversations and records as their collections have them, for whoever lists or loads them.

use serde::Deserialize;

use super::codec::uint;
use super::header::StateDocument;
use crate::store::StoredRecord;
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::sequence::Sequence;

/// A conversation as the collection has it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ConversationDocument {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    pub(super) tail: i64,
    pub(super) tenant: i64,
    #[serde(flatten)]
    pub(super) state: StateDocument,
    #[serde(default)]
    pub(super) customer_name: String,
    pub(super) messages: i64,
    pub(super) last_message_at: Option<i64>,
    pub(super) updated_at: i64,
}

/// A record as the collection has it; one that is gone has neither name nor body.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RecordDocument {
    #[serde(rename = "_id")]
    pub(super) number: i64,
    pub(super) tail: i64,
    pub(super) tenant: i64,
    pub(super) seq: i64,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) body: String,
}

impl RecordDocument {
    /// The record as its actor begins with it.
    pub(super) fn stored(self, kind: Kind) -> StoredRecord {
        StoredRecord {
            subject: Subject {
                kind,
                number: uint(self.number),
                tail: uint(self.tail),
            },
            tenant: Tenant::from_number(self.tenant),
            sequence: Sequence(uint(self.seq)),
            name: self.name.into(),
            body: self.body,
        }
    }
}
