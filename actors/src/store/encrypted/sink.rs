//! What a store of encrypted texts tells of what it holds and follows, as people wrote it.

use std::sync::Arc;

use super::opening::Opened;
use crate::sealing::texts::{self, TextError};
use crate::store::{
    CommitSink, CommittedBatch, Followed, HeldName, KeyCache, KeyUse, StoredRecord,
};
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::id::WebhookId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Hands on what a store tells, with its texts as they were before they were encrypted. Those of an
/// account that was forgotten are left out.
pub struct OpeningSink(pub Arc<dyn CommitSink>);

/// What was read; none where that can't be, which is told unless the account was forgotten.
fn told<T>(found: Result<T, TextError>, place: impl std::fmt::Display) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(TextError::Forgotten) => None,
        Err(error @ (TextError::NoKey | TextError::Damaged)) => {
            Unreadable::found(place, error);
            None
        }
    }
}

impl CommitSink for OpeningSink {
    fn recovered_record(
        &self,
        record: &StoredRecord,
        last_used: Timestamp,
    ) -> serde_json::Result<()> {
        self.0.recovered_record(record, last_used)
    }

    fn recovered_endpoint(&self, id: WebhookId, tenant: Tenant) {
        self.0.recovered_endpoint(id, tenant);
    }

    fn recovered_name(&self, customer: EntityNumber, name: &str, revision: Sequence) {
        if let Some(name) = told(texts::opened_text(name), customer) {
            self.0.recovered_name(customer, &name, revision);
        }
    }

    fn opened(&self, position: Position) {
        self.0.opened(position);
    }

    fn committed(&self, batch: CommittedBatch) {
        self.0.committed(batch);
    }

    fn followed(&self, mut batch: Vec<Followed>, position: Position) {
        for followed in &mut batch {
            let events = std::mem::take(&mut followed.events).into_iter();
            let opened = |event: Event| {
                let id = event.id();
                told(event.opened(), id)
            };
            followed.events = events.filter_map(opened).collect();
            followed.renamed = followed
                .renamed
                .take()
                .and_then(|name| told(name.opened(), followed.subject));
        }
        self.0.followed(batch, position);
    }

    fn names_held(&self) -> Vec<HeldName> {
        self.0.names_held()
    }

    fn name_copied(&self, customer: EntityNumber, revision: Sequence) {
        self.0.name_copied(customer, revision);
    }

    fn key_uses(&self) -> Vec<KeyUse> {
        self.0.key_uses()
    }

    /// Without words there is nothing left to encrypt. Of what can't be read nothing stays.
    fn redacted(&self, json: &[u8]) -> Vec<u8> {
        match told(texts::opened(json), "what is erased") {
            Some(json) => self.0.redacted(&json),
            None => self.0.redacted(b"null"),
        }
    }

    fn keys(&self) -> &dyn KeyCache {
        self.0.keys()
    }
}
