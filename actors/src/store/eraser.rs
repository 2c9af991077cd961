//! A sink without views, for erasing what is still to be erased before an export.

use super::sink::{CommitSink, CommittedBatch, Followed, HeldName, KeyCache, KeyUse};
use super::{KeyPosition, KeySlice, StoredRecord};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::WebhookId;
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Knows nothing of what is erased but what may stay of its JSON.
pub(super) struct Eraser(pub(super) fn(&[u8]) -> Vec<u8>);

impl CommitSink for Eraser {
    fn recovered_record(&self, _: &StoredRecord, _: Timestamp) -> serde_json::Result<()> {
        Ok(())
    }
    fn recovered_endpoint(&self, _: WebhookId, _: Tenant) {}
    fn recovered_name(&self, _: EntityNumber, _: &str, _: Sequence) {}
    fn opened(&self, _: Position) {}
    fn committed(&self, _: CommittedBatch) {}
    fn followed(&self, _: Vec<Followed>, _: Position) {}
    fn names_held(&self) -> Vec<HeldName> {
        Vec::new()
    }
    fn name_copied(&self, _: EntityNumber, _: Sequence) {}
    fn key_uses(&self) -> Vec<KeyUse> {
        Vec::new()
    }
    fn redacted(&self, json: &[u8]) -> Vec<u8> {
        (self.0)(json)
    }
    fn keys(&self) -> &dyn KeyCache {
        self
    }
}

impl KeyCache for Eraser {
    fn note_recovered(&self, _: &KeyHash, _: Position) {}
    fn overflow(&self) -> Option<Vec<KeyPosition>> {
        None
    }
    fn slices_to_merge(&self) -> Option<Vec<i64>> {
        None
    }
    fn put_behind(&self, _: KeySlice, _: &[i64]) {}
    fn drop_slice(&self, _: i64) {}
}
