//! Rows of the log that say less than was hashed: what tells why. A redaction and an erasing are rows
//! of the chain themselves, retention has its floor; whatever else takes a salt away is no work of the
//! server.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};

use super::codec::uint;
use super::find::one;
use super::loads::last_of;
use super::log::LogDocument;
use super::places::{PlaceDocument, message_id};
use super::retention::{self, FREED};
use super::schema::{CONVERSATIONS, Collections, DOCUMENTS, LOG, MESSAGES, RECORDS};
use super::sealed_documents::LoggedRecord;
use crate::store::ReadError;
use crate::store::audit_chain::{Left, is_altered};
use colloquy_model::caller::Tenant;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// What was read to explain such rows.
pub(super) struct Explanations<'c> {
    collections: &'c Collections,
    floors: HashMap<i64, Position>,
}

impl<'c> Explanations<'c> {
    pub(super) fn of(collections: &'c Collections) -> Self {
        Explanations {
            collections,
            floors: HashMap::new(),
        }
    }

    /// Whether nothing is missing of what this record says, or anything tells why it is.
    pub(super) async fn explain(&mut self, record: &LoggedRecord<'_>) -> Result<bool, ReadError> {
        let Some(row) = record.row.filter(|row| row.salt.is_none()) else {
            return Ok(true);
        };
        let Some(event) = EventKind::of_row(row.kind.into()) else {
            return Ok(row.hash.bytes.is_empty());
        };
        let left = row.payload.as_bytes();
        if row.hash.bytes.is_empty() || self.is_erased(record.document.entity).await? {
            Ok(true)
        } else if event == EventKind::MessageCreated {
            let own = record.sequence().unwrap_or(0);
            self.is_redacted(record, Sequence(uint(own))).await
        } else if event == EventKind::MessageUpdated {
            match row.edits {
                Some(original) => self.is_redacted(record, Sequence(uint(original))).await,
                None => Ok(false),
            }
        } else if FREED.contains(&event) {
            let floor = self.floor(record.document.tenant).await?;
            Ok(left.is_empty() && record.position <= floor.0)
        } else {
            Ok(false)
        }
    }

    /// Whether a later row, which is as it was written, redacts this message and has left it so.
    async fn is_redacted(
        &self,
        record: &LoggedRecord<'_>,
        original: Sequence,
    ) -> Result<bool, ReadError> {
        let entity = record.document.entity;
        let id = message_id(entity, original);
        let place: Option<PlaceDocument> =
            one(self.collections, MESSAGES, doc! {"_id": id}).await?;
        let Some(last) = place.and_then(|place| place.now()) else {
            return Ok(false);
        };
        let of_last = doc! {"_id": &last.stored_in};
        let document: Option<LogDocument> = one(self.collections, LOG, of_last).await?;
        let Some(document) = document.filter(|document| document.entity == entity) else {
            return Ok(false);
        };
        let sequence = Sequence(uint(last.seq));
        let placed = document.placed_rows().find(|(_, of, _)| *of == sequence);
        Ok(placed.is_some_and(|(position, _, row)| {
            let said = row.payload.as_bytes();
            let is_whole = row
                .salt
                .as_ref()
                .is_some_and(|salt| !is_altered(&salt.bytes, said, &row.hash.bytes));
            let left = Left {
                original,
                said: record.row.map_or(&[], |row| row.payload.as_bytes()),
            };
            is_whole
                && position.0 > record.position
                && row.kind == EventKind::MessageUpdated as i32
                && left.is_by(said)
        }))
    }

    /// Whether this entity was taken away for good, with all that was said
    /// of it.
    async fn is_erased(&self, entity: i64) -> Result<bool, ReadError> {
        let last = last_of(self.collections, uint(entity)).await?;
        let last = last.as_ref().and_then(|last| last.rows.last());
        let last = last.and_then(|row| EventKind::of_row(row.kind.into()));
        if !last.is_some_and(EventKind::ends_with_its_words) {
            return Ok(false);
        }
        for collection in [DOCUMENTS, CONVERSATIONS, RECORDS] {
            let there = doc! {"_id": entity, "gone": {"$ne": true}};
            let there: Option<Document> = one(self.collections, collection, there).await?;
            if there.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn floor(&mut self, tenant: i64) -> Result<Position, ReadError> {
        if let Some(floor) = self.floors.get(&tenant) {
            return Ok(*floor);
        }
        let floor = retention::floor(self.collections, Tenant::from_number(tenant)).await?;
        self.floors.insert(tenant, floor);
        Ok(floor)
    }
}
